"""One question to the private rows: its noise, and what that noise costs under each accounting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from weft.errors import BudgetError
from weft.privacy.accounting import pure_mu
from weft.privacy.budget import Accounting
from weft.privacy.noise import LARGEST_SCALE
from weft.privacy.selection import selection_scale

if TYPE_CHECKING:
    from weft.privacy.deniability import Acceptance
    from weft.privacy.plausible import PlausibleTest

Mechanism = Literal["gaussian", "geometric", "exponential", "partitions", "seeded", "deniable", "coins"]
Purpose = Literal["", "marginals", "total", "scores", "dependence", "choice", "seeds", "units", "discovery"]
"""What an answer is for; "" where nobody has to know."""

Norm = Literal["l1", "l2", "linf", "values", "rows", "none"]

_NORM: dict[str, Norm] = {
    "gaussian": "l2",
    "geometric": "l1",
    "exponential": "linf",
    "partitions": "values",
    "seeded": "rows",
    "deniable": "none",
    "coins": "none",
}


_LIKE_GAUSSIAN = ("gaussian", "partitions", "seeded")
"""Mechanisms that cost what Gaussian noise of their scale costs, or less."""

_PURE: dict[str, float] = {"geometric": 1.0, "exponential": 2.0}
"""What the others cost in epsilon, in units of sensitivity over scale; a mechanism that is not here has no price."""


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
    """Norm of the sensitivity: l2 for gaussian, l1 for geometric, linf (each score) for choices, values (l2 over all
    values that either table has) for values that many rows share, rows (how many prefixes change their number of
    seeds) for records grown from seeds, none where no such promise is made."""
    sensitivity: float | tuple[float, ...]
    """How far one privacy unit moves the answer, or each of several tables; a tuple where it differs among them."""
    scale: float | tuple[float, ...]
    """Scale of the noise; a tuple when the question is several tables, each with its own."""
    draws: int
    """Number of noise values drawn."""
    slack: float = 0.0
    """Total-variation distance within which the answer keeps to its cost; the ledger pays for it from delta."""
    part: str = ""
    """The part of the rows that is asked, where coins have divided them; "" for all rows."""
    purpose: Purpose = ""
    """What the answer is for: decisions look at this, never at the wording of the question."""
    terms: Mapping[str, float] = field(default_factory=dict)
    """What else the answer's law depends on: the privacy test of seeds, or the chances of the parts."""
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
        if isinstance(self.sensitivity, tuple) and len(self.sensitivity) != len(self.scales):
            raise BudgetError(f"{self.question!r} needs as many sensitivities as noise scales")
        if not all(math.isfinite(x) and x > 0 for x in (*self.sensitivities, *self.scales)) or not self.scales:
            raise BudgetError(f"{self.question!r} needs a positive sensitivity and positive noise scales")
        if not 0 <= self.slack < 1:
            raise BudgetError(f"the slack of {self.question!r} must be a probability")
        if self.mechanism != "exponential" and max(self.scales) > LARGEST_SCALE:
            raise BudgetError(
                f"{self.question!r} would need noise of scale {max(self.scales):.3g}, above {LARGEST_SCALE:g}: "
                "raise the budget, or ask fewer questions"
            )
        if self.purpose not in get_args(Purpose):
            raise BudgetError(f"unknown purpose {self.purpose!r}")
        if not isinstance(self.draws, int) or self.draws < 1:
            raise BudgetError(f"{self.question!r} must draw noise a whole number of times, at least once")
        if not all(isinstance(text, str) for text in (self.question, self.part, self.time)):
            raise BudgetError("a question, its part and its time are text")
        if not all(isinstance(x, int | float) and math.isfinite(x) for x in self.terms.values()):
            raise BudgetError(f"the terms of {self.question!r} must be numbers")
        if self.mechanism == "deniable":
            from weft.privacy.plausible import PlausibleTest

            PlausibleTest.of(self.terms)  # refuses one that cannot be
        if self.mechanism == "partitions":
            self._check_threshold()

    def _check_threshold(self) -> None:
        """Refuse a threshold that lets values of one unit through more often than the slack says."""
        from weft.privacy.partitions import release_chance

        threshold, rows = (self.terms.get(name, 0) for name in ("threshold", "rows"))
        if not (rows >= 1 and threshold == int(threshold) and rows == int(rows)):
            raise BudgetError(f"{self.question!r} needs a threshold and the rows of a unit, whole numbers")
        if math.fsum(release_chance(int(threshold), s, int(rows)) for s in self.scales) > self.slack:
            raise BudgetError(f"the slack of {self.question!r} does not pay for its threshold")

    @classmethod
    def gaussian(
        cls, question: str, *, sensitivity: float | Sequence[float], scale: float | Sequence[float], draws: int
    ) -> Charge:
        """Rounded Gaussian noise on an answer of this L2 sensitivity; or on several such, a scale each."""
        return cls(question, "gaussian", "l2", _each(sensitivity), _each(scale), draws)

    @classmethod
    def geometric(
        cls, question: str, *, sensitivity: float | Sequence[float], scale: float | Sequence[float], draws: int
    ) -> Charge:
        """Two-sided geometric noise on an answer of this L1 sensitivity; or on several such, a scale each."""
        return cls(question, "geometric", "l1", _each(sensitivity), _each(scale), draws)

    @classmethod
    def exponential(cls, question: str, *, sensitivity: float, epsilon: float, draws: int = 1) -> Charge:
        """Choice by the exponential mechanism; each integer score moves by at most the sensitivity.

        Several draws on the same scores are as many choices, each of this epsilon.
        """
        return cls(question, "exponential", "linf", sensitivity, selection_scale(sensitivity, epsilon), draws)

    @classmethod
    def partitions(
        cls, question: str, *, sensitivity: float, scale: float, columns: int, rows: int, slack: float
    ) -> Charge:
        """Values of columns that many rows share (`weft.privacy.partitions`); `slack` is for all columns together."""
        from weft.privacy.partitions import MOST_VALUES, threshold_for

        terms = {"threshold": threshold_for(slack / columns, scale, rows), "rows": rows}
        scales = (scale,) * columns
        return cls(question, "partitions", "values", sensitivity, scales, MOST_VALUES, slack, terms=terms)

    @classmethod
    def seeded(cls, question: str, *, test: Acceptance, records: int, passing: float, slack: float) -> Charge:
        """Records grown from seeds that passed the privacy test: mu-GDP up to the slack (`weft.privacy.deniability`).

        `passing` is a lower bound of the seeds that pass, wrong with a probability of at most slack/2. The scale is
        that of the Gaussian noise on a count that would protect a row as well: next to none if no mu is enough, a
        price that no budget can pay.
        """
        from weft.privacy.deniability import release_mu
        from weft.privacy.uniform import LAW_ERROR

        # The draws themselves keep to their law only so far; what that takes of the slack is next to nothing.
        mu = release_mu(test, records, passing, slack / 2 - records * LAW_ERROR)
        terms = {"k": test.k, "epsilon0": test.epsilon0, "passing": passing}
        return cls(question, "seeded", "rows", 1.0, 1 / min(max(mu, 1e-9), 1e9), records, slack, terms=terms)

    @classmethod
    def deniable(cls, question: str, *, test: PlausibleTest, records: int, buckets: bool = False) -> Charge:
        """Records grown from seeds, each plausible to deny; no differential privacy is claimed for them.

        It has no price, because there is none that would do. A ledger that holds such a charge is stamped, and states
        no epsilon for what leaves. `buckets`: so many were tried, and tested by classes of likelihood.
        """
        from weft.privacy.plausible import BUCKETS

        terms = test.terms | ({BUCKETS: 1.0} if buckets else {})
        return cls(question, "deniable", "none", 1.0, 1.0, records, terms=terms)

    @classmethod
    def coins(cls, question: str, *, chances: Mapping[str, float]) -> Charge:
        """A secret coin for each privacy unit, which puts it into a part of the rows, or in none; nothing leaves."""
        return cls(question, "coins", "none", 1.0, 1.0, 1, terms=dict(chances))

    @property
    def scales(self) -> tuple[float, ...]:
        """The scales as a tuple, also when there is one."""
        return self.scale if isinstance(self.scale, tuple) else (self.scale,)

    @property
    def sensitivities(self) -> tuple[float, ...]:
        """The sensitivity that belongs to each scale."""
        return self.sensitivity if isinstance(self.sensitivity, tuple) else (self.sensitivity,) * len(self.scales)

    @property
    def _pure(self) -> list[float]:
        """Epsilon of each table, or of each draw of a choice."""
        factor = _PURE[self.mechanism]
        each = [factor * moved / scale for moved, scale in zip(self.sensitivities, self.scales, strict=True)]
        return each * self.draws if self.mechanism == "exponential" else each

    @property
    def epsilon(self) -> float:
        """Pure-DP cost: sensitivity/scale for geometric noise, twice that for choices."""
        if self.mechanism in _LIKE_GAUSSIAN:
            return math.inf
        if self.norm == "none":
            return 0.0
        return math.fsum(self._pure)

    @property
    def rho(self) -> float:
        """zCDP cost.

        Gaussian, and what is no worse: sum of s^2/(2 sigma^2), exact also for mu^2/2. Exponential mechanism:
        epsilon^2/8 by bounded range. Others: epsilon^2/2, the cost of any epsilon-DP mechanism (each scale is one).
        """
        if self.mechanism in _LIKE_GAUSSIAN:
            return math.fsum(
                rho_of_gaussian(s, sigma) for s, sigma in zip(self.sensitivities, self.scales, strict=True)
            )
        if self.norm == "none":
            return 0.0
        if self.mechanism == "exponential":
            return math.fsum(epsilon**2 / 8 for epsilon in self._pure)
        return math.fsum(epsilon**2 / 2 for epsilon in self._pure)

    @property
    def gdp(self) -> float:
        """Cost in mu^2/2 of Gaussian DP: exact for Gaussian noise, and for others that of any epsilon-DP mechanism."""
        if self.mechanism in _LIKE_GAUSSIAN or self.norm == "none":
            return self.rho
        return math.fsum(pure_mu(epsilon) ** 2 / 2 for epsilon in self._pure)

    def price(self, accounting: Accounting) -> float:
        """Cost under an accounting; refused where the mechanism has no finite cost under it."""
        if accounting == "gaussian" and self.mechanism not in _LIKE_GAUSSIAN and self.norm != "none":
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
        if self.norm == "none":
            return "not private" if self.mechanism == "deniable" else "secret"
        low, high = min(self.scales), max(self.scales)
        size = f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
        return f"{self.mechanism} {size}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, without the time: how long a step takes tells of the number of rows."""
        values = asdict(self)
        del values["time"]
        return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Charge:
        """Rebuild from what `to_dict` gave."""
        return cls(**{**values, "sensitivity": _each(values["sensitivity"]), "scale": _each(values["scale"])})


def _each(value: float | Sequence[float]) -> float | tuple[float, ...]:
    return float(value) if isinstance(value, int | float) else tuple(float(v) for v in value)
