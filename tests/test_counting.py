import doctest
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft.marginals.counting
from weft.marginals.counting import Counter, compile_kernels, count_marginals, is_compiled
from weft.marginals.domain import Domain
from weft.marginals.records import Records


def plain_count(records, cliques):
    """The kernel's twin in plain numpy."""
    tables = []
    for clique in cliques:
        shape = records.domain.sizes(clique)
        if not clique:
            tables.append(np.array(len(records)))
            continue
        cells = np.ravel_multi_index([records.column(name).astype(np.int64) for name in clique], shape)
        tables.append(np.bincount(cells, minlength=records.domain.cells(clique)).reshape(shape))
    return tables


def random_records(shape, n, seed, skew=1.0):
    rng = np.random.default_rng(seed)
    domain = Domain(tuple(f"c{i}" for i in range(len(shape))), tuple(shape))
    return Records.of(domain, [(size * rng.random(n) ** skew).astype(np.int64) for size in shape])


def assert_same(got, expected):
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        assert one.dtype == np.int64
        assert one.shape == other.shape
        np.testing.assert_array_equal(one, other)


sizes = st.one_of(st.integers(1, 6), st.sampled_from([1, 255, 256, 257, 300, 65_536, 65_537, 70_000]))


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_kernel_agrees_with_its_twin(data):
    shape = data.draw(st.lists(sizes, min_size=1, max_size=6))
    records = random_records(shape, data.draw(st.sampled_from([0, 1, 7, 1023, 1024, 1025, 5000])), seed=len(shape))
    names = st.lists(st.sampled_from(records.domain.names), max_size=5, unique=True).map(sorted).map(tuple)
    fits = names.filter(lambda clique: records.domain.cells(clique) <= 1 << 20)
    cliques = data.draw(st.lists(fits, max_size=12))
    threads = data.draw(st.integers(1, 3))
    assert_same(count_marginals(records, cliques, threads), plain_count(records, cliques))


@pytest.mark.parametrize("skew", [1, 8])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_all_pairs_in_threads_that_own_cliques(threads, skew):
    records = random_records([20, 1, 300, 7, 70_000, 2, 4, 11], 30_000, seed=1, skew=skew)
    cliques = [c for k in (1, 2, 3) for c in combinations(records.domain.names, k) if records.domain.cells(c) < 3e6]
    assert_same(count_marginals(records, cliques, threads), plain_count(records, cliques))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_few_cliques_in_threads_that_own_rows(threads):
    records = random_records([20, 30, 5], 200_003, seed=2)
    cliques = [("c0", "c1"), (), ("c0", "c1", "c2")]
    assert_same(count_marginals(records, cliques, threads), plain_count(records, cliques))


def test_batches_and_row_order_change_nothing():
    records = random_records([20, 300, 3, 1], 20_000, seed=3)
    cliques = tuple(combinations(records.domain.names, 2))
    whole = count_marginals(records, cliques)
    order = np.random.default_rng(4).permutation(len(records))
    assert_same(count_marginals(records.take(order), cliques), whole)
    for step in (1_001, 9_999, 20_000):
        counter = Counter(records.domain, cliques, threads=2)
        flat = counter.zeros()
        for at in range(0, len(records), step):
            counter.add(records.take(slice(at, at + step)), flat)
        assert_same(counter.tables(flat), whole)


@pytest.mark.parametrize("threads", [1, 2])
def test_long_tables_are_counted_in_several_calls(monkeypatch, threads):
    monkeypatch.setattr(weft.marginals.counting, "_ROWS_A_CALL", 4_097)
    monkeypatch.setattr(weft.marginals.counting, "_WORK_A_CALL", 10_000)
    records = random_records([20, 300, 3, 1], 20_000, seed=9)
    for cliques in ([("c0", "c2")], list(combinations(records.domain.names, 2)) * 3):
        assert_same(count_marginals(records, cliques, threads), plain_count(records, cliques))


def test_columns_need_not_be_contiguous():
    records = random_records([20, 300], 9_000, seed=5)
    strided = records.take(slice(None, None, 3))
    assert not strided.columns[0].flags.c_contiguous
    assert_same(count_marginals(strided, [("c0", "c1")]), plain_count(strided, [("c0", "c1")]))


def test_the_buffer_is_added_to():
    records = random_records([4, 4], 100, seed=6)
    counter = Counter(records.domain, (("c0", "c1"),))
    flat = counter.zeros()
    counter.add(records, flat)
    counter.add(records, flat)
    np.testing.assert_array_equal(counter.tables(flat)[0], 2 * count_marginals(records, [("c0", "c1")])[0])


def test_progress_is_told_of_every_clique_once():
    records = random_records([9] * 12, 10_000, seed=7)
    cliques = tuple(combinations(records.domain.names, 2))
    for threads in (1, 2):
        told = []
        counter = Counter(records.domain, cliques, threads)
        counter.add(records, counter.zeros(), told.append)
        assert sum(told) == len(cliques)


def test_too_large_a_table_is_refused_by_name_and_size():
    domain = Domain(("a", "b", "c"), (70_000, 70_000, 2))
    with pytest.raises(ValueError, match=r"a, b has 4,900,000,000 cells"):
        Counter(domain, (("a", "b"),))
    with pytest.raises(ValueError, match="'z' is not an attribute"):
        Counter(domain, (("a", "z"),))


def test_a_code_outside_its_domain_never_reaches_the_kernel():
    domain = Domain(("a", "b"), (3, 3))
    bad = Records.of(domain, [[0, 1, 200], [0, 1, 2]])
    with pytest.raises(ValueError, match="'a' is outside its domain") as refusal:
        count_marginals(bad, [("a", "b")])
    assert "200" not in str(refusal.value)
    assert_same(count_marginals(bad, [("b",)]), [np.array([1, 1, 1])])


def test_foreign_records_and_buffers_are_refused():
    records = random_records([3, 3], 10, seed=8)
    counter = Counter(records.domain, (("c0",),))
    with pytest.raises(ValueError, match="domain"):
        counter.add(random_records([3, 4], 10, seed=8), counter.zeros())
    with pytest.raises(ValueError, match="buffer"):
        counter.add(records, np.zeros(4, np.int64))


def test_compiled_kernels_are_known_to_be():
    compile_kernels()
    assert is_compiled()


def test_examples():
    assert doctest.testmod(weft.marginals.counting).failed == 0
