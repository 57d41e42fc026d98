"""Compile a marginal plan for a table: the attributes that a method sees, and the marginals that it measures."""

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from weft.encoding import Codec
from weft.encoding.column_groups import ColumnGroup
from weft.errors import SchemaError
from weft.io.text_to_types import csv_arrow_schema
from weft.marginals.counting import MAX_CELLS
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Array
from weft.methods import METHODS, takes_option
from weft.methods.common.discretisation import Arrangement, Learned
from weft.models.arranged import MAX_MEMBERS, Fill, Pattern
from weft.privacy import AccountingName, find_accounting
from weft.privacy.conversions import gdp_mu
from weft.schema import Schema
from weft.schema.kinds import Column
from weft.schema.kinds.category import write_category_value
from weft.schema.kinds.derived import Derived
from weft.schema.kinds.kind import Label, Scalar, suggest_known_word
from weft.synthesis.marginal_plan.plan_file import (
    BinnedItem,
    Filled,
    Given,
    Grouped,
    Item,
    MarginalPlan,
    PartItem,
    PlanError,
    Presence,
    PublicMap,
)


def choose_accounting(marginals: int, epsilon: float, delta: float) -> AccountingName:
    """Return the accounting with the smaller noise (DPSyn, section 2.5): geometric or Gaussian.

    Standard deviations per cell are compared for k marginals that share a budget evenly. Weft samples and accounts both
    kinds of noise exactly. The other options of the paper are never best: exact accounting improves on Gaussian noise
    under zCDP, and Laplace noise under zCDP has twice the variance of Gaussian noise of the same cost.
    """
    k = max(marginals, 1)
    laplace = math.sqrt(2) * k / epsilon
    gaussian = math.sqrt(k) / gdp_mu(epsilon, delta) if delta else math.inf
    return "pure" if laplace < gaussian else "gaussian"


def extend_schema(schema: Schema, plan: MarginalPlan) -> Schema:
    """Return the schema extended by the groups and public maps of the plan."""
    groups = list(schema.groups)
    taken = {name: "the schema" for group in groups for name in group}
    for item in plan.of(Grouped):
        for name in item.columns:
            require_plan_column(schema, name, item, "columns")
            if name in taken:
                raise item.place.fault(
                    f'"{name}" is already in a group of {taken[name]}; groups must not overlap: keep it in one',
                    "columns",
                )
            taken[name] = "this plan"
        groups.append(item.columns)
    columns = {column.name: column for column in schema.columns}
    for found in plan.of(PublicMap):
        columns[found.gives] = _make_derived_column(schema, columns, found, taken)
        try:
            known = replace(schema, columns=tuple(columns.values()))
            Codec(known, csv_arrow_schema(known))
        except SchemaError as error:  # unmapped values, or circular dependencies
            raise found.place.fault(str(error), "map") from None
    try:
        return replace(schema, columns=tuple(columns.values()), groups=tuple(groups))
    except SchemaError as error:
        raise SchemaError(f"{plan.source or 'plan of marginals'} with the schema: {error}") from None


def with_maps(plan: MarginalPlan) -> MarginalPlan:
    """Return the plan with the code books of its maps included, so that it is self-contained."""
    items = (
        replace(item, map=tuple(_read_map_pairs(item)))
        if isinstance(item, PublicMap) and isinstance(item.map, str)
        else item
        for item in plan.items
    )
    return replace(plan, items=tuple(items))


def require_plan_column(schema: Schema, name: str, item: Item, key: str) -> Column:
    """Return a column of the schema; raise PlanError if there is none with this name."""
    if name not in schema:
        near = suggest_known_word(name, [column.name for column in schema.columns])
        raise item.place.fault(f'there is no column "{name}" in the schema.{near or " Check its spelling."}', key)
    return schema.column(name)


