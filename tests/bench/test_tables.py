from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from weft_lab.tables import BenchTable, open_table

from weft.errors import DataError

from .conftest import SIZES, coded


def test_a_coded_table_is_found_by_name_and_by_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for source in ("small", "small.parquet", str(folder / "small.parquet")):
        table = open_table(source)
        assert table.name == "small"
        assert table.records.domain.shape == tuple(SIZES.values())
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("WEFT_DATA", str(folder))
    monkeypatch.chdir(elsewhere)
    assert open_table("small").records.domain.shape == tuple(SIZES.values())


def test_columns_that_the_domain_does_not_name_are_left_out(folder: Path) -> None:
    pq.write_table(coded().append_column("extra", pa.array(range(600))), "small.parquet")
    assert open_table("small").rows.column_names == list(SIZES)


def test_a_part_of_a_table_says_so(folder: Path) -> None:
    part = open_table("small", rows=100, columns=3)
    assert part.name == "small, 3 columns, 100 rows"
    assert (len(part.records), part.records.domain.names) == (100, ("a", "b", "c"))
    again = open_table("small", rows=100, columns=3)
    assert all((a == b).all() for a, b in zip(part.records.columns, again.records.columns, strict=True))
    assert open_table("small", rows=10**6, columns=10**3).name == "small"


def test_a_table_without_a_schema_gets_a_draft(folder: Path) -> None:
    pa.csv.write_csv(pa.table({"n": np.arange(50) % 7, "word": ["x", "y"] * 25}), "plain.csv")
    table = open_table("plain.csv")
    assert table.records.domain.shape == (7, 2)
    assert table.schema.from_data_facts()


def test_a_schema_can_be_given(folder: Path) -> None:
    pa.csv.write_csv(pa.table({"n": np.arange(50) % 7}), "plain.csv")
    Path("other.toml").write_text('[columns.n]\nkind = "integer"\nrange = [0, 9]\n')
    assert open_table("plain.csv", "other.toml").records.domain.shape == (10,)


def test_what_is_not_there_is_refused(folder: Path) -> None:
    with pytest.raises(DataError, match="no table of this name") as refused:
        open_table("nowhere")
    assert "shared" not in str(refused.value) and "WEFT_DATA" in str(refused.value)
    Path("broken.parquet").write_text("no parquet")
    with pytest.raises(DataError, match="damaged"):
        open_table("broken")


def test_a_split_is_small_and_seeded(small: BenchTable) -> None:
    seen, held = small.split(1)
    assert (len(seen.records), len(held), len(seen.rows)) == (480, 120, 480)
    assert (small.split(1)[1].columns[0] == held.columns[0]).all()
    assert any((a != b).any() for a, b in zip(small.split(2)[1].columns, held.columns, strict=True))
