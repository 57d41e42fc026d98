"""Charges: one query to the private rows with its noise, and its cost under each accounting."""

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
    from weft.privacy.deniability import PlausibleTest

Purpose = Literal["", "marginals", "total", "scores", "dependence", "choice", "seeds", "units", "discovery"]
"""Purpose of an answer; "" if no code depends on it."""


@dataclass(frozen=True)
class Charge:
    """One query and the noise on its answer; use the constructor named after its mechanism.

    >>> Charge.gaussian("count of age", sensitivity=1.0, scale=10.0, draws=5).rho
    0.005
    """

    question: str
    """Description of the query, containing public facts only."""
    mechanism: str
    """Name of the mechanism (`definition`), which determines the cost."""
    norm: Norm
    """Norm of the sensitivity; must equal the mechanism's norm."""
    sensitivity: float | tuple[float, ...]
    """Sensitivity of the answer to one privacy unit; a tuple if it differs between several tables."""
    scale: float | tuple[float, ...]
    """Scale of the noise; a tuple if the query consists of several tables with a scale each."""
    draws: int
    slack: float = 0.0
    """Total-variation distance up to which the answer satisfies its cost; the ledger pays for it from delta."""
    part: str = ""
    """Part of the rows that is queried, if secret coins have partitioned them; "" for all rows."""
    purpose: Purpose = ""
    """Purpose of the answer: code decides by this value, never by the text of the query."""
    terms: Mapping[str, float] = field(default_factory=dict)
    """Further parameters of the answer's distribution: the privacy test of seeds, or the probabilities of the parts."""
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
                f"{self.question!r} needs a noise scale of {max(self.scales):.3g}, above {MAX_NOISE_SCALE:g}: raise "
                "the budget, or make fewer queries"
            )
        if self.purpose not in get_args(Purpose):
            raise BudgetError(f"unknown purpose {self.purpose!r}")
        if not isinstance(self.draws, int) or self.draws < 1:
            raise BudgetError(f"{self.question!r} needs a positive whole number of noise draws")
        if not all(isinstance(text, str) for text in (self.question, self.part, self.time)):
            raise BudgetError("the question, part and time of a charge must be text")
        if not all(isinstance(x, int | float) and math.isfinite(x) for x in self.terms.values()):
            raise BudgetError(f"the terms of {self.question!r} must be numbers")
        self.definition.check(self)

    @property
    def definition(self) -> Mechanism:
        """The mechanism: its price, its release and its noise distribution."""
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
        """Charge for noise on tables of counts, with sensitivities in the mechanism's norm and one or more scales."""
        return cls(
            question, mechanism.name, mechanism.norm, _convert_to_floats(sensitivity), _convert_to_floats(scale), draws
        )

    @classmethod
    def gaussian(
        cls, question: str, *, sensitivity: float | Sequence[float], scale: float | Sequence[float], draws: int
    ) -> Charge:
        """Charge for rounded Gaussian noise on answers of this L2 sensitivity; one scale, or one per table."""
        return cls.counts(GAUSSIAN, question, sensitivity=sensitivity, scale=scale, draws=draws)

    @classmethod
    def geometric(
        cls, question: str, *, sensitivity: float | Sequence[float], scale: float | Sequence[float], draws: int
    ) -> Charge:
        """Charge for two-sided geometric noise on answers of this L1 sensitivity; one scale, or one per table."""
        return cls.counts(GEOMETRIC, question, sensitivity=sensitivity, scale=scale, draws=draws)

    @classmethod
    def exponential(cls, question: str, *, sensitivity: float, epsilon: float, draws: int = 1) -> Charge:
        """Charge for selections by the exponential mechanism, given the sensitivity per score and epsilon per draw."""
        return cls(question, "exponential", "linf", sensitivity, selection_scale(sensitivity, epsilon), draws)

    @classmethod
    def partitions(
        cls, question: str, *, sensitivity: float, scale: float, columns: int, rows: int, slack: float
    ) -> Charge:
        """Charge for the common values of columns (`weft.privacy.partitions`); `slack` covers all columns together."""
        from weft.privacy.partitions import MAX_PARTITION_VALUES, find_release_threshold

        terms = {"threshold": find_release_threshold(slack / columns, scale, rows), "rows": rows}
        scales = (scale,) * columns
        return cls(question, "partitions", "values", sensitivity, scales, MAX_PARTITION_VALUES, slack, terms=terms)

    @classmethod
    def deniable(cls, question: str, *, test: PlausibleTest, records: int, buckets: bool = False) -> Charge:
        """Charge for plausibly deniable records from seeds, for which no differential privacy is claimed.

        It has no price, because no finite price would be valid. A ledger with such a charge is stamped and states no
        epsilon for its release. With `buckets`, `records` counts attempts, which are tested by likelihood class.
        """
        from weft.privacy.deniability import BUCKETS

        terms = test.terms | ({BUCKETS: 1.0} if buckets else {})
        return cls(question, "deniable", "none", 1.0, 1.0, records, terms=terms)

    @classmethod
    def coins(cls, question: str, *, chances: Mapping[str, float], queried: float = 1.0) -> Charge:
        """Charge for secret coins that put each privacy unit in one part of the rows or none. Nothing is released.

        `queried` below 1 is the probability of all parts that will be queried, whose amplification is spent.
        """
        return cls(question, "coins", "none", 1.0, queried, 1, terms=dict(chances))

    @property
    def scales(self) -> tuple[float, ...]:
        """Scales as a tuple."""
        return self.scale if isinstance(self.scale, tuple) else (self.scale,)

    @property
    def sensitivities(self) -> tuple[float, ...]:
        """Sensitivity for each scale."""
        return self.sensitivity if isinstance(self.sensitivity, tuple) else (self.sensitivity,) * len(self.scales)

    @property
    def epsilon(self) -> float:
        """Cost in pure DP; infinity if no pure epsilon holds."""
        return self.definition.epsilon(self)

    @property
    def rho(self) -> float:
        """Cost in zCDP."""
        return self.definition.rho(self)

    @property
    def gdp(self) -> float:
        """Cost in mu^2 / 2 of Gaussian DP."""
        return self.definition.gdp(self)

    def price(self, accounting: AccountingLike) -> float:
        """Return the cost under an accounting; BudgetError if the mechanism has no finite cost under it."""
        return find_accounting(accounting).price(self)

    @property
    def noise(self) -> str:
        """Short description of the noise."""
        return self.definition.describe(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values without the time, because the duration of a step reveals the number of rows."""
        values = asdict(self)
        del values["time"]
        return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Charge:
        """Rebuild a charge from the output of `to_dict`."""
        return cls(
            **{
                **values,
                "sensitivity": _convert_to_floats(values["sensitivity"]),
                "scale": _convert_to_floats(values["scale"]),
            }
        )


def _convert_to_floats(value: float | Sequence[float]) -> float | tuple[float, ...]:
    return float(value) if isinstance(value, int | float) else tuple(float(v) for v in value)
