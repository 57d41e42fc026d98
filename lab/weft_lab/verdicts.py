"""Whether what a paper says of an experiment holds in ours, cell by cell.

A cell is a table, a budget, a figure and a pair of lines. Runs of one seed share their noise as far as they ask the
same questions, so the lines are compared run by run. A cell is "level" if the mean difference lies within one standard
deviation of the differences between runs; else it holds, or it disagrees. Cells of fewer than `MIN_RUNS` runs are not
counted: their spread is not known. Level cells are counted on their own: the share that holds is of the cells that the
runs can tell apart. Lines that a paper calls similar hold where their means are within a tenth of the larger.

A line does not learn on a table if its figure at the largest budget is not better than at the smallest by a tenth. The
share is counted without such lines, too: to be ahead of them is no evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Literal

from weft_lab.claims import Claim, Paper
from weft_lab.results import SECONDS, Row
from weft_lab.tasks import REFERENCES, larger_is_better, title

Verdict = Literal["holds", "level", "disagrees"]
VERDICTS: tuple[Verdict, ...] = ("holds", "level", "disagrees")
MIN_RUNS = 3
"""Fewest runs of a cell that is counted."""
CLOSE = 0.1
"""What is called similar differs by no more than this share of the larger figure: the papers give no number."""
HOW = (
    "A cell is a table, a budget, a figure and a pair of lines. Level: the mean difference is within one standard "
    "deviation of the differences between runs; such cells do not enter the share. Similar: within a tenth. Cells of "
    f"fewer than {MIN_RUNS} runs are not counted. A line does not learn if its figure at the largest budget is not a "
    "tenth better than at the smallest."
)

Runs = Mapping[int, float]
"""A figure by seed."""


@dataclass(frozen=True)
class Judged:
    """One cell."""

    claim: Claim
    table: str
    epsilon: float | None
    """None: over all budgets."""
    measure: str
    pair: tuple[str, str]
    ours: tuple[float, float]
    """Our mean figures of the two lines; of one line, at the smallest and largest budget or its own and the bound."""
    verdict: Verdict
    runs: int = MIN_RUNS
    learns: bool = True
    """Whether both lines are better with more budget, as far as there are several budgets."""

    def __str__(self) -> str:
        budget = "all budgets" if self.epsilon is None else f"epsilon {self.epsilon:g}"
        first, second = (f"{value:.4g}" for value in self.ours)
        told = {
            "better": f"{self.pair[0]} {first}, {self.pair[1]} {second}",
            "close": f"{self.pair[0]} {first}, {self.pair[1]} {second}",
            "rises": f"{self.pair[0]} from {first} to {second}",
            "most": f"{self.pair[0]} {first}, at most {second}",
            "least": f"{self.pair[0]} {first}, at least {second}",
        }[self.claim.kind]
        return f"{self.table}, {budget}, {title(self.measure)}: {told}"


def judge(differences: Sequence[float]) -> Verdict:
    """Judge paired differences, positive where a statement holds.

    >>> judge([0.1, 0.2]), judge([-0.1, 0.2]), judge([-0.1]), judge([0.0])
    ('holds', 'level', 'disagrees', 'level')

    A single difference has no spread; its cell is not counted (`MIN_RUNS`).
    """
    middle = mean(differences)
    if abs(middle) <= (stdev(differences) if len(differences) > 1 else 0.0):
        return "level"
    return "holds" if middle > 0 else "disagrees"


def comparable(paper: Paper, table: str) -> bool:
    """Whether the paper speaks of this table; of some of its rows and columns, it does, and not of copied rows."""
    return plain(table) in paper.tables and not is_copied(table)


def is_copied(table: str) -> bool:
    """Whether a table has its rows several times over."""
    return table.endswith(" copies")


def learns(line: Mapping[float, Runs], sign: int) -> bool:
    """Whether a line is better by a tenth at the largest budget than at the smallest; True with a single budget.

    >>> learns({0.1: {0: 0.4}, 3.2: {0: 0.39}}, -1), learns({0.1: {0: 0.4}, 3.2: {0: 0.1}}, -1)
    (False, True)
    """
    if len(line) < 2:
        return True
    low, high = (mean(line[end(line)].values()) for end in (min, max))
    return sign * (high - low) >= CLOSE * abs(low)


def plain(table: str) -> str:
    """Return the name of a table without what was cut from it."""
    return table.partition(", ")[0]


def verdicts(paper: Paper, rows: Iterable[Row]) -> list[Judged]:
    """Judge every cell of an experiment that a statement covers, on whatever tables it was run."""
    found: dict[tuple[str, str], dict[str, dict[float, dict[int, float]]]] = {}
    for row in rows:
        by_line = found.setdefault((row.table, row.measure), {})
        by_line.setdefault(row.variant, {}).setdefault(row.epsilon, {})[row.seed] = row.value
    return [
        judged
        for claim in paper.says
        for (table, measure), lines in found.items()
        if _concerns(claim, table, measure, {name for _, name in found})
        for pair in claim.pairs
        if set(pair) <= set(lines)
        for judged in _judged(claim, table, measure, pair, (lines[pair[0]], lines[pair[1]]))
    ]


def _concerns(claim: Claim, table: str, measure: str, measures: set[str]) -> bool:
    if claim.tables is not None and plain(table) not in claim.tables:
        return False
    if claim.measures is not None:
        return measure in claim.measures
    own = not measure.endswith(tuple(REFERENCES))
    return own and (measure != SECONDS or measures == {SECONDS})


def _judged(
    claim: Claim,
    table: str,
    measure: str,
    pair: tuple[str, str],
    lines: tuple[Mapping[float, Runs], Mapping[float, Runs]],
) -> Iterator[Judged]:
    """Judge one pair of lines on one table by one figure."""
    budgets = sorted(e for e in set(lines[0]) & set(lines[1]) if claim.covers(e))
    sign = 1 if larger_is_better(measure) else -1

    def cell(epsilon: float | None, ours: Sequence[float], differences: Sequence[float]) -> Judged:
        able = all(learns(line, sign) for line in lines)
        runs = MIN_RUNS if table.startswith("any ") else min(len(line[e]) for line in lines for e in budgets)
        return Judged(claim, table, epsilon, measure, pair, (ours[0], ours[1]), judge(differences), runs, able)

    if claim.kind == "rises":
        if len(budgets) > 1:
            low, high = (lines[0][budgets[end]] for end in (0, -1))
            yield cell(None, [mean(low.values()), mean(high.values())], [high[s] - low[s] for s in low if s in high])
        return
    spans = [budgets] if claim.overall and budgets else [[epsilon] for epsilon in budgets]
    for span in spans:
        first, second = ([_over(line, span, seed) for seed in _seeds(lines, span)] for line in lines)
        if not first:
            continue
        means = (mean(first), mean(second))
        epsilon = None if claim.overall else span[0]
        if claim.kind == "better":
            yield cell(epsilon, means, [sign * (a - b) for a, b in zip(first, second, strict=True)])
        elif claim.kind == "close":
            within = abs(means[0] - means[1]) <= CLOSE * max(map(abs, means))
            yield cell(epsilon, means, [1.0 if within else -1.0])
        else:
            towards = 1 if claim.kind == "least" else -1
            yield cell(epsilon, (means[0], claim.bound), [towards * (value - claim.bound) for value in first])


def _seeds(lines: Iterable[Mapping[float, Runs]], span: Sequence[float]) -> list[int]:
    return sorted(set.intersection(*(set(line[epsilon]) for line in lines for epsilon in span)))


def _over(line: Mapping[float, Runs], span: Sequence[float], seed: int) -> float:
    return mean(line[epsilon][seed] for epsilon in span)


@dataclass(frozen=True)
class Tally:
    """How many cells hold, are level and disagree."""

    holds: int
    level: int
    disagrees: int

    @classmethod
    def of(cls, cells: Iterable[Judged]) -> Tally:
        """Count verdicts."""
        found = [cell.verdict for cell in cells]
        return cls(*(found.count(verdict) for verdict in VERDICTS))

    def __add__(self, other: Tally) -> Tally:
        """Return the sums."""
        return Tally(self.holds + other.holds, self.level + other.level, self.disagrees + other.disagrees)

    def __str__(self) -> str:
        """Say it in one sentence.

        >>> print(Tally(9, 2, 1))
        9 hold, 2 level, 1 disagrees: 90% of the cells that the runs can tell apart hold.
        >>> print(Tally(0, 2, 0))
        0 hold, 2 level, 0 disagree: the runs tell none apart.
        """
        counts = f"{self.holds} hold, {self.level} level, {self.disagrees} disagree{'s' * (self.disagrees == 1)}"
        told = self.holds + self.disagrees
        if not told:
            return f"{counts}: the runs tell none apart."
        return f"{counts}: {self.holds / told:.0%} of the cells that the runs can tell apart hold."
