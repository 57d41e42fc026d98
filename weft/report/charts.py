"""Charts as inline SVG. Colours come from the page's style sheet by class, so that print can change them.

The reference is always an outline (blue), the synthetic table always a fill (orange): the two differ in form as well
as in hue, and stay apart in grey.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from weft.report.figures import Bar, Beside, Questions
from weft.report.words import percent
from weft.svg import px, short, svg

WIDTH = 330
"""Width of a column's chart."""
TOWERS = 2.5
"""How many times taller than all values a missing, special or pooled bar is when it is cut."""
_ROW = 17
_NAMES = 122


def column_chart(name: str, bars: Sequence[Bar], reference: str) -> tuple[str, int]:
    """Draw one column: steps for bins, rows for values. Return the drawing and its height."""
    title = f"{name}: shares of rows in the {reference} (outline) and in the synthetic table (filled)"
    if any(bar.sort == "bin" for bar in bars):
        return _steps(title, bars, reference), 168
    height = _ROW * len(bars) + 22
    return _rows(title, bars, reference, height), height


def _rows(title: str, bars: Sequence[Bar], reference: str, height: int) -> str:
    top = _ceiling(bars)
    room = WIDTH - _NAMES - 8
    parts = [_grid_lines_across(top, room, height)]
    for i, bar in enumerate(bars):
        y = i * _ROW + 3
        a, b = (room * min(share / top, 1.0) for share in (bar.reference, bar.synth))
        cut = ""
        if _tall(bar) > top:
            told = f"{_tick(bar.reference)} and {_tick(bar.synth)}"
            cut = f'<text class="cut" x="{WIDTH - 14}" y="{y + 10}" text-anchor="end">{told} »</text>'
        soft = ' class="soft"' if bar.sort in ("missing", "special", "rest") else ""
        parts.append(
            f"<g><title>{_told(bar, reference)}</title>"
            f'<text x="{_NAMES - 6}" y="{y + 10}" text-anchor="end"{soft}>{clipped(bar.label, 18)}</text>'
            f'<path class="s" d="M{_NAMES} {y + 1}h{px(b)}v10h-{px(b)}z"/>'
            f'<path class="r" d="M{_NAMES} {y + 1}h{px(a)}v10h-{px(a)}"/>'
            f"{cut or _whisker_across(bar, top, room, y)}</g>"
        )
    parts.append(f'<path class="axis" d="M{_NAMES} 0v{height - 18}"/>')
    return svg(WIDTH, height, title, "".join(parts))


def _grid_lines_across(top: float, room: float, height: int) -> str:
    parts = []
    for share in (top / 2, top):
        x = _NAMES + room * share / top
        anchor = "end" if share == top else "middle"
        parts.append(
            f'<path class="grid" d="M{px(x)} 0v{height - 18}"/>'
            f'<text class="tick" x="{px(x)}" y="{height - 6}" text-anchor="{anchor}">{_tick(share)}</text>'
        )
    return "".join(parts)


def _steps(title: str, bars: Sequence[Bar], reference: str) -> str:
    left, base, tall = 36.0, 138.0, 126.0
    top = _ceiling(bars)
    bins, apart = [b for b in bars if b.sort == "bin"], [b for b in bars if b.sort != "bin"]
    aside = min(26.0, 90.0 / max(len(apart), 1)) * len(apart) + (10 if apart else 0)
    wide = (WIDTH - left - 6 - aside) / len(bins)
    parts = [_grid_lines_up(top, left, base, tall)]

    def height(share: float) -> float:
        return base - tall * min(share / top, 1.0)

    outline = _staircase(left, wide, [height(b.reference) for b in bins])
    filled = _staircase(left, wide, [height(b.synth) for b in bins])
    end = left + wide * len(bins)
    parts.append(f'<path class="s" d="M{px(left)} {px(base)}{filled}V{px(base)}z"/>')
    parts.append(f'<path class="r" d="M{px(left)} {px(base)}{outline}V{px(base)}"/>')
    parts.append(_whiskers(((left + (i + 0.5) * wide, bar) for i, bar in enumerate(bins)), base, tall / top))
    for i, bar in enumerate(bins):
        parts.append(_hover(left + i * wide, wide, base, bar, reference))
    parts.append(_ticks(bins, left, wide, base))
    x = end + 10
    for bar in apart:
        broad = (aside - 10) / len(apart)
        a, b = height(bar.reference), height(bar.synth)
        inner = broad - 5
        parts.append(
            f'<path class="s" d="M{px(x)} {px(base)}V{px(b)}h{px(inner)}V{px(base)}z"/>'
            f'<path class="r" d="M{px(x)} {px(base)}V{px(a)}h{px(inner)}V{px(base)}"/>'
            f"{_tower(x + inner / 2, bar, top) or _whiskers([(x + inner / 2, bar)], base, tall / top)}"
            f"{_hover(x, inner, base, bar, reference)}"
            f'<text class="tick soft" transform="translate({px(x + inner / 2 + 3)} {px(base + 4)}) rotate(-38)" '
            f'text-anchor="end">{clipped(bar.label, 9)}</text>'
        )
        x += broad
    parts.append(f'<path class="axis" d="M{px(left)} {px(base)}H{px(end)}"/>')
    return svg(WIDTH, 168, title, "".join(parts))


