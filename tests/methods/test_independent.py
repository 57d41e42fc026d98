"""Independent columns: one question, and every column as it was measured."""

import math

import numpy as np
import pytest
from recipes import assert_trace, chained, counts, random_rows, run

from weft.methods.independent import Independent


def test_the_whole_budget_is_for_the_columns_evenly():
    made = run(Independent(), chained())
    assert_trace(made, [("marginals", 1.0)])
    assert made.measured == [("a",), ("b",), ("c",), ("d",)]
    assert made.sigmas == pytest.approx([math.sqrt(4 / (2 * made.ledger.capacity))] * 4)
    pure = run(Independent(accounting="pure"), chained(), epsilon=2.0, delta=0.0)
    assert_trace(pure, [("marginals", 1.0)])
    assert pure.ledger.entries[0].scales == pytest.approx([4 / 2.0] * 4)


def test_without_noise_every_column_is_as_it_was():
    records = chained()
    model = run(Independent(), records, exact=True).model
    for name, table in zip(records.domain, model.tables, strict=True):
        np.testing.assert_allclose(table, counts(records, (name,)))
    assert not model.relates_columns
    np.testing.assert_allclose(model.marginal(("a", "b")), np.outer(model.tables[0], model.tables[1]) / 6000)


def project(table, total):
    """The nearest table of a total: cut what is left below zero after taking off as much as it needs."""
    low, high = table.min() - total, table.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(table - middle, 0).sum() > total else (low, middle)
    return np.maximum(table - low, 0)


@pytest.mark.parametrize("seed", range(5))
def test_noisy_columns_have_one_total_weighted_by_their_cells(seed):
    """The sum of a table of c cells has c times the variance of a cell."""
    records = random_rows(seed, 60)
    made = run(Independent(), records, epsilon=0.5, seed=seed)
    (answer,) = made.tape
    weights = [1 / table.size for table in answer.released]
    sums = [table.sum() for table in answer.released]
    total = sum(w * s for w, s in zip(weights, sums, strict=True)) / sum(weights)
    assert made.model.total == pytest.approx(max(total, 1.0))
    for table, noisy in zip(made.model.tables, answer.released, strict=True):
        np.testing.assert_allclose(table, project(noisy.astype(float), made.model.total), atol=1e-6)
