"""The fit against brute force and mirror descent, and its stopping rules."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from weft.marginals.domain import Domain, make_clique
from weft.marginals.marginal import Marginal, NoisyMarginal
from weft.models.mrf import ImpossibleEvidenceError, ModelTooLarge, fit_mrf, junction_tree


def indicator(domain, c):
    """The matrix that sums the whole domain's cells down to a clique's."""
    codes = np.indices(domain.shape).reshape(len(domain), -1)
    flat = np.ravel_multi_index([codes[domain.index(name)] for name in c], domain.sizes(c))
    return (flat[None, :] == np.arange(domain.cells(c))[:, None]).astype(float)


def least(domain, measurements, total):
    """The smallest loss any distribution can have: non-negative least squares over all cells."""
    rows = [indicator(domain, m.clique) / m.sigma for m in measurements]
    sides = [m.table.ravel() / m.sigma for m in measurements]
    a, b = np.vstack(rows), np.concatenate(sides)
    weight = 1e4
    p, _ = nnls(np.vstack([a, weight * np.ones(a.shape[1])]), np.append(b, weight * total), maxiter=10_000)
    return 0.5 * float(np.sum((a @ p - b) ** 2))


def loss(model, measurements):
    return sum(0.5 * float(np.sum((model.marginal(m.clique) - m.table) ** 2)) / m.sigma**2 for m in measurements)


def noisy(domain, cliques, n, sigma, seed):
    rng = np.random.default_rng(seed)
    weights = rng.gamma(0.3, size=domain.cells(domain.names))
    full = rng.multinomial(n, weights / weights.sum()).reshape(domain.shape)
    found = []
    for c in cliques:
        kept = [name for name in domain.names if name in c]
        table = full.sum(axis=tuple(i for i, name in enumerate(domain.names) if name not in c))
        table = np.transpose(table, [kept.index(name) for name in c])
        s = sigma * rng.uniform(0.5, 2.0)
        found.append(NoisyMarginal(c, table + np.rint(s * rng.normal(size=table.shape)), s))
    return full, found


@settings(max_examples=25, deadline=None)
@given(st.data(), st.integers(0, 2**32 - 1), st.sampled_from([3.0, 30.0]))
def test_the_loss_is_the_least_possible(data, seed, sigma):
    d = data.draw(st.integers(1, 4))
    domain = Domain.of({name: data.draw(st.integers(2, 4)) for name in "dbca"[:d]})
    cliques = data.draw(
        st.lists(
            st.lists(st.sampled_from(domain.names), min_size=1, max_size=3, unique=True).map(make_clique),
            min_size=1,
            max_size=5,
            unique=True,
        )
    )
    _, measurements = noisy(domain, cliques, 1000, sigma, seed)
    model = fit_mrf(domain, measurements, total=1000.0, iterations=3000, tolerance=1e-6)
    best = least(domain, measurements, 1000.0)
    cells = sum(m.cells for m in measurements)
    assert loss(model, measurements) == pytest.approx(model.loss * 0.5 * cells, rel=1e-6, abs=1e-6)
    assert loss(model, measurements) <= 1.01 * best + 0.005 * cells
    assert loss(model, measurements) >= best - 1e-3 * (1 + best)


def problem(seed=0):
    domain = Domain.of({"a": 6, "b": 5, "c": 4, "d": 7, "e": 3})
    cliques = [(x,) for x in "abcde"] + [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d", "e"), ("a", "e")]
    return domain, noisy(domain, cliques, 20_000, 20.0, seed)[1]


def test_fewer_passes_than_mirror_descent():
    domain, measurements = problem()
    best = fit_mrf(domain, measurements, total=20_000.0, iterations=4000, tolerance=0.0, solver="mirror").loss
    # Within 2% of the least distance, which is the square root of the loss.
    slow, fast = (
        fit_mrf(
            domain, measurements, total=20_000.0, iterations=4000, tolerance=0.0, noise_level=1.04 * best, solver=solver
        )
        for solver in ("mirror", "accelerated")
    )
    assert fast.loss <= 1.04 * best
    assert fast.passes < slow.passes / 2


def test_consistent_tables_are_fitted_exactly():
    domain = Domain.of({"a": 3, "b": 4, "c": 2})
    full = np.random.default_rng(3).integers(1, 50, size=domain.shape).astype(float)
    tables = {("a", "b"): full.sum(2), ("b", "c"): full.sum(0), ("a", "c"): full.sum(1)}
    measurements = [NoisyMarginal(c, t, 1.0) for c, t in tables.items()]
    model = fit_mrf(domain, measurements, iterations=2000, tolerance=1e-9)
    for c, table in tables.items():
        np.testing.assert_allclose(model.marginal(c), table, atol=0.05)


def test_it_stops_by_the_noise_and_not_by_the_count():
    domain, measurements = problem()
    loose = fit_mrf(domain, measurements, tolerance=0.05)
    normal = fit_mrf(domain, measurements)
    tight = fit_mrf(domain, measurements, tolerance=1e-4)
    assert loose.passes < normal.passes < tight.passes < 1000
    assert loose.loss >= normal.loss >= tight.loss
    early = fit_mrf(domain, measurements, noise_level=1.2, tolerance=0.0)
    assert early.loss <= 1.2 and early.passes < tight.passes


def test_a_warm_start_saves_passes():
    domain, measurements = problem()
    first = fit_mrf(domain, measurements[:-1])
    level = fit_mrf(domain, measurements).loss * 1.05
    cold = fit_mrf(domain, measurements, noise_level=level, tolerance=0.0)
    warm = fit_mrf(domain, measurements, warm=first, noise_level=level, tolerance=0.0)
    assert warm.loss <= level and warm.passes < cold.passes
    again = fit_mrf(domain, measurements, warm=warm.potentials, noise_level=level, tolerance=0.0)
    assert again.passes <= 2


def test_the_more_precise_table_wins():
    domain = Domain.of({"a": 2})
    good, bad = NoisyMarginal(("a",), np.array([70, 30]), 1.0), NoisyMarginal(("a",), np.array([10, 90]), 10.0)
    expected = (np.array([70, 30]) + np.array([10, 90]) / 100) / 1.01
    model = fit_mrf(domain, [good, bad], tolerance=1e-9)
    np.testing.assert_allclose(model.marginal(("a",)), expected, rtol=1e-3)
    assert model.precisions[("a",)] == pytest.approx(1.01)


def test_total_is_the_inverse_variance_average():
    first = NoisyMarginal(("a",), np.array([40, 60]), 1.0)
    second = NoisyMarginal(("b",), np.array([[50, 60, 70, 80]]).ravel(), 1.0)
    both = Domain.of({"a": 2, "b": 4})
    assert fit_mrf(both, [first, second]).total == pytest.approx((100 / 2 + 260 / 4) / (1 / 2 + 1 / 4))
    assert fit_mrf(both, [NoisyMarginal(("a",), np.array([-40, -60]), 1.0)]).total == 1.0
    with pytest.raises(ValueError, match="total"):
        fit_mrf(Domain.of({"a": 2}), [])
    assert fit_mrf(Domain.of({"a": 2}), [], total=10.0).marginal(("a",)).tolist() == [5.0, 5.0]


def test_hopeless_tables_still_give_a_distribution():
    # A tiny budget: noise far above the counts, totals below nothing.
    domain = Domain.of({"a": 3, "b": 4})
    rng = np.random.default_rng(0)
    measurements = [NoisyMarginal(c, -np.abs(rng.normal(0, 1e6, domain.sizes(c))), 1e6) for c in [("a",), ("a", "b")]]
    for total in (None, 1.0, 1000.0):
        model = fit_mrf(domain, measurements, total=total)
        table = model.marginal(("a", "b"))
        assert np.isfinite(table).all() and (table >= 0).all()
        assert table.sum() == pytest.approx(model.total)


def test_structural_zeros_hold_exactly():
    domain = Domain.of({"a": 3, "b": 3, "c": 2})
    barred = np.triu(np.ones((3, 3), dtype=bool), 1)
    measurements = [
        NoisyMarginal(("a", "b"), np.full((3, 3), 10.0), 2.0),
        NoisyMarginal(("b", "c"), np.full((3, 2), 15.0), 2.0),
    ]
    model = fit_mrf(domain, measurements, total=90.0, zeros=[Marginal(("a", "b"), barred)])
    table = model.marginal(("a", "b"))
    assert (table[barred] == 0).all() and (table[~barred] > 1).all()
    records = model.sample(500, np.random.default_rng(0))
    assert not barred[records.column("a"), records.column("b")].any()
    with pytest.raises(ImpossibleEvidenceError):
        fit_mrf(domain, measurements, total=90.0, zeros=[Marginal(("a", "b"), np.ones((3, 3), dtype=bool))])


def test_a_given_tree_and_limits():
    domain, measurements = problem()
    tree = junction_tree(domain, [tuple("abcde")])
    wide = fit_mrf(domain, measurements, tree=tree, tolerance=1e-4)
    narrow = fit_mrf(domain, measurements, tolerance=1e-4)
    assert wide.tree is tree
    for pair in itertools.combinations("abcde", 2):
        np.testing.assert_allclose(wide.marginal(pair), narrow.marginal(pair), atol=20)
    with pytest.raises(ModelTooLarge):
        fit_mrf(domain, measurements, max_cells=10)
    with pytest.raises(ValueError, match="covers"):
        fit_mrf(domain, measurements, tree=junction_tree(domain, [("a", "b")]))
    with pytest.raises(ValueError, match="shape"):
        fit_mrf(domain, [NoisyMarginal(("a",), np.zeros(3), 1.0)])


def test_progress_is_told():
    domain, measurements = problem()
    seen = []
    fit_mrf(domain, measurements, listener=seen.append)
    assert seen[0].stage == "fit" and seen[-1].finished and any("of noise" in e.note for e in seen)


def test_the_risk_of_a_shrinking_estimate_is_unbiased():
    """Stein's estimate against the truth, for an estimate whose divergence is known: half of what was measured."""
    from weft.models.mrf.mrf_fit import Problem

    domain = Domain.of({"a": 6, "b": 5})
    tree = junction_tree(domain, [("a", "b")])
    rng = np.random.default_rng(0)
    exact, sigma = rng.uniform(0, 30, (6, 5)), 4.0
    estimated, true = [], []
    for _ in range(1500):
        noisy = NoisyMarginal(("a", "b"), exact + sigma * rng.normal(size=exact.shape), sigma)
        problem = Problem.of(tree, {noisy.clique: noisy}, 100.0, (), rng)
        estimated.append(problem.risk(0.5 * problem.target))
        true.append(0.5 * ((0.5 * noisy.table - exact) ** 2).sum() / sigma**2)
    error = np.std(np.subtract(estimated, true)) / np.sqrt(1500)
    assert abs(np.mean(estimated) - np.mean(true)) < 4 * error
    assert error < 0.5  # the divergence alone is 7.5


