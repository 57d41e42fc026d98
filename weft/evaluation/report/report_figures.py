"""The figures of a report as plain values: what the page shows and what its JSON twin holds."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from weft.display import frame_page
from weft.schema.kinds.kind import Sort

Edition = Literal["private", "releasable"]
Beside = tuple[float | None, float | None]
"""A figure of the private table (None: not told), and of the synthetic one."""

NEARLY_ALL = 0.99
"""Columns with one value in so large a share of both tables are folded away: they flatter every average."""
STRONG = 0.10
"""Relations from this Cramer's V on are worth naming."""
MAX_SHARE_OF_FEW_ROWS = 0.01
"""A relation half of which is made by cells with so few of the rows rests on chance, or on very few people."""


@dataclass(frozen=True)
class Bar:
    """One value, bin or group of a column, with its share of the rows in both tables."""

    label: str
    short: str
    """What fits under an axis."""
    sort: Sort
    reference: float
    synth: float
    noise: float | None = None
    """Standard deviation that the privacy noise gives the share (None: not known)."""


@dataclass(frozen=True)
class ColumnFigures:
    """One column on its own."""

    name: str
    kind: str
    codes: int
    """Values or bins that the schema gives it, missing among them."""
    distance: float
    """Total variation: the share of rows that would have to change their value for the tables to agree."""
    noise: float | None
    """What the privacy noise alone is expected to make of it (None: not known)."""
    bars: tuple[Bar, ...]

    @property
    def constant(self) -> bool:
        """Whether nearly all rows of both tables have the same value."""
        return any(min(bar.reference, bar.synth) >= NEARLY_ALL for bar in self.bars if bar.sort != "rest")


@dataclass(frozen=True)
class NumberFigures:
    """A column of numbers or dates as a person sees it; of two figures the first is the private table's.

    It is None in the releasable edition.
    """

    name: str
    dates: bool
    """Whether the numbers are seconds since 1970, on the clock of the column's zone."""
    mean: Beside
    sd: Beside
    levels: tuple[float, ...]
    quantiles: tuple[Beside, ...]
    """At each of the levels."""
    moved: float | None
    """How far values have to be moved, on average, to turn one column into the other: the Wasserstein distance."""
    grain: float | None
    """Of the multiples that people round to, those that tell most; None for dates."""
    round_share: Beside
    """Share of the values that are multiples of it."""
    weekdays: tuple[Beside, ...]
    """Shares of Monday to Sunday, for dates."""
    months: tuple[Beside, ...]
    """Shares of January to December."""

    def quantile(self, level: float) -> Beside:
        """Return a quantile in both tables."""
        return self.quantiles[self.levels.index(level)]


@dataclass(frozen=True)
class RuleFigures:
    """A rule of the schema, and the rows that break it."""

    rule: str
    columns: tuple[str, ...]
    policy: str
    """What was done about private rows that break it, in words."""
    synth: int
    real: int | None
    """None in the releasable edition, and for rules that refuse such rows."""


@dataclass(frozen=True)
class Agreement:
    """A column that stays the same for a person: the share of the people with several rows for whom it does."""

    column: str
    real: float | None
    """None in the releasable edition, and where nobody has several rows."""
    synth: float | None


@dataclass(frozen=True)
class PeopleFigures:
    """Rows per person."""

    unit: str
    most: int
    """Rows of a person that are kept."""
    real_people: int | None
    people: int
    real_sizes: tuple[float, ...] | None
    """Share of the people with 1, 2, ... rows; None in the releasable edition."""
    sizes: tuple[float, ...]
    agreement: tuple[Agreement, ...]


@dataclass(frozen=True)
class PairFigures:
    """Two columns together."""

    columns: tuple[str, str]
    distance: float | None
    """Total variation (None in the releasable edition where no marginal holds both columns)."""
    association: float | None
    """Cramer's V in the reference, 0 to 1."""
    association_synth: float
    measured: bool
    """Whether a measured marginal holds both columns."""
    rests_on: float | None = None
    """Share of the rows in the fewest cells that make half of the relation, in the table where it is stronger."""

    @property
    def change(self) -> float:
        """By how much the association grew."""
        return self.association_synth - (self.association or 0.0)

    @property
    def on_few(self) -> bool:
        """Whether a relation worth naming rests on a few rare cells."""
        strong = max(self.association or 0.0, self.association_synth) >= STRONG
        return strong and self.rests_on is not None and self.rests_on <= MAX_SHARE_OF_FEW_ROWS


