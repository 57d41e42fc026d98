"""The two editions of a report, from the files of a release. Which table may be called a release is decided here."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from weft.encoding import Codec
from weft.errors import DataError, SchemaError, WeftError
from weft.evaluation.report.measure_report import SEED, measure_private, measure_releasable
from weft.evaluation.report.report_figures import Report
from weft.io.dialect import DEFAULT_DIALECT, Dialect
from weft.io.formats import replace_ending
from weft.io.table_files import open_files
from weft.marginals.records import Records
from weft.privacy import Ledger
from weft.progress import Listener, ignore_event, report_stage
from weft.schema import Schema
from weft.schema.type_conversion import convert_type, interpret_values
from weft.synthesis.fitted import Fitted
from weft.values.storage import decode_dictionary

# Which model made a table: its card tells, and is believed only as far as it can be checked.

REMEDY = "`weft sample MODEL -o FILE` makes a table of the model, with its card."


def check_release(table: Path, fitted: Fitted) -> None:
    """Refuse a table unless the card beside it shows that this model made it.

    What a report says of a table is exact: of the private one, given by a slip, it would publish every count. No
    private table has a card, and a card is that of one file, whose SHA-256 it carries. The model is known by its
    method, its options and its ledger, with every question and its noise. Two fits that agree in all of that cannot be
    told apart, but their tables have the same guarantee.
    """
    card = replace_ending(table, ".card.json")
    facts = _read_card_facts(card)
    if facts is None:
        raise WeftError(
            f"{table}: nothing shows that this model made it: there is no card ({card.name}) beside it. If it is a "
            f"private table, it has no place here. {REMEDY}"
        )
    with table.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != facts["sha256"]:
            raise WeftError(f"{table}: not the table that {card.name} is for, or changed since it was made. {REMEDY}")
    if facts["conditions"]:
        raise WeftError(
            f"{table}: a conditional sample, as {card.name} shows: a report would compare a part with the whole. "
            f"{REMEDY}"
        )
    if facts["made"] != _identify_fit(fitted.method, fitted.options, fitted.ledger):
        raise WeftError(f"{table}: made by another model, as {card.name} shows. {REMEDY}")


def _read_card_facts(card: Path) -> dict[str, Any] | None:
    """Return the table's SHA-256 and what made it, as a card has them; None if it is no card."""
    try:
        stored = json.loads(card.read_bytes())
        method, ledger = stored["method"], Ledger.from_dict(stored["ledger"])
        return {
            "sha256": stored["table"]["sha256"],
            "conditions": stored["table"].get("conditions"),
            "made": _identify_fit(method["name"], method["options"], ledger),
        }
    except (OSError, ValueError, TypeError, LookupError, RecursionError, WeftError):
        return None


def _identify_fit(method: str, options: dict[str, Any], ledger: Ledger) -> Any:
    """Return what tells one fit from another, in values as JSON gives them back."""
    return json.loads(json.dumps([method, options, ledger.to_dict()]))


# The tables of a report, read from files as the schema says.

_BATCH = 1 << 17


@dataclass(frozen=True)
class Coded:
    """A table as it was read, and in codes."""

    codec: Codec
    records: Records
    table: pa.Table


def read_records(path: Path, schema: Schema) -> tuple[Codec, Records]:
    """Read and encode a file; messages name the file, and never quote it."""
    found = read_coded(path, schema)
    return found.codec, found.records


def read_coded(path: Path, schema: Schema, dialect: Dialect = DEFAULT_DIALECT, codec: Codec | None = None) -> Coded:
    """Read and encode a file, and keep its values too; messages name the file, and never quote it.

    A `codec` is that of the table before it was written: a text file has lost its types.
    """
    try:
        schema = dialect.marking(schema)
        table = _read_table(path, schema, dialect)
        table = table if codec is None else _in_types(table, codec)
        codec = Codec(schema, table.schema) if codec is None else codec
        return Coded(codec, codec.encode(table), _interpret_table(table, schema))
    except (DataError, SchemaError) as error:
        text = str(error)
        kind = SchemaError if isinstance(error, SchemaError) else DataError
        raise kind(text if text.startswith(str(path)) else f"{path}: {text}") from None


