"""Our figures beside a paper's, and whether what it says holds: the sheets that a terminal and the page show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from weft.display import format_count
from weft_lab.charts import Spread
from weft_lab.claims import Claim, Paper, papers
from weft_lab.results import SECONDS, summary
from weft_lab.runner import Outcome
from weft_lab.sheet import Sheet
from weft_lab.tasks import REFERENCES, title
from weft_lab.verdicts import MIN_RUNS, Judged, Tally, comparable, is_copied, plain, verdicts

WITHOUT = "Without lines that do not learn:"


@dataclass(frozen=True)
class Judgement:
    """What a paper says of one experiment, judged."""

    name: str
    paper: Paper
    counted: list[Judged]
    """Cells on tables that the paper speaks of."""
    elsewhere: list[Judged]
    """Cells on other tables: of interest, and no evidence for or against the paper."""
    copied: list[Judged]
    """Cells on the paper's tables with every row so often that there are as many as in the paper."""
    few: int
    """Cells of too few runs to be judged."""

    @property
    def disagreeing(self) -> list[Judged]:
        """The counted cells in which we found the opposite."""
        return [cell for cell in self.counted if cell.verdict == "disagrees"]

    def sheets(self) -> list[Sheet]:
        """Return a sheet of statements for the paper's tables, and one for others."""
        made = []
        if self.counted:
            able = [cell for cell in self.counted if cell.learns]
            told = [f"{WITHOUT} {Tally.of(able)}"] if len(able) < len(self.counted) else []
            told += [f"Disagrees: {cell}" for cell in self.disagreeing]
            told += [f"Why, as far as we know: {self.paper.why}"] if self.disagreeing and self.paper.why else []
            made.append(self._sheet("What the paper says", self.counted, told))
        if self.few:
            text = f"Not judged: {format_count(self.few, 'cell')} of fewer than {MIN_RUNS} runs."
            made.append(Sheet("Too few runs", ("",), [], [text]))
        if self.copied:
            names = ", ".join(dict.fromkeys(cell.table for cell in self.copied))
            notes = ["Every row so often that there are as many as in the paper: counted on their own."]
            notes += [f"Disagrees: {cell}" for cell in self.copied if cell.verdict == "disagrees"]
            made.append(self._sheet(f"The same on {names}", self.copied, notes, "With copied rows: "))
        if self.elsewhere:
            names = ", ".join(dict.fromkeys(cell.table for cell in self.elsewhere))
            note = f"The paper used {self.paper.on}: these cells are not counted."
            made.append(self._sheet(f"What the paper says, on {names}", self.elsewhere, [note]))
        return made

    def _sheet(self, heading: str, cells: list[Judged], notes: list[str], before: str = "") -> Sheet:
        rows = []
        for claim in self.paper.says:
            own = Tally.of(cell for cell in cells if cell.claim is claim)
            if own.holds + own.level + own.disagrees:
                rows.append([claim.where, said(claim), str(own.holds), str(own.level), str(own.disagrees)])
        columns = ("where", "what it says", "hold", "level", "disagree")
        return Sheet(heading, columns, rows, [f"{before}{Tally.of(cells)}", *notes])


def judged(outcome: Outcome) -> Judgement | None:
    """Judge an experiment by its paper; None for one of our own."""
    name = outcome.experiment.name
    if name not in papers():
        return None
    paper = papers()[name]
    found = verdicts(paper, outcome.rows)
    cells = [cell for cell in found if cell.runs >= MIN_RUNS]
    counted = [cell for cell in cells if comparable(paper, cell.table)]
    copied = [cell for cell in cells if is_copied(cell.table) and plain(cell.table) in paper.tables]
    elsewhere = [cell for cell in cells if cell not in counted and cell not in copied]
    return Judgement(name, paper, counted, elsewhere, copied, len(found) - len(cells))


def said(claim: Claim) -> str:
    """Say in one line what a statement compares.

    >>> from weft_lab.claims import papers
    >>> said(papers()["privsyn-figure6"].says[0])
    'Weighted Gaussian better than Equal Gaussian, Equal Laplace'
    """
    first, second = (", ".join(dict.fromkeys(pair[i] for pair in claim.pairs)) for i in range(2))
    lines = ", ".join(dict.fromkeys(line for pair in claim.pairs for line in pair))
    told = {
        "better": f"{first} better than {second}",
        "close": f"{lines} similar",
        "rises": f"{first} grows with epsilon",
        "most": f"{first} at most {claim.bound:g}",
        "least": f"{first} at least {claim.bound:g}",
    }[claim.kind]
    return told + (", over all budgets" if claim.overall else "")


def printed(outcome: Outcome) -> list[Sheet]:
    """Return a sheet for each table and budget with our figures, and the paper's printed ones in brackets."""
    name = outcome.experiment.name
    figures = papers()[name].figures if name in papers() else None
    if figures is None:
        return []
    found = summary(outcome.rows)
    measures = list(dict.fromkeys(measure for _, measure in figures.values))
    made = []
    for table, epsilon in dict.fromkeys((key[0], key[2]) for key in found):
        ours = {(key[3], key[1]): spread for key, spread in found.items() if (key[0], key[2]) == (table, epsilon)}
        rows = []
        for line in figures.lines:
            cells = [_cell(_ours(ours, line, measure), figures.values.get((line, measure))) for measure in measures]
            rows.append([line, *cells])
        heading = f"{table}, epsilon {epsilon:g}: ours, and in brackets the paper's"
        made.append(Sheet(heading, ("", *(title(measure) for measure in measures)), rows, [figures.where + "."]))
    return made


def _ours(ours: dict[tuple[str, str], Spread], line: str, measure: str) -> Spread | None:
    """Return our figure of a line; of a reference, which is the same in every line, that of the first."""
    for ending, meaning in REFERENCES.items():
        if line == meaning:
            return next((spread for (_, name), spread in ours.items() if name == measure + ending), None)
    return ours.get((line, measure))


def _cell(ours: Spread | None, theirs: float | None) -> str:
    return f"{'not run' if ours is None else ours} ({'none' if theirs is None else f'{theirs:g}'})"


def shown_measures(outcome: Outcome) -> list[tuple[str, str]]:
    """Return each table and measure that an experiment is about; seconds only where nothing else was measured."""
    found = dict.fromkeys((row.table, row.measure) for row in outcome.rows)
    only = {measure for _, measure in found} == {SECONDS}
    return [(table, measure) for table, measure in found if only or measure != SECONDS]


def share(judgements: Iterable[Judgement]) -> Tally:
    """Count all cells of several experiments."""
    return Tally.of(cell for one in judgements for cell in one.counted)
