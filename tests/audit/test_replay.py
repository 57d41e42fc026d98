"""Record and replay of the whole program: every method, every kind of source, neighbours that are hard to hide.

Compared are the bytes of the model file, of both released tables, their cards, the report and its twin; the journal;
what is printed, warned, logged and told of progress; and the ledger, against the answers.
"""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from conftest import make_table
from weft_lab.replay import find_reused_randomness, replay

from weft.methods import METHODS, published_settings
from weft.privacy import Ledger
from weft.privacy.mechanisms import Mechanisms
from weft.schema import Schema
from weft.synthesis.synthesizer import Synthesizer

from .programs import (
    ODD,
    SOURCES,
    VISITS,
    commands,
    seeded,
    synthesise,
    visits,
    with_last_person_replaced,
    with_row_replaced,
    without_last,
    without_last_person,
)

RELATIONS = {"add-remove": without_last, "replace-one": with_row_replaced}
PEOPLE = {"add-remove": without_last_person, "replace-one": with_last_person_replaced}
PERSONS = Schema.from_toml(VISITS)
WIDE = Schema.from_domain({"code": 5000, "sex": 2})


def wide(rows=400):
    """Most codes of the first column have no row, some have many."""
    rng = np.random.default_rng(2)
    return pa.table({"code": rng.integers(0, 40, rows) ** 2, "sex": rng.integers(0, 2, rows)})


def test_what_is_compared():
    made = synthesise("independent")(make_table(50), seeded())
    assert {name for name in made if name.startswith("file")} == {
        "file model.weft",
        "file rows.csv",
        "file rows.card.md",
        "file rows.card.json",
        "file columns.parquet",
        "file columns.card.md",
        "file columns.card.json",
        "file report.html",
        "file report.json",
        "file run.ledger.jsonl",
    }
    assert {"stdout", "stderr", "warnings", "messages", "events", "ledger"} <= set(made)
    assert "4 one-way marginals" in made["shown"][1]
    assert list(dict.fromkeys(event[0] for event in made["events"]))[:2] == ["read", "measure"]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_a_function_of_its_mechanisms(method, relation):
    table = make_table(300)
    program = synthesise(method, neighbours=relation, epsilon=2.0)
    assert replay(program, table, RELATIONS[relation](table), seeded()) == []


PUBLISHED = [name for name in METHODS if published_settings(name) is not None]
SHORT = {name: {"passes": 15} for name in ("aim", "mst", "pb-pgm", "pgm")}
"""Mirror descent as published takes thousands of passes, of which each looks at released tables alone."""


@pytest.mark.parametrize(
    "method", [pytest.param(name, marks=[pytest.mark.slow] * (name in SHORT)) for name in PUBLISHED]
)
def test_every_method_as_published_is_a_function_of_its_mechanisms(method):
    table = make_table(300)
    relation = sorted(RELATIONS)[PUBLISHED.index(method) % 2]
    fewer = {"steps": 20} if method == "dp-wgan" else SHORT.get(method, {})
    program = synthesise(method, neighbours=relation, epsilon=2.0, preset="paper", **fewer)
    assert replay(program, table, RELATIONS[relation](table), seeded()) == []


@pytest.mark.parametrize("relation", RELATIONS)
def test_records_tested_by_classes_of_likelihood_are_a_function_of_their_mechanisms(relation):
    table = make_table(300)
    options = {"omega": "1-3", "rows": 40, "guarantee": "deniability", "k": 3, "test": "classes"}
    program = synthesise("bsg", neighbours=relation, epsilon=2.0, **options)
    assert replay(program, table, RELATIONS[relation](table), seeded()) == []


DENIABLE = {"guarantee": "deniability", "k": 3, "epsilon0": 1.0}


@pytest.mark.parametrize(
    ("relation", "options"),
    [
        ("add-remove", DENIABLE),
        ("replace-one", DENIABLE),
        ("add-remove", {}),
        ("add-remove", {"accounting": "gaussian"}),
    ],
)
def test_published_seeds_are_a_function_of_their_mechanisms(relation, options):
    """The amplification by sampling is spent, and Laplace noise is drawn for every entropy."""
    table = make_table(300)
    program = synthesise("bsg", neighbours=relation, epsilon=2.0, preset="paper", omega="1-3", rows=40, **options)
    assert replay(program, table, RELATIONS[relation](table), seeded()) == []


