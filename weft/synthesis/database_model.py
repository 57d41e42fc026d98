"""The fitted model of related tables, and the families that are sampled from it.

Top down: rows of the root with their numbers of children, then the children of each table given their parents, linked
to families so that the released tables of siblings and of parents and children hold (`weft.models.family_linking`).
Privacy: post-processing of released answers; no private row is read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.encoding import Codec
from weft.encoding.time_gaps import GAP_CODES, encode_gaps
from weft.engines.family_rows import count_name, gap_name, own_domain, parent_name, row_weight, time_step
from weft.errors import ConditionError, WeftError
from weft.marginals.marginal import Array, Measured
from weft.marginals.pooling import Released
from weft.marginals.records import Records
from weft.models import Model
from weft.models.conditional import Evidence, ImpossibleEvidenceError
from weft.models.family_linking import FamilyRoles, Linkage, LinkTable
from weft.privacy import Ledger
from weft.progress import Listener, ignore_event, report_stage
from weft.schema.database import Database, RelatedTable
from weft.schema.family_rules import FamilyRule
from weft.schema.kinds.attributes import cast_to_stored_type
from weft.schema.rules.conditions import Where, all_hold, format_conditions, read_where
from weft.schema.schema import Schema
from weft.synthesis.fitted import Fitted
from weft.synthesis.history_model import (
    count_times,
    draw_times,
    follow_values,
    role_mask,
    set_times,
    settle_roles,
    size_name,
    sort_in_time,
    time_attributes,
)
from weft.values.storage import decode_dictionary

PERSONS, ROWS = "persons", "rows"
"""Names of the two tables as which a single table of histories is described."""

MAX_POOL = 4_000_000
"""Maximum number of rows in a pool; families of one size then share rows."""

MIN_DRAWN = 1_000
MAX_DRAWN = 1_000_000
MAX_DRAWN_PER_FAMILY = 20
"""Numbers of families that are sampled under conditions: at least, and at most, also per requested family."""

MAX_DEFAULT_UNITS = 10_000_000
"""Maximum default number of rows of the root; more have to be requested explicitly."""


MIN_TRUNCATED = 0.02
"""Share of families with as many rows as the contribution bound from which it is reported."""


@dataclass(frozen=True)
class LinkTargets:
    """Released tables to which the children of a table are linked, over groups of codes."""

    own: Mapping[str, Array]
    """Group of each code of the attributes of a child."""
    above: Mapping[str, Array]
    """Group of each code of the attributes of its parent."""
    siblings: tuple[tuple[str, str, Array, float], ...] = ()
    """Attribute of a child, attribute of a sibling, weighted counts, and standard deviation of their noise."""
    parents: tuple[tuple[str, str, Array, float], ...] = ()
    """Attribute of the parent, attribute of a child, weighted counts, and standard deviation."""


@dataclass(frozen=True)
class DrawSettings:
    """How rows are drawn."""

    rng: np.random.Generator
    listener: Listener = ignore_event
    swaps: int | None = None
    """Proposed swaps of the linking; None: by the number of rows."""


@dataclass(frozen=True)
class SampledRows:
    """Sampled rows of one table, with the numbers of their children."""

    records: Records
    parent: Array
    """Place of each row's parent."""
    weight: Array
    """1 / K of each row (`weft.engines.family_rows`)."""
    times: Array | None = None
    """Exact times of the rows of histories."""


@dataclass(frozen=True)
class SizeWeights:
    """How counts by the sizes of families add up to rows."""

    rows: Array
    """Number of rows that one count stands for, by size; of pooled sizes, the mean."""
    counts: Array
    """Counts by size, to divide sizes that were measured together."""
    spread: float = 0.0
    """Standard deviation of sizes that were pooled, as a share of all rows."""


