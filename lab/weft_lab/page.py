"""One page in Markdown of all that the papers' experiments gave, beside what the papers say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.display import Spread, format_count
from weft_lab.beside import Judgement, judged, printed, share, shown_measures
from weft_lab.claims import papers
from weft_lab.results import SECONDS, summary
from weft_lab.runner import Outcome
from weft_lab.sheet import Sheet
from weft_lab.tasks import REFERENCES, title
from weft_lab.verdicts import HOW, Tally

MOST_LISTED = 40
"""Cells of one experiment that are listed one by one where the paper is not borne out."""


def page(outcomes: Sequence[Outcome], figures: Mapping[str, Sequence[str]], command: str = "") -> str:
    """Return the page; `figures` has the file names of each experiment's drawings, `command` is what made it."""
    judgements = {outcome.experiment.name: judged(outcome) for outcome in outcomes}
    known = [one for one in judgements.values() if one is not None]
    text = ["# The papers' experiments, run again", "", *_head(outcomes, known, command)]
    for outcome in outcomes:
        text += _experiment(outcome, judgements[outcome.experiment.name], figures.get(outcome.experiment.name, ()))
    return "\n".join(text).rstrip() + "\n"


def _head(outcomes: Sequence[Outcome], known: Sequence[Judgement], command: str) -> list[str]:
    made = f"Made by `{command}`. " if command else ""
    text = [
        f"{made}Mean and standard deviation over runs. Below each heading stands how many there were, at which budgets "
        "and on which tables; `weft bench NAME --data TABLE --epsilons E,F --seeds N` makes them again. The papers' "
        "methods run as published (`--preset paper`), on public tables.",
        "",
        f"**What the papers say of their orderings: {share(known)}** {HOW}",
        "",
        "| experiment | hold | level | disagree |",
        "|---|---|---|---|",
    ]
    for one in known:
        tally = Tally.of(one.counted)
        if one.counted:
            text.append(f"| [{one.name}](#{one.name}) | {tally.holds} | {tally.level} | {tally.disagrees} |")
    return [*text, ""]


def _experiment(outcome: Outcome, judgement: Judgement | None, drawn: Sequence[str]) -> list[str]:
    made = outcome.experiment
    text = [f"## {made.name}", "", f"{made.paper}: {made.about}.", "", _extent(outcome), ""]
    found = summary(outcome.rows)
    beside = printed(outcome)
    for sheet in beside:
        text += _sheet(sheet)
    if not beside:
        for table, measure in shown_measures(outcome):
            if not measure.endswith(tuple(REFERENCES)):
                text += [
                    *_grid(table, measure, {key[1:]: spread for key, spread in found.items() if key[0] == table}),
                    "",
                ]
    text += [line for file in drawn for line in (f"![{made.name}]({file})", "")]
    for sheet in judgement.sheets() if judgement is not None else ():
        text += _sheet(sheet)
    left = [f"Left out, not built yet: {', '.join(outcome.missing)}."] if outcome.missing else []
    left += [f"Left out: {reason}" for reason in outcome.refused]
    left += [f"Not run: {reason}" for reason in (judgement.paper.missing if judgement is not None else ())]
    return [*text, *(line for reason in left for line in (reason, ""))]


def _extent(outcome: Outcome) -> str:
    """Say how much of an experiment was run."""
    if not outcome.rows:
        return "Nothing was run."
    told = []
    for table in dict.fromkeys(row.table for row in outcome.rows):
        own = [row for row in outcome.rows if row.table == table]
        runs = {e: len({row.seed for row in own if row.epsilon == e}) for e in sorted({row.epsilon for row in own})}
        budgets = ", ".join(f"{format_count(n, 'run')} at epsilon {e:g}" for e, n in runs.items())
        told.append(f"{table} ({budgets})")
    name = outcome.experiment.name
    theirs = f" The paper used {papers()[name].on}." if name in papers() else ""
    return f"Run on {'; '.join(told)}.{theirs}"


def _sheet(sheet: Sheet) -> list[str]:
    """Return a sheet in Markdown; of a long list of notes, the first."""
    more = len(sheet.notes) - MOST_LISTED
    notes = [*sheet.notes[:MOST_LISTED], *([f"And {more} more."] if more > 0 else [])]
    rows = [sheet.columns, ["---"] * len(sheet.columns), *sheet.rows]
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return [f"**{sheet.title}**", "", *lines, "", *(f"- {note}" for note in notes), ""]


def _grid(table: str, measure: str, found: Mapping[tuple[str, float, str], Spread]) -> list[str]:
    """Return one table: a row for each line of the figure and for each reference, a column for each budget."""
    epsilons = list(dict.fromkeys(key[1] for key in found if key[0] == measure))
    lines = list(dict.fromkeys(key[2] for key in found if key[0] == measure))
    rows = {line: [str(found.get((measure, e, line), "")) for e in epsilons] for line in lines}
    for ending, meaning in REFERENCES.items():
        if (measure + ending, epsilons[0], lines[0]) in found:
            rows[meaning] = [str(found.get((measure + ending, e, lines[0]), "")) for e in epsilons]
    heading = "seconds" if measure == SECONDS else title(measure)
    return [
        f"**{heading}, {table}**",
        "",
        f"| epsilon | {' | '.join(f'{e:g}' for e in epsilons)} |",
        "|---" * (len(epsilons) + 1) + "|",
        *(f"| {line} | {' | '.join(cells)} |" for line, cells in rows.items()),
    ]
