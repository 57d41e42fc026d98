import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.marginals.marginal import Marginal, NoisyMarginal, compute_interaction, project_table
from weft.marginals.pooling import common_total
from weft.marginals.reconciliation import intersection_closure, make_consistent, reconcile
from weft.marginals.simplex import project_to_simplex

SIZES = {"a": 3, "b": 2, "c": 4, "d": 2, "e": 3}


def truth(rng, names=tuple(SIZES), rows=5000):
    """Exact counts over all attributes of a correlated population."""
    shape = [SIZES[name] for name in names]
    return rng.multinomial(rows, rng.dirichlet(np.full(np.prod(shape), 0.2))).reshape(shape)


def measure(rng, joint, names, cliques, sigmas):
    return [
        NoisyMarginal(
            c, np.rint(project_table(joint, names, c) + rng.normal(0, s, [SIZES[n] for n in c])).astype(np.int64), s
        )
        for c, s in zip(cliques, sigmas, strict=True)
    ]


def least_squares(marginals, total):
    """Consistent tables by brute force: fit the full joint, unrestricted in sign, with the total fixed."""
    names = sorted({name for m in marginals for name in m.clique})
    shape = [SIZES[name] for name in names]
    size = int(np.prod(shape))
    basis = np.eye(size).reshape(size, *shape)
    maps = [np.stack([project_table(cell, tuple(names), m.clique).ravel() for cell in basis], 1) for m in marginals]
    a = np.concatenate([q / m.sigma for q, m in zip(maps, marginals, strict=True)])
    y = np.concatenate([m.table.ravel() / m.sigma for m in marginals])
    # Fixed total: move along directions that sum to zero, from a joint that has the total.
    start = np.full(size, total / size)
    free = np.linalg.svd(np.ones((1, size)))[2][1:].T
    step = np.linalg.lstsq(a @ free, y - a @ start, rcond=None)[0]
    joint = start + free @ step
    return [(q @ joint).reshape(m.table.shape) for q, m in zip(maps, marginals, strict=True)]


def alternation(marginals, total, rounds):
    """The published algorithm in plain numpy: literal weights and corrections, table by table."""
    tables = [m.table.astype(float) for m in marginals]
    for _ in range(rounds):
        for subset in intersection_closure([m.clique for m in marginals]):
            members = [i for i, m in enumerate(marginals) if set(m.clique) >= set(subset)]
            views = [project_table(tables[i], marginals[i].clique, subset) for i in members]
            g = [tables[i].size / np.size(v) for i, v in zip(members, views, strict=True)]
            w = [marginals[i].precision / k for i, k in zip(members, g, strict=True)]
            target = sum(k * v for k, v in zip(w, views, strict=True)) / sum(w) if subset else total
            for i, view, k in zip(members, views, g, strict=True):
                axes = tuple(ax for ax, n in enumerate(marginals[i].clique) if n not in subset)
                tables[i] = tables[i] + np.expand_dims(np.asarray((target - view) / k), axes)
        tables = [project_to_simplex(t, total) for t in tables]
    return tables


CLIQUES = [
    ("a",),
    ("b",),
    ("a", "b"),
    ("b", "c"),
    ("a", "c"),
    ("c", "d"),
    ("a", "b", "c"),
    ("b", "c", "e"),
    ("a", "b", "c", "d"),
    ("a", "b", "d", "e"),
    ("e",),
]
families = st.lists(st.sampled_from(CLIQUES), min_size=1, max_size=6)


def test_common_total_weighs_a_sum_by_precision_over_cells():
    pair = NoisyMarginal(("a", "b"), np.full((3, 2), 10), 2.0)  # sum 60, variance 24
    single = NoisyMarginal(("c",), np.full(4, 20), 1.0)  # sum 80, variance 4
    total, sd = common_total([pair, single])
    assert total == pytest.approx((60 / 24 + 80 / 4) / (1 / 24 + 1 / 4))
    assert sd == pytest.approx((1 / 24 + 1 / 4) ** -0.5)


