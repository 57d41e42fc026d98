"""Render a plan as an HTML page: its summary, the error by epsilon, and the attributes. No row is used."""

from __future__ import annotations

import math
from html import escape

from weft.display import format_count, format_percent, px, shorten_text, wrap_svg
from weft.evaluation.forecast import Plan

NOT_READ = "Only the schema was read: the method was run on simulated rows with the same columns."

ERRORS = (
    "An error is the share of rows that would have to change for an attribute (or an attribute pair) to have the same "
    "distribution as in the private table; numbers and dates with many values are compared in 32 ranges. Tables "
    "differ: these estimates are usually within 50% for single attributes, and tend to be too high for pairs."
)


def describe_expectations(plan: Plan) -> list[str]:
    """Summarise the expected errors in sentences."""
    rows, here = format_count(plan.rows, "row"), plan.here
    made = [f"With {rows} at epsilon {plan.epsilon:g}, {_describe_share_band(plan)}"]
    if plan.target is not None:
        made.insert(
            0,
            f"An error of {format_percent(plan.target)} in single attributes requires about epsilon {plan.epsilon:g}.",
        )
    worst = max(here.columns, key=lambda name: here.columns[name])
    made.append(
        f"Single attributes: {format_percent(here.mean)} of the rows would be misplaced on average, at worst "
        f"{format_percent(here.columns[worst])} ({worst})."
    )
    if here.pair_noise:
        made.append(f"Attribute pairs: {format_percent(here.pairs)} of the rows would be misplaced on average.")
        made.append(_describe_pairs(plan))
    return made


def _describe_share_band(plan: Plan) -> str:
    low, high = plan.share_band
    if not high - low < 0.6:
        return "noise would dominate the shares of single values: increase epsilon, or use fewer columns."
    return f"a value with a share of 30% would be estimated at {format_percent(low)} to {format_percent(high)}."


def _describe_pairs(plan: Plan) -> str:
    pairs, told = len(plan.here.pair_noise), len(plan.told)
    size = "a relation that moves one row in ten would exceed the noise"
    if told == pairs:
        return f"All {format_count(pairs, 'pair')} of attributes can be distinguished from noise: {size}."
    if told:
        return f"Of {format_count(pairs, 'pair')} of attributes, {told:,} can be distinguished from noise: {size}."
    return (
        f"Of {format_count(pairs, 'pair')} of attributes, none can be distinguished from noise: expect accurate single "
        "attributes, but few of their relations. Use fewer columns, coarser bins or a larger epsilon."
    )


def describe_effort(plan: Plan) -> str:
    """Summarise the size, duration and memory of a run."""
    memory = max(plan.memory / 2**20, 1)
    seconds = f"{plan.seconds:.0f} seconds" if plan.seconds >= 2 else "a second or two"
    return (
        f"{format_count(len(plan.codes), 'attribute')} with {sum(plan.codes.values()):,} values or bins; about "
        f"{plan.here.cells:,} cells would be measured. The run would take about {seconds} and {memory:,.0f} MiB in "
        f"addition to the program itself; the smallest possible limit is --memory {-(-plan.least_memory // 2**20)}MiB."
    )


_WIDE, _TALL, _LEFT, _TOP = 460.0, 200.0, 56.0, 24.0
_LINES = (("single columns", "columns", "#1f6f8b", ""), ("pairs of columns", "pairs", "#c05621", "5 3"))

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, Helvetica, Arial, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
svg { max-width: 100%; height: auto; }
table { border-collapse: collapse; } td, th { padding: .15rem .8rem .15rem 0; text-align: left; }
td.n { text-align: right; font-variant-numeric: tabular-nums; } .faint { color: #777; font-size: .9rem; }
"""


def render_forecast_page(plan: Plan) -> str:
    """Render the HTML page."""
    said = "".join(f"<p>{escape(sentence)}</p>" for sentence in describe_expectations(plan))
    errors = sorted(plan.here.columns.items(), key=lambda pair: -pair[1])
    columns = "".join(
        f'<tr><td>{escape(name)}</td><td class="n">{plan.codes[name]:,}</td><td '
        f'class="n">{format_percent(error)}</td></tr>'
        for name, error in errors
    )
    asked = "".join(
        f'<tr><td>{escape(question)}</td><td class="n">{format_percent(share)}</td></tr>'
        for question, share in plan.here.questions
    )
    title = f"Plan: {plan.method}, epsilon {plan.epsilon:g}, {plan.rows:,} rows"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>{said}<p>{escape(describe_effort(plan))}</p>"
        f"<h2>Error by epsilon</h2>{draw_error_curve(plan)}<p class='faint'>{escape(ERRORS)}</p>"
        f"<h2>Privacy guarantee</h2><p>{escape(plan.meaning)}</p>"
        "<h2>Attributes</h2><table><tr><th>attribute</th><th>values or bins</th><th>error</th></tr>"
        f"{columns}</table><h2>Queries</h2><table><tr><th>query</th><th>share of the budget</th></tr>"
        f"{asked}</table><p class='faint'>{escape(NOT_READ)}</p></body></html>\n"
    )


def draw_error_curve(plan: Plan) -> str:
    """Draw the errors of single attributes and pairs by epsilon, with logarithmic axes."""
    at = [math.log(point.epsilon) for point in plan.curve]
    values = [max(getattr(point, key), 1e-6) for _, key, *_ in _LINES for point in plan.curve]
    low = 10.0 ** math.floor(math.log10(min(values)))
    high = max(10.0 ** math.ceil(math.log10(max(values))), 10 * low)

    def along(x: float) -> float:
        return _LEFT + _WIDE * (x - at[0]) / max(at[-1] - at[0], 1e-9)

    def down(y: float) -> float:
        return _TOP + _TALL * (1 - math.log(max(y, low) / low) / math.log(high / low))

    parts = []
    for power in range(round(math.log10(high / low)) + 1):
        y = low * 10**power
        parts.append(
            f'<path d="M{px(_LEFT)} {px(down(y))}h{px(_WIDE)}" stroke="#8884"/>'
            f'<text x="{px(_LEFT - 6)}" y="{px(down(y) + 4)}" text-anchor="end">{format_percent(y)}</text>'
        )
    for point, x in zip(plan.curve, at, strict=True):
        parts.append(
            f'<text x="{px(along(x))}" y="{px(_TOP + _TALL + 16)}" text-anchor="middle">{point.epsilon:g}</text>'
        )
    for name, key, colour, dash in _LINES:
        points = [(along(x), down(getattr(p, key))) for p, x in zip(plan.curve, at, strict=True)]
        path = "L".join(f"{px(x)} {px(y)}" for x, y in points)
        dots = "".join(f'<circle cx="{px(x)}" cy="{px(y)}" r="3" fill="{colour}"/>' for x, y in points)
        style = f' stroke-dasharray="{dash}"' if dash else ""
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.8"{style}/>{dots}')
        x, y = points[-1]
        parts.append(
            f'<text x="{px(x)}" y="{px(y - 8)}" text-anchor="end" fill="{colour}">{shorten_text(name, 40)}</text>'
        )
    parts.append(f'<text x="{px(_LEFT + _WIDE / 2)}" y="{px(_TOP + _TALL + 34)}" text-anchor="middle">epsilon</text>')
    title = "Expected error of single columns and of pairs by epsilon"
    look = 'font-family="system-ui, sans-serif" font-size="12" fill="currentColor"'
    return wrap_svg(_LEFT + _WIDE + 30, _TOP + _TALL + 44, title, "".join(parts), look)
