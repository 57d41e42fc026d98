"""Counts combined from noisy tables: no bias, the variance that is stated, and never worse than one table alone."""

import numpy as np
import pytest
from scipy import sparse

from weft.evaluation.pooled_counts import Axis, pool_released_counts
from weft.marginals.marginal import NoisyMarginal, compute_interaction
from weft.marginals.pooling import Released
from weft.marginals.value_groups import sum_by_codes

SIZES = {"a": 6, "b": 4, "c": 3}
MERGED = np.array([0, 0, 1, 2, 2, 2])
TRUE = np.random.default_rng(0).poisson(50, (6, 4, 3)).astype(float)


def noisy(table, columns, sigma, rng, coding=None, order=0):
    made = table + rng.normal(0, sigma, table.shape)
    if order:
        made = compute_interaction(made, order) / made.size
    return Released(NoisyMarginal(columns, made, sigma, order), coding or {})


def released(rng):
    pair = sum_by_codes(TRUE.sum(axis=2), MERGED, 3)
    return [
        noisy(TRUE.sum(axis=(1, 2)), ("a",), 3.0, rng),  # finer than the answer: folded
        noisy(pair, ("a", "b"), 5.0, rng, {"a": MERGED}, order=2),
        noisy(TRUE.sum(axis=0), ("b", "c"), 4.0, rng),
        noisy(np.array(TRUE.sum()), (), 2.0, rng),
    ]


def every_code(size, codes=None):
    """An axis whose bins are its working codes."""
    return Axis(np.arange(size) if codes is None else codes, size, sparse.eye_array(size, format="csr"))


AXES = {"a": Axis(MERGED, 3, sparse.csr_array([[1.0, 0, 0], [0, 1, 1]])), "b": every_code(4)}


def test_pooled_counts_have_no_bias_and_the_stated_variance():
    rng = np.random.default_rng(1)
    found = [pool_released_counts(released(rng), AXES, SIZES) for _ in range(1500)]
    counts = np.array([one.counts for one in found])
    exact = np.stack([TRUE[:2].sum(axis=(0, 2)), TRUE[2:].sum(axis=(0, 2))])
    spread = np.sqrt(found[0].variance / len(found))
    assert not found[0].missing
    assert np.abs((counts.mean(axis=0) - exact) / spread).max() < 4.5
    assert counts.var(axis=0) == pytest.approx(found[0].variance, rel=0.2)


def test_several_tables_are_better_than_the_best_alone():
    rng = np.random.default_rng(2)
    one, other = (noisy(TRUE.sum(axis=2), ("a", "b"), sigma, rng) for sigma in (5.0, 7.0))
    axes = {name: every_code(SIZES[name]) for name in ("a", "b")}
    alone = pool_released_counts([one], axes, SIZES)
    assert alone.counts == pytest.approx(one.noisy.table)
    assert alone.variance == pytest.approx(25.0)
    both = pool_released_counts([one, other], axes, SIZES)
    assert both.variance == pytest.approx(1 / (1 / 25 + 1 / 49))
    with_margin = pool_released_counts([one, noisy(TRUE.sum(axis=(1, 2)), ("a",), 1.0, rng)], axes, SIZES)
    assert (with_margin.variance < alone.variance).all()


def test_what_no_table_tells_is_named():
    rng = np.random.default_rng(3)
    tables = [noisy(TRUE.sum(axis=(1, 2)), ("a",), 1.0, rng), noisy(TRUE.sum(axis=(0, 2)), ("b",), 1.0, rng)]
    axes = {name: every_code(SIZES[name]) for name in ("a", "b")}
    assert pool_released_counts(tables, axes, SIZES).missing == (("a", "b"),)
    crossing = every_code(2, np.array([0, 1, 1, 1, 1, 0]))
    merged = noisy(sum_by_codes(TRUE.sum(axis=(1, 2)), MERGED, 3), ("a",), 1.0, rng, {"a": MERGED})
    assert pool_released_counts([merged], {"a": crossing}, SIZES).missing == (("a",),)


def test_a_column_of_very_many_values_needs_no_table_of_its_values_by_themselves():
    """At a hundred thousand values that would be 80 GB."""
    many = 100_000
    rng = np.random.default_rng(4)
    table = rng.poisson(3, many).astype(float)
    held = [noisy(table, ("a",), 2.0, rng), noisy(np.array(table.sum()), (), 1.0, rng)]
    found = pool_released_counts(held, {"a": every_code(many)}, {"a": many})
    assert found.variance == pytest.approx(4.0, rel=1e-4)
    assert np.abs(found.counts - table).std() < 2.0