def _make_derived_column(
    schema: Schema, columns: Mapping[str, Column], item: PublicMap, grouped: Mapping[str, str]
) -> Derived:
    source = require_plan_column(schema, item.of, item, "of")
    general = require_plan_column(schema, item.gives, item, "gives")
    if item.of == item.gives or isinstance(columns[item.gives], Derived):
        raise item.place.fault(f'"{item.gives}" cannot be mapped twice or from itself; remove this map', "gives")
    if item.gives in grouped:
        raise item.place.fault(f'"{item.gives}" is computed and cannot be in a group; remove it there', "gives")
    pairs = _read_map_pairs(item)
    answers: dict[str, Scalar] = {}
    for detail, value in pairs:
        if write_category_value(detail) in answers:
            raise item.place.fault(
                f'the map is not a function: "{write_category_value(detail)}" of "{item.of}" has two values; keep one',
                "map",
            )
        answers[write_category_value(detail)] = _parse_map_value(general, value, item)
    for value in (source.listed or ()) if item.otherwise is None else ():
        if write_category_value(value) not in answers:
            raise item.place.fault(
                f'the map has no value for "{write_category_value(value)}" of "{item.of}"; add one', "map"
            )
    try:
        return Derived(
            item.gives,
            of=item.of,
            map=tuple(answers.items()),
            otherwise=None if item.otherwise is None else _parse_map_value(general, item.otherwise, item, "else"),
            missing=general.missing,
            type=general.type or str(general.arrow_type()),
        )
    except SchemaError as error:
        raise item.place.fault(str(error), "map") from None


def _read_map_pairs(item: PublicMap) -> list[tuple[Any, Any]]:
    if isinstance(item.map, Mapping):
        return list(item.map.items())
    if isinstance(item.map, tuple):
        if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in item.map):
            raise item.place.fault('map must be pairs such as [["1.1", "1"], ["1.2", "1"]]', "map")
        return list(item.map)
    path = Path(item.place.source).parent / item.map if item.place.source else Path(item.map)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header, *rows = [row for row in csv.reader(file) if row] or [[]]
    except (OSError, UnicodeDecodeError, csv.Error):
        raise item.place.fault(f'the file "{item.map}" cannot be read; put it next to the plan', "map") from None
    if item.of not in header or item.gives not in header or any(len(row) != len(header) for row in rows):
        raise item.place.fault(f'the file "{item.map}" must have columns "{item.of}" and "{item.gives}"', "map")
    of, gives = header.index(item.of), header.index(item.gives)
    return list(dict.fromkeys((row[of], row[gives]) for row in rows))


def _parse_map_value(column: Column, value: Any, item: PublicMap, key: str = "map") -> Scalar:
    """Return a mapped value as its column lists it."""
    if column.listed is None:
        made: Scalar = value
        return made
    known = {write_category_value(each): each for each in column.listed}
    if write_category_value(value) not in known:
        raise item.place.fault(f'"{value}" is not a value of "{column.name}"; use one that the schema lists', key)
    return known[write_category_value(value)]


MAX_SHARE_FOR_MAPS = 0.5  # maximum share of the budget for learned maps


