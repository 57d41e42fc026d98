"""One question to the private rows: its noise, and what that noise costs under each accounting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from weft.errors import BudgetError
from weft.privacy.accounting import AccountingLike, find_accounting
from weft.privacy.mechanisms import GAUSSIAN, GEOMETRIC, CountNoise, Mechanism, Norm, find_mechanism
from weft.privacy.noise import MAX_NOISE_SCALE
from weft.privacy.selection import selection_scale

if TYPE_CHECKING:
    from weft.privacy.deniability import Acceptance, PlausibleTest

Purpose = Literal["", "marginals", "total", "scores", "dependence", "choice", "seeds", "units", "discovery"]
"""What an answer is for; "" where nobody has to know."""


@dataclass(frozen=True)
class Charge:
    """One question, with the noise on its answer; made by the constructor named after its mechanism.

    >>> Charge.gaussian("count of age", sensitivity=1.0, scale=10.0, draws=5).rho
    0.005
    """

    question: str
    """What is asked, in plain words made of public facts only."""
    mechanism: str
    """Name of the mechanism (`definition`), which decides what the question costs."""
    norm: Norm
    """Norm of the sensitivity: that of the mechanism."""
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
        priced_by = self.definition.norm
        if self.norm != priced_by:
            raise BudgetError(f"{self.mechanism} noise is priced by {priced_by} sensitivity, not {self.norm}")
        if isinstance(self.sensitivity, tuple) and len(self.sensitivity) != len(self.scales):
            raise BudgetError(f"{self.question!r} needs as many sensitivities as noise scales")
        if not all(math.isfinite(x) and x > 0 for x in (*self.sensitivities, *self.scales)) or not self.scales:
            raise BudgetError(f"{self.question!r} needs a positive sensitivity and positive noise scales")
        if not 0 <= self.slack < 1:
            raise BudgetError(f"the slack of {self.question!r} must be a probability")
        if self.definition.has_scale_limit and max(self.scales) > MAX_NOISE_SCALE:
            raise BudgetError(
                f"{self.question!r} would need noise of scale {max(self.scales):.3g}, above {MAX_NOISE_SCALE:g}: "
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
        self.definition.check(self)

    @property
    def definition(self) -> Mechanism:
        """The mechanism: its price, its release, its law."""
        return find_mechanism(self.mechanism)

    @classmethod
    def counts(
        cls,
        mechanism: CountNoise,
        question: str,
        *,
        sensitivity: float | Sequence[float],
        scale: float | Sequence[float],
        draws: int,
    ) -> Charge:
        """Noise of a mechanism on a table of counts whose sensitivity is in its norm; or on several, a scale each."""
        return cls(
            question, mechanism.name, mechanism.norm, _convert_to_floats(sensitivity), _convert_to_floats(scale), draws
        )

    @classmethod
    def gaussian(
        cls, question: str, *, sensitivity: float | Sequence[float], scale: float | Sequence[float], draws: int
    ) -> Charge:
        """Rounded Gaussian noise on an answer of this L2 sensitivity; or on several such, a scale each."""
        return cls.counts(GAUSSIAN, question, sensitivity=sensitivity, scale=scale, draws=draws)

    @classmethod
    def geometric(
        cls, question: str, *, sensitivity: float | Sequence[float], scale: float | Sequence[float], draws: int
    ) -> Charge:
        """Two-sided geometric noise on an answer of this L1 sensitivity; or on several such, a scale each."""
        return cls.counts(GEOMETRIC, question, sensitivity=sensitivity, scale=scale, draws=draws)

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
        from weft.privacy.partitions import MAX_PARTITION_VALUES, find_release_threshold

        terms = {"threshold": find_release_threshold(slack / columns, scale, rows), "rows": rows}
        scales = (scale,) * columns
        return cls(question, "partitions", "values", sensitivity, scales, MAX_PARTITION_VALUES, slack, terms=terms)

    @classmethod
    def seeded(cls, question: str, *, test: Acceptance, records: int, passing: float, slack: float) -> Charge:
        """Records grown from seeds that passed the privacy test: mu-GDP up to the slack (`weft.privacy.deniability`).

        `passing` is a lower bound of the seeds that pass, wrong with a probability of at most slack/2. The scale is
        that of the Gaussian noise on a count that would protect a row as well: next to none if no mu is enough, a
        price that no budget can pay.
        """
        from weft.privacy.deniability import release_mu
        from weft.privacy.noise import UNIFORM_ERROR

        # The draws themselves keep to their law only so far; what that takes of the slack is next to nothing.
        mu = release_mu(test, records, passing, slack / 2 - records * UNIFORM_ERROR)
        terms = {"k": test.k, "epsilon0": test.epsilon0, "passing": passing}
        return cls(question, "seeded", "rows", 1.0, 1 / min(max(mu, 1e-9), 1e9), records, slack, terms=terms)

    @classmethod
    def deniable(cls, question: str, *, test: PlausibleTest, records: int, buckets: bool = False) -> Charge:
        """Records grown from seeds, each plausible to deny; no differential privacy is claimed for them.

        It has no price, because there is none that would do. A ledger that holds such a charge is stamped, and states
        no epsilon for what leaves. `buckets`: so many were tried, and tested by classes of likelihood.
        """
        from weft.privacy.deniability import BUCKETS

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
    def epsilon(self) -> float:
        """Cost in pure DP; infinity where no epsilon holds."""
        return self.definition.epsilon(self)

    @property
    def rho(self) -> float:
        """Cost in zCDP."""
        return self.definition.rho(self)

    @property
    def gdp(self) -> float:
        """Cost in mu^2/2 of Gaussian DP."""
        return self.definition.gdp(self)

    def price(self, accounting: AccountingLike) -> float:
        """Cost under an accounting; refused where the mechanism has no finite cost under it."""
        return find_accounting(accounting).price(self)

    @property
    def noise(self) -> str:
        """The noise in a few words."""
        return self.definition.describe(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, without the time: how long a step takes tells of the number of rows."""
        values = asdict(self)
        del values["time"]
        return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Charge:
        """Rebuild from what `to_dict` gave."""
        return cls(
            **{
                **values,
                "sensitivity": _convert_to_floats(values["sensitivity"]),
                "scale": _convert_to_floats(values["scale"]),
            }
        )


def _convert_to_floats(value: float | Sequence[float]) -> float | tuple[float, ...]:
    return float(value) if isinstance(value, int | float) else tuple(float(v) for v in value)
