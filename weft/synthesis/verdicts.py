"""Verdicts: whether a column of a release can be used, with care or not at all, and why.

The card, the terminal, the studio and both editions of the report share these rules and the expected error from noise
alone: the total variation distance that it adds between two tables.

Privacy: post-processing. Everything is computed from the fitted model, its schema and the scales of its noise, which
are released. Only the curator's edition of a report passes findings from real rows to `make_verdict`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from weft.display import format_count
from weft.encoding import Codec
from weft.marginals.domain import Clique
from weft.marginals.marginal import Array, Measured
from weft.marginals.noise_error import compute_projected_error, group_cells_by_size
from weft.marginals.pooling import compute_pooled_sigma
from weft.models.arranged import unwrap_arrangement
from weft.models.recoded import RecodedModel
from weft.schema import Schema
from weft.schema.kinds.kind import Column
from weft.synthesis.fitted import Fitted
from weft.synthesis.statement import FAINT, is_row_count_faint

if TYPE_CHECKING:
    from weft.synthesis.database_model import FittedDatabase

Grade = Literal["usable", "usable with care", "not usable"]
GRADES: tuple[Grade, ...] = ("usable", "usable with care", "not usable")
"""Best first."""

MISPLACED = (0.05, 0.20)
"""Share of the rows in a wrong place, by noise or in fact, from which a column needs care, and is not usable."""
UNLISTED = (0.02, 0.50)
"""The same for the share of values that are not kept."""
PILED = (0.05, 0.25)
"""The same for the share of values that are moved to an end of the range."""
PILED_AT_FOUND = (0.05, 0.60)
"""The same where discovery found the range: it holds nearly all values, so most rows at its end are values there."""
MERGED = 0.10
"""Share of rows with merged values from which a column needs care."""
NEARLY_ALL = 0.995
"""Share of the rows from which a column with further values counts as emptied."""
LITTLE_BEYOND = 0.02
"""Share of rows beyond the contribution bound that is not worth a caution."""
RANGES = 32
"""Numbers and dates with more values than this are binned into this many ranges."""


@dataclass(frozen=True)
class Finding:
    """Something that limits the use of a column."""

    grade: Grade
    reason: str


@dataclass(frozen=True)
class Verdict:
    """Whether a column can be used, and the reasons, the gravest first."""

    column: str
    grade: Grade
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.column}: {self.grade}" + (f": {'; '.join(self.reasons)}" if self.reasons else "")


Findings = dict[str, list[Finding]]
Marginal = Callable[[Clique], Array]


def summarise_grades(grades: Sequence[str]) -> str:
    """State how many columns can be used, each by itself.

    >>> summarise_grades(["usable", "usable", "not usable"])
    '2 of 3 columns usable, 1 not usable'
    """
    told = [f"{grades.count('usable')} of {format_count(len(grades), 'column')} usable"]
    rest = {"with care": "usable with care", "not usable": "not usable"}
    return ", ".join(told + [f"{grades.count(grade)} {said}" for said, grade in rest.items() if grade in grades])


def grade_share(share: float, limits: tuple[float, float]) -> Grade:
    """Return the grade of a column by a share of its rows that is wrong."""
    return GRADES[sum(share >= limit for limit in limits)]


def make_verdict(column: str, findings: Iterable[Finding]) -> Verdict:
    """Return the verdict of a column: the worst grade of its findings.

    >>> str(make_verdict("age", [Finding("usable", "a"), Finding("not usable", "b")]))
    'age: not usable: b; a'
    """
    worst = sorted(findings, key=lambda found: -GRADES.index(found.grade))
    return Verdict(column, worst[0].grade if worst else "usable", tuple(dict.fromkeys(found.reason for found in worst)))


def make_verdicts(schema: Schema, found: Mapping[str, Sequence[Finding]]) -> tuple[Verdict, ...]:
    """Return the verdicts of all columns of a table; a derived column is as usable as the columns it comes from."""
    made = {c.name: make_verdict(c.name, found.get(c.name, ())) for c in schema.columns if c.in_table}
    for column in schema.columns:
        sources = [made[name] for name in getattr(column, "made_from", ()) if name in made]
        if column.name in made and any(source.grade != "usable" for source in sources):
            worst = max(sources, key=lambda source: GRADES.index(source.grade))
            told = Finding(worst.grade, f"it depends on {worst.column}, which is {worst.grade}")
            made[column.name] = make_verdict(column.name, [told, *found.get(column.name, ())])
    return tuple(made.values())


def judge_columns(fitted: Fitted) -> tuple[Verdict, ...]:
    """Return the verdict of each column of a release."""
    return make_verdicts(fitted.schema, collect_findings(fitted, noise=True))


def collect_findings(fitted: Fitted, *, noise: bool) -> Findings:
    """Return what limits the use of each column; with `noise`, also the expected error of its one-way marginal."""
    if is_row_count_faint(fitted):
        return {column.name: [Finding("not usable", FAINT)] for column in fitted.schema.modelled}
    found = find_losses(fitted.schema, fitted.codec, fitted.model.marginal, fitted.codec.domain)
    for name, share in _find_merged_shares(fitted).items():
        told = f"rare values, with about {share:.0%} of the rows, share one set of relations to other columns"
        found.setdefault(name, []).append(Finding("usable with care", told))
    people, bound = fitted.people, fitted.ledger.adjacency.rows_per_unit
    beyond = 0.0 if people is None else 1 - 1 / max(people.ratio_of_all_rows(bound), 1.0)
    if beyond > LITTLE_BEYOND and fitted.schema.unit is not None:
        told = (
            f"about {beyond:.0%} of the rows exceed the contribution bound of {format_count(bound, 'row')} per person; "
            "which of a person's rows were used was chosen at random"
        )
        found.setdefault(fitted.schema.unit, []).append(Finding("usable with care", told))
    _add_limits(found, fitted)
    return _add_noise(found, fitted) if noise else found


def _add_limits(found: Findings, fitted: Fitted) -> None:
    for name, told in fitted.limits:
        found.setdefault(name, []).append(Finding("usable with care", told))


def _add_noise(found: Findings, fitted: Fitted) -> Findings:
    for name, error in estimate_errors(fitted).items():
        if error >= MISPLACED[0]:
            told = f"noise alone is expected to misplace {error:.1%} of its rows"
            found.setdefault(name, []).append(Finding(grade_share(error, MISPLACED), told))
    for name, groups in find_smoothed(fitted).items():
        told = f"noise hides detail within {format_count(groups, 'group')} of values: there, counts are smoothed"
        found.setdefault(name, []).append(Finding("usable with care", told))
    return found


def find_smoothed(fitted: Fitted) -> dict[str, int]:
    """Return the columns of numbers and dates whose detail noise hides, with the numbers of groups that it leaves.

    Measurements of fewer cells than RANGES do not resolve that many ranges; those of more cells have the noise of
    several cells in each.
    """
    model, index, made = unwrap_arrangement(fitted.model), by_column(fitted.measured), dict[str, int]()
    if not isinstance(model, RecodedModel):
        return made
    for part in fitted.codec.parts:
        for name in (name for name in part.domain if name in model.maps and model.domain.order(name).ordered):
            alone = [found for found in index.get(name, ()) if len(found.clique) == 1 and found.cells >= RANGES]
            precision = sum(RANGES / (found.cells * found.sigma**2) for found in alone)
            counts = np.maximum(np.asarray(model.marginal((name,)), np.float64), 0)
            even = np.full(RANGES, counts.sum() / RANGES)
            merged = counts[model.maps[name].merged].sum() / max(counts.sum(), 1e-9)
            if alone and merged >= MERGED and compute_expected_tvd(even, precision**-0.5) >= MISPLACED[1]:
                made |= dict.fromkeys(part.columns, model.maps[name].size)
    return made


def judge_tables(fitted: FittedDatabase) -> dict[str, tuple[Verdict, ...]]:
    """Return the verdicts on the columns of related tables, or of histories, by table."""
    made = {}
    for table in fitted.database.private:
        model = fitted.models[table.name]
        found = find_losses(table.schema, fitted.codecs[table.name], model.marginal, model.domain)
        view = fitted.view(table.name)
        _add_limits(found, view)
        made[table.name] = make_verdicts(table.schema, _add_noise(found, view))
    return made


def find_losses(schema: Schema, codec: Codec, marginal: Marginal | None = None, known: Container[str] = ()) -> Findings:
    """Return what a release lost of each column: values that are not listed, moved values, emptied columns.

    `marginal` returns the noisy counts of the `known` attributes; of others, only what the schema records is known.
    """
    found: Findings = {}
    for column in schema.modelled:
        counts = None
        if marginal is not None and column.name in codec.domain and column.name in known:
            counts = np.asarray(marginal((column.name,)), np.float64)
        told = _find_unlisted(column, codec, counts)
        if counts is not None and not told:
            told = _find_emptied(column, counts) or _find_piled(column, codec, counts)
        if told:
            found[column.name] = told
    return found


def _find_unlisted(column: Column, codec: Codec, counts: Array | None) -> list[Finding]:
    """Find values that were not kept: those that are not listed, and those that could not be read."""
    share, other = column.lost_share, getattr(column, "other", None)
    if other is None or column.kind != "category":
        told = f"about {share:.1%} of the values could not be read as {column.kind} and appear as missing"
        return [Finding(grade_share(share, UNLISTED), told)] if share > 0 else []
    if counts is not None and column.outside == "other":  # more accurate than discovery
        part = codec.part(column.name)
        place = [str(label) for label in part.labels()[part.domain.index(column.name)]].index(str(other))
        share = float(counts[place] / max(counts.sum(), 1.0))
    told = f'about {share:.1%} of the values are not listed and appear as "{other}"'
    grade: Grade = "not usable" if share > NEARLY_ALL else grade_share(share, UNLISTED)
    return [Finding(grade, told)] if share >= UNLISTED[0] or column.lost_share > 0 else []


ONE_VALUE = "only one value was found; values with few rows cannot be told from noise"


def _find_emptied(column: Column, counts: Array) -> list[Finding]:
    grade: Grade = "not usable" if column.paid else "usable with care"
    listed = set(getattr(column, "values", ())) - {getattr(column, "other", None)}
    if len(counts) == 1 or (len(listed) == 1 and "values" in column.paid):
        return [Finding(grade, ONE_VALUE)] if {"range", "values"} & set(column.paid) else []
    if counts.sum() > 0 and counts.max() > NEARLY_ALL * counts.sum():
        return [Finding(grade, "nearly all synthetic rows have the same value; others are too rare for this budget")]
    return []


def _find_piled(column: Column, codec: Codec, counts: Array) -> list[Finding]:
    """Find values that were moved to an end of the range: many more rows there than next to it, except at zero."""
    order, part = codec.domain.order(column.name), codec.part(column.name)
    inside = [code for code in range(len(counts)) if code not in order.apart]
    if column.outside != "clip" or not order.ordered or len(inside) < 4:
        return []
    labels, told = part.labels()[part.domain.index(column.name)], []
    for end, near, value in ((inside[0], inside[1], labels[inside[0]].low), (inside[-1], inside[-2], "")):
        share = float((counts[end] - counts[near]) / max(counts.sum(), 1.0))
        if share >= PILED[0] and value not in ("0", "0.0"):
            text = f"about {share:.0%} of the values are at {labels[end]}, where values beyond the range are moved"
            limits = PILED_AT_FOUND if "range" in column.paid else PILED
            told.append(Finding(grade_share(share, limits), text))
    return told


def _find_merged_shares(fitted: Fitted) -> dict[str, float]:
    """Return the share of rows with merged values of unordered columns, where it is large."""
    model, found = unwrap_arrangement(fitted.model), {}
    if isinstance(model, RecodedModel) and model.relates_columns:
        for name, codes in model.maps.items():
            if name in fitted.schema and not fitted.codec.domain.order(name).ordered and len(codes.merged):
                counts = np.asarray(fitted.model.marginal((name,)), np.float64)
                share = float(counts[codes.merged].sum() / max(counts.sum(), 1.0))
                if share >= MERGED:
                    found[name] = share
    return found


def compute_expected_tvd(counts: Array, sigma: float) -> float:
    """Compute the expected total variation of a noisy table, projected to non-negative counts of the same sum."""
    total = float(np.sum(counts))
    if total <= 0 or not math.isfinite(sigma):
        return 0.0 if total <= 0 else 1.0
    if sigma <= 0:
        return 0.0
    error = compute_projected_error(
        group_cells_by_size([np.asarray(counts, np.float64)], np.size(counts)), np.array([sigma]), whole=True
    )
    return min(1.0, float(error[0, 0]) / (2 * total))


def by_column(measured: Iterable[Measured]) -> dict[str, list[Measured]]:
    """Group the measured marginals by the attributes that they contain."""
    index: dict[str, list[Measured]] = {}
    for table in measured:
        for name in table.clique:
            index.setdefault(name, []).append(table)
    return index


def compute_combined_sigma(columns: Clique, index: Mapping[str, Sequence[Measured]]) -> float | None:
    """Return the noise per cell over `columns`, pooled over all marginals that contain them; None if none does."""
    sigma = compute_pooled_sigma(columns, index.get(columns[0], ()))
    return sigma if math.isfinite(sigma) else None


def estimate_errors(fitted: Fitted) -> dict[str, float]:
    """Estimate the share of rows that noise alone misplaces, by column: the largest of its attributes."""
    codec, index, errors = fitted.codec, by_column(fitted.measured), dict[str, float]()
    for part in codec.parts:
        for name in part.domain:
            sigma = compute_combined_sigma((name,), index) if name in codec.domain else None
            if sigma is not None:
                counts = np.asarray(fitted.model.marginal((name,)), np.float64)
                if codec.domain.order(name).ordered and len(counts) > RANGES:
                    starts = np.linspace(0, len(counts), RANGES, endpoint=False).astype(int)
                    counts = np.add.reduceat(counts, starts)
                error = compute_expected_tvd(counts, sigma)
                errors |= {column: max(error, errors.get(column, 0.0)) for column in part.columns}
    return errors


MAX_POINTS = 3
LARGE = 0.02
"""Share of misplaced rows from which a usable column is listed as a weakness."""


@dataclass(frozen=True)
class Points:
    """Strengths and weaknesses of a release, one line each, shown at the end of a run."""

    best: tuple[str, ...]
    worst: tuple[str, ...]


def describe_points(fitted: Fitted) -> Points:
    """List the columns with the least noise and those that need care, and state how many pairs were measured."""
    errors, verdicts = estimate_errors(fitted), judge_columns(fitted)
    limited = sorted((v for v in verdicts if v.grade != "usable"), key=lambda v: -GRADES.index(v.grade))
    named = {verdict.column for verdict in limited}
    ranked = sorted((name for name in errors if name not in named), key=lambda name: errors[name])
    half = len(ranked) // 2
    best = [_describe_noise_error(name, errors[name]) for name in ranked[: min(MAX_POINTS, max(1, half))]]
    worst = [*map(str, limited)]
    worst += [_describe_noise_error(name, errors[name]) for name in ranked[::-1][:half] if errors[name] >= LARGE]
    pairs = _count_measured_pairs(fitted)
    if pairs is not None:
        measured, every = pairs
        share = f"{measured:,} of {format_count(every, 'attribute pair')} were measured"
        (best if measured * 2 >= every else worst).insert(0, share if measured else "no attribute pair was measured")
    return Points(tuple(best[:MAX_POINTS]), tuple(worst[: max(MAX_POINTS, len(limited) + 1)]))


def _count_measured_pairs(fitted: Fitted) -> tuple[int, int] | None:
    """Return the number of attribute pairs that were measured, and of all pairs; None where this is not released."""
    names = fitted.codec.domain.names
    every = len(names) * (len(names) - 1) // 2
    if fitted.ledger.parts or fitted.model.fixed_records or not every:
        return None
    seen = {(a, b) for table in fitted.measured for a in table.clique for b in table.clique if a < b}
    return len(seen), every


def _describe_noise_error(name: str, error: float) -> str:
    return f"{name}: noise misplaces about {max(error, 0.001):.1%} of the rows"
