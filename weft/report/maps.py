"""Heat maps as inline SVG: all pairs of columns, and one pair in both tables.

Cells of one shade are one path, and neighbours in a row one rectangle of it: 150 columns have 11,175 pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from weft.report.charts import clipped
from weft.report.figures import Grid
from weft.svg import px, short, svg

LEVELS = 7
"""Shades of a heat map."""
DISTANCE_STEPS = (0.01, 0.02, 0.04, 0.08, 0.15, 0.30)
"""Where the shades of the pair map change: total variation."""
ASSOCIATION_STEPS = (0.05, 0.10, 0.20, 0.30, 0.50, 0.70)
"""The same for Cramer's V."""


def pair_map(
    names: Sequence[str],
    values: dict[tuple[int, int], float],
    steps: Sequence[float],
    links: dict[tuple[int, int], tuple[str, str]],
    marked: Iterable[tuple[int, int]],
    kind: str,
    title: str,
    attributes: str = "",
) -> str:
    """Draw a triangle of all pairs, darker where `values` are larger; pairs with a detail link to it, by its id."""
    d = len(names)
    cell = max(6.6, min(32.0, 820 / d))
    font = min(11.0, cell * 0.92)
    edge = min(150.0, 12 + font * 0.6 * max(len(short(name, 22)) for name in names))
    at = {place: _level(value, steps) for place, value in values.items()}
    parts = []
    for level in range(LEVELS):
        path = "".join(
            f"M{px(edge + j * cell)} {px((i - 1) * cell)}h{px(cell * run)}v{px(cell)}h-{px(cell * run)}z"
            for i in range(1, d)
            for j, run in _runs([at.get((j, i), -1) for j in range(i)], level)
        )
        if path:
            parts.append(f'<path class="{kind}{level}" d="{path}"/>')
    tall = (d - 1) * cell
    lines = "".join(f"M{px(edge)} {px(i * cell)}h{px(min(i + 1, d - 1) * cell)}" for i in range(d - 1))
    lines += "".join(f"M{px(edge + j * cell)} {px(max(j - 1, 0) * cell)}V{px(tall)}" for j in range(d))
    parts.append(f'<path class="mesh" d="{lines}"/>')
    dots = "".join(f"M{px(edge + (a + 0.5) * cell)} {px((b - 0.5) * cell)}h0" for a, b in marked)
    if dots:
        parts.append(f'<path class="dots" stroke-width="{px(cell / 4)}" d="{dots}"/>')
    for i, name in enumerate(names):
        text = clipped(name, 22)
        end = f'text-anchor="end" font-size="{px(font)}">{text}</text>'
        if i > 0:
            parts.append(f'<text x="{px(edge - 4)}" y="{px((i - 0.5) * cell + font * 0.35)}" {end}')
        if i < d - 1:
            where = f"translate({px(edge + (i + 0.5) * cell + font * 0.35)} {px(tall + 4)}) rotate(-90)"
            parts.append(f'<text transform="{where}" {end}')
    for (a, b), (home, text) in links.items():
        box = f'x="{px(edge + a * cell)}" y="{px((b - 1) * cell)}" width="{px(cell)}" height="{px(cell)}"'
        parts.append(f'<a href="#{home}"><rect class="h" {box}><title>{escape(text)}</title></rect></a>')
    data = f'data-cell="{px(cell)}" data-edge="{px(edge)}"'
    return svg(edge + tall + 2, tall + edge + 4, title, "".join(parts), f"{attributes} {data}")


def key(steps: Sequence[float], kind: str, write: str) -> str:
    """Draw the shades of a heat map with the figures between them."""
    parts = []
    for level in range(LEVELS):
        parts.append(f'<rect class="{kind}{level}" x="{level * 44}" y="2" width="44" height="12"/>')
        if level:
            text = f"{100 * steps[level - 1]:g}%" if write == "%" else f"{steps[level - 1]:g}"
            parts.append(f'<text class="tick" x="{level * 44}" y="26" text-anchor="middle">{text}</text>')
    return svg(LEVELS * 44, 30, "shades from low (light) to high (dark)", "".join(parts))


@dataclass(frozen=True)
class Cell:
    """One cell of a grid with its shares in both tables."""

    row: str
    across: str
    reference: float
    synth: float
    pooled: bool
    """Whether it stands for many values, and would outshine the others."""

    @property
    def most(self) -> float:
        """The larger share."""
        return max(self.reference, self.synth)


def cells(grid: Grid) -> list[Cell]:
    """List the cells of a grid."""
    return [
        Cell(row, across, a, b, i in grid.pooled[0] or j in grid.pooled[1])
        for i, (row, first, second) in enumerate(zip(grid.rows, grid.reference, grid.synth, strict=True))
        for j, (across, a, b) in enumerate(zip(grid.across, first, second, strict=True))
    ]


def twin_maps(grid: Grid, reference: str) -> str:
    """Draw the shares of two columns' values in both tables, side by side, in the same shades."""
    cell, edge = 16.0, 128.0
    top = max((cell.most for cell in cells(grid) if not cell.pooled), default=0.0) or 1.0
    wide, tall = cell * len(grid.across), cell * len(grid.rows)
    below = 10 + 5.4 * max(len(short(label, 16)) for label in grid.across)
    parts = [
        f'<text x="{px(edge - 5)}" y="{px(18 + (i + 0.7) * cell)}" text-anchor="end">{clipped(label, 19)}</text>'
        for i, label in enumerate(grid.rows)
    ]
    for n, (caption, table) in enumerate((("in the " + reference, grid.reference), ("synthetic", grid.synth))):
        left = edge + n * (wide + 34)
        parts.append(f'<text class="caption" x="{px(left)}" y="11">{escape(caption)}</text>')
        levels = [[min(LEVELS - 1, int(LEVELS * math.sqrt(share / top))) for share in row] for row in table]
        for level in range(LEVELS):
            path = "".join(
                f"M{px(left + j * cell)} {px(18 + i * cell)}h{px(cell * run)}v{px(cell)}h-{px(cell * run)}z"
                for i, row in enumerate(levels)
                for j, run in _runs(row, level)
            )
            if path and level:
                parts.append(f'<path class="b{level}" d="{path}"/>')
        parts.append(f'<path class="frame" d="M{px(left)} 18h{px(wide)}v{px(tall)}h-{px(wide)}z"/>')
        parts += [
            f'<text transform="translate({px(left + (j + 0.75) * cell)} {px(tall + 23)}) rotate(-90)" '
            f'text-anchor="end">{clipped(label, 16)}</text>'
            for j, label in enumerate(grid.across)
        ]
    title = f"{grid.columns[0]} (down) by {grid.columns[1]} (across): shares of rows, darker is more"
    return svg(edge + 2 * wide + 40, tall + 20 + below, title, "".join(parts))


def _runs(levels: Sequence[int], level: int) -> Iterable[tuple[int, int]]:
    """Start and length of the runs of one level: neighbours of one shade become one rectangle."""
    start = 0
    for found, members in groupby(levels):
        length = sum(1 for _ in members)
        if found == level:
            yield start, length
        start += length


def _level(value: float, steps: Sequence[float]) -> int:
    return sum(value >= step for step in steps)
