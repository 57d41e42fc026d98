"""Times, roles and values of histories: what is drawn or settled after the rows of a family are in the order of time.

Privacy: post-processing of a fitted model; no private row is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import ndtri

from weft.encoding import Codec
from weft.encoding.condition_codes import select_condition_codes
from weft.encoding.time_gaps import count_possible_codes, count_years, draw_gaps, place_times
from weft.engines.family_rows import count_name, gap_name, parent_name, time_step
from weft.errors import SchemaError
from weft.marginals.domain import make_clique
from weft.marginals.marginal import Array
from weft.marginals.records import Records
from weft.schema.database import RelatedTable
from weft.schema.family_rules import FamilyRule
from weft.schema.kinds.attributes import cast_to_stored_type
from weft.values.storage import decode_dictionary

if TYPE_CHECKING:
    from weft.synthesis.database_model import DrawSettings, FittedDatabase, SampledRows


def size_name(table: RelatedTable) -> str:
    """Return the name of the attribute with the number of siblings, in the view of a child table."""
    return parent_name(str(table.parent), count_name(table.name))


def time_attributes(table: RelatedTable, codec: Codec) -> list[str]:
    """Return the attributes of the time column of a history; none for a table without one."""
    part = None if gap_name(table) is None else codec.part_of(str(table.time))
    return [] if part is None else list(part.domain)


def role_mask(rule: FamilyRule, codec: Codec) -> tuple[str, Array]:
    """Return the attribute of a role and a mask of its codes; SchemaError if codes do not determine it."""
    found = select_condition_codes(rule.where, codec) if len(rule.where) == 1 else None
    if found is None or len(found) != 1:
        raise SchemaError(
            f"family rule: {rule}: its condition must be on the values of one listed column, which codes tell apart"
        )
    return next(iter(found.items()))


def draw_times(
    fitted: FittedDatabase,
    table: RelatedTable,
    records: Records,
    given: Mapping[str, Array],
    parent: Array,
    draw: DrawSettings,
) -> Array:
    """Draw the times of all rows: first times from the drawn first rows, gaps from their distribution by size."""
    codec, model, gap = fitted.codecs[table.name], fitted.models[table.name], str(gap_name(table))
    reader, step, size = codec.readers[str(table.time)], time_step(codec, table), size_name(table)
    first = np.flatnonzero(np.diff(parent, prepend=-1))
    own = Records.of(codec.domain, [records.column(name)[first] for name in codec.domain])
    column = codec.arrays(codec.decode(own, draw.rng).select([str(table.time)]))[str(table.time)]
    values = reader.read(column)
    begin = np.where(values.missing, reader.ends[0], values.numbers).astype(np.int64)
    clique = make_clique((gap, size))
    counts = np.maximum(np.asarray(model.marginal(clique), np.float64), 0)
    counts = counts if clique[0] == gap else counts.T
    low, high = (int(end) for end in reader.ends)
    most = (high - low) // step
    counts[0] = 0
    counts[count_possible_codes(most) :] = 0  # noise
    if _has_distinct_times(fitted, table):
        counts[1] = 0
    codes = np.zeros(len(parent), np.int64)
    classes = given[size]
    for each in np.unique(classes):
        weights = counts[:, each] if counts[:, each].sum() > 0 else counts.sum(axis=1)
        rows = np.flatnonzero(classes == each)
        shares = weights / weights.sum() if weights.sum() > 0 else np.eye(1, len(weights), 2)[0]
        codes[rows] = draw.rng.choice(len(weights), len(rows), p=shares)
    codes[first] = 0
    return place_times(begin, draw_gaps(codes, step, most, draw.rng), parent, (low, high), step)


def count_times(fitted: FittedDatabase, table: RelatedTable) -> int:
    """Return the largest number of rows of a history: that of the possible times, if they are distinct."""
    codec = fitted.codecs[table.name]
    low, high = (int(end) for end in codec.readers[str(table.time)].ends)
    return (high - low) // time_step(codec, table) + 1 if _has_distinct_times(fitted, table) else table.max_children


def _has_distinct_times(fitted: FittedDatabase, table: RelatedTable) -> bool:
    return any(
        rule.kind == "increasing" and rule.child == table.name and rule.column == table.time
        for rule in fitted.database.rules
    )


def settle_roles(
    fitted: FittedDatabase, table: RelatedTable, records: Records, starts: Array, draw: DrawSettings
) -> Records:
    """Give a history the roles that it must have once, remove surplus ones, and move a final row to its end."""
    family = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    rules = [*fitted.database.roles(table.name)]
    rules += [rule for rule in fitted.database.rules if rule.child == table.name and rule.kind == "final"]
    marked = [(rule, *role_mask(rule, fitted.codecs[table.name])) for rule in rules]
    for rule, name, mask in marked:
        taken = np.any([each for _, other, each in marked if other == name], axis=0)
        exact = np.any([each for one, _, each in marked if one.kind == "exactly_one"] or [~taken & taken], axis=0)
        column = records.column(name).copy()
        having = draw.rng.permutation(np.flatnonzero(mask[column]))
        kept = having[np.unique(family[having], return_index=True)[1]]
        column[np.setdiff1d(having, kept)] = _draw_codes(fitted, table, name, ~taken, len(having) - len(kept), draw.rng)
        if rule.kind == "exactly_one":
            lacks = np.bincount(family[kept], minlength=len(starts) - 1) == 0
            free = np.flatnonzero(lacks[family] & ~exact[column])
            free = free[np.lexsort((draw.rng.random(len(free)), taken[column[free]], family[free]))]
            places = free[np.unique(family[free], return_index=True)[1]]
            column[places] = _draw_codes(fitted, table, name, mask, len(places), draw.rng)
        columns = [
            column if each == name else codes for each, codes in zip(records.domain, records.columns, strict=True)
        ]
        records = Records.of(records.domain, columns)
        if rule.kind == "final":
            order, last = np.arange(len(records)), starts[1:][family[kept]] - 1
            order[kept], order[last] = last, kept
            records = records.take(order)
    return records


def _draw_codes(
    fitted: FittedDatabase, table: RelatedTable, name: str, mask: Array, n: int, rng: np.random.Generator
) -> Array:
    """Draw codes within a mask from the model's one-way marginal, or evenly where that is empty."""
    weights = np.where(mask, np.maximum(np.asarray(fitted.models[table.name].marginal((name,))), 0), 0.0)
    weights = weights if weights.sum() > 0 else mask.astype(np.float64)
    return rng.choice(len(weights), n, p=weights / weights.sum())


