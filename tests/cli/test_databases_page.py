"""Every command of the page about databases runs, on SQLite and on a server of PostgreSQL."""

import re
import shlex
from pathlib import Path

import pyarrow as pa
import pytest
from databases import fill_postgres, fill_sqlite, run_postgres, server
from typer.testing import CliRunner

from weft.cli import app
from weft.io.addresses import KINDS

PAGE = (Path(__file__).parents[2] / "docs" / "databases.md").read_text(encoding="utf-8")
COMMANDS = [line[2:] for line in re.findall(r"^\$ .*$", PAGE, re.MULTILINE)]
SCHEMA = '[columns.age]\nkind = "integer"\nrange = [0, 9]\n\n[columns.ward]\nkind = "category"\nvalues = ["a", "b"]\n'


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_runs(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("stays.toml").write_text(SCHEMA)
    stays = pa.table({"age": [i % 10 for i in range(200)], "ward": ["ab"[i % 2] for i in range(200)]})
    fill_sqlite(stays, "hospital.sqlite", "stays")
    if "postgresql" in command:
        fill_postgres(stays, "stays")
        run_postgres("DROP TABLE IF EXISTS stays_synthetic")
        command = command.replace("postgresql://db.example/hospital", f"{server()}/postgres")
    words = shlex.split(command)[1:]
    result = CliRunner().invoke(app, [*words, *(["-m", "independent"] if words[0] == "synth" else [])])
    assert result.exit_code == 0, result.output
    if "stays_synthetic" in command:
        assert Path("stays_synthetic.card.md").is_file() and Path("stays_synthetic.ledger.jsonl").is_file()


def test_the_page_names_every_kind_of_address():
    assert {prefix for prefix in KINDS if prefix != "postgres"} <= set(re.findall(r"`'(\w+):", PAGE))
