"""The privacy test and its accountant: against definitions, exact divergences, and the mechanism itself."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import betainc
from scipy.stats import binom, laplace, multinomial
from weft_lab.queries import seeded_price
from weft_lab.queries.plausible_seeds import plan_deniability
from weft_lab.queries.seeded_price import charge_seeded, release_mu

from weft.errors import BudgetError
from weft.privacy import Adjacency, Budget, Charge, Ledger, Noise, gdp_delta, gdp_epsilon
from weft.privacy.deniability import MAX_DENIABLE_ROWS, UNIT, Acceptance, theorem_one
from weft.privacy.mechanisms import Mechanisms
from weft.privacy.noise import scale_words_below

parts = st.integers(0, 1000).map(lambda i: i / 1000)
tests = st.builds(Acceptance, st.integers(1, 60), st.floats(0.05, 3))


def seeded(test, records, passing, slack):
    return charge_seeded("test", test=test, records=records, passing=passing, slack=slack)


def with_mu(mu, slack):
    return Charge("seeds", "seeded", "rows", 1.0, 1 / mu, 10, slack)


def without_slack(ledger):
    values = ledger.to_dict()
    return values | {"entries": [entry | {"slack": 0.0} for entry in values["entries"]]}


def divergence(p, q, n, epsilon):
    """Return the hockey-stick divergence of two binomials, by its definition."""
    x = np.arange(n + 1)
    return np.maximum(binom.pmf(x, n, p) - math.exp(epsilon) * binom.pmf(x, n, q), 0).sum()


@given(tests)
def test_the_test_is_a_laplace_tail(test):
    c = np.arange(len(test.levels) - 1)
    np.testing.assert_allclose(test.levels[:-1] / UNIT, laplace.cdf((c - test.k) * test.epsilon0), atol=1 / UNIT)
    assert (np.diff(test.levels) >= 0).all()
    assert test.weights(np.array([0, 10**6])).tolist() == [0, 10**6 * UNIT]


@pytest.mark.parametrize(
    ("k", "epsilon0"),
    [(0, 1.0), (5.5, 1.0), (5, 0.0), (5, math.nan), (MAX_DENIABLE_ROWS - 30, 1.0), (MAX_DENIABLE_ROWS - 10, 1e-4)],
)
def test_a_test_that_cannot_be_counted_is_refused(k, epsilon0):
    with pytest.raises(BudgetError, match="privacy test"):
        Acceptance(k, epsilon0)


def test_weights_of_the_largest_tables_do_not_wrap():
    test = Acceptance(5, 1.0)
    assert test.weights(np.array([MAX_DENIABLE_ROWS])).tolist() == [MAX_DENIABLE_ROWS * UNIT]
    assert MAX_DENIABLE_ROWS * UNIT < 2**63 - 1


@given(tests)
def test_the_sensitivity_is_the_largest_step_of_the_weight(test):
    counts = np.arange(len(test.levels) + 50)
    passing = test.weights(counts) // UNIT
    assert np.diff(test.weights(counts)).max() <= test.sensitivity * UNIT
    assert np.abs(np.diff(passing)).max() <= test.sensitivity


def test_theorem_one_is_the_papers():
    assert theorem_one(50, 1.0, 4.0, 2.0**-30) == pytest.approx(1 + math.log(1 + 4 / 29))
    assert theorem_one(10, 1.0, 4.0, 1e-9) == math.inf


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 25),
    st.floats(0.2, 2),
    st.integers(1, 150),
    st.floats(20, 2000),
    st.floats(0, 3),
    st.integers(0, 60),
    st.sampled_from([1e-2, 1e-4]),
)
def test_no_pair_of_neighbours_diverges_more_than_mu_says(k, epsilon0, n, passing, more, c, slack):
    """S may be anything from its lower bound up, and the new row's prefix may be anywhere."""
    test = Acceptance(k, epsilon0)
    mu = release_mu(test, n, passing, slack)
    a, b = (test.weights(np.array([c, c + 1])) / UNIT).tolist()
    others = max(passing * (1 + more) - a, 0.0)
    p, q = a / (others + a) if a else 0.0, b / (others + b) if b else 0.0
    for epsilon in (0.0, 0.2, 1.0, 3.0):
        allowed = gdp_delta(mu, epsilon) + (1 + math.exp(epsilon)) * slack if mu < 100 else 1.0
        assert divergence(p, q, n, epsilon) <= allowed + 1e-9
        assert divergence(q, p, n, epsilon) <= allowed + 1e-9