def follow_values(
    fitted: FittedDatabase, table: RelatedTable, rows: pa.Table, made: SampledRows, rng: np.random.Generator
) -> pa.Table:
    """Let numbers follow the previous row within their group of values, as strongly as their groups do.

    Values are exchanged among rows of one position, group and time, so every table of groups stays as it is. Row by
    row, the ranks within a group are those of a Gaussian with the correlation of the released table of groups.
    """
    targets, codec = fitted.targets[table.name], fitted.codecs[table.name]
    bound = {name for rule in table.schema.rules for name in rule.columns}
    bound |= {str(rule.column) for rule in fitted.database.rules if rule.child == table.name}
    blocks = targets.own[time_attributes(table, codec)[0]][made.records.column(time_attributes(table, codec)[0])]
    first = np.flatnonzero(np.diff(made.parent, prepend=-1))
    sizes = np.diff(np.append(first, len(made.parent)))
    for name, other, target, _ in targets.siblings:
        plain = name == other and name in codec.schema and codec.schema.column(name).kind in ("integer", "real")
        if not plain or name in bound or codec.readers[name].listed or codec.readers[name].follows:
            continue
        field_ = rows.schema.field(name)
        values = codec.readers[name].read(codec.arrays(rows.select([name]))[name])
        score = np.empty(len(rows))
        score[np.lexsort((rng.random(len(rows)), values.numbers))] = ndtri((np.arange(len(rows)) + 0.5) / len(rows))
        cell = targets.own[name][made.records.column(name)] * (int(blocks.max(initial=0)) + 1) + blocks
        strength, source = find_correlation(target), np.arange(len(rows))
        for t in range(1, int(sizes.max(initial=0))):
            places = first[sizes > t] + t
            key = strength * score[places - 1] + np.sqrt(1 - strength**2) * rng.standard_normal(len(places))
            wanted, offered = (np.lexsort((by, cell[places])) for by in (key, score[places]))
            source[places[wanted]] = places[offered]
            score[places[wanted]] = score[places[offered]]
        column = decode_dictionary(rows.column(name).combine_chunks()).take(pa.array(source))
        rows = rows.set_column(rows.schema.get_field_index(name), field_, cast_to_stored_type(column, field_.type))
    return rows


def sort_in_time(fitted: FittedDatabase, table: RelatedTable, rows: pa.Table, parent: Array, times: Array) -> pa.Table:
    """Sort the values of columns that never decrease within each history, and let ages advance with time.

    Missing values stay where they are.
    """
    codec = fitted.codecs[table.name]
    for rule in fitted.database.rules:
        if rule.kind not in ("nondecreasing", "advances") or rule.child != table.name:
            continue
        place = rows.schema.get_field_index(str(rule.column))
        field_ = rows.schema.field(place)
        reader = codec.readers[field_.name]
        values = reader.read(codec.arrays(rows.select([field_.name]))[field_.name])
        known = np.flatnonzero(~values.missing)
        column = decode_dictionary(rows.column(place).combine_chunks())
        if rule.kind == "nondecreasing":
            source = np.arange(len(rows))
            source[known] = known[np.lexsort((values.numbers[known], parent[known]))]
            column = column.take(pa.array(source))
        elif len(known):
            years = count_years(codec.readers[str(table.time)], times)
            at = np.minimum(np.searchsorted(parent[known], parent), len(known) - 1)
            first = known[at]  # the first known value of a history; rows without one have no value themselves
            numbers = values.numbers[first] + (years - years[first])
            numbers = np.clip(numbers, *reader.ends)
            whole = np.rint(numbers).astype(np.int64) if reader.whole else numbers
            column = pc.if_else(pa.array(values.missing), column, reader.make(whole).cast(column.type))
        rows = rows.set_column(place, field_, cast_to_stored_type(column, field_.type))
    return rows


def set_times(rows: pa.Table, table: RelatedTable, codec: Codec, times: Array) -> pa.Table:
    """Set the time column to exact times."""
    place = rows.schema.get_field_index(str(table.time))
    field_ = rows.schema.field(place)
    return rows.set_column(place, field_, cast_to_stored_type(codec.readers[field_.name].make(times), field_.type))


def find_correlation(counts: Array) -> float:
    """Return the correlation of the places of two ordered groups, between 0 and 1.

    >>> find_correlation(np.eye(3))
    1.0
    """
    shares = np.maximum(counts, 0) / max(float(np.maximum(counts, 0).sum()), 1e-12)
    rows, columns = np.arange(shares.shape[0]), np.arange(shares.shape[1])
    own, other = rows - shares.sum(axis=1) @ rows, columns - shares.sum(axis=0) @ columns
    spread = np.sqrt((shares.sum(axis=1) @ own**2) * (shares.sum(axis=0) @ other**2))
    return float(np.clip(own @ shares @ other / max(spread, 1e-12), 0.0, 1.0))
