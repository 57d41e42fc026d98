"""Cautions of the report: inaccurate columns and pairs, broken rules, changed distributions of numbers and dates."""

from collections.abc import Sequence
from dataclasses import replace

from weft.display import format_count
from weft.encoding import Codec
from weft.evaluation.report.report_figures import (
    Caution,
    ColumnFigures,
    NumberFigures,
    PairFigures,
    PeopleFigures,
    RuleFigures,
)
from weft.evaluation.report.report_texts import WEEKDAYS, format_figure, format_share, name_round_numbers
from weft.synthesis.verdicts import (
    GRADES,
    MISPLACED,
    UNLISTED,
    Finding,
    Findings,
    Grade,
    Verdict,
    grade_share,
    make_verdict,
    make_verdicts,
)

MISPLACED_PAIR = (0.10, 0.30)
"""Distance of an attribute pair, or its expected noise, from which it needs care, and is not usable."""
CHANGED = (0.10, 0.30)
"""The same for the change of Cramer's V of a pair."""
SHIFTED = (0.10, 0.50)
"""Change of a mean, in standard deviations, from which a column needs care, and is not usable."""
WIDENED = (0.20, 0.50)
"""The same for the relative change of a standard deviation."""
UNROUNDED = 0.10
"""Threshold: change of the share of round numbers."""
OFF_DAY = 0.05
"""Threshold: change of the share of a weekday."""
MAX_CAUTIONS = 6
SOME = 0.005
"""Share of rows with values outside the schema that is worth telling."""
SAME = 0.999
"""Threshold: share of people for whom a per-person column is constant; rules may prevent it for a few."""


def against_real(columns: Sequence[ColumnFigures], pairs: Sequence[PairFigures]) -> tuple[Caution, ...]:
    """List the attributes and pairs with large errors, worst first; the worst pair is always included."""
    far = sorted((c for c in columns if c.distance > MISPLACED[0]), key=lambda c: -c.distance)
    made = [
        Caution(
            (c.name,),
            f"{format_share(c.distance)} of the rows are misplaced{_describe_cause(c)}",
            max(grade_share(c.distance - c.outside, MISPLACED), grade_share(c.outside, UNLISTED), key=GRADES.index),
        )
        for c in far
    ]
    changed = sorted(pairs, key=lambda p: -abs(p.change))[:MAX_CAUTIONS]
    made += [Caution(p.columns, _describe_relation(p)) for p in changed if abs(p.change) > CHANGED[0]]
    told = {caution.columns for caution in made}
    # A pair with an inaccurate column is inaccurate too: it is not listed again.
    off = {c.name for c in far}
    wide = sorted(
        (p for p in pairs if (p.distance or 0) > MISPLACED_PAIR[0] and not off & set(p.columns)),
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
            f"{format_count(rule.synth, 'synthetic row')} {'breaks' if rule.synth == 1 else 'break'} a rule "
            f"({rule.rule})",
        )
        for rule in rules
        if rule.synth
    ]
    for part in () if people is None else people.agreement:
        if part.synth is not None and part.synth < SAME:
            said = f"it is constant for only {format_share(part.synth)} of the synthetic people with several rows"
            made.append(Caution((part.column,), said))
    shapes = [(c.name, *(_lost_weekday(c) if c.dates else _lost_shape(c))) for c in numbers]
    return (*made, *[Caution((name,), said, grade) for name, said, grade in shapes if said])


def _lost_shape(column: NumberFigures) -> tuple[str, Grade]:
    """Describe how the distribution of a number changed, and grade it; empty if the change is small or unknown."""
    (before, after), (spread, made) = column.mean, column.sd
    if before is None or after is None or not spread or made is None:
        return "", "usable"
    told = []
    shift, width = abs(after - before) / spread, abs(made / spread - 1)
    if shift > SHIFTED[0]:
        told.append(f"its mean changed from {format_figure(before)} to {format_figure(after)}")
    if width > WIDENED[0]:
        told.append(f"its standard deviation changed from {format_figure(spread)} to {format_figure(made)}")
    a, b = column.round_share
    if a is not None and b is not None and abs(a - b) > UNROUNDED:
        told.append(
            f"the share of {name_round_numbers(column.grain or 1)} changed from {format_share(a)} to {format_share(b)}"
        )
    lost = shift > SHIFTED[1] or width > WIDENED[1]
    return ", ".join(told), "not usable" if lost else "usable with care"


