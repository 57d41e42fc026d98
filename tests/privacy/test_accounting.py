"""Conversions against notes, textbook values, brute force and an independent accountant."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.privacy import (
    Adjacency,
    Budget,
    Charge,
    Ledger,
    at_most,
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    zcdp_epsilon,
    zcdp_epsilon_closed_form,
    zcdp_rho,
    zcdp_rho_closed_form,
)
from weft.privacy.conversions import format_odds_growth

# g = mu^2 at delta = 1e-5 (PrivMRF's total budget), as published to seven decimals.
PRIVMRF = {0.1: 0.0010576, 0.2: 0.0037619, 0.4: 0.0134283, 0.8: 0.0478237, 1.6: 0.1684517, 3.2: 0.5793222}


def exact_delta(mu, epsilon):
    """The closed form in 60 digits and more."""
    with mpmath.workdps(60 + int(epsilon)):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("epsilon", PRIVMRF)
def test_calibration_reproduces_the_published_values(epsilon):
    g = gdp_mu(epsilon, 1e-5) ** 2
    assert abs(g - PRIVMRF[epsilon]) <= 0.5001e-7  # every digit that was published
    # Six significant digits and more, by an independent computation in high precision.
    assert exact_delta(math.sqrt(g * (1 - 1e-9)), epsilon) < 1e-5 < exact_delta(math.sqrt(g * (1 + 1e-9)), epsilon)


@pytest.mark.parametrize("epsilon", [1e-4, 1e-2, 0.5, 3.0, 50.0, 1e3])
@pytest.mark.parametrize("delta", [1e-300, 1e-30, 1e-9, 1e-5, 0.02, 0.5])
def test_gaussian_dp_is_exact_over_the_whole_range(epsilon, delta):
    mu = gdp_mu(epsilon, delta)
    with mpmath.workdps(400):
        for side in (1 - 1e-9, 1 + 1e-9):
            ratio = exact_delta_at(mu * side, epsilon) / mpmath.mpf(delta)
            assert (ratio < 1) == (side < 1)
    assert gdp_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-8)
    assert gdp_delta(mu, epsilon) == pytest.approx(delta, rel=1e-7)


def exact_delta_at(mu, epsilon):
    mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
    q = [mpmath.erfc((epsilon / mu + s * mu / 2) / mpmath.sqrt(2)) / 2 for s in (-1, 1)]
    return q[0] - mpmath.exp(epsilon) * q[1]


@given(st.floats(1e-3, 20), st.floats(1e-12, 0.1))
def test_conversions_are_monotone_and_ordered(epsilon, delta):
    mu, rho = gdp_mu(epsilon, delta), zcdp_rho(epsilon, delta)
    assert gdp_mu(epsilon * 1.1, delta) > mu and gdp_mu(epsilon, delta * 1.01) > mu
    assert zcdp_rho(epsilon * 1.1, delta) > rho
    # A Gaussian run is known exactly, zCDP bounds every mechanism of that rho, the closed form bounds the bound.
    assert mu**2 / 2 >= rho * (1 - 1e-12) >= zcdp_rho_closed_form(epsilon, delta) * (1 - 1e-9)


@given(st.floats(1e-6, 100), st.floats(1e-15, 0.2))
def test_zcdp_round_trips(rho, delta):
    epsilon = zcdp_epsilon(rho, delta)
    if epsilon > 1e-6:
        assert zcdp_rho(epsilon, delta) == pytest.approx(rho, rel=1e-6)
    loose = zcdp_epsilon_closed_form(rho, delta)
    assert epsilon <= loose and zcdp_rho_closed_form(loose, delta) == pytest.approx(rho, rel=1e-6)


def test_the_optimised_conversion_is_the_minimum_over_alpha():
    for rho, delta in ((0.01, 1e-6), (1.0, 1e-9), (1.0, 1e-5), (30.0, 0.05)):
        alpha = 1 + np.exp(np.linspace(-8, 12, 400_001))
        grid = alpha * rho + np.log1p(-1 / alpha) + (math.log(1 / delta) - np.log(alpha)) / (alpha - 1)
        assert zcdp_epsilon(rho, delta) == pytest.approx(grid.min(), rel=1e-7)


def test_ends_of_the_scale():
    assert gdp_delta(0.0, 1.0) == 0 and gdp_epsilon(0.0, 1e-5) == 0 and zcdp_epsilon(0.0, 1e-5) == 0
    assert gdp_epsilon(1.0, 0.0) == math.inf == zcdp_epsilon(1.0, 0.0) == zcdp_epsilon_closed_form(1.0, 0.0)
    assert gdp_mu(1.0, 0.0) == 0 == zcdp_rho(1.0, 0.0) == zcdp_rho_closed_form(1.0, 0.0)
    assert gdp_epsilon(0.01, 0.1) == 0  # delta alone covers it
    assert 0.999 < gdp_delta(60.0, 1.0) <= 1


def gaussian_ledger(rng):
    ledger = Ledger(Budget(rho=1e9, insecure=True), "gaussian", Adjacency())
    for i in range(rng.integers(1, 30)):
        sensitivity = float(rng.choice([1.0, math.sqrt(2), 4.0, 11.3]))
        scales = sensitivity * np.exp(rng.uniform(0.5, 5, rng.integers(1, 4)))
        ledger.charge(Charge.gaussian(f"q{i}", sensitivity=sensitivity, scale=scales.tolist(), draws=3))
    return ledger


def mixed_ledger(rng):
    """A ledger, and its rho as its charges' theorems give it, written out by hand."""
    ledger = Ledger(Budget(rho=1e9, insecure=True), "zcdp", Adjacency())
    rhos = []
    for i in range(rng.integers(1, 30)):
        sensitivity, epsilon = float(rng.choice([1.0, 2.0, 8.0])), float(np.exp(rng.uniform(-4, 0)))
        kind = rng.integers(3)
        if kind == 0:
            charge = Charge.gaussian(f"q{i}", sensitivity=sensitivity, scale=sensitivity / epsilon, draws=5)
            rhos.append(epsilon**2 / 2)
        elif kind == 1:
            charge = Charge.geometric(f"q{i}", sensitivity=sensitivity, scale=sensitivity / epsilon, draws=5)
            rhos.append(epsilon**2 / 2)
        else:
            charge = Charge.exponential(f"q{i}", sensitivity=sensitivity, epsilon=epsilon)
            rhos.append(epsilon**2 / 8)
        ledger.charge(charge)
    return ledger, rhos