def _tower(x: float, bar: Bar, top: float) -> str:
    """Say how tall a bar is that the axis cuts."""
    if _tall(bar) <= top:
        return ""
    told = f"{_tick(bar.reference)} and {_tick(bar.synth)} »"
    return f'<text class="cut" transform="translate({px(x + 3.5)} 16) rotate(-90)" text-anchor="end">{told}</text>'


def _whiskers(bars: Iterable[tuple[float, Bar]], base: float, scale: float) -> str:
    """Draw how far noise may have moved each share: two standard deviations up and down."""
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


def _staircase(left: float, wide: float, heights: Sequence[float]) -> str:
    return "".join(f"V{px(y)}H{px(left + (i + 1) * wide)}" for i, y in enumerate(heights))


def _hover(x: float, wide: float, base: float, bar: Bar, reference: str) -> str:
    box = f'x="{px(x)}" y="8" width="{px(wide)}" height="{px(base - 8)}"'
    return f'<rect class="h" {box}><title>{_told(bar, reference)}</title></rect>'


def _grid_lines_up(top: float, left: float, base: float, tall: float) -> str:
    parts = []
    for share in (top / 2, top):
        y = base - tall * share / top
        parts.append(
            f'<path class="grid" d="M{px(left)} {px(y)}H{WIDTH - 6}"/>'
            f'<text class="tick" x="{px(left - 4)}" y="{px(y + 3)}" text-anchor="end">{_tick(share)}</text>'
        )
    return "".join(parts)


def _ticks(bins: Sequence[Bar], left: float, wide: float, base: float) -> str:
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


def clipped(text: str, most: int) -> str:
    """Return what stands inside a text element: cut to its place, with the whole beside it for the pointer."""
    whole = f"<title>{escape(text)}</title>" if len(text) > most else ""
    return whole + escape(short(text, most))


def profile(labels: Sequence[str], shares: Sequence[Beside], title: str, reference: str, letters: int = 2) -> str:
    """Draw a few shares side by side, each with its first letters below: an outline for the reference, if known."""
    wide, base = min(24.0, 200.0 / max(len(labels), 1)), 46.0
    top = max((part or 0.0 for pair in shares for part in pair), default=0.0) or 1.0
    parts = []
    for i, (label, (a, b)) in enumerate(zip(labels, shares, strict=True)):
        x, inner = 2 + i * wide, wide - 4
        told = "" if a is None else f"{percent(a)} in the {reference}, "
        under = (
            f'<text class="tick" x="{px(x + inner / 2)}" y="58" text-anchor="middle">{escape(label[:letters])}</text>'
        )
        drawn = f'<path class="s" d="{_bar(x, inner, base, b, top)}z"/>'
        drawn += "" if a is None else f'<path class="r" d="{_bar(x, inner, base, a, top)}"/>'
        parts.append(f"<g><title>{escape(label)}: {told}{percent(b or 0.0)} synthetic</title>{drawn}{under}</g>")
    parts.append(f'<path class="axis" d="M0 {px(base)}H{px(wide * len(labels))}"/>')
    return svg(wide * len(labels) + 2, 61, title, "".join(parts))


