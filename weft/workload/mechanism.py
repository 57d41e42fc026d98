"""Which noise is the smaller one for so many marginals (DPSyn, section 2.5 and figure 2).

Laplace noise is best for few marginals, Gaussian for many; in between, delta decides nearly alone. Weft draws the
integer twin of either, geometric or rounded Gaussian, and one run keeps to one of them: its ledger adds up exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from weft.privacy import Accounting
from weft.privacy.accounting import gdp_mu, zcdp_rho, zcdp_rho_closed_form

Noise = Literal["laplace, basic", "laplace, advanced", "laplace, zCDP", "gaussian, zCDP", "gaussian, exact"]
"""A law of noise and how costs are added up."""

ABOUT: Mapping[Noise, str] = {
    "laplace, basic": "epsilon adds up; what weft calls pure, with geometric noise",
    "laplace, advanced": "the advanced composition theorem (Dwork, Rothblum and Vadhan 2010)",
    "laplace, zCDP": "Laplace noise of scale b is 1/(2 b^2)-zCDP",
    "gaussian, zCDP": "as in the paper, by its closed form",
    "gaussian, exact": "Gaussian DP in closed form; weft's default",
}


def noise_of(marginals: int, epsilon: float, delta: float) -> dict[Noise, float]:
    """Return the standard deviation on a cell of each of k marginals that share a budget evenly, by way of counting.

    >>> few, many = (noise_of(k, 1.0, 1e-6) for k in (2, 200))
    >>> min(few, key=few.get), min(many, key=many.get)
    ('laplace, basic', 'gaussian, exact')
    """
    k = marginals
    basic = math.sqrt(2) * k / epsilon
    if delta == 0:
        return {"laplace, basic": basic}
    rho = zcdp_rho(epsilon, delta)
    return {
        "laplace, basic": basic,
        "laplace, advanced": math.sqrt(2) / _advanced(k, epsilon, delta),
        "laplace, zCDP": math.sqrt(k / rho),
        "gaussian, zCDP": math.sqrt(k / (2 * zcdp_rho_closed_form(epsilon, delta))),
        "gaussian, exact": math.sqrt(k) / gdp_mu(epsilon, delta),
    }


def _advanced(k: int, epsilon: float, delta: float) -> float:
    """Return the largest epsilon of each of k answers by e sqrt(2 k ln(1/delta)) + k e (exp(e) - 1) <= epsilon."""
    low, high = 0.0, epsilon
    for _ in range(200):
        middle = (low + high) / 2
        cost = middle * math.sqrt(2 * k * math.log(1 / delta)) + k * middle * math.expm1(middle)
        low, high = (middle, high) if cost <= epsilon else (low, middle)
    return max(low, 1e-300)


def choose_accounting(marginals: int, epsilon: float, delta: float) -> Accounting:
    """Return the accounting of the smaller noise that Weft can draw and add up exactly: geometric, or Gaussian.

    The other ways are never best: Gaussian noise under zCDP is what exact accounting improves on, and Laplace noise
    under zCDP has twice the variance of Gaussian noise of the same cost.
    """
    found = noise_of(max(marginals, 1), epsilon, delta)
    return "pure" if found["laplace, basic"] < found.get("gaussian, exact", math.inf) else "gaussian"


def crossover(epsilon: float, delta: float, counted: Noise = "gaussian, exact") -> int:
    """Return the least number of marginals for which another way of counting beats Laplace noise that adds up."""
    k = 1
    while k < 1_000_000:
        found = noise_of(k, epsilon, delta)
        if found[counted] < found["laplace, basic"]:
            return k
        k += 1
    return k
