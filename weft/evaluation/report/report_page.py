"""Render the figures of a report as one self-contained HTML page."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from weft.display import format_scales, load_template
from weft.evaluation.report import report_charts as charts
from weft.evaluation.report.cautions import few_cells
from weft.evaluation.report.report_figures import Beside, NumberFigures, PairFigures, PairGrid, PeopleFigures, Report
from weft.evaluation.report.report_texts import (
    MONTHS,
    WEEKDAYS,
    format_day,
    format_figure,
    format_share,
    name_round_numbers,
)
from weft.io.atomic_files import stage_files
from weft.privacy import at_most
from weft.privacy.mechanisms import find_mechanism
from weft.synthesis.verdicts import GRADES, summarise_grades

BY = " \N{MULTIPLICATION SIGN} "
OPEN_PAIRS = 6
"""Number of pairs whose heat maps are initially open, and therefore printed."""
SHOWN_MARGINALS = 25
"""Number of marginals in the first table; the others are collapsed."""
MAX_SIZES = 20
"""Maximum number of bars in the chart of rows per person."""
GRID_ROW = 10
"""Height of a row of the page's chart grid in pixels."""


def write(report: Report, page: Path) -> tuple[Path, Path]:
    """Write the HTML page and the JSON file next to it, both or neither; return their paths."""
    twin = page.with_suffix(".json")
    text = render(report)
    with stage_files(page, twin) as (html, values):
        html.write_text(text, encoding="utf-8")
        values.write_text(json.dumps(report.to_dict(), allow_nan=False) + "\n", encoding="utf-8")
    return page, twin


def render(report: Report) -> str:
    """Return the page as self-contained HTML."""
    private = report.edition == "private"
    names = [column.name for column in report.columns]
    place = {name: i for i, name in enumerate(names)}
    pairs = {pair.columns: pair for pair in report.pairs}
    bound = report.guarantee
    page: str = load_template("weft.evaluation.report", "report.html.j2", "report").render(
        report=report,
        private=private,
        percent=format_share,
        spent=None if bound is None or bound.epsilon is None else at_most(bound.epsilon, 3),
        overall=summarise_grades([v.grade for v in report.verdicts]),
        grades=[(grade, [v for v in report.verdicts if v.grade == grade]) for grade in reversed(GRADES)],
        charts=charts,
        grid_row=GRID_ROW,
        place=place,
        opened={grid.columns: "pair-{}-{}".format(*_find_pair_place(grid.columns, place)) for grid in report.grids},
        names=names,
        numbers=[_make_number_section(column, report.reference) for column in report.numbers if not column.dates],
        dates=[_make_date_section(column, report.reference) for column in report.numbers if column.dates],
        sizes=_draw_sizes(report.people, report.reference),
        pair_map=_pair_map(report, place, list(range(len(names))), 'id="pair-map"'),
        sorted_map=_pair_map(report, place, _worst_first(report), 'id="pair-map-sorted"') if len(names) > 2 else "",
        pair_key=charts.draw_colour_key(
            *((charts.DISTANCE_STEPS, "o", "%") if private else (charts.ASSOCIATION_STEPS, "b", ""))
        ),
        pair_data=_pair_data(report),
        pair_grades=_pair_grades(report),
        details=[
            _make_pair_section(grid, pairs[grid.columns], report.reference, place, i < OPEN_PAIRS)
            for i, grid in enumerate(report.grids)
        ],
        scatter=None if report.questions is None else charts.draw_scatter(report.questions),
        marginals=sorted(report.marginals, key=lambda m: m.upper - m.observed),  # the least explained first
        lost=None if bound is None or bound.delta is None else at_most(bound.delta, 2),
        shown=SHOWN_MARGINALS,
        find_mechanism=find_mechanism,
        format_scales=format_scales,
    )
    return page


def _make_number_section(column: NumberFigures, reference: str) -> dict[str, Any]:
    figures = [column.mean, column.sd, *(column.quantile(level) for level in (0.5, 0.9, 0.99))]
    grain = "" if column.grain is None else name_round_numbers(column.grain)
    return {
        "name": column.name,
        "figures": [_format_pair(figure, format_figure) for figure in figures],
        "grain": grain,
        "round": _format_pair(column.round_share, format_share),
        "chart": charts.draw_deciles(
            column.quantiles[:9], f"{column.name}: deciles in the {reference} (outline) and synthetic (filled)"
        ),
    }


def _make_date_section(column: NumberFigures, reference: str) -> dict[str, Any]:
    days = _format_pair(column.sd, lambda seconds: f"{format_figure(seconds / 86_400)} days")
    told = f"{column.name}: shares of rows by"
    return {
        "name": column.name,
        "figures": [
            _format_pair(column.mean, format_day),
            days,
            *(_format_pair(column.quantile(level), format_day) for level in (0.1, 0.5, 0.9)),
        ],
        "weekdays": charts.draw_profile(WEEKDAYS, column.weekdays, f"{told} weekday", reference),
        "months": charts.draw_profile(MONTHS, column.months, f"{told} month", reference, 1),
    }


def _format_pair(figure: Beside, write: Callable[[float], str]) -> tuple[str | None, str]:
    before, after = figure
    return None if before is None else write(before), "" if after is None else write(after)


