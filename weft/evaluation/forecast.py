"""Estimate the accuracy of a run before budget is spent, from a schema, a number of rows and a method.

The plan is also rendered as an HTML page: its summary, the error by epsilon, and the attributes. No row is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from weft.display import format_count, format_percent, frame_page, px, shorten_text, wrap_svg
from weft.encoding import Codec
from weft.errors import WeftError
from weft.evaluation.forecast_simulation import (
    SEEN,
    Simulation,
    freeze_scaled_plan,
    plain_codec,
    row_bytes,
    simulate_run,
)
from weft.memory_plan import MIN_MEMORY, PROGRAM, MemoryPlan
from weft.methods import AUTO, resolve_method_name
from weft.methods.common.options import convert_to_plain
from weft.privacy import Adjacency, Budget, Ledger, Relation
from weft.progress import Listener, ignore_event, report_stage
from weft.schema import Schema
from weft.synthesis.fit_plan import MethodPlan
from weft.synthesis.marginal_plan import PlanError
from weft.synthesis.statement import explain_ledger_guarantee

ROWS = 10_000
"""Default number of rows."""

AROUND = (0.25, 1.0, 4.0)
"""Simulated budgets, in units of the requested one; errors at those of `CURVE` are interpolated."""
CURVE = (0.25, 0.5, 1.0, 2.0, 4.0)

MAX_ATTRIBUTES_FULL_CURVE = 30
"""With more attributes, the largest simulated budget, which takes the longest, is halved."""

REPEATED = 96
"""Minimum number of attributes over all runs: with fewer, the mean of several runs is computed."""
MAX_RUNS = 6

MAX_EPSILON_TRIED, MIN_EPSILON_TRIED = 20.0, 0.01
"""Limits of the search for a budget that reaches a target error."""

_ROW_SECONDS = 4e-8  # to count one attribute of one row for one query


@dataclass(frozen=True)
class Point:
    """Expected mean errors of single attributes and of attribute pairs at one budget."""

    epsilon: float
    columns: float
    pairs: float


@dataclass(frozen=True)
class Plan:
    """Expected results of a run. Errors are total variation distances: the share of rows that would have to change."""

    method: str
    rows: int
    budget: Budget
    here: Simulation
    """Results at the requested budget, or at the one found for the target error."""
    curve: tuple[Point, ...]
    meaning: str
    """Explanation of the privacy guarantee."""
    codes: Mapping[str, int]
    """Number of values or bins of each attribute."""
    row_bytes: int
    target: float | None = None

    @property
    def epsilon(self) -> float:
        """Epsilon of the budget."""
        return self.here.epsilon

    @property
    def seconds(self) -> float:
        """Estimated duration of a run on this machine."""
        return self.here.seconds + _ROW_SECONDS * self.rows * len(self.codes) * len(self.here.questions)

    @property
    def memory(self) -> int:
        """Estimated memory of a run in bytes, in addition to the program itself."""
        return min(self.rows * self.row_bytes, MemoryPlan().codes) + self._learning

    @property
    def _learning(self) -> int:
        return 3 * self.here.model_bytes + 16 * self.here.cells

    @property
    def least_memory(self) -> int:
        """Smallest memory limit (--memory) for such a run, in bytes; the table is then read in chunks."""
        return max(MIN_MEMORY, PROGRAM + 3 * self._learning)

    @property
    def share_band(self) -> tuple[float, float]:
        """Range of about 95% for the estimate of a share of 30%."""
        reach = 2 * self.here.share_noise
        return max(0.3 - reach, 0.0), min(0.3 + reach, 1.0)

    @property
    def told(self) -> list[tuple[str, str]]:
        """Attribute pairs whose relations exceed the noise."""
        return self.here.told()

    def _repr_html_(self) -> str:
        return frame_page(render_forecast_page(self))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "method": self.method,
            "rows": self.rows,
            "budget": self.budget.to_dict(),
            "target_error": self.target,
            "error_of_columns": dict(self.here.columns),
            "mean_error_of_columns": self.here.mean,
            "mean_error_of_pairs": self.here.pairs,
            "share_of_30_percent": list(self.share_band),
            "pairs": len(self.here.pair_noise),
            "pairs_told_from_noise": [list(pair) for pair in self.told],
            "relation_that_counts": SEEN,
            "curve": [{"epsilon": p.epsilon, "columns": p.columns, "pairs": p.pairs} for p in self.curve],
            "questions": [{"question": question, "share": share} for question, share in self.here.questions],
            "codes": dict(self.codes),
            "cells": self.here.cells,
            "bytes": self.memory,
            "least_memory": self.least_memory,
            "seconds": round(self.seconds, 1),
            "meaning": self.meaning,
        }


def _validate_request(schema: Schema, rows: int, target_error: float | None) -> None:
    if schema.incomplete:
        left = ", ".join(f'"{column.name}"' for column in schema.unknown) or "others"
        raise WeftError(
            f"a plan requires a complete schema, but {left} would be discovered privately. Describe these columns, or "
            "run discovery first: `weft schema draft TABLE --private --epsilon 0.1 -o found.toml`, then plan with "
            "found.toml"
        )
    if not isinstance(rows, int) or rows < 1:
        raise WeftError("invalid number of rows: give the approximate number of rows of the table, at least 1")
    if target_error is not None and not 0 < target_error < 1:
        raise WeftError("invalid target error: it is a share of the rows, between 0 and 1, such as 0.02")


def plan(
    schema: Schema | str | PathLike[str],
    rows: int = ROWS,
    epsilon: float | None = 1.0,
    delta: float = 1e-5,
    *,
    method: str = AUTO,
    options: Mapping[str, Any] | None = None,
    target_error: float | None = None,
    neighbours: Relation = "add-remove",
    listener: Listener = ignore_event,
) -> Plan:
    """Estimate the accuracy and cost of a run from the schema and simulated rows alone; no table is read.

    With `target_error`, find the budget at which the mean error of single attributes is at most that; `epsilon` is then
    the centre of the simulated budgets.
    """
    schema = schema if isinstance(schema, Schema) else Schema.load(Path(schema))
    if epsilon is None:
        raise WeftError("a plan requires a budget in epsilon")
    _validate_request(schema, rows, target_error)
    own = convert_to_plain(options or {})
    settings: dict[str, Any] = {"method": resolve_method_name(method), "neighbours": neighbours, **own}
    budget = Budget(epsilon=epsilon, delta=delta)  # refuses an invalid budget before any work
    recipe, codec = _prepare_method(resolve_method_name(method), own, schema, budget)
    columns, held = len(codec.domain), freeze_scaled_plan(recipe, 1.0)

    def run(at: float, seed: int = 0) -> Simulation:
        budget = Budget(epsilon=at, delta=delta, insecure=at > MAX_EPSILON_TRIED)
        try:
            return simulate_run(schema, rows, budget, settings, seed=seed)
        except PlanError:  # the marginal plan has no items for this budget, or none that fit
            return simulate_run(schema, rows, budget, settings | held, seed=seed)

    with report_stage(listener, "run on simulated rows", len(AROUND) + (target_error is not None)) as work:
        found = []
        for times in AROUND if columns <= MAX_ATTRIBUTES_FULL_CURVE else (*AROUND[:-1], 2.0):
            found.append(_average_runs(run, epsilon, columns) if times == 1 else run(times * epsilon))
            work.advance(note=f"epsilon {times * epsilon:g}")
        here = found[AROUND.index(1.0)]
        if target_error is not None:
            epsilon = _find_required_epsilon(found, target_error)
            here = _average_runs(run, epsilon, columns)
            found = sorted([*found, here], key=lambda each: each.epsilon)
            work.advance(note=f"epsilon {epsilon:g}")
    budget = Budget(epsilon=epsilon, delta=delta)
    recipe, codec = _prepare_method(resolve_method_name(method), own, schema, budget)
    ledger = Ledger(budget, recipe.chosen.accounting, Adjacency(neighbours, schema.rows_per_unit))
    return Plan(
        method=resolve_method_name(method),
        rows=rows,
        budget=budget,
        here=here,
        curve=_interpolate_curve(found, epsilon),
        meaning=explain_ledger_guarantee(ledger, schema.unit),
        codes=dict(zip(codec.domain.names, codec.domain.shape, strict=True)),
        row_bytes=row_bytes(codec),
        target=target_error,
    )


def _prepare_method(name: str, options: Mapping[str, Any], schema: Schema, budget: Budget) -> tuple[MethodPlan, Codec]:
    """Return the validated method and the codec of a run, and validate its marginal plan, if any."""
    if options.get("public"):
        raise WeftError("a plan reads no table, so it cannot estimate the effect of a public one. Omit the option.")
    recipe = MethodPlan.of(name, options, schema, budget)
    codec = plain_codec(recipe.schema)
    recipe.compiled(codec)
    return recipe, codec


def _average_runs(run: Callable[[float, int], Simulation], epsilon: float, columns: int) -> Simulation:
    """Return the mean of several runs: with few attributes, a single run depends strongly on its noise."""
    runs = [run(epsilon, seed) for seed in range(max(1, min(MAX_RUNS, REPEATED // max(columns, 1))))]
    errors = {name: float(np.mean([each.columns[name] for each in runs])) for name in runs[0].columns}
    return replace(runs[0], columns=errors, pairs=float(np.mean([each.pairs for each in runs])))


def _interpolate_curve(found: Sequence[Simulation], epsilon: float) -> tuple[Point, ...]:
    """Interpolate the simulated errors at the budgets of `CURVE`, linearly in log-log coordinates."""
    return tuple(
        Point(
            times * epsilon,
            _interpolate_error(found, [each.mean for each in found], times * epsilon),
            _interpolate_error(found, [each.pairs for each in found], times * epsilon),
        )
        for times in CURVE
    )


def _interpolate_error(found: Sequence[Simulation], errors: Sequence[float], epsilon: float) -> float:
    at = np.log([each.epsilon for each in found])
    # Error cannot grow with the budget: an increase is the noise of a single run.
    falling = np.minimum.accumulate(np.log(np.maximum(errors, 1e-9)))
    if at[0] <= math.log(epsilon) <= at[-1]:
        return float(np.exp(np.interp(math.log(epsilon), at, falling)))
    i, j = (0, 1) if math.log(epsilon) < at[0] else (-2, -1)
    slope = min((falling[j] - falling[i]) / (at[j] - at[i]), -0.1)
    return float(min(np.exp(falling[i] + slope * (math.log(epsilon) - at[i])), 1.0))


def _find_required_epsilon(found: Sequence[Simulation], target: float) -> float:
    """Return the smallest epsilon at which the mean error of single attributes is at most the target."""
    grid = np.geomspace(MIN_EPSILON_TRIED, MAX_EPSILON_TRIED, 400)
    errors = np.array([_interpolate_error(found, [each.mean for each in found], at) for at in grid])
    if errors[-1] > target:
        raise WeftError(
            f"no epsilon up to {MAX_EPSILON_TRIED:g} reaches an error of {target:g} with this number of rows: the "
            f"minimum is about {errors[-1]:.3g}. Use fewer columns, fewer or coarser values, or a larger target"
        )
    return float(f"{grid[int(np.argmax(errors <= target))]:.2g}")


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
