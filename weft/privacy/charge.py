"""One question to the private rows: its noise, and what that noise costs under each accounting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from weft.errors import BudgetError
from weft.privacy.budget import Accounting
from weft.privacy.noise import LARGEST_SCALE
from weft.privacy.selection import selection_scale

Mechanism = Literal["gaussian", "geometric", "exponential", "noisy-max", "seeded"]
Norm = Literal["l1", "l2", "linf", "rows"]

_NORM: dict[str, Norm] = {
    "gaussian": "l2",
    "geometric": "l1",
    "exponential": "linf",
    "noisy-max": "linf",
    "seeded": "rows",
}


def rho_of_gaussian(sensitivity: float, sigma: float) -> float:
    """Return sensitivity^2 / (2 sigma^2): what Gaussian noise costs in rho = mu^2/2 for an L2 sensitivity."""
    return sensitivity**2 / (2 * sigma**2)


def sigma_for(rho: float, sensitivity: float) -> float:
    """Standard deviation of the Gaussian noise that costs rho for this L2 sensitivity."""
    if not (rho > 0 and sensitivity > 0):
        raise BudgetError("Gaussian noise needs a positive budget and a positive sensitivity")
    return sensitivity / math.sqrt(2 * rho)


@dataclass(frozen=True)
class Charge:
    """One question, with the noise on its answer; made by the constructor named after its mechanism.

    >>> Charge.gaussian("count of age", sensitivity=1.0, scale=10.0, draws=5).rho
    0.005
    """

    question: str
    """What is asked, in plain words made of public facts only."""
    mechanism: Mechanism
    """The noise: its law decides what the question costs."""
    norm: Norm
    """Norm of the sensitivity: l2 for gaussian, l1 for geometric, linf (each score) for choices, rows (how many
    prefixes change their number of seeds) for records grown from seeds."""
    sensitivity: float
    """How far one privacy unit moves the answer, for each scale."""
    scale: float | tuple[float, ...]
    """Scale of the noise; a tuple when the question is several tables, each with its own."""
    draws: int
    """Number of noise values drawn."""
    slack: float = 0.0
    """Total-variation distance within which the answer keeps to its cost; the ledger pays for it from delta."""
    cost: float = 0.0
    """Set by the ledger: rho, or epsilon under pure accounting."""
    time: str = ""
    """Set by the ledger: UTC, to the second."""

    def __post_init__(self) -> None:
        if self.mechanism not in _NORM:
            raise BudgetError(f"unknown mechanism {self.mechanism!r}")
        if self.norm != _NORM[self.mechanism]:
            raise BudgetError(
                f"{self.mechanism} noise is priced by {_NORM[self.mechanism]} sensitivity, not {self.norm}"
            )
        if not all(math.isfinite(x) and x > 0 for x in (self.sensitivity, *self.scales)) or not self.scales:
            raise BudgetError(f"{self.question!r} needs a positive sensitivity and positive noise scales")
        if not 0 <= self.slack < 1:
            raise BudgetError(f"the slack of {self.question!r} must be a probability")
        if self.mechanism != "exponential" and max(self.scales) > LARGEST_SCALE:
            raise BudgetError(
                f"{self.question!r} would need noise of scale {max(self.scales):.3g}, above {LARGEST_SCALE:g}: "
                "raise the budget, or ask fewer questions"
            )
        if not isinstance(self.draws, int) or self.draws < 1:
            raise BudgetError(f"{self.question!r} must draw noise a whole number of times, at least once")
        if not all(isinstance(text, str) for text in (self.question, self.time)):
            raise BudgetError("a question and its time are text")

    @classmethod
    def gaussian(cls, question: str, *, sensitivity: float, scale: float | Sequence[float], draws: int) -> Charge:
        """Rounded Gaussian noise on an answer of this L2 sensitivity; or on several such, a scale each."""
        return cls(question, "gaussian", "l2", sensitivity, _scales(scale), draws)

    @classmethod
    def geometric(cls, question: str, *, sensitivity: float, scale: float | Sequence[float], draws: int) -> Charge:
        """Two-sided geometric noise on an answer of this L1 sensitivity; or on several such, a scale each."""
        return cls(question, "geometric", "l1", sensitivity, _scales(scale), draws)

    @classmethod
    def exponential(cls, question: str, *, sensitivity: float, epsilon: float) -> Charge:
        """Choice by the exponential mechanism; each integer score moves by at most the sensitivity."""
        return cls(question, "exponential", "linf", sensitivity, selection_scale(sensitivity, epsilon), 1)

    @classmethod
    def noisy_max(cls, question: str, *, sensitivity: float, epsilon: float, candidates: int) -> Charge:
        """Choice by report-noisy-max, likewise."""
        scale = selection_scale(sensitivity, epsilon)
        return cls(question, "noisy-max", "linf", sensitivity, scale, candidates)

    @classmethod
    def seeded(cls, question: str, *, records: int, mu: float, slack: float) -> Charge:
        """Records grown from seeds that passed the privacy test: mu-GDP up to the slack (`weft.privacy.deniability`).

        The scale is that of the Gaussian noise on a count that would protect a row as well.
        """
        return cls(question, "seeded", "rows", 1.0, 1 / max(mu, 1e-9), records, slack)

    @property
    def scales(self) -> tuple[float, ...]:
        """The scales as a tuple, also when there is one."""
        return self.scale if isinstance(self.scale, tuple) else (self.scale,)

    @property
    def epsilon(self) -> float:
        """Pure-DP cost: sensitivity/scale for geometric noise, twice that for choices."""
        if self.mechanism in ("gaussian", "seeded"):
            return math.inf
        factor = 1 if self.mechanism == "geometric" else 2
        return math.fsum(factor * self.sensitivity / scale for scale in self.scales)

    @property
    def rho(self) -> float:
        """zCDP cost.

        Gaussian, and seeded, which is no worse: sum of s^2/(2 sigma^2), exact also for mu^2/2. Exponential mechanism:
        epsilon^2/8 by bounded range. Others: epsilon^2/2, the cost of any epsilon-DP mechanism (each scale is one).
        """
        if self.mechanism in ("gaussian", "seeded"):
            return math.fsum(rho_of_gaussian(self.sensitivity, sigma) for sigma in self.scales)
        if self.mechanism == "exponential":
            return math.fsum((2 * self.sensitivity / scale) ** 2 / 8 for scale in self.scales)
        factor = 1 if self.mechanism == "geometric" else 2
        return math.fsum((factor * self.sensitivity / scale) ** 2 / 2 for scale in self.scales)

    def price(self, accounting: Accounting) -> float:
        """Cost under an accounting; refused where the mechanism has no finite cost under it."""
        if accounting == "gaussian" and self.mechanism not in ("gaussian", "seeded"):
            raise BudgetError(
                f"{self.question!r} uses {self.mechanism} noise, but gaussian accounting takes Gaussian "
                "noise only: choose zcdp accounting for mixtures"
            )
        if accounting == "pure" and (self.slack or math.isinf(self.epsilon)):
            raise BudgetError(
                f"{self.question!r} uses {self.mechanism} noise, which pure epsilon cannot pay for: use geometric "
                "noise, or gaussian or zcdp accounting"
            )
        return self.epsilon if accounting == "pure" else self.rho

    @property
    def noise(self) -> str:
        """The noise in a few words."""
        low, high = min(self.scales), max(self.scales)
        size = f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
        return f"{self.mechanism} {size}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, without the time: how long a step takes tells of the number of rows."""
        values = asdict(self)
        del values["time"]
        return values | {"scale": list(self.scale) if isinstance(self.scale, tuple) else self.scale}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Charge:
        """Rebuild from what `to_dict` gave."""
        return cls(**{**values, "scale": _scales(values["scale"])})


def _scales(scale: float | Sequence[float]) -> float | tuple[float, ...]:
    return float(scale) if isinstance(scale, int | float) else tuple(float(s) for s in scale)
