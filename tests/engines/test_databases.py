"""SQLite and PostgreSQL as sources: one snapshot, every row by itself, no word of the database, no password."""

import datetime as dt
import os
import signal
import sqlite3
import sys
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path

import adbc_driver_postgresql.dbapi
import duckdb
import pyarrow as pa
import pytest
from databases import LOCKED, USER, fill_postgres, fill_sqlite, run_postgres, server, start_server
from typer.testing import CliRunner

from weft import Synthesizer
from weft.cli import app
from weft.cli.terminal import Terminal
from weft.engines import open_engine
from weft.engines.memory_engine import MemoryEngine
from weft.engines.sources import open_reader, source_name, table_identity
from weft.engines.stream_engine import StreamEngine
from weft.errors import DataError
from weft.io.adbc import hold_snapshots
from weft.memory_plan import MemoryPlan
from weft.privacy import read_journal
from weft.privacy.mechanisms import Mechanisms
from weft.schema import Schema

TABLE = pa.table({"n": [1, 2, 3, None], "w": ["a", None, "b", "a"], "x": [0.1 + 0.2, 1e300, None, -0.5]})
SCHEMA = Schema.from_toml("""
[columns.n]
kind = "integer"
range = [0, 9]
missing = true
[columns.w]
kind = "category"
values = ["a", "b"]
missing = true
[columns.x]
kind = "real"
range = [0.0, 5.0]
bins = 4
missing = true
outside = "clip"
""")
FILLED = {"sqlite": lambda folder: fill_sqlite(TABLE, folder / "s.db"), "postgres": lambda folder: fill_postgres(TABLE)}


def read(source, schema=SCHEMA, batch_rows=3):
    reader = open_reader(source, schema, batch_rows)
    batches = [batch for batch, _ in reader.start(reader.schema.names)]
    assert all(batch.num_rows <= batch_rows for batch in batches)
    return pa.Table.from_batches(batches, reader.schema)


@pytest.mark.parametrize("kind", FILLED)
def test_values_come_as_they_are(kind, tmp_path):
    assert read(FILLED[kind](tmp_path)).to_pydict() == TABLE.to_pydict()


@pytest.mark.parametrize("kind", FILLED)
def test_all_passes_see_one_moment(kind, tmp_path):
    source = FILLED[kind](tmp_path)
    if kind == "sqlite":
        with closing(sqlite3.connect(tmp_path / "s.db")) as writer:
            writer.execute("PRAGMA journal_mode = wal")
    reader = open_reader(source, SCHEMA, 100)
    before = sum(batch.num_rows for batch, _ in reader.start(["n"]))
    if kind == "sqlite":
        with closing(sqlite3.connect(tmp_path / "s.db")) as writer:
            writer.execute("INSERT INTO rows (n) VALUES (7)")
            writer.commit()
    else:
        run_postgres("INSERT INTO rows (n) VALUES (7)")
    assert sum(batch.num_rows for batch, _ in reader.start(["n"])) == before == 4
    assert read(source).num_rows == 5


@pytest.mark.parametrize("kind", [*FILLED, "duckdb"])
def test_a_table_that_fits_is_read_once_and_counted_in_memory(kind, tmp_path):
    if kind == "duckdb":
        with duckdb.connect(str(tmp_path / "d.duckdb")) as database:
            database.register("given", TABLE)
            database.execute("CREATE TABLE rows AS FROM given")
    source = FILLED[kind](tmp_path) if kind in FILLED else f"duckdb:{tmp_path}/d.duckdb?table=rows"
    held = open_engine(source, SCHEMA).engine
    assert isinstance(held, MemoryEngine)
    streamed = open_engine(source, SCHEMA, room=replace(MemoryPlan(), codes=10)).engine
    assert isinstance(streamed, StreamEngine)
    for one, other in zip(held.count([("n", "w"), ("x",)]), streamed.count([("n", "w"), ("x",)]), strict=True):
        assert (one == other).all()


def test_a_table_has_no_more_rows_than_it_is_taken_to_have(tmp_path):
    rows = 20_000
    with closing(sqlite3.connect(tmp_path / "s.db")) as database:
        database.execute("CREATE TABLE rows (n)")
        database.executemany("INSERT INTO rows VALUES (?)", [(None,)] * rows)
        database.execute("CREATE TABLE keyed (n PRIMARY KEY) WITHOUT ROWID")
        database.executemany("INSERT INTO keyed VALUES (?)", [(i,) for i in range(rows)])
        for i in range(5):
            database.execute(f"ALTER TABLE rows ADD COLUMN c{i}")
        database.commit()
    for table in ("rows", "keyed"):
        assert open_reader(f"sqlite:{tmp_path}/s.db?table={table}", None, 9).most_rows >= rows


