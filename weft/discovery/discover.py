"""What a schema does not state, found privately: kinds, then which texts repeat, then ranges and common values.

Each step opens the table with a schema of looks (`weft.discovery.looks`) and measures their single columns, as any
recipe does; only lists of values need a question of their own (`weft.curator.values`). What one step asks follows from
the released answers of those before it, and from the declared types, which are public (decision 002). So the whole is a
composition of the curator's questions, and its result may be shown to anybody: it has been paid for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from weft.codec import Codec
from weft.curator import Curator, ValueCurator
from weft.discovery.declared import declared_kind, finest, holds_text, measures, plain, require_steps
from weft.discovery.kinds import Decision, decide
from weft.discovery.looks import GridLook, grid_look, shape_look
from weft.discovery.ranges import NEAR, apart, extent, found_range
from weft.errors import BudgetError
from weft.marginals.marginal import NoisyMarginal
from weft.progress import Listener, silence, stage
from weft.schema import Column, Schema
from weft.schema.kinds import Unknown, column_from_dict
from weft.schema.naming import names_id
from weft.words import counted

KINDS, REPEATS = 0.15, 0.05
"""Parts of the share for kinds, and for how many different texts there are; the rest is for ranges and values."""

WEIGHT_VALUES = 4 / 3
"""What a list of values gets for one that a range gets: a value must rise above a threshold, not out of the noise."""

UNIQUE = 0.5
"""Different texts for each filled row, from which a column is an id or free text, and has no list of values."""

NAMED_UNIQUE = 0.9
"""The same of whole numbers that are named like an id."""

FIRST_LIST = 0.5
"""Part of the share for values with which all columns are listed; the rest is for those of which rows are left over."""

REST = 3.0
"""Noise, in standard deviations, above which rows are left over beside the values that were found."""

OTHER = "other"
"""What stands for values that too few rows share."""


@dataclass(frozen=True)
class Discovered:
    """A whole schema, and in words what was found of each column."""

    schema: Schema
    found: dict[str, str] = field(default_factory=dict)
    cost: Mapping[str, float] = field(default_factory=dict)
    """What it may have cost: epsilon and delta."""
    stamps: tuple[str, ...] = ()
    """Warnings that go with everything that its run releases."""


@dataclass(frozen=True)
class Counted:
    """How many rows have a value, and the noise of that."""

    count: int
    sigma: float


@dataclass(frozen=True)
class Doors:
    """How the recipe opens the table: with looks, or to list values, each a curator; or for its types alone."""

    types: Callable[[Schema], pa.Schema]
    look: Callable[[Schema], Curator]
    values: Callable[[Schema], ValueCurator]


def needs_slack(schema: Schema, types: Mapping[str, pa.DataType]) -> bool:
    """Whether values may have to be listed, which some of delta pays for."""
    return any(holds_text(types[column.name]) for column in schema.unknown)


def discover(
    schema: Schema,
    types: Mapping[str, pa.DataType],
    doors: Doors,
    share: float,
    slack: float,
    listener: Listener = silence,
) -> Discovered:
    """Find what is not stated, with a share of the budget and so much of its delta; `types` are the declared ones."""
    return _Discovery(schema, types, doors, share, slack, listener).run()


class _Discovery:
    """One discovery: what is known so far of the columns that were not stated."""

    def __init__(
        self,
        schema: Schema,
        types: Mapping[str, pa.DataType],
        doors: Doors,
        share: float,
        slack: float,
        listener: Listener,
    ) -> None:
        self._schema, self._doors, self._listener = schema, doors, listener
        self._types = {name: plain(kind) for name, kind in types.items()}
        self._share, self._slack = share, slack
        self._known: dict[str, Decision] = {c.name: self._declared(c) for c in schema.unknown}
        self._rows = 0.0

    def run(self) -> Discovered:
        """Ask step by step."""
        self._check()
        shaped = [name for name in self._known if self._is_shaped(name)]
        left = self._share
        if shaped:
            self._find_kinds(shaped, KINDS * self._share)
            left -= KINDS * self._share
        asked = [name for name, known in self._known.items() if known.need == "text" or self._maybe_id(name)]
        if asked:
            self._find_repeats(asked, REPEATS * self._share)
            left -= REPEATS * self._share
        ranged, listed = (
            [name for name, known in self._known.items() if known.need == need] for need in ("range", "values")
        )
        weight = len(ranged) + WEIGHT_VALUES * len(listed)
        if ranged:
            self._find_ranges(ranged, left * len(ranged) / weight)
        if listed:
            self._find_values(listed, left * WEIGHT_VALUES * len(listed) / weight)
        return self._finished()

    def _check(self) -> None:
        """Refuse what could be known before the first charge: types without a grid, rows that the schema refuses."""
        require_steps({name: known.entry for name, known in self._known.items()}, self._doors.types)
        ranged = [name for name, known in self._known.items() if known.need == "range"]
        looks = [grid_look(name, self._known[name].entry, self._types[name]).column for name in ranged]
        if looks:
            opened = self._opened(looks)
            Codec(opened, pa.schema([(column.name, self._types[column.name]) for column in opened.columns]))
        rest = [shape_look(name) for name, known in self._known.items() if known.need == "text"]
        whole = [*self._stated_columns(), *looks, *rest]
        if whole and not any(map(self._is_shaped, self._known)):  # else the first look reads all of this
            self._doors.look(self._opened(whole))

    def _stated_columns(self) -> list[Column]:
        return [column for column in self._schema.columns if not isinstance(column, Unknown)]

    # What the types say.

    def _declared(self, column: Unknown) -> Decision:
        stated, arrow_type = dict(column.stated), self._types[column.name]
        entry = {**declared_kind(arrow_type), **stated}
        if entry.get("kind") in _TOLD:
            return Decision(entry, "range")
        if entry.get("kind") == "category":
            if not holds_text(arrow_type):
                raise BudgetError(
                    f'column "{column.name}": values of a category are found in text, and its type is {arrow_type}; '
                    "state its values, or leave its kind out"
                )
            return Decision(entry, "text")
        if entry.get("kind") is None and not holds_text(arrow_type):
            raise BudgetError(
                f'column "{column.name}": nothing can be found out about its type {arrow_type}; leave the column out '
                'of the table, or describe the others in a schema with extra_columns = "ignore"'
            )
        return Decision(entry, "" if "kind" in entry else "text")

    def _is_shaped(self, name: str) -> bool:
        """Whether the shapes of a column's values have to be looked at: its kind, its decimals or its step is open."""
        entry, arrow_type = self._known[name].entry, self._types[name]
        if holds_text(arrow_type):
            return "kind" not in entry or (entry["kind"] == "datetime" and "format" not in entry)
        if pa.types.is_timestamp(arrow_type):
            return "step" not in entry
        return pa.types.is_floating(arrow_type) and entry.get("kind") == "real" and "decimals" not in entry

    # The steps.

    def _find_kinds(self, names: Sequence[str], share: float) -> None:
        looks = [shape_look(name) for name in names]
        noisy, sigma = self._measure([*self._stated_columns(), *looks], names, share, "kinds")
        self._rows = float(np.median([m.table.sum() for m in noisy.values()]))
        for name in names:
            found, before = decide(noisy[name].table, sigma), self._known[name]
            told = found.entry if holds_text(self._types[name]) else measures(found.entry)
            fits = "kind" not in before.entry or told.get("kind", before.entry["kind"]) == before.entry["kind"]
            entry = {**(told if fits else {}), **before.entry, **_missing(found.entry, before.entry)}
            self._known[name] = replace(found, entry=entry, need=before.need if "kind" in before.entry else found.need)

    def _maybe_id(self, name: str) -> bool:
        known = self._known[name]
        return known.entry.get("kind") == "integer" and "kind" not in self._stated(name) and names_id(name)

    def _find_repeats(self, names: Sequence[str], share: float) -> None:
        with stage(self._listener, "find texts that repeat"):
            curator = self._doors.values(self._opened([self._raw(name) for name in names]))
            different = curator.distinct(names, share)
            noise = NEAR * curator.sigma(share / len(names))
        for name, number in zip(names, different, strict=True):
            known = self._known[name]
            rows = max(known.rows or self._rows, 1.0)
            if known.need == "text":
                unique = number - noise > UNIQUE * rows and "kind" not in self._stated(name)
                entry = {"kind": "id", "pattern": "{}"} if unique else known.entry
                self._known[name] = replace(known, entry=entry, need="" if unique else "values")
                if unique:
                    self._known[name] = replace(self._known[name], why="a text that hardly ever repeats: an id")
            elif number > NAMED_UNIQUE * rows:
                self._known[name] = Decision({"kind": "id", "pattern": "{}"}, "", rows, "a number of its own: an id")

    def _find_ranges(self, names: Sequence[str], share: float) -> None:
        looks = {name: grid_look(name, self._known[name].entry, self._types[name]) for name in names}
        noisy, sigma = self._measure([look.column for look in looks.values()], names, share, "ranges")
        for name, look in looks.items():
            self._known[name] = self._ranged(name, look, noisy[name], sigma)

    def _ranged(self, name: str, look: GridLook, noisy: NoisyMarginal, sigma: float) -> Decision:
        known = self._known[name]
        counts, specials, missing = look.read(np.asarray(noisy.table))
        cells = extent(counts, sigma)
        entry = {**known.entry, **found_range(known.entry, look.edges, cells, finest(self._types[name]))}
        low, high = entry["range"]
        if found := apart(specials, sigma, low, high):
            entry["special"] = list(dict.fromkeys([*known.entry.get("special", ()), *found]))
        if "missing" not in entry and missing > NEAR * sigma:
            entry["missing"] = True
        also = f", and {', '.join(map(str, entry['special']))}" if "special" in entry else ""
        return replace(known, entry=entry, need="", why=f"{_TOLD[entry['kind']]} from {low} to {high}{also}")

    def _find_values(self, names: Sequence[str], share: float) -> None:
        """List values, and once more where many rows have none of those: few columns, so that rarer values show.

        Which columns come again follows from released counts, and each round is charged by itself, with half of the
        slack: two questions that compose, whatever the first one finds.
        """
        found: dict[str, dict[str, Counted]] = {name: {} for name in names}
        with stage(self._listener, "find common values"):
            rest = self._list(names, FIRST_LIST * share, found)
            if rest:
                self._list(rest, (1 - FIRST_LIST) * share, found)
        for name in names:
            self._known[name] = self._listed(name, found[name])

    def _list(self, names: Sequence[str], share: float, found: dict[str, dict[str, Counted]]) -> list[str]:
        """Add the values that many rows share; return the columns of which rows are left over."""
        curator = self._doors.values(self._opened([self._raw(name) for name in names]))
        sigma = curator.sigma(share / len(names))
        for name, values in zip(names, curator.values(names, share, self._slack / 2), strict=True):
            found[name] |= {value: Counted(count, sigma) for value, count in values.items()}
        return [name for name in names if self._left_over(name, found[name])]

    def _left_over(self, name: str, values: Mapping[str, Counted]) -> bool:
        """Whether more rows are left over beside these values than noise would leave, or nobody counted the rows."""
        rows = self._known[name].rows or self._rows
        rest = rows - sum(each.count for each in values.values())
        noises = [each.sigma for each in values.values()]
        return not values or not rows or rest > REST * math.hypot(*noises, max(noises))

    def _listed(self, name: str, values: Mapping[str, Counted]) -> Decision:
        """Return a category of these values; what is left over has a value of its own if it can be told from none."""
        known = self._known[name]
        told = "of which none is common enough to be told"
        if self._left_over(name, values):
            other = next(word for word in (OTHER, f"({OTHER})", f"(({OTHER}))") if word not in values)
            told = f"the others together as {other}" if values else told
        else:
            other, told = max(values, key=lambda word: values[word].count), "nearly all there are"
        entry = {**known.entry, "values": sorted({*values, other}), "other": other}
        return replace(known, entry=entry, need="", why=f"{counted(len(values), 'value')}, {told}")

    # How the table is opened.

    def _measure(
        self, columns: Sequence[Column], names: Sequence[str], share: float, told: str
    ) -> tuple[dict[str, NoisyMarginal], float]:
        curator = self._doors.look(self._opened(columns))
        with stage(self._listener, f"find {told}"):
            noisy = curator.look([(name,) for name in names], share, f"{told} of {counted(len(names), 'column')}")
        return {m.clique[0]: m for m in noisy}, curator.sigma(share / len(names))

    def _opened(self, columns: Sequence[Column]) -> Schema:
        """Return a schema of these columns, and the unit's."""
        schema = self._schema
        unit = (
            [] if schema.unit is None or any(c.name == schema.unit for c in columns) else [schema.column(schema.unit)]
        )
        rows = schema.rows_per_unit
        return Schema((*unit, *columns), unit=schema.unit, rows_per_unit=rows, extra_columns="ignore")

    def _raw(self, name: str) -> Column:
        missing = self._known[name].entry.get("missing")
        markers = tuple(missing) if isinstance(missing, list | tuple) else ()
        return Unknown(name, missing=True, markers=markers)

    def _stated(self, name: str) -> dict[str, Any]:
        column = self._schema.column(name)
        return dict(column.stated) if isinstance(column, Unknown) else {}

    def _finished(self) -> Discovered:
        columns, found = [], {}
        for column in self._schema.columns:
            if isinstance(column, Unknown):
                known, stated = self._known[column.name], dict(column.stated)
                entry = _settled(known.entry)
                made = column_from_dict(column.name, entry)
                declared = declared_kind(self._types[column.name])
                paid = [key for key in made.to_dict() if key not in stated and key not in declared and key in _PAID]
                columns.append(replace(made, paid=tuple(paid)))
                found[column.name] = known.why
            else:
                columns.append(column)
        extra = "refuse" if self._schema.extra_columns == "discover" else self._schema.extra_columns
        return Discovered(replace(self._schema, columns=tuple(columns), extra_columns=extra), found)


_TOLD = {"integer": "whole numbers", "real": "numbers", "datetime": "dates", "duration": "lengths of time"}
"""Kinds that have a range, and what their values are called."""

_PAID = ("kind", "values", "range", "special", "missing", "decimals", "step", "format", "pattern", "type", "prefix")


def _settled(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry under which no row can fail."""
    kind = entry["kind"]
    if kind == "id":
        return {key: value for key, value in entry.items() if key in ("kind", "pattern")}
    if kind == "category" and "other" not in entry:
        return {**entry, "other": entry["values"][0]}
    return dict(entry) if kind == "category" else {**entry, "outside": "clip"}


def _missing(*entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return what both say of missing values: the markers of either."""
    told = [entry["missing"] for entry in entries if entry.get("missing")]
    markers = [marker for each in told if isinstance(each, list | tuple) for marker in each]
    return {"missing": list(dict.fromkeys(markers)) or True} if told else {}
