"""What the recipes promise beyond what every method must do."""

import numpy as np
import pyarrow as pa
import pytest

import weft
from weft.codec import Codec
from weft.errors import WeftError
from weft.evaluate import k_way
from weft.methods import method
from weft.models.mrf import ModelTooLarge
from weft.schema import Schema

DEPENDENT = ["aim", "mst", "privmrf", "privsyn", "tree"]


@pytest.fixture(scope="module")
def chained():
    """Six columns of five codes in a chain: each follows the one before it."""
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, 5, 20_000)]
    for _ in range(5):
        columns.append(np.where(rng.random(20_000) < 0.7, (columns[-1] + 1) % 5, rng.integers(0, 5, 20_000)))
    table = pa.table({f"x{i}": column for i, column in enumerate(columns)})
    schema = Schema.from_domain({f"x{i}": 5 for i in range(6)})
    codec = Codec(schema, table.schema)
    return table, schema, codec, codec.encode(table)


@pytest.mark.parametrize("name", DEPENDENT)
def test_strong_pairs_are_found_and_kept(name, chained):
    """With a fair budget the pairs of the chain come out right, where independent columns cannot have them."""
    table, schema, codec, real = chained
    floor = k_way(real, codec.encode(weft.Synthesizer(2.0, method="independent").fit(table, schema).sample()), 2).tvd
    made = weft.Synthesizer(epsilon=2.0, method=name).fit(table, schema).sample()
    assert k_way(real, codec.encode(made), 2).tvd < floor / 4


def shares(synthesizer):
    ledger = synthesizer.ledger_
    return [round(entry.cost / ledger.capacity, 6) for entry in ledger.entries]


def test_the_papers_budgets_are_in_the_ledger(chained):
    table, schema, *_ = chained
    assert shares(weft.Synthesizer(method="privsyn").fit(table, schema)) == [0.1, 0.1, 0.8]
    paper = {"selection": "refine", "share_scores": 0.1, "share_columns": 0.01, "rare": 0.0}
    published = weft.Synthesizer(method="privmrf", epsilon=5.0, **paper).fit(table, schema)
    parts = shares(published)
    assert parts[:2] == [0.01, 0.1]  # the row count, the R-scores
    asked = [p for p, e in zip(parts, published.ledger_.entries, strict=True) if e.purpose == "scores"]
    assert sum(asked) == pytest.approx(0.1, abs=1e-5)
    assert sum(parts) == pytest.approx(1.0, abs=1e-5)  # 0.79 for the marginals


def test_privsyn_options_of_its_evaluation(chained):
    table, schema, codec, real = chained

    def error(**options):
        runs = [weft.Synthesizer(0.3, method="privsyn", **options).fit(table, schema).sample() for _ in range(2)]
        return np.mean([k_way(real, codec.encode(run), 2).tvd for run in runs])

    guided = error()
    assert error(accounting="pure", delta=0.0, allocation="equal") > guided
    assert error(selection="privbayes-indif") < 0.5
    named = weft.Synthesizer(method="privsyn", marginals=[["x0", "x1"], ["x4", "x5"]]).fit(table, schema)
    assert [m.clique for m in named.fitted_.measured[6:]] == [("x0", "x1"), ("x4", "x5")]
    forced = weft.Synthesizer(0.05, method="privsyn", must_include=[["x0", "x5"]]).fit(table, schema)
    assert any({"x0", "x5"} <= set(m.clique) for m in forced.fitted_.measured)


