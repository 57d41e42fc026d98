"""Results drawn as one SVG file a table: panels of lines over epsilon with error bars, or rows of dots.

Lines differ in colour (Okabe and Ito's palette, safe for colour-blind readers, then three more), in marker and in
dash, so that they stay apart in grey. Bars show one standard deviation between runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from weft.bench.results import SECONDS, Key, Spread
from weft.bench.tasks import REFERENCES, title
from weft.svg import px, svg

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#999999", "#882255", "#6A3D9A")
DASHES = ("", "6 3", "2 3", "8 3 2 3", "", "6 3", "2 3", "8 3 2 3", "", "6 3")
_MARKERS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M-3.6-3.6h7.2v7.2h-7.2z",
    "M0-4.8L4.6 3.6H-4.6z",
    "M0-5L5 0L0 5L-5 0z",
)
_LOG_RATIO = 16
"""Budgets that span more than this factor are spaced by their logarithm."""
_MOST_PANELS = 4
"""With a single budget and more figures than this, they are rows of dots on one axis."""

_WIDE, _TALL, _LEFT, _GAP, _BELOW, _CAPTION = 240.0, 160.0, 52.0, 26.0, 44.0, 22.0


def figure(spreads: Mapping[Key, Spread], table: str, heading: str) -> str:
    """Draw what was measured on one table; `heading` stands above it."""
    own = {key: spread for key, spread in spreads.items() if key[0] == table and key[1] != SECONDS}
    lines = list(dict.fromkeys(key[3] for key in own))
    epsilons = sorted({key[2] for key in own})
    if len(epsilons) > 1 or len(_measures(own)) <= _MOST_PANELS:
        return _page(_panels(own, table, lines, epsilons), lines, heading)
    rows: dict[str, dict[str, Spread]] = {}
    for (_, measure, _, line), spread in own.items():
        rows.setdefault(title(measure), {})[line] = spread
    return dots(rows, heading)


def dots(rows: Mapping[str, Mapping[str, Spread]], heading: str) -> str:
    """Draw rows of dots on one axis: of each named row, a dot for each line that has a figure there."""
    lines = list(dict.fromkeys(line for row in rows.values() for line in row))
    return _page(_dots(rows, lines), lines, heading)


def _page(drawn: tuple[str, float, float], lines: Sequence[str], heading: str) -> str:
    body, width, height = drawn
    legend, taken = _legend(lines, width)
    top = 30 + taken
    return (
        svg(
            width,
            height + top,
            heading,
            f'<rect width="100%" height="100%" fill="#fff"/>'
            f'<text x="8" y="18" font-size="13" font-weight="600">{escape(heading)}</text>'
            f'{legend}<g transform="translate(0 {px(top)})">{body}</g>',
            'xmlns="http://www.w3.org/2000/svg" font-family="system-ui, Helvetica, Arial, sans-serif" font-size="11" '
            'fill="#222"',
            fixed=False,
        )
        + "\n"
    )


def _measures(own: Mapping[Key, Spread]) -> list[str]:
    """Return the measured figures without those that serve as reference lines."""
    return [m for m in dict.fromkeys(key[1] for key in own) if not m.endswith(tuple(REFERENCES))]


def _panels(
    own: Mapping[Key, Spread], table: str, lines: Sequence[str], epsilons: Sequence[float]
) -> tuple[str, float, float]:
    measures = _measures(own)
    parts = []
    for i, measure in enumerate(measures):
        x = i * (_LEFT + _WIDE + _GAP)
        series = {line: [own.get((table, measure, e, line)) for e in epsilons] for line in lines}
        references = {
            meaning: Spread.of([own[key].mean for key in own if key[1] == measure + ending])
            for ending, meaning in REFERENCES.items()
            if any(key[1] == measure + ending for key in own)
        }
        parts.append(f'<g transform="translate({px(x)} 0)">{_panel(measure, series, references, epsilons)}</g>')
    return "".join(parts), len(measures) * (_LEFT + _WIDE + _GAP), _CAPTION + _TALL + _BELOW


def _panel(
    measure: str,
    series: Mapping[str, Sequence[Spread | None]],
    references: Mapping[str, Spread],
    epsilons: Sequence[float],
) -> str:
    drawn = [spread for points in series.values() for spread in points if spread]
    ends = [e for s in drawn for e in (s.mean - s.sd, s.mean + s.sd)] + [s.mean for s in references.values()]
    low, high, step = _range(min(ends), max(ends))
    base = _CAPTION + _TALL

    def down(value: float) -> float:
        return base - _TALL * (value - low) / (high - low)

    def along(i: int) -> float:
        return _LEFT + 10 + (_WIDE - 20) * _place(epsilons, i)

    parts = [f'<text x="{px(_LEFT)}" y="12" font-weight="600">{escape(title(measure))}</text>']
    for tick in _ticks(low, high, step):
        parts.append(
            f'<path d="M{px(_LEFT)} {px(down(tick))}h{px(_WIDE)}" stroke="#ddd"/>'
            f'<text x="{px(_LEFT - 6)}" y="{px(down(tick) + 4)}" text-anchor="end">{tick:.6g}</text>'
        )
    for i, epsilon in enumerate(epsilons):
        parts.append(f'<text x="{px(along(i))}" y="{px(base + 16)}" text-anchor="middle">{epsilon:g}</text>')
    parts.append(f'<text x="{px(_LEFT + _WIDE / 2)}" y="{px(base + 33)}" text-anchor="middle">epsilon</text>')
    for meaning, spread in references.items():
        y = down(spread.mean)
        # The name stands at the end where fewer lines come near.
        first, last = (_nearest(spread, [points[end] for points in series.values()]) for end in (0, -1))
        place = f'x="{px(_LEFT + 4)}"' if first > last else f'x="{px(_LEFT + _WIDE)}" text-anchor="end"'
        parts.append(
            f'<path d="M{px(_LEFT)} {px(y)}h{px(_WIDE)}" stroke="#666" stroke-dasharray="1 3"/>'
            f'<text {place} y="{px(y - 4)}" fill="#555" font-size="10" paint-order="stroke" stroke="#fff" '
            f'stroke-width="3">{escape(meaning)}</text>'
        )
    for n, points in enumerate(series.values()):
        there = [(i, along(i), spread) for i, spread in enumerate(points) if spread]
        path = "L".join(f"{px(x)} {px(down(s.mean))}" for _, x, s in there)
        bars = "".join(f"M{px(x)} {px(down(s.mean - s.sd))}V{px(down(s.mean + s.sd))}" for _, x, s in there if s.sd)
        colour = PALETTE[n % len(PALETTE)]
        parts.append(
            f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.8"{_dash(n)}/>'
            + (f'<path d="{bars}" stroke="{colour}" stroke-width="1.2"/>' if bars else "")
            + "".join(_marker(n, x, down(s.mean), f"epsilon {epsilons[i]:g}: {s}") for i, x, s in there)
        )
    parts.append(f'<path d="M{px(_LEFT)} {px(_CAPTION)}V{px(base)}h{px(_WIDE)}" fill="none" stroke="#444"/>')
    return "".join(parts)


def _nearest(spread: Spread, others: Sequence[Spread | None]) -> float:
    return min((abs(other.mean - spread.mean) for other in others if other), default=0.0)


def _dots(rows: Mapping[str, Mapping[str, Spread]], lines: Sequence[str]) -> tuple[str, float, float]:
    left, row, wide = 18 + 6.0 * max(len(name) for name in rows), 26.0, 420.0
    ends = [e for spreads in rows.values() for s in spreads.values() for e in (s.mean - s.sd, s.mean + s.sd)]
    low, high, step = _range(min(ends), max(ends))
    tall = row * len(rows)

    def along(value: float) -> float:
        return left + wide * (value - low) / (high - low)

    parts = []
    for tick in _ticks(low, high, step):
        parts.append(
            f'<path d="M{px(along(tick))} 4v{px(tall)}" stroke="#ddd"/>'
            f'<text x="{px(along(tick))}" y="{px(tall + 20)}" text-anchor="middle">{tick:.6g}</text>'
        )
    for i, (name, spreads) in enumerate(rows.items()):
        middle = 4 + row * (i + 0.5)
        parts.append(f'<text x="{px(left - 8)}" y="{px(middle + 4)}" text-anchor="end">{escape(name)}</text>')
        for n, line in enumerate(lines):
            spread = spreads.get(line)
            if spread:
                # Lines lie a little apart, so that none hides another.
                y = middle + (n - (len(lines) - 1) / 2) * min(4.0, 18 / len(lines))
                parts.append(
                    f'<path d="M{px(along(spread.mean - spread.sd))} {px(y)}H{px(along(spread.mean + spread.sd))}" '
                    f'stroke="{PALETTE[n % len(PALETTE)]}"/>{_marker(n, along(spread.mean), y, f"{line}: {spread}")}'
                )
    parts.append(f'<path d="M{px(left)} 4v{px(tall)}h{px(wide)}" fill="none" stroke="#444"/>')
    return "".join(parts), left + wide + 24, tall + 30


def _legend(lines: Sequence[str], width: float) -> tuple[str, float]:
    """Return the legend, and how tall it is: entries go on in a new row where one is full."""
    parts, x, y = [], 8.0, 36.0
    for n, line in enumerate(lines):
        room = 46 + 6.2 * len(line)
        if x > 8 and x + room > width:
            x, y = 8.0, y + 18
        parts.append(
            f'<path d="M{px(x)} {px(y)}h26" stroke="{PALETTE[n % len(PALETTE)]}" stroke-width="1.8"{_dash(n)}/>'
            f'{_marker(n, x + 13, y, line)}<text x="{px(x + 32)}" y="{px(y + 4)}">{escape(line)}</text>'
        )
        x += room
    return "".join(parts), y - 18


def _marker(n: int, x: float, y: float, told: str) -> str:
    shape = _MARKERS[n % len(_MARKERS)]
    return (
        f'<path d="{shape}" transform="translate({px(x)} {px(y)})" fill="{PALETTE[n % len(PALETTE)]}" stroke="#fff">'
        f"<title>{escape(told)}</title></path>"
    )


def _dash(n: int) -> str:
    dash = DASHES[n % len(DASHES)]
    return f' stroke-dasharray="{dash}"' if dash else ""


def _place(epsilons: Sequence[float], i: int) -> float:
    low, high = epsilons[0], epsilons[-1]
    if low == high:
        return 0.5
    if high / low > _LOG_RATIO:
        return math.log(epsilons[i] / low) / math.log(high / low)
    return (epsilons[i] - low) / (high - low)


def _range(low: float, high: float) -> tuple[float, float, float]:
    """Return round ends of an axis and the step of its ticks; it starts at 0 where that wastes little room."""
    if 0 <= low < 0.5 * high:
        low = 0.0
    extent = (high - low) or abs(high) or 1.0
    magnitude = 10.0 ** math.floor(math.log10(extent / 4))
    step = next(m * magnitude for m in (1, 2, 2.5, 5, 10) if extent / (m * magnitude) <= 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return first * step, max(last, first + 1) * step, step


def _ticks(low: float, high: float, step: float) -> list[float]:
    return [low + i * step for i in range(round((high - low) / step) + 1)]
