"""Numbers, dates and rules as the tables show them: what is seen in values and not in codes."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from weft.codec import Codec, broken
from weft.evaluate.numbers import LEVELS, Numbers, Summary, compare_numbers, describe_numbers
from weft.report.figures import Beside, NumberFigures, RuleFigures
from weft.schema import Schema


def number_figures(schema: Schema, synth: pa.Table, real: pa.Table | None = None) -> tuple[NumberFigures, ...]:
    """Describe every column of numbers or dates; with `real`, which makes it PRIVATE, in both tables."""
    if real is None:
        return tuple(_described(found) for found in describe_numbers(synth, schema))
    return tuple(_compared(found) for found in compare_numbers(real, synth, schema))


def rule_figures(codec: Codec, synth: pa.Table, real: pa.Table | None = None) -> tuple[RuleFigures, ...]:
    """Count the rows that break each rule; private ones, with `real`, only of rules that do not refuse them."""
    if not codec.forms:
        return ()
    after = broken(synth, codec.schema)
    before = {} if real is None else broken(real, codec.schema)
    return tuple(
        RuleFigures(
            str(form.rule),
            form.rule.columns,
            form.policy,
            count,
            before.get(named) if form.rule.policy == "keep" else None,
        )
        for form, (named, count) in zip(codec.forms, after.items(), strict=True)
    )


def _compared(found: Numbers) -> NumberFigures:
    grain, share = _telling([(grain, (a, b)) for grain, a, b in found.round_share])
    return NumberFigures(
        found.column,
        found.dates,
        found.means,
        found.sds,
        LEVELS,
        found.quantiles,
        found.wasserstein,
        grain,
        share,
        found.weekdays,
        found.months,
    )


def _described(found: Summary) -> NumberFigures:
    grain, share = _telling([(grain, (None, part)) for grain, part in found.round_share])
    return NumberFigures(
        found.column,
        found.dates,
        (None, found.mean),
        (None, found.sd),
        LEVELS,
        tuple((None, value) for value in found.quantiles),
        None,
        grain,
        share,
        tuple((None, share) for share in found.weekdays),
        tuple((None, share) for share in found.months),
    )


def _telling(shares: Sequence[tuple[float, Beside]]) -> tuple[float | None, Beside]:
    """Return the grain in whose multiples tables differ, or, where they agree, that divides the values most evenly."""

    def tells(found: tuple[float, Beside]) -> float:
        before, after = found[1]
        seen = (after if before is None else before) or 0.0
        return seen * (1 - seen) + abs((after or 0.0) - seen)

    return max(shares, key=tells) if shares else (None, (None, None))
