"""Answer counting queries from a fitted model: the number of rows for each combination of values.

The first possible source is used: released marginals over all columns of the query, pooled with their exact variance
(`pool_released_counts`); expected counts of the model, for columns that were not measured together; counts of
synthetic rows, for queries that codes cannot answer (a derived column, a condition that splits a bin).

Privacy: post-processing of released measurements, at no further cost.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from weft.encoding.condition_codes import select_condition_codes
from weft.errors import ConditionError, MethodError
from weft.evaluation import query_counts as words
from weft.evaluation.pooled_counts import Axis, Pooled, pool_released_counts
from weft.evaluation.query_counts import (
    CodeBins,
    Counts,
    Shown,
    Source,
    bins_of,
    find_bin_start,
    round_width,
    view_column_codes,
)
from weft.marginals.domain import Clique, make_clique
from weft.marginals.marginal import Array
from weft.marginals.records import Records
from weft.models import answer_from_model
from weft.models.arranged import find_measured_sources
from weft.models.recoded import RecodedModel
from weft.schema.kinds.identifier import Id
from weft.schema.kinds.kind import Column, suggest_known_word
from weft.schema.rules.conditions import Conditions, Where, all_hold, read_where, write_conditions
from weft.synthesis.database_model import SizeWeights
from weft.synthesis.fitted import Fitted
from weft.synthesis.synthesizer import MAX_QUERY_BINS
from weft.values.storage import decode_dictionary


@dataclass(frozen=True)
class AnswerLayout:
    """Map from attribute codes to the cells of an answer."""

    shown: tuple[Shown, ...]
    columns: tuple[CodeBins, ...]
    allowed: Mapping[str, Array]

    def attribute_bins(self, name: str) -> tuple[Array, int]:
        """Return the cell of each code of an attribute (-1: excluded by a condition), and the number of cells."""
        own = [found for one, found in zip(self.shown, self.columns, strict=True) if one.attribute == name]
        shape = tuple(len(found.labels) for found in own)
        met = self.allowed.get(name)
        size = len(own[0].codes) if own else len(met if met is not None else ())
        cells = np.ravel_multi_index([found.codes for found in own], shape) if own else np.zeros(size, np.int64)
        return np.where(met, cells, -1) if met is not None else cells, int(np.prod(shape))

    def axes(self, coding: Mapping[str, Array], shares: Mapping[str, Array] | None = None) -> dict[str, Axis]:
        """Return an axis for each attribute; `shares` divide a working code that lies in several bins."""
        made = {}
        for name, codes in coding.items():
            cells, size = self.attribute_bins(name)
            many = int(codes.max()) + 1
            each = 1.0 / np.bincount(codes, minlength=many)[codes]
            parts = (shares or {}).get(name, each)
            kept = cells >= 0
            bins = sparse.coo_array((parts[kept], (cells[kept], codes[kept])), shape=(size, many))
            made[name] = Axis(codes, many, bins.tocsr())
        return made

    def shape_of(self, table: Array) -> Array:
        """Transpose a table from attribute axes to the query's columns, in their order."""
        names = sorted({*(one.attribute for one in self.shown), *self.allowed})
        at = {name: [i for i, one in enumerate(self.shown) if one.attribute == name] for name in names}
        order = list(itertools.chain.from_iterable(at.values()))
        whole = table.reshape([len(self.columns[i].labels) for i in order])
        return np.transpose(whole, np.argsort(order))


ROWS = 200_000
"""Number of synthetic rows that are sampled and counted."""

MAX_VALUES = 50
"""Maximum number of distinct values counted separately, unless more bins are requested."""


def draw_counted_rows(fitted: Fitted, conditions: Conditions) -> tuple[pa.Table, Array, int]:
    """Sample rows with a fixed seed; return them, a mask of those that satisfy the conditions, and their number."""
    rng = np.random.default_rng(0)
    made = int(fitted.model.total) if fitted.model.fixed_records else ROWS
    table = fitted.codec.decode(fitted.model.sample(made, rng), rng)
    met = all_hold(conditions, fitted.codec.block(table)) if conditions else np.ones(len(table), bool)
    return table, met, made