def test_amplification_that_does_not_hold_is_found(monkeypatch):
    monkeypatch.setattr(Ledger, "can_amplify", property(lambda ledger: True))
    table = make_table(300)
    program = synthesise("bsg", neighbours="replace-one", epsilon=2.0, preset="paper", omega="1-3", rows=40, **DENIABLE)
    found = replay(program, table, with_row_replaced(table), seeded())
    assert any("holds only for units that are added or removed" in finding for finding in found)


PLAN = """
[[presence]]
name = "there"
columns = ["ward", "cost"]

[[fills]]
column = "sex"
from = "ward"

[[bins]]
column = "age"
bins = 4

[[marginals]]
pairs_of = ["age", "ward", "there"]
"""


@pytest.mark.parametrize(("method", "source"), [("dpsyn", "arrow"), ("dpsyn", "parquet, streamed"), ("weave", "arrow")])
def test_a_plan_of_marginals_adds_nothing_that_is_not_asked(method, source):
    table = make_table(300)
    program = synthesise(method, source=source, epsilon=2.0, marginals=PLAN)
    assert replay(program, table, without_last(table), seeded()) == []


TOOLS = {
    "rare values, a group, weights": (
        '[compress]\nfloor = 20\n[[groups]]\ncolumns = ["sex", "ward"]\n'
        '[[marginals]]\ncolumns = ["sex", "age"]\nweight = 3.0\n[[marginals]]\ncolumns = ["age", "cost"]\n'
    ),
    "a marginal that is matched": '[[marginals]]\npairs_of = ["age", "sex", "ward"]\nexact = true\n',
    "a public map": (
        '[[maps]]\nof = "ward"\ngives = "sex"\nmap = {a = "f"}\nelse = "m"\n[[marginals]]\ncolumns = ["age", "ward"]\n'
    ),
    "parts joined on a column": (
        '[[parts]]\ncolumns = ["age", "sex"]\n[[parts]]\ncolumns = ["age", "ward"]\n'
        '[[marginals]]\nsets = [["age", "sex"], ["age", "ward"]]\n'
    ),
    "parts joined on nothing": '[[parts]]\ncolumns = ["age", "sex"]\n[[marginals]]\ncolumns = ["age", "sex"]\n',
    "a column left to chance, and tiers": (
        '[[fills]]\ncolumn = "cost"\nby = "random"\nabove = 1\n[[marginals]]\ncolumns = ["age", "cost"]\nbelow = 1\n'
        '[[marginals]]\ncolumns = ["age", "sex"]\nabove = 1\n'
    ),
    "bins by hand": '[[bins]]\ncolumn = "ward"\ninto = [["a", "b"], ["c"]]\n[[marginals]]\ncolumns = ["age", "ward"]\n',
    "geometric noise": 'mechanism = "geometric"\n[[marginals]]\ncolumns = ["age", "ward"]\n',
}


@pytest.mark.parametrize("tool", TOOLS)
def test_every_tool_of_a_plan_uses_rows_through_its_noise_only(tool):
    table = make_table(200)
    program = synthesise("dpsyn", epsilon=2.0, marginals=TOOLS[tool], gum={"iterations": 5})
    assert replay(program, table, without_last(table), seeded()) == []


def test_a_column_that_is_the_same_as_another_uses_rows_through_noise_only():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 4, 200)
    table = pa.table({"a": a, "b": a, "c": rng.integers(0, 3, 200)})
    plan = '[[fills]]\ncolumn = "b"\nfrom = "a"\nby = "same"\n[[marginals]]\ncolumns = ["a", "c"]\n'
    program = synthesise("dpsyn", Schema.from_domain({"a": 4, "b": 4, "c": 3}), epsilon=2.0, marginals=plan)
    assert replay(program, table, without_last(table), seeded()) == []


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("source", SOURCES)
def test_every_source_is_read_row_by_row(source, relation):
    table = make_table(300)
    program = synthesise("independent", source=source, neighbours=relation)
    assert replay(program, table, RELATIONS[relation](table), seeded()) == []


