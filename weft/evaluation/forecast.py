"""Estimate the accuracy of a run before budget is spent, from a schema, a number of rows and a method."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from weft.display import frame_page
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
        from weft.evaluation.forecast_page import render_forecast_page

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
