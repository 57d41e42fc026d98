"""What questions cost over a lifetime: prices against closed forms, the filter against one who adapts."""

import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from weft.errors import BudgetError
from weft.privacy import Budget, Charge, gdp_delta, gdp_mu, pure_mu
from weft.privacy.conversions import range_epsilon, range_mu
from weft.privacy.deniability import PlausibleTest
from weft.privacy.filters import (
    FILTERS,
    SLACK_SHARE,
    compute_capacity,
    compute_price,
    find_affordable_epsilon,
    may_cost,
    slack_capacity,
)

GAUSSIAN = Charge.gaussian("a", sensitivity=1.0, scale=4.0, draws=3)
GEOMETRIC = Charge.geometric("b", sensitivity=1.0, scale=[4.0, 8.0], draws=3)
CHOICE = Charge.exponential("c", sensitivity=1.0, epsilon=0.3)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 0.5, 1.0, 3.0, 10.0])
def test_every_pure_mechanism_is_gaussian_at_pure_mu(epsilon):
    """The trade-off curve of epsilon-DP lies above that of mu-GDP everywhere, and touches it: no smaller mu will do."""
    mu = pure_mu(epsilon)
    alpha = np.concatenate([np.linspace(0, 1, 20_001), [1 / (1 + math.exp(epsilon))]])
    pure = np.maximum(1 - math.exp(epsilon) * alpha, math.exp(-epsilon) * (1 - alpha)).clip(0)
    gaussian = norm.cdf(norm.ppf(1 - alpha) - mu)
    assert (pure >= gaussian - 1e-12).all()
    assert pure[-1] == pytest.approx(gaussian[-1], rel=1e-9)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 5.0])
def test_every_mechanism_of_bounded_range_is_gaussian_at_range_mu(epsilon):
    """For every interval of log-likelihood ratios, the two lines that bound the trade-off curve lie above mu-GDP."""
    mu = range_mu(epsilon)
    assert range_epsilon(mu) == pytest.approx(epsilon, rel=1e-9)
    alpha = np.linspace(0, 1, 20_001)
    gaussian = norm.cdf(norm.ppf(1 - alpha) - mu)
    for top in np.linspace(0, epsilon, 41):
        lines = np.maximum(1 - math.exp(top) * alpha, math.exp(top - epsilon) * (1 - alpha)).clip(0)
        assert (lines >= gaussian - 1e-12).all()
    corner = 1 / (1 + math.exp(epsilon / 2))  # of the interval around 0, which attains it
    assert norm.cdf(norm.ppf(1 - corner) - mu) == pytest.approx(corner, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 4.0])