def _lost_weekday(column: NumberFigures) -> tuple[str, Grade]:
    """Describe the largest change of a weekday's share; empty if it is small."""
    known = [
        (day, a, b) for day, (a, b) in zip(WEEKDAYS, column.weekdays, strict=True) if a is not None and b is not None
    ]
    day, before, after = max(known, key=lambda found: abs(found[1] - found[2]), default=("", 0.0, 0.0))
    told = f"the share of {day}s changed from {format_share(before)} to {format_share(after)}"
    return told if abs(before - after) > OFF_DAY else "", "usable with care"


def judge_report(codec: Codec, found: Findings, told: Sequence[Caution]) -> tuple[Verdict, ...]:
    """Return the verdict of each column, from findings and from the cautions that concern it alone."""
    every = {name: list(findings) for name, findings in found.items()}
    for caution in told:
        for column in _columns_of(codec, caution.columns[0]) if len(caution.columns) == 1 else ():
            every.setdefault(column, []).append(Finding(caution.grade, caution.reason))
    return make_verdicts(codec.schema, every)


def join_cautions(verdicts: Sequence[Verdict], told: Sequence[Caution]) -> tuple[Caution, ...]:
    """Return the cautions on several columns, then the reasons of each verdict."""
    several = [caution for caution in told if len(caution.columns) != 1]
    return (*several, *[Caution((v.column,), "; ".join(v.reasons), v.grade) for v in verdicts if v.reasons])


def judge_pairs(
    codec: Codec, pairs: Sequence[PairFigures], verdicts: Sequence[Verdict], private: bool
) -> tuple[PairFigures, ...]:
    """Return the pairs with their verdicts: a pair is at most as usable as its columns."""
    lost = {verdict.column for verdict in verdicts if verdict.grade == "not usable"}
    made = []
    for pair in pairs:
        gone = [name for name in pair.columns if lost & set(_columns_of(codec, name))]
        found = [Finding("not usable", f"{name} is not usable") for name in gone]
        if private and (pair.distance or 0) > MISPLACED_PAIR[0]:
            said = f"{format_share(pair.distance or 0)} of the rows are misplaced"
            found.append(Finding(grade_share(pair.distance or 0, MISPLACED_PAIR), said))
        if private and abs(pair.change) > CHANGED[0]:
            found.append(Finding(grade_share(abs(pair.change), CHANGED), _describe_relation(pair)))
        if not private and not pair.measured:
            found.append(Finding("usable with care", "it was not measured; its relation follows from other pairs only"))
        if not private and (pair.noise or 0) > MISPLACED_PAIR[0]:
            said = f"noise alone is expected to misplace {format_share(pair.noise or 0)} of its rows"
            found.append(Finding(grade_share(pair.noise or 0, MISPLACED_PAIR), said))
        verdict = make_verdict("", found)
        made.append(replace(pair, grade=verdict.grade, reason="; ".join(verdict.reasons)))
    return tuple(made)


def _columns_of(codec: Codec, attribute: str) -> tuple[str, ...]:
    return codec.part(attribute).columns if attribute in codec.domain else (attribute,)


def against_model(columns: Sequence[ColumnFigures], pairs: Sequence[PairFigures]) -> tuple[Caution, ...]:
    """List the attributes without a measured relation."""
    related = {name for pair in pairs if pair.measured for name in pair.columns}
    alone = tuple(column.name for column in columns if column.name not in related)
    told = "no relation to another attribute was measured: do not cross-tabulate"
    return (Caution(alone, told, "usable"),) if alone and len(columns) > 1 else ()


def _describe_cause(column: ColumnFigures) -> str:
    if column.outside >= SOME:
        gone = f"; {format_count(column.gone, 'value')} of the private table {'is' if column.gone == 1 else 'are'} lost"
        told = f"; {format_share(column.outside)} have values that are not listed or out of range"
        return told + (gone if column.gone else "")
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
