"""Data classes of a report's figures, which the HTML page shows and the JSON file contains."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from weft.display import frame_page
from weft.schema.kinds.kind import Sort
from weft.synthesis.verdicts import Grade, Verdict

Edition = Literal["private", "releasable"]
Beside = tuple[float | None, float | None]
"""A figure of the private table (None: not disclosed), and of the synthetic one."""

NEARLY_ALL = 0.99
"""Attributes with one value in at least this share of both tables are shown separately: they improve every mean."""
STRONG = 0.10
"""Minimum Cramer's V of a noteworthy relation."""
MAX_SHARE_OF_FEW_ROWS = 0.01
"""If half of a relation depends on cells with at most this share of the rows, it is due to chance or to few people."""


@dataclass(frozen=True)
class Bar:
    """One value, bin or group of an attribute, with its share of the rows in both tables."""

    label: str
    short: str
    sort: Sort
    reference: float
    synth: float
    noise: float | None = None
    """Standard deviation of the share due to privacy noise (None: unknown)."""


@dataclass(frozen=True)
class ColumnFigures:
    """Figures of one attribute."""

    name: str
    kind: str
    codes: int
    """Number of values or bins, including missing."""
    distance: float
    """Total variation distance: the share of rows that would have to change their value for the tables to agree."""
    noise: float | None
    """Expected total variation distance from privacy noise alone (None: unknown)."""
    bars: tuple[Bar, ...]
    outside: float = 0.0
    """Share of real rows with a value that is not listed or out of range, which counts as wrong. PRIVATE."""
    gone: int = 0
    """Number of values of the private table that the synthetic one lacks. PRIVATE."""

    @property
    def constant(self) -> bool:
        """Whether nearly all rows of both tables have the same value."""
        return any(min(bar.reference, bar.synth) >= NEARLY_ALL for bar in self.bars if bar.sort != "rest")


@dataclass(frozen=True)
class NumberFigures:
    """Figures of a column of numbers or dates; those of the private table are None in the releasable edition."""

    name: str
    dates: bool
    """Whether the numbers are seconds since 1970, in local time of the column's time zone."""
    mean: Beside
    sd: Beside
    levels: tuple[float, ...]
    quantiles: tuple[Beside, ...]
    moved: float | None
    """Wasserstein distance: the mean distance by which values must be moved to turn one column into the other."""
    grain: float | None
    """Number whose multiples are counted as round; None for dates."""
    round_share: Beside
    """Share of the values that are multiples of `grain`."""
    weekdays: tuple[Beside, ...]
    """Shares of Monday to Sunday, for dates."""
    months: tuple[Beside, ...]

    def quantile(self, level: float) -> Beside:
        """Return a quantile in both tables."""
        return self.quantiles[self.levels.index(level)]


@dataclass(frozen=True)
class RuleFigures:
    """A rule of the schema, and the number of rows that break it."""

    rule: str
    columns: tuple[str, ...]
    policy: str
    """Treatment of private rows that break it."""
    synth: int
    real: int | None
    """None in the releasable edition, and for rules that do not keep such rows."""


@dataclass(frozen=True)
class Agreement:
    """Share of the people with several rows for whom a per-person column is constant."""

    column: str
    real: float | None
    """None in the releasable edition, and if no one has several rows."""
    synth: float | None


@dataclass(frozen=True)
class PeopleFigures:
    """Figures of rows per person."""

    unit: str
    most: int
    """Contribution bound."""
    real_people: int | None
    people: int
    real_sizes: tuple[float, ...] | None
    """Share of the people with 1, 2, ... rows; None in the releasable edition."""
    sizes: tuple[float, ...]
    agreement: tuple[Agreement, ...]


@dataclass(frozen=True)
class PairFigures:
    """Figures of an attribute pair."""

    columns: tuple[str, str]
    distance: float | None
    """Total variation distance (None in the releasable edition if no marginal contains both attributes)."""
    association: float | None
    """Cramer's V in the reference, 0 to 1."""
    association_synth: float
    measured: bool
    """Whether a measured marginal contains both attributes."""
    rests_on: float | None = None
    """Share of the rows in the fewest cells that account for half of the relation, where it is stronger."""
    noise: float | None = None
    """Expected total variation distance from privacy noise alone (None: unknown)."""
    grade: Grade = "usable"
    reason: str = ""

    @property
    def change(self) -> float:
        """Increase of the association."""
        return self.association_synth - (self.association or 0.0)

    @property
    def on_few(self) -> bool:
        """Whether a noteworthy relation depends on a few rare cells."""
        strong = max(self.association or 0.0, self.association_synth) >= STRONG
        return strong and self.rests_on is not None and self.rests_on <= MAX_SHARE_OF_FEW_ROWS


