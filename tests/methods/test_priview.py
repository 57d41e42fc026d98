"""PriView: views by design and not by the rows, a strength that follows the noise, marginals near the exact ones."""

import itertools

import numpy as np
import pytest
from recipes import assert_trace, chained, counts, run
from weft_lab.methods.priview import PriView

from weft.errors import MethodError
from weft.marginals.domain import Domain
from weft.marginals.records import Records


def binary(n=20_000, d=12):
    rng = np.random.default_rng(0)
    hidden = rng.random(n)
    names = tuple(f"c{i:02}" for i in range(d))
    return Records.of(Domain(names, (2,) * d), [rng.random(n) < 0.1 + 0.8 * hidden * rng.random() for _ in names])


@pytest.mark.parametrize("accounting", ["gaussian", "pure"])
def test_a_tenth_for_columns_and_the_rest_for_views(accounting):
    made = run(PriView(accounting=accounting), chained(), delta=0.0 if accounting == "pure" else 1e-6)
    assert_trace(made, [("marginals", 0.1), ("marginals", 0.9)])
    pairs = {pair for view in made.measured for pair in itertools.combinations(view, 2)}
    assert pairs == set(itertools.combinations("abcd", 2))


def test_more_budget_covers_larger_sets():
    little, much = (run(PriView(), binary(d=16), epsilon=epsilon) for epsilon in (0.05, 5.0))
    assert len(much.measured) > len(little.measured)
    triples = {each for view in much.measured for each in itertools.combinations(view, 3)}
    assert len(triples) == 560
    fixed = run(PriView(strength=2), binary(d=16), epsilon=5.0)
    assert len(fixed.measured) == len(little.measured)


@pytest.mark.parametrize("options", [{}, {"views": "random"}, {"nonnegativity": "simplex"}])
def test_marginals_across_views_are_near_the_exact_ones(options):
    records = binary()
    made = run(PriView(strength=2, **options), records, epsilon=2.0)
    for columns in [("c00", "c05", "c11"), ("c01", "c02", "c03", "c09")]:
        exact = counts(records, columns)
        found = made.model.marginal(columns)
        assert found.min() >= 0
        assert np.abs(found / found.sum() - exact / exact.sum()).sum() / 2 < 0.05


def test_a_strength_of_too_many_sets_is_refused_beforehand():
    with pytest.raises(MethodError, match="strength"):
        PriView(strength=5).check(Domain(tuple(f"c{i:02}" for i in range(64)), (2,) * 64))
    with pytest.raises(MethodError, match="gum"):
        PriView(gum={"iterations": -1}).check(Domain(("a",), (2,)))
