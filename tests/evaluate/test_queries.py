import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from weft_lab import nist_scores
from weft_lab.nist_scores import nist_range

from weft.evaluation.metrics import draw_queries, range_queries, shares
from weft.evaluation.metrics import range_query_error as module
from weft.marginals.domain import Domain
from weft.marginals.records import Records


def test_shares_by_hand(table):
    records = table((3, 4), [(0, 0), (0, 1), (1, 3), (2, 2)])
    asked = [
        ((0, 0, 0), (1, 0, 1)),
        ((0, 1, 2),),
        ((1, 1, 2), (0, 0, 2)),
        ((0, 0, 2), (1, 0, 3)),
        ((0, 2, 2), (1, 0, 1)),
    ]
    assert shares(records, asked).tolist() == [0.5, 0.5, 0.5, 1.0, 0.0]


@given(data=st.data(), rows=st.integers(1, 60))
def test_shares_agree_with_two_comparisons_a_condition(data, rows):
    sizes = (2, 256, 257, 70_000)
    codes = [data.draw(st.lists(st.integers(0, s - 1), min_size=rows, max_size=rows)) for s in sizes]
    records = Records.of(Domain(tuple("abcd"), sizes), codes)
    query = []
    for column in data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True)):
        low, high = sorted(data.draw(st.tuples(*[st.integers(0, sizes[column] - 1)] * 2)))
        query.append((column, low, high))
    plain = [all(low <= codes[c][i] <= high for c, low, high in query) for i in range(rows)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_ROWS_A_PASS", 16)
        assert shares(records, [tuple(query)], threads=1)[0] == sum(plain) / rows


def test_drawn_queries_are_boxes_of_distinct_columns():
    domain = Domain(tuple("abcdef"), (2, 3, 500, 70_000, 1, 9))
    drawn = draw_queries(domain, 200, 4, np.random.default_rng(0))
    for query in drawn:
        columns = [column for column, _, _ in query]
        assert len(set(columns)) == 4
        assert all(0 <= low <= high < domain.shape[column] for column, low, high in query)
    assert {column for query in drawn for column, _, _ in query} == set(range(6))


def test_range_error_is_the_mean_difference(random_table):
    real, synth = random_table((5, 9, 4, 2), 400, seed=1), random_table((5, 9, 4, 2), 300, seed=2, tilt=3)
    answers = range_queries(real, synth, queries=50, ways=2, seed=5)
    assert len(answers.queries) == 50 and all(len(query) == 2 for query in answers.queries)
    assert answers.error == pytest.approx(float(np.mean(np.abs(answers.real - answers.synth))))
    assert answers.error > 0.01
    assert answers.queries == range_queries(synth, real, queries=50, ways=2, seed=5).queries
    assert range_queries(real, real, seed=1).error == 0.0


def test_more_ways_than_columns_asks_about_all(table):
    real = table((2, 3), [(0, 0), (1, 2)])
    assert all(len(query) == 2 for query in range_queries(real, real, queries=5, ways=3).queries)


def test_nist_range(table):
    # One binary column, all real rows at 1: the interval is [0, 1] or [1, 1], equally likely.
    real, synth = table((2,), [(1,)] * 10), table((2,), [(1,)] + [(0,)] * 9)
    narrow = sum(
        low == 1 for ((_, low, _),) in nist_scores._draw_around_rows(real, 300, np.random.default_rng([7, 101]))
    )
    assert 100 < narrow < 200
    expected = 1 - math.sqrt(narrow / 300 * math.log(0.1) ** 2) / math.log(1e3)
    assert nist_range(real, synth, seed=7) == pytest.approx(expected, abs=1e-12)
    assert nist_range(real, real, seed=7) == 1.0
    missed = table((2,), [(0,)] * 5)  # off by a factor of a million in half of the queries
    assert nist_range(real, missed, seed=7) == 0.0


def test_nist_queries_always_hold_for_some_real_row(random_table):
    real = random_table((300, 4, 70_000, 2, 256), 50, seed=1)
    drawn = nist_scores._draw_around_rows(real, 200, np.random.default_rng(0))
    assert (shares(real, drawn) > 0).all()


def test_unordered_columns_are_asked_for_sets_that_hold_the_row(table):
    rng = np.random.default_rng(0)
    real = Records.of(Domain(("a", "b"), (9, 30)), [rng.integers(0, 9, 500), rng.integers(0, 30, 500)])
    drawn = nist_scores._draw_sets(real, 200, ["b"], np.random.default_rng(1))
    for query in drawn:
        held = np.logical_and.reduce([asked[real.columns[column]] for column, asked in query])
        assert held.any()  # no real share is zero
    intervals = [np.ptp(np.flatnonzero(asked)) + 1 == asked.sum() for q in drawn for column, asked in q if column == 1]
    sets = [np.ptp(np.flatnonzero(asked)) + 1 == asked.sum() for q in drawn for column, asked in q if column == 0]
    assert all(intervals) and not all(sets)
    plain = [sum(np.logical_and.reduce([m[real.columns[c]] for c, m in q])) / len(real) for q in drawn]
    assert nist_scores._set_shares(real, drawn, 1).tolist() == plain


def test_the_score_with_sets_is_one_for_the_same_table_and_less_for_another():
    rng = np.random.default_rng(0)
    domain = Domain(("a", "b", "c"), (5, 20, 4))
    real = Records.of(domain, [rng.integers(0, size, 400) for size in domain.shape])
    other = Records.of(domain, [rng.integers(0, (size + 1) // 2, 400) for size in domain.shape])
    assert nist_range(real, real, ordered=["b"]) == 1.0
    assert nist_range(real, other, ordered=["b"]) < 0.8