@pytest.mark.parametrize("relation", PEOPLE)
@pytest.mark.parametrize("source", SOURCES)
def test_every_source_keeps_rows_of_a_person_apart_from_those_of_others(source, relation):
    table = visits()
    program = synthesise("independent", PERSONS, source=source, neighbours=relation)
    assert replay(program, table, PEOPLE[relation](table), seeded()) == []


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("method", ["independent", "privsyn", "weave"])
def test_what_the_last_row_alone_has_does_not_show(method, odd):
    table = ODD[odd]()
    assert replay(synthesise(method, epsilon=2.0), table, without_last(table), seeded()) == []


def test_a_table_of_many_empty_cells_is_as_noisy_as_any():
    assert replay(synthesise("independent", WIDE, epsilon=2.0), wide(), without_last(wide()), seeded()) == []


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("source", ["csv", "duckdb"])
def test_the_command_line_says_nothing_more(source, relation):
    table = make_table(300)
    program = commands("independent", source=source, neighbours=relation)
    assert replay(program, table, RELATIONS[relation](table), seeded()) == []


def test_the_command_line_says_nothing_more_of_persons():
    table = visits()
    assert replay(commands("weave", VISITS), table, without_last_person(table), seeded()) == []


@pytest.mark.parametrize("max_tree", [0, 1 << 20])
@pytest.mark.parametrize(
    ("order", "noise", "widest"), [(2, {}, 2), (3, {"clique_error": 1.0}, 3), (6, {"clique_error": 1.0}, 5)]
)
def test_every_way_of_weave_uses_rows_through_its_noise_only(order, noise, widest, max_tree):
    """Pairs, triples and larger cliques, exact and on chains: parity is seen by no pair."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (2000, 5))
    table = pa.table({f"c{i}": column for i, column in enumerate([*bits.T, bits[:, :4].sum(axis=1) % 2])})
    schema = Schema.from_domain(dict.fromkeys(table.column_names, 2))
    options = {"order": order, "epsilon": 8.0}
    options["tuning"] = {**noise, "max_tree": max_tree, "matching_rounds": 2}
    assert replay(synthesise("weave", schema, **options), table, without_last(table), seeded()) == []
    fitted = Synthesizer(method="weave", noise_seed=1, **options).fit(table, schema).fitted_
    assert max(len(m.clique) for m in fitted.measured) >= widest


def test_a_public_table_adds_nothing_that_is_not_asked(tmp_path):
    """Its rows are the same in both runs; what is taken from it depends on the private ones through noise alone."""
    table, public = make_table(300), tmp_path / "public.parquet"
    pa.parquet.write_table(make_table(2_000, seed=8), public)
    program = synthesise("weave", epsilon=2.0, public=public)
    assert replay(program, table, without_last(table), seeded()) == []
    program = synthesise("weave", PERSONS, source="parquet, streamed", epsilon=4.0, public=public)
    assert replay(program, visits(), without_last_person(visits()), seeded()) == []


@pytest.mark.parametrize("method", METHODS)
def test_every_method_draws_fresh_noise(method):
    assert find_reused_randomness(synthesise(method), make_table(100), Mechanisms) == []


@pytest.mark.parametrize("source", ["arrow", "csv", "parquet, streamed", "duckdb"])
def test_the_rows_of_a_person_that_stay_are_chosen_afresh(source):
    program = synthesise("independent", PERSONS, source=source, paired=False)
    assert find_reused_randomness(program, visits(), Mechanisms, truncated=True) == []


# The full cross.


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("source", SOURCES)
def test_every_method_on_every_source(method, source):
    found = {}
    for relation in RELATIONS:
        rows, people = make_table(300), visits()
        alone = synthesise(method, source=source, neighbours=relation, epsilon=2.0)
        several = synthesise(method, PERSONS, source=source, neighbours=relation, epsilon=2.0)
        found["rows", relation] = replay(alone, rows, RELATIONS[relation](rows), seeded())
        found["people", relation] = replay(several, people, PEOPLE[relation](people), seeded())
    assert not any(found.values()), found


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("method", "source"), list(itertools.product(METHODS, ["arrow", "csv", "pandas", "duckdb"])))
def test_every_method_on_every_odd_table(method, source):
    program = synthesise(method, source=source, epsilon=2.0)
    found = {odd: replay(program, made(), without_last(made()), seeded()) for odd, made in ODD.items()}
    assert not any(found.values()), found