@dataclass(frozen=True)
class PairGrid:
    """Shares of rows over two columns, coarse enough to be read."""

    columns: tuple[str, str]
    rows: tuple[str, ...]
    across: tuple[str, ...]
    reference: tuple[tuple[float, ...], ...]
    synth: tuple[tuple[float, ...], ...]
    pooled: tuple[tuple[int, ...], tuple[int, ...]]
    """Rows, and places across, that stand for all values without one of their own."""


@dataclass(frozen=True)
class Questions:
    """Random questions "how many rows have these three columns in these ranges", answered by both tables."""

    count: int
    error: float
    """Mean absolute difference, as a share of the rows."""
    worst: float
    reference: tuple[float, ...]
    synth: tuple[float, ...]


@dataclass(frozen=True)
class Prediction:
    """How often a classifier predicts one column rightly from the others, tested on real rows."""

    target: str
    synth: float
    """Trained on synthetic rows."""
    real: float
    """Trained on real rows."""
    majority: float
    """Always the most frequent value."""


@dataclass(frozen=True)
class MarginalFigures:
    """One measured marginal: what noise alone explains, beside what is observed."""

    columns: tuple[str, ...]
    cells: int
    sigma: float
    """Standard deviation of the noise on each cell, in rows."""
    raw_noise: float
    """Expected L1 distance of the noisy table as released, in rows: cells * sigma * sqrt(2 / pi)."""
    noise: float
    """Expected total variation once counts are made non-negative and add up: what noise alone explains."""
    observed: float
    """Total variation of the synthetic table from the reference."""

    @property
    def upper(self) -> float:
        """What noise alone stays below in about nineteen draws of twenty.

        The L1 norm of k independent Gaussian values is spread by sqrt(pi/2 - 1) / sqrt(k) of its mean; one cell is
        bound by the sum. Two such spreads, and a tenth for making rows.
        """
        return self.noise * (1.1 + 2 * math.sqrt((math.pi / 2 - 1) / max(self.cells - 1, 1)))

    @property
    def explained(self) -> bool:
        """Whether noise alone could have done it."""
        return self.observed <= self.upper


@dataclass(frozen=True)
class Headline:
    """One figure with what it means."""

    name: str
    figure: str
    value: float
    meaning: str
    median: float | None = None
    """The middle one of what `value` is the mean of."""
    worst: float | None = None
    """The worst of them."""
    worst_of: tuple[str, ...] = ()
    """The columns that it is the figure of."""
    beside: str = ""
    """Both in words."""


@dataclass(frozen=True)
class Caution:
    """A column or pair that a reader should be careful with, and why."""

    columns: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Guarantee:
    """What was spent, in numbers and in words."""

    epsilon: float | None
    """None where no differential privacy is claimed."""
    delta: float | None
    neighbours: str
    method: str
    budget_used: float
    meaning: str


@dataclass(frozen=True)
class Report:
    """Everything that one edition of a report says."""

    edition: Edition
    reference: str
    """What the synthetic table is compared with."""
    rows: int
    """Synthetic rows."""
    reference_rows: int | None
    """Real rows; None in the releasable edition, where they are private."""
    stamps: tuple[str, ...]
    guarantee: Guarantee | None
    headlines: tuple[Headline, ...]
    cautions: tuple[Caution, ...]
    table_columns: int
    """Columns that the table has: a date is counted as several attributes, a group of columns as one."""
    columns: tuple[ColumnFigures, ...]
    made_anew: tuple[str, ...]
    """Id columns, which are not compared."""
    derived: tuple[str, ...]
    """Columns that follow from others, and have no codes to compare."""
    numbers: tuple[NumberFigures, ...]
    rules: tuple[RuleFigures, ...]
    people: PeopleFigures | None
    pairs: tuple[PairFigures, ...]
    grids: tuple[PairGrid, ...]
    """The pairs that differ most, in detail."""
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
        """Return plain JSON values, numbers to six digits."""
        plain: dict[str, Any] = _round_figures(asdict(self))
        return plain


def _round_figures(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _round_figures(part) for key, part in value.items()}
    return [_round_figures(part) for part in value] if isinstance(value, list | tuple) else value
