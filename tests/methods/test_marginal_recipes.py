"""What several recipes promise beyond what every method must do."""

import numpy as np
import pyarrow as pa
import pytest

import weft
from weft.encoding import Codec
from weft.errors import WeftError
from weft.evaluation.metrics import k_way
from weft.schema import Schema

DEPENDENT = ["aim", "cover", "mst", "privmrf", "privsyn", "tree"]


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


@pytest.mark.parametrize(
    ("name", "options", "error"),
    [
        ("pgm", {"marginals": [["x0", "nope"]]}, "nope"),
        ("pgm", {"marginals": [["x0", "x1"]], "weights": [1.0, 2.0]}, "weights"),
        ("privsyn", {"marginals": [["nope"]]}, "nope"),
        ("privsyn", {"gum": {"strategy": "magic"}}, "magic"),
        ("privsyn", {"gum": {"magic": 1}}, "magic"),
        ("privsyn", {"share_columns": 0.5, "share_scores": 0.5}, "Leave at least"),
        ("mst", {"share_columns": 0.6, "share_scores": 0.6}, "Leave at least"),
        ("tree", {"share_scores": 1.0}, "must lie from 1e-06 to 0.99"),
        ("aim", {"part_scores": 0.0}, "must lie from 1e-06 to 0.99"),
        ("pgm", {"share_columns": 1.0}, "must lie from 1e-06 to 0.99"),
        ("privmrf", {"share_scores": 0.5, "share_columns": 0.5}, "Leave at least"),
        ("privmrf", {"share_scores": 0.5, "share_refine": 0.5}, "Leave at least"),
        ("privmrf", {"pairs": "magic"}, "'positive' or 'all'"),
        ("privmrf", {"tables": 4.0}, "has no option 'tables'"),
        ("cover", {"tables": 0}, "tables must lie from"),
        ("mst", {"selection": "exponential"}, "zcdp"),
        ("aim", {"selection": "exponential"}, "zcdp"),
        ("privmrf", {"rare": -1.0}, "rare"),
        ("tree", {"ways": 1}, "ways must lie from 2"),
        ("tree", {"extra_pairs_per_column": -1.0}, "extra_pairs_per_column must lie from 0"),
        ("tree", {"penalties": ()}, "at least one number"),
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


def test_limits_keep_the_tree_narrow(chained):
    table, schema, *_ = chained
    for name in ("aim", "cover", "privmrf", "tree"):
        model = weft.Synthesizer(method=name, max_cells=25, max_total=200).fit(table, schema).model_
        inner = getattr(model, "inner", model)
        assert max(inner.tree.sizes) <= 25


@pytest.mark.parametrize("name", ["cover", "tree"])
def test_what_the_tree_does_not_hold_still_reaches_the_records(name):
    """Four columns that all follow a hidden one, and a tree with room for single pairs: three of the six."""
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, 6, 20_000)
    columns = [np.where(rng.random(20_000) < 0.3, rng.integers(0, 6, 20_000), hidden) for _ in range(4)]
    table = pa.table({f"x{i}": column for i, column in enumerate(columns)})
    schema = Schema.from_domain({f"x{i}": 6 for i in range(4)})
    codec = Codec(schema, table.schema)

    option = {"cover": "extra_pairs", "tree": "extra_pairs_per_column"}[name]

    def error(outside):
        made = weft.Synthesizer(8.0, method=name, max_cells=36, **{option: outside}).fit(table, schema).sample()
        return k_way(codec.encode(table), codec.encode(made), 2).tvd

    number = float if name == "tree" else bool  # of pairs a column, or whether
    assert error(number(1)) < error(number(0)) / 2