@dataclass(frozen=True)
class FittedDatabase:
    """Result of a fit of related tables: models, schema, codecs and one ledger, and nothing private."""

    database: Database
    options: dict[str, Any]
    codecs: Mapping[str, Codec]
    models: Mapping[str, Model]
    targets: Mapping[str, LinkTargets]
    ledger: Ledger
    public: Mapping[str, pa.Table] = field(default_factory=dict)
    """Rows of the reference tables."""
    measured: Mapping[str, tuple[Measured, ...]] = field(default_factory=dict)
    """The measured marginals of each table's own attributes, with their noise, in weighted counts."""
    released: Mapping[str, tuple[Released, ...]] = field(default_factory=dict)
    """The noisy marginals of each table with its parent's attributes, for queries; empty in files of older versions."""

    method = "weave"

    @property
    def joined(self) -> tuple[str, ...]:
        """The columns of a single table of histories; empty for related tables."""
        return tuple(self.options.get("joined", ()))

    @property
    def total(self) -> float:
        """Noisy number of privacy units."""
        return self.models[self.database.root].total

    def view(self, name: str) -> Fitted:
        """Return the columns of one table as a fitted table, in weighted counts: what is lost, and how noisy it is."""
        codec = self.codecs[name]
        measured = self.measured.get(name, ())
        limits = self._find_truncated(name)
        return Fitted(self.method, {}, codec.schema, codec, self.models[name], self.ledger, measured, limits=limits)

    def _find_truncated(self, name: str) -> tuple[tuple[str, str], ...]:
        """Return a limit of the link of a table of which many families have all rows that the bound allows."""
        table = self.database.table(name)
        if table.parent is None:
            return ()
        counts = np.asarray(self.models[table.parent].marginal((count_name(name),)), np.float64)
        share = float(max(counts[-1] - counts[-2], 0.0) / max(counts[1:].sum(), 1.0))
        told = (
            f"about {share:.0%} of the families have {len(counts) - 1} rows, the contribution bound: "
            "further rows were left out at random, so that there are fewer rows than in the private table"
        )
        return ((table.link.column, told),) if share >= MIN_TRUNCATED else ()

    def name_attribute_in_view(self, base: str, owner: str, attribute: str) -> str:
        """Return the name that an attribute of a table would have in the model of the rows of `base`."""
        return attribute if owner == base else parent_name(owner, attribute)

    def weigh_sizes(self, table: str, base: str, rows_above: float | None = None) -> dict[str, SizeWeights] | None:
        """Return how counts of the model of a table `base` add up to rows of a table: that one, or a child of it.

        A row weighs floor(W / K), where K is the product of the sizes of its family and of those above it. The model of
        a table below the children of the root does not have all of them: None, unless `rows_above` states a mean.
        """
        made, path = dict[str, SizeWeights](), self.database.path(base)
        if len(path) > 1 and rows_above is None:
            return None
        if path:
            parent = str(path[-1].parent)
            families, sizes = self._count_parents(parent, base), np.arange(path[-1].max_children + 1)
            classes = np.asarray(self.options["classes"][base])
            families[0] = 0.0  # no row has a family of 0
            counts, rows, squares = (
                np.bincount(classes, families * of, len(sizes)) for of in (np.ones(len(sizes)), sizes, sizes**2)
            )
            weights = np.maximum(row_weight(self.database, base) // np.maximum(sizes * (rows_above or 1.0), 1.0), 1.0)
            weighted = np.maximum(np.bincount(classes, families * sizes * weights, len(sizes)), 1e-9)
            variance = np.maximum(squares * counts - rows**2, 0.0)
            spread = float(np.sqrt(variance).sum() / rows.sum())
            made[parent_name(parent, count_name(base))] = SizeWeights(rows / weighted, counts, spread)
        if table != base:
            families = self._count_parents(base, table)
            made[count_name(table)] = SizeWeights(np.arange(len(families), dtype=np.float64), families)
        return made

    def _count_parents(self, parent: str, child: str) -> Array:
        """Return the rows of a table by their numbers of children, all above 0."""
        return np.maximum(np.asarray(self.models[parent].marginal((count_name(child),)), np.float64), 1e-6)

    def default_rows(self) -> int:
        """Return the default number of synthetic rows of the root: their noisy number."""
        rows = max(round(self.total), 0)
        if rows > MAX_DEFAULT_UNITS:
            raise WeftError(
                f"the noisy number of rows of {self.database.root} is {rows:,}: state how many to make with --rows N "
                "(in Python, sample(n))"
            )
        return rows

    def sample(
        self, n: int, rng: np.random.Generator, listener: Listener = ignore_event, swaps: int | None = None
    ) -> dict[str, pa.Table]:
        """Sample n rows of the root with all their descendants; return all tables, also the public ones."""
        made = self.sample_records(n, rng, listener, swaps)
        tables: dict[str, pa.Table] = {}
        with report_stage(listener, "decode"):
            for table in self.database.private:
                codec, rows = self.codecs[table.name], made[table.name]
                own = [rows.records.column(name) for name in codec.domain]
                tables[table.name] = codec.decode(Records.of(codec.domain, own), rng)
                if rows.times is not None:
                    dated = set_times(tables[table.name], table, codec, rows.times)
                    dated = follow_values(self, table, dated, rows, rng)
                    tables[table.name] = sort_in_time(self, table, dated, rows.parent, rows.times)
                if table.parent is not None:
                    tables[table.name] = _refer_to_parents(table, tables, rows.parent)
            for table in self.database.private[1:]:
                tables[table.name] = self._keep_within(table, tables, made[table.name].parent)
            return {
                table.name: self.public[table.name] if table.public else self._complete(table, tables, made)
                for table in self.database.tables
            }

    def sample_where(
        self, n: int | None, where: Where, rng: np.random.Generator, listener: Listener = ignore_event
    ) -> dict[str, pa.Table]:
        """Sample families whose row of the root meets conditions: n of them, or those among the default number.

        Raises ConditionError if no family meets them, or not n of them within bounded work.
        """
        codec = self.codecs[self.database.root]
        conditions = read_where(where, codec.readers)
        drawn = self.default_rows() if n is None else max(n, MIN_DRAWN)
        while True:
            tables = self.sample(drawn, rng, listener)
            kept = all_hold(conditions, codec.block(tables[self.database.root]))
            found = int(kept.sum())
            if n is None and found:
                return self._keep_families(tables, kept)
            if n is not None and found >= n:
                return self._keep_families(tables, kept & (np.cumsum(kept) <= n))
            most = max(MAX_DRAWN, MAX_DRAWN_PER_FAMILY * (n or 0))
            if n is None or drawn >= most:
                raise ConditionError(
                    f"{found:,} of {drawn:,} sampled rows of {self.database.root} meet "
                    f"{format_conditions(conditions)}: relax a condition, or request fewer rows (-n)"
                )
            drawn = min(most, max(int(1.2 * n * drawn / max(found, 1)), 2 * drawn))

    def _keep_families(self, tables: Mapping[str, pa.Table], kept: Array) -> dict[str, pa.Table]:
        """Return the families of some rows of the root: these rows, and all rows that lead to them."""
        made = dict(tables) | {self.database.root: tables[self.database.root].filter(pa.array(kept))}
        for table in self.database.private[1:]:
            keys, link = made[table.link.table].column(table.link.key), table.link.column
            known = pa.array(keys.combine_chunks().cast(pa.string()))
            own = tables[table.name].column(link).combine_chunks().cast(pa.string())
            made[table.name] = tables[table.name].filter(pc.is_in(own, value_set=known))
        return made

    def sample_records(
        self, n: int, rng: np.random.Generator, listener: Listener = ignore_event, swaps: int | None = None
    ) -> dict[str, SampledRows]:
        """Sample the coded rows of all private tables; the rows of a family are adjacent."""
        root = self.database.root
        records = self.models[root].sample(n, rng, listener)
        made = {root: SampledRows(records, np.arange(n), np.ones(n))}
        for table in self.database.private[1:]:
            draw = DrawSettings(rng, listener, swaps)
            made[table.name] = self._sample_children(table, made[str(table.parent)], draw)
        return made

    def sample_path(self, table: RelatedTable, n: int, rng: np.random.Generator) -> SampledRows:
        """Sample the coded rows of one table for n rows of the root, without linking them."""
        root = self.database.root
        made = SampledRows(self.models[root].sample(n, rng), np.arange(n), np.ones(n))
        for each in self.database.path(table.name):
            made = self._sample_children(each, made, DrawSettings(rng, swaps=0))
        return made

    def _sample_children(self, table: RelatedTable, above: SampledRows, draw: DrawSettings) -> SampledRows:
        if gap_name(table) is not None:
            return self._sample_histories(table, above, draw)
        rules = self.database.roles(table.name)
        exact = sum(rule.kind == "exactly_one" for rule in rules)
        sizes = np.maximum(above.records.column(count_name(table.name)).astype(np.int64), exact)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        parent = np.repeat(np.arange(len(sizes)), sizes)
        codec = self.codecs[table.name]
        domain = own_domain(self.database, table.name, codec.domain)
        slot = np.minimum(np.arange(len(parent)) - starts[:-1][parent], exact)
        records = self._draw_rows(table, above, parent, slot, draw)
        members = np.arange(len(parent))
        bits = self._find_roles(table, records)
        single = [number for number, rule in enumerate(rules) if rule.kind == "at_most_one"]
        for number in single:
            members, left = spread_role(members, bits, number, parent, draw.rng)
            if len(left):  # more than families can have: these rows get another role
                masks = [role_mask(rule, codec) for rule in rules]
                given = self._given(table, above, parent)
                records = self._replace_rows(
                    table, records.take(members), left, given, np.full(len(parent), len(masks)), masks, draw
                )
                members, bits = np.arange(len(parent)), self._find_roles(table, records)
        own = Records.of(domain, [records.column(name)[members] for name in domain])
        exact = sum(1 << number for number, rule in enumerate(rules) if rule.kind == "exactly_one")
        roles = FamilyRoles(bits[members], exact, sum(1 << number for number in single))
        order = self._link(table, own, above, starts, roles, draw)
        return SampledRows(own.take(order), parent, above.weight[parent] / np.maximum(sizes, 1)[parent])

    def _sample_histories(self, table: RelatedTable, above: SampledRows, draw: DrawSettings) -> SampledRows:
        """Sample families whose rows are ordered in time: first times and gaps, then rows at these times, then links.

        Rows of the model with a gap of 0 are first rows. Children are exchanged only within a group of times, and first
        rows only with first rows, so the times stay as they were drawn.
        """
        sizes = above.records.column(count_name(table.name)).astype(np.int64)
        if self.joined:
            sizes = np.maximum(sizes, 1)  # a person of a single table has a row
        sizes = np.maximum(sizes, sum(rule.kind == "exactly_one" for rule in self.database.roles(table.name)))
        sizes = np.minimum(sizes, count_times(self, table))
        starts, parent = np.concatenate([[0], np.cumsum(sizes)]), np.repeat(np.arange(len(sizes)), sizes)
        slot = np.minimum(np.arange(len(parent)) - starts[:-1][parent], 1)
        records, times = self._draw_rows(table, above, parent, slot, draw), None
        codec, gap = self.codecs[table.name], str(gap_name(table))
        names = time_attributes(table, codec)
        if len(parent):
            times = draw_times(self, table, records, self._given(table, above, parent), parent, draw)
            column = codec.readers[str(table.time)].make(times)
            coded = codec.narrowed(names).encode(pa.table({str(table.time): column}))
            drawn = {name: coded.column(name) for name in names}
            drawn[gap] = encode_gaps(times, parent, time_step(codec, table)).astype(records.column(gap).dtype)
            records = self._draw_rows(table, above, parent, slot, draw, drawn)
        domain = own_domain(self.database, table.name, codec.domain)
        own = Records.of(domain, [records.column(name) for name in domain])
        blocks = slot
        if len(parent) and table.name in self.targets:
            blocks = slot + 2 * self.targets[table.name].own[names[0]][own.column(names[0])]
        order = self._link(table, own, above, starts, FamilyRoles.none(len(parent)), draw, blocks)
        linked = settle_roles(self, table, own.take(order), starts, draw)
        if len(parent):
            linked = Records.of(domain, [drawn.get(name, linked.column(name)) for name in domain])
        return SampledRows(linked, parent, above.weight[parent] / np.maximum(sizes, 1)[parent], times)

    def _find_roles(self, table: RelatedTable, records: Records) -> Array:
        """Return the roles of rows as bits, one for each rule."""
        bits = np.zeros(len(records), np.int64)
        for number, rule in enumerate(self.database.roles(table.name)):
            name, mask = role_mask(rule, self.codecs[table.name])
            bits |= mask[records.column(name)].astype(np.int64) << number
        return bits

    def _given(self, table: RelatedTable, above: SampledRows, parent: Array) -> dict[str, Array]:
        """Return the attributes of the parents that the view of the children has, with sizes in classes."""
        view, name = self.models[table.name].domain, str(table.parent)
        named = {each: parent_name(name, each) for each in above.records.domain}
        given = {key: above.records.column(each)[parent] for each, key in named.items() if key in view}
        size = size_name(table)
        return given | {size: np.asarray(self.options["classes"][table.name])[given[size]]}

    def _draw_rows(
        self,
        table: RelatedTable,
        above: SampledRows,
        parent: Array,
        slot: Array,
        draw: DrawSettings,
        drawn: Mapping[str, Array] | None = None,
    ) -> Records:
        """Draw a row for each place of a family from a pool of rows of its size class and slot.

        The pool is sampled from the model of a table with the attributes of the parents, whose rows weigh 1/k: rows of
        large families are drawn more often. In each class, rows and places are sorted by the attributes of the parents
        and matched in this order. Rows of the first slots have the roles that a family has exactly once; in histories,
        they are first rows. `drawn` are attributes of the rows that were drawn before: they are matched first.
        """
        model, rng = self.models[table.name], draw.rng
        given = self._given(table, above, parent)
        size = size_name(table)
        masks = self._list_slots(table)
        families = max(len(np.unique(parent)), 1)
        most = np.bincount(given[size]).max(initial=1) / max(np.bincount(given[size][slot == 0]).max(initial=1), 1)
        pool = model.sample(int(min(1.2 * max(most, 1.0) * families + 1000, MAX_POOL)), rng, draw.listener)
        role = np.full(len(pool), len(masks))
        for number, (name, mask) in reversed(list(enumerate(masks))):
            role[mask[pool.column(name)]] = number
        cells = given[size].astype(np.int64) * (len(masks) + 1) + slot
        held = pool.column(size).astype(np.int64) * (len(masks) + 1) + role
        heads = self._rank_heads(table)
        given = given | dict(drawn or {})
        heads = {name: self.targets[table.name].own[name] for name in drawn or {}} | heads
        pooled = _sort_by([codes[pool.column(name)] for name, codes in heads.items()], held, rng)
        placed = _sort_by([codes[given[name]] for name, codes in heads.items()], cells, rng)
        first = np.searchsorted(held[pooled], np.arange(cells.max(initial=0) + 2))
        begin = np.searchsorted(cells[placed], np.arange(cells.max(initial=0) + 2))
        cell = cells[placed]
        rank, wanted, there = np.arange(len(cell)) - begin[cell], np.diff(begin)[cell], np.diff(first)[cell]
        # Spread evenly over the rows of the pool: all are equally likely, and the order is kept.
        chosen = first[cell] + np.minimum(((rank + 0.5) * there / wanted).astype(np.int64), np.maximum(there - 1, 0))
        source = np.zeros(len(cell), np.int64)
        source[placed] = pooled[np.minimum(chosen, len(pool) - 1)]
        records = pool.take(source)
        lacking = placed[there == 0]
        return self._replace_rows(table, records, lacking, given, slot, masks, draw) if len(lacking) else records

    def _list_slots(self, table: RelatedTable) -> list[tuple[str, Array]]:
        """Return the attribute and the mask of its codes for each slot of a family: its roles, or its first row."""
        gap = gap_name(table)
        if gap is not None:
            return [(gap, np.eye(1, GAP_CODES)[0] > 0)]
        rules = [rule for rule in self.database.roles(table.name) if rule.kind == "exactly_one"]
        return [role_mask(rule, self.codecs[table.name]) for rule in rules]

    def _rank_heads(self, table: RelatedTable) -> dict[str, Array]:
        """Return groups of codes of the parents' attributes, those that children depend on most first."""
        targets = self.targets[table.name]
        found: dict[str, float] = {}
        for name, _, counts, _ in targets.parents:
            found[name] = found.get(name, 0.0) + find_dependence(counts)
        ranked = sorted((name for name in found if name != count_name(table.name)), key=lambda name: -found[name])
        return {parent_name(str(table.parent), name): targets.above[name] for name in ranked}

    def _replace_rows(
        self,
        table: RelatedTable,
        records: Records,
        places: Array,
        given: Mapping[str, Array],
        slot: Array,
        masks: list[tuple[str, Array]],
        draw: DrawSettings,
    ) -> Records:
        """Sample the rows of some places by themselves, given their parents and slots."""
        columns = [codes.copy() for codes in records.columns]
        for number in range(len(masks) + 1):
            rows = places[slot[places] == number]
            if not len(rows):
                continue
            own = {masks[number][0]: masks[number][1].astype(np.float64)} if number < len(masks) else None
            heads = {name: codes[rows] for name, codes in given.items()}
            evidence = own or self._exclude_roles(masks)
            again = self._sample_allowed(table, heads, evidence, draw)
            for column, codes in zip(columns, again.columns, strict=True):
                column[rows] = codes
        return Records.of(records.domain, columns)

    def _sample_allowed(
        self, table: RelatedTable, heads: Mapping[str, Array], evidence: Evidence, draw: DrawSettings
    ) -> Records:
        """Sample rows under the evidence; where noise left no such row in the model, its codes are drawn evenly."""
        from weft.models.given_records import sample_given  # loads numba

        model = self.models[table.name]
        try:
            return sample_given(model, heads, evidence, draw.rng, draw.listener)
        except ImpossibleEvidenceError:
            made = sample_given(model, heads, {}, draw.rng, draw.listener)
        columns = dict(zip(made.domain, made.columns, strict=True))
        for name, weights in evidence.items():
            if (allowed := np.flatnonzero(weights)).size:
                columns[name] = draw.rng.choice(allowed, len(made))
        return Records.of(made.domain, list(columns.values()))

    def _exclude_roles(self, masks: list[tuple[str, Array]]) -> Evidence:
        allowed: dict[str, Array] = {}
        for name, mask in masks:
            allowed[name] = np.where(mask, 0.0, allowed.get(name, np.ones(len(mask))))
        return allowed

    def _link(
        self,
        table: RelatedTable,
        own: Records,
        above: SampledRows,
        starts: Array,
        roles: FamilyRoles,
        draw: DrawSettings,
        blocks: Array | None = None,
    ) -> Array:
        targets = self.targets.get(table.name)
        if targets is None or draw.swaps == 0:
            return np.arange(len(own))
        names, parents = list(targets.own), list(targets.above)
        children = np.stack([targets.own[name][own.column(name)] for name in names], axis=1)
        values = [targets.above[name][above.records.column(name)] for name in parents]
        tables = [*targets.siblings, *targets.parents]
        least = min((sigma for *_, sigma in tables), default=1.0)
        siblings = [
            LinkTable(names.index(a), names.index(b), target, (least / sigma) ** 2)
            for a, b, target, sigma in targets.siblings
        ]
        links = [
            LinkTable(names.index(b), parents.index(a), target, (least / sigma) ** 2)
            for a, b, target, sigma in targets.parents
        ]
        heads = np.stack(values, axis=1) if values else np.zeros((len(starts) - 1, 1), np.int64)
        with report_stage(draw.listener, "link families"):
            linkage = Linkage(
                np.ascontiguousarray(children, np.int64), np.ascontiguousarray(heads, np.int64),
                starts.astype(np.int64), above.weight.astype(np.float64), siblings, links, roles, blocks,
            )  # fmt: skip
            return linkage.link(draw.rng, draw.swaps)

    def _keep_within(self, table: RelatedTable, tables: Mapping[str, pa.Table], parent: Array) -> pa.Table:
        """Move dates of children into the dates of their parents."""
        made = tables[table.name]
        for rule in self.database.rules:
            if rule.kind == "within" and rule.child == table.name:
                place = made.schema.get_field_index(rule.column)
                dates = decode_dictionary(made.column(place).combine_chunks())
                for end, choose in zip(rule.bounds, (pc.max_element_wise, pc.min_element_wise), strict=True):
                    if end is not None:
                        bound = decode_dictionary(tables[str(table.parent)].column(end).combine_chunks())
                        moved = choose(dates, bound.take(pa.array(parent)).cast(dates.type), skip_nulls=True)
                        dates = pc.if_else(pc.is_null(dates), dates, moved)
                made = made.set_column(
                    place, made.schema.field(place), cast_to_stored_type(dates, made.schema.field(place).type)
                )
        return made

    def _complete(
        self, table: RelatedTable, tables: Mapping[str, pa.Table], made: Mapping[str, SampledRows]
    ) -> pa.Table:
        """Add the computed columns of a table, in the order of its columns, and sort families by time."""
        rows = tables[table.name]
        for name, rule in self.database.defined(table.name).items():
            values = self._compute(rule, table, tables, made)
            rows = rows.append_column(
                pa.field(name, self._type_of(table, name)), values.cast(self._type_of(table, name))
            )
        if table.time is not None:
            keys = pa.table(
                {"p": made[table.name].parent, "t": decode_dictionary(rows.column(table.time).combine_chunks())}
            )
            rows = rows.take(pc.sort_indices(keys, sort_keys=[("p", "ascending"), ("t", "ascending")]))
            for name, rule in self.database.defined(table.name).items():
                if rule.kind == "number":  # in the order of time
                    place = rows.schema.get_field_index(name)
                    rows = rows.set_column(
                        place,
                        rows.schema.field(place),
                        self._compute(rule, table, tables, made).cast(rows.schema.field(place).type),
                    )
        order = [name for name in self.options["columns"][table.name] if name in rows.column_names]
        return rows.select(order)

    def _type_of(self, table: RelatedTable, name: str) -> pa.DataType:
        return pa.type_for_alias(self.options["types"][table.name][name])

    def _compute(
        self, rule: FamilyRule, table: RelatedTable, tables: Mapping[str, pa.Table], made: Mapping[str, SampledRows]
    ) -> pa.Array:
        """Compute a column that a rule defines."""
        children, parent = tables[rule.child], made[rule.child].parent
        if rule.kind == "number":
            return pa.array(number_rows(parent))
        n = len(made[table.name].records)
        if rule.kind == "sum":
            values = decode_dictionary(children.column(rule.column).combine_chunks()).cast(pa.float64()).fill_null(0.0)
            total = self.database.table(table.name).schema.column(str(rule.target))
            whole = pa.types.is_integer(self._type_of(table, str(rule.target)))
            digits = 0 if whole or total.kind == "integer" else getattr(total, "decimals", None)
            sums = np.bincount(parent, values.to_numpy(zero_copy_only=False), n)
            return pa.array(sums if digits is None else np.round(sums, digits))
        held = np.ones(len(children), bool)
        if rule.where:
            held = all_hold(rule.where, self.codecs[rule.child].block(children))
        count = np.bincount(parent[held], minlength=n)
        if rule.kind == "any":
            return pa.array([rule.values[0], rule.values[1]]).take(pa.array((count > 0).astype(np.int64)))
        return pa.array(count if rule.largest is None else np.minimum(count, rule.largest))


def _sort_by(columns: list[Array], cells: Array, rng: np.random.Generator) -> Array:
    """Return the rows sorted by cells, then by columns, in random order within ties."""
    return np.lexsort([rng.random(len(cells)), *columns[::-1], cells])


def spread_role(
    members: Array, bits: Array, number: int, parent: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Exchange surplus rows with a role for rows of families without it; return the rows, and the places left over."""
    has = (bits[members] >> number & 1).astype(bool)
    order = np.lexsort((rng.random(len(parent)), ~has, parent))
    rank = number_rows(parent)  # of the sorted places
    surplus = order[(rank > 1) & has[order]]
    counts = np.bincount(parent[has], minlength=int(parent.max(initial=-1)) + 1)
    plain = order[(counts[parent[order]] == 0) & (bits[members[order]] == 0)]
    _, first = np.unique(parent[plain], return_index=True)
    free = rng.permutation(plain[first])
    swapped = rng.permutation(surplus)[: len(free)]
    free = free[: len(swapped)]
    made = members.copy()
    made[swapped], made[free] = members[free], members[swapped]
    return made, np.setdiff1d(surplus, swapped)


def number_rows(parent: Array) -> Array:
    """Return 1, 2, ... for the rows of each family, which are adjacent.

    >>> number_rows(np.array([0, 0, 2, 2, 2])).tolist()
    [1, 2, 1, 2, 3]
    """
    first = np.concatenate([[True], np.diff(parent) != 0]) if len(parent) else np.zeros(0, bool)
    start = np.maximum.accumulate(np.where(first, np.arange(len(parent)), 0)) if len(parent) else np.zeros(0, np.int64)
    return np.asarray(np.arange(len(parent)) - start + 1)


def join_history(fitted: FittedDatabase, tables: Mapping[str, pa.Table]) -> pa.Table:
    """Return one row for each row of a person, with the columns of the person, in the order of the private table."""
    persons, rows = tables[PERSONS], tables[ROWS]
    unit = str(fitted.database.table(PERSONS).key)
    place = pc.index_in(rows.column(unit).combine_chunks(), value_set=persons.column(unit).combine_chunks())
    for name in persons.column_names:
        if name not in rows.column_names:
            rows = rows.append_column(persons.schema.field(name), persons.column(name).take(place))
    return rows.select(list(fitted.joined))


def joined_schema(fitted: FittedDatabase) -> Schema:
    """Return the schema of a single table of histories."""
    tables = [fitted.database.table(name).schema for name in (ROWS, PERSONS)]
    known = {column.name: column for schema in reversed(tables) for column in schema.columns}
    return Schema(tuple(known[name] for name in fitted.joined), extra_columns="ignore")


def split_joined(database: Database, table: pa.Table) -> dict[str, pa.Table]:
    """Return the persons and the rows of a single table of histories; a person is one row, the first."""
    key, above = str(database.table(PERSONS).key), database.table(PERSONS).schema
    first = pa.table({"key": table.column(key), "row": pa.array(np.arange(len(table)))})
    rows = first.group_by("key").aggregate([("row", "min")]).column("row_min").combine_chunks()
    return {PERSONS: table.take(rows).select([c.name for c in above.columns]), ROWS: table}


def find_dependence(counts: Array) -> float:
    """Return the L1 distance of a table of two attributes, as shares, from independence."""
    shares = np.maximum(counts, 0) / max(float(np.maximum(counts, 0).sum()), 1e-12)
    return float(np.abs(shares - np.outer(shares.sum(axis=1), shares.sum(axis=0))).sum())


def _refer_to_parents(table: RelatedTable, tables: Mapping[str, pa.Table], parent: Array) -> pa.Table:
    """Set the foreign key of each row to the key of its parent."""
    rows, link = tables[table.name], table.link
    place = rows.schema.get_field_index(link.column)
    keys = decode_dictionary(tables[link.table].column(link.key).combine_chunks()).take(pa.array(parent))
    kind = rows.schema.field(place).type
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return rows.set_column(place, rows.schema.field(place), cast_to_stored_type(keys.cast(plain), kind))
