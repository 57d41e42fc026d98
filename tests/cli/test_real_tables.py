"""Raw public tables, where they are at hand: types in are types out, nulls stay within noise."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from .conftest import Weft

DATA = Path(__file__).parents[2] / "../shared/data"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adult_raw", "flights_raw"])
def test_types_order_and_null_rates_survive(weft: Weft, name: str) -> None:
    source = DATA / f"{name}.parquet"
    if not source.exists():
        pytest.skip("the shared tables are not here")
    weft("schema", "draft", source, "-o", "draft.toml")
    words = ("synth", source, "-s", "draft.toml", "-e", 1, "--trust-data-for-schema", "-o", "out.parquet")
    weft(*words)
    real, made = pq.read_table(source), pq.read_table("out.parquet")
    assert made.schema.remove_metadata() == real.schema.remove_metadata()
    assert abs(made.num_rows - real.num_rows) < 200
    for column in real.column_names:
        rates = [table[column].null_count / table.num_rows for table in (real, made)]
        assert abs(rates[0] - rates[1]) < 0.003, column
    weft(*words, "--overwrite")
    assert not pq.read_table("out.parquet").equals(made)