def deciles(values: Sequence[Beside], title: str) -> str:
    """Draw the deciles as steps from the lowest to the highest; nothing where all are the same."""
    known = [value for pair in values for value in pair if value is not None]
    low, high = min(known), max(known)
    if high <= low:
        return ""
    wide, base = 9.0, 30.0

    def steps(which: int) -> str:
        heights = [base - 26 * ((pair[which] or 0.0) - low) / (high - low) for pair in values]
        return f"M1 {px(base)}{_staircase(1, wide, heights)}V{px(base)}"

    outline = "" if values[0][0] is None else f'<path class="r" d="{steps(0)}"/>'
    end = wide * len(values) + 2
    axis = f'<path class="axis" d="M0 {px(base)}H{px(end)}"/>'
    return svg(end, 32, title, f'<path class="s" d="{steps(1)}z"/>{outline}{axis}')


def _bar(x: float, wide: float, base: float, share: float | None, top: float) -> str:
    return f"M{px(x)} {px(base)}V{px(base - (base - 3) * (share or 0.0) / top)}h{px(wide)}V{px(base)}"


def scatter(questions: Questions) -> str:
    """Draw every question as a dot: its true answer across, the synthetic one up, both on a root scale."""
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
            f'<text class="tick" x="{px(left - 5)}" y="{px(side + 9 - p)}" text-anchor="end">{_tick(share)}</text>'
            f'<text class="tick" x="{px(left + p)}" y="{px(side + 20)}" text-anchor="middle">{_tick(share)}</text>'
        )
    parts.append(f'<path class="axis" d="M{px(left)} 6v{px(side)}h{px(side)}"/><path class="dot" d="{dots}"/>')
    parts.append(
        f'<text class="caption" x="{px(left + side / 2)}" y="{px(side + 37)}" text-anchor="middle">'
        "share of rows in the private table</text>"
        f'<text class="caption" transform="translate(10 {px(side / 2 + 6)}) rotate(-90)" text-anchor="middle">'
        "in the synthetic table</text>"
    )
    title = f"{questions.count} counting questions: answers of both tables; dots on the line agree"
    return svg(left + side + 18, side + 42, title, "".join(parts))


def band(noise: float, upper: float, observed: float, title: str) -> str:
    """Draw what noise explains as a hatched band, with a paler part for chance, and the observed distance as a mark.

    All in multiples of the noise, so that small tables and large ones can be read alike.
    """
    unit, most = 80.0, 3.0
    times = min(observed / noise, most) if noise > 0 else most * (observed > 0)
    reach = min(upper / noise, most) if noise > 0 else 1.0
    x = 4 + unit * times
    return svg(
        unit * most + 10,
        16,
        title,
        f'<path class="axis" d="M4 14h{px(unit * most)}"/>'
        f'<rect class="chance" x="4" y="3" width="{px(unit * reach)}" height="10"/>'
        f'<rect class="noise" x="4" y="3" width="{px(unit)}" height="10"/>'
        f'<path class="mark" d="M{px(x)} 1v14"/><circle class="mark" cx="{px(x)}" cy="8" r="3.2"/>',
    )


def prediction_bar(synth: float, real: float, majority: float, title: str) -> str:
    """Draw the three rates of one prediction on a line from 0 to 1."""
    wide = 240.0
    s, r, m = (wide * rate for rate in (synth, real, majority))
    return svg(
        wide + 10,
        18,
        title,
        f'<path class="s" d="M2 4h{px(s)}v10h-{px(s)}z"/><path class="r" d="M2 4h{px(r)}v10h-{px(r)}"/>'
        f'<path class="mark" stroke-dasharray="2 2" d="M{px(m + 2)} 0v18"/>',
    )


def _ceiling(bars: Sequence[Bar]) -> float:
    """Return a round share at or above the tallest bar; missing values and the like may tower over it, and are cut."""
    tallest = max((_tall(bar) for bar in bars), default=0.0)
    ordinary = max((_tall(bar) for bar in bars if bar.sort in ("value", "bin")), default=0.0)
    if 0 < ordinary < tallest / TOWERS:
        tallest = ordinary
    steps = [part * 10.0**-power for power in range(6, -1, -1) for part in (1, 1.5, 2, 3, 4, 5, 6, 8)]
    return next((step for step in steps if step >= tallest), 1.0) or 1.0


def _tall(bar: Bar) -> float:
    return max(bar.reference, bar.synth)


def _tick(share: float) -> str:
    return f"{100 * share:.3g}%"


def _told(bar: Bar, reference: str) -> str:
    return escape(f"{bar.label}: {percent(bar.reference)} in the {reference}, {percent(bar.synth)} synthetic")
