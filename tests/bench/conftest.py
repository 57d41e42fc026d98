from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from weft_lab.tables import BenchTable

from weft.schema import Schema

SIZES = {"a": 3, "b": 4, "c": 2, "d": 5, "e": 2}


def coded(rows: int = 600) -> pa.Table:
    """Columns that follow the first one."""
    rng = np.random.default_rng(3)
    hidden = rng.integers(0, 2, rows)
    return pa.table(
        {name: (hidden * (size // 2) + rng.integers(0, size - size // 2, rows)) % size for name, size in SIZES.items()}
    )


@pytest.fixture
def small() -> BenchTable:
    return BenchTable.of("small", coded(), Schema.from_domain(SIZES))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with small.parquet and its domain file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WEFT_DATA", raising=False)
    pq.write_table(coded(), "small.parquet")
    Path("small.domain.json").write_text(json.dumps(SIZES))
    return tmp_path