def test_parts_of_a_table_of_postgres_are_reckoned_with():
    run_postgres(
        *("DROP TABLE IF EXISTS parts", "DROP TABLE IF EXISTS above CASCADE"),
        "CREATE TABLE parts (n smallint) PARTITION BY HASH (n)",
        *(f"CREATE TABLE parts{i} PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER {i})" for i in range(2)),
        "INSERT INTO parts SELECT i % 10 FROM generate_series(1, 20000) i",
        *("CREATE TABLE above (n smallint)", "CREATE TABLE below () INHERITS (above)"),
        "INSERT INTO below SELECT NULL FROM generate_series(1, 20000)",
    )
    for table in ("parts", "above"):
        assert 20_000 <= open_reader(f"{server()}?table={table}", None, 9).most_rows < 60_000


def test_a_fit_opens_a_table_once_however_often_it_is_opened(tmp_path):
    source = FILLED["sqlite"](tmp_path)
    with closing(sqlite3.connect(tmp_path / "s.db")) as writer:
        writer.execute("PRAGMA journal_mode = wal")
        with hold_snapshots():
            assert read(source).num_rows == 4
            writer.execute("INSERT INTO rows (n) VALUES (7)")
            writer.commit()
            assert read(source).num_rows == 4
        assert read(source).num_rows == 5


@pytest.mark.parametrize("kind", FILLED)
def test_a_pass_that_is_given_up_spoils_none(kind, tmp_path):
    reader = open_reader(FILLED[kind](tmp_path), SCHEMA, 1)
    begun = reader.start(["n"])
    next(begun)
    begun.close()
    assert sum(batch.num_rows for batch, _ in reader.start(["n"])) == 4


def test_cells_of_sqlite_are_read_one_by_one_whatever_their_types(tmp_path):
    with closing(sqlite3.connect(tmp_path / "s.db")) as database:
        database.execute('CREATE TABLE "odd "" rows" (n INTEGER, w, x REAL)')
        rows = [(None, None, None)] * 2000 + [("4", 5, "1.5"), (3.0, b"\xff", 2), ("no", "a\0b", b"x")]
        database.executemany('INSERT INTO "odd "" rows" VALUES (?, ?, ?)', rows)
        database.commit()
    schema = Schema.from_toml(
        '[columns.n]\nkind = "integer"\nrange = [0, 9]\nmissing = true\noutside = "clip"\n'
        '[columns.w]\nkind = "category"\nvalues = ["5"]\nother = "other"\nmissing = true\n'
        '[columns.x]\nkind = "real"\nrange = [0.0, 5.0]\nmissing = true\noutside = "clip"\n'
    )
    source = f'sqlite:{tmp_path}/s.db?table=odd " rows'
    table = read(source, schema, 1 << 17).slice(2000)
    assert table["n"].to_pylist() == [4, 3, None] and table["x"].to_pylist() == [1.5, 2.0, None]
    assert open_engine(source, schema).engine.count([()])[0].sum() == 2003


def test_types_of_postgres():
    run_postgres(
        "DROP TABLE IF EXISTS odd",
        "CREATE TABLE odd (i smallint, d date, ts timestamp, tz timestamptz, price numeric(8, 2), whole numeric, "
        "c char(4), u uuid, b boolean, t time)",
        "INSERT INTO odd VALUES (1, '2020-02-03', '2020-02-03 04:05', '2020-02-03 04:05+02', 2.50, 7, 'ab', "
        "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', true, '10:30'), (2, 'infinity', '-infinity', 'infinity', 'NaN', "
        "NULL, '', NULL, NULL, NULL)",
    )
    schema = Schema.from_toml(
        'extra_columns = "ignore"\n[columns.price]\nkind = "real"\nrange = [0, 9]\ndecimals = 2\nmissing = true\n'
        '[columns.whole]\nkind = "integer"\nrange = [0, 9]\nmissing = true\n'
    )
    table = read(f"{server()}?table=public.odd", schema)
    first, second = table.to_pylist()
    assert first["price"] == 2.5 and first["whole"] == 7 and pa.types.is_integer(table.schema.field("whole").type)
    assert first["d"] == dt.date(2020, 2, 3) and first["c"] == "ab" and first["t"] == dt.time(10, 30)
    assert table.schema.field("i").type == pa.int16() and table.schema.field("tz").type == pa.timestamp("us", "UTC")
    assert first["u"] == "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    assert [second[name] for name in ("d", "ts", "tz", "price", "whole")] == [None] * 5


