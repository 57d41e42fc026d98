"""The whole program as a user runs it, with everything that leaves it as an artefact; and neighbouring tables."""

import contextlib
import dataclasses
import io
import json
import logging
import tempfile
import warnings
from pathlib import Path
from unittest import mock

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from conftest import SCHEMA, make_table
from databases import fill_postgres, fill_sqlite
from typer.testing import CliRunner
from weft_lab.replay import replay

import weft.curator.private_table
import weft.synthesis.fit_plan
from weft.cli import app
from weft.cli.discovered_schema import write_found
from weft.engines import open_engine
from weft.engines.value_listing import open_listing
from weft.errors import WeftError
from weft.evaluation.report.editions import releasable_report
from weft.evaluation.report.report_page import write
from weft.io.table_files import write_table
from weft.privacy import Noise
from weft.privacy.mechanisms import Mechanisms
from weft.release.publish import Files, publish
from weft.schema import Schema
from weft.synthesis.discovery import with_cost
from weft.synthesis.synthesizer import Synthesizer

VISITS = f'unit = "person"\nrows_per_unit = 2\n\n[columns.person]\nkind = "id"\n{SCHEMA}'
"""The same columns, several rows a person."""

FIRST = "compile (first run only)"
"""A stage that depends on the machine and on nothing else."""


def seeded(seed=0):
    return Mechanisms(Noise.seeded(seed))


# Where the rows come from.


def csv(table):
    pa.csv.write_csv(table, "private.csv")
    return "private.csv"


def parquet(table):
    pa.parquet.write_table(table, "private.parquet", row_group_size=70)
    return "private.parquet"


def database(table):
    with duckdb.connect("private.db") as connection:
        connection.register("given", table)
        connection.sql("CREATE TABLE visits AS FROM given")
    return "duckdb:private.db?table=visits"


def written(ending):
    """Return what writes a table to a file in another format."""

    def write(table):
        write_table([table], Path(f"private{ending}"), ending)
        return f"private{ending}"

    return write


SOURCES = {
    "json lines": written(".jsonl"),
    "orc": written(".orc"),
    "orc, streamed": written(".orc"),
    "excel": written(".xlsx"),
    "arrow": lambda table: table,
    "arrow with notes of pandas": lambda table: pa.Table.from_pandas(table.to_pandas()),
    "pandas": lambda table: table.to_pandas(),
    "polars": pl.from_arrow,
    "csv": csv,
    "parquet": parquet,
    "parquet, streamed": parquet,
    "parquet of pandas": lambda table: parquet(pa.Table.from_pandas(table.to_pandas())),
    "duckdb": database,
    "sqlite": lambda table: fill_sqlite(table, "private.sqlite"),
    "postgres": fill_postgres,
    "duckdb, a query": lambda table: f"duckdb:SELECT * FROM '{parquet(table)}'",
}


# What leaves.


class Captured(contextlib.ExitStack):
    """Everything that a run says, by whatever road."""

    def __init__(self):
        super().__init__()
        self.out, self.err, self.messages, self.events = io.StringIO(), io.StringIO(), [], []

    def __enter__(self):
        super().__enter__()
        self.enter_context(contextlib.redirect_stdout(self.out))
        self.enter_context(contextlib.redirect_stderr(self.err))
        self.warnings = self.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")  # once a place would hide those of the second run
        handler = logging.Handler()
        handler.emit = lambda record: self.messages.append(record.getMessage())
        logging.getLogger().addHandler(handler)
        self.callback(logging.getLogger().removeHandler, handler)
        self.enter_context(mock.patch.object(logging.getLogger("weft"), "level", logging.DEBUG))
        return self

    def artefacts(self):
        return {
            "stdout": self.out.getvalue(),
            "stderr": self.err.getvalue(),
            "warnings": [(w.category.__name__, str(w.message)) for w in self.warnings],
            "messages": self.messages,
            "events": compared(self.events),
        }


def compared(events):
    """Return what of the progress events must not depend on the rows."""
    return [
        (event.stage, event.done, event.total, event.note, event.finished) for event in events if event.stage != FIRST
    ]


