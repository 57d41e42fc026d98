"""The bounds of an attack against closed forms: close to the truth, and above it no more often than they say."""

import doctest
import math

import numpy as np
import pytest
import weft_lab.audit
from scipy.stats import binom, binomtest, norm
from weft_lab.audit import (
    AttackEvidence,
    accuracy_bound,
    compute_claim,
    fit_discriminant,
    run_attack,
    trade_off_bound,
    upper_limit,
)

from weft.privacy import Budget, Noise
from weft.privacy.mechanisms import GAUSSIAN, GEOMETRIC


def releases(noise, runs, figures=1):
    """Counts that a row moves by one in the first figure, with noise; the other figures tell nothing."""
    without, canary = (noise((runs, figures)).astype(float) for _ in range(2))
    canary[:, 0] += 1
    return without, canary


def test_examples():
    assert doctest.testmod(weft_lab.audit).failed == 0


@pytest.mark.parametrize(("successes", "trials"), [(0, 30), (3, 30), (29, 30), (30, 30), (500, 2000)])
def test_limits_are_those_of_clopper_and_pearson(successes, trials):
    theirs = binomtest(successes, trials).proportion_ci(0.9, method="exact").high
    assert upper_limit(successes, trials, 0.05) == pytest.approx(theirs, abs=1e-9)


def test_a_test_with_unequal_errors_is_bounded_as_often_as_promised():
    """The mean of two rates, by the limit of a single one: exact coverage, summed over all outcomes."""
    trials, a, b, error = 20, 0.05, 0.45, 0.1
    truth = -2 * norm.ppf((a + b) / 2)
    outcomes = np.outer(binom.pmf(range(trials + 1), trials, a), binom.pmf(range(trials + 1), trials, b))
    wrong = np.add.outer(np.arange(trials + 1), np.arange(trials + 1))
    above = np.array([accuracy_bound(int(w), 2 * trials, error) > truth for w in wrong.ravel()]).reshape(wrong.shape)
    assert 0 < outcomes[above].sum() <= error


def test_rates_far_apart_are_bounded_as_often_as_promised():
    trials, mu, a, error = 20, 1.5, 0.02, 0.1
    b = norm.cdf(norm.ppf(1 - a) - mu)  # the trade-off of mu-GDP, at a point far from the middle
    outcomes = np.outer(binom.pmf(range(trials + 1), trials, a), binom.pmf(range(trials + 1), trials, 1 - b))
    shown = [
        [trade_off_bound(fp, trials - tp, trials, error) > mu for tp in range(trials + 1)] for fp in range(trials + 1)
    ]
    assert 0 < outcomes[np.array(shown)].sum() <= error


@pytest.mark.parametrize("figures", [1, 4])
@pytest.mark.parametrize("mu", [0.5, 1.0, 4.0])
def test_an_ideal_gaussian_is_found_and_seldom_exceeded(mu, figures):
    noise = Noise.seeded(1)
    found = [
        run_attack(*releases(lambda size: GAUSSIAN.draw(1 / mu, size, noise), 2000, figures), 0.9) for _ in range(100)
    ]
    shown = np.array([evidence.mu for evidence in found])
    # 1 in 10 allowed: of 100 trials, more than 20 happen with probability below 0.001.
    assert (shown > mu).sum() <= 20
    assert np.mean(shown) > (0.8 if mu >= 1 else 0.6) * mu
    assert np.mean([evidence.estimate for evidence in found]) == pytest.approx(mu, rel=0.05)


def test_geometric_noise_is_found_at_its_epsilon():
    """For one count, a threshold in the middle is the best test there is, and right with e^eps / (1 + e^eps)."""
    noise, epsilon = Noise.seeded(2), 1.5
    allowed = compute_claim(Budget(epsilon=epsilon, delta=0.0), "pure")
    assert allowed.accuracy == pytest.approx(math.exp(epsilon) / (1 + math.exp(epsilon)), rel=1e-8)
    found = run_attack(*releases(lambda size: GEOMETRIC.draw(1 / epsilon, size, noise), 20_000), 0.95)
    assert 0.93 * allowed.mu < found.mu <= allowed.mu


def test_pure_epsilon_implies_the_mu_that_is_claimed_for_it():
    """Every point of epsilon's trade-off curve lies on or above that of mu-GDP."""
    epsilon = 2.0
    mu = compute_claim(Budget(epsilon=epsilon, delta=0.0), "pure").mu
    a = np.linspace(1e-6, 1 - 1e-6, 10_001)
    b = np.maximum(1 - math.exp(epsilon) * a, math.exp(-epsilon) * (1 - a))
    shown = norm.ppf(1 - a) - norm.ppf(np.maximum(b, 0))
    assert shown.max() <= mu + 1e-6
    assert shown.max() == pytest.approx(mu, abs=1e-3)


@pytest.mark.parametrize("rho", [1e-4, 0.1, 1.0, 10.0])
def test_a_zcdp_claim_allows_what_a_gaussian_does(rho):
    allowed = compute_claim(Budget(rho=rho, insecure=True), "zcdp")
    assert not allowed.every_test
    assert math.sqrt(2 * rho) < allowed.mu < math.inf


def test_a_leak_that_shows_in_few_runs_is_seen_by_the_trade_off():
    """One release in ten tells the table outright, and the others nothing: hardly better than a coin on the whole."""
    rng = np.random.default_rng(4)
    without, canary = (rng.normal(size=(1200, 1)) for _ in range(2))
    canary[rng.random(1200) < 0.1] = 50.0
    found = run_attack(without, canary, 0.95)
    assert accuracy_bound(found.wrong, 2 * found.trials, 0.05) < 0.3
    assert found.mu > 0.8
    assert run_attack(without, canary, 0.95, every_test=False).mu < 0.3


def test_figures_that_tell_nothing_show_nothing():
    rng = np.random.default_rng(5)
    constant = np.full((400, 3), 7.0)
    assert run_attack(constant, constant, 0.95).mu == 0.0
    assert run_attack(rng.normal(size=(400, 3)), rng.normal(size=(400, 3)), 0.95).mu == 0.0


def test_a_release_that_tells_all_shows_as_much_as_its_number_can():
    found = run_attack(np.zeros((400, 1)), np.ones((400, 1)), 0.95)
    assert found.wrong == 0
    assert 4.5 < found.mu < found.estimate < math.inf


def test_the_test_is_tried_on_other_runs_than_it_was_learned_from():
    """With more figures than training runs, training is separated perfectly: that must not count."""
    rng = np.random.default_rng(6)
    without, canary = rng.normal(size=(80, 60)), rng.normal(size=(80, 60))
    weights = fit_discriminant(without[:20], canary[:20])
    assert (canary[:20] @ weights).min() > (without[:20] @ weights).max()
    assert run_attack(without, canary, 0.95).mu == 0.0


def test_weights_combine_figures_by_their_precision():
    rng = np.random.default_rng(7)
    sigma = np.array([1.0, 3.0])
    without, canary = (rng.normal(size=(40_000, 2)) * sigma for _ in range(2))
    weights = fit_discriminant(without, canary + 1.0)
    assert weights[0] / weights[1] == pytest.approx(9.0, rel=0.1)


def test_another_confidence_gives_another_bound():
    found = AttackEvidence(trials=1000, wrong=600, rates=(300, 300), confidence=0.95)
    assert found.bound(0.9999) < found.mu == found.bound(0.95) < found.estimate


def test_too_few_runs_are_refused():
    with pytest.raises(ValueError, match="at least"):
        run_attack(np.zeros((7, 1)), np.zeros((7, 1)), 0.95)