def test_common_total_has_the_deviation_it_reports():
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(4000):
        pair = NoisyMarginal(("a", "b"), rng.normal(10, 3, (5, 2)), 3.0)
        single = NoisyMarginal(("c",), rng.normal(10, 9, 10), 9.0)
        drawn.append(common_total([pair, single]))
    totals = np.array([total for total, _ in drawn])
    assert totals.mean() == pytest.approx(100, abs=1)
    assert totals.std() == pytest.approx(drawn[0][1], rel=0.05)


def test_a_table_without_noise_decides_the_total():
    exact = NoisyMarginal(("a",), np.array([3, 3, 4]), 0.0)
    noisy = NoisyMarginal(("b",), np.array([90, 90]), 5.0)
    assert common_total([exact, noisy])[0] == pytest.approx(10)
    assert common_total([exact]) == (10.0, 0.0)
    assert np.allclose(reconcile([exact]).tables[0].table, [3, 3, 4])


def test_no_table_is_refused():
    with pytest.raises(ValueError, match="no table"):
        reconcile([])
    with pytest.raises(ValueError, match="at least one"):
        common_total([])


def test_tables_must_agree_on_sizes():
    with pytest.raises(ValueError, match="'a'"):
        reconcile([NoisyMarginal(("a",), np.ones(3), 1.0), NoisyMarginal(("a", "b"), np.ones((2, 2)), 1.0)])


@given(st.lists(st.sets(st.sampled_from("abcdef"), min_size=1, max_size=4), min_size=1, max_size=6))
def test_the_closure_holds_all_intersections_and_orders_subsets_first(family):
    cliques = [tuple(sorted(names)) for names in family]
    literal = {()}
    for count in range(2, len(cliques) + 1):
        for chosen in itertools.combinations(cliques, count):
            literal.add(tuple(sorted(set.intersection(*map(set, chosen)))))
    closure = intersection_closure(cliques)
    assert set(closure) == literal
    assert len(closure) == len(literal)
    assert all(not set(later) < set(c) for i, c in enumerate(closure) for later in closure[i:])


def test_two_overlapping_tables_meet_in_the_closed_form():
    rng = np.random.default_rng(3)
    left = NoisyMarginal(("a", "b"), rng.normal(50, 20, (3, 2)), 2.0)
    right = NoisyMarginal(("b", "c"), rng.normal(30, 20, (2, 4)), 5.0)
    total = 400.0
    # Sums onto b: three cells of variance 4 against four of variance 25; then both are moved to the total.
    u, v = left.table.sum(0), right.table.sum(1)
    wu, wv = 1 / (3 * 4), 1 / (4 * 25)
    meeting = (wu * u + wv * v) / (wu + wv)
    meeting += (total - meeting.sum()) / 2
    x, y = make_consistent([left, right], total=total)
    assert np.allclose(x.table, left.table + (meeting - u) / 3)
    assert np.allclose(y.table, right.table + ((meeting - v) / 4)[:, None])