@dataclass(frozen=True)
class CompiledPlan:
    """Compiled form of a marginal plan."""

    arrangement: Arrangement = field(default_factory=Arrangement)
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the method: its marginals, and other options set by the plan."""


def compile_plan(plan: MarginalPlan, codec: Codec) -> CompiledPlan:
    """Compile a plan for a codec; raise PlanError with the line of the first item that does not fit."""
    table = _Table(codec)
    patterns, absent = _make_patterns(plan, table)
    fills = _make_fills(plan, table, absent)
    filled = {fill.name for fill in fills}
    if filled.issuperset(codec.domain):
        last = plan.of(Filled)[-1]
        raise last.place.fault("all columns are filled in and none is measured; remove this item", "column")
    bins = {}
    for item in plan.of(BinnedItem):
        name = table.single(item.column, item, "column")
        if name in filled or name in bins or name in absent:
            raise item.place.fault(
                f'"{item.column}" is already filled in, binned or in a presence; keep one of these items', "column"
            )
        bins[name] = _make_bin_map(item, codec.domain, name, table.labels(name))
    learned = [each for each in fills if isinstance(each, Learned)]
    marginals = _compile_marginals(plan, table, {p.name: p for p in patterns}, filled)
    # Each learned map is one more marginal: in addition to those of the plan, or to one per attribute if the plan has
    # fewer and leaves the choice to the method.
    tables, weight = max(len(marginals), len(codec.domain) - len(filled)), sum(each.weight for each in learned)
    share = weight / (tables + weight)
    if share > MAX_SHARE_FOR_MAPS and marginals:
        dearest = max((each for each in plan.of(Filled) if each.by == "learned"), key=lambda each: each.weight)
        raise dearest.place.fault(
            f"the weights are too large: learned maps would take {share:.0%} of the budget, above "
            f"{MAX_SHARE_FOR_MAPS:.0%}. Reduce this one, or measure more marginals",
            "weight",
        )
    arrangement = Arrangement(patterns, fills, bins, min(share, MAX_SHARE_FOR_MAPS))
    _check_cells(arrangement, codec.domain, marginals)
    options: dict[str, Any] = {"marginals": [list(c) for c in marginals]}
    factors = [item.weight for item in marginals.values()]
    if any(factor != 1 for factor in factors):
        options["emphasis"] = factors
    exact = [list(c) for c, item in marginals.items() if item.exact]
    parts = _compile_parts(plan, table, filled, marginals)
    options |= {"exact": exact} if exact else {}
    options |= {"parts": parts} if parts else {}
    if plan.compress is not None:
        options |= {"rare": plan.compress.deviations, "rare_rows": plan.compress.floor}
    return CompiledPlan(arrangement, options)


@dataclass(frozen=True)
class _Table:
    """The columns of a table and their attributes."""

    codec: Codec

    def attributes(self, name: str, item: Item, key: str) -> tuple[str, ...]:
        """Return the attributes of a column, or that of its group."""
        require_plan_column(self.codec.schema, name, item, key)
        part = self.codec.part_of(name)
        if part is None or not len(part.domain):
            raise item.place.fault(f'"{name}" is computed or generated, never measured; remove it', key)
        return part.domain.names

    def single(self, name: str, item: Item, key: str) -> str:
        """Return the attribute of a column that has exactly one of its own."""
        own = self.attributes(name, item, key)
        part = self.codec.part_of(name)
        if len(own) != 1 or isinstance(part, ColumnGroup):
            raise item.place.fault(f'"{name}" is grouped with other columns or has several attributes; remove it', key)
        return own[0]

    def labels(self, attribute: str) -> tuple[Label, ...]:
        part = self.codec.part(attribute)
        return tuple(part.labels()[list(part.domain).index(attribute)])


def _make_patterns(plan: MarginalPlan, table: _Table) -> tuple[tuple[Pattern, ...], dict[str, int]]:
    """Return the presence patterns, and for each member the code that represents a missing value."""
    made, absent = list[Pattern](), dict[str, int]()
    for item in plan.of(Presence):
        if len(item.columns) > MAX_MEMBERS:
            raise item.place.fault(f"a pattern has at most {MAX_MEMBERS} columns; remove some", "columns")
        names = [table.single(name, item, "columns") for name in item.columns]
        for column, name in zip(item.columns, names, strict=True):
            if name in absent:
                raise item.place.fault(f'"{column}" is in two patterns; keep it in one', "columns")
            absent[name] = _find_missing_code(item, column, table.labels(name))
        if item.called in table.codec.domain or any(item.called == pattern.name for pattern in made):
            raise item.place.fault(f'"{item.called}" is already used; give the pattern another name', "name")
        made.append(Pattern(item.called, tuple(names), tuple(absent[name] for name in names)))
    return tuple(made), absent


def _find_missing_code(item: Presence, column: str, labels: tuple[Label, ...]) -> int:
    wanted = None if item.missing is None else write_category_value(item.missing)
    for code, label in enumerate(labels):
        if (label.sort == "missing") if wanted is None else (str(label) == wanted):
            return code
    if wanted is None:
        raise item.place.fault(
            f'"{column}" is never missing: set missing = true in the schema, or state the value that represents a '
            "missing one (missing = 99)",
            "columns",
        )
    raise item.place.fault(f'"{wanted}" is not a single value of "{column}"; use one that the schema lists', "missing")


def _make_fills(plan: MarginalPlan, table: _Table, absent: Mapping[str, int]) -> tuple[Fill | Learned, ...]:
    waiting = {table.single(item.column, item, "column"): item for item in plan.of(Filled)}
    if len(waiting) < len(plan.of(Filled)):
        twice = next(i for i in plan.of(Filled) if waiting[table.single(i.column, i, "column")] is not i)
        raise twice.place.fault(f'"{twice.column}" is filled in twice; keep one item', "column")
    made: list[Fill | Learned] = []
    chance = {name for name, item in waiting.items() if item.by == "random"}
    while waiting:
        ready = [n for n, item in waiting.items() if table_source(table, item) not in waiting]
        if not ready:
            item = next(iter(waiting.values()))
            raise item.place.fault(f'"{item.column}" is filled in from itself in a circle; measure one of them', "from")
        for name in ready:
            item = waiting.pop(name)
            if table_source(table, item) in chance:
                _refuse_chance(item)
                chance.add(name)
            made.append(_make_fill(item, name, table, absent))
    return tuple(made)


def _refuse_chance(item: Filled) -> None:
    """Refuse a learned map from a column that is generated at random: its result would be random too."""
    if item.by == "learned":
        raise item.place.fault(
            f'"{item.source}" is generated at random, so a map from it cannot predict "{item.column}"; choose a '
            'measured column, or generate this one at random too (by = "random")',
            "from",
        )


def table_source(table: _Table, item: Filled) -> str | None:
    """Return the attribute that a column is filled in from."""
    return table.single(item.source, item, "from") if item.source else None


def _make_fill(item: Filled, name: str, table: _Table, absent: Mapping[str, int]) -> Fill | Learned:
    anchor = table_source(table, item)
    if anchor is None:
        return Fill(name)
    if item.by == "learned":
        if table.codec.domain.cells((anchor, name)) > MAX_CELLS:
            raise item.place.fault(
                f'the marginal over "{item.source}" and "{item.column}" would have more than {MAX_CELLS:,} cells; '
                "give one of them fewer values",
                "from",
            )
        return Learned(name, anchor, item.weight, absent.get(name))
    theirs = {str(label): code for code, label in enumerate(table.labels(name))}
    own = [str(label) for label in table.labels(anchor)]
    lacking = next((label for label in own if label not in theirs), None)
    if lacking is not None:
        raise item.place.fault(
            f'"{lacking}" of "{item.source}" is not a value of "{item.column}", so they cannot be the same; set '
            'by = "learned"',
            "by",
        )
    return Fill(name, anchor, np.array([theirs[label] for label in own], np.int64))


def _make_bin_map(item: BinnedItem, domain: Domain, name: str, labels: tuple[Label, ...]) -> Array:
    size = domain.size(name)
    if item.into:
        codes = np.full(size, len(item.into))
        place = {str(label): code for code, label in enumerate(labels)}
        for number, values in enumerate(item.into):
            for value in values if isinstance(values, tuple) else (values,):
                if write_category_value(value) not in place:
                    raise item.place.fault(f'"{value}" is not a value of "{item.column}"; see the schema', "into")
                if codes[place[write_category_value(value)]] != len(item.into):
                    raise item.place.fault(f'"{value}" is in two bins; keep it in one', "into")
                codes[place[write_category_value(value)]] = number
    else:
        apart = sorted(domain.order(name).apart)
        inside = np.setdiff1d(np.arange(size), apart)
        if item.bins > len(inside):
            raise item.place.fault(f'"{item.column}" has only {len(inside)} values; choose fewer bins', "bins")
        codes = np.zeros(size, np.int64)
        codes[inside] = np.arange(len(inside)) * item.bins // len(inside)
        codes[apart] = item.bins + np.arange(len(apart))
    return np.asarray(np.unique(codes, return_inverse=True)[1])


def _compile_marginals(
    plan: MarginalPlan, table: _Table, patterns: Mapping[str, Pattern], filled: set[str]
) -> dict[Clique, Given]:
    """Return the marginals over attributes with their items; of duplicates, the one with the larger weight."""
    made: dict[Clique, Given] = {}
    for item in plan.of(Given):
        key = next(key for key in ("columns", "sets", "pairs_of") if getattr(item, key))
        for names in item.cliques():
            found: list[str] = []
            for name in names:
                found += [name] if name in patterns else table.attributes(name, item, key)
            lost = [name for name in found if name in filled]
            if lost:
                raise item.place.fault(
                    f'"{lost[0]}" is filled in afterwards and cannot be in a marginal; remove it', key
                )
            own = make_clique(found)
            if own not in made or made[own].weight < item.weight:
                made[own] = item
    return made


def _check_cells(arrangement: Arrangement, domain: Domain, marginals: Mapping[Clique, Given]) -> None:
    seen = arrangement.domain(domain)
    sizes = {n: int(arrangement.bins[n].max()) + 1 if n in arrangement.bins else seen.size(n) for n in seen}
    for c, item in marginals.items():
        cells = int(np.prod([float(sizes[name]) for name in c]))
        if cells > MAX_CELLS:
            raise item.place.fault(
                f"the marginal over {', '.join(c)} has {cells:,} cells, above {MAX_CELLS:,}; remove a column, or bin it"
            )


def _compile_parts(
    plan: MarginalPlan, table: _Table, filled: set[str], marginals: Mapping[Clique, Given]
) -> list[list[str]]:
    made: list[list[str]] = []
    for item in plan.of(PartItem):
        patterns = {pattern.called for pattern in plan.of(Presence)}
        found: dict[str, None] = {}
        for name in item.columns:
            own = (name,) if name in patterns else table.attributes(name, item, "columns")
            found |= dict.fromkeys(each for each in own if each not in filled)
        if not found:
            raise item.place.fault("all its columns are filled in afterwards; remove the part", "columns")
        if any(set(found) <= set(other) or set(other) <= set(found) for other in made):
            raise item.place.fault("one of two parts contains all columns of the other; remove one")
        made.append(list(found))
    for c, given in marginals.items() if made else ():
        rest = [name for name in c if not any(name in part for part in made)]
        if not any(set(c) <= set(part) for part in made) and len(rest) < len(c):
            raise given.place.fault(
                f"the marginal over {', '.join(c)} has columns of several parts; remove it, or put them into one part"
            )
    return made


def refuse_for(method: str, options: Mapping[str, Any], plan: MarginalPlan, accepted: set[str]) -> None:
    """Refuse a plan with requirements that the method does not support."""
    told = {"exact": "match marginals exactly", "parts": "synthesise parts apart"}
    for name, what in told.items():
        if name in options and name not in accepted:
            raise PlanError(
                f"{plan.source or 'plan of marginals'}: method {method} cannot {what}; choose dpsyn "
                "(of weft-lab), or remove that"
            )


def extract_plan(method: str, options: Mapping[str, Any]) -> tuple[MarginalPlan | None, dict[str, Any]]:
    """Return the plan in a method's options, and the other options; a plain list of marginals stays an option."""
    given = options.get("marginals")
    text = given if isinstance(given, str) else ""
    toml = "\n" in text or "=" in text or text.endswith(".toml") or Path(text).is_file()  # TOML of a plan, or its path
    if given is None or isinstance(given, list | tuple) or (isinstance(given, str) and not toml):
        return None, {name: value for name, value in options.items() if value is not None or name != "marginals"}
    if not takes_option(method, "marginals"):
        able = ", ".join(name for name in METHODS if takes_option(name, "marginals"))
        raise PlanError(f"method {method!r} selects its own marginals: to use a plan, choose one of {able}.")
    if not isinstance(given, str | PathLike | Mapping | MarginalPlan):
        raise PlanError("marginals must be a plan (a path, TOML text or a MarginalPlan) or a list of lists of columns.")
    return MarginalPlan.read(given), {name: value for name, value in options.items() if name != "marginals"}


BY_MECHANISM: dict[str, AccountingName] = {"gaussian": "gaussian", "geometric": "pure"}  # the exact accounting


def accounting_of(plan: MarginalPlan, schema: Schema, epsilon: float, delta: float) -> AccountingName:
    """Return the accounting of a plan: as stated, or the one with less noise for its marginals and all columns."""
    if plan.mechanism == "auto":
        return choose_accounting(plan.measured + len(schema.modelled), epsilon, delta)
    accounting = BY_MECHANISM[plan.mechanism]
    if delta == 0 and not find_accounting(accounting).is_pure:
        raise plan.wrong_mechanism("Gaussian noise requires delta above 0; set delta, or choose geometric noise")
    return accounting
