"""Mechanisms: a class and a file each, with price, release, noise distribution and variance; see `MECHANISMS`."""

from weft.errors import BudgetError
from weft.privacy.mechanisms.common_values import CommonValues
from weft.privacy.mechanisms.exponential import Exponential
from weft.privacy.mechanisms.gaussian import Gaussian
from weft.privacy.mechanisms.geometric import Geometric
from weft.privacy.mechanisms.grown_records import DeniableRecords, SeededRecords
from weft.privacy.mechanisms.mechanism import (
    CountNoise,
    Mechanism,
    Mechanisms,
    Norm,
    Release,
    rho_of_gaussian,
    sigma_for,
)
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
    for each in (GAUSSIAN, GEOMETRIC, Exponential(), CommonValues(), SeededRecords(), DeniableRecords(), SecretCoins())
}


def find_mechanism(name: str) -> Mechanism:
    """Return a mechanism by name; BudgetError if it is unknown."""
    if name not in MECHANISMS:
        raise BudgetError(f"unknown mechanism {name!r}")
    return MECHANISMS[name]
