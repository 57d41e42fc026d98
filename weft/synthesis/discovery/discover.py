"""Discovery in steps: kinds, then texts that repeat, then ranges and common values.

Each step opens the table with a schema of probes (`weft.synthesis.discovery.probes`) and measures one-way marginals, as
any method does; only lists of values need a separate query (`weft.curator.value_queries`).

Privacy: the queries of a step depend only on released answers of earlier steps and on the declared types, which are
public (decision 002). Discovery is therefore an adaptive composition of the curator's queries, each with its own
sensitivity and charge, and its result can be released.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from weft.curator import Curator
from weft.display import format_count
from weft.encoding import Codec
from weft.errors import SchemaError
from weft.marginals.marginal import Array, NoisyMarginal
from weft.marginals.smoothing import CellGrid, NoisyCells, extrapolate_tails, smooth_counts
from weft.progress import report_stage
from weft.schema import Column, Schema
from weft.schema.column_names import names_id
from weft.schema.kinds import Unknown, column_from_dict
from weft.schema.rules import Rule
from weft.synthesis.discovery.entries import (
    PAID,
    RANGED,
    Counted,
    Discovered,
    Doors,
    Settings,
    choose_other_word,
    find_public_list,
    merge_missing,
    settle_entry,
)
from weft.synthesis.discovery.kind_inference import Decision, decide_kind, decide_time
from weft.synthesis.discovery.probes import (
    MIN_SUM_DEVIATIONS,
    NEAR,
    PAD,
    PAD_YEARS,
    GridLook,
    estimate_extent,
    find_finest_unit,
    found_range,
    get_declared_kind,
    get_plain_type,
    grid_look,
    holds_text,
    require_steps,
    shape_look,
)

PERSONS = 0.1  # part of the share for rows per person, if they decide the contribution bound
BOUNDS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64)
CELLS = 6.0  # noise of a typical two-way marginal, in units of the noise of one cell
UNLIKE = 0.015  # assumed total variation between the rows that are kept and those that the bound drops
PAIRS_PER_COLUMN = 3.0  # marginals that share the budget, per column
KINDS, REPEATS = 0.15, 0.05  # parts of the share for kinds and distinct texts; the rest: ranges and values
WEIGHT_VALUES = 4 / 3  # weight of a list of values relative to a range: values must exceed a release threshold
UNIQUE = 0.5  # distinct texts per non-missing row above which a column is an id or free text, without a list of values
NAMED_UNIQUE = 0.9  # the same threshold for whole numbers whose column name suggests an id
FIRST_LIST = 0.5  # part of the share for values for the first list of all columns; the rest: columns with unlisted rows
REST = 3.0  # threshold, in standard deviations of the noise, above which a column is found to have unlisted rows


class Discovery:
    """State of a discovery: current knowledge about the unknown columns; `types` are declared types."""

    def __init__(self, schema: Schema, types: Mapping[str, pa.DataType], doors: Doors, settings: Settings) -> None:
        self._schema, self._doors, self._listener = schema, doors, settings.listener
        self._types = {name: get_plain_type(kind) for name, kind in types.items()}
        self._share, self._slack, self._chooses_bound = settings.share, settings.slack, settings.chooses_bound
        self._time = settings.time
        self._sizes: Array | None = None
        self._known: dict[str, Decision] = {c.name: self._declared(c) for c in schema.unknown}
        self._rows = 0.0
        self._require_stated_rules()

    def run(self) -> Discovered:
        """Discover what is not stated."""
        opened = self.open_whole()
        left = self._share
        if self._chooses_bound:
            opened = self._choose_bound(opened, PERSONS * self._share)
            left -= PERSONS * self._share
        shaped = [name for name in self._known if self._is_shaped(name)]
        if shaped:
            self._find_kinds(opened, shaped, KINDS * self._share)
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

    def open_whole(self) -> Curator:
        """Open the table with every column and every refusing rule, so that all refusals happen before any charge.

        All columns of all rows are read here, so that later steps read nothing that was not validated before. No query
        is made.
        """
        require_steps({name: known.entry for name, known in self._known.items()}, self._doors.types)
        columns = [self._first_look(name) for name in self._known]
        stated = [column for column in self._schema.columns if not isinstance(column, Unknown)]
        opened = self._opened([*stated, *columns], self._refusing_rules())
        ranged = [name for name, known in self._known.items() if known.need == "range"]
        if ranged:
            grids = self._opened([self._grid(name).column for name in ranged])
            Codec(grids, self._doors.types(grids))
            if any(map(self._is_shaped, ranged)):  # a stated kind may refuse values that a shape accepts
                self._doors.look(grids)
        return self._doors.look(opened)

    def _choose_bound(self, opened: Curator, share: float) -> Curator:
        """Choose the contribution bound from noisy numbers of persons; return the table opened with it."""
        with report_stage(self._listener, "count rows per person"):
            noisy = opened.rows_per_unit(share)
            self._sizes = estimate_unit_sizes(noisy, opened.unit_sigma(share))
            most = choose_contribution_bound(self._sizes, len(self._known), opened.rho())
            opened.bound_contributions(most)
        self._schema = replace(self._schema, rows_per_unit=most)
        return self.open_whole()

    def _first_look(self, name: str) -> Column:
        """Return the first probe of an unknown column: its shapes, its grid, or the column that its type declares."""
        known = self._known[name]
        if self._is_shaped(name) or known.need == "text":
            return shape_look(name)
        if known.need == "range":
            return self._grid(name).column
        return column_from_dict(name, settle_entry(known.entry))

    def _refusing_rules(self) -> tuple[Rule, ...]:
        return tuple(rule for rule in self._schema.rules if rule.policy == "refuse")

    def _require_stated_rules(self) -> None:
        """Refuse a refusing rule on a column that is not stated: it could fail after charges."""
        for rule in self._refusing_rules():
            if unknown := [name for name in rule.columns if name in self._known]:
                raise SchemaError(
                    f'the rule "{rule}" refuses rows by column "{unknown[0]}", which the schema does not state. State '
                    'the column, or set policy = "keep"'
                )

    def _declared(self, column: Unknown) -> Decision:
        stated, arrow_type = dict(column.stated), self._types[column.name]
        entry = {**get_declared_kind(arrow_type), **stated}
        if entry.get("kind") in RANGED:
            return Decision(entry, "range")
        if entry.get("kind") == "category":
            if not holds_text(arrow_type):
                raise SchemaError(
                    f'column "{column.name}": discovery finds categories only in text, not in type {arrow_type}; '
                    "state its values, or omit its kind"
                )
            return Decision(entry, "text")
        if entry.get("kind") is None and not holds_text(arrow_type):
            raise SchemaError(
                f'column "{column.name}": discovery does not support type {arrow_type}; remove the column from the '
                'table, or describe the others in a schema with extra_columns = "ignore"'
            )
        return Decision(entry, "" if "kind" in entry else "text")

    def _is_shaped(self, name: str) -> bool:
        """Return whether the shapes of a column must be measured: its kind, decimals or step is unknown."""
        entry, arrow_type = self._known[name].entry, self._types[name]
        if holds_text(arrow_type):
            return "kind" not in entry or (entry["kind"] == "datetime" and "format" not in entry)
        if pa.types.is_timestamp(arrow_type):
            return "step" not in entry
        return pa.types.is_floating(arrow_type) and entry.get("kind") == "real" and "decimals" not in entry

    def _find_kinds(self, opened: Curator, names: Sequence[str], share: float) -> None:
        noisy, sigma = self._measure(opened, names, share, "kinds")
        self._rows = float(np.median([m.table.sum() for m in noisy.values()]))
        for name in names:
            decide, before = decide_time if name == self._time else decide_kind, self._known[name]
            found = decide(noisy[name].table, sigma)
            told = found.entry
            if not holds_text(self._types[name]):  # shapes add only the precision of values to a declared type
                told = {key: value for key, value in told.items() if key in ("decimals", "step", "missing")}
            fits = "kind" not in before.entry or told.get("kind", before.entry["kind"]) == before.entry["kind"]
            entry = {**(told if fits else {}), **before.entry, **merge_missing(found.entry, before.entry)}
            self._known[name] = replace(found, entry=entry, need=before.need if "kind" in before.entry else found.need)

    def _maybe_id(self, name: str) -> bool:
        known = self._known[name]
        return known.entry.get("kind") == "integer" and "kind" not in self._stated(name) and names_id(name)

    def _find_repeats(self, names: Sequence[str], share: float) -> None:
        with report_stage(self._listener, "find texts that repeat"):
            curator = self._doors.values(self._opened([self._raw(name) for name in names]))
            different = curator.distinct(names, share)
            noise = NEAR * curator.sigma(share / len(names))
        for name, number in zip(names, different, strict=True):
            known = self._known[name]
            rows = max(known.rows or self._rows, 1.0)
            if known.need == "text":
                unique = number - noise > UNIQUE * rows and "kind" not in self._stated(name)
                entry = {"kind": "id", "pattern": "{}"} if unique else known.entry
                why = "text that rarely repeats: an id" if unique else known.why
                self._known[name] = replace(known, entry=entry, need="" if unique else "values", why=why)
            elif number > NAMED_UNIQUE * rows:
                self._known[name] = Decision(
                    {"kind": "id", "pattern": "{}"}, "", rows, "numbers that rarely repeat: an id"
                )

    def _find_ranges(self, names: Sequence[str], share: float) -> None:
        looks = {name: self._grid(name) for name in names}
        opened = self._doors.look(self._opened([look.column for look in looks.values()]))
        noisy, sigma = self._measure(opened, names, share, "ranges")
        for name, look in looks.items():
            self._known[name] = self._ranged(name, look, noisy[name], sigma)

    def _grid(self, name: str) -> GridLook:
        """Return the grid probe; a kind found by discovery is marked as paid, since it decides how a frame is read."""
        look = grid_look(name, self._known[name].entry, self._types[name])
        found = "kind" not in self._stated(name) and holds_text(self._types[name])
        return replace(look, column=replace(look.column, paid=("kind",))) if found else look

    def _ranged(self, name: str, look: GridLook, noisy: NoisyMarginal, sigma: float) -> Decision:
        known = self._known[name]
        counts, specials, missing = look.read(np.asarray(noisy.table))
        pad = PAD_YEARS if known.entry["kind"] == "datetime" else PAD
        cells = estimate_extent(counts, sigma, look.zero, pad)
        entry = {**known.entry, **found_range(known.entry, look.edges, cells, find_finest_unit(self._types[name]))}
        low, high = entry["range"]
        least = MIN_SUM_DEVIATIONS * sigma
        if found := [value for value, count in specials if count > least and not low <= value <= high]:
            entry["special"] = list(dict.fromkeys([*known.entry.get("special", ()), *found]))
        if "missing" not in entry and missing > NEAR * sigma:
            entry["missing"] = True
        also = f", and {', '.join(map(str, entry['special']))}" if "special" in entry else ""
        return replace(known, entry=entry, need="", why=f"{RANGED[entry['kind']]} from {low} to {high}{also}")

    def _find_values(self, names: Sequence[str], share: float) -> None:
        """List values, and again for columns with many unlisted rows: with fewer columns, rarer values are found.

        Privacy: the columns of the second round depend only on released counts. Each round is charged separately, with
        half of the slack: two queries under adaptive composition.
        """
        found: dict[str, dict[str, Counted]] = {name: {} for name in names}
        with report_stage(self._listener, "find common values"):
            rest = self._list(names, FIRST_LIST * share, found)
            if rest:
                self._list(rest, (1 - FIRST_LIST) * share, found)
        for name in names:
            self._known[name] = self._listed(name, found[name])

    def _list(self, names: Sequence[str], share: float, found: dict[str, dict[str, Counted]]) -> list[str]:
        """Add the values above the release threshold; return the columns with unlisted rows."""
        curator = self._doors.values(self._opened([self._raw(name) for name in names]))
        sigma = curator.sigma(share / len(names))
        for name, values in zip(names, curator.values(names, share, self._slack / 2), strict=True):
            found[name] |= {value: Counted(count, sigma) for value, count in values.items()}
        return [name for name in names if self._left_over(name, found[name]) and not find_public_list(found[name])]

    def _left_over(self, name: str, values: Mapping[str, Counted]) -> bool:
        """Return whether the number of unlisted rows exceeds the noise, or the number of rows is unknown."""
        rows = self._known[name].rows or self._rows
        rest = rows - sum(each.count for each in values.values())
        noises = [each.sigma for each in values.values()]
        return not values or not rows or rest > REST * math.hypot(*noises, max(noises))

    def _listed(self, name: str, values: Mapping[str, Counted]) -> Decision:
        """Return a category of these values and one value for all others: no value is encoded as another listed one."""
        known = self._known[name]
        public = find_public_list(values) if self._left_over(name, values) else frozenset()
        other = choose_other_word({*values, *public})
        if public:
            told = f"{format_count(len(public), 'value')} of a public list; others as {other}"
            entry = {**known.entry, "values": sorted({*public, other}), "other": other}
            return replace(known, entry=entry, need="", why=told)
        if not values:
            told = f"no value exceeds the release threshold: all are {other}"
        elif self._left_over(name, values):
            told = f"{format_count(len(values), 'value')}, all others as {other}"
        else:
            told = f"{format_count(len(values), 'value')}, which cover nearly all rows; others as {other}"
        rows = known.rows or self._rows
        lost = 1.0 - sum(each.count for each in values.values()) / rows if rows > 0 else 0.0
        entry = {**known.entry, "values": sorted({*values, other}), "other": other}
        if self._left_over(name, values):
            entry["lost_share"] = round(min(max(lost, 0.0), 1.0), 3)
        return replace(known, entry=entry, need="", why=told)

    def _measure(
        self, curator: Curator, names: Sequence[str], share: float, told: str
    ) -> tuple[dict[str, NoisyMarginal], float]:
        with report_stage(self._listener, f"find {told}"):
            noisy = curator.look([(name,) for name in names], share, f"{told} of {format_count(len(names), 'column')}")
        return {m.clique[0]: m for m in noisy}, curator.sigma(share / len(names))

    def _opened(self, columns: Sequence[Column], rules: tuple[Rule, ...] = ()) -> Schema:
        schema = self._schema
        unit = (
            [] if schema.unit is None or any(c.name == schema.unit for c in columns) else [schema.column(schema.unit)]
        )
        rows = schema.rows_per_unit
        return Schema((*unit, *columns), unit=schema.unit, rows_per_unit=rows, extra_columns="ignore", rules=rules)

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
                entry = settle_entry(known.entry)
                made = column_from_dict(column.name, entry)
                declared = get_declared_kind(self._types[column.name])
                paid = [key for key in made.to_dict() if key not in stated and key not in declared and key in PAID]
                columns.append(replace(made, paid=tuple(paid)))
                found[column.name] = known.why
            else:
                columns.append(column)
        extra = "refuse" if self._schema.extra_columns == "discover" else self._schema.extra_columns
        complete = replace(self._schema, columns=tuple(columns), extra_columns=extra)
        return Discovered(complete, found, unit_sizes=self._sizes)


def estimate_unit_sizes(noisy: Array, sigma: float) -> Array:
    """Estimate the numbers of persons with 1, 2, ... rows: not negative, with a tail that decays."""
    table = np.asarray(noisy, np.float64)
    even = np.ones(len(table))
    smooth = smooth_counts(table, sigma, CellGrid(even, np.zeros(len(table), np.int64)))
    return extrapolate_tails(NoisyCells(table, sigma * even, even), smooth)


def choose_contribution_bound(sizes: Array, columns: int, rho: float) -> int:
    """Return the bound with the smallest expected error of a two-way marginal: noise plus dropped rows.

    With bound t, a person with k rows contributes min(k, t), and the noise of a count grows with t. `sizes` are numbers
    of persons with 1, 2, ... rows, `rho` is the budget of the fit.

    >>> choose_contribution_bound(np.array([9000.0, 900.0, 50.0]), 10, 0.03)
    1
    >>> choose_contribution_bound(np.array([0.0, 0.0, 0.0, 500_000.0]), 10, 0.03)
    4
    """
    rows = np.arange(1, len(sizes) + 1)
    total = max(float(sizes @ rows), 1.0)
    noise = CELLS * math.sqrt(PAIRS_PER_COLUMN * max(columns, 1) / (2 * rho))
    bounds = [bound for bound in BOUNDS if bound <= len(sizes)]
    kept = [max(float(sizes @ np.minimum(rows, bound)), 1.0) for bound in bounds]
    errors = [bound * noise / held + UNLIKE * (1 - held / total) for bound, held in zip(bounds, kept, strict=True)]
    return bounds[int(np.argmin(errors))]
