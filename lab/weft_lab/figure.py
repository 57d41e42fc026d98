"""Results drawn as one SVG file a table: panels of lines over epsilon with error bars, or rows of dots."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from weft.display import px
from weft_lab.charts import PALETTE, Spread, axis_range, axis_ticks, chart_page, dash_style, draw_dots, draw_marker
from weft_lab.results import SECONDS, Key
from weft_lab.tasks import REFERENCES, title

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
        return chart_page(_panels(own, table, lines, epsilons), lines, heading)
    rows: dict[str, dict[str, Spread]] = {}
    for (_, measure, _, line), spread in own.items():
        rows.setdefault(title(measure), {})[line] = spread
    return draw_dots(rows, heading)


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
    low, high, step = axis_range(min(ends), max(ends))
    base = _CAPTION + _TALL

    def down(value: float) -> float:
        return base - _TALL * (value - low) / (high - low)

    def along(i: int) -> float:
        return _LEFT + 10 + (_WIDE - 20) * _place(epsilons, i)

    parts = [f'<text x="{px(_LEFT)}" y="12" font-weight="600">{escape(title(measure))}</text>']
    for tick in axis_ticks(low, high, step):
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
            f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.8"{dash_style(n)}/>'
            + (f'<path d="{bars}" stroke="{colour}" stroke-width="1.2"/>' if bars else "")
            + "".join(draw_marker(n, x, down(s.mean), f"epsilon {epsilons[i]:g}: {s}") for i, x, s in there)
        )
    parts.append(f'<path d="M{px(_LEFT)} {px(_CAPTION)}V{px(base)}h{px(_WIDE)}" fill="none" stroke="#444"/>')
    return "".join(parts)


def _nearest(spread: Spread, others: Sequence[Spread | None]) -> float:
    return min((abs(other.mean - spread.mean) for other in others if other), default=0.0)


def _place(epsilons: Sequence[float], i: int) -> float:
    low, high = epsilons[0], epsilons[-1]
    if low == high:
        return 0.5
    if high / low > _LOG_RATIO:
        return math.log(epsilons[i] / low) / math.log(high / low)
    return (epsilons[i] - low) / (high - low)
