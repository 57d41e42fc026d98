"""DPSyn: it measures what it is told, or says that it draws views; what is rare is compressed; the paper's GUM."""

import numpy as np
import pytest
from recipes import assert_trace, chained, run
from weft_lab.methods.dpsyn import DpSyn, match_records, random_views

from weft.errors import MethodError
from weft.marginals.domain import Domain
from weft.marginals.records import Records
from weft.methods import make_method
from weft.models.gum.gum_model import DPSYN, GumOptions


@pytest.mark.parametrize("accounting", ["gaussian", "paper", "pure"])
def test_a_tenth_for_columns_and_the_rest_for_what_is_named_by_size_and_emphasis(accounting):
    recipe = DpSyn(marginals=[["b", "a"], ["b", "c"]], emphasis=[1.0, 4.0], accounting=accounting)
    made = run(recipe, chained(), delta=0.0 if accounting == "pure" else 1e-6)
    assert_trace(made, [("marginals", 0.1), ("marginals", 0.9)])
    assert made.measured[4:] == [("a", "b"), ("b", "c")]  # both of 12 cells
    power = 1 if accounting == "pure" else 0.5
    assert made.sigmas[4] / made.sigmas[5] == pytest.approx(4**power)


def test_random_views_are_as_large_as_cells_allow_and_it_is_said_that_they_are_random():
    made = run(DpSyn(views=3, view_cells=24), chained())
    views = made.measured[4:]
    assert 1 <= len(views) <= 3 and all(len(c) > 1 for c in views)
    domain = Domain(tuple("abcdefgh"), (2,) * 8)
    drawn = random_views(domain, 20, 16, 8, np.random.default_rng(0))
    assert len(drawn) == 20 and {len(c) for c in drawn} == {4}


def test_what_has_few_rows_is_compressed():
    records = chained(2000)
    made = run(DpSyn(marginals=[["a", "b"]], rare=0.0, rare_rows=5000), records)
    assert made.model.inner.domain.shape == (1, 1, 1, 1)
    assert run(DpSyn(marginals=[["a", "b"]], rare=0.0), records).model.inner.domain.shape == records.domain.shape


def test_the_paper_preset_has_a_constant_alpha():
    options = run(
        make_method("dpsyn", preset="paper", gum={"iterations": 5}, rare_rows=0.0), chained(500)
    ).model.inner.options
    assert options == GumOptions(**{**DPSYN, "iterations": 5})
    assert {options.alpha_at(t) for t in range(100)} == {0.2}


def test_merged_values_are_expanded_by_their_counts_or_uniformly():
    """DPSyn, section 5.3: in the challenge, uniformly."""
    rows = Records.of(Domain(("a", "b"), (5, 2)), [np.repeat(np.arange(5), [900, 40, 10, 30, 20]), np.arange(1000) % 2])
    drawn = {}
    for expansion in ("counts", "uniform"):
        recipe = DpSyn(marginals=[["a", "b"]], rare_rows=60, rare_values="one", expansion=expansion)
        made = run(recipe, rows, epsilon=20.0).model
        assert made.maps["a"].merged.tolist() == [1, 2, 3, 4]
        drawn[expansion] = made.maps["a"].shares()[1:].tolist()
    assert drawn["counts"] == pytest.approx([0.4, 0.1, 0.3, 0.2], abs=0.05) and drawn["uniform"] == [0.25] * 4


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"marginals": [["a", "b"]], "exact": [["a", "c"]]}, "exact"),
        ({"marginals": [["a", "b"]], "emphasis": [1.0, 2.0]}, "emphasis"),
        ({"parts": [["a"], ["b", "nope"]]}, "nope"),
        ({"parts": [["a", "b"], ["a"]]}, "are in another part"),
        ({"marginals": [["a", "c"]], "parts": [["a", "b"], ["c", "d"]]}, "several parts"),
        ({"gum": {"strategy": "magic"}}, "magic"),
    ],
)
def test_what_cannot_be_is_refused(options, told):
    with pytest.raises(MethodError, match=told):
        DpSyn(**options).check(chained(10).domain)


@pytest.mark.parametrize("seed", range(3))
def test_records_are_joined_on_the_same_value_as_far_as_there_are_any(seed):
    rng = np.random.default_rng(seed)
    wanted, theirs = rng.integers(0, 4, 200), rng.integers(0, 5, 200)
    order = match_records(wanted, theirs, rng)
    assert sorted(order.tolist()) == list(range(200))
    pairs = sum(min((wanted == v).sum(), (theirs == v).sum()) for v in range(5))
    assert (theirs[order] == wanted).sum() >= pairs