def _draw_sizes(people: PeopleFigures | None, reference: str) -> str:
    """Draw the shares of people by number of rows, with large numbers pooled."""
    if people is None:
        return ""
    before, after = (
        None if people.real_sizes is None else _pool_large_sizes(people.real_sizes),
        _pool_large_sizes(people.sizes),
    )
    labels = [str(rows) for rows in range(1, len(after) + 1)]
    if len(people.sizes) > MAX_SIZES:
        labels[-1] += " or more"
    unknown: list[float | None] = [None] * len(labels)
    shares: list[Beside] = list(zip(before or unknown, after, strict=True))
    return charts.draw_profile(
        labels, shares, f"Shares of people by their number of rows, up to {people.most}", reference
    )


def _pool_large_sizes(sizes: tuple[float, ...]) -> list[float]:
    return [*sizes[: MAX_SIZES - 1], *([sum(sizes[MAX_SIZES - 1 :])] if len(sizes) >= MAX_SIZES else [])]


def _pair_map(report: Report, place: dict[str, int], order: list[int], attributes: str) -> str:
    """Draw the map of all pairs in some order; `attributes` are SVG attributes for the page's script."""
    if len(report.columns) < 2:
        return ""
    private = report.edition == "private"
    names = [column.name for column in report.columns]
    there = {names[column]: i for i, column in enumerate(order)}
    values = {
        _find_pair_place(pair.columns, there): (pair.distance or 0.0) if private else pair.association_synth
        for pair in report.pairs
    }
    told = {pair.columns: _pair_told(pair, private) for pair in report.pairs}
    return charts.pair_map(
        [names[column] for column in order],
        values,
        charts.DISTANCE_STEPS if private else charts.ASSOCIATION_STEPS,
        {
            _find_pair_place(grid.columns, there): (
                "pair-{}-{}".format(*_find_pair_place(grid.columns, place)),
                told[grid.columns],
            )
            for grid in report.grids
        },
        [] if private else [_find_pair_place(pair.columns, there) for pair in report.pairs if pair.measured],
        "o" if private else "b",
        "All attribute pairs, in a stronger colour where "
        + ("the two tables differ more" if private else "the synthetic attributes are more strongly related"),
        f'{attributes} data-order="{" ".join(map(str, order))}"',
    )


def _worst_first(report: Report) -> list[int]:
    """Return the attribute indices, sorted by the mean value of their pairs in the map, largest first."""
    private = report.edition == "private"
    sums = dict.fromkeys((column.name for column in report.columns), 0.0)
    for pair in report.pairs:
        for name in pair.columns:
            sums[name] += (pair.distance or 0.0) if private else pair.association_synth
    names = list(sums)
    return sorted(range(len(names)), key=lambda i: -sums[names[i]])


def _find_pair_place(columns: tuple[str, str], place: dict[str, int]) -> tuple[int, int]:
    a, b = sorted(place[name] for name in columns)
    return a, b


def _pair_told(pair: PairFigures, private: bool) -> str:
    names = f"{pair.columns[0]} and {pair.columns[1]}"
    if private:
        relation = f"relation {pair.association or 0:.2f} changed to {pair.association_synth:.2f}"
        return f"{names}: {format_share(pair.distance or 0)} of the rows misplaced; {relation}"
    asked = "measured" if pair.measured else "not measured"
    return f"{names}: relation {pair.association_synth:.2f} in the synthetic table, {asked}"


def _pair_data(report: Report) -> str:
    """Encode the figures of every pair for tooltips: thousandths as two base-36 digits, row by row."""
    private = report.edition == "private"
    by_place: dict[frozenset[str], float] = {
        frozenset(pair.columns): (pair.distance or 0.0) if private else pair.association_synth for pair in report.pairs
    }
    names = [column.name for column in report.columns]
    return "".join(
        np.base_repr(round(1000 * by_place[frozenset((names[j], name))]), 36).lower().zfill(2)
        for i, name in enumerate(names)
        for j in range(i)
    )


def _pair_grades(report: Report) -> str:
    """Encode the verdict of every pair as one digit, in the order of `_pair_data`."""
    graded = {frozenset(pair.columns): GRADES.index(pair.grade) for pair in report.pairs}
    names = [column.name for column in report.columns]
    return "".join(str(graded[frozenset((names[j], name))]) for i, name in enumerate(names) for j in range(i))


def _make_pair_section(
    grid: PairGrid, pair: PairFigures, reference: str, place: dict[str, int], opened: bool
) -> dict[str, Any]:
    a, b = _find_pair_place(grid.columns, place)
    moved = sorted(
        (c for c in charts.list_grid_cells(grid) if not c.pooled), key=lambda c: -abs(c.reference - c.synth)
    )[:3]
    return {
        "id": f"pair-{a}-{b}",
        "names": grid.columns,
        "distance": None if pair.distance is None else format_share(pair.distance),
        "before": pair.association,
        "after": pair.association_synth,
        "few": few_cells(pair) if pair.on_few else "",
        "measured": pair.measured,
        "grade": pair.grade,
        "reason": pair.reason,
        "chart": charts.twin_maps(grid, reference),
        "open": opened,
        "moves": [
            (BY.join((cell.row, cell.across)), format_share(cell.reference), format_share(cell.synth))
            for cell in moved
            if abs(cell.reference - cell.synth) > 5e-4
        ],
    }
