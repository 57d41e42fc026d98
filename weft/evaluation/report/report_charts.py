"""Charts as inline SVG. Colours come from the page's style sheet by class, so that they can differ in print.

The reference is always an outline (blue), the synthetic table a fill (orange): they are also distinct in greyscale.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from weft.display import px, shorten_text, wrap_svg
from weft.evaluation.report.report_figures import Bar, Beside, PairGrid, Questions
from weft.evaluation.report.report_texts import format_share

WIDTH = 330
TOWERS = 2.5
"""A bar of missing, special or pooled values is cut if it exceeds the tallest value by more than this factor."""
_ROW = 17
_NAMES = 122


def column_chart(name: str, bars: Sequence[Bar], reference: str) -> tuple[str, int]:
    """Draw one attribute, as steps of bins or rows of values; return the chart and its height."""
    title = f"{name}: shares of rows in the {reference} (outline) and in the synthetic table (filled)"
    if any(bar.sort == "bin" for bar in bars):
        return _draw_steps(title, bars, reference), 168
    height = _ROW * len(bars) + 22
    return _draw_rows(title, bars, reference, height), height


def _draw_rows(title: str, bars: Sequence[Bar], reference: str, height: int) -> str:
    top = _choose_ceiling(bars)
    room = WIDTH - _NAMES - 8
    parts = [_grid_lines_across(top, room, height)]
    for i, bar in enumerate(bars):
        y = i * _ROW + 3
        a, b = (room * min(share / top, 1.0) for share in (bar.reference, bar.synth))
        cut = ""
        if _get_bar_height(bar) > top:
            told = f"{_format_tick(bar.reference)} and {_format_tick(bar.synth)}"
            cut = f'<text class="cut" x="{WIDTH - 14}" y="{y + 10}" text-anchor="end">{told} »</text>'
        soft = ' class="soft"' if bar.sort in ("missing", "special", "rest") else ""
        parts.append(
            f"<g><title>{_describe_bar(bar, reference)}</title>"
            f'<text x="{_NAMES - 6}" y="{y + 10}" text-anchor="end"{soft}>{clip_label(bar.label, 18)}</text>'
            f'<path class="s" d="M{_NAMES} {y + 1}h{px(b)}v10h-{px(b)}z"/>'
            f'<path class="r" d="M{_NAMES} {y + 1}h{px(a)}v10h-{px(a)}"/>'
            f"{cut or _whisker_across(bar, top, room, y)}</g>"
        )
    parts.append(f'<path class="axis" d="M{_NAMES} 0v{height - 18}"/>')
    return wrap_svg(WIDTH, height, title, "".join(parts))


def _grid_lines_across(top: float, room: float, height: int) -> str:
    parts = []
    for share in (top / 2, top):
        x = _NAMES + room * share / top
        anchor = "end" if share == top else "middle"
        parts.append(
            f'<path class="grid" d="M{px(x)} 0v{height - 18}"/>'
            f'<text class="tick" x="{px(x)}" y="{height - 6}" text-anchor="{anchor}">{_format_tick(share)}</text>'
        )
    return "".join(parts)


def _draw_steps(title: str, bars: Sequence[Bar], reference: str) -> str:
    left, base, tall = 36.0, 138.0, 126.0
    top = _choose_ceiling(bars)
    bins, apart = [b for b in bars if b.sort == "bin"], [b for b in bars if b.sort != "bin"]
    aside = min(26.0, 90.0 / max(len(apart), 1)) * len(apart) + (10 if apart else 0)
    wide = (WIDTH - left - 6 - aside) / len(bins)
    parts = [_grid_lines_up(top, left, base, tall)]

    def height(share: float) -> float:
        return base - tall * min(share / top, 1.0)

    outline = _draw_staircase(left, wide, [height(b.reference) for b in bins])
    filled = _draw_staircase(left, wide, [height(b.synth) for b in bins])
    end = left + wide * len(bins)
    parts.append(f'<path class="s" d="M{px(left)} {px(base)}{filled}V{px(base)}z"/>')
    parts.append(f'<path class="r" d="M{px(left)} {px(base)}{outline}V{px(base)}"/>')
    parts.append(_draw_whiskers(((left + (i + 0.5) * wide, bar) for i, bar in enumerate(bins)), base, tall / top))
    for i, bar in enumerate(bins):
        parts.append(_draw_hover_area(left + i * wide, wide, base, bar, reference))
    parts.append(_draw_ticks(bins, left, wide, base))
    x = end + 10
    for bar in apart:
        broad = (aside - 10) / len(apart)
        a, b = height(bar.reference), height(bar.synth)
        inner = broad - 5
        parts.append(
            f'<path class="s" d="M{px(x)} {px(base)}V{px(b)}h{px(inner)}V{px(base)}z"/>'
            f'<path class="r" d="M{px(x)} {px(base)}V{px(a)}h{px(inner)}V{px(base)}"/>'
            f"{_label_cut_bar(x + inner / 2, bar, top) or _draw_whiskers([(x + inner / 2, bar)], base, tall / top)}"
            f"{_draw_hover_area(x, inner, base, bar, reference)}"
            f'<text class="tick soft" transform="translate({px(x + inner / 2 + 3)} {px(base + 4)}) rotate(-38)" '
            f'text-anchor="end">{clip_label(bar.label, 9)}</text>'
        )
        x += broad
    parts.append(f'<path class="axis" d="M{px(left)} {px(base)}H{px(end)}"/>')
    return wrap_svg(WIDTH, 168, title, "".join(parts))


def _label_cut_bar(x: float, bar: Bar, top: float) -> str:
    if _get_bar_height(bar) <= top:
        return ""
    told = f"{_format_tick(bar.reference)} and {_format_tick(bar.synth)} »"
    return f'<text class="cut" transform="translate({px(x + 3.5)} 16) rotate(-90)" text-anchor="end">{told}</text>'


def _draw_whiskers(bars: Iterable[tuple[float, Bar]], base: float, scale: float) -> str:
    """Draw error bars of two standard deviations of the noise."""
    spans = [
        (x, base - scale * (bar.reference + 2 * bar.noise), base - scale * max(bar.reference - 2 * bar.noise, 0.0))
        for x, bar in bars
        if bar.noise
    ]
    path = "".join(f"M{px(x)} {px(max(high, 0.0))}V{px(low)}" for x, high, low in spans)
    return f'<path class="w" d="{path}"/>' if path else ""


def _whisker_across(bar: Bar, top: float, room: float, y: int) -> str:
    if not bar.noise:
        return ""
    low, high = (min(max(bar.reference + k * bar.noise, 0.0) / top, 1.0) * room + _NAMES for k in (-2, 2))
    return f'<path class="w" d="M{px(low)} {y + 6}H{px(high)}"/>'


def _draw_staircase(left: float, wide: float, heights: Sequence[float]) -> str:
    return "".join(f"V{px(y)}H{px(left + (i + 1) * wide)}" for i, y in enumerate(heights))


def _draw_hover_area(x: float, wide: float, base: float, bar: Bar, reference: str) -> str:
    box = f'x="{px(x)}" y="8" width="{px(wide)}" height="{px(base - 8)}"'
    return f'<rect class="h" {box}><title>{_describe_bar(bar, reference)}</title></rect>'


def _grid_lines_up(top: float, left: float, base: float, tall: float) -> str:
    parts = []
    for share in (top / 2, top):
        y = base - tall * share / top
        parts.append(
            f'<path class="grid" d="M{px(left)} {px(y)}H{WIDTH - 6}"/>'
            f'<text class="tick" x="{px(left - 4)}" y="{px(y + 3)}" text-anchor="end">{_format_tick(share)}</text>'
        )
    return "".join(parts)


def _draw_ticks(bins: Sequence[Bar], left: float, wide: float, base: float) -> str:
    longest = max(len(bar.short) for bar in bins)
    room = max(1, int(wide * len(bins) / (6.2 * longest + 12)))
    every = -(-len(bins) // room)
    parts = []
    for i in range(0, len(bins), every):
        x = left + i * wide
        middle = len(bins) <= room
        x += wide / 2 if middle else 0
        parts.append(
            f'<text class="tick" x="{px(x)}" y="{px(base + 13)}" text-anchor="{"middle" if middle else "start"}">'
            f"{escape(bins[i].short)}</text>"
        )
        if not middle:
            parts.append(f'<path class="axis" d="M{px(x)} {px(base)}v4"/>')
    return "".join(parts)


def clip_label(text: str, most: int) -> str:
    """Return the content of an SVG text element: a shortened label, with the full text as its tooltip."""
    whole = f"<title>{escape(text)}</title>" if len(text) > most else ""
    return whole + escape(shorten_text(text, most))


def draw_profile(labels: Sequence[str], shares: Sequence[Beside], title: str, reference: str, letters: int = 2) -> str:
    """Draw a bar chart of a few shares, with abbreviated labels and an outline for the reference, if known."""
    wide, base = min(24.0, 200.0 / max(len(labels), 1)), 46.0
    top = max((part or 0.0 for pair in shares for part in pair), default=0.0) or 1.0
    parts = []
    for i, (label, (a, b)) in enumerate(zip(labels, shares, strict=True)):
        x, inner = 2 + i * wide, wide - 4
        told = "" if a is None else f"{format_share(a)} in the {reference}, "
        under = (
            f'<text class="tick" x="{px(x + inner / 2)}" y="58" text-anchor="middle">{escape(label[:letters])}</text>'
        )
        drawn = f'<path class="s" d="{_draw_chart_bar(x, inner, base, b, top)}z"/>'
        drawn += "" if a is None else f'<path class="r" d="{_draw_chart_bar(x, inner, base, a, top)}"/>'
        parts.append(f"<g><title>{escape(label)}: {told}{format_share(b or 0.0)} synthetic</title>{drawn}{under}</g>")
    parts.append(f'<path class="axis" d="M0 {px(base)}H{px(wide * len(labels))}"/>')
    return wrap_svg(wide * len(labels) + 2, 61, title, "".join(parts))


def draw_deciles(values: Sequence[Beside], title: str) -> str:
    """Draw the deciles as steps; empty if all are equal."""
    known = [value for pair in values for value in pair if value is not None]
    low, high = min(known), max(known)
    if high <= low:
        return ""
    wide, base = 9.0, 30.0

    def steps(which: int) -> str:
        heights = [base - 26 * ((pair[which] or 0.0) - low) / (high - low) for pair in values]
        return f"M1 {px(base)}{_draw_staircase(1, wide, heights)}V{px(base)}"

    outline = "" if values[0][0] is None else f'<path class="r" d="{steps(0)}"/>'
    end = wide * len(values) + 2
    axis = f'<path class="axis" d="M0 {px(base)}H{px(end)}"/>'
    return wrap_svg(end, 32, title, f'<path class="s" d="{steps(1)}z"/>{outline}{axis}')


def _draw_chart_bar(x: float, wide: float, base: float, share: float | None, top: float) -> str:
    return f"M{px(x)} {px(base)}V{px(base - (base - 3) * (share or 0.0) / top)}h{px(wide)}V{px(base)}"


def draw_scatter(questions: Questions) -> str:
    """Draw every query as a dot: private answer by synthetic answer, on square-root scales."""
    left, side = 56.0, 300.0
    top = max(*questions.reference, *questions.synth, 0.01)

    def place(share: float) -> float:
        return side * math.sqrt(share / top)

    dots = "".join(
        f"M{px(left + place(a))} {px(side + 6 - place(b))}h0"
        for a, b in sorted(set(zip(questions.reference, questions.synth, strict=True)))
    )
    parts = [f'<path class="line" d="M{px(left)} {px(side + 6)}L{px(left + side)} 6"/>']
    for part in (0.04, 0.16, 0.36, 0.64, 1.0):
        share = part * top
        p = place(share)
        parts.append(
            f'<path class="grid" d="M{px(left)} {px(side + 6 - p)}h{px(side)}M{px(left + p)} 6v{px(side)}"/>'
            f'<text class="tick" x="{px(left - 5)}" y="{px(side + 9 - p)}" '
            f'text-anchor="end">{_format_tick(share)}</text>'
            f'<text class="tick" x="{px(left + p)}" y="{px(side + 20)}" '
            f'text-anchor="middle">{_format_tick(share)}</text>'
        )
    parts.append(f'<path class="axis" d="M{px(left)} 6v{px(side)}h{px(side)}"/><path class="dot" d="{dots}"/>')
    parts.append(
        f'<text class="caption" x="{px(left + side / 2)}" y="{px(side + 37)}" text-anchor="middle">'
        "share of rows in the private table</text>"
        f'<text class="caption" transform="translate(10 {px(side / 2 + 6)}) rotate(-90)" text-anchor="middle">'
        "in the synthetic table</text>"
    )
    title = f"{questions.count} range queries: answers of both tables; dots on the line agree"
    return wrap_svg(left + side + 18, side + 42, title, "".join(parts))


def draw_noise_band(noise: float, upper: float, observed: float, title: str) -> str:
    """Draw the expected noise as a hatched band, with a paler part for chance, and the observed distance as a mark.

    Lengths are multiples of the expected noise, so that all marginals are comparable.
    """
    unit, most = 80.0, 3.0
    times = min(observed / noise, most) if noise > 0 else most * (observed > 0)
    reach = min(upper / noise, most) if noise > 0 else 1.0
    x = 4 + unit * times
    return wrap_svg(
        unit * most + 10,
        16,
        title,
        f'<path class="axis" d="M4 14h{px(unit * most)}"/>'
        f'<rect class="chance" x="4" y="3" width="{px(unit * reach)}" height="10"/>'
        f'<rect class="noise" x="4" y="3" width="{px(unit)}" height="10"/>'
        f'<path class="mark" d="M{px(x)} 1v14"/><circle class="mark" cx="{px(x)}" cy="8" r="3.2"/>',
    )


def prediction_bar(synth: float, real: float, majority: float, title: str) -> str:
    """Draw the three accuracies of one prediction on a scale from 0 to 1."""
    wide = 240.0
    s, r, m = (wide * rate for rate in (synth, real, majority))
    return wrap_svg(
        wide + 10,
        18,
        title,
        f'<path class="s" d="M2 4h{px(s)}v10h-{px(s)}z"/><path class="r" d="M2 4h{px(r)}v10h-{px(r)}"/>'
        f'<path class="mark" stroke-dasharray="2 2" d="M{px(m + 2)} 0v18"/>',
    )


def _choose_ceiling(bars: Sequence[Bar]) -> float:
    """Return a round upper limit of the axis; bars of missing, special or pooled values may exceed it and are cut."""
    tallest = max((_get_bar_height(bar) for bar in bars), default=0.0)
    ordinary = max((_get_bar_height(bar) for bar in bars if bar.sort in ("value", "bin")), default=0.0)
    if 0 < ordinary < tallest / TOWERS:
        tallest = ordinary
    steps = [part * 10.0**-power for power in range(6, -1, -1) for part in (1, 1.5, 2, 3, 4, 5, 6, 8)]
    return next((step for step in steps if step >= tallest), 1.0) or 1.0


def _get_bar_height(bar: Bar) -> float:
    return max(bar.reference, bar.synth)


def _format_tick(share: float) -> str:
    return f"{100 * share:.3g}%"


def _describe_bar(bar: Bar, reference: str) -> str:
    return escape(f"{bar.label}: {format_share(bar.reference)} in the {reference}, {format_share(bar.synth)} synthetic")


LEVELS = 7
"""Number of shades of a heat map."""
DISTANCE_STEPS = (0.01, 0.02, 0.04, 0.08, 0.15, 0.30)
"""Thresholds between the shades of the pair map: total variation distance."""
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
    """Draw a triangular heat map of all pairs, darker for larger `values`; `links` are ids and tooltips of details."""
    d = len(names)
    cell = max(6.6, min(32.0, 820 / d))
    font = min(11.0, cell * 0.92)
    edge = min(150.0, 12 + font * 0.6 * max(len(shorten_text(name, 22)) for name in names))
    at = {place: sum(value >= step for step in steps) for place, value in values.items()}
    parts = []
    for level in range(LEVELS):
        path = "".join(
            f"M{px(edge + j * cell)} {px((i - 1) * cell)}h{px(cell * run)}v{px(cell)}h-{px(cell * run)}z"
            for i in range(1, d)
            for j, run in _find_level_runs([at.get((j, i), -1) for j in range(i)], level)
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
        text = clip_label(name, 22)
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
    return wrap_svg(edge + tall + 2, tall + edge + 4, title, "".join(parts), f"{attributes} {data}")


def draw_colour_key(steps: Sequence[float], kind: str, write: str) -> str:
    """Draw the colour key of a heat map, with the thresholds between the shades."""
    parts = []
    for level in range(LEVELS):
        parts.append(f'<rect class="{kind}{level}" x="{level * 44}" y="2" width="44" height="12"/>')
        if level:
            text = f"{100 * steps[level - 1]:g}%" if write == "%" else f"{steps[level - 1]:g}"
            parts.append(f'<text class="tick" x="{level * 44}" y="26" text-anchor="middle">{text}</text>')
    return wrap_svg(LEVELS * 44, 30, "colours from low (weak) to high (strong)", "".join(parts))


@dataclass(frozen=True)
class GridCell:
    """One cell of a heat map with its shares in both tables."""

    row: str
    across: str
    reference: float
    synth: float
    pooled: bool
    """Whether it contains many values, and is therefore ignored when shades are scaled."""

    @property
    def most(self) -> float:
        """The larger share."""
        return max(self.reference, self.synth)


def list_grid_cells(grid: PairGrid) -> list[GridCell]:
    """Return the cells of a heat map."""
    return [
        GridCell(row, across, a, b, i in grid.pooled[0] or j in grid.pooled[1])
        for i, (row, first, second) in enumerate(zip(grid.rows, grid.reference, grid.synth, strict=True))
        for j, (across, a, b) in enumerate(zip(grid.across, first, second, strict=True))
    ]


def twin_maps(grid: PairGrid, reference: str) -> str:
    """Draw the heat maps of an attribute pair in both tables, in the same shades."""
    cell, edge = 16.0, 128.0
    top = max((cell.most for cell in list_grid_cells(grid) if not cell.pooled), default=0.0) or 1.0
    wide, tall = cell * len(grid.across), cell * len(grid.rows)
    below = 10 + 5.4 * max(len(shorten_text(label, 16)) for label in grid.across)
    parts = [
        f'<text x="{px(edge - 5)}" y="{px(18 + (i + 0.7) * cell)}" text-anchor="end">{clip_label(label, 19)}</text>'
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
                for j, run in _find_level_runs(row, level)
            )
            if path and level:
                parts.append(f'<path class="b{level}" d="{path}"/>')
        parts.append(f'<path class="frame" d="M{px(left)} 18h{px(wide)}v{px(tall)}h-{px(wide)}z"/>')
        parts += [
            f'<text transform="translate({px(left + (j + 0.75) * cell)} {px(tall + 23)}) rotate(-90)" '
            f'text-anchor="end">{clip_label(label, 16)}</text>'
            for j, label in enumerate(grid.across)
        ]
    title = f"{grid.columns[0]} (down) by {grid.columns[1]} (across): shares of rows, a stronger colour is more"
    return wrap_svg(edge + 2 * wide + 40, tall + 20 + below, title, "".join(parts))


def _find_level_runs(levels: Sequence[int], level: int) -> Iterable[tuple[int, int]]:
    """Yield start and length of the runs of one level, so that adjacent cells form one rectangle."""
    start = 0
    for found, members in groupby(levels):
        length = sum(1 for _ in members)
        if found == level:
            yield start, length
        start += length
