"""One self-contained page from the figures of a report."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from weft.errors import WeftError
from weft.privacy import at_most
from weft.release.atomic import staged
from weft.report import charts, maps
from weft.report.cautions import few_cells
from weft.report.figures import (
    Beside,
    ColumnFigures,
    Grid,
    NumberFigures,
    PairFigures,
    PeopleFigures,
    Prediction,
    Report,
)
from weft.report.words import MONTHS, WEEKDAYS, moment, number, percent, rounded

BY = " \N{MULTIPLICATION SIGN} "
OPEN_PAIRS = 6
"""Pairs whose heat maps are open from the start, and so in print."""
SHOWN_MARGINALS = 25
"""Marginals in the table; the others are folded away."""
MOST_SIZES = 20
"""Numbers of rows that a person may have with a bar of their own."""
GRID_ROW = 10
"""Pixels of a row of the page's grid of charts, by which their heights are counted."""


def write(report: Report, page: Path) -> tuple[Path, Path]:
    """Write the page and its JSON twin beside it, both or neither; return their paths."""
    twin = page.with_suffix(".json")
    text = render(report)
    with staged(page, twin) as (html, values):
        html.write_text(text, encoding="utf-8")
        values.write_text(json.dumps(report.to_dict(), allow_nan=False) + "\n", encoding="utf-8")
    return page, twin


def render(report: Report) -> str:
    """Return the page as HTML, with everything that it needs inside."""
    private = report.edition == "private"
    names = [column.name for column in report.columns]
    place = {name: i for i, name in enumerate(names)}
    pairs = {pair.columns: pair for pair in report.pairs}
    bound = report.guarantee
    page: str = _template().render(
        report=report,
        private=private,
        percent=percent,
        spent=None if bound is None or bound.epsilon is None else at_most(bound.epsilon, 3),
        cards=[_card(column, report) for column in report.columns],
        place=place,
        opened={grid.columns: "pair-{}-{}".format(*_at(grid.columns, place)) for grid in report.grids},
        names=names,
        numbers=[_number(column, report.reference) for column in report.numbers if not column.dates],
        dates=[_date(column, report.reference) for column in report.numbers if column.dates],
        sizes=_sizes(report.people, report.reference),
        pair_map=_pair_map(report, place, list(range(len(names))), 'id="pair-map"'),
        sorted_map=_pair_map(report, place, _worst_first(report), 'id="pair-map-sorted"') if len(names) > 2 else "",
        pair_key=maps.key(*((maps.DISTANCE_STEPS, "o", "%") if private else (maps.ASSOCIATION_STEPS, "b", ""))),
        pair_data=_pair_data(report),
        details=[
            _detail(grid, pairs[grid.columns], report.reference, place, i < OPEN_PAIRS)
            for i, grid in enumerate(report.grids)
        ],
        scatter=None if report.questions is None else charts.scatter(report.questions),
        predictions=[_prediction(p) for p in report.predictions],
        marginals=_marginal_rows(report),
        lost=None if bound is None or bound.delta is None else at_most(bound.delta, 2),
        shown=SHOWN_MARGINALS,
        entries=_entries(report),
    )
    return page