def test_a_selection_is_gaussian_at_range_mu_on_neighbouring_scores(epsilon):
    """The exact trade-off curve of the exponential mechanism, for scores that move by their sensitivity at most."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        scores = rng.integers(0, 12, rng.integers(2, 9))
        chances = [np.exp(epsilon * s / 2) for s in (scores, scores + rng.integers(-1, 2, scores.size))]
        p, q = (c / c.sum() for c in chances)
        order = np.argsort(p / q)  # reject in the order of the likelihood ratio: Neyman and Pearson
        size, power = np.cumsum(p[order])[:-1], np.cumsum(q[order])[:-1]
        assert (norm.ppf(power) - norm.ppf(size) <= range_mu(epsilon) + 1e-9).all()


def test_prices():
    assert compute_price(GAUSSIAN, "gaussian") == compute_price(GAUSSIAN, "zcdp") == pytest.approx(1 / 32)
    with pytest.raises(BudgetError, match="pure"):
        compute_price(GAUSSIAN, "pure")
    assert compute_price(GEOMETRIC, "pure") == pytest.approx(3 / 8)
    assert compute_price(GEOMETRIC, "zcdp") == pytest.approx((1 / 16 + 1 / 64) / 2)
    assert compute_price(GEOMETRIC, "gaussian") == pytest.approx((pure_mu(1 / 4) ** 2 + pure_mu(1 / 8) ** 2) / 2)
    assert compute_price(CHOICE, "gaussian") == pytest.approx(range_mu(0.3) ** 2 / 2)
    deniable = Charge.deniable("d", test=PlausibleTest(k=50), records=10)
    for kind in FILTERS:
        with pytest.raises(BudgetError, match="no price"):
            compute_price(deniable, kind)


def test_a_run_never_costs_more_than_was_set_aside_for_it():
    """Whatever questions a run divides its budget into, their prices under each filter add up to `may_cost` at most."""
    rng = np.random.default_rng(0)
    budget = Budget(epsilon=1.5, delta=1e-6)
    for _ in range(300):
        shares = rng.dirichlet(np.ones(rng.integers(1, 6)))
        pure = Budget(epsilon=1.5, delta=0).capacity("pure")
        geometric = [
            Charge.geometric("q", sensitivity=1.0, scale=1 / (pure * s), draws=1) for s in shares if pure * s > 1e-9
        ]
        for kind in FILTERS:
            assert sum(compute_price(c, kind) for c in geometric) <= may_cost(
                Budget(epsilon=1.5, delta=0), "pure", kind
            ) * (1 + 1e-9)
        rho = budget.capacity("zcdp")
        mixed = [
            Charge.gaussian("q", sensitivity=1.0, scale=1 / math.sqrt(2 * rho * s), draws=1)
            if rng.random() < 0.3
            else Charge.geometric("q", sensitivity=1.0, scale=1 / math.sqrt(2 * rho * s), draws=1)
            if rng.random() < 0.5
            else Charge.exponential("q", sensitivity=1.0, epsilon=math.sqrt(8 * rho * s))
            for s in shares
        ]
        for kind in ("gaussian", "zcdp"):
            assert sum(compute_price(c, kind) for c in mixed) <= may_cost(budget, "zcdp", kind) * (1 + 1e-9)


def test_capacity_sets_a_part_of_delta_aside():
    budget = Budget(epsilon=2.0, delta=1e-6)
    assert compute_capacity(budget, "gaussian") == pytest.approx(gdp_mu(2.0, 0.9e-6) ** 2 / 2, rel=1e-6)
    mu = math.sqrt(2 * compute_capacity(budget, "gaussian"))
    whole = gdp_delta(mu, 2.0) + (1 + math.exp(2.0)) * slack_capacity(budget)
    assert whole == pytest.approx(1e-6, rel=1e-6) and whole <= 1e-6
    assert slack_capacity(budget) * (1 + math.exp(2.0)) == pytest.approx(SLACK_SHARE * 1e-6)
    assert compute_capacity(Budget(epsilon=2.0, delta=0), "pure") == pytest.approx(2.0)


@pytest.mark.parametrize("kind", ["gaussian", "zcdp"])
def test_the_affordable_epsilon_fits_and_a_little_more_does_not(kind):
    run = Budget(epsilon=1.0, delta=1e-5)
    left = compute_capacity(Budget(epsilon=3.0, delta=1e-6), kind) / 3
    most = find_affordable_epsilon(left, run, kind, kind)
    assert may_cost(Budget(epsilon=most, delta=1e-5), kind, kind) <= left
    assert may_cost(Budget(epsilon=most + 2e-4, delta=1e-5), kind, kind) > left


def two_step_delta(epsilon, first, then):
    """delta(epsilon) of a Gaussian answer with mean 0 or `first`, and a second one of mu `then(x)` chosen after
    seeing it.

    The hockey-stick divergence of the pair: the loss of the first answer is first x - first^2/2, and the second,
    given it, has the delta of a Gaussian at what is left of epsilon, which may be negative.
    """
    x = np.linspace(first - 12, first + 12, 200_001)
    loss = first * x - first**2 / 2
    mu = then(x)
    rest = epsilon - loss
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        second = ndtr(mu / 2 - rest / mu) - np.exp(rest) * ndtr(-mu / 2 - rest / mu)
    second = np.where(mu > 0, second, np.maximum(0.0, 1 - np.exp(rest)))
    return float(np.trapezoid(norm.pdf(x - first) * second, x))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("threshold", [-1.0, 0.0, 0.5, 1.0, 2.0])
def test_whoever_chooses_the_noise_after_the_answer_gains_nothing(epsilon, threshold):
    """The filter's theorem on its smallest case: the second question's noise depends on the first answer."""
    whole = 1.0
    for first in (0.3, 0.6, 0.9):
        rest = math.sqrt(whole**2 - first**2)
        for then in (
            lambda x, rest=rest: np.where(x > threshold, rest, 0.0),
            lambda x, rest=rest: np.where(x < threshold, rest, 0.0),
            lambda x, rest=rest: rest * ndtr(3 * (x - threshold)),
            lambda x, rest=rest: np.full_like(x, rest),
        ):
            assert two_step_delta(epsilon, first, then) <= gdp_delta(whole, epsilon) * (1 + 1e-6)
    even = two_step_delta(epsilon, 0.6, lambda x: np.full_like(x, 0.8))
    assert even == pytest.approx(gdp_delta(1.0, epsilon), rel=1e-5)  # the bound is met by whoever does not adapt


def test_overspending_by_adapting_would_be_seen():
    """Without the filter, somebody who asks more after a telling answer passes the bound: the test above can fail."""
    then = lambda x: np.where(x > 0.5, 1.2, 0.8)  # noqa: E731
    assert two_step_delta(1.0, 0.6, then) > gdp_delta(1.0, 1.0)
