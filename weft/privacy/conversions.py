"""Conversions between Gaussian DP, zero-concentrated DP, pure DP and (epsilon, delta)-DP.

Closed forms or monotone searches: milliseconds, for epsilon from 1e-4 to 1e3 and delta from 1e-300 to 1/2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, Decimal

from scipy.special import erfcx, log_ndtr, ndtr, ndtri

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def _find_last_float(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the largest float that meets a monotone condition, which holds at low > 0 and fails at high."""
    while True:
        middle = math.sqrt(low) * math.sqrt(high) if high > 2 * low else low + (high - low) / 2
        if not low < middle < high:
            return low
        low, high = (middle, high) if holds(middle) else (low, middle)


def _minimise(f: Callable[[float], float], low: float, high: float) -> float:
    """Return the minimum of a quasi-convex function on an interval, by golden-section search."""
    ratio = (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = f(left), f(right)
    for _ in range(100):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = f(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = f(right)
    return min(at_left, at_right)


def _log_gdp_delta(mu: float, epsilon: float) -> float:
    """Return the logarithm of delta(epsilon) under mu-GDP.

    With x = epsilon/mu - mu/2, y = epsilon/mu + mu/2 and e^epsilon phi(y) = phi(x), the difference Q(x) - e^epsilon
    Q(y) equals phi(x) (M(x) - M(y)), where M is the Mills ratio: no overflow and little cancellation.
    """
    x, y = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if x < 0:
        return math.log(ndtr(-x) - math.exp(epsilon + log_ndtr(-y)))
    mills = math.sqrt(math.pi / 2) * (erfcx(x / math.sqrt(2)) - erfcx(y / math.sqrt(2)))
    return -x * x / 2 - _HALF_LOG_TWO_PI + math.log(mills) if mills > 0 else -math.inf


def gdp_delta(mu: float, epsilon: float) -> float:
    """Return the smallest delta such that mu-GDP implies (epsilon, delta)-DP (Balle and Wang 2018; Dong et al. 2019).

    delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).

    >>> round(gdp_delta(1.0, 1.0), 6)
    0.126937
    """
    return math.exp(_log_gdp_delta(mu, epsilon)) if mu > 0 else 0.0


def gdp_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon such that mu-GDP implies (epsilon, delta)-DP."""
    if mu == 0 or (delta > 0 and gdp_delta(mu, 0.0) <= delta):
        return 0.0
    if delta == 0:
        return math.inf
    # delta(epsilon) <= Q(epsilon/mu - mu/2), so the epsilon at which that equals delta is large enough.
    enough = mu * (mu / 2 - float(ndtri(delta)))
    short = _find_last_float(lambda e: _log_gdp_delta(mu, e) > math.log(delta), enough * 1e-18, enough * (1 + 1e-9))
    return math.nextafter(short, math.inf)


def gdp_mu(epsilon: float, delta: float) -> float:
    """Largest mu such that mu-GDP implies (epsilon, delta)-DP: exact calibration of an all-Gaussian run.

    >>> round(gdp_mu(1.6, 1e-5) ** 2, 7)
    0.1684517
    """
    if delta == 0:
        return 0.0
    # delta(epsilon) <= Q(epsilon/mu - mu/2): solving with equality gives a mu that is small enough.
    q = -float(ndtri(delta))
    small = 2 * epsilon / (q + math.sqrt(q * q + 2 * epsilon))
    large = 2 * small
    while _log_gdp_delta(large, epsilon) <= math.log(delta):
        large *= 2
    return _find_last_float(lambda mu: _log_gdp_delta(mu, epsilon) <= math.log(delta), small * (1 - 1e-9), large)


def pure_mu(epsilon: float) -> float:
    """Return the smallest mu such that every epsilon-DP mechanism is mu-GDP: 2 Phi^-1(e^epsilon / (1 + e^epsilon)).

    In trade-off functions (Dong et al. 2019): that of epsilon-DP is the maximum of two lines, 1 - e^epsilon a and
    e^-epsilon (1 - a), which meet at a = 1 / (1 + e^epsilon) on the diagonal. That of mu-GDP is convex, starts at (0,
    1) like the first line, ends at (1, 0) like the second, and meets the diagonal at a = Phi(-mu/2), which for this mu
    is the same point. A convex curve lies below its chords, so epsilon-DP implies mu-GDP.

    >>> round(pure_mu(1.0), 4)
    1.232
    """
    return -2 * float(ndtri(1 / (1 + math.exp(min(epsilon, 700.0)))))


def range_mu(epsilon: float) -> float:
    """Return the smallest mu such that every mechanism of bounded range epsilon is mu-GDP: `pure_mu(epsilon / 2)`.

    Bounded range (Durfee and Rogers 2019): for two neighbours all log-likelihood ratios lie in an interval [t -
    epsilon, t], as those of the exponential mechanism do. Then the trade-off function, convex from (0, 1) to (1, 0)
    with slopes between -e^t and -e^(t - epsilon), lies above the lines 1 - e^t a and e^(t - epsilon) (1 - a). They meet
    in a point (a, b) with logit(1 - b) - logit(a) = epsilon. A curve of mu-GDP through that point or below it lies
    below both lines, its chords (`pure_mu`), and passes through it for mu = probit(1 - b) - probit(a). That is the
    integral of the slope of probit(logistic(x)) over an interval of length epsilon. The slope is even and falls with
    |x|, so mu is largest for the interval around 0: 2 probit(logistic(epsilon / 2)).

    >>> round(range_mu(0.02) / 0.02, 4)
    0.6267
    """
    return pure_mu(epsilon / 2)


def range_epsilon(mu: float) -> float:
    """Return the epsilon whose `range_mu` is mu: 2 logit(Phi(mu / 2))."""
    return 2 * float(log_ndtr(mu / 2) - log_ndtr(-mu / 2))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return the smallest epsilon for rho-zCDP by the optimised conversion (Canonne, Kamath and Steinke 2020).

    epsilon = min over alpha > 1 of alpha rho + ln(1 - 1/alpha) + (ln(1/delta) - ln alpha)/(alpha - 1). Every alpha
    gives a valid bound. For fixed epsilon, ln delta is convex in alpha, so the minimand is quasi-convex.
    """
    if rho == 0:
        return 0.0
    if delta == 0:
        return math.inf

    def at(u: float) -> float:  # alpha = 1 + e^u
        v = math.exp(u)
        return (1 + v) * rho - math.log1p(1 / v) - (math.log(delta) + math.log1p(v)) / v

    centre = math.log(math.log(1 / delta) / rho) / 2
    return max(0.0, _minimise(at, centre - 15, centre + 15))


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho that the optimised conversion turns into (epsilon, delta)-DP."""
    if delta == 0:
        return 0.0

    def at(u: float) -> float:
        v = math.exp(u)
        return -(epsilon + math.log1p(1 / v) + (math.log(delta) + math.log1p(v)) / v) / (1 + v)

    centre = math.log(2 * math.log(1 / delta) / epsilon)
    return max(0.0, -_minimise(at, centre - 15, centre + 15))


def zcdp_epsilon_closed_form(rho: float, delta: float) -> float:
    """Return rho + 2 sqrt(rho ln(1/delta)): valid but loose, only to reproduce published figures."""
    return rho + 2 * math.sqrt(rho * math.log(1 / delta)) if delta > 0 else (math.inf if rho else 0.0)


def zcdp_rho_closed_form(epsilon: float, delta: float) -> float:
    """Solve the closed form for rho: (sqrt(epsilon + ln(1/delta)) - sqrt(ln(1/delta)))**2."""
    if delta == 0:
        return 0.0
    log = math.log(1 / delta)
    return (epsilon / (math.sqrt(epsilon + log) + math.sqrt(log))) ** 2


def format_odds_growth(epsilon: float) -> str:
    """Format e^epsilon, the factor by which odds may grow, rounded up to few digits.

    >>> format_odds_growth(1.0), format_odds_growth(0.01), format_odds_growth(12.0)
    ('2.72', '1.0101', '163,000')
    """
    factor = math.exp(min(epsilon, 700.0))
    above = at_most(math.nextafter(factor, math.inf), 3 if epsilon > 0.1 else 5)
    return f"{float(above):,.0f}" if 1e3 <= factor < 1e12 else above


def at_most(value: float, digits: int = 4) -> str:
    """Format a bound with few significant digits, rounded up so that the text never promises more than holds.

    >>> at_most(0.70001), at_most(1.0), at_most(1.23e-07, 2), at_most(math.inf)
    ('0.7001', '1', '1.3e-07', 'inf')
    """
    if not math.isfinite(value) or value <= 0:
        return f"{value:g}"
    written = Decimal(repr(value))
    unit = Decimal(1).scaleb(written.adjusted() - digits + 1)  # a power of 10 would have the exponent 0 when large
    return f"{float(written.quantize(unit, ROUND_CEILING)):.{digits}g}"


def amplify(epsilon: float, factor: float) -> float:
    """Return ln(1 + factor (exp(epsilon) - 1)): the epsilon of a sample of this rate, or with 1 / rate the inverse."""
    return epsilon + math.log(factor) if epsilon > 700 else math.log1p(factor * math.expm1(epsilon))