@cache
def _template() -> Any:
    try:
        import jinja2
    except ImportError:
        raise WeftError("the report needs jinja2: pip install 'weft[report]'") from None
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("weft.report", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template("report.html.j2")


def _card(column: ColumnFigures, report: Report) -> dict[str, Any]:
    drawing, height = charts.column_chart(column.name, column.bars, report.reference)
    return {
        "name": column.name,
        "kind": column.kind,
        "codes": column.codes,
        "distance": percent(column.distance),
        "noise": None if column.noise is None else percent(column.noise),
        "chart": drawing,
        "span": -(-(height + 74) // GRID_ROW),
        "constant": column.constant,
    }


def _number(column: NumberFigures, reference: str) -> dict[str, Any]:
    figures = [column.mean, column.sd, *(column.quantile(level) for level in (0.5, 0.9, 0.99))]
    grain = "" if column.grain is None else rounded(column.grain)
    return {
        "name": column.name,
        "figures": [_written(figure, number) for figure in figures],
        "grain": grain,
        "round": _written(column.round_share, percent),
        "chart": charts.deciles(
            column.quantiles[:9], f"{column.name}: deciles in the {reference} (outline) and synthetic (filled)"
        ),
    }


def _date(column: NumberFigures, reference: str) -> dict[str, Any]:
    days = _written(column.sd, lambda seconds: f"{number(seconds / 86_400)} days")
    told = f"{column.name}: shares of rows by"
    return {
        "name": column.name,
        "figures": [
            _written(column.mean, moment),
            days,
            *(_written(column.quantile(level), moment) for level in (0.1, 0.5, 0.9)),
        ],
        "weekdays": charts.profile(WEEKDAYS, column.weekdays, f"{told} weekday", reference),
        "months": charts.profile(MONTHS, column.months, f"{told} month", reference, 1),
    }


def _written(figure: Beside, write: Callable[[float], str]) -> tuple[str | None, str]:
    before, after = figure
    return None if before is None else write(before), "" if after is None else write(after)


def _sizes(people: PeopleFigures | None, reference: str) -> str:
    """Draw how many rows people have; beyond `MOST_SIZES` in one bar."""
    if people is None:
        return ""
    before, after = None if people.real_sizes is None else _joined(people.real_sizes), _joined(people.sizes)
    labels = [str(rows) for rows in range(1, len(after) + 1)]
    if len(people.sizes) > MOST_SIZES:
        labels[-1] += " or more"
    unknown: list[float | None] = [None] * len(labels)
    shares: list[Beside] = list(zip(before or unknown, after, strict=True))
    return charts.profile(labels, shares, f"Shares of people by their number of rows, up to {people.most}", reference)


def _joined(sizes: tuple[float, ...]) -> list[float]:
    return [*sizes[: MOST_SIZES - 1], *([sum(sizes[MOST_SIZES - 1 :])] if len(sizes) >= MOST_SIZES else [])]


def _pair_map(report: Report, place: dict[str, int], order: list[int], attributes: str) -> str:
    """Draw the map of all pairs with its columns in some order, of which `attributes` tells the page's script."""
    if len(report.columns) < 2:
        return ""
    private = report.edition == "private"
    names = [column.name for column in report.columns]
    there = {names[column]: i for i, column in enumerate(order)}
    values = {
        _at(pair.columns, there): (pair.distance or 0.0) if private else pair.association_synth for pair in report.pairs
    }
    told = {pair.columns: _pair_told(pair, private) for pair in report.pairs}
    return maps.pair_map(
        [names[column] for column in order],
        values,
        maps.DISTANCE_STEPS if private else maps.ASSOCIATION_STEPS,
        {
            _at(grid.columns, there): ("pair-{}-{}".format(*_at(grid.columns, place)), told[grid.columns])
            for grid in report.grids
        },
        [] if private else [_at(pair.columns, there) for pair in report.pairs if pair.measured],
        "o" if private else "b",
        "All pairs of columns, darker where "
        + ("the two tables differ more" if private else "the synthetic columns hang together more"),
        f'{attributes} data-order="{" ".join(map(str, order))}"',
    )


def _worst_first(report: Report) -> list[int]:
    """Return the columns by what the map shows of their pairs, the largest mean first."""
    private = report.edition == "private"
    sums = dict.fromkeys((column.name for column in report.columns), 0.0)
    for pair in report.pairs:
        for name in pair.columns:
            sums[name] += (pair.distance or 0.0) if private else pair.association_synth
    names = list(sums)
    return sorted(range(len(names)), key=lambda i: -sums[names[i]])


def _at(columns: tuple[str, str], place: dict[str, int]) -> tuple[int, int]:
    a, b = sorted(place[name] for name in columns)
    return a, b


def _pair_told(pair: PairFigures, private: bool) -> str:
    names = f"{pair.columns[0]} and {pair.columns[1]}"
    if private:
        relation = f"relation {pair.association or 0:.2f} became {pair.association_synth:.2f}"
        return f"{names}: {percent(pair.distance or 0)} of the rows misplaced; {relation}"
    asked = "measured" if pair.measured else "not measured"
    return f"{names}: relation {pair.association_synth:.2f} in the synthetic table, {asked}"


def _pair_data(report: Report) -> str:
    """Figures of every pair for the pointer, two letters each: thousandths in base 36, row by row."""
    private = report.edition == "private"
    by_place: dict[frozenset[str], float] = {
        frozenset(pair.columns): (pair.distance or 0.0) if private else pair.association_synth for pair in report.pairs
    }
    names = [column.name for column in report.columns]
    return "".join(
        _base36(round(1000 * by_place[frozenset((names[j], name))])) for i, name in enumerate(names) for j in range(i)
    )


def _base36(number: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    return digits[number // 36] + digits[number % 36]


def _detail(grid: Grid, pair: PairFigures, reference: str, place: dict[str, int], opened: bool) -> dict[str, Any]:
    a, b = _at(grid.columns, place)
    moved = sorted((c for c in maps.cells(grid) if not c.pooled), key=lambda c: -abs(c.reference - c.synth))[:3]
    return {
        "id": f"pair-{a}-{b}",
        "names": grid.columns,
        "distance": None if pair.distance is None else percent(pair.distance),
        "before": pair.association,
        "after": pair.association_synth,
        "few": few_cells(pair) if pair.on_few else "",
        "measured": pair.measured,
        "chart": maps.twin_maps(grid, reference),
        "open": opened,
        "moves": [
            (BY.join((cell.row, cell.across)), percent(cell.reference), percent(cell.synth))
            for cell in moved
            if abs(cell.reference - cell.synth) > 5e-4
        ],
    }


def _prediction(prediction: Prediction) -> dict[str, Any]:
    rates = prediction.synth, prediction.real, prediction.majority
    told = f"{prediction.target}: right {rates[0]:.0%} trained on synthetic rows, {rates[1]:.0%} on real ones"
    return {
        "target": prediction.target,
        "rates": [f"{rate:.1%}" for rate in rates],
        "chart": charts.prediction_bar(*rates, told),
    }


def _marginal_rows(report: Report) -> list[dict[str, Any]]:
    """Rows of the table of marginals, the least explained first."""
    ordered = sorted(report.marginals, key=lambda m: m.upper - m.observed)
    return [
        {
            "columns": BY.join(m.columns) or "number of rows",
            "cells": f"{m.cells:,}",
            "sigma": f"{m.sigma:.3g}",
            "raw": f"{m.raw_noise:,.0f}",
            "noise": percent(m.noise),
            "observed": percent(m.observed),
            "explained": m.explained,
            "chart": charts.band(
                m.noise, m.upper, m.observed, f"noise explains {percent(m.noise)}, observed {percent(m.observed)}"
            ),
        }
        for m in ordered
    ]


def _entries(report: Report) -> list[dict[str, str]]:
    """Rows of the ledger's table."""
    if report.ledger is None:
        return []
    return [
        {
            "question": entry["question"],
            "noise": "none" if entry["norm"] == "none" else f"{entry['mechanism']} {_scales(entry['scale'])}",
            "draws": f"{entry['draws']:,}",
            "share": "unpriced"
            if entry["mechanism"] == "deniable"
            else f"{entry['cost'] / report.ledger['capacity']:.1%}",
        }
        for entry in report.ledger["entries"]
    ]


def _scales(scale: float | list[float]) -> str:
    scales = scale if isinstance(scale, list) else [scale]
    low, high = f"{min(scales):.4g}", f"{max(scales):.4g}"
    return low if low == high else f"{low} to {high}"
