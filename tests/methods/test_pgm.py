"""PGM: it measures what it is told, and the field is the one of most entropy that keeps to it."""

import numpy as np
import pyarrow as pa
import pytest
from recipes import assert_trace, assert_weighted_by_size, chained, counts, random_rows, run
from weft_lab.methods.pgm import Pgm

import weft
from weft.models.mrf import ModelTooLarge
from weft.schema import Schema


@pytest.mark.parametrize("accounting", ["gaussian", "paper", "pure"])
def test_a_tenth_for_columns_and_the_rest_for_what_is_named(accounting):
    records = chained()
    made = run(Pgm(accounting=accounting), records, delta=0.0 if accounting == "pure" else 1e-6)
    assert_trace(made, [("marginals", 0.1), ("marginals", 0.9)])
    assert made.measured[4:] == [("a", "b"), ("b", "c"), ("c", "d")]  # nothing is named: each column with the next
    assert_weighted_by_size(made, records.domain, first=4)


def test_it_measures_what_it_is_told_weighted_as_it_is_told():
    made = run(Pgm(marginals=[["b", "a"], ["b", "c", "d"]], weights=[1.0, 3.0]), chained())
    assert made.measured[4:] == [("a", "b"), ("b", "c", "d")]
    assert (made.sigmas[4] / made.sigmas[5]) ** 2 == pytest.approx(3.0)


def fitted_proportionally(joint, cliques, targets, names):
    """Iterative proportional fitting of the whole joint table: the one of most entropy with these marginals."""
    for _ in range(400):
        for c, target in zip(cliques, targets, strict=True):
            axes = tuple(i for i, name in enumerate(names) if name not in c)
            now = joint.sum(axis=axes, keepdims=True)
            wanted = target.reshape(now.shape)
            joint = joint * np.divide(wanted, now, out=np.zeros_like(now), where=now > 0)
    return joint


@pytest.mark.parametrize("seed", range(4))
def test_without_noise_the_field_is_the_one_of_most_entropy(seed):
    """Pairs in a circle: no product of conditional tables would do."""
    records = random_rows(seed)
    names = records.domain.names
    circle = [tuple(sorted(pair)) for pair in zip(names, (*names[1:], names[0]), strict=True)]
    made = run(Pgm(marginals=circle, rare=0.0), records, epsilon=10.0, exact=True)
    assert set(made.measured[len(names) :]) == set(circle)
    uniform = np.full(records.domain.shape, len(records) / records.domain.cells(names))
    joint = fitted_proportionally(uniform, circle, [counts(records, c) for c in circle], names)
    assert np.abs(made.model.marginal(names) - joint).sum() / len(records) < 0.02


def test_a_tree_that_would_not_fit_is_refused_beforehand():
    with pytest.raises(ModelTooLarge, match="max_cells"):
        run(Pgm(marginals=[["a", "b", "c"]], max_cells=30), chained())


@pytest.mark.parametrize("name", ["mst", "pgm"])
def test_pairs_too_large_for_a_model_are_left_out_before_they_are_paid_for(name):
    rng = np.random.default_rng(0)
    wide = pa.table({name: rng.integers(0, size, 3000) for name, size in [("a", 9000), ("b", 9000), ("c", 2)]})
    schema = Schema.from_domain({"a": 9000, "b": 9000, "c": 2})
    fitted = weft.Synthesizer(epsilon=20.0, method=name, rare=0.0).fit(wide, schema).fitted_
    assert ("a", "b") not in [m.clique for m in fitted.measured]
    assert fitted.ledger.spent == pytest.approx(fitted.ledger.capacity, rel=1e-6)