@given(families, st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_one_pass_is_the_weighted_least_squares_answer(cliques, seed):
    # A correction scaled by precision / g in place of 1 / g, or a weight without g, fails here.
    rng = np.random.default_rng(seed)
    marginals = [NoisyMarginal(c, rng.normal(20, 10, [SIZES[n] for n in c]), rng.uniform(0.3, 30)) for c in cliques]
    total, _ = common_total(marginals)
    for got, wanted in zip(make_consistent(marginals), least_squares(marginals, total), strict=True):
        assert np.allclose(got.table, wanted, atol=1e-5)


@given(families, st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_kernels_follow_the_plain_algorithm(cliques, seed):
    rng = np.random.default_rng(seed)
    sigmas = rng.uniform(1, 60, len(cliques))
    marginals = measure(rng, truth(rng), tuple(SIZES), cliques, sigmas)
    total, _ = common_total(marginals)
    rounds = int(rng.integers(1, 6))
    got = reconcile(marginals, tolerance=-1.0, rounds=rounds)
    assert got.rounds == rounds
    for x, y in zip(got.tables, alternation(marginals, total, rounds), strict=True):
        assert np.allclose(x.table, y, atol=1e-6 * total)


@given(families, st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_consistent_tables_are_left_as_they_are(cliques, seed):
    rng = np.random.default_rng(seed)
    joint = truth(rng)
    marginals = [
        NoisyMarginal(c, project_table(joint, tuple(SIZES), c), s)
        for c, s in zip(cliques, rng.uniform(0.1, 100, len(cliques)), strict=True)
    ]
    result = reconcile(marginals)
    assert result.converged
    assert result.rounds == 1
    for got, given_ in zip(result.tables, marginals, strict=True):
        assert got.clique == given_.clique
        assert np.allclose(got.table, given_.table, atol=1e-6)


@given(families, st.integers(0, 2**32 - 1), st.sampled_from([5.0, 50.0, 500.0]))
@settings(max_examples=80, deadline=None)
def test_results_are_non_negative_of_one_total_and_agree(cliques, seed, noise):
    rng = np.random.default_rng(seed)
    marginals = measure(rng, truth(rng), tuple(SIZES), cliques, noise * rng.uniform(0.2, 2, len(cliques)))
    result = reconcile(marginals)
    assert [t.clique for t in result.tables] == [m.clique for m in marginals]
    assert all(type(t) is Marginal and t.table.dtype == np.float64 for t in result.tables)
    for table in result.tables:
        assert table.table.min() >= 0
        assert table.table.sum() == pytest.approx(result.total)
    if result.degenerate:
        return
    assert result.total == pytest.approx(common_total(marginals)[0])
    # The reported spread bounds the distance of any two projections.
    for x, y in itertools.combinations(result.tables, 2):
        shared = set(x.clique) & set(y.clique)
        distance = np.abs(x.project(shared).table - y.project(shared).table).sum()
        assert distance <= result.spread * result.total + 1e-6
    assert result.converged == (result.spread <= 1e-6)
    assert result.converged or result.rounds == 500


def test_a_clique_measured_twice_comes_out_once():
    first = NoisyMarginal(("a", "b"), np.full((3, 2), 90), 1.0)
    second = NoisyMarginal(("a", "b"), np.full((3, 2), 110), 3.0)
    x, y = reconcile([first, second]).tables
    assert np.allclose(x.table, (90 * 9 + 110) / 10)
    assert np.allclose(x.table, y.table)


def test_a_given_total_is_kept():
    rng = np.random.default_rng(1)
    marginals = measure(rng, truth(rng), tuple(SIZES), CLIQUES, [20.0] * len(CLIQUES))
    result = reconcile(marginals, total=1234.5)
    assert result.total == 1234.5
    assert all(t.table.sum() == pytest.approx(1234.5) for t in result.tables)


def test_a_total_lost_in_noise_gives_uniform_tables_and_a_flag():
    drowned = [NoisyMarginal(("a",), np.array([-50, 10, 5]), 40.0), NoisyMarginal(("b",), np.array([1, -9]), 40.0)]
    result = reconcile(drowned)
    assert result.degenerate
    assert result.total == 1.0
    assert np.allclose(result.tables[0].table, 1 / 3)
    assert np.allclose(result.tables[1].table, 1 / 2)


def test_inputs_are_not_written_to():
    rng = np.random.default_rng(2)
    marginals = measure(rng, truth(rng), tuple(SIZES), CLIQUES, [20.0] * len(CLIQUES))
    before = [m.table.copy() for m in marginals]
    reconcile(marginals)
    assert all((m.table == b).all() for m, b in zip(marginals, before, strict=True))


def test_reconciled_tables_are_nearer_to_the_truth():
    rng = np.random.default_rng(5)
    cliques = [(a,) for a in SIZES] + list(itertools.combinations(SIZES, 2)) + [("a", "b", "c")]
    raw, alone, together = [], [], []
    for _ in range(20):
        joint = truth(rng, rows=3000)
        sigmas = rng.uniform(10, 60, len(cliques))
        marginals = measure(rng, joint, tuple(SIZES), cliques, sigmas)
        total, _ = common_total(marginals)
        result = reconcile(marginals)
        for m, fixed in zip(marginals, result.tables, strict=True):
            exact = project_table(joint, tuple(SIZES), m.clique)
            raw.append(np.abs(m.table - exact).sum())
            alone.append(np.abs(project_to_simplex(m.table, total) - exact).sum())
            together.append(np.abs(fixed.table - exact).sum())
    assert np.mean(together) < 0.8 * np.mean(alone)
    assert np.mean(together) < 0.8 * np.mean(raw)


def test_hundreds_of_tables_with_wide_cliques():
    rng = np.random.default_rng(7)
    names = [f"x{i:02d}" for i in range(40)]
    sizes = dict(zip(names, rng.integers(2, 8, len(names)).tolist(), strict=True))
    pick = rng.permutation(list(itertools.combinations(names, 2)))[:250]
    cliques = [(n,) for n in names] + [tuple(p) for p in pick.tolist()]
    cliques += [tuple(sorted(rng.choice(names, k, replace=False).tolist())) for k in (3, 4) * 20]
    chance = {n: rng.dirichlet(np.full(sizes[n], 1.0)) for n in names}
    marginals = []
    for c in cliques:
        exact = 20000.0
        for n in c:
            exact = np.multiply.outer(exact, chance[n])
        marginals.append(NoisyMarginal(c, np.rint(exact + rng.normal(0, 40, np.shape(exact))), 40.0))
    result = reconcile(marginals)
    assert result.converged
    assert len(result.tables) == len(cliques)
    assert min(t.table.min() for t in result.tables) >= 0


def test_interactions_count_for_what_they_tell_alone():
    """Against least squares on the full joint in which each interaction is compared with the joint's own."""
    rng = np.random.default_rng(5)
    names = ("a", "b", "c")
    joint = truth(rng, names)
    shape = [SIZES[name] for name in names]
    whole = measure(rng, joint, names, [("a",), ("b",), ("c",), ("b", "c")], [20.0, 30.0, 25.0, 60.0])
    parts = []
    for c, order, sigma in [(("a", "b"), 2, 40.0), (("b", "c"), 2, 50.0), (("a", "c"), 2, 45.0), (names, 3, 30.0)]:
        table = project_table(joint, names, c)
        noisy = compute_interaction(table + rng.normal(0, sigma, table.shape), order) / table.size
        parts.append(NoisyMarginal(c, noisy, sigma, order))
    found = make_consistent([*whole, *parts], total=float(joint.sum()))

    size = joint.size
    basis = np.eye(size).reshape(size, *shape)

    def seen(cell, m):
        table = project_table(cell, names, m.clique)
        return (compute_interaction(table, m.order) / table.size if m.order else table).ravel()

    marginals = [*whole, *parts]
    a = np.concatenate([np.stack([seen(cell, m) for cell in basis], 1) / m.sigma for m in marginals])
    y = np.concatenate([m.table.ravel() / m.sigma for m in marginals])
    start = np.full(size, joint.sum() / size)
    free = np.linalg.svd(np.ones((1, size)))[2][1:].T
    best = (start + free @ np.linalg.lstsq(a @ free, y - a @ start, rcond=None)[0]).reshape(shape)
    for m in found:
        assert m.table == pytest.approx(project_table(best, names, m.clique), abs=1e-6)


def test_the_total_is_not_an_interactions_to_tell():
    pair = NoisyMarginal(("a", "b"), np.zeros((3, 2)), 1e-3, 2)
    single = NoisyMarginal(("a",), np.array([5, 6, 7]), 2.0)
    assert common_total([pair, single]) == common_total([single])
    with pytest.raises(ValueError, match="whole"):
        common_total([pair])
