"""Attacks with known success stay below the bounds, and reach them where the bounds are tight."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from weft.privacy import Budget, Charge, Ledger
from weft.privacy.attacker_bounds import bound_advantage, bound_success
from weft.privacy.sensitivity import Adjacency


def ledger_of(accounting, **budget):
    return Ledger(Budget(**budget), accounting, Adjacency())


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
def test_a_test_of_gaussian_noise_reaches_the_bound_and_its_best_guess_the_advantage(mu):
    ledger = ledger_of("gaussian", mu=mu)
    rng = np.random.default_rng(1)
    draws = rng.standard_normal(400_000)
    for chance in (0.5, 0.1, 0.01):
        threshold = np.quantile(draws, 1 - chance)
        reached = float((draws + mu > threshold).mean())
        assert reached == pytest.approx(bound_success(ledger, chance), abs=0.01)
    assert bound_advantage(ledger) == pytest.approx(2 * ndtr(mu / 2) - 1, rel=1e-6)


@pytest.mark.parametrize("k", [2, 10, 100])
def test_naming_one_of_k_people_from_noisy_counts_stays_below_the_bound(k):
    """The table holds one of k people, each with a cell of its own; the best attacker names the largest noisy count."""
    mu, trials = 1.5, 20_000
    noisy = np.random.default_rng(k).standard_normal((trials, k)) / mu
    noisy[:, 0] += 1
    success = float((noisy.argmax(axis=1) == 0).mean())
    bound = bound_success(ledger_of("gaussian", mu=mu), 1 / k)
    assert 1 / k < success <= bound + 3 / math.sqrt(trials)


@pytest.mark.parametrize("k", [2, 5, 50])
def test_guessing_a_value_from_randomised_response_stays_below_the_bound(k):
    """Randomised response over k values is the best guess at a value under pure epsilon, replace-one."""
    epsilon = 1.2
    success = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
    ledger = ledger_of("pure", epsilon=epsilon, delta=0.0)
    bound = bound_success(ledger, 1 / k)
    assert success <= bound
    # The corner of the trade-off function is reached by a test: chance 1 / (1 + e^eps) grows to e^eps / (1 + e^eps).
    corner = 1 / (1 + math.exp(epsilon))
    assert bound_success(ledger, corner) == pytest.approx(1 - corner, rel=1e-6)
    assert bound_advantage(ledger) == pytest.approx(1 - 2 * corner, rel=1e-6)


def test_delta_counts_in_full():
    """A mechanism that reveals everything with probability delta is (0, delta)-DP."""
    ledger = ledger_of("zcdp", epsilon=1e-4, delta=0.05)
    assert bound_success(ledger, 0.5) == pytest.approx(0.55, abs=1e-3) and bound_advantage(ledger) <= 0.0501


def test_a_guarantee_in_rho_allows_no_less_than_the_gaussian_mechanism_that_has_it():
    for rho in (0.01, 0.5, 3.0):
        exact, converted = ledger_of("gaussian", rho=rho), ledger_of("zcdp", rho=rho)
        for chance in (0.5, 0.1, 1e-4, 1e-6):
            assert chance < bound_success(exact, chance) <= bound_success(converted, chance) + 1e-12 <= 1 + 1e-12
        assert bound_advantage(exact) <= bound_advantage(converted)


def test_slack_widens_the_bounds():
    budget = {"epsilon": 1.0, "delta": 1e-3}
    plain, slack = ledger_of("gaussian", **budget), ledger_of("gaussian", **budget)
    slack.charge(Charge.partitions("q", sensitivity=1.0, scale=50.0, columns=1, rows=1, slack=1e-4))
    assert bound_advantage(plain) < bound_advantage(slack) < bound_advantage(plain) + 3e-4
    assert bound_success(plain, 0.1) < bound_success(slack, 0.1) < bound_success(plain, 0.1) + 5e-4
