"""SVG charts of experiments: means and deviations over runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from statistics import mean, stdev

from weft.display import px, wrap_svg

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#999999", "#882255", "#6A3D9A")
DASHES = ("", "6 3", "2 3", "8 3 2 3", "", "6 3", "2 3", "8 3 2 3", "", "6 3")
_MARKERS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M-3.6-3.6h7.2v7.2h-7.2z",
    "M0-4.8L4.6 3.6H-4.6z",
    "M0-5L5 0L0 5L-5 0z",
)


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation of a figure over several runs."""

    mean: float
    sd: float
    """Standard deviation between runs; 0 for a single run."""
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Summarise the values of at least one run."""
        return cls(mean(values), stdev(values) if len(values) > 1 else 0.0, len(values))

    def __str__(self) -> str:
        return f"{self.mean:.4g}" + (f" ±{self.sd:.2g}" if self.runs > 1 else "")


def draw_dots(rows: Mapping[str, Mapping[str, Spread]], heading: str) -> str:
    """Draw a dot chart: for each named row, a dot for each line with a value, all on one axis."""
    lines = list(dict.fromkeys(line for row in rows.values() for line in row))
    return chart_page(_dot_rows(rows, lines), lines, heading)


def chart_page(drawn: tuple[str, float, float], lines: Sequence[str], heading: str) -> str:
    """Return a drawing as an SVG file with heading and legend."""
    body, width, height = drawn
    legend, taken = _draw_legend(lines, width)
    top = 30 + taken
    return (
        wrap_svg(
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


def _dot_rows(rows: Mapping[str, Mapping[str, Spread]], lines: Sequence[str]) -> tuple[str, float, float]:
    left, row, wide = 18 + 6.0 * max(len(name) for name in rows), 26.0, 420.0
    ends = [e for spreads in rows.values() for s in spreads.values() for e in (s.mean - s.sd, s.mean + s.sd)]
    low, high, step = axis_range(min(ends), max(ends))
    tall = row * len(rows)

    def along(value: float) -> float:
        return left + wide * (value - low) / (high - low)

    parts = []
    for tick in axis_ticks(low, high, step):
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
                # Offset the lines slightly, so that none hides another.
                y = middle + (n - (len(lines) - 1) / 2) * min(4.0, 18 / len(lines))
                marker = draw_marker(n, along(spread.mean), y, f"{line}: {spread}")
                parts.append(
                    f'<path d="M{px(along(spread.mean - spread.sd))} {px(y)}H{px(along(spread.mean + spread.sd))}" '
                    f'stroke="{PALETTE[n % len(PALETTE)]}"/>{marker}'
                )
    parts.append(f'<path d="M{px(left)} 4v{px(tall)}h{px(wide)}" fill="none" stroke="#444"/>')
    return "".join(parts), left + wide + 24, tall + 30


def _draw_legend(lines: Sequence[str], width: float) -> tuple[str, float]:
    parts, x, y = [], 8.0, 36.0
    for n, line in enumerate(lines):
        room = 46 + 6.2 * len(line)
        if x > 8 and x + room > width:
            x, y = 8.0, y + 18
        parts.append(
            f'<path d="M{px(x)} {px(y)}h26" stroke="{PALETTE[n % len(PALETTE)]}" stroke-width="1.8"{dash_style(n)}/>'
            f'{draw_marker(n, x + 13, y, line)}<text x="{px(x + 32)}" y="{px(y + 4)}">{escape(line)}</text>'
        )
        x += room
    return "".join(parts), y - 18


def draw_marker(n: int, x: float, y: float, told: str) -> str:
    """Draw the marker of the n-th line, with a tooltip."""
    shape = _MARKERS[n % len(_MARKERS)]
    return (
        f'<path d="{shape}" transform="translate({px(x)} {px(y)})" fill="{PALETTE[n % len(PALETTE)]}" stroke="#fff">'
        f"<title>{escape(told)}</title></path>"
    )


def dash_style(n: int) -> str:
    """Return the dash attribute of the n-th line."""
    dash = DASHES[n % len(DASHES)]
    return f' stroke-dasharray="{dash}"' if dash else ""


def axis_range(low: float, high: float) -> tuple[float, float, float]:
    """Return round ends of an axis and its tick step; it starts at 0 if that wastes little space."""
    if 0 <= low < 0.5 * high:
        low = 0.0
    extent = (high - low) or abs(high) or 1.0
    magnitude = 10.0 ** math.floor(math.log10(extent / 4))
    step = next(m * magnitude for m in (1, 2, 2.5, 5, 10) if extent / (m * magnitude) <= 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return first * step, max(last, first + 1) * step, step


def axis_ticks(low: float, high: float, step: float) -> list[float]:
    """Return the tick positions of an axis."""
    return [low + i * step for i in range(round((high - low) / step) + 1)]
