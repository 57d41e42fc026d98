"""Rows of related tables: who owns them, which are kept, and weighted views of them that can be counted.

Ownership. The privacy unit is the value of the root's key, never a row. A row of a child table belongs to the row of
its parent that its foreign key names, and so to a unit. Rows without an owner (a missing key, or a key that no kept row
of the parent has) belong to nobody and are dropped, and so are rows that refer to a public row that does not exist. Of
several root rows with one key, one is kept at random; of the children of a row, at most `max_children`, at random. Rows
without children are kept.

Privacy (Lemma 0): every row of every table gets a random number, drawn by position from the operating system's entropy,
independently of all rows, and never released. Let D' be D without the rows of unit u in all tables. The numbers of the
rows that D and D' share have the same distribution in both, so couple the runs in which they are equal. By induction
over the tables, parents first, the kept rows of all other units are then equal in D and D': which rows of a table are
kept for a parent depends on the rows that name this parent, on their numbers and on the bound alone, and a row that
names a parent of another unit names none of u's, because a key names the rows of one unit (see below). So D and D'
differ in the kept rows of u alone: one root row, at most s1 rows of a child table with bound s1, at most s1 s2 of its
child table, and so on. Averaging over the coupled runs preserves every guarantee that holds for each of them.

A root key names one unit by definition. The key of another parent table must be unique over units: a database in which
two units share one is refused before anything is charged, as a table that violates its schema is. (Without this, a unit
could take over the children of another.) Within a unit, one of the rows that share a key is kept at random.

Weights (`Adjacency.weigh`): a view gives each of its rows an integer weight, at most `mass` in sum over the rows of a
unit. With K the product of the numbers of siblings along the path from the root (k1 k2 ...), the rows of a table weigh
floor(W / K), and ordered pairs of siblings floor(W / (K (k - 1))). The K of the rows of a unit satisfy sum 1/K <= 1, by
induction: a row of weight 1/K has either no children, or k of them with 1/(K k) each. So the mass is W in both.

Histories. The rows of a family with a time column are ordered by time once they have been chosen. Which rows are kept
does not depend on times, and the order within a family only on its own rows, so Lemma 0 holds. Pairs of consecutive
rows weigh floor(W / (K' (k - 1))), K' being the product of the parent's path: a family has k - 1 of them, which sum to
at most W / K', and the families of a unit to W. The time since the previous row is an attribute of the row.
Nothing about the rows that were dropped or kept is reported.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.encoding import Codec
from weft.encoding.time_gaps import GAP_CODES, GAP_ORDER, count_years, encode_gaps
from weft.engines.memory_engine import MemoryEngine
from weft.engines.privacy_units import keep_rows, unit_codes, unit_names
from weft.engines.sources import open_reader
from weft.errors import DataError, SchemaError, SourceError
from weft.io.dialect import DEFAULT_DIALECT, Dialect
from weft.marginals.domain import Domain, Order
from weft.marginals.records import Records, code_dtype, sibling_pairs
from weft.progress import Listener, ignore_event
from weft.schema.database import Database, RelatedTable
from weft.schema.kinds import Category, Column, ColumnError, Id, Unknown
from weft.schema.rules.order import Ordered
from weft.schema.schema import Schema

Places = NDArray[np.int64]

BATCH_ROWS = 1 << 17
MAX_EXACT_SIZE = 8
"""Rows have weights W / K with W = lcm(1..s) up to this bound s; larger families are rounded down."""
ROW_WEIGHT_FACTOR = 6
"""Factor of W for each further level, so that rounding down stays below a few per cent."""
MIN_STEPS = 10
"""Least weight of a row in the largest families, so that rounding down changes it by at most a tenth."""
MAX_ROW_FACTOR = 1000
PAIR_WEIGHT = 720_720
"""Largest W of pairs of siblings: lcm(1..16)."""


def count_name(child: str) -> str:
    """Return the name of the attribute with the number of rows of a child table."""
    return f"number of {child}"


def parent_name(parent: str, attribute: str) -> str:
    """Return the name of a parent's attribute in the view of its children."""
    return f"{parent}: {attribute}"


