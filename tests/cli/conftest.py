from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from weft.cli import app

Weft = Callable[..., Any]

SCHEMA = """
[columns.visit]
kind = "id"
pattern = "V{:05d}"

[columns.score]
kind = "integer"
range = [0, 20]

[columns.town]
kind = "category"
values = ["Arras", "Bruges", "Ghent"]
missing = true

[columns.price]
kind = "real"
range = [0, 100]
bins = 10
special = [0]
decimals = 2

[columns.day]
kind = "datetime"
range = ["2024-01-01", "2024-03-31"]

[columns.regular]
kind = "boolean"
"""


def table(rows: int = 800) -> pa.Table:
    """A small private table in Arrow types that are easily lost: int16, dictionary, float32, date."""
    rng = np.random.default_rng(5)
    towns = np.array(["Arras", "Bruges", "Ghent", None], object)[rng.choice(4, rows, p=[0.5, 0.2, 0.1, 0.2])]
    prices = np.where(rng.random(rows) < 0.3, 0, np.round(rng.uniform(0, 100, rows), 2))
    days = [date(2024, 1, 1) + timedelta(int(n)) for n in rng.integers(0, 91, rows)]
    return pa.table(
        {
            "visit": pa.array([f"V{n:05d}" for n in range(rows)]),
            "score": pa.array(rng.integers(0, 21, rows), pa.int16()),
            "town": pa.array(towns.tolist(), pa.string()).dictionary_encode(),
            "price": pa.array(prices, pa.float32()),
            "day": pa.array(days, pa.date32()),
            "regular": pa.array(rng.random(rows) < 0.7),
        }
    )


@pytest.fixture
def folder(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with visits.csv, visits.parquet and visits.toml."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WEFT_DEBUG", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    plain = table()
    plain = plain.set_column(2, "town", plain["town"].cast(pa.string()))
    pa.csv.write_csv(plain, "visits.csv")
    pa.parquet.write_table(table(), "visits.parquet")
    Path("visits.toml").write_text(SCHEMA)
    return tmp_path


@pytest.fixture
def weft(folder: Path) -> Weft:
    """Run the command line in the folder and check its exit code."""

    def run(*words: object, code: int = 0) -> Any:
        result = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, [str(word) for word in words])
        assert result.exit_code == code, (result.exit_code, result.stdout, result.stderr, result.exception)
        return result

    return run


@pytest.fixture
def model(weft: Weft) -> Path:
    weft("fit", "visits.csv", "-s", "visits.toml", "-e", 1, "-m", "independent", "-o", "visits.weft", "-q")
    return Path("visits.weft")


def command(*words: object) -> list[str]:
    """The command line as another process starts it."""
    return [sys.executable, "-m", "weft.cli", *map(str, words)]


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "NO_COLOR": "1", "COLUMNS": "200"}


def outputs(folder: Path) -> set[str]:
    """Names of what a command has left in the folder."""
    return {path.name for path in folder.iterdir()} - {"visits.csv", "visits.parquet", "visits.toml"}
