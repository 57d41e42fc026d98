"""Ownership and contribution bounds of related tables, and weighted views of their rows (Lemma 0, unit mass)."""

import itertools

import numpy as np
import pandas as pd
import pytest

from weft.engines.family_rows import MAX_SIBLINGS, open_families, pair_weight, row_weight
from weft.errors import DataError
from weft.marginals.counting import count_marginals
from weft.marginals.records import sibling_pairs
from weft.schema.database import Database

SCHEMA = """
root = "patients"
[tables.patients]
key = "id"
columns.sex = {kind = "category", values = ["f", "m"]}
[tables.stays]
key = "stay"
foreign_keys = {patient = "patients.id"}
max_children = MOST
columns.ward = {kind = "category", values = ["a", "b"]}
[tables.drugs]
foreign_keys = {stay = "stays.stay"}
max_children = 2
columns.dose = {kind = "integer", range = [1, 3]}
"""


WARDS = {"ward": (np.arange(2), 2)}


class Still:
    """Randomness that keeps rows in their order: the coupling of Lemma 0, in which shared rows have equal numbers."""

    def random(self, n):
        return np.zeros(n)


def tables(patients, stays, drugs):
    return {
        "patients": pd.DataFrame(patients, columns=["id", "sex"]).astype(str),
        "stays": pd.DataFrame(stays, columns=["stay", "patient", "ward"]).astype("string"),
        "drugs": pd.DataFrame(drugs, columns=["stay", "dose"]).astype({"stay": "string", "dose": "int64"}),
    }


def opened(data, most=3, rng=None):
    return open_families(Database.from_toml(SCHEMA.replace("MOST", str(most))), data, {}, rng=rng or Still())


HOSPITAL = (
    [("p1", "f"), ("p2", "m"), ("p3", "f"), ("p2", "f")],  # p2 twice
    [
        *[(f"s{i}", "p1", "ab"[i % 2]) for i in range(5)],  # above the bound
        ("s5", "p2", "a"),
        ("s6", "nobody", "a"),  # an orphan
        ("s7", None, "b"),  # a missing key
    ],
    [("s0", 1), ("s0", 2), ("s0", 3), ("s5", 1), ("s6", 2), (None, 3), ("s4", 1)],
)


def test_rows_without_an_owner_and_above_the_bound_are_dropped():
    families = opened(tables(*HOSPITAL))
    assert len(families.records["patients"]) == 3  # one of the two rows of p2; p3 has no children and stays
    assert families.sizes("stays").tolist() == [3, 1, 0]
    assert families.sizes("drugs").tolist() == [2, 0, 0, 1]  # s4 was above the bound, so its drug has no owner
    assert (np.diff(families.parents["stays"]) >= 0).all()


def test_truncation_is_random_and_uniform():
    data = tables([("p", "f")], [(f"s{i}", "p", "a" if i == 0 else "b") for i in range(6)], [])
    kept = [opened(data, rng=np.random.default_rng(seed)).records["stays"].column("ward") for seed in range(400)]
    first = np.mean([(codes == 0).any() for codes in kept])
    assert 0.4 < first < 0.6  # 3 of 6


def test_truncation_is_fresh_for_each_opening():
    """Prefix truncation, or a fixed seed, would keep the same rows: 40 units with 3 of 6 rows agree by chance never."""
    units = [f"p{i}" for i in range(40)]
    stays = [(f"{unit}s{i}", unit, "ab"[i % 2]) for unit in units for i in range(6)]
    data = tables([(unit, "f") for unit in units], stays, [])
    database = Database.from_toml(SCHEMA.replace("MOST", "3"))
    kept = [open_families(database, data, {}).pairs("stays", WARDS).count([("ward",)])[0] for _ in range(8)]
    assert len({tuple(table) for table in kept}) > 1


def test_keys_of_different_types_are_equal():
    data = tables([], [], [])
    data["patients"] = pd.DataFrame({"id": [1, 2], "sex": ["f", "m"]})
    data["stays"] = pd.DataFrame({"stay": ["x", "y", "z"], "patient": [1.0, 2.0, np.nan], "ward": ["a", "b", "a"]})
    assert opened(data).sizes("stays").tolist() == [1, 1]


def test_a_key_shared_by_two_units_is_refused_as_private():
    data = tables([("p1", "f"), ("p2", "m")], [("s", "p1", "a"), ("s", "p2", "b")], [("s", 1)])
    with pytest.raises(DataError, match="must be unique") as error:
        opened(data)
    assert error.value.private
    same = tables([("p1", "f")], [("s", "p1", "a"), ("s", "p1", "b")], [("s", 1)])
    assert opened(same).sizes("stays").tolist() == [1]  # within a unit, one of them is kept