def by_values(column: pa.ChunkedArray, most: int) -> CodeBins:
    """Return bins of a column without codes: its values, round intervals of many numbers, or the common values."""
    array = decode_dictionary(column.combine_chunks())
    kinds = pc.value_counts(array)
    values, counts = kinds.field("values"), kinds.field("counts").to_numpy()
    if len(values) > most and (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        return _bin_numbers(array, most)
    if len(values) > most and pa.types.is_temporal(array.type) and not pa.types.is_duration(array.type):
        return _bin_days(array, most)
    ranked = np.argsort(-counts, kind="stable")[: max(most, MAX_VALUES)]
    named: list[Any] = values.take(pa.array(np.sort(ranked))).to_pylist()
    named = sorted(named, key=lambda value: (value is None, str(value) if isinstance(value, str) else value))
    place = pc.index_in(array, pa.array(named, array.type))
    labels = ["missing" if value is None else str(value) for value in named]
    codes = place.fill_null(len(labels)).to_numpy(zero_copy_only=False).astype(np.int64)
    if (codes == len(labels)).any():
        labels.append(f"{len(values) - len(named):,} rarer values together")
    return CodeBins(codes, tuple(labels))


def _bin_numbers(array: pa.Array, most: int) -> CodeBins:
    missing = pc.is_null(array, nan_is_null=True).to_numpy(zero_copy_only=False)
    numbers = np.where(missing, np.nan, array.cast(pa.float64()).to_numpy(zero_copy_only=False))
    low, high = float(np.nanmin(numbers)), float(np.nanmax(numbers))
    width = round_width(low, high, most)
    first = find_bin_start(low, width)
    many = find_bin_start(high, width) - first + 1
    codes = np.where(missing, many, np.floor(np.where(missing, low, numbers) / width + 1e-9) - first).astype(np.int64)
    ends = [(first + i) * width for i in range(many + 1)]
    close = 1 if pa.types.is_integer(array.type) else 0
    labels = [f"{a:,.10g} to {b - close:,.10g}" for a, b in pairwise(ends)]
    return CodeBins(codes, (*labels, *(["missing"] if missing.any() else [])))


def _bin_days(array: pa.Array, most: int) -> CodeBins:
    missing = pc.is_null(array).to_numpy(zero_copy_only=False)
    days = array.cast(pa.timestamp("us")).cast(pa.date32(), safe=False) if pa.types.is_timestamp(array.type) else array
    numbers = days.cast(pa.date32()).cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    there = numbers[~missing]
    low, high = (int(there.min()), int(there.max())) if len(there) else (0, 0)
    width = -(-(high - low + 1) // most)
    many = (high - low) // width + 1
    codes = np.where(missing, many, (numbers - low) // width)
    starts = [low + i * width for i in range(many)]
    labels = [f"{np.datetime64(a, 'D')} to {np.datetime64(min(a + width - 1, high), 'D')}" for a in starts]
    return CodeBins(codes, (*labels, *(["missing"] if missing.any() else [])))


DEFAULT_BINS = MAX_QUERY_BINS
"""Default number of bins of a column with many ordered values."""

MAX_ANSWER_CELLS = 200_000

MAX_MODEL_CELLS = 1 << 22
"""Maximum number of cells of a marginal computed from the model; for larger ones, synthetic rows are counted."""

POOLED_SIZES = 0.5
"""How far the mean size of pooled families may be off in a cell, in standard deviations of these sizes."""

ROUND = 4
"""Codes per bin that suffice for bins with round limits: finer codings are not preferred."""


def answer_query(
    fitted: Fitted, columns: Sequence[str], where: Where | None = None, bins: int = DEFAULT_BINS
) -> Counts:
    """Count the rows by some columns (none: all rows); ConditionError or MethodError if the query is invalid."""
    question = Question(fitted, tuple(columns), where, bins)
    return question.measured() or question.expected() or question.counted()


@dataclass(frozen=True)
class Question:
    """A counting query to a fitted model."""

    fitted: Fitted
    columns: tuple[str, ...]
    where: Where | None
    most: int

    def __post_init__(self) -> None:
        for name in self.columns:
            if isinstance(self._find_column(name), Id):
                raise MethodError(f'column "{name}" contains generated ids and cannot be counted. Omit it')
        if len(set(self.columns)) < len(self.columns):
            raise MethodError("a column is named twice. Name each column once")
        if isinstance(self.most, bool) or not isinstance(self.most, int):
            raise MethodError(f"bins must be an integer such as {DEFAULT_BINS}, not a {type(self.most).__name__}")
        if self.most < 2:
            raise MethodError(f"invalid number of bins: {self.most}. Choose at least 2")
        self._conditions  # noqa: B018 (refuses invalid conditions first)

    def _find_column(self, name: str) -> Column:
        schema = self.fitted.schema
        if name not in schema:
            near = suggest_known_word(name, [column.name for column in schema.columns])
            raise MethodError(f'the model has no column "{name}".{near}')
        return schema.column(name)

    @cached_property
    def _weights(self) -> Mapping[str, SizeWeights] | None:
        """Weights with which counts by family sizes add up to rows; None if they do not."""
        return {}

    @cached_property
    def _conditions(self) -> Conditions:
        return () if self.where is None else read_where(self.where, self.fitted.codec.readers)

    @cached_property
    def _shown(self) -> list[Shown] | None:
        """The columns as codes; None if one has no codes."""
        found = [view_column_codes(self.fitted.codec, name) for name in self.columns]
        return None if any(one is None for one in found) else [one for one in found if one is not None]

    @cached_property
    def _allowed(self) -> Mapping[str, Array] | None:
        """Mask of the codes that satisfy the conditions, by attribute; None if codes do not determine it."""
        allowed = select_condition_codes(self._conditions, self.fitted.codec)
        for name, met in (allowed or {}).items():
            if not met.any():
                raise ConditionError(f"no value of {name} satisfies the conditions. Relax a condition")
        return allowed

    @property
    def _random(self) -> list[str]:
        """Columns of the query, and their sources, that a marginal plan generates at random."""
        schema, told_by = self.fitted.schema, find_measured_sources(self.fitted.model)
        found: dict[str, None] = {}
        waiting = [*self.columns, *(name for name, _ in self._conditions)]
        while waiting:
            new = [name for name in dict.fromkeys(waiting) if name not in found]
            found |= dict.fromkeys(new)
            waiting = [each for name in new for each in schema.column(name).made_from]
        return [name for name in found if told_by.get(name, name) is None]

    @property
    def _attributes(self) -> Clique | None:
        if self._shown is None or self._allowed is None:
            return None
        return make_clique([*(one.attribute for one in self._shown), *self._allowed])

    def measured(self) -> Counts | None:
        """Pool released marginals; None if they do not determine the answer."""
        attributes = self._attributes
        if attributes is None or self.fitted.model.fixed_records:
            return None
        domain = self.fitted.model.domain
        sizes = {name: domain.size(name) for name in attributes}
        codings: dict[bytes, dict[str, Array]] = {}
        for held in self.fitted.released:
            if set(attributes) <= set(held.clique):
                coding = {name: np.asarray(held.codes(name, sizes[name]), np.int64) for name in attributes}
                codings[b"".join(codes.tobytes() for codes in coding.values())] = coding
        best: tuple[tuple[float, float], AnswerLayout, Pooled] | None = None
        for coding in codings.values():
            layout = self._layout(coding)
            if layout is None:
                continue
            found = pool_released_counts(self.fitted.released, self._axes(layout, coding), sizes)
            if found.missing:
                continue
            # Prefer codes that are fine enough for bins with round limits, then the smaller variance.
            fine = sum(min(int(codes.max()) + 1, ROUND * self.most) for codes in coding.values())
            rank = (float(fine), -float(found.variance.mean()))
            if best is None or rank > best[0]:
                best = (rank, layout, found)
        if best is None:
            return None
        _, layout, found = best
        return self._made(layout, found.counts, found.variance, "measured", self._explain_measured())

    def _explain_measured(self) -> str:
        return words.explain_measured_range(self.fitted)

    def _explain_expected(self, records: int, missing: Sequence[Clique]) -> str:
        return words.explain_expected_range(self.fitted, records, missing)

    def _axes(
        self, layout: AnswerLayout, coding: Mapping[str, Array], shares: Mapping[str, Array] | None = None
    ) -> dict[str, Axis]:
        """Return the axes of an answer: the sizes of families are summed to rows."""
        weights = self._weights or {}
        axes = layout.axes({name: codes for name, codes in coding.items() if name not in weights}, shares)
        return axes | {name: sum_sizes(sizes, coding[name]) for name, sizes in weights.items()}

    def _estimate_unmeasured_variance(self) -> float:
        """Return the variance that stands for what was not measured; 0 where the range does not cover it."""
        return 0.0

    def expected(self) -> Counts | None:
        """Compute expected counts of the model, with measurement noise; None if the marginal is too large."""
        attributes = self._attributes
        if attributes is None:
            return None
        model, domain = self.fitted.model, self.fitted.model.domain
        maps = model.maps if isinstance(model, RecodedModel) else {}
        inner = model.inner if isinstance(model, RecodedModel) else model
        if inner.domain.cells(attributes) > MAX_MODEL_CELLS:
            return None
        layout = self._layout({name: np.arange(domain.size(name)) for name in attributes})
        assert layout is not None
        coding = {name: maps[name].codes if name in maps else np.arange(domain.size(name)) for name in attributes}
        shares = {name: maps[name].shares() for name in attributes if name in maps}
        axes = self._axes(layout, coding, shares)
        table, records = answer_from_model(inner, attributes)
        counts = np.asarray(table, np.float64)
        for place, name in enumerate(attributes):
            counts = axes[name].binned(counts, place)
        sampling = np.zeros(counts.shape)
        if records:
            most = model.total * math.prod(float(sizes.rows.max()) for sizes in (self._weights or {}).values())
            part = np.clip(counts / max(most, 1e-300), 0.0, 1.0)
            sampling = np.maximum(part * (1 - part), 1 / records) / records * most**2
        told = pool_released_counts(self.fitted.released, axes, {name: domain.size(name) for name in attributes})
        noise = np.maximum(told.variance, self._propagated(axes, counts)) + self._estimate_unmeasured_variance()
        meaning = self._explain_expected(records, told.missing)
        return self._made(layout, counts, noise + sampling, "model", meaning)

    def _propagated(self, axes: Mapping[str, Axis], counts: Array) -> Array:
        """Return the variance that the noise of one-way marginals gives each cell, as if it were their product.

        A model multiplies where `pool_released_counts` adds: the relative error of a large cell is that of its factors.
        """
        sizes = {name: self.fitted.model.domain.size(name) for name in axes}
        summed = {name: axes[name] for name in self._weights or {}}
        relative = np.zeros(counts.shape)
        for place, name in enumerate(sorted(axes)):
            alone = counts.sum(axis=tuple(i for i in range(counts.ndim) if i != place))
            spread = pool_released_counts(self.fitted.released, summed | {name: axes[name]}, sizes).variance.ravel()
            part = spread / np.maximum(np.maximum(alone**2, spread), 1e-300)
            relative += part.reshape([-1 if i == place else 1 for i in range(counts.ndim)])
        return counts**2 * relative

    def counted(self) -> Counts:
        """Count synthetic rows."""
        table, keep, made = draw_counted_rows(self.fitted, self._conditions)
        codes, labels = [], []
        records: Records | None = None
        for name in self.columns:
            asked = view_column_codes(self.fitted.codec, name)
            if asked is None:
                column = by_values(table.column(name), self.most)
                codes.append(column.codes)
                labels.append(column.labels)
                continue
            records = records or self.fitted.codec.encode(table)
            own = bins_of(asked, np.arange(len(asked.values)), self.most)
            assert own is not None
            codes.append(own.codes[records.column(asked.attribute)])
            labels.append(own.labels)
        shape = tuple(map(len, labels))
        check_answer_size(shape)
        cell = np.ravel_multi_index([c[keep] for c in codes], shape) if codes else np.zeros(keep.sum(), np.int64)
        part = np.bincount(cell, minlength=int(np.prod(shape))).reshape(shape) / made
        total = self.fitted.model.total
        error = np.sqrt(np.maximum(part * (1 - part), 1 / made) / made) * total
        meaning = words.explain_counted_range(self.fitted, made)
        return self._counts(tuple(labels), part * total, error, "rows", meaning)

    def _layout(self, coding: Mapping[str, Array]) -> AnswerLayout | None:
        """Return bins that do not split a code of a coding; None if the columns or conditions split one."""
        assert self._shown is not None
        assert self._allowed is not None
        for name, met in self._allowed.items():
            if not _respects_codes(coding[name], met):
                return None
        columns = []
        for one in self._shown:
            found = bins_of(one, coding[one.attribute], self.most)
            if found is None:
                return None
            columns.append(found.only(self._allowed.get(one.attribute)))
        check_answer_size([len(found.labels) for found in columns])
        return AnswerLayout(tuple(self._shown), tuple(columns), self._allowed)

    def _made(self, layout: AnswerLayout, counts: Array, variance: Array, source: Source, meaning: str) -> Counts:
        labels = tuple(found.labels for found in layout.columns)
        for sizes in (self._weights or {}).values():
            variance = variance + (POOLED_SIZES * sizes.spread * counts) ** 2
        return self._counts(labels, layout.shape_of(counts), np.sqrt(layout.shape_of(variance)), source, meaning)

    def _counts(
        self, labels: tuple[tuple[str, ...], ...], counts: Array, error: Array, source: Source, meaning: str
    ) -> Counts:
        stamps = self.fitted.ledger.stamps
        # A measured answer is valid even if the records have random values instead.
        if source != "measured" and (random := self._random):
            error, meaning = (
                np.full(error.shape, max(self.fitted.model.total, 1.0)),
                words.explain_random_counts(random),
            )
        told = tuple(write_conditions(self._conditions))
        return Counts(self.columns, labels, counts, error, source, meaning, told, tuple(stamps))


def sum_sizes(sizes: SizeWeights, codes: Array) -> Axis:
    """Return an axis with one bin: the rows that counts of the working codes of a family size stand for."""
    held, rows = (np.bincount(codes, of) for of in (sizes.counts, sizes.rows * sizes.counts))
    return Axis(codes, len(held), sparse.csr_array((rows / np.maximum(held, 1e-12))[None, :]))


def _respects_codes(coding: Array, met: Array) -> bool:
    """Return whether a condition selects each code of a coding entirely or not at all."""
    inside = np.bincount(coding, weights=met)
    return bool(((inside == 0) | (inside == np.bincount(coding))).all())


def check_answer_size(shape: Sequence[int]) -> None:
    """Refuse an answer of too many cells."""
    if int(np.prod(np.array(shape, object))) > MAX_ANSWER_CELLS:
        raise MethodError(
            f"the answer would have {int(np.prod(np.array(shape, object))):,} cells, above the maximum of "
            f"{MAX_ANSWER_CELLS:,}. Name fewer columns, or choose fewer bins (--bins)"
        )
