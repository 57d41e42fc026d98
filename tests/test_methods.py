"""What every method must do, run over all of them."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from conftest import make_table

import weft
from weft.encoding import Codec
from weft.errors import WeftError
from weft.evaluation.metrics import k_way
from weft.methods import METHODS
from weft.schema import Schema


def fit(method, table, schema, **settings):
    return weft.Synthesizer(**({"method": method, "seed": 1} | settings)).fit(table, schema)


@pytest.fixture(params=METHODS)
def method(request):
    return request.param


def test_same_schema_out_as_in(method, table, schema):
    synthesizer = fit(method, table, schema)
    for n in (None, 0, 1, 37):
        released = synthesizer.sample(n, seed=2)
        assert released.schema.equals(table.schema)
        if n is not None:
            assert released.num_rows == n
    Codec(schema, table.schema).encode(synthesizer.sample(seed=3))  # every value fits the schema


def test_the_whole_budget_is_spent_and_no_more(method, table, schema):
    ledger = fit(method, table, schema, epsilon=0.7, delta=1e-6).ledger_
    assert ledger.spent == pytest.approx(ledger.capacity, rel=1e-6)
    assert ledger.spend_statement().epsilon <= 0.7 + 1e-9


def test_the_size_is_the_noisy_total(method, schema):
    sizes = {fit(method, make_table(300), schema, epsilon=0.5).sample().num_rows for _ in range(6)}
    assert len(sizes) > 1


def test_sampling_is_reproducible_and_free(method, table, schema):
    synthesizer = fit(method, table, schema)
    before = synthesizer.ledger_.spent
    assert synthesizer.sample(60, seed=4).equals(synthesizer.sample(60, seed=4))
    assert not synthesizer.sample(60, seed=4).equals(synthesizer.sample(60, seed=5))
    assert synthesizer.ledger_.spent == before


def test_rows_can_be_asked_for_under_conditions(method, schema):
    synthesizer = fit(method, make_table(1500), schema, epsilon=5.0)
    where = ["sex = f", "age >= 63", {"ward": ["c", "d"]}]
    made = synthesizer.sample(2000, where=where, seed=4)
    assert made.num_rows == 2000 and made.equals(synthesizer.sample(2000, where=where, seed=4))
    assert pc.min(made["age"]).as_py() >= 63 and set(made["sex"].to_pylist()) == {"f"}
    whole = synthesizer.sample(60_000, seed=5)
    picked = whole.filter((pc.field("sex") == "f") & (pc.field("age") >= 63) & pc.field("ward").isin(["c", "d"]))
    for column, value in [("ward", "d"), ("cost", 0.0)]:
        shares = [np.mean(np.array(part[column].to_pylist(), object) == value) for part in (made, picked)]
        assert abs(shares[0] - shares[1]) < 0.06
    assert abs(pc.mean(made["age"]).as_py() - pc.mean(picked["age"]).as_py()) < 2


def test_a_saved_model_samples_the_same(method, table, schema, tmp_path):
    synthesizer = fit(method, table, schema)
    synthesizer.save(tmp_path / "m.weft")
    loaded = weft.load(tmp_path / "m.weft")
    assert loaded.sample(80, seed=4).equals(synthesizer.sample(80, seed=4))


def test_marginals_of_the_model_add_up(method, table, schema):
    model = fit(method, table, schema).model_
    for columns in [("age",), ("sex", "ward"), ("cost", "age"), ("age", "sex", "ward")]:
        answer = model.marginal(columns)
        assert answer.shape == model.domain.sizes(sorted(columns))
        assert answer.sum() == pytest.approx(model.total, rel=1e-6)
        assert answer.min() >= -1e-9


def test_more_budget_means_less_error(method, schema):
    table = make_table(2000)
    codec = Codec(schema, table.schema)
    real = codec.encode(table)
    errors = []
    for epsilon in (0.05, 20.0):
        runs = [fit(method, table, schema, epsilon=epsilon).sample(2000, seed=0) for _ in range(3)]
        errors.append(np.mean([k_way(real, codec.encode(run), 1).tvd for run in runs]))
    assert errors[1] < errors[0] / 2


ODD = {
    "no rows": lambda: make_table(0),
    "one row": lambda: make_table(1),
    "constant": lambda: pa.concat_tables([make_table(1)] * 200),
    "all missing": lambda: make_table(100).set_column(2, "ward", pa.nulls(100, pa.string())),
}


@pytest.mark.parametrize("kind", ODD)
def test_odd_tables(method, schema, kind):
    table = ODD[kind]()
    released = fit(method, table, schema).sample(20, seed=0)
    assert released.num_rows == 20
    assert released.schema.equals(table.schema)


@pytest.mark.parametrize("names", [["sex"], ["sex", "age"]])
def test_few_columns(method, table, schema, names):
    few = Schema(columns=tuple(schema.column(name) for name in names))
    assert fit(method, table.select(names), few).sample(9, seed=0).column_names == names


def test_five_thousand_categories(method):
    values = [f"v{i}" for i in range(5000)]
    listed = ", ".join(f'"{v}"' for v in values)
    schema = Schema.from_toml(f'[columns.c]\nkind = "category"\nvalues = [{listed}]\n\n[columns.b]\nkind = "boolean"\n')
    rng = np.random.default_rng(0)
    table = pa.table({"c": np.array(values)[rng.integers(0, 50, 2000)], "b": rng.random(2000) < 0.5})
    assert fit(method, table, schema).sample(30, seed=0).num_rows == 30


def test_unknown_names_are_refused_with_a_suggestion(table, schema):
    with pytest.raises(WeftError, match="independent"):
        fit("independant", table, schema)
    with pytest.raises(WeftError, match="no option"):
        fit("independent", table, schema, colour="red")


@pytest.mark.parametrize("columns", [1, 2, 9])
def test_the_automatic_method_is_weave_whatever_the_number_of_columns(columns):
    table = pa.table({f"c{i}": np.arange(60) % 3 for i in range(columns)})
    schema = Schema.from_domain({f"c{i}": 3 for i in range(columns)})
    fitted = weft.Synthesizer(1.0, rare=2.0).fit(table, schema)
    assert fitted.fitted_.method == "weave"
    assert fitted.sample(5).num_rows == 5


def test_an_unknown_method_is_told_of_the_automatic_one():
    with pytest.raises(WeftError, match="auto"):
        weft.Synthesizer(1.0, method="aut").fit(pa.table({"a": [0, 1]}), Schema.from_domain({"a": 2}))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mst", {"rare": "x"}),
        ("tree", {"ways": 2.5}),
        ("tree", {"extra_pairs_per_column": float("inf")}),
        ("privmrf", {"max_ways": 2.5}),
        ("aim", {"rounds_per_column": float("nan")}),
        ("pb-pgm", {"theta": 0.0}),
        ("pb-pgm", {"max_cells": 1}),
        ("weave", {"tuning": {"chains": True}}),
        ("tree", {"penalties": 5}),
        ("tree", {"penalties": "abc"}),
        ("pgm", {"marginals": [()]}),
        ("pgm", {"marginals": "ab"}),
        ("pgm", {"marginals": [("age", "sex")], "weights": [float("nan")]}),
        ("privsyn", {"marginals": [[]]}),
        ("privsyn", {"selection": "sparse"}),
        ("mst", {"share_columns": "0.1"}),
        ("bsg", {"buckets": 4}),
    ],
)
def test_options_of_the_wrong_kind_cost_nothing(name, options, table, schema, tmp_path):
    journal = tmp_path / "journal"
    with pytest.raises(WeftError):
        weft.Synthesizer(1.0, method=name, journal=journal, **options).fit(table, schema)
    assert not journal.exists()


def test_columns_too_wide_for_pairs_cost_nothing(tmp_path):
    table = pa.table({"a": [0, 1], "b": [1, 0]})
    schema = Schema.from_domain({"a": 50_000, "b": 50_000})
    with pytest.raises(WeftError, match="coarser"):
        weft.Synthesizer(1.0, method="privmrf", journal=tmp_path / "journal").fit(table, schema)
    assert not (tmp_path / "journal").exists()