def counts_of(families):
    """Return all weighted counts that a fit may query, one-way to three-way."""
    found = {}
    for name in ("patients", "stays", "drugs"):
        engine = families.rows(name)
        cliques = [c for n in (0, 1, 2, 3) for c in itertools.combinations(sorted(engine.domain), n)]
        found |= {(name, c): table for c, table in zip(cliques, engine.count(cliques), strict=True)}
    for name in ("stays", "drugs"):
        own = families.codecs[name].domain
        engine = families.pairs(name, {key: (np.arange(own.size(key)), own.size(key)) for key in own})
        cliques = [c for n in (0, 1, 2) for c in itertools.combinations(sorted(engine.domain), n)]
        found |= {(f"{name} siblings", c): table for c, table in zip(cliques, engine.count(cliques), strict=True)}
    return found


def masses(most=3):
    database = Database.from_toml(SCHEMA.replace("MOST", str(most)))
    rows = {name: row_weight(database, name) for name in ("patients", "stays", "drugs")}
    return rows | {f"{name} siblings": pair_weight(database, name) for name in ("stays", "drugs")}


UNITS = [
    ("f", ()),
    ("m", ((0, (1,)),)),
    ("f", ((0, (1, 2)), (1, ()))),
    ("m", ((1, (3, 3, 1)), (1, (2,)), (0, ()))),
    ("f", ((0, ()), (0, (1, 1, 1, 1)), (1, (2, 3)), (1, (1,)), (1, (1,)))),  # above both bounds
]
"""A unit: its sex, and of each stay the ward and the doses."""


def database_of(units):
    patients, stays, drugs = [], [], []
    for number, (sex, owned) in units:
        patients.append((f"p{number}", sex))
        for place, (ward, doses) in enumerate(owned):
            stays.append((f"p{number}s{place}", f"p{number}", "ab"[ward]))
            drugs += [(f"p{number}s{place}", dose) for dose in doses]
    return tables(patients, stays, drugs)


def test_one_unit_moves_every_weighted_count_by_at_most_its_mass():
    """All databases of three of these units, and each without one of them: add-remove, and so replace-one."""
    worst = dict.fromkeys(masses(), 0)
    for chosen in itertools.combinations_with_replacement(range(len(UNITS)), 3):
        units = list(enumerate(UNITS[i] for i in chosen))
        whole = counts_of(opened(database_of(units)))
        for gone in range(3):
            less = counts_of(opened(database_of([unit for unit in units if unit[0] != gone])))
            for (view, clique), table in whole.items():
                moved = table - less[view, clique]
                assert (moved >= 0).all()  # nobody else's rows change: the difference is the unit's own weight
                worst[view] = max(worst[view], int(moved.sum()))
    for view, mass in masses().items():
        assert 0 < worst[view] <= mass, view
    assert worst["patients"] == 1
    assert worst["stays"] == masses()["stays"]  # attained
    assert worst["stays siblings"] == masses()["stays siblings"]


def test_permuted_files_give_the_same_counts():
    data = database_of(list(enumerate(UNITS[:4])))
    whole = counts_of(opened(data, most=5))
    mixed = {name: frame.sample(frac=1.0, random_state=1) for name, frame in data.items()}
    again = counts_of(opened(mixed, most=5))
    for key in [key for key in whole if not key[0].startswith("drugs")]:  # one stay has more drugs than the bound
        assert np.array_equal(whole[key], again[key]), key


def test_weights_are_integers_that_sum_to_at_most_the_mass_for_every_bound():
    for most in (1, 2, 7, 8, 9, 12, 16, 17, 50, 1000):
        database = Database.from_toml(SCHEMA.replace("MOST", str(most)))
        weight, pairs = row_weight(database, "stays"), pair_weight(database, "stays")
        for k in range(1, most + 1):
            assert k * (weight // k) <= weight
            assert weight // k >= 1
            assert k * (k - 1) * (pairs // (k * max(k - 1, 1))) <= pairs


@pytest.mark.parametrize("sizes", [[], [0], [1, 0, 3], [2, 2, 5]])
def test_pairs_of_siblings_match_a_loop(sizes):
    starts = np.concatenate([[0], np.cumsum(np.array(sizes, np.int64))]).astype(np.int64)
    first, second = sibling_pairs(starts)
    wanted = [
        (a, b) for lo, hi in itertools.pairwise(starts.tolist()) for a in range(lo, hi) for b in range(lo, hi) if a != b
    ]
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == wanted


def test_an_empty_database_has_no_weight():
    families = opened(tables([], [], []))
    assert all(table.sum() == 0 for table in counts_of(families).values())
    assert count_marginals(families.records["stays"], [()])[0] == 0


def test_the_pairs_of_a_large_family_are_bounded_and_weigh_no_more_than_those_of_a_small_one():
    data = tables([("p", "f"), ("q", "m")], [(f"s{i}", "p" if i < 400 else "q", "a") for i in range(402)], [])
    families = opened(data, most=400)
    pairs = families.pairs("stays", WARDS)
    assert len(pairs.records) == MAX_SIBLINGS * (MAX_SIBLINGS - 1) + 2
    large = int(pairs.weights[: MAX_SIBLINGS * (MAX_SIBLINGS - 1)].sum())
    assert 0.9 * pairs.mass < large <= pairs.mass and int(pairs.weights[-2:].sum()) == pairs.mass
