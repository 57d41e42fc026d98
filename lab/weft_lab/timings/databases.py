"""A fit from a table of a database beside the same fit from Parquet; PostgreSQL is a server of our own on loopback."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from weft.curator.private_table import PrivateTable
from weft.marginals.counting import compile_kernels
from weft.schema import Schema
from weft.synthesis.synthesizer import Synthesizer
from weft_lab.fetch import as_table
from weft_lab.generated import latent_class
from weft_lab.timings import Figures

ROWS, COLUMNS, RUNS, MOST = 1_000_000, 20, 2, 3.0
"""Rows and columns, runs of each (the shortest counts), and the target: times the fit from Parquet."""

_USER = "weft"


def figures(large: bool = False) -> Figures:
    """Measure weave from each kind of database."""
    compile_kernels()
    records = latent_class(ROWS * (10 if large else 1), COLUMNS, np.random.default_rng(1), sizes=(2, 20))
    schema = Schema.from_domain(dict(zip(records.domain.names, records.domain.shape, strict=True)))
    table = as_table(records)
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        path = Path(folder)
        pq.write_table(table, path / "rows.parquet")
        _fit(table.slice(0, 20_000), schema)  # compiles
        files = _fit(path / "rows.parquet", schema)
        told = [
            (f"weave, {len(table):,} rows x {COLUMNS}", ""),
            ("  from Parquet", f"{files:.1f} s"),
            ("  from SQLite", _beside(_fit(_sqlite(table, path / "rows.sqlite"), schema), files)),
            ("  from DuckDB", _beside(_fit(_duckdb(path), schema), files)),
        ]
        with postgres(path) as address:
            if address is None:
                return [*told, ("  from PostgreSQL", "not installed")]
            _ingest("postgresql", f"{address.replace('//', f'//{_USER}@')}/postgres", table)
            there = f"{address}/postgres?table=rows"
            taken = _fit(there, schema)
            read = [_read(source, schema) for source in (path / "rows.parquet", there)]
    return [
        *told,
        ("  from PostgreSQL, loopback", f"{_beside(taken, files)}; target at most {MOST:.0f} times"),
        ("    reading and coding alone", f"{read[1]:.1f} s; Parquet {read[0]:.1f} s"),
    ]


def _beside(taken: float, files: float) -> str:
    return f"{taken:.1f} s, {taken / files:.2f} times Parquet"


def _fit(source: str | Path | pa.Table, schema: Schema) -> float:
    """Return the seconds of the shortest of some fits, all with the same noise."""
    times = []
    for _ in range(RUNS):
        begin = perf_counter()
        Synthesizer(0.8, 1e-6, method="weave", journal=None, seed=1, noise_seed=1).fit(source, schema)
        times.append(perf_counter() - begin)
    return min(times)


def _read(source: str | Path, schema: Schema) -> float:
    begin = perf_counter()
    PrivateTable(source).open(schema)
    return perf_counter() - begin


def _ingest(driver: str, place: str, table: pa.Table) -> None:
    from weft.io.adbc import import_driver as loaded

    with closing(loaded(driver, {"postgresql": "postgres"}.get(driver, driver)).connect(place)) as connection:
        with connection.cursor() as cursor:
            cursor.adbc_ingest("rows", table, mode="create")
        connection.commit()


def _sqlite(table: pa.Table, path: Path) -> str:
    _ingest("sqlite", str(path), table)
    return f"sqlite:{path}?table=rows"


def _duckdb(folder: Path) -> str:
    import duckdb

    with duckdb.connect(str(folder / "rows.duckdb")) as database:
        database.execute(f"CREATE TABLE rows AS FROM '{folder}/rows.parquet'")
    return f"duckdb:{folder}/rows.duckdb?table=rows"


@contextmanager
def postgres(folder: Path) -> Iterator[str | None]:
    """Run a server of PostgreSQL on loopback meanwhile, and lend its address; None where none is installed."""
    found = [*sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")), shutil.which("initdb")]
    programs = [Path(each).parent for each in found if each]
    if not programs:
        yield None
        return
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = folder / "server"
    place.mkdir()
    if os.getuid() == 0:  # which the server refuses to be run by
        folder.chmod(0o755)
        shutil.chown(place, "postgres")
    data, options = place / "data", f"-p {port} -k {place} -c listen_addresses=127.0.0.1"
    _run(programs[0] / "initdb", "-D", data, "-A", "trust", "-U", _USER, "--no-sync", "-E", "UTF8")
    _run(programs[0] / "pg_ctl", "-D", data, "-w", "-o", options, "-l", place / "log", "start")
    before = os.environ.get("PGUSER")
    os.environ["PGUSER"] = _USER
    try:
        yield f"postgresql://127.0.0.1:{port}"
    finally:
        _run(programs[0] / "pg_ctl", "-D", data, "-m", "immediate", "stop")
        os.environ.pop("PGUSER") if before is None else os.environ.update(PGUSER=before)


def _run(*command: Any) -> None:
    lowered = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    quiet = subprocess.DEVNULL
    subprocess.run([*lowered, *map(str, command)], check=True, stdout=quiet, stderr=quiet, cwd="/")  # noqa: S603
