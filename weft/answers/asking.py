"""Ask a fitted model how many rows there are of each combination of values: post-processing, at no further cost.

Three ways, the first that can: released tables that have all the columns, combined with the right variance (`pooled`);
what the model expects, where it was not measured; and synthetic rows, counted, where codes do not tell what is asked (a
derived column, a condition inside a bin).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from weft.answers import words
from weft.answers.bins import Shown, bins_of, shown
from weft.answers.counts import Counts, Source
from weft.answers.layout import Layout
from weft.answers.pooled import Axis, Pooled, pooled
from weft.answers.rows import by_values, counted_rows
from weft.codec.evidence import decided
from weft.errors import ConditionError, MethodError
from weft.marginals.domain import Clique, clique
from weft.marginals.marginal import Array
from weft.marginals.records import Records
from weft.models import answered
from weft.models.arranged import sources
from weft.models.recoded import RecodedModel
from weft.release.modelfile import Fitted
from weft.schema.kinds.base import suggestion
from weft.schema.kinds.id import Id
from weft.schema.rules.condition import Conditions
from weft.schema.rules.where import Where, read_where, written

MOST_BINS = 20
"""Bins of a column with many ordered values, unless more or fewer are asked for."""

MOST_CELLS = 200_000
"""Cells of an answer: what is larger nobody reads."""

MOST_MODEL_CELLS = 1 << 22
"""Cells of a table that the model is asked for; past it rows are counted."""

ROUND = 4
"""Codes a bin that are fine enough to cut bins with round ends from."""


def ask(fitted: Fitted, columns: Sequence[str], where: Where | None = None, bins: int = MOST_BINS) -> Counts:
    """Count rows by some columns, or all rows; ConditionError, MethodError for what cannot be asked."""
    question = Question(fitted, tuple(columns), where, bins)
    return question.measured() or question.expected() or question.counted()


@dataclass(frozen=True)
class Question:
    """What is asked of which model."""

    fitted: Fitted
    columns: tuple[str, ...]
    where: Where | None
    most: int

    def __post_init__(self) -> None:
        schema = self.fitted.schema
        for name in self.columns:
            if name not in schema:
                near = suggestion(name, [column.name for column in schema.columns])
                raise MethodError(f'the model has no column "{name}".{near}')
            if isinstance(schema.column(name), Id):
                raise MethodError(f'column "{name}" is an id, which is made anew: nothing can be counted by it')
        if len(set(self.columns)) < len(self.columns):
            raise MethodError("a column is named twice: name each once")
        if self.most < 2:
            raise MethodError(f"{self.most} bins are too few to count in: choose at least 2")
        self._conditions  # noqa: B018 (conditions that are none are refused first)

    @cached_property
    def _conditions(self) -> Conditions:
        return () if self.where is None else read_where(self.where, self.fitted.codec.readers)

    @cached_property
    def _shown(self) -> list[Shown] | None:
        """The columns as codes; None if one is not."""
        found = [shown(self.fitted.codec, name) for name in self.columns]
        return None if any(one is None for one in found) else [one for one in found if one is not None]

    @cached_property
    def _allowed(self) -> Mapping[str, Array] | None:
        """Which codes meet the conditions; None where codes do not tell."""
        allowed = decided(self._conditions, self.fitted.codec)
        for name, met in (allowed or {}).items():
            if not met.any():
                raise ConditionError(f"no row can have these values of {name}; relax a condition")
        return allowed

    @property
    def _random(self) -> list[str]:
        """The columns asked about, or what they are made from in turn, that a plan of marginals has left to chance."""
        schema, told_by = self.fitted.schema, sources(self.fitted.model)
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
        return clique([*(one.attribute for one in self._shown), *self._allowed])

    def measured(self) -> Counts | None:
        """Combine released tables; None if no table has all that is asked."""
        attributes = self._attributes
        if attributes is None or self.fitted.model.fixed_records:
            return None
        domain = self.fitted.codec.domain
        sizes = {name: domain.size(name) for name in attributes}
        codings: dict[bytes, dict[str, Array]] = {}
        for held in self.fitted.released:
            if set(attributes) <= set(held.clique):
                coding = {name: np.asarray(held.codes(name, sizes[name]), np.int64) for name in attributes}
                codings[b"".join(codes.tobytes() for codes in coding.values())] = coding
        best: tuple[tuple[float, float], Layout, Pooled] | None = None
        for coding in codings.values():
            layout = self._layout(coding)
            if layout is None:
                continue
            found = pooled(self.fitted.released, layout.axes(coding), sizes)
            if found.missing:
                continue
            # Codes fine enough for bins with round ends come first, then the smaller error.
            fine = sum(min(int(codes.max()) + 1, ROUND * self.most) for codes in coding.values())
            rank = (float(fine), -float(found.variance.mean()))
            if best is None or rank > best[0]:
                best = (rank, layout, found)
        if best is None:
            return None
        _, layout, found = best
        return self._made(layout, found.counts, found.variance, "measured", words.measured(self.fitted))

    def expected(self) -> Counts | None:
        """Take what the model expects, with the noise of what was measured; None if that would be too large a table."""
        attributes = self._attributes
        if attributes is None:
            return None
        model, domain = self.fitted.model, self.fitted.codec.domain
        maps = model.maps if isinstance(model, RecodedModel) else {}
        inner = model.inner if isinstance(model, RecodedModel) else model
        if inner.domain.cells(attributes) > MOST_MODEL_CELLS:
            return None
        layout = self._layout({name: np.arange(domain.size(name)) for name in attributes})
        assert layout is not None
        coding = {name: maps[name].codes if name in maps else np.arange(domain.size(name)) for name in attributes}
        shares = {name: maps[name].shares() for name in attributes if name in maps}
        axes = layout.axes(coding, shares)
        table, records = answered(inner, attributes)
        counts = np.asarray(table, np.float64)
        for place, name in enumerate(attributes):
            counts = axes[name].binned(counts, place)
        sampling = np.zeros(counts.shape)
        if records:
            part = np.clip(counts / max(model.total, 1e-300), 0.0, 1.0)
            sampling = np.maximum(part * (1 - part), 1 / records) / records * model.total**2
        told = pooled(self.fitted.released, axes, {name: domain.size(name) for name in attributes})
        noise = np.maximum(told.variance, self._propagated(axes, counts))
        meaning = words.expected(self.fitted, records, told.missing)
        return self._made(layout, counts, noise + sampling, "model", meaning)

    def _propagated(self, axes: Mapping[str, Axis], counts: Array) -> Array:
        """Return the variance that the noise of single columns would give each cell, were it a product of them.

        A model multiplies where `pooled` adds: a large cell is off by as large a part as the columns are that make it.
        """
        sizes = {name: self.fitted.codec.domain.size(name) for name in axes}
        relative = np.zeros(counts.shape)
        for place, name in enumerate(sorted(axes)):
            alone = counts.sum(axis=tuple(i for i in range(counts.ndim) if i != place))
            spread = pooled(self.fitted.released, {name: axes[name]}, sizes).variance
            part = spread / np.maximum(np.maximum(alone**2, spread), 1e-300)
            relative += part.reshape([-1 if i == place else 1 for i in range(counts.ndim)])
        return counts**2 * relative

    def counted(self) -> Counts:
        """Count synthetic rows."""
        table, keep, made = counted_rows(self.fitted, self._conditions)
        codes, labels = [], []
        records: Records | None = None
        for name in self.columns:
            asked = shown(self.fitted.codec, name)
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
        _check_cells(shape)
        cell = np.ravel_multi_index([c[keep] for c in codes], shape) if codes else np.zeros(keep.sum(), np.int64)
        part = np.bincount(cell, minlength=int(np.prod(shape))).reshape(shape) / made
        total = self.fitted.model.total
        error = np.sqrt(np.maximum(part * (1 - part), 1 / made) / made) * total
        meaning = words.counted(self.fitted, made)
        return self._counts(tuple(labels), part * total, error, "rows", meaning)

    def _layout(self, coding: Mapping[str, Array]) -> Layout | None:
        """Return bins that cut no code of a coding; None if the columns or conditions do."""
        assert self._shown is not None
        assert self._allowed is not None
        for name, met in self._allowed.items():
            if not _whole(coding[name], met):
                return None
        columns = []
        for one in self._shown:
            found = bins_of(one, coding[one.attribute], self.most)
            if found is None:
                return None
            columns.append(found.only(self._allowed.get(one.attribute)))
        _check_cells([len(found.labels) for found in columns])
        return Layout(tuple(self._shown), tuple(columns), self._allowed)

    def _made(self, layout: Layout, counts: Array, variance: Array, source: Source, meaning: str) -> Counts:
        labels = tuple(found.labels for found in layout.columns)
        return self._counts(labels, layout.shape_of(counts), np.sqrt(layout.shape_of(variance)), source, meaning)

    def _counts(
        self, labels: tuple[tuple[str, ...], ...], counts: Array, error: Array, source: Source, meaning: str
    ) -> Counts:
        stamps = self.fitted.ledger.stamps
        # What was measured is told, whatever records have instead of it.
        if source != "measured" and (random := self._random):
            error, meaning = np.full(error.shape, max(self.fitted.model.total, 1.0)), words.random(random)
        told = tuple(written(self._conditions))
        return Counts(self.columns, labels, counts, error, source, meaning, told, tuple(stamps))


def _whole(coding: Array, met: Array) -> bool:
    """Whether a condition takes every code of a coding whole, or not at all."""
    inside = np.bincount(coding, weights=met)
    return bool(((inside == 0) | (inside == np.bincount(coding))).all())


def _check_cells(shape: Sequence[int]) -> None:
    if int(np.prod(np.array(shape, object))) > MOST_CELLS:
        raise MethodError(
            f"the answer would have {int(np.prod(np.array(shape, object))):,} cells, above {MOST_CELLS:,}: name fewer "
            "columns, or fewer bins (--bins)"
        )
