"""People with several rows: how many each has is asked once, and reproduced."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

import weft
from weft import Schema, Synthesizer
from weft.codec.people import People
from weft.curator.units import MOST_ROWS
from weft.engines.units import keep_rows, sizes_of
from weft.errors import SchemaError
from weft.privacy import Adjacency

TEXT = """
unit = "who"
rows_per_unit = 3
per_unit = ["sex", "born"]
[columns.who]
kind = "id"
type = "int64"
[columns.sex]
kind = "category"
values = ["f", "m"]
[columns.born]
kind = "integer"
range = [1920, 2020]
[columns.cost]
kind = "integer"
range = [0, 999]
"""
SCHEMA = Schema.from_toml(TEXT)


def table(people=1500, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.choice([1, 2, 3], people, p=[0.5, 0.2, 0.3])
    who = np.repeat(np.arange(people), rows)
    return pa.table(
        {
            "who": who + 7000,
            "sex": np.repeat(rng.choice(["f", "m"], people), rows),
            "born": np.repeat(rng.integers(1930, 2010, people), rows),
            "cost": rng.integers(0, 1000, len(who)),
        }
    )


def test_a_unit_more_moves_one_number_by_one_and_a_replaced_one_two():
    """Every table of up to three units with up to four rows each, of which two are kept."""
    most = 2

    def sizes(rows):
        owners = np.repeat(np.arange(len(rows)), rows)
        return sizes_of(owners[keep_rows(owners, most, np.random.default_rng(0))], most)

    added, replaced = 0.0, 0.0
    for rows in itertools.product(range(5), repeat=3):
        for other in range(5):
            added = max(added, np.abs(sizes([*rows, other]) - sizes(rows)).sum())
            replaced = max(replaced, np.abs(sizes([*rows[:2], other]) - sizes(rows)).sum())
    assert added == Adjacency(rows_per_unit=most).units_l1() == 1
    assert replaced == Adjacency("replace-one", rows_per_unit=most).units_l1() == 2
    assert Adjacency("replace-one").units_l2() == pytest.approx(np.sqrt(2))


def test_rows_are_dealt_out_in_the_numbers_that_were_measured():
    rows = pa.table({"sex": ["f", "m"] * 5000, "x": list(range(10_000))})
    made, person = People(np.array([0.5, 0.0, 0.5]), ("sex",)).settle(
        rows, lambda t: np.zeros(len(t), bool), np.random.default_rng(1)
    )
    sizes = np.bincount(np.bincount(person)) / (person.max() + 1)
    assert sizes[[1, 3]] == pytest.approx([0.5, 0.5], abs=0.03) and sizes[2] < 0.01
    same = made.to_pandas().assign(person=person).groupby("person")["sex"].nunique()
    assert same.max() == 1
    assert made.column("x").equals(rows.column("x"))
    changed = np.mean(np.array(made.column("sex").to_pylist()) != np.array(rows.column("sex").to_pylist()))
    assert changed < 0.001  # people are made of rows that are alike already


def test_a_row_that_would_break_a_rule_is_a_person_of_its_own():
    rows = pa.table({"sex": ["f", "m", "f", "m"], "pregnant": [True, False, False, False]})

    def broken(t):
        return np.array([s == "m" and p for s, p in zip(*(c.to_pylist() for c in t.columns), strict=True)])

    for seed in range(20):
        made, person = People(np.array([0, 0, 0, 1.0]), ("sex",)).settle(rows, broken, np.random.default_rng(seed))
        assert not broken(made).any()
        for number in set(person.tolist()):
            assert len({made.column("sex")[int(i)].as_py() for i in np.flatnonzero(person == number)}) == 1


@pytest.mark.parametrize("method", ["independent", "weave"])
def test_synthetic_people_have_as_many_rows_as_real_ones_and_ids_keep_their_type(method, tmp_path):
    real = table()
    fitted = Synthesizer(6.0, method=method, journal=None, noise_seed=1).fit(real, SCHEMA)
    assert fitted.ledger_.entries[0].purpose == "units"
    assert fitted.ledger_.used <= 1 + 1e-9
    fitted.save(tmp_path / "m.weft")
    made = weft.load(tmp_path / "m.weft").sample(3000, seed=1)
    assert made.schema.equals(real.schema)
    counts = [t.to_pandas().groupby("who").size().value_counts(normalize=True).sort_index() for t in (real, made)]
    assert counts[0].tolist() == pytest.approx(counts[1].tolist(), abs=0.05)
    assert made.to_pandas().groupby("who")[["sex", "born"]].nunique().to_numpy().max() == 1


def test_very_many_rows_a_person_are_counted_together():
    text = TEXT.replace("rows_per_unit = 3", "rows_per_unit = 100000")
    fitted = Synthesizer(6.0, method="independent", journal=None, noise_seed=1).fit(table(50), Schema.from_toml(text))
    assert len(fitted.fitted_.people.sizes) == MOST_ROWS


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ('per_unit = ["sex", "born"]', 'per_unit = ["sexx"]', "Did you mean"),
        ('per_unit = ["sex", "born"]', 'per_unit = "sex"', "list of columns"),
        ("rows_per_unit = 3", "rows_per_unit = 1", "several rows"),
    ],
)
def test_what_makes_no_sense_is_refused(old, new, match):
    with pytest.raises(SchemaError, match=match):
        Schema.from_toml(TEXT.replace(old, new))
