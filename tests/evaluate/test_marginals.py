from itertools import combinations

import numpy as np
import pytest
from weft_lab.nist_scores import nist_density
from weft_lab.scorecard import pairwise_l1

from weft.evaluation.metrics import distances, k_way
from weft.evaluation.metrics import marginal_distances as module


def test_by_hand(table):
    real = table((2, 2), [(0, 0), (0, 0), (0, 1), (1, 1)])
    synth = table((2, 2), [(0, 0), (1, 1), (1, 1), (1, 0)])
    one, two = k_way(real, synth, 1), k_way(real, synth, 2)
    assert one.cliques == (("a",), ("b",)) and one.tvds.tolist() == [0.5, 0.0]
    assert one.tvd == 0.25 and two.tvd == 0.5 and two.l1 == 1.0
    pairs = pairwise_l1(real, synth)
    assert pairs.matrix.tolist() == [[1.0, 1.0], [1.0, 0.0]] and pairs.mean == 1.0


def test_proportions_count_and_not_rows(random_table):
    real = random_table((3, 4, 2), 100, seed=1)
    thrice = real.take(np.tile(np.arange(100), 3))
    for k in (1, 2, 3):
        assert k_way(real, thrice, k).tvd == 0.0
    assert nist_density(real, thrice) == 1.0


def test_disjoint_tables_are_at_distance_one(table):
    real, synth = table((2, 3, 2), [(0, 0, 0)] * 7), table((2, 3, 2), [(1, 1, 1)] * 3)
    assert [k_way(real, synth, k).tvd for k in (1, 2, 3)] == [1.0, 1.0, 1.0]
    assert nist_density(real, synth) == 0.0


def test_huge_row_counts_fall_back_to_floats():
    a, b = np.array([1, 3], np.int64) * 10**10, np.array([2, 1], np.int64) * (10**10 + 1)
    n, m = int(a.sum()), int(b.sum())
    assert module._total_variation(n, m, a, b) == pytest.approx(abs(0.25 - 2 / 3), abs=1e-15)


def test_all_marginals_or_distinct_sampled_ones(random_table):
    real, synth = random_table((2,) * 12, 50, seed=1), random_table((2,) * 12, 50, seed=2)
    assert k_way(real, synth, 3).cliques == tuple(combinations(real.domain.names, 3))
    sample = k_way(real, synth, 5, limit=40, seed=3)
    assert len(set(sample.cliques)) == 40 and sample.cliques == tuple(sorted(sample.cliques))
    assert all(len(set(clique)) == 5 for clique in sample.cliques)
    assert sample.cliques == k_way(real, synth, 5, limit=40, seed=3).cliques
    assert sample.cliques != k_way(real, synth, 5, limit=40, seed=4).cliques
    assert len(k_way(real, synth, 5, limit=None).cliques) == 792
    with pytest.raises(ValueError, match="13-way"):
        k_way(real, synth, 13)


def test_large_domains(random_table):
    sizes = (70_000, 60_000, 300, 5_000, 100_000)
    real, synth = random_table(sizes, 2_000, seed=1), random_table(sizes, 3_000, seed=2)
    rows = [set(zip(*(column.tolist() for column in t.columns), strict=True)) for t in (real, synth)]
    assert not rows[0] & rows[1]
    assert k_way(real, synth, 5).tvd == 1.0
    half = real.take(slice(1_000))
    assert k_way(real, half, 5).tvd == 0.5


def test_distances_agree_with_plain_numpy(random_table):
    sizes = (3, 300, 5)
    real, synth = random_table(sizes, 700, seed=1), random_table(sizes, 900, seed=2, tilt=2)
    a, b = (
        np.histogramdd(np.column_stack(t.columns).astype(float), bins=[np.arange(s + 1) - 0.5 for s in sizes])
        for t in (real, synth)
    )
    expected = 0.5 * np.abs(a[0] / 700 - b[0] / 900).sum()
    assert distances(real, synth, [real.domain.names])[0] == pytest.approx(expected, abs=1e-13)
    one = 0.5 * np.abs((a[0] / 700 - b[0] / 900).sum(axis=(1, 2))).sum()
    matrix = pairwise_l1(real, synth, threads=1).matrix
    assert matrix[0, 0] == pytest.approx(2 * one, abs=1e-13)
    assert (matrix == matrix.T).all()


def test_a_single_column(table):
    real, synth = table((2,), [(0,), (1,)]), table((2,), [(0,)])
    assert pairwise_l1(real, synth).mean == 1.0
