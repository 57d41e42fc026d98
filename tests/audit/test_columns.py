"""Columns that come after others, follow from them, or are times: nothing leaves but through the mechanisms."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from conftest import by_turns
from weft_lab.replay import replay

from weft.schema import Schema

from .programs import SOURCES, seeded, synthesise, without_last

SCHEMA = Schema.from_toml(
    """
[columns.came]
kind = "datetime"
range = ["2024-01-01", "2024-12-31"]
bins = 12
missing = true
outside = "clip"

[columns.left]
kind = "datetime"
after = "came"
range = [0, 20]
missing = true
outside = "clip"

[columns.nights]
kind = "derived"
formula = "left - came"
type = "int64"

[columns.at]
kind = "time"
step = "30min"
format = "%H:%M"
missing = true
outside = "clip"

[columns.day]
kind = "datetime"
range = ["2024-01-01", "2024-01-20"]
format = "%Y%m%d"
type = "int64"
missing = true
outside = "clip"

[columns.ward]
kind = "category"
values = ["a", "b", "c"]

[columns.house]
kind = "derived"
of = "ward"
map = {a = "north"}
else = "south"
"""
)


def stays(rows=200):
    rng = np.random.default_rng(1)
    came = [dt.date(2024, 1, 1) + dt.timedelta(int(n)) for n in rng.integers(0, 366, rows)]
    left = [day + dt.timedelta(int(n)) for day, n in zip(came, rng.poisson(5, rows), strict=True)]
    return pa.table(
        {
            "came": came,
            "left": left,
            "nights": pa.array(rng.integers(0, 5, rows)),
            "at": [f"{hour:02d}:30" for hour in rng.integers(0, 24, rows)],
            "day": pa.array(20240101 + rng.integers(0, 20, rows)),
            "ward": rng.choice(["a", "b", "c"], rows),
            "house": rng.choice(["north", "south"], rows),
        }
    )


ODD = {
    "ordinary": {},
    "left before coming": {"left": dt.date(1700, 1, 1)},
    "never came": {"came": None},
    "no such day": {"day": 20240230},
    "no such time": {"at": "25:99"},
    "another length": {"nights": 10**15, "house": "S3CRET"},
}


@pytest.mark.parametrize(("source", "odd"), by_turns(SOURCES, ODD, 3))
def test_a_row_is_read_by_itself(source, odd):
    rows = stays().to_pylist()
    rows[-1] |= ODD[odd]
    table = pa.Table.from_pylist(rows, schema=stays().schema)
    program = synthesise("independent", SCHEMA, source=source)
    assert replay(program, table, without_last(table), seeded()) == []
