"""One page in Markdown of all that the papers' experiments gave, beside what the papers say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from weft import __version__
from weft.display import format_count
from weft_lab.beside import WITHOUT, Judgement, judged, printed, shown_measures
from weft_lab.catalogue import EXPERIMENTS
from weft_lab.charts import Spread
from weft_lab.claims import papers
from weft_lab.results import SECONDS, summary
from weft_lab.runner import Outcome
from weft_lab.sheet import Sheet
from weft_lab.tasks import CONVENTIONS, REFERENCES, title
from weft_lab.verdicts import HOW, Tally

RUN = "Results of"
"""Begins the line that says when a section's runs were made."""
MOST_LISTED = 40
"""Cells of one experiment that are listed one by one where the paper is not borne out."""


KEPT = "*Not run again for this version of the page: figures are of an earlier one, by the code and presets of then.*"
"""Below the heading of a section that is kept from an earlier page."""

_TALLY = re.compile(r"^- (\d+) hold, (\d+) level, (\d+) disagrees?:", re.MULTILINE)
_ABLE = re.compile(rf"^- {WITHOUT} (\d+) hold, (\d+) level, (\d+) disagrees?:", re.MULTILINE)


def page(
    outcomes: Sequence[Outcome],
    figures: Mapping[str, Sequence[str]],
    command: str = "",
    before: str = "",
    dates: Mapping[str, str] | None = None,
) -> str:
    """Return the page; `figures` has the file names of each experiment's drawings, `command` is what made it.

    Sections of an earlier page (`before`) that are not run now are kept, and say so: the page can be made in steps.
    `dates` says when each experiment was run.
    """
    sections = _split_sections(before)
    for outcome in outcomes:
        name = outcome.experiment.name
        text = _experiment(outcome, judged(outcome), figures.get(name, ()), (dates or {}).get(name, ""))
        sections[name] = "\n".join(text).rstrip() + "\n"
    order = {name: i for i, name in enumerate(EXPERIMENTS)}
    names = sorted((name for name in sections if name in order), key=lambda name: order[name])
    text = ["# The papers' experiments, run again", "", *_head({name: sections[name] for name in names}, command)]
    return "\n".join([*text, *("\n" + sections[name] if i else sections[name] for i, name in enumerate(names))])


def _split_sections(text: str) -> dict[str, str]:
    """Return the sections of an earlier page by experiment, each marked as kept unless it says when it was run."""
    found = {}
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        name, _, body = part.partition("\n")
        marked = body if KEPT in body or f"\n{RUN} " in body else f"\n{KEPT}\n{body}"
        found[name.strip()] = f"## {name}\n{marked.rstrip()}\n"
    return found


def _head(sections: Mapping[str, str], command: str) -> list[str]:
    made = f"Made by `{command}`. " if command else ""
    rows, whole, able, earlier, kept = [], Tally(0, 0, 0), Tally(0, 0, 0), Tally(0, 0, 0), 0
    for name, text in sections.items():
        kept += KEPT in text
        if own := _TALLY.search(text):
            tally = Tally(*map(int, own.groups()))
            found = _ABLE.search(text)
            learning = tally if found is None else Tally(*map(int, found.groups()))
            if KEPT in text:
                earlier += tally
            else:
                whole, able = whole + tally, able + learning
            note = "earlier" if KEPT in text else "this version"
            rows.append(f"| [{name}](#{name}) | {tally.holds} | {tally.level} | {tally.disagrees} | {note} |")
    return [
        f"{made}Mean and standard deviation over runs, on public tables. Below each heading stands how many runs there "
        "were, at which budgets and on which tables; `weft bench NAME --data TABLE --epsilons E,F --seeds N` makes "
        "them again. Lines use `--preset paper`, whose remaining differences from the papers `weft methods NAME` "
        "lists, except those called guided or our defaults, and those of other methods beside DPSyn and PGM(Manual).",
        "",
        f"**What the papers say of their orderings: {whole}** {WITHOUT} {able} {HOW}",
        *(
            [
                "",
                f"Not run again: {format_count(kept, 'section')} of an earlier version of this page, not counted here. "
                f"There, {earlier} These counts include cells of single runs and lines that did not learn.",
            ]
            if kept
            else []
        ),
        "",
        "| experiment | hold | level | disagree | figures of |",
        "|---|---|---|---|---|",
        *rows,
        "",
    ]


def _experiment(outcome: Outcome, judgement: Judgement | None, drawn: Sequence[str], date: str) -> list[str]:
    made = outcome.experiment
    text = [f"## {made.name}", "", f"{made.paper}: {made.about}.", "", _extent(outcome), ""]
    text += [f"{RUN} {date} with Weft {__version__}.", ""] if date else []
    if told := dict.fromkeys(CONVENTIONS[task] for task in made.tasks if task in CONVENTIONS):
        text += [" ".join(told), ""]
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
    coded = (
        " Adult is coded as by PrivMRF's authors." if any(row.table.startswith("adult") for row in outcome.rows) else ""
    )
    return f"Run on {'; '.join(told)}.{coded}{theirs}"


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
