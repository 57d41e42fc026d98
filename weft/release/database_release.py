"""Release of related tables: one file per table, one card for all of them, and the checks of keys and families.

Privacy: everything is computed from the fitted model, its ledger and synthetic rows; no private row is read.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft import __version__
from weft.display import format_count
from weft.encoding import Codec
from weft.encoding.time_gaps import count_years
from weft.errors import OutputError
from weft.io.atomic_files import hash_file, stage_files
from weft.io.dialect import DEFAULT_DIALECT
from weft.io.formats import list_writable_endings
from weft.io.table_files import open_files, write_table
from weft.privacy import Ledger
from weft.release.card import CARD, describe_verdicts, escape_markdown, format_bullets, format_markdown_table
from weft.schema.database import Database, RelatedTable
from weft.schema.family_rules import FamilyRule
from weft.schema.rules.conditions import all_hold
from weft.schema.schema import Schema
from weft.synthesis.database_model import (
    PERSONS,
    ROWS,
    FittedDatabase,
    join_history,
    joined_schema,
    number_rows,
    split_joined,
)
from weft.synthesis.statement import compute_cost_shares, explain_ledger_guarantee, format_budget_share
from weft.synthesis.verdicts import judge_tables
from weft.values.storage import decode_dictionary

PART = "These tables are a part of whole ones: every family meets the condition {}."

NEIGHBOURS = {
    "add-remove": "add or remove all rows of one unit",
    "replace-one": "replace all rows of one unit by those of another",
}

HISTORY_LIMITS = (
    "Only the queries in the ledger were answered from the private rows: rows with the constants of their persons, and "
    "consecutive rows. Relations between rows that are further apart in time follow from these only in part.",
    "Rows of an attribute follow each other by groups of its values: small changes from one row to the next are not "
    "preserved, unless a rule states them.",
    "Times are made from a first time and the gaps between rows, which are known in groups only: times at which no "
    "private row lies may occur, such as years without a survey.",
)

RELATED_LIMITS = (
    "Only the queries in the ledger were answered from the private rows: rows of each table with those of their "
    "parents, and pairs of siblings. Relations between cousins, or of rows of two child tables of one parent, follow "
    "from these only in part.",
)

LIMITS = (
    "Every privacy unit has the same weight in the queries: rows of large families are measured less accurately, and "
    "a column whose relation to the number of rows was not measured follows the distribution of families, not of rows.",
    "Rows without an owner and rows above the contribution bound were left out; how many is not disclosed.",
    "Values outside the lists and ranges of the schema were replaced or clipped; shares are stated if they were found "
    "privately.",
    "Keys are generated and do not refer to real persons.",
    "Statistical tests that treat these rows as real data overstate significance: they do not account for the noise.",
)


def publish_history(
    fitted: FittedDatabase, tables: Mapping[str, pa.Table], out: Path, part: Sequence[str] = ()
) -> dict[str, Any]:
    """Write a single table of histories and its card, both or neither, and return the card."""
    return publish_database(fitted, {out.stem: join_history(fitted, tables)}, out.parent, out.suffix, out.stem, part)


def publish_database(
    fitted: FittedDatabase,
    tables: Mapping[str, pa.Table],
    folder: Path,
    ending: str = ".csv",
    card: str = "database",
    part: Sequence[str] = (),
) -> dict[str, Any]:
    """Write all tables and the card to a folder, all or none, and return the card.

    `part` has the conditions that the root's rows meet, if the tables are a part of whole ones.
    """
    if ending not in list_writable_endings():
        raise OutputError(f"unknown format {ending}: choose from {', '.join(list_writable_endings())}")
    folder.mkdir(parents=True, exist_ok=True)
    names = list(tables)
    cards = [folder / f"{card}.card.md", folder / f"{card}.card.json"]
    files = [*(folder / f"{name}{ending}" for name in names), *cards]
    with stage_files(*files) as drafts:
        written: dict[str, dict[str, Any]] = {}
        verdicts = judge_tables(fitted)
        if fitted.joined:  # columns that never change are those of the persons
            both = {v.column: v for table in (ROWS, PERSONS) for v in verdicts[table]}
            verdicts = {names[0]: tuple(both[name] for name in fitted.joined)}
        for name, draft in zip(names, drafts, strict=False):
            schema = joined_schema(fitted) if fitted.joined else fitted.database.table(name).schema
            rows = write_table([tables[name]], draft, ending, schema=schema)
            public = not fitted.joined and fitted.database.table(name).public
            written[name] = {
                "file": f"{name}{ending}", "rows": rows, "sha256": hash_file(draft), "public": public,
                "columns": [
                    {"name": v.column, "verdict": v.grade, "reasons": v.reasons} for v in verdicts.get(name, ())
                ],
            }  # fmt: skip
        facts = describe_release(fitted, written, _count_broken_checks(fitted.database, tables, bool(fitted.joined)))
        facts["limits"] = [*(PART.format(each) for each in part), *facts["limits"]]
        drafts[-2].write_text(render_database_card(facts), encoding="utf-8")
        drafts[-1].write_text(json.dumps(facts, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return facts


def describe_release(fitted: FittedDatabase, tables: Mapping[str, Any], checks: Mapping[str, int]) -> dict[str, Any]:
    """Return the card as plain JSON values."""
    ledger, database = fitted.ledger, fitted.database
    statement = ledger.spend_statement()
    return {
        "card": CARD,
        "weft": __version__,
        "tables": dict(tables),
        "stamps": list(statement.stamps),
        "privacy": {
            "epsilon": statement.epsilon,
            "delta": statement.delta,
            "neighbours": NEIGHBOURS[ledger.adjacency.relation],
            "unit": _name_unit(fitted),
            "accounting": ledger.accounting.name,
            "budget_used": min(ledger.used, 1.0),
            "meaning": explain_ledger_guarantee(ledger, _name_unit(fitted)),
            "lifetime": ledger.to_dict()["lifetime"],
        },
        "method": {"name": fitted.method},
        "histories": bool(fitted.joined),
        "ledger": ledger.to_dict(),
        "costs": compute_cost_shares(ledger),
        # The schema has the facts themselves: it is omitted if any was read from private rows.
        "schema": None if database.from_data_facts() else database.to_dict(),
        "checks": dict(checks),
        "limits": [*list_limited_columns(fitted), *(HISTORY_LIMITS if fitted.joined else RELATED_LIMITS), *LIMITS],
    }


def list_limited_columns(fitted: FittedDatabase) -> list[str]:
    """List the columns of all tables that need care or cannot be used, with the reasons."""
    return [
        f"{verdict if fitted.joined else f'{name}.{verdict}'}."
        for name, verdicts in judge_tables(fitted).items()
        for verdict in verdicts
        if verdict.grade != "usable"
    ]


def _name_unit(fitted: FittedDatabase) -> str:
    """Return the column whose values are privacy units."""
    return str(fitted.database.table(PERSONS).key) if fitted.joined else fitted.database.unit


def render_database_card(facts: Mapping[str, Any]) -> str:
    """Render the card as Markdown."""
    privacy, ledger = facts["privacy"], facts["ledger"]
    tables = [
        [escape_markdown(entry["file"]), f"{entry['rows']:,}", "copied: public" if entry["public"] else "synthetic"]
        for entry in facts["tables"].values()
    ]
    queries = [
        [escape_markdown(entry["question"]), f"{entry['cost'] / ledger['capacity']:.1%}"] for entry in ledger["entries"]
    ]
    queries += [[f"**{name}**", f"**{format_budget_share(share)}**"] for name, share in facts["costs"].items()]
    columns = [
        column | {"name": f"{name}.{column['name']}"}
        for name, entry in facts["tables"].items()
        for column in entry.get("columns", ())  # absent from cards of earlier versions
    ]
    verdicts = [[escape_markdown(column["name"]), column["verdict"]] for column in columns]
    checks = [f"{escape_markdown(what)}: {count or 'none'} broken" for what, count in facts["checks"].items()]
    return (
        "\n\n".join(
            [
                "# Synthetic histories" if facts["histories"] else "# Synthetic related tables",
                *(f"**{escape_markdown(stamp)}**" for stamp in facts["stamps"]),
                format_markdown_table(["table", "rows", "content"], tables),
                "## Guarantee",
                escape_markdown(privacy["meaning"]),
                format_bullets(
                    f"Privacy unit: all rows{'' if facts['histories'] else ', in all tables,'} of one value of "
                    + escape_markdown(privacy["unit"]),
                    f"Neighbouring databases: {escape_markdown(privacy['neighbours'])}",
                ),
                *(["## Columns", format_markdown_table(["column", "verdict"], verdicts)] if verdicts else []),
                *describe_verdicts(columns),
                "## Queries answered from the private rows",
                format_markdown_table(["query", "share of the budget"], queries),
                "## Keys and families",
                format_bullets(*checks),
                "## Known limitations",
                format_bullets(*map(escape_markdown, facts["limits"])),
            ]
        )
        + "\n"
    )


def verify_database(facts: Mapping[str, Any], card: Path) -> Iterator[tuple[str, str, str | None]]:
    """Verify a card of related tables; yield the file, what was checked, and what is wrong (None: nothing)."""
    folder, page = card.parent, card.with_suffix(".md")
    same = page.is_file() and page.read_bytes() == render_database_card(facts).encode()
    yield page.name, "page matches the JSON card", None if same else "the page is missing, or was modified"
    present = True
    for entry in facts["tables"].values():
        name = str(entry["file"])
        path = folder / name
        if name != Path(name).name or not path.is_file():
            yield card.name, "table matches the card", f"the table {name} is not in the card's folder"
            present = False
        else:
            same = hash_file(path) == entry["sha256"]
            yield name, "table matches the card", None if same else f"{name} was modified, or is another table"
    yield card.name, "guarantee follows from the ledger", verify_database_guarantee(facts, card)
    if facts["schema"] is None or not present:
        yield card.name, "keys and families", "not checked: the card has no schema, or a table is missing"
        return
    database = Database.from_dict(facts["schema"])
    bound = database.table(ROWS).max_children if facts["histories"] else database.rows_per_unit
    if facts["ledger"]["adjacency"]["rows_per_unit"] < bound:
        yield card.name, "contribution bound", "the bound of the schema exceeds that of the ledger"
    files = {name: folder / str(entry["file"]) for name, entry in facts["tables"].items()}
    if facts["histories"]:
        both = Schema(
            tuple({c.name: c for table in database.tables for c in table.schema.columns}.values()),
            extra_columns="ignore",
        )
        tables = {name: read_table(both, path) for name, path in files.items()}
    else:
        tables = {name: read_table(database.table(name).schema, path) for name, path in files.items()}
    for what, broken in _count_broken_checks(database, tables, facts["histories"]).items():
        yield card.name, what, f"violated {format_count(broken, 'time')}" if broken else None


def verify_database_guarantee(facts: Mapping[str, Any], _card: Path) -> str | None:
    """Return what is wrong if the guarantee or warnings on a card do not follow from its ledger; else None."""
    ledger = Ledger.from_dict(facts["ledger"])  # recomputes every cost, and refuses an overspent ledger
    statement, privacy = ledger.spend_statement(), facts["privacy"]
    follows = (
        bool(np.isclose(statement.epsilon, privacy["epsilon"], rtol=1e-9))
        and bool(np.isclose(statement.delta, privacy["delta"], rtol=1e-9))
        and privacy["neighbours"] == NEIGHBOURS[ledger.adjacency.relation]
        and privacy["meaning"] == explain_ledger_guarantee(ledger, privacy["unit"])
        and list(ledger.stamps) == facts["stamps"]
    )
    return None if follows else "it does not follow from the ledger"


def _count_broken_checks(database: Database, tables: Mapping[str, pa.Table], histories: bool) -> dict[str, int]:
    """Return the number of violations of each check of keys and families, or of the histories of a single table."""
    if not histories:
        return count_broken_families(database, tables)
    (table,) = tables.values()
    split, key = split_joined(database, table), str(database.table(PERSONS).key)
    found = {what: n for what, n in count_broken_families(database, split).items() if " refers to " not in what}
    place = pc.index_in(_plain(table, key), value_set=_plain(split[PERSONS], key))
    for name in split[PERSONS].column_names:
        if name != key and name not in database.table(ROWS).schema:
            own, first = (decode_dictionary(rows.column(name).combine_chunks()) for rows in (table, split[PERSONS]))
            same = pc.equal(own, first.take(place)).fill_null(False)
            both = pc.and_(pc.is_null(own), pc.is_null(first.take(place)))
            found[f"{name} never changes for a person"] = len(table) - pc.sum(pc.or_(same, both)).as_py()
    return found


def read_table(schema: Schema, path: Path) -> pa.Table:
    """Read a released table in the types of its schema."""
    reader = open_files(path, schema, 1 << 17, DEFAULT_DIALECT)
    names = [name for name in reader.schema.names if name in schema]
    batches = [batch.select(names) for batch, _ in reader.start(names)]
    return pa.Table.from_batches(batches, pa.schema([reader.schema.field(name) for name in names]))


def count_broken_families(database: Database, tables: Mapping[str, pa.Table]) -> dict[str, int]:
    """Count violations of keys, links, bounds and family rules. Only for synthetic tables."""
    found: dict[str, int] = {}
    places: dict[str, NDArray[np.int64]] = {}
    for table in database.tables:
        rows = tables[table.name]
        if table.key is not None:
            keys = _plain(rows, table.key)
            found[f"{table.name}.{table.key} is a key"] = len(keys) - len(pc.unique(keys)) + keys.null_count
        for link in table.links:
            above, names = _plain(tables[link.table], link.key), _plain(rows, link.column)
            place = pc.index_in(names, value_set=above.cast(names.type), skip_nulls=True).fill_null(-1)
            at = place.to_numpy(zero_copy_only=False).astype(np.int64)
            optional = table.schema.column(link.column).missing
            lost = (at < 0) & ~(optional & names.is_null().to_numpy(zero_copy_only=False))
            found[f"{table.name}.{link.column} refers to {link.table}.{link.key}"] = int(lost.sum())
            if link.table == table.parent:
                places[table.name] = at
                most = np.bincount(at[at >= 0], minlength=1)
                found[f"at most {table.max_children} rows of {table.name}"] = int((most > table.max_children).sum())
    for rule in database.rules:
        found[str(rule)] = _count_broken(rule, database, tables, places[rule.child])
    return found


def _plain(rows: pa.Table, name: str) -> pa.Array:
    values = decode_dictionary(rows.column(name).combine_chunks())
    return (
        values.cast(pa.string()) if not pa.types.is_floating(values.type) else values.cast(pa.int64()).cast(pa.string())
    )


def _count_broken(
    rule: FamilyRule, database: Database, tables: Mapping[str, pa.Table], parent: NDArray[np.int64]
) -> int:
    """Count the families (or rows) that break a rule."""
    table = database.table(rule.child)
    rows, above = tables[rule.child], tables[str(table.parent)]
    held = np.ones(len(rows), bool)
    if rule.where:
        held = all_hold(rule.where, Codec(table.schema, rows.schema).block(rows))
    count = np.bincount(parent[held & (parent >= 0)], minlength=len(above))[: len(above)]
    if rule.kind in ("exactly_one", "at_most_one"):
        return int(((count > 1) | ((count == 0) & (rule.kind == "exactly_one"))).sum())
    if rule.kind == "number":
        order = np.lexsort((_numbers(rows, str(rule.column)), parent))
        return int((_numbers(rows, str(rule.column))[order] != number_rows(parent[order])).sum())
    if rule.kind == "within":
        return _count_outside(rule, rows, above, parent)
    if rule.kind in ("increasing", "nondecreasing", "advances", "final"):
        return _count_broken_in_time(rule, table, rows, parent, held)
    stated = above.column(str(rule.target)).combine_chunks()
    if rule.kind == "any":
        wanted = pa.array([rule.values[0], rule.values[1]]).take(pa.array((count > 0).astype(np.int64)))
        same = pc.equal(decode_dictionary(stated).cast(pa.string()), wanted.cast(pa.string()))
        return int((~same.fill_null(False).to_numpy(zero_copy_only=False)).sum())
    if rule.kind == "sum":
        values = np.nan_to_num(_numbers(rows, str(rule.column)))
        computed = np.bincount(parent[parent >= 0], values[parent >= 0], len(above))
        return int((~np.isclose(_numbers(above, str(rule.target)), computed, rtol=1e-6)).sum())
    most = count if rule.largest is None else np.minimum(count, rule.largest)
    return int((_numbers(above, str(rule.target)) != most).sum())


def _count_broken_in_time(
    rule: FamilyRule, table: RelatedTable, rows: pa.Table, parent: NDArray[np.int64], held: NDArray[np.bool_]
) -> int:
    """Count the rows that break a rule in time; the rows of a family are in its order."""
    order = np.argsort(parent, kind="stable")
    same = np.diff(parent[order]) == 0
    if rule.kind == "final":
        return int((same & held[order][:-1]).sum())
    codec = Codec(table.schema, rows.schema)
    arrays = codec.arrays(rows)
    values = codec.readers[str(rule.column)].read(arrays[str(rule.column)])
    numbers, known = values.numbers[order], ~values.missing[order]
    compared = same & known[1:] & known[:-1]
    steps = np.diff(numbers)
    if rule.kind == "advances":  # up to rounding, and until the end of its range
        clock = codec.readers[str(table.time)]
        years = count_years(clock, clock.read(arrays[str(table.time)]).numbers)
        inside = (numbers > values.reader.ends[0]) & (numbers < values.reader.ends[1])
        apart = np.abs(steps - np.diff(years[order])) > 1
        return int((compared & apart & inside[1:] & inside[:-1]).sum())
    return int((compared & (steps < 0 if rule.kind == "nondecreasing" else steps <= 0)).sum())


def _count_outside(rule: FamilyRule, rows: pa.Table, above: pa.Table, parent: NDArray[np.int64]) -> int:
    dates = decode_dictionary(rows.column(rule.column).combine_chunks())
    broken = np.zeros(len(rows), bool)
    for end, compare in zip(rule.bounds, (pc.less, pc.greater), strict=True):
        if end is not None:
            bound = decode_dictionary(above.column(end).combine_chunks()).take(pa.array(np.maximum(parent, 0)))
            beyond = compare(dates, bound.cast(dates.type)).fill_null(False)
            broken |= beyond.to_numpy(zero_copy_only=False) & (parent >= 0)
    return int(broken.sum())


def _numbers(rows: pa.Table, name: str) -> NDArray[np.float64]:
    values = decode_dictionary(rows.column(name).combine_chunks()).cast(pa.float64())
    return np.asarray(values.to_numpy(zero_copy_only=False), np.float64)
