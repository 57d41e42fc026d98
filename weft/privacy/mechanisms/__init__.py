"""The mechanisms: one class each, with its price, its release, the law that audits test it by, and its variance.

A new one is a file with a class, and its line in `MECHANISMS`.
"""

from __future__ import annotations

from weft.errors import BudgetError
from weft.privacy.mechanisms.common_values import CommonValues
from weft.privacy.mechanisms.exponential import Exponential
from weft.privacy.mechanisms.gaussian import Gaussian
from weft.privacy.mechanisms.geometric import Geometric
from weft.privacy.mechanisms.grown_records import DeniableRecords, SeededRecords
from weft.privacy.mechanisms.mechanism import CountNoise, Mechanism, Norm, rho_of_gaussian, sigma_for
from weft.privacy.mechanisms.noisy_release import Mechanisms, Release
from weft.privacy.mechanisms.secret_coins import SecretCoins

__all__ = [
    "GAUSSIAN",
    "GEOMETRIC",
    "MECHANISMS",
    "CountNoise",
    "Mechanism",
    "Mechanisms",
    "Norm",
    "Release",
    "find_mechanism",
    "rho_of_gaussian",
    "sigma_for",
]

GAUSSIAN = Gaussian()
GEOMETRIC = Geometric()

MECHANISMS: dict[str, Mechanism] = {
    each.name: each
    for each in (
        GAUSSIAN,
        GEOMETRIC,
        Exponential(),
        CommonValues(),
        SeededRecords(),
        DeniableRecords(),
        SecretCoins(),
    )
}
"""Every mechanism by the name that ledgers have."""


def find_mechanism(name: str) -> Mechanism:
    """Return the mechanism of a name; BudgetError if there is none."""
    if name not in MECHANISMS:
        raise BudgetError(f"unknown mechanism {name!r}")
    return MECHANISMS[name]