@settings(max_examples=150, deadline=None)
@given(
    st.builds(Acceptance, st.integers(1, 12), st.floats(0.1, 4)),
    st.lists(st.integers(0, 30), min_size=3, max_size=3),
    st.integers(1, 20),
    st.sampled_from([1e-3, 1e-6]),
)
def test_whole_tables_of_records_diverge_no_more_than_mu_says(test, counts, n, slack):
    """By all tables of n records that there are, not by how many of them have the new row's prefix."""
    here, there = (test.weights(np.array(counts) + more) for more in ([0, 0, 0], [1, 0, 0]))
    assume(here.sum() > 0)
    mu = release_mu(test, n, float(here.sum()) / UNIT, slack)
    assume(mu < 100)
    drawn = np.array([(i, j, n - i - j) for i in range(n + 1) for j in range(n + 1 - i)])
    p, q = (multinomial.pmf(drawn, n, weights / weights.sum()) for weights in (here, there))
    for epsilon in (0.0, 0.2, 1.0, 3.0):
        allowed = gdp_delta(mu, epsilon) + (1 + math.exp(epsilon)) * slack
        for one, other in ((p, q), (q, p)):
            assert np.maximum(one - math.exp(epsilon) * other, 0).sum() <= allowed + 1e-9


@settings(max_examples=60, deadline=None)
@given(tests, st.integers(1, 300), st.floats(1, 5000), st.sampled_from([1e-2, 1e-5, 1e-9]), st.floats(0, 4))
def test_blocks_stand_for_every_count_in_them(test, n, passing, slack, epsilon):
    """Mu covers the pair of each count, and is hardly above what looking at each of them gives."""
    c = np.arange(len(test.levels))
    a, b = test.weights(c) / UNIT, test.weights(c + 1) / UNIT
    total = np.maximum(passing, a) + b
    mu = release_mu(test, n, passing, slack)
    needed = float(seeded_price._binomial_mus(a / total, b / total, n, slack).max())
    assert mu <= needed * 1.0011
    p, q = (binom.pmf(np.arange(n + 1), n, (each / total)[:, None]) for each in (a, b))
    allowed = gdp_delta(mu, epsilon) + (1 + math.exp(epsilon)) * slack if mu < 100 else 1.0
    for one, other in ((p, q), (q, p)):
        assert np.maximum(one - math.exp(epsilon) * other, 0).sum(axis=1).max() <= allowed + 1e-9
    # A search that ends early says truly whether mu is above what is enough.
    assert release_mu(test, n, passing, slack, enough=mu) == mu
    assert release_mu(test, n, passing, slack, enough=mu / 2) > mu / 2 or mu in (0, math.inf)


@settings(deadline=None)
@given(parts, parts, parts, parts, st.integers(1, 40), st.floats(0, 4))
def test_a_pair_that_grows_more_dominates(growth, less, step, smaller, n, epsilon):
    """By the definition of divergence, not by mu: 1 - a/b and (b - a)/M are all that counts."""

    def pair(growth, step):
        q = step / (step + growth) if step else 0.0
        return (1 - growth) * q, q

    p, q = pair(growth, step)
    dominated = pair(growth * less, step * smaller)
    for one, other, x, y in ((p, q, *dominated), (q, p, *dominated[::-1])):
        assert divergence(x, y, n, epsilon) <= divergence(one, other, n, epsilon) + 1e-12


def test_mu_is_not_far_too_large():
    """At the delta that matters, the Gaussian bound is close to the worst pair's own divergence."""
    test, n, passing = Acceptance(50, 1.0), 1000, 20_000.0
    epsilon = gdp_epsilon(release_mu(test, n, passing, 1e-9), 1e-5)
    c = np.arange(len(test.levels))
    a, b = test.weights(c) / UNIT, test.weights(c + 1) / UNIT
    worst = max(divergence(y / (passing - x + y), x / passing, n, 0.7 * epsilon) for x, y in zip(a, b, strict=True))
    assert worst > 1e-5


@pytest.mark.parametrize(
    ("k", "epsilon0", "n", "expected"), [(50, 1, 1000, 3.0), (50, 1, 10_000, 6.6), (1000, 0.05, 10_000, 0.91)]
)
def test_known_values_are_met_within_a_third(k, epsilon0, n, expected):
    """Expected: exact hockey-stick of the worst pair at delta 1e-6 and S = 367,000, computed independently."""
    epsilon = gdp_epsilon(release_mu(Acceptance(k, epsilon0), n, 367_000, 1e-8), 1e-6)
    assert expected * 0.99 < epsilon < expected * 4 / 3