def test_pgm_measures_what_it_is_told(chained):
    table, schema, *_ = chained
    told = weft.Synthesizer(method="pgm", marginals=[["x1", "x0"], ["x2", "x3", "x4"]], weights=[1.0, 3.0])
    measured = told.fit(table, schema).fitted_.measured[6:]
    assert [m.clique for m in measured] == [("x0", "x1"), ("x2", "x3", "x4")]
    assert (measured[0].sigma / measured[1].sigma) ** 2 == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("name", "options", "error"),
    [
        ("pgm", {"marginals": [["x0", "nope"]]}, "nope"),
        ("pgm", {"marginals": [["x0", "x1"]], "weights": [1.0, 2.0]}, "weights"),
        ("privsyn", {"marginals": [["nope"]]}, "nope"),
        ("privsyn", {"gum": {"strategy": "magic"}}, "magic"),
        ("privsyn", {"gum": {"magic": 1}}, "magic"),
        ("privsyn", {"share_columns": 0.5, "share_scores": 0.5}, "leave at least"),
        ("mst", {"share_columns": 0.6, "share_scores": 0.6}, "leave at least"),
        ("tree", {"share_scores": 1.0}, "must lie from 1e-06 to 0.99"),
        ("aim", {"part_scores": 0.0}, "must lie from 1e-06 to 0.99"),
        ("pgm", {"share_columns": 1.0}, "must lie from 1e-06 to 0.99"),
        ("privmrf", {"share_scores": 0.5, "share_columns": 0.5}, "leave at least"),
        ("privmrf", {"selection": "refine", "share_scores": 0.5, "share_refine": 0.5}, "leave at least"),
        ("privmrf", {"selection": "magic"}, "'cover' or 'refine'"),
        ("privmrf", {"tables": 0}, "tables must lie from"),
        ("privmrf", {"rare": -1.0}, "rare"),
        ("tree", {"ways": 1}, "ways must lie from 2"),
        ("tree", {"extra_pairs_per_column": -1.0}, "extra_pairs_per_column must lie from 0"),
        ("tree", {"penalties": ()}, "at least one price"),
        ("aim", {"anneal": 0.5}, "anneal must lie from 1"),
        ("pgm", {"max_cells": 0}, "max_cells must lie from 1"),
        ("privbayes", {"share_structure": 1.0}, "must lie from 1e-06 to 0.99"),
        ("privbayes", {"accounting": "gaussian"}, "pure"),
        ("pb-pgm", {"accounting": "gaussian"}, "pure"),
        ("privbayes-indif", {"share_scores": 1.0}, "must lie from 1e-06 to 0.99"),
        ("weave", {"tuning": {"part_scores": 1.0}}, "must lie from 1e-06 to 0.99"),
    ],
)
def test_bad_options_are_refused_before_anything_is_spent(name, options, error, chained, tmp_path):
    table, schema, *_ = chained
    journal = tmp_path / "j.jsonl"
    with pytest.raises(WeftError, match=error):
        weft.Synthesizer(method=name, journal=journal, **options).fit(table, schema)
    assert not journal.exists()


def test_a_tree_that_would_not_fit_is_refused_beforehand(chained):
    table, schema, *_ = chained
    with pytest.raises(ModelTooLarge, match="max_cells"):
        weft.Synthesizer(method="pgm", marginals=[["x0", "x1", "x2"]], max_cells=100).fit(table, schema)


def test_limits_keep_the_tree_narrow(chained):
    table, schema, *_ = chained
    for name in ("aim", "privmrf", "tree"):
        model = weft.Synthesizer(method=name, max_cells=25, max_total=200).fit(table, schema).model_
        inner = getattr(model, "inner", model)
        assert max(inner.tree.sizes) <= 25


def test_paper_settings_exist():
    from weft.methods.privmrf import PrivMrf

    assert (PrivMrf.paper().max_cells, PrivMrf.paper().selection) == (10**7, "refine")
    assert method("privsyn", accounting="paper").accounting == "paper"


def test_a_grown_tree_never_outgrows_its_limits():
    """A clique that a tree holds by fill edges alone still changes the next triangulation."""
    import itertools

    from weft.marginals.domain import Domain
    from weft.models.mrf import grow_tree

    rng = np.random.default_rng(0)
    for _ in range(60):
        d = int(rng.integers(8, 16))
        domain = Domain(tuple(f"c{i:02}" for i in range(d)), tuple(int(s) for s in rng.integers(2, 12, d)))
        pairs = list(itertools.combinations(domain.names, 2))
        ranked = [pairs[i] for i in rng.permutation(len(pairs))]
        tree = grow_tree(domain, ranked, max_cells=2000, max_total=5000)
        assert max(tree.sizes) <= 2000
        assert tree.cells <= 5000


def test_pairs_too_large_for_a_model_are_left_out_before_they_are_paid_for():
    rng = np.random.default_rng(0)
    wide = pa.table({name: rng.integers(0, size, 3000) for name, size in [("a", 9000), ("b", 9000), ("c", 2)]})
    schema = Schema.from_domain({"a": 9000, "b": 9000, "c": 2})
    for name in ("mst", "pgm"):
        fitted = weft.Synthesizer(epsilon=20.0, method=name, rare=0.0).fit(wide, schema).fitted_
        assert ("a", "b") not in [m.clique for m in fitted.measured]
        assert fitted.ledger.spent == pytest.approx(fitted.ledger.capacity, rel=1e-6)


@pytest.mark.parametrize("name", ["privmrf", "tree"])
def test_what_the_tree_does_not_hold_still_reaches_the_records(name):
    """Four columns that all follow a hidden one, and a tree with room for single pairs: three of the six."""
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, 6, 20_000)
    columns = [np.where(rng.random(20_000) < 0.3, rng.integers(0, 6, 20_000), hidden) for _ in range(4)]
    table = pa.table({f"x{i}": column for i, column in enumerate(columns)})
    schema = Schema.from_domain({f"x{i}": 6 for i in range(4)})
    codec = Codec(schema, table.schema)

    option = {"privmrf": "extra_pairs", "tree": "extra_pairs_per_column"}[name]

    def error(outside):
        made = weft.Synthesizer(8.0, method=name, max_cells=36, **{option: outside}).fit(table, schema).sample()
        return k_way(codec.encode(table), codec.encode(made), 2).tvd

    number = float if name == "tree" else bool  # of pairs a column, or whether
    assert error(number(1)) < error(number(0)) / 2
