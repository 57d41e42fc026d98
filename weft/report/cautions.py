"""What to be careful with, in plain words: columns and pairs that are far off, broken rules, numbers out of shape."""

from __future__ import annotations

from collections.abc import Sequence

from weft.report.figures import Caution, ColumnFigures, NumberFigures, PairFigures, PeopleFigures, RuleFigures
from weft.report.words import WEEKDAYS, number, percent, rounded
from weft.words import counted

FAR = 0.05
"""Columns farther apart than this are named in the summary."""
FAR_PAIR = 0.10
"""Pairs farther apart than this are."""
CHANGED = 0.10
"""And pairs whose association changed by more than this."""
SHIFTED = 0.10
"""And numbers whose mean moved by more than this, in standard deviations,"""
WIDENED = 0.20
"""whose standard deviation changed by more than this part of it,"""
UNROUNDED = 0.10
"""or whose share of round numbers changed by more than this."""
OFF_DAY = 0.05
"""And dates of which a weekday's share changed by more than this."""
MOST = 6
SAME = 0.999
"""What stays the same for a person should do so for all but a few, whose rows a rule keeps apart."""


def against_real(columns: Sequence[ColumnFigures], pairs: Sequence[PairFigures]) -> tuple[Caution, ...]:
    """Name the columns and pairs whose figures are far off, worst first; the worst pair is always among them."""
    far = sorted((c for c in columns if c.distance > FAR), key=lambda c: -c.distance)[:MOST]
    made = [Caution((c.name,), f"{percent(c.distance)} of the rows are misplaced{_cause(c)}") for c in far]
    changed = sorted(pairs, key=lambda p: -abs(p.change))[:MOST]
    made += [Caution(p.columns, _relation(p)) for p in changed if abs(p.change) > CHANGED]
    told = {caution.columns for caution in made}
    # A pair with a column that is off by itself is off too: that is told already.
    off = {c.name for c in columns if c.distance > FAR}
    wide = sorted(
        (p for p in pairs if (p.distance or 0) > FAR_PAIR and not off & set(p.columns)),
        key=lambda p: -(p.distance or 0),
    )
    wide = [pair for pair in wide[:MOST] if pair.columns not in told]
    made += [Caution(p.columns, f"{percent(p.distance or 0)} of the rows are misplaced") for p in wide]
    worst = max(pairs, key=lambda p: p.distance or 0.0, default=None)
    if worst is not None and worst.distance and worst.columns not in {caution.columns for caution in made}:
        said = f"the pair that differs most: {percent(worst.distance)} of the rows are misplaced"
        made.append(Caution(worst.columns, said))
    return tuple(made)


def of_values(
    numbers: Sequence[NumberFigures], rules: Sequence[RuleFigures], people: PeopleFigures | None
) -> tuple[Caution, ...]:
    """Name what values show: broken rules, people who change what stays the same, numbers that lost their shape."""
    made = [
        Caution(rule.columns, f"{counted(rule.synth, 'synthetic row')} {_breaks(rule.synth)} a rule ({rule.rule})")
        for rule in rules
        if rule.synth
    ]
    for part in () if people is None else people.agreement:
        if part.synth is not None and part.synth < SAME:
            said = f"it stays the same for only {percent(part.synth)} of the synthetic people with several rows"
            made.append(Caution((part.column,), said))
    shapes = [(c.name, _lost_weekday(c) if c.dates else _lost_shape(c)) for c in numbers]
    return (*made, *[Caution((name,), said) for name, said in shapes if said][:MOST])


def _lost_shape(column: NumberFigures) -> str:
    """Say how a column of numbers differs from the private one; empty where it hardly does, or nothing is known."""
    (before, after), (spread, made) = column.mean, column.sd
    if before is None or after is None or not spread or made is None:
        return ""
    told = []
    if abs(after - before) > SHIFTED * spread:
        told.append(f"its mean {number(before)} became {number(after)}")
    if abs(made / spread - 1) > WIDENED:
        told.append(f"its standard deviation {number(spread)} became {number(made)}")
    a, b = column.round_share
    if a is not None and b is not None and abs(a - b) > UNROUNDED:
        told.append(f"{rounded(column.grain or 1)} were {percent(a)} and are {percent(b)}")
    return ", ".join(told)


def _lost_weekday(column: NumberFigures) -> str:
    """Say which weekday's share changed most, if by much."""
    known = [
        (day, a, b) for day, (a, b) in zip(WEEKDAYS, column.weekdays, strict=True) if a is not None and b is not None
    ]
    day, before, after = max(known, key=lambda found: abs(found[1] - found[2]), default=("", 0.0, 0.0))
    told = f"{day}s were {percent(before)} of its days and are {percent(after)}"
    return told if abs(before - after) > OFF_DAY else ""


def _breaks(rows: int) -> str:
    return "breaks" if rows == 1 else "break"


def joined(*cautions: Caution) -> tuple[Caution, ...]:
    """Return cautions with all that is said of the same columns in one place."""
    said: dict[tuple[str, ...], list[str]] = {}
    for caution in cautions:
        said.setdefault(caution.columns, []).append(caution.reason)
    return tuple(Caution(columns, "; ".join(reasons)) for columns, reasons in said.items())


def against_model(columns: Sequence[ColumnFigures], pairs: Sequence[PairFigures]) -> tuple[Caution, ...]:
    """Name the columns that noise blurs, and those whose relations nobody asked about."""
    noisy = sorted((c for c in columns if (c.noise or 0) > FAR), key=lambda c: -(c.noise or 0))[:MOST]
    made = [
        Caution((c.name,), f"noise alone is expected to misplace {percent(c.noise or 0)} of its rows") for c in noisy
    ]
    related = {name for pair in pairs if pair.measured for name in pair.columns}
    alone = tuple(column.name for column in columns if column.name not in related)
    if alone and len(columns) > 1:
        made.append(Caution(alone, "no relation to any other column was measured: do not cross-tabulate"))
    return tuple(made)


def _cause(column: ColumnFigures) -> str:
    if column.noise is None:
        return ""
    within = column.distance <= 1.5 * column.noise
    return f"; noise alone explains {percent(column.noise)}" + ("" if within else ", the model the rest")


def _relation(pair: PairFigures) -> str:
    way = "weaker" if pair.change < 0 else "stronger"
    told = f"their relation is {way}: {pair.association or 0:.2f} became {pair.association_synth:.2f} (Cramer's V)"
    return f"{told}; {few_cells(pair)}" if pair.on_few else told


def few_cells(pair: PairFigures) -> str:
    """Say that a relation rests on a few rare cells."""
    return f"half of it rests on cells with {percent(pair.rests_on or 0)} of the rows"