def test_dp_accounting_agrees_on_a_hundred_gaussian_ledgers():
    """F11: its closed form of the composed Gaussian gives our epsilon back its delta; its RDP bounds it."""
    losses = pytest.importorskip("dp_accounting.pld.privacy_loss_mechanism")
    rng = np.random.default_rng(6)
    for _ in range(100):
        ledger = gaussian_ledger(rng)
        delta = float(10 ** rng.uniform(-12, -3))
        epsilon = ledger.spent_epsilon(delta)
        noise = 1 / math.sqrt(math.fsum((c.sensitivity / s) ** 2 for c in ledger.entries for s in c.scales))
        theirs = losses.GaussianPrivacyLoss(noise)
        assert theirs.get_delta_for_epsilon(epsilon * 1.01) <= delta * (1 + 1e-9)
        assert epsilon == 0 or theirs.get_delta_for_epsilon(epsilon / 1.01) >= delta * (1 - 1e-9)


def test_dp_accounting_numeric_composition_agrees():
    """F11: the whole composition done by its PLD accountant, event by event."""
    dp = pytest.importorskip("dp_accounting")
    pld = pytest.importorskip("dp_accounting.pld.pld_privacy_accountant")
    rng = np.random.default_rng(7)
    for _ in range(2):
        ledger = gaussian_ledger(rng)
        accountant = pld.PLDAccountant(value_discretization_interval=1e-3)
        for charge in ledger.entries:
            for scale in charge.scales:
                accountant.compose(dp.GaussianDpEvent(scale / charge.sensitivity))
        assert ledger.spent_epsilon(1e-6) == pytest.approx(accountant.get_epsilon(1e-6), rel=0.01)


def test_dp_accounting_agrees_on_a_hundred_mixed_ledgers():
    """F11, F12: its RDP accountant, fed with each theorem's rho."""
    dp = pytest.importorskip("dp_accounting")
    rdp = pytest.importorskip("dp_accounting.rdp")
    orders = (1 + np.exp(np.linspace(-3, 8, 1500))).tolist()
    rng = np.random.default_rng(8)
    for _ in range(100):
        ledger, rhos = mixed_ledger(rng)
        accountant = rdp.RdpAccountant(orders)
        accountant.compose(dp.ComposedDpEvent([dp.ZCDpEvent(rho) for rho in rhos]))
        delta = float(10 ** rng.uniform(-12, -3))
        assert ledger.spent_epsilon(delta) == pytest.approx(accountant.get_epsilon(delta), rel=0.01)


@settings(max_examples=50)
@given(st.lists(st.floats(0.01, 5), min_size=1, max_size=40), st.floats(0.05, 8), st.floats(1e-9, 1e-3))
def test_shares_that_sum_to_one_spend_the_budget_and_no_more(weights, epsilon, delta):
    """F11: random plans; the ledger accepts the plan and its epsilon never exceeds the budget's."""
    for accounting in ("gaussian", "zcdp", "paper", "pure"):
        ledger = Ledger(Budget(epsilon=epsilon, delta=delta), accounting, Adjacency())
        for weight in weights:
            cost = ledger.capacity * weight / math.fsum(weights)
            if accounting == "pure":
                ledger.charge(Charge.geometric("q", sensitivity=3.0, scale=3.0 / cost, draws=1))
            else:
                ledger.charge(Charge.gaussian("q", sensitivity=3.0, scale=3.0 / math.sqrt(2 * cost), draws=1))
        assert epsilon * (1 - 1e-6) < ledger.spent_epsilon() <= epsilon


@given(st.floats(1e-12, 1e300), st.integers(2, 6))
def test_what_is_printed_never_promises_more_than_holds(value, digits):
    shown = float(at_most(value, digits))
    assert value * (1 - 1e-15) <= shown <= value * (1 + 10.0 ** (1 - digits)) * (1 + 1e-9)


@given(st.floats(1e-4, 20))
def test_the_growth_of_odds_is_never_understated(epsilon):
    assert math.exp(epsilon) < float(format_odds_growth(epsilon).replace(",", "")) < 1.011 * math.exp(epsilon)