def test_the_mechanism_keeps_to_its_accountant():
    """Monte Carlo on two neighbouring tables: the number of records with the new row's prefix tells most."""
    test, n, runs, slack = Acceptance(8, 1.0), 12, 60_000, 1e-3
    counts, neighbour = np.array([7, 9, 20, 14]), np.array([8, 9, 20, 14])
    passing = float(test.weights(counts).sum()) / UNIT
    mu = release_mu(test, n, passing, slack)
    prefixes = np.arange(4)[:, None]
    hits = []
    for seed, table in enumerate((counts, neighbour)):
        charge = replace(seeded(test, n, passing, 2 * slack), draws=n * runs)
        (drawn,) = Mechanisms(Noise.seeded(seed))(charge, [prefixes, table])
        hits.append((drawn.reshape(runs, n) == 0).sum(axis=1))
    for x in range(n):
        one, other = ((h > x).mean() for h in hits)
        error = slack + 4 * math.sqrt(max(one, other, 1 / runs) / runs)
        for epsilon in (0.0, 0.3, 1.0):
            assert other <= math.exp(epsilon) * one + gdp_delta(mu, epsilon) + (1 + math.exp(epsilon)) * error
            assert 1 - one <= math.exp(epsilon) * (1 - other) + gdp_delta(mu, epsilon) + (1 + math.exp(epsilon)) * error
    # A mu of half the size would have been refuted: the test can fail.
    best = max((h1 - h0) for h0, h1 in ((np.mean(hits[0] > x), np.mean(hits[1] > x)) for x in range(n)))
    assert best > gdp_delta(mu / 2.5, 0.0)


def test_records_of_several_omegas_compose():
    """Monte Carlo with two numbers of kept attributes: a row more shows in both, and the prices add up."""
    test, n, runs, slack = Acceptance(8, 1.0), 12, 40_000, 1e-3
    longer = np.array([7, 0, 20, 14])  # prefixes of two attributes; of one, they go together in pairs
    neighbour = longer + np.array([1, 0, 0, 0])
    mus = []
    hits = np.zeros((2, runs), np.int64)
    for groups in (longer, longer.reshape(2, 2).sum(axis=1)):
        mus.append(release_mu(test, n, float(test.weights(groups).sum()) / UNIT, slack))
    for which, table in enumerate((longer, neighbour)):
        for counts in (table, table.reshape(2, 2).sum(axis=1)):
            charge = replace(seeded(test, n, 50.0, 2 * slack), draws=n * runs)
            noise = Noise.seeded(10 * which + len(counts))
            (drawn,) = Mechanisms(noise)(charge, [np.arange(len(counts))[:, None], counts])
            hits[which] += (drawn.reshape(runs, n) == 0).sum(axis=1)
    mu = math.hypot(*mus)
    best = 0.0
    for x in range(2 * n):
        one, other = ((h > x).mean() for h in hits)
        best = max(best, other - one)
        error = 2 * slack + 4 * math.sqrt(max(one, other, 1 / runs) / runs)
        for epsilon in (0.0, 0.3, 1.0):
            allowed = gdp_delta(mu, epsilon) + (1 + math.exp(epsilon)) * error
            assert other <= math.exp(epsilon) * one + allowed
            assert 1 - one <= math.exp(epsilon) * (1 - other) + allowed
    assert best > gdp_delta(mu / 2.5, 0.0)  # the test can fail