def timeless(journal):
    """Return the lines of a journal without time, random id and place of the run's table, which no row decides."""
    return [
        {key: value for key, value in json.loads(line).items() if key not in ("time", "run", "salt", "fingerprint")}
        for line in journal.decode().splitlines()
    ]


def files(folder):
    """Return every file in a folder, byte by byte."""
    found = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    return {f"file {name}": timeless(data) if name.endswith(".jsonl") else data for name, data in found.items()}


@contextlib.contextmanager
def emptied_folder():
    """Work in an empty folder, with one in it for what is released: paths are the same in every run."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        out = Path("released")
        out.mkdir()
        yield out


def same_rows_of_a_unit(source, schema, **settings):
    """Open a table; which rows of a unit stay is decided by position, alike in every run.

    In a release that is secret chance. The proof (`weft.engines.privacy_units`) pairs the runs on neighbouring tables
    in which shared rows have the same keys; so do we, with the unit that differs at the end of its table.
    """
    return open_engine(source, schema, **settings | {"rng": np.random.default_rng(3)})


def same_listing(source, schema, batch_rows, dialect, listener):
    """Open a table to list values, with the same pairing."""
    listing = open_listing(source, schema, batch_rows, dialect, listener)
    return dataclasses.replace(listing, rng=np.random.default_rng(3))


def synthesise(method, schema=None, *, source="arrow", paired=True, unit=None, **settings):
    """Run the whole program as a user would: fit, save, release as CSV and Parquet, report; all that leaves is kept.

    With a `unit` (False: one row a person) there is no schema, and what the columns are is found privately.
    """
    known = None if unit is not None else schema or Schema.from_toml(SCHEMA)
    settings = {"engine": "stream" if source.endswith("streamed") else "auto"} | settings

    def program(table, release):
        with emptied_folder() as out, Captured() as captured:
            data = SOURCES[source](table)
            synthesizer = Synthesizer(method=method, seed=5, journal=out / "run.ledger.jsonl", **settings)
            if paired:
                captured.enter_context(
                    mock.patch.object(weft.curator.private_table, "open_engine", same_rows_of_a_unit)
                )
                captured.enter_context(mock.patch.object(weft.curator.private_table, "open_listing", same_listing))
            person = False if known is not None and known.extra_columns == "discover" and not known.unit else unit
            synthesizer.fit(data, known, unit=person, listener=captured.events.append, release=release)
            if known is None:
                write_found(with_cost(synthesizer.discovered_), out / "found.toml", "a table")
            synthesizer.save(out / "model.weft")
            fitted = synthesizer.fitted_
            for name in ("rows.csv", "columns.parquet"):
                tables = synthesizer.tables(seed=6, listener=captured.events.append)
                publish(fitted, tables, Files.of(out / name), listener=captured.events.append)
            report = releasable_report(fitted, out / "rows.csv", listener=captured.events.append)
            write(report, out / "report.html")
            frame = synthesizer.sample(seed=6)
            shown = [synthesizer, synthesizer.ledger_, synthesizer.ledger_.spend_statement(), type(frame)]
            shown += [getattr(frame, "schema", None), getattr(frame, "dtypes", None)]
            return {
                **files(out),
                **captured.artefacts(),
                "shown": [str(each) for each in shown],
                "found": None if known is not None else synthesizer.discovered_.found,
                "ledger": fitted.ledger.to_dict(),
                "asked for": asked_for(synthesizer, fitted.schema),
                # A query looks at the fitted model alone: where its rows came from makes no difference.
                "counted": [str(synthesizer.query(*columns)) for columns in counted_by(fitted) if source == "arrow"],
            }

    return program


def counted_by(fitted):
    """Columns to count by: none, one, and two that are released as they are."""
    names = [c.name for c in fitted.schema.columns if fitted.codec.codes_of(c.name) is not None]
    return [(), tuple(names[:1]), tuple(names[:2])]


def asked_for(synthesizer, schema):
    """Rows under a condition, or what is said where there are none."""
    column = next((column for column in schema.columns if column.listed is not None), None)
    if column is None:
        return None
    try:
        return str(synthesizer.sample(20, where={column.name: column.listed[0]}, seed=7))
    except WeftError as error:
        return str(error)


def commands(method, schema=SCHEMA, *, source="csv", neighbours="add-remove"):
    """Run the command line: release, look at the ledger, sample again, report."""

    def program(table, release):
        with emptied_folder() as out:
            data = SOURCES[source](table)
            Path("schema.toml").write_text(schema)
            model = out / "model.weft"
            lines = [
                f"synth {data} -s schema.toml -e 2 -m {method} --neighbours {neighbours} --seed 5 --model {model} "
                f"-o {out}/rows.csv",
                f"ledger {out}/rows.ledger.jsonl",
                f"sample {model} --seed 6 -o {out}/columns.parquet",
                f"report {model} {out}/rows.csv --releasable -o {out}/report.html",
            ]
            said = {}
            with (
                mock.patch.object(weft.synthesis.fit_plan, "Mechanisms", lambda noise: release),
                mock.patch.object(weft.curator.private_table, "open_engine", same_rows_of_a_unit),
            ):
                for line in lines:
                    shown = CliRunner(env={"NO_COLOR": "1", "COLUMNS": "100"}).invoke(app, line.split())
                    said[f"weft {line.split()[0]}"] = (shown.exit_code, shown.stdout, shown.stderr)
                    assert shown.exit_code == 0, shown.stderr
            return {**files(out), **said}

    return program


# Neighbouring tables.


def without_last(table):
    return table.slice(0, table.num_rows - 1)


def with_row_replaced(table):
    other = make_table(1, seed=99).cast(table.schema)
    return pa.concat_tables([table.slice(1), other])


def ending(last, **columns):
    """A table whose columns hold one value, but for the last row."""
    table = make_table(60)
    for name, value in columns.items():
        at = table.column_names.index(name)
        values = pa.array([value] * 59 + [last[name]], table.schema.field(name).type)
        table = table.set_column(at, name, values)
    return table


def constant(rows):
    return pa.concat_tables([make_table(1)] * rows).combine_chunks()


ODD = {
    "a column becomes constant": lambda: ending({"sex": "m"}, sex="f"),
    "all columns become constant": lambda: pa.concat_tables([constant(40), make_table(1, seed=3)]),
    "a cell becomes empty": lambda: ending({"ward": "d"}, ward="a"),
    "a column becomes all missing": lambda: ending({"ward": "b"}, ward=None),
    "a column has no missing value left": lambda: ending({"ward": None}, ward="b"),
    "256 rows become 255": lambda: constant(256),
    "1 row becomes none": lambda: make_table(1),
    "2 rows become 1": lambda: make_table(2),
    "3 rows become 2": lambda: make_table(3),
}
"""Tables that lose something special with their last row."""


def visits(people=30, seed=0, last=None):
    """Several rows of each person, those of the last one at the end; so many of the last one, if said."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, 6, people)
    rows[-1] = rows[-1] if last is None else last
    person = pa.array(np.repeat([f"p{i:02d}" for i in range(people)], rows))
    return make_table(len(person), seed=seed).add_column(0, "person", person)


def without_last_person(table):
    last = table["person"][-1]
    return table.filter(pa.compute.not_equal(table["person"], last))


def with_last_person_replaced(table):
    other = visits(1, seed=8)
    other = other.set_column(0, "person", pa.array(["z"] * other.num_rows)).cast(table.schema)
    return pa.concat_tables([without_last_person(table), other])


def leaks(table=None, neighbour=None, *, program=None, mechanisms=None):
    """Return what a replay finds; of a small table without its last row, and a quick method, if not told otherwise."""
    table = make_table(60) if table is None else table
    neighbour = without_last(table) if neighbour is None else neighbour
    return replay(program or synthesise("independent"), table, neighbour, mechanisms or seeded())