def row_weight(database: Database, name: str) -> int:
    """Return W, the mass of the rows of a table: 1 for the root."""
    path = database.path(name)
    if not path:
        return 1
    base: int = math.lcm(*range(1, min(max(table.max_children for table in path), MAX_EXACT_SIZE) + 1))
    largest = math.prod(table.max_children for table in path)
    factor: int = max(ROW_WEIGHT_FACTOR ** (len(path) - 1), min(-(-MIN_STEPS * largest // base), MAX_ROW_FACTOR))
    return base * factor


def pair_weight(database: Database, name: str) -> int:
    """Return W, the mass of the pairs of siblings of a table."""
    bounds = [table.max_children for table in database.path(name)]
    return min(math.prod(math.lcm(*range(1, min(bound, 16) + 1)) for bound in bounds), PAIR_WEIGHT)


def gap_name(table: RelatedTable) -> str | None:
    """Return the name of the attribute with the time since the previous row; None for a table without a time column."""
    return None if table.time is None or table.parent is None else f"{table.time} since the previous row"


def pair_name(table: RelatedTable, attribute: str) -> str:
    """Return the name of the attribute of the other row of a pair: of the next row in time, or of a sibling."""
    return f"sibling: {attribute}" if gap_name(table) is None else f"next: {attribute}"


MAX_SIBLINGS = 16
"""Maximum number of children of a parent that form pairs of siblings."""

MAX_PATH = 1 << 50


@dataclass(frozen=True)
class Families:
    """Kept rows of all private tables, encoded; the rows of a family are adjacent, in random order."""

    database: Database
    codecs: Mapping[str, Codec]
    records: Mapping[str, Records]
    parents: Mapping[str, Places]
    """For each child table: the place of each row's parent among the kept rows of the parent table, ascending."""
    gaps: Mapping[str, Places]
    """For each child table with a time column, whose families are in its order: codes of the times between rows."""
    listener: Listener = ignore_event

    def sizes(self, child: str) -> Places:
        """Return the number of kept rows of a child table for each kept row of its parent."""
        parent = str(self.database.table(child).parent)
        return np.bincount(self.parents[child], minlength=len(self.records[parent])).astype(np.int64)

    def _paths(self, name: str) -> Places:
        """Return K for each row of a table: the product of the numbers of siblings along its path, at most `MAX_PATH`.

        A larger product could exceed 64 bits; a row of either has weight 0.
        """
        parent = self.database.table(name).parent
        if parent is None:
            return np.ones(len(self.records[name]), np.int64)
        above = self._paths(parent)[self.parents[name]]
        return np.asarray(np.minimum(above * self.sizes(name)[self.parents[name]], MAX_PATH))

    def _own(self, name: str) -> Records:
        """Return the rows of a table with its attributes and the numbers of its children."""
        records, children = self.records[name], self.database.children(name)
        sizes = [self.sizes(child.name) for child in children]
        domain = own_domain(self.database, name, records.domain)
        gaps = [self.gaps[name]] if name in self.gaps else []
        return Records.of(domain, [*records.columns, *gaps, *sizes])

    def rows(self, name: str, classes: Sequence[int] | None = None) -> MemoryEngine:
        """Return the rows of a table with the attributes of their parents, of weight floor(W / K): mass W.

        `classes` is the class of each number of siblings: public, or from released answers.
        """
        own, parent = self._own(name), self.database.table(name).parent
        if parent is None:
            return MemoryEngine(own, self.listener, mass=1)
        above = self._own(parent).take(self.parents[name])
        if classes is not None:
            at = above.domain.index(count_name(name))
            columns = list(above.columns)
            columns[at] = np.asarray(classes, columns[at].dtype)[columns[at]]
            above = Records(above.domain, tuple(columns))
        domain = view_domain(self.database, name, {key: codec.domain for key, codec in self.codecs.items()})
        kept = [above.columns[i] for i in _parent_places(self.database, name, above)]
        records = Records.of(domain, [*own.columns, *kept])
        mass = row_weight(self.database, name)
        return MemoryEngine(records, self.listener, weights=mass // self._paths(name), mass=mass)

    def pairs(self, name: str, maps: Mapping[str, tuple[NDArray[Any], int]]) -> MemoryEngine:
        """Return ordered pairs of siblings, or of consecutive rows of a table with a time column: mass W.

        K' is the product of a parent's path, k the number of its children. Siblings weigh floor(W / (K' k (k - 1))); at
        most `MAX_SIBLINGS` form pairs: the first ones, since the rows of a family are in random order. So the memory of
        large families is bounded, and the k (k - 1) pairs of a parent weigh at most W / K' in sum. Consecutive rows
        weigh floor(W / (K' (k - 1))). `maps` recodes the attributes that are kept: public, or from released answers.
        """
        table, every = self.database.table(name), self.sizes(name)
        if name in self.gaps:
            records, parents = self.records[name], self.parents[name]
            first = np.flatnonzero(np.diff(parents) == 0)
            second, number = first + 1, np.maximum(every - 1, 1)
        else:
            rank = np.arange(len(self.parents[name])) - (np.cumsum(every) - every)[self.parents[name]]
            kept = np.flatnonzero(rank < MAX_SIBLINGS)
            records, parents = self.records[name].take(kept), self.parents[name][kept]
            sizes = every.clip(max=MAX_SIBLINGS)
            first, second = sibling_pairs(np.concatenate([[0], np.cumsum(sizes)]))
            number = sizes * np.maximum(sizes - 1, 1)
        coded = [codes[records.column(key)].astype(code_dtype(size)) for key, (codes, size) in maps.items()]
        domain = pair_domain(table, {key: size for key, (_, size) in maps.items()})
        mass = pair_weight(self.database, name)
        weights = mass // (self._paths(str(table.parent)) * number)[parents[first]]
        columns = [*(codes[first] for codes in coded), *(codes[second] for codes in coded)]
        return MemoryEngine(Records(domain, tuple(columns)), self.listener, weights=weights, mass=mass)


def own_domain(database: Database, name: str, domain: Domain) -> Domain:
    """Return the attributes of a table, the time since the previous row, and the numbers of its children."""
    children, gap = database.children(name), gap_name(database.table(name))
    names = (*domain.names, *([gap] if gap else []), *(count_name(child.name) for child in children))
    sizes = (*domain.shape, *([GAP_CODES] if gap else []), *(child.max_children + 1 for child in children))
    own = (*(domain.order(each) for each in domain), *([GAP_ORDER] if gap else []))
    return Domain(names, sizes, (*own, *(Order(ordered=True) for _ in children)), domain.impossible)


def view_domain(database: Database, name: str, domains: Mapping[str, Domain]) -> Domain:
    """Return the attributes of the view of a table: its own, and those of its parent."""
    own, parent = own_domain(database, name, domains[name]), database.table(name).parent
    if parent is None:
        return own
    above = own_domain(database, parent, domains[parent])
    kept = [each for i, each in enumerate(above) if i in _parent_places(database, name, Records.empty(above))]
    names = tuple(parent_name(parent, each) for each in kept)
    if clash := set(own) & set(names):
        raise SchemaError(f'table "{name}": an attribute is called {min(clash)!r}, like one of its parent; rename it')
    orders = (*(own.order(each) for each in own), *(above.order(each) for each in kept))
    return Domain((*own.names, *names), (*own.shape, *(above.size(each) for each in kept)), orders, own.impossible)


def _parent_places(database: Database, name: str, above: Records) -> list[int]:
    """Return the attributes of a parent that the view of a child table has: all but the numbers of other children."""
    parent = str(database.table(name).parent)
    others = {count_name(child.name) for child in database.children(parent)} - {count_name(name)}
    return [i for i, each in enumerate(above.domain) if each not in others]


def pair_domain(table: RelatedTable, sizes: Mapping[str, int]) -> Domain:
    """Return the attributes of pairs of rows: those of one row, and those of the other."""
    return Domain((*sizes, *(pair_name(table, each) for each in sizes)), (*sizes.values(), *sizes.values()))


def are_whole_numbers(keys: Sequence[str | None]) -> bool:
    """Return whether all public keys are written as whole numbers are."""
    return all(key is not None and re.fullmatch(r"-?[1-9][0-9]{0,17}|0", key) for key in keys)


def modelled_schema(
    database: Database, table: RelatedTable, references: Mapping[str, Sequence[str]], as_text: bool = False
) -> Schema:
    """Return the schema of a table without the columns that rules define, with references to public rows as categories.

    `references` has the keys of each public table. If all look like whole numbers, they are numbers unless `as_text`.
    """
    defined, linked = database.defined(table.name), {link.column: link for link in table.links}
    for rule in table.schema.rules:
        if clash := set(rule.columns) & set(defined):
            raise SchemaError(f'table "{table.name}": the rule {rule} uses {min(clash)}, which a family rule computes')
    columns: list[Column] = []
    for column in table.schema.columns:
        link = linked.get(column.name)
        if link is not None and link.table in references:
            keys = references[link.table]
            whole = not as_text and are_whole_numbers(keys)
            values = tuple(int(key) if whole else key for key in keys)
            columns.append(Category(column.name, values, missing=column.missing, markers=column.markers))
        elif column.name not in defined:
            columns.append(column)
    # Dates of children can only lie between two dates that are in order.
    children = {child.name for child in database.children(table.name)}
    ends = [r.bounds for r in database.rules if r.kind == "within" and all(r.bounds) and r.child in children]
    kept = {column.name for column in columns}
    known = [Ordered((str(low), str(high))) for low, high in dict.fromkeys(ends) if kept.issuperset((low, high))]
    rules = (*table.schema.rules, *(rule for rule in known if rule not in table.schema.rules))
    schema = replace(table.schema, columns=tuple(columns), extra_columns="ignore", rules=rules)
    if not schema.modelled:
        raise SchemaError(f'table "{table.name}": it has no column to model besides keys and computed columns')
    return schema


def open_families(
    database: Database,
    sources: Mapping[str, Any],
    references: Mapping[str, Sequence[str]],
    *,
    dialect: Dialect = DEFAULT_DIALECT,
    listener: Listener = ignore_event,
    rng: np.random.Generator | None = None,
) -> Families:
    """Read and encode all private tables, and keep the rows that have an owner, within the contribution bounds.

    `rng` replaces the system's entropy, for tests.
    """
    rng = rng or np.random.default_rng()
    codecs: dict[str, Codec] = {}
    records: dict[str, Records] = {}
    parents: dict[str, Places] = {}
    keys: dict[str, tuple[pa.Array, Places]] = {}  # the key of each kept row of a table, and its unit
    gaps: dict[str, Places] = {}
    for table in database.private:
        codec, read, columns, times = _read_table_rows(
            database, table, sources[table.name], references, dialect, listener
        )
        timed = gap_name(table) is not None
        codecs[table.name] = codec
        if table.parent is None:
            assert table.key is not None
            names = columns[table.key]
            kept = np.flatnonzero(keep_rows(unit_codes([names]), 1, rng))
            owners = np.arange(len(kept))
        else:
            above, above_owner = keys[table.parent]
            place = _find_parent_rows(above, columns[table.link.column])
            if table.key is not None and database.children(table.name):
                owner = np.append(above_owner, -1)[place]  # -1, the last one, for a row without a parent
                place = np.where(_keep_distinct(columns[table.key], owner, table, rng), place, -1)
            order = np.lexsort((rng.random(len(place)), place))  # the rows of a family in random order
            kept = order[keep_rows(place[order], table.max_children, rng)]
            if timed:
                kept = kept[np.lexsort((times[kept], place[kept]))]
                gaps[table.name] = encode_gaps(times[kept], place[kept], time_step(codec, table))
            parents[table.name] = place[kept]
            owners = above_owner[place[kept]]
        records[table.name] = read.take(kept)
        if table.key is not None:
            keys[table.name] = columns[table.key].take(pa.array(kept)), owners
    return Families(database, codecs, records, parents, gaps, listener)


def time_step(codec: Codec, table: RelatedTable) -> int:
    """Return the resolution of a time column, in the units of `ColumnReader`."""
    return codec.readers[str(table.time)].step


def _read_times(codec: Codec, batch: pa.RecordBatch, name: str) -> Places:
    """Return the times of rows as integers, in the units of `ColumnReader`; a missing time is the last one."""
    values = codec.readers[name].read(codec.arrays(pa.Table.from_batches([batch.select([name])]))[name])
    return np.where(values.missing, values.reader.ends[1], values.numbers).astype(np.int64)


def _read_table_rows(
    database: Database,
    table: RelatedTable,
    source: Any,
    references: Mapping[str, Sequence[str]],
    dialect: Dialect,
    listener: Listener,
) -> tuple[Codec, Records, dict[str, pa.Array], Places]:
    """Read a table; return its codec, its encoded rows, its key columns and, with a time column, their times."""
    try:
        schema = dialect.marking(modelled_schema(database, table, references))
        reader = open_reader(source, schema, BATCH_ROWS, dialect)
    except ColumnError:  # keys that look like whole numbers are text in this source
        schema = dialect.marking(modelled_schema(database, table, references, as_text=True))
        reader = open_reader(source, schema, BATCH_ROWS, dialect)
    if reader.spark is not None:
        raise SourceError(f'table "{table.name}": related tables are held in memory; collect the Spark table first')
    codec = Codec(schema, reader.schema)
    own = [] if table.key is None else [table.key]
    wanted = [*own, *([] if table.parent is None else [table.link.column])]
    times = [np.empty(0, np.int64)]
    timed = [] if gap_name(table) is None else [str(table.time)]
    pieces: list[Records] = [Records.empty(codec.domain)]
    names: dict[str, list[pa.Array]] = {name: [] for name in wanted}
    known = {each.column: pa.array(references[each.table]) for each in table.links if each.table in references}

    def encode(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Records]:
        kept = _keep_known(batch, known, schema)
        return kept, codec.encode(kept)

    needed = list(dict.fromkeys([*codec.reads, *wanted, *timed]))
    for _, (batch, coded) in reader.read(needed, encode, listener, "read"):
        pieces.append(coded)
        times += [_read_times(codec, batch, name) for name in timed]
        for name, held in names.items():
            column = schema.column(name)
            held.append(key_names(batch.column(name), column.markers if isinstance(column, Id) else ()))
    joined = {name: pa.chunked_array(held, pa.binary()).combine_chunks() for name, held in names.items()}
    return codec, Records.concatenate(pieces), joined, np.concatenate(times)


def _keep_known(batch: pa.RecordBatch, known: Mapping[str, pa.Array], schema: Schema) -> pa.RecordBatch:
    """Drop rows that refer to no public row, each by itself; a missing key stays."""
    for name, keys in known.items():
        named = key_names(batch.column(name), schema.column(name).markers)
        found = pc.is_in(named, value_set=key_names(keys, ()))
        batch = batch.filter(pc.or_(found, pc.is_null(named)))
    return batch


def _find_parent_rows(keys: pa.Array, names: pa.Array) -> Places:
    """Return the place of each name among the keys, which are distinct; -1 for none."""
    found = pc.index_in(names, value_set=keys, skip_nulls=True).fill_null(-1)
    return np.asarray(found.to_numpy(zero_copy_only=False), np.int64)


def attach_units(
    database: Database, name: str, sources: Mapping[str, Any], columns: Mapping[str, Sequence[str]], dialect: Dialect
) -> pa.Table:
    """Return the rows of a table below a child of the root, with the key of their unit in place of their parent's.

    Privacy: the key depends on the row and on the rows of its own unit. A key that rows of two units share is refused,
    as in `open_families`. The table is for discovery, which reads its columns as it would read those of the source.
    """
    table = database.table(name)
    rows = _read_plainly(sources[name], columns[name], dialect)
    path = database.path(name)
    keys, owners = pa.array([], pa.binary()), pa.array([], pa.binary())
    for above in path[:-1]:
        read = _read_plainly(sources[above.name], [str(above.key), above.link.column], dialect)
        owner = _read_keys(read, above, above.link.column)
        if above is not path[0]:
            owner = owners.take(pc.index_in(owner, value_set=keys, skip_nulls=True))
        names = _read_keys(read, above, str(above.key))
        _keep_distinct(names, unit_codes([owner]), above, np.random.default_rng(0))  # refuses keys of two units
        known = pc.and_(names.is_valid(), owner.is_valid())  # a missing key leads to nobody
        known_names = names.filter(known)
        numbered = pa.table({"key": known_names, "row": pa.array(np.arange(len(known_names)))})
        distinct = numbered.group_by("key").aggregate([("row", "min")])  # the first row of each key
        keys, first = (distinct.column(name).combine_chunks() for name in ("key", "row_min"))
        owners = owner.filter(known).take(first)
    found = pc.index_in(_read_keys(rows, table, table.link.column), value_set=keys, skip_nulls=True)
    place = rows.schema.get_field_index(table.link.column)
    return rows.set_column(place, table.link.column, owners.take(found).cast(pa.string()))


def _read_keys(rows: pa.Table, table: RelatedTable, name: str) -> pa.Array:
    column = table.schema.column(name)
    return key_names(rows.column(name).combine_chunks(), column.markers if isinstance(column, Id) else ())


def _read_plainly(source: Any, names: Sequence[str], dialect: Dialect) -> pa.Table:
    """Read some columns of a whole table without a schema, in the types of its source."""
    known = Schema(tuple(Unknown(name, missing=True) for name in names), extra_columns="ignore")
    reader = open_reader(source, known, BATCH_ROWS, dialect)
    batches = [batch.select(names) for batch, _ in reader.start(names)]
    return pa.Table.from_batches(batches, pa.schema([reader.schema.field(name) for name in names]))


def open_changes(
    source: Any, schema: Schema, time: str, dialect: Dialect = DEFAULT_DIALECT, listener: Listener = ignore_event
) -> MemoryEngine:
    """Open one record per unit, which states for each column how its values change between the unit's rows.

    Columns of listed values, numbers and dates only. Codes: 0, the unit has one row; 1, all values are equal; 2, they
    advance with time, within less than one; 3, they change otherwise. Of the time column: 1, all times differ; 3, a
    time occurs twice.

    Privacy: the record of a unit is a function of its own rows alone, and a unit has one record, so its mass is 1
    without a contribution bound.
    """
    reader = open_reader(source, schema, BATCH_ROWS, dialect)
    codec = Codec(schema, reader.schema)
    # Numbers of other kinds may depend on further rows: such columns count as changing.
    readers = {column.name: codec.readers[column.name] for column in schema.modelled if column.in_table}
    names = [n for n, r in readers.items() if r.listed or r.column.kind in ("integer", "real", "datetime")]
    pieces: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
    missing: dict[str, list[NDArray[np.bool_]]] = {name: [] for name in names}
    ids: list[pa.Array] = []
    unit = str(schema.unit)
    for batch, _ in reader.start([*names, unit]):
        arrays = codec.arrays(pa.Table.from_batches([batch.select(names)]))
        ids.append(key_names(batch.column(unit), schema.column(unit).markers))
        for name in names:
            values = codec.readers[name].read(arrays[name])
            pieces[name].append(np.where(values.missing, 0, values.numbers))
            missing[name].append(values.missing)
    domain = Domain(tuple(names), (4,) * len(names))
    owner = unit_codes(ids)
    if not (owner >= 0).any():
        return MemoryEngine(Records.empty(domain), listener, weights=np.zeros(0, np.int64), mass=1)
    kept = np.flatnonzero(owner >= 0)
    times = np.concatenate(pieces[time])
    order = kept[np.lexsort((times[kept], owner[kept]))]
    starts = np.flatnonzero(np.diff(owner[order], prepend=-1))
    several = np.diff(np.append(starts, len(order))) > 1
    inside = np.diff(owner[order], prepend=-1) == 0
    years = count_years(codec.readers[time], times[order])
    codes = []
    for name in names:
        numbers, absent = np.concatenate(pieces[name])[order], np.concatenate(missing[name])[order]
        moved = inside & ((np.diff(numbers, prepend=0) != 0) | (np.diff(absent, prepend=False) != 0))
        if name == time:
            moved = inside & ~moved
            found = np.where(np.logical_or.reduceat(moved, starts), 3, 1)
        else:
            ahead = numbers - numbers[starts][np.cumsum(~inside) - 1] - (years - years[starts][np.cumsum(~inside) - 1])
            astray = inside & ((np.abs(ahead) >= 1) | absent | (codec.readers[name].listed))
            other = np.where(np.logical_or.reduceat(astray, starts), 3, 2)
            found = np.where(np.logical_or.reduceat(moved, starts), other, 1)
        codes.append(np.where(several, found, 0))
    records = Records.of(domain, codes)
    return MemoryEngine(records, listener, weights=np.ones(len(records), np.int64), mass=1)


def key_names(ids: pa.Array, markers: tuple[Any, ...]) -> pa.Array:
    """Return keys as bytes that are equal for equal values in both tables of a link: 7, 7.0 and "7" are equal."""
    values = ids.dictionary_decode() if pa.types.is_dictionary(ids.type) else ids
    if pa.types.is_floating(values.type):
        whole = pc.equal(values, pc.floor(values))
        numbers = pc.if_else(whole, values, None).cast(pa.int64(), safe=False)
        return pc.if_else(whole, numbers.cast(pa.string()).cast(pa.binary()), unit_names(values, markers))
    return unit_names(values, markers).cast(pa.binary())


def _keep_distinct(names: pa.Array, owner: Places, table: RelatedTable, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return a mask of one row for each key, at random; refuse a key that rows of two units have."""
    codes = unit_codes([names])
    codes = np.where(owner >= 0, codes, -1)
    order = np.lexsort((owner, codes))
    same = (np.diff(codes[order]) == 0) & (codes[order][1:] >= 0)
    if (same & (np.diff(owner[order]) != 0)).any():
        raise DataError(
            f'table "{table.name}": rows of different units share a value of its key "{table.key}". Correct the keys: '
            "a key that other tables refer to must be unique"
        )
    # A row without a key has no children, but is a row of its unit.
    return (owner >= 0) & ((codes < 0) | keep_rows(codes, 1, rng))
