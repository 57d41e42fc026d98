import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import DataError
from weft.evaluation.metrics import aligned_tables as tables
from weft.evaluation.metrics.aligned_tables import fold_cliques, number_cells, validate_shared_domain
from weft.marginals.domain import Domain
from weft.marginals.records import Records


def test_keys_are_mixed_radix_codes_and_agree_between_tables(table):
    a, b = table((2, 3, 4), [(1, 2, 3), (0, 0, 1)]), table((2, 3, 4), [(1, 2, 3)])
    first, second = number_cells((a, b), ("a", "b", "c"))
    assert first.tolist() == [23, 1] and second.tolist() == [23]
    assert number_cells((a, b), ("c", "a"))[0].tolist() == [7, 2]


def test_keys_of_domains_beyond_64_bits_still_tell_cells_apart():
    size = 1 << 31
    domain = Domain(tuple("abcde"), (size,) * 5)
    rows = np.array([[0, 0, 0, 0, 0], [1, 0, 0, 0, 0], [size - 1] * 5, [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]])
    numbers = number_cells((Records.of(domain, rows.T), Records.of(domain, rows[:2].T)), tuple("abcde"))
    assert len(set(numbers[0].tolist())) == 4
    assert numbers[0][0] == numbers[0][4] == numbers[1][0] and numbers[0][1] == numbers[1][1]


@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 300), st.integers(0, 4)), min_size=1),
    other=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 300), st.integers(0, 4)), min_size=1),
)
def test_sparse_counts_are_the_dense_ones_without_empty_cells(rows, other):
    domain = Domain(tuple("abc"), (3, 301, 5))
    real, synth = (Records.of(domain, np.array(r).T) for r in (rows, other))

    def pairs(a, b):
        return sorted((m, n) for m, n in zip(a.tolist(), b.tolist(), strict=True) if m or n)

    cliques = [("a",), ("c", "b"), ("a", "b", "c")]
    dense = fold_cliques(real, synth, cliques, pairs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "_DENSE_CELLS", 0)
        sparse = fold_cliques(real, synth, cliques, pairs, threads=2)
    assert dense == sparse
    assert sum(m for m, _ in dense[2]) == len(rows) and sum(n for _, n in dense[2]) == len(other)


def test_batches_keep_the_order_of_the_cliques(table, monkeypatch):
    real = table((2, 3, 4), [(1, 2, 3), (0, 0, 1), (1, 1, 1)])
    cliques = [("a", "b"), ("c",), ("b", "c"), ("a",)]
    monkeypatch.setattr(tables, "_BATCH_CELLS", 7)
    assert fold_cliques(real, real, cliques, lambda a, b: len(a)) == [6, 4, 12, 2]


def test_tables_that_cannot_be_compared_are_refused(table):
    real = table((2, 3), [(0, 0)])
    with pytest.raises(DataError, match="'b'"):
        validate_shared_domain(real, table((2, 4), [(0, 0)]))
    with pytest.raises(DataError, match="more attributes"):
        validate_shared_domain(real, table((2, 3, 2), [(0, 0, 0)]))
    with pytest.raises(DataError, match="without rows"):
        validate_shared_domain(real, table((2, 3), []))
    with pytest.raises(DataError, match=r"'b'.*outside its domain"):
        validate_shared_domain(real, table((2, 3), [(0, 3)]))
    with pytest.raises(DataError, match="no columns"):
        validate_shared_domain(Records.empty(Domain((), ())))
