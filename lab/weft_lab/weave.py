"""Weave on the coded tables, beside its targets and the best figure of other software."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from weft.progress import Listener, ignore_event, report_stage
from weft_lab.charts import Spread
from weft_lab.figure import figure
from weft_lab.results import Key
from weft_lab.rivals import best, rivals
from weft_lab.sheet import Sheet
from weft_lab.tables import BenchTable
from weft_lab.trial import ORDERS, Repeated, repeated

TABLES = ("nltcs", "acs", "adult", "br2000", "fire")
EPSILONS = (0.2, 0.8, 3.2)
DRAWN = (3, 4, 5)
"""Orders of the figure's panels."""


@dataclass(frozen=True)
class Target:
    """Most error of 3- and 5-way marginals, and most seconds."""

    three: float
    five: float
    seconds: float

    def met(self, result: Repeated) -> bool:
        """Whether a result keeps to it."""
        within = result.errors[3].mean <= self.three and result.errors[5].mean <= self.five
        return within and result.seconds <= self.seconds

    def __str__(self) -> str:
        return f"{self.three:.4f} {self.five:.4f} {self.seconds:.0f} s"


TARGETS: Mapping[tuple[str, float], Target] = {
    ("nltcs", 0.2): Target(0.0092, 0.0218, 10),
    ("nltcs", 0.8): Target(0.0032, 0.0090, 10),
    ("nltcs", 3.2): Target(0.0012, 0.0045, 10),
    ("acs", 0.8): Target(0.0021, 0.0060, 20),
    ("acs", 3.2): Target(0.0009, 0.0034, 20),
    ("adult", 0.2): Target(0.060, 0.142, 10),
    ("adult", 0.8): Target(0.033, 0.102, 10),
    ("adult", 3.2): Target(0.021, 0.082, 10),
    ("br2000", 0.2): Target(0.040, 0.102, 10),
    ("br2000", 0.8): Target(0.020, 0.067, 10),
    ("br2000", 3.2): Target(0.0115, 0.051, 10),
    ("fire", 0.8): Target(0.066, 0.185, 15),
}
"""About a tenth less error than weave had before decision 019, in no more time."""


@dataclass
class Comparison:
    """Weave, or another method, on coded tables; what it measured can be drawn afterwards."""

    tables: Sequence[BenchTable]
    epsilons: Sequence[float] = EPSILONS
    runs: int = 5
    method: str = "weave"
    everything: bool = False
    """Also where no target is set."""
    measured: dict[Key, Spread] = field(default_factory=dict, init=False)

    def sheets(self, listener: Listener = ignore_event) -> Iterator[Sheet]:
        """Yield one sheet for each table."""
        with report_stage(listener, "run", len(self.tables) * len(self.epsilons)) as work:
            for table in self.tables:
                rows: list[list[str]] = []
                for epsilon in self.epsilons:
                    target = TARGETS.get((table.name, epsilon))
                    if target is not None or self.everything:
                        rows += self._rows(table, epsilon, target)
                    work.advance(note=f"{table.name}, epsilon {epsilon:g}")
                heads = ("epsilon", "", *(f"{k}-way" for k in ORDERS), "seconds", "target: 3-way, 5-way, time")
                yield Sheet(f"{table.name}: mean total variation, {self.runs} runs", heads, rows)

    def _rows(self, table: BenchTable, epsilon: float, target: Target | None) -> list[list[str]]:
        ours = repeated(table, self.method, epsilon, self.runs)
        for k in DRAWN:
            self.measured[table.name, f"tvd_{k}", epsilon, self.method] = ours.errors[k]
            for run in rivals(table.name, epsilon):
                if (error := run.error(k)) is not None:
                    self.measured[table.name, f"tvd_{k}", epsilon, run.label] = Spread.of([error])
        judged = "" if target is None else f"{target} {'met' if target.met(ours) else 'not met'}"
        return [
            [f"{epsilon:g}", self.method, *ours.shown(), judged],
            ["", "best rival", *(f"{error:.4f}" for error in best(table.name, epsilon)), "", ""],
        ]

    def figure(self) -> str:
        """Draw the first table."""
        name = self.tables[0].name
        heading = f"{name}: {self.method} ({self.runs} runs) beside other software (one run each)"
        return figure(self.measured, name, heading)