@dataclass(frozen=True)
class PairGrid:
    """Heat maps of an attribute pair: shares of the rows by groups of values."""

    columns: tuple[str, str]
    rows: tuple[str, ...]
    across: tuple[str, ...]
    reference: tuple[tuple[float, ...], ...]
    synth: tuple[tuple[float, ...], ...]
    pooled: tuple[tuple[int, ...], tuple[int, ...]]
    """Indices in `rows` and in `across` of groups that combine the remaining values."""


@dataclass(frozen=True)
class Questions:
    """Answers of both tables to random range queries on three attributes."""

    count: int
    error: float
    """Mean absolute difference, as a share of the rows."""
    worst: float
    reference: tuple[float, ...]
    synth: tuple[float, ...]


@dataclass(frozen=True)
class Prediction:
    """Accuracy on real test rows of classifiers trained on synthetic and real rows, and of the most frequent value."""

    target: str
    synth: float
    real: float
    majority: float


@dataclass(frozen=True)
class MarginalFigures:
    """Figures of one measured marginal: expected noise and observed distance."""

    columns: tuple[str, ...]
    cells: int
    sigma: float
    """Standard deviation of the noise on each cell, in rows."""
    raw_noise: float
    """Expected L1 distance of the noisy table as released, in rows: cells * sigma * sqrt(2 / pi)."""
    noise: float
    """Expected total variation distance from noise alone, after counts are made non-negative and consistent."""
    observed: float
    """Total variation distance between the synthetic table and the reference."""

    @property
    def upper(self) -> float:
        """Distance that noise alone exceeds in about one of twenty draws.

        The L1 norm of k independent Gaussian values has a relative standard deviation of sqrt(pi/2 - 1) / sqrt(k), with
        k = cells - 1 since the total is fixed. Two such standard deviations, and a tenth for the sampling of rows.
        """
        return self.noise * (1.1 + 2 * math.sqrt((math.pi / 2 - 1) / max(self.cells - 1, 1)))

    @property
    def explained(self) -> bool:
        """Whether noise alone can explain the observed distance."""
        return self.observed <= self.upper


@dataclass(frozen=True)
class Headline:
    """One figure of the summary with its explanation."""

    name: str
    figure: str
    value: float
    meaning: str
    median: float | None = None
    """Median of the figures that `value` is the mean of."""
    worst: float | None = None
    worst_of: tuple[str, ...] = ()
    """The attributes with the worst figure."""
    beside: str = ""
    """Text with the median and the worst figure."""


@dataclass(frozen=True)
class Caution:
    """Reason for caution with some columns."""

    columns: tuple[str, ...]
    reason: str
    grade: Grade = "usable with care"


@dataclass(frozen=True)
class Guarantee:
    """The privacy guarantee and its explanation."""

    epsilon: float | None
    """None if differential privacy is not guaranteed."""
    delta: float | None
    neighbours: str
    method: str
    budget_used: float
    meaning: str


@dataclass(frozen=True)
class Report:
    """All figures of one edition of a report."""

    edition: Edition
    reference: str
    """Name of what the synthetic table is compared with."""
    rows: int
    """Number of synthetic rows."""
    reference_rows: int | None
    """Number of real rows; None in the releasable edition, since it is private."""
    stamps: tuple[str, ...]
    guarantee: Guarantee | None
    headlines: tuple[Headline, ...]
    verdicts: tuple[Verdict, ...]
    cautions: tuple[Caution, ...]
    table_columns: int
    """Number of columns; it differs from the attributes, since a date has several and a group of columns has one."""
    columns: tuple[ColumnFigures, ...]
    made_anew: tuple[str, ...]
    """Id columns, which are not compared."""
    derived: tuple[str, ...]
    """Columns computed from others, which have no codes to compare."""
    numbers: tuple[NumberFigures, ...]
    rules: tuple[RuleFigures, ...]
    people: PeopleFigures | None
    pairs: tuple[PairFigures, ...]
    grids: tuple[PairGrid, ...]
    questions: Questions | None
    predictions: tuple[Prediction, ...]
    prediction_note: str
    marginals: tuple[MarginalFigures, ...]
    ledger: dict[str, Any] | None
    weft: str

    def _repr_html_(self) -> str:
        from weft.evaluation.report.report_page import render

        return frame_page(render(self), 800)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, with numbers rounded to six digits."""
        plain: dict[str, Any] = _round_figures(asdict(self))
        return plain


def _round_figures(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _round_figures(part) for key, part in value.items()}
    return [_round_figures(part) for part in value] if isinstance(value, list | tuple) else value
