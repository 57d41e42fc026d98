"""The sensitivity of an entropy, by enumeration of small tables under both neighbour relations."""

import itertools
import math

import numpy as np
import pytest
from weft_lab.queries.entropy_queries import compute_entropy

from weft.marginals.value_groups import sum_by_codes
from weft.privacy import Adjacency


def tables(n, cells):
    """All tables of n rows."""
    for bars in itertools.combinations(range(n + cells - 1), cells - 1):
        yield np.diff([-1, *bars, n + cells - 1]) - 1


def scaled(table, rows):
    n = int(table.sum())
    return compute_entropy(table, n) * min(1.0, n / rows)


@pytest.mark.parametrize("rows", [2, 3, 5, 8])
def test_a_row_moves_no_entropy_by_more_and_some_by_exactly_that(rows):
    bound = Adjacency().entropy(rows)
    moved = [
        abs(scaled(table + unit, rows) - scaled(table, rows))
        for n in range(13)
        for table in tables(n, 3)
        for unit in np.eye(3, dtype=int)
    ]
    assert max(moved) == pytest.approx(bound, abs=1e-12)


@pytest.mark.parametrize("rows", [2, 4, 7])
def test_a_replaced_row_moves_no_entropy_by_more_than_the_paper_says_either(rows):
    bound = Adjacency("replace-one").entropy(rows)
    assert bound <= (2 + 1 / math.log(2) + 2 * math.log2(rows)) / rows
    moved = [
        abs(scaled(table + one, rows) - scaled(table + other, rows))
        for n in range(11)
        for table in tables(n, 3)
        for one, other in itertools.permutations(np.eye(3, dtype=int), 2)
    ]
    assert max(moved) <= bound + 1e-12


def test_units_of_several_rows_move_it_more():
    bound = Adjacency("add-remove", rows_per_unit=3).entropy(6)
    assert bound == pytest.approx(3 * Adjacency().entropy(6))
    moved = [
        abs(scaled(table + sum(units), 6) - scaled(table, 6))
        for n in range(9)
        for table in tables(n, 3)
        for units in itertools.combinations_with_replacement(np.eye(3, dtype=int), 3)
    ]
    assert max(moved) <= bound + 1e-12


def test_buckets_sum_codes():
    table = np.arange(24).reshape(2, 4, 3)
    summed = sum_by_codes(table, np.array([0, 1, 0, 1]), 2, axis=1)
    np.testing.assert_array_equal(summed, table[:, :2] + table[:, 2:])