def _in_types(table: pa.Table, codec: Codec) -> pa.Table:
    """Return a table in the types that a codec has given its values."""
    for place, field in enumerate(table.schema):
        if field.name in codec.arrow_schema.names:
            column, wanted = codec.schema.column(field.name), codec.arrow_schema.field(field.name).type
            wanted = wanted.value_type if pa.types.is_dictionary(wanted) else wanted
            if column.modelled and field.type != wanted and not pa.types.is_dictionary(field.type):
                chunks = [convert_type(chunk, wanted, column)[0] for chunk in table.column(place).chunks]
                table = table.set_column(place, field.name, pa.chunked_array(chunks, wanted))
    return table


def _interpret_table(table: pa.Table, schema: Schema) -> pa.Table:
    """Return a table in which markers are missing values, and numbers of a text are in plain digits."""
    for place, field in enumerate(table.schema):
        column = schema.column(field.name) if field.name in schema else None
        if column is not None and (column.markers or column.number_format):
            chunks = [interpret_values(decode_dictionary(chunk), column) for chunk in table.column(place).chunks]
            kind = chunks[0].type if chunks else field.type
            table = table.set_column(place, field.name, pa.chunked_array(chunks, kind))
    return table


def _read_table(path: Path, schema: Schema, dialect: Dialect) -> pa.Table:
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    reader = open_files(path, schema, _BATCH, dialect)
    return pa.Table.from_batches((batch for batch, _ in reader.start(reader.schema.names)), reader.schema)


File = str | PathLike[str]


def private_report(
    real: File,
    synth: File,
    schema: Schema | None = None,
    *,
    fitted: Fitted | None = None,
    dialect: Dialect = DEFAULT_DIALECT,
    listener: Listener = ignore_event,
) -> Report:
    """Compare a synthetic table with the private one, for the curator's eyes.

    Any two tables that fit the schema will do. With `fitted`, whose schema is then the default, the report also states
    the guarantee, so the card beside `synth` must show that this model made it. `dialect` says how the private table is
    written, where it is a text file.
    """
    known = schema if schema is not None or fitted is None else fitted.schema
    if known is None:
        raise WeftError("a schema is needed to read the tables: pass schema, or fitted for its own")
    with report_stage(listener, "read"):
        if fitted is not None:
            _check_synthetic(Path(synth), fitted)
        rows, made = read_coded(Path(real), known, dialect), read_coded(Path(synth), dialect.marking(known))
    tables = rows.table, made.table
    return measure_private(rows.records, made.records, rows.codec, fitted, tables=tables, listener=listener)


def releasable_report(fitted: Fitted, synth: File | None = None, *, listener: Listener = ignore_event) -> Report:
    """Compare a released table with the model that made it: free, and may go out with the data.

    The card beside `synth` must show that this model made it. Rows in memory have no card, and a private table looks
    like any other: without a file, the report is on rows that it draws from the model itself.
    """
    if synth is None:
        rows, rng = max(round(fitted.model.total), 1), np.random.default_rng(SEED)
        made = fitted.model.sample(rows, rng, listener)
        table = fitted.rows(made, rng)
    else:
        with report_stage(listener, "read"):
            _check_synthetic(Path(synth), fitted)
            found = read_coded(Path(synth), fitted.schema, codec=fitted.codec)
            made, table = found.records, found.table
    return measure_releasable(fitted, made, table=table, listener=listener)


def _check_synthetic(synth: Path, fitted: Fitted) -> None:
    if synth.is_file():  # else reading it says best what is wrong
        check_release(synth, fitted)