def test_a_probed_fit_is_closer_to_the_exact_tables():
    """Many overlapping tables and much noise: the fit of least loss has followed the noise."""
    names = [f"v{i}" for i in range(7)]
    domain = Domain.of(dict.fromkeys(names, 2))
    rng = np.random.default_rng(1)
    weights = np.exp(rng.normal(0, 0.4, domain.shape))
    joint = 4000 * weights / weights.sum()
    cliques = list(itertools.combinations(names, 4))[::2]
    exact = {c: joint.sum(axis=tuple(i for i, name in enumerate(names) if name not in c)) for c in cliques}

    def error(model):
        return sum(np.abs(model.marginal(c) - t).sum() for c, t in exact.items())

    plain, probed = 0.0, 0.0
    for _ in range(5):
        tables = [NoisyMarginal(c, t + 60 * rng.normal(size=t.shape), 60.0) for c, t in exact.items()]
        plain += error(fit_mrf(domain, tables))
        probed += error(fit_mrf(domain, tables, probe=rng))
    assert probed < 0.9 * plain


def test_interactions_are_refused():
    part = NoisyMarginal(("a",), np.array([3.0, -3.0]), 1.0, order=1)
    with pytest.raises(ValueError, match="whole tables"):
        fit_mrf(Domain.of({"a": 2}), [part], total=10.0)


def test_momentum_that_goes_to_and_fro_is_not_taken_for_the_end():
    """A fit that once ended at 80 passes, 3.7% above the least loss, while momentum swung around its best."""
    domain = Domain.of(dict.fromkeys("dbca", 2))
    cliques = [("d",), ("b", "d"), ("a", "c", "d"), ("b", "c", "d"), ("a", "b", "c")]
    _, measurements = noisy(domain, cliques, 1000, 3.0, 2**32 - 1)
    model = fit_mrf(domain, measurements, total=1000.0, iterations=3000, tolerance=1e-6)
    assert loss(model, measurements) == pytest.approx(least(domain, measurements, 1000.0), rel=1e-4)