@pytest.mark.parametrize(
    "source",
    [
        *(
            "postgresql://u:secret@h/db?table=t",
            "postgres://u:sec/ret@h/db?table=t",
            "postgresql://u:s@secret@h/d?table=t",
        ),
        *("postgresql://h/db?table=t&password=secret", "postgresql://h/db?sslpassword=secret&table=t"),
        *("mysql://u:secret@h/db?table=t", "postgresql+psycopg://u:secret@h/db"),
    ],
)
def test_a_password_in_an_address_is_refused_and_not_repeated(source):
    for do in (
        source_name,
        table_identity,
        lambda s: open_reader(s, SCHEMA, 9),
        lambda s: open_reader([s, s], SCHEMA, 9),
    ):
        with pytest.raises(DataError) as refused:
            do(source)
        assert "secret" not in str(refused.value) and "ret@" not in str(refused.value)


def test_passwords_come_from_the_environment_and_from_files(tmp_path, monkeypatch):
    fill_postgres(TABLE)
    run_postgres(f"DROP OWNED BY {LOCKED}" if known(LOCKED) else f"CREATE ROLE {LOCKED} LOGIN PASSWORD 'ossianic'")
    source = server().replace("//", f"//{LOCKED}@") + "/postgres?table=rows"
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    for password in (None, "wrong"):
        monkeypatch.setenv("PGPASSWORD", password) if password else monkeypatch.delenv("PGPASSWORD", raising=False)
        with pytest.raises(DataError, match="PGPASSWORD") as told:
            read(source)
        assert LOCKED not in str(told.value)
    monkeypatch.setenv("PGPASSWORD", "ossianic")
    with pytest.raises(DataError, match="right to SELECT"):
        read(source)
    run_postgres(f"GRANT SELECT ON rows TO {LOCKED}")
    assert read(source).num_rows == 4
    monkeypatch.delenv("PGPASSWORD")
    (tmp_path / "pass").write_text("127.0.0.1:*:*:*:ossianic\n")
    (tmp_path / "pass").chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pass"))
    assert read(source).num_rows == 4


def known(role):
    return run_postgres(f"SELECT 1 FROM pg_roles WHERE rolname = '{role}'")


