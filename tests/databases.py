"""Databases that tests read and write: a file of SQLite, and a server of PostgreSQL on loopback, where there is one."""

import atexit
import functools
import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

USER = "weft"
LOCKED = "locked"
"""A user whom the server asks for a password."""


def fill_sqlite(table, path, name="rows"):
    """Write a table into a new file of SQLite, and return its address."""
    import adbc_driver_sqlite.dbapi

    Path(path).unlink(missing_ok=True)
    with closing(adbc_driver_sqlite.dbapi.connect(str(path))) as connection:
        with connection.cursor() as cursor:
            cursor.adbc_ingest(name, table, mode="create")
        connection.commit()
    return f"sqlite:{path}?table={name}"


def fill_postgres(table, name="rows"):
    """Write a table into the server, in place of one of that name, and return its address."""
    with closing(connected()) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '10s'")
        with connection.cursor() as cursor:
            cursor.execute(f'DROP TABLE IF EXISTS "{name}"')
        with connection.cursor() as cursor:
            cursor.adbc_ingest(name, table, mode="create")
        connection.commit()
    return f"{server()}?table={name}"


def run_postgres(*statements):
    """Run statements, each by itself, and return the rows of the last."""
    with closing(connected(autocommit=True)) as connection:
        for statement in statements:
            with connection.cursor() as cursor:
                cursor.execute(statement)
                found = cursor.fetchall() if cursor.description else []
    return found


def connected(**settings):
    import adbc_driver_postgresql.dbapi

    return adbc_driver_postgresql.dbapi.connect(server().replace("//", f"//{USER}@") + "/postgres", **settings)


def server():
    """Return the address of a server, which is started where it is not; without PostgreSQL the test is skipped."""
    started = _started()
    if started is None:
        pytest.skip("PostgreSQL is not installed (Debian's package postgresql)")
    os.environ["PGUSER"] = USER
    os.environ["PGDATABASE"] = "postgres"
    return started


@functools.cache
def _started():
    found = start_server()
    if found is None:
        return None
    address, _, stop = found
    atexit.register(stop)
    return address


def start_server():
    """Start a server of PostgreSQL; return its address, its folder and what ends it, or None if there is none."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) + [
        Path(p) for p in [shutil.which("initdb")] if p
    ]
    if not programs:
        return None
    pytest.importorskip("adbc_driver_postgresql")
    folder = Path(tempfile.mkdtemp(prefix="weft-postgres-"))
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    bin_, data = programs[-1].parent, folder / "data"
    shutil.chown(folder, "postgres") if os.getuid() == 0 else None
    _run(bin_ / "initdb", "-D", data, "-A", "trust", "-U", USER, "--no-sync", "-E", "UTF8")
    rules = [f"host all {LOCKED} 127.0.0.1/32 scram-sha-256", "host all all 127.0.0.1/32 trust", "local all all trust"]
    (data / "pg_hba.conf").write_text("\n".join(rules) + "\n")
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off -c shared_buffers=16MB"
    _run(bin_ / "pg_ctl", "-D", data, "-w", "-o", options, "-l", folder / "log", "start")

    def stop():
        _run(bin_ / "pg_ctl", "-D", data, "-m", "immediate", "stop", check=False)
        shutil.rmtree(folder, ignore_errors=True)

    return f"postgresql://127.0.0.1:{port}", folder, stop


def _run(*command, check=True):
    """Run a program of the server, which refuses to be run by root."""
    lowered = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    subprocess.run(
        [*lowered, *map(str, command)], check=check, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/"
    )
