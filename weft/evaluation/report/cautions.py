"""Cautions of the report: inaccurate columns and pairs, broken rules, changed distributions of numbers and dates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.display import format_count
from weft.evaluation.report.report_figures import (
    Caution,
    ColumnFigures,
    NumberFigures,
    PairFigures,
    PeopleFigures,
    RuleFigures,
)
from weft.evaluation.report.report_texts import WEEKDAYS, format_figure, format_share, name_round_numbers

MIN_CAUTION_DISTANCE = 0.05
"""Threshold of a caution: distance of a single attribute."""
MIN_CAUTION_PAIR_DISTANCE = 0.10
"""Threshold: distance of an attribute pair."""
CHANGED = 0.10
"""Threshold: change of Cramer's V of a pair."""
SHIFTED = 0.10
"""Threshold: change of a mean, in standard deviations."""
WIDENED = 0.20
"""Threshold: relative change of a standard deviation."""
UNROUNDED = 0.10
"""Threshold: change of the share of round numbers."""
OFF_DAY = 0.05
"""Threshold: change of the share of a weekday."""
MAX_CAUTIONS = 6
SAME = 0.999
"""Threshold: share of people for whom a per-person column is constant; rules may prevent it for a few."""


def against_real(columns: Sequence[ColumnFigures], pairs: Sequence[PairFigures]) -> tuple[Caution, ...]:
    """List the attributes and pairs with large errors, worst first; the worst pair is always included."""
    far = sorted((c for c in columns if c.distance > MIN_CAUTION_DISTANCE), key=lambda c: -c.distance)[:MAX_CAUTIONS]
    made = [
        Caution((c.name,), f"{format_share(c.distance)} of the rows are misplaced{_describe_cause(c)}") for c in far
    ]
    changed = sorted(pairs, key=lambda p: -abs(p.change))[:MAX_CAUTIONS]
    made += [Caution(p.columns, _describe_relation(p)) for p in changed if abs(p.change) > CHANGED]
    told = {caution.columns for caution in made}
    # A pair with an inaccurate column is inaccurate too: it is not listed again.
    off = {c.name for c in columns if c.distance > MIN_CAUTION_DISTANCE}
    wide = sorted(
        (p for p in pairs if (p.distance or 0) > MIN_CAUTION_PAIR_DISTANCE and not off & set(p.columns)),
        key=lambda p: -(p.distance or 0),
    )
    wide = [pair for pair in wide[:MAX_CAUTIONS] if pair.columns not in told]
    made += [Caution(p.columns, f"{format_share(p.distance or 0)} of the rows are misplaced") for p in wide]
    worst = max(pairs, key=lambda p: p.distance or 0.0, default=None)
    if worst is not None and worst.distance and worst.columns not in {caution.columns for caution in made}:
        said = f"the pair that differs most: {format_share(worst.distance)} of the rows are misplaced"
        made.append(Caution(worst.columns, said))
    return tuple(made)


def of_values(
    numbers: Sequence[NumberFigures], rules: Sequence[RuleFigures], people: PeopleFigures | None
) -> tuple[Caution, ...]:
    """List broken rules, per-person columns that vary within a person, and changed distributions."""
    made = [
        Caution(
            rule.columns,
            f"{format_count(rule.synth, 'synthetic row')} {_conjugate_break(rule.synth)} a rule ({rule.rule})",
        )
        for rule in rules
        if rule.synth
    ]
    for part in () if people is None else people.agreement:
        if part.synth is not None and part.synth < SAME:
            said = f"it is constant for only {format_share(part.synth)} of the synthetic people with several rows"
            made.append(Caution((part.column,), said))
    shapes = [(c.name, _lost_weekday(c) if c.dates else _lost_shape(c)) for c in numbers]
    return (*made, *[Caution((name,), said) for name, said in shapes if said][:MAX_CAUTIONS])


def _lost_shape(column: NumberFigures) -> str:
    """Describe how the distribution of a number changed; empty if the change is small or unknown."""
    (before, after), (spread, made) = column.mean, column.sd
    if before is None or after is None or not spread or made is None:
        return ""
    told = []
    if abs(after - before) > SHIFTED * spread:
        told.append(f"its mean changed from {format_figure(before)} to {format_figure(after)}")
    if abs(made / spread - 1) > WIDENED:
        told.append(f"its standard deviation changed from {format_figure(spread)} to {format_figure(made)}")
    a, b = column.round_share
    if a is not None and b is not None and abs(a - b) > UNROUNDED:
        told.append(
            f"the share of {name_round_numbers(column.grain or 1)} changed from {format_share(a)} to {format_share(b)}"
        )
    return ", ".join(told)


def _lost_weekday(column: NumberFigures) -> str:
    """Describe the largest change of a weekday's share; empty if it is small."""
    known = [
        (day, a, b) for day, (a, b) in zip(WEEKDAYS, column.weekdays, strict=True) if a is not None and b is not None
    ]
    day, before, after = max(known, key=lambda found: abs(found[1] - found[2]), default=("", 0.0, 0.0))
    told = f"the share of {day}s changed from {format_share(before)} to {format_share(after)}"
    return told if abs(before - after) > OFF_DAY else ""


def _conjugate_break(rows: int) -> str:
    return "breaks" if rows == 1 else "break"


def join_cautions(lost: Mapping[str, str], *cautions: Caution) -> tuple[Caution, ...]:
    """Return all cautions, those of lost values first, with the reasons for the same columns joined."""
    said: dict[tuple[str, ...], list[str]] = {}
    for caution in (*(Caution((name,), told) for name, told in lost.items()), *cautions):
        said.setdefault(caution.columns, []).append(caution.reason)
    return tuple(Caution(columns, "; ".join(reasons)) for columns, reasons in said.items())


def against_model(columns: Sequence[ColumnFigures], pairs: Sequence[PairFigures]) -> tuple[Caution, ...]:
    """List the attributes with large noise, and those without a measured relation."""
    noisy = sorted((c for c in columns if (c.noise or 0) > MIN_CAUTION_DISTANCE), key=lambda c: -(c.noise or 0))[
        :MAX_CAUTIONS
    ]
    made = [
        Caution((c.name,), f"noise alone is expected to misplace {format_share(c.noise or 0)} of its rows")
        for c in noisy
    ]
    related = {name for pair in pairs if pair.measured for name in pair.columns}
    alone = tuple(column.name for column in columns if column.name not in related)
    if alone and len(columns) > 1:
        made.append(Caution(alone, "no relation to another attribute was measured: do not cross-tabulate"))
    return tuple(made)


def _describe_cause(column: ColumnFigures) -> str:
    if column.outside > 0:
        return f"; {format_share(column.outside)} have values that are not listed or out of range"
    if column.noise is None:
        return ""
    within = column.distance <= 1.5 * column.noise
    return f"; noise alone explains {format_share(column.noise)}" + ("" if within else ", the model the rest")


def _describe_relation(pair: PairFigures) -> str:
    way = "weaker" if pair.change < 0 else "stronger"
    told = (
        f"their relation is {way}: Cramer's V changed from {pair.association or 0:.2f} to {pair.association_synth:.2f}"
    )
    return f"{told}; {few_cells(pair)}" if pair.on_few else told


def few_cells(pair: PairFigures) -> str:
    """State that a relation depends on a few rare cells."""
    return f"half of it depends on cells with {format_share(pair.rests_on or 0)} of the rows"
