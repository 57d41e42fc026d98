"""The small world that cases are played in: a private table with secrets, a schema, a model and a release."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

CANARY = "Xanthippe-77"
"""A private text that no schema lists."""

CANARY_NUMBER = 987654321
"""A private number far outside every range."""

SECRETS = (CANARY, str(CANARY_NUMBER), f"{CANARY_NUMBER:,}")

SCHEMA = """
unit = "visit"
rows_per_unit = 2

[columns.visit]
kind = "id"

[columns.score]
kind = "integer"
range = [0, 20]
missing = true
outside = "clip"

[columns.town]
kind = "category"
values = ["Arras", "Bruges", "Ghent", "elsewhere"]
missing = true
other = "elsewhere"

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

ROWS = 300


def table(rng: np.random.Generator) -> pa.Table:
    """A private table; some of its texts and numbers are secrets that its schema hides."""
    towns = np.array(["Arras", "Bruges", CANARY, None], object)[rng.integers(0, 4, ROWS)]
    scores = rng.integers(0, 21, ROWS)
    scores[rng.integers(0, ROWS, 5)] = CANARY_NUMBER
    return pa.table(
        {
            "visit": pa.array([f"V{n % 200:05d}" for n in range(ROWS)]),
            "score": pa.array(scores, pa.int64()),
            "town": pa.array(towns.tolist(), pa.string()),
            "price": pa.array(np.round(rng.uniform(0, 100, ROWS), 2), pa.float64()),
            "day": pa.array(rng.integers(19723, 19813, ROWS).astype(np.int32)).cast(pa.date32()),
            "regular": pa.array(rng.random(ROWS) < 0.7),
        }
    )


@cache
def _template() -> Path:
    """Make the world once, with the command line itself; cases get a copy."""
    from typer.testing import CliRunner

    from weft.cli import app

    home = Path(tempfile.mkdtemp(prefix="weft-fuzz-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    made = table(np.random.default_rng(5))
    pa.csv.write_csv(made, home / "private.csv")
    pa.parquet.write_table(made, home / "private.parquet")
    (home / "schema.toml").write_text(SCHEMA)
    (home / "domain.json").write_text(json.dumps({"score": 21, "regular": 2}))
    before = Path.cwd()
    os.chdir(home)
    try:
        for words in (
            ["fit", "private.csv", "-s", "schema.toml", "-e", "2", "-m", "mst", "-o", "model.weft", "-q"],
            ["sample", "model.weft", "-n", "40", "-o", "released.csv", "-q"],
        ):
            done: Any = CliRunner().invoke(app, words)
            assert done.exit_code == 0, (words, done.output)
    finally:
        os.chdir(before)
    return home


def copy_world(into: Path) -> None:
    """Put a copy of the world into a folder."""
    shutil.copytree(_template(), into, dirs_exist_ok=True)