def test_draws_follow_the_weights_and_are_all_there_are():
    test, counts = Acceptance(4, 1.0), np.array([3, 0, 5, 2])
    charge = seeded(test, 100_000, 50.0, 0.1)
    (drawn,) = Mechanisms(Noise.seeded(1))(charge, [np.arange(8).reshape(4, 2), counts])
    assert drawn.shape == (100_000, 2)
    weights = counts * laplace.cdf(counts - 4)
    np.testing.assert_allclose(np.bincount(drawn[:, 0] // 2, minlength=4) / 1e5, weights / weights.sum(), atol=0.01)


@pytest.mark.parametrize("prefixes", [np.zeros((0, 2), np.int64), np.ones((3, 2), np.int64)])
def test_no_seed_that_passes_is_no_failure(prefixes):
    charge = seeded(Acceptance(4, 1.0), 5, 50.0, 0.1)
    (drawn,) = Mechanisms(Noise.seeded(1))(charge, [prefixes, np.zeros(len(prefixes), np.int64)])
    assert drawn.tolist() == [[0, 0]] * 5


@settings(deadline=None)  # the first call compiles
@given(st.integers(1, (1 << 63) - 1), st.integers(0, 2**32))
def test_uniform_numbers_are_scaled_exactly(bound, seed):
    words = np.random.default_rng(seed).integers(0, 2**64, (2, 20), np.uint64)
    words[:, 0] = 2**64 - 1
    assert scale_words_below(bound, words).tolist() == [
        ((int(h) << 64 | int(low)) * bound) >> 128 for h, low in words.T
    ]


def test_slack_is_paid_from_delta():
    ledger = Ledger(Budget(epsilon=1.0, delta=1e-5), "gaussian", Adjacency())
    whole = ledger.capacity
    slack = 1e-6 / (1 + math.e)
    ledger.charge(with_mu(0.1, slack))
    assert ledger.capacity == pytest.approx(Budget(epsilon=1.0, delta=9e-6).capacity("gaussian"), rel=1e-9)
    assert ledger.capacity < whole
    assert Ledger.from_dict(ledger.to_dict()).capacity == ledger.capacity
    with pytest.raises(BudgetError):
        ledger.charge(with_mu(0.1, 1e-5))
    with pytest.raises(BudgetError):
        ledger.charge(with_mu(math.sqrt(2 * ledger.left) * 1.001, 0.0))
    with pytest.raises(BudgetError, match="pure"):
        Ledger(Budget(epsilon=1.0, delta=0), "pure", Adjacency()).charge(with_mu(0.1, 0.0))


@pytest.mark.parametrize("accounting", ["gaussian", "zcdp"])
def test_an_epsilon_at_another_delta_pays_for_slack_too(accounting):
    """delta(epsilon) + (1 + e^epsilon) slack is what holds: the epsilon stated must be at least the one it gives."""
    ledger = Ledger(Budget(epsilon=1.0, delta=1e-5), accounting, Adjacency())
    ledger.charge(with_mu(0.15, 5e-7))
    for delta in (2e-6, 1e-5, 1e-4):
        epsilon = ledger.spent_epsilon(delta)
        if accounting == "gaussian":
            assert gdp_delta(0.15, epsilon) + (1 + math.exp(epsilon)) * 5e-7 == pytest.approx(delta, rel=1e-6)
        assert epsilon > Ledger.from_dict(without_slack(ledger)).spent_epsilon(delta)
    assert ledger.spent_epsilon(9e-7) == math.inf
    assert ledger.spent_epsilon() == ledger.spent_epsilon(1e-5) <= 1


def test_no_mu_is_a_price_that_nobody_can_pay():
    assert seeded(Acceptance(5, 0.1), 10_000, 1.0, 1e-9).rho > Budget(epsilon=math.inf, insecure=True).capacity("zcdp")


def test_a_planned_test_fits_its_budget():
    counts = np.random.default_rng(0).geometric(1 / 400, 1000)
    test = plan_deniability(0.4, 2000, counts, 1e-8)
    assert test is not None
    assert release_mu(test, 2000, 0.9 * test.weights(counts).sum() / UNIT, 1e-8) <= 0.4
    assert plan_deniability(0.01, 100_000, counts, 1e-8) is None
    assert plan_deniability(1.0, 100, np.ones(50, np.int64), 1e-8) is None


def test_a_plan_for_many_records_is_no_long_search(monkeypatch):
    """Tests that cannot do are dropped at first sight, and those that do are not measured count by count."""
    corners = 0

    def counted(a, b, p):
        nonlocal corners
        corners += len(a)
        return betainc(a, b, p)

    monkeypatch.setattr(seeded_price, "betainc", counted)
    counts = np.full(16, 43_000)
    assert plan_deniability(0.16, 1_000_000, counts, 2.5e-9) is None
    assert corners < 10_000_000
    test = plan_deniability(0.16, 100_000, counts, 2.5e-9)
    assert test is not None
    corners = 0
    assert release_mu(test, 100_000, 0.9 * counts.sum(), 2.5e-9) <= 0.16
    assert corners < 500_000


def test_tails_near_one_keep_their_digits():
    """P(X <= x) is 6e-23 at one corner: as 1 - P(X > x) it would come out a million times as large, and mu too low."""
    test = Acceptance(26, 1.5061175670923088)
    assert release_mu(test, 175, 1.2154564254627827, 0.02205840373467645) > 19.57256


def test_theorem_one_covers_the_rounding_of_acceptance():
    """L falls short of e^epsilon0 times its neighbour by rounding: half of delta must be as large."""
    for k, epsilon0 in ((50, 1.0), (200, 0.1), (30, 3.0)):
        levels = Acceptance(k, epsilon0).levels.astype(float) / UNIT
        excess = (levels[1:] - math.exp(epsilon0) * levels[:-1]).max()
        assert 0 < excess <= math.exp(epsilon0) / UNIT
        least = 2 * math.exp(epsilon0) / UNIT
        assert theorem_one(10**4, epsilon0, 2.0, least) < math.inf == theorem_one(10**4, epsilon0, 2.0, 0.99 * least)