def test_no_user_is_in_a_record():
    named = source_name(f"postgresql://{USER}@h:1/db?table=s.t&sslmode=require")
    assert named == "postgresql://h:1/db?table=s.t"
    assert table_identity("postgresql://u@h/d?table=t") == table_identity("postgres://v@h/d?table=t")


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("sqlite:{}/none.db?table=t", "no such file"),
        ("sqlite:{}/s.db?table=none", "no such table"),
        ("sqlite:{}/s.db?table=seen", "a view"),
        ("sqlite:{}/s.db?query=SELECT 1", "CREATE TABLE"),
        ("sqlite:{}/s.db", "sqlite:FILE"),
        ("sqlite:{}/no.db?table=t", "could not finish"),
        ("postgresql://h/d?query=SELECT 1", "CREATE TABLE"),
        ("postgresql://h/d", "table=NAME"),
        ("postgresql://h/d?table=t&options=-c", "PGOPTIONS"),
        ("postgresql://127.0.0.1:1/d?table=t", "cannot be reached"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_remedy(address, told, tmp_path):
    fill_sqlite(TABLE, tmp_path / "s.db")
    with closing(sqlite3.connect(tmp_path / "s.db")) as database:
        database.execute("CREATE VIEW seen AS SELECT * FROM rows")
    (tmp_path / "no.db").write_text("no database, whatever it is called; no database, whatever it is called" * 20)
    with pytest.raises(DataError, match=told):
        open_reader(address.format(tmp_path), SCHEMA, 9)


def test_tables_of_postgres_that_cannot_be_read():
    fill_postgres(TABLE)
    run_postgres("CREATE OR REPLACE VIEW seen AS SELECT * FROM rows")
    for table, told in {"seen": "a view", "none": "no such table"}.items():
        with pytest.raises(DataError, match=told):
            open_reader(f"{server()}?table={table}", SCHEMA, 9)
    run_postgres("DROP VIEW seen")


@pytest.mark.parametrize(("kind", "extra"), [("sqlite", "sqlite"), ("postgresql", "postgres")])
def test_without_the_driver_the_extra_is_named(kind, extra, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, f"adbc_driver_{kind}", None)
    monkeypatch.setitem(sys.modules, f"adbc_driver_{kind}.dbapi", None)
    address = {"sqlite": f"sqlite:{tmp_path}/s.db?table=t", "postgresql": "postgresql://h/d?table=t"}[kind]
    with pytest.raises(DataError, match=rf"weft\[{extra}\]"):
        open_reader(address, SCHEMA, 9)


def test_a_server_that_dies_gives_an_error_and_no_count():
    run_postgres(
        "DROP TABLE IF EXISTS many",
        "CREATE TABLE many AS SELECT 1 AS n, repeat('a', 1000) AS w FROM generate_series(1, 60000)",
    )
    schema = Schema.from_toml(
        '[columns.n]\nkind = "integer"\nrange = [0, 9]\n[columns.w]\nkind = "category"\nvalues = ["a"]\nother = "o"\n'
    )
    reader = open_reader(f"{server()}?table=many", schema, 1000)
    rows = reader.start(["n", "w"])
    next(rows)
    run_postgres(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query ~ 'many'"
    )
    with pytest.raises(DataError, match="start again") as told:
        for _ in rows:
            pass
    assert "terminat" not in str(told.value)
    engine = open_engine(f"{server()}?table=many", schema, engine="stream", batch_rows=1000).engine
    run_postgres(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query ~ 'many'"
    )
    with pytest.raises(DataError, match="start again"):
        engine.count([("n",)])


@pytest.mark.parametrize("engine", ["auto", "stream"])
def test_a_connection_that_is_cut_during_a_command_leaves_nothing_half_written(engine, tmp_path, monkeypatch):
    run_postgres(
        "DROP TABLE IF EXISTS cut",
        "CREATE TABLE cut AS SELECT 1 AS n, repeat('a', 1000) AS w FROM generate_series(1, 60000)",
    )
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text(
        '[columns.n]\nkind = "integer"\nrange = [0, 9]\n[columns.w]\nkind = "category"\nvalues = ["a"]\nother = "o"\n'
        'outside = "other"\n'
    )
    cut, seen = [], []

    def listen(event):
        seen.append(event.stage)
        if not cut and (seen.count("read") == 2 or "check" in seen):  # the table is open, and its rows are to be read
            cut.append(event)
            run_postgres(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query ~ 'cut'"
            )

    monkeypatch.setattr(Terminal, "progress", lambda self: nullcontext(listen))
    words = ["synth", f"{server()}?table=cut", "-s", "s.toml", "-e", "1", "-m", "independent", "--engine", engine]
    done = CliRunner(env={"NO_COLOR": "1"}).invoke(app, [*words, "-o", "made.csv"])
    assert cut and done.exit_code == 4 and "start again" in " ".join(done.stderr.split()), done.stderr
    assert "Nothing was spent" in done.stderr and "terminat" not in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"s.toml"}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["auto", "stream"])
def test_a_server_that_is_killed_during_a_fit(engine, tmp_path, monkeypatch):
    found = start_server()
    if found is None:
        pytest.skip("PostgreSQL is not installed (Debian's package postgresql)")
    address, folder, stop = found
    monkeypatch.setenv("PGUSER", USER)
    monkeypatch.setenv("PGDATABASE", "postgres")
    table = pa.table({"n": [i % 10 for i in range(50_000)], "w": ["ab"[i % 2] for i in range(50_000)]})
    with closing(adbc_driver_postgresql.dbapi.connect(address.replace("//", f"//{USER}@") + "/postgres")) as connection:
        with connection.cursor() as cursor:
            cursor.adbc_ingest("rows", table, mode="create")
        connection.commit()
    schema = Schema.from_toml(
        '[columns.n]\nkind = "integer"\nrange = [0, 9]\n[columns.w]\nkind = "category"\nvalues = ["a", "b"]\n'
    )
    killed, drawn = [], []

    def kill(event):
        """Kill the server and all its children as the rows are read: the only time, or for the second time."""
        if not killed and event.stage == {"auto": "read", "stream": "count"}[engine]:
            head = int((folder / "data" / "postmaster.pid").read_text().split()[0])
            below = Path(f"/proc/{head}/task/{head}/children").read_text().split()
            for process in (head, *map(int, below)):
                os.kill(process, signal.SIGKILL)
                killed.append(process)

    monkeypatch.setattr(Mechanisms, "__call__", lambda *given: drawn.append(given))
    try:
        fitting = Synthesizer(1.0, method="independent", engine=engine, journal=tmp_path / "j.jsonl")
        with pytest.raises(DataError, match=r"start again|cannot be reached"):
            fitting.fit(f"{address}/postgres?table=rows", schema, listener=kill)
    finally:
        stop()
    runs = read_journal(tmp_path / "j.jsonl") if (tmp_path / "j.jsonl").exists() else []
    assert len(killed) > 1 and not drawn
    assert sum(len(run.charges) for run in runs) == (1 if engine == "stream" else 0)  # charged first, nothing released
