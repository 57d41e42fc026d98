"""Markers of missing values: declared for a column, compared value by value, in every kind of column and source."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft import Synthesizer
from weft.encoding import Codec
from weft.engines import open_engine
from weft.errors import DataError, SchemaError
from weft.evaluation.report.editions import read_coded
from weft.io.formats.csv_files import read_csv
from weft.schema import Schema
from weft.schema.kinds import Integer
from weft.values.text_numbers import blank_marked_values

COLUMNS = """
unit = "who"
rows_per_unit = 2

[columns.who]
kind = "id"
missing = ["nobody"]

[columns.n]
kind = "integer"
range = [0, 9]
missing = ["?", -9, 99]

[columns.x]
kind = "real"
range = [0.0, 5.0]
bins = 4
missing = ["?", 999.0]

[columns.w]
kind = "category"
values = ["a", "b"]
other = "o"
missing = ["?", "NA", -9]

[columns.f]
kind = "boolean"
missing = ["?", "9"]

[columns.d]
kind = "datetime"
range = ["2020-01-01", "2020-12-31"]
bins = 4
missing = ["?", "1900-01-01"]
"""
SCHEMA = Schema.from_toml(COLUMNS)
LINES = ["who,n,x,w,f,d", "p,3,1.5,a,true,2020-03-05", "nobody,?,999,NA,9,1900-01-01", "q,-9,999.0,-9, ? ,?"]
LINES += ["q,99,,zzz,,"]


def missing_codes(codec, records):
    last = {name: codec.domain.size(name) - 1 for name in codec.domain}
    return {name: (records.column(name) == code).tolist() for name, code in last.items()}


EXPECTED = {"n": [0, 1, 1, 1], "x": [0, 1, 1, 1], "w": [0, 1, 1, 0], "f": [0, 1, 1, 1], "d": [0, 1, 1, 1]}


def test_markers_of_a_text_file_are_missing_as_they_are_written(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(LINES) + "\n")
    table = read_csv(path, SCHEMA)
    codec = Codec(SCHEMA, table.schema)
    assert missing_codes(codec, codec.encode(table)) == {k: [bool(b) for b in v] for k, v in EXPECTED.items()}


def typed():
    days = np.array(["2020-03-05", "1900-01-01", "1900-01-01", "NaT"], "M8[D]")
    return pa.table(
        {
            "who": ["p", "nobody", "q", "q"],
            "n": pa.array([3, 99, -9, None], pa.int32()),
            "x": pa.array([1.5, 999.0, 999.0, None], pa.float32()),
            "w": pa.array(["a", "NA", "-9", "zzz"]).dictionary_encode(),
            "f": pa.array([True, None, None, None]),
            "d": pa.array(days),
        }
    )


@pytest.mark.parametrize("kind", ["parquet", "arrow", "pandas", "words"])
def test_markers_of_a_typed_table_are_missing_by_value(kind, tmp_path):
    source = table = typed()
    if kind == "parquet":
        source = tmp_path / "rows.parquet"
        pq.write_table(table, source)
    elif kind != "arrow":
        source = table.to_pandas()
    if kind == "words":
        source = pd.DataFrame([line.split(",") for line in LINES[1:]], columns=LINES[0].split(",")).replace("", None)
    schema = SCHEMA
    if kind == "words":  # dates in text of a frame need a format
        columns = tuple(replace(c, format="%Y-%m-%d") if c.name == "d" else c for c in SCHEMA.columns)
        schema = replace(SCHEMA, columns=columns)
    opened = open_engine(source, schema)
    records = opened.engine.records
    counted = {name: sum(column) for name, column in missing_codes(opened.codec, records).items()}
    assert counted == {"n": 2, "x": 2, "w": 1, "f": 2, "d": 2}  # the row of nobody is left out


def test_a_marker_is_no_value_outside_the_range_and_a_value_is_no_marker(tmp_path):
    schema = Schema.from_toml('[columns.n]\nkind = "integer"\nrange = [0, 9]\nmissing = [-9]\n')
    assert Codec(schema, pa.schema({"n": pa.int64()})).encode(pa.table({"n": [-9, 3]})).column("n").tolist() == [10, 3]
    with pytest.raises(DataError, match="outside the schema"):
        Codec(schema, pa.schema({"n": pa.int64()})).encode(pa.table({"n": [-8, 3]}))


def test_markers_are_written_back_in_the_schema_and_come_out_blank(tmp_path):
    assert Schema.from_toml(SCHEMA.to_toml()) == Schema.from_dict(SCHEMA.to_dict()) == SCHEMA
    assert SCHEMA.to_dict()["columns"]["n"]["missing"] == ["?", -9, 99]
    schema = Schema.from_toml('[columns.n]\nkind = "integer"\nrange = [0, 1]\nmissing = ["?"]\n')
    rows = pa.table({"n": pa.array(["?", "1", "0", "?"] * 100)})
    made = Synthesizer(8.0, method="independent", journal=None).fit(rows, schema).sample(400, seed=1)
    assert made.column("n").null_count > 100


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ('kind = "integer"\nrange = [0, 9]\nmissing = []', "at least one marker"),
        ('kind = "integer"\nrange = [0, 9]\nmissing = [true]', "strings and numbers"),
        ('kind = "integer"\nrange = [0, 9]\nspecial = [-9]\nmissing = [-9]', "missing and special list the same value"),
        ('kind = "category"\nvalues = ["a", "?"]\nmissing = ["?"]', "missing and values list the same value"),
    ],
)
def test_markers_that_contradict_are_refused(entry, expected):
    with pytest.raises(SchemaError, match=f'line .: column "c": .*{expected}'):
        Schema.from_toml(f"[columns.c]\n{entry}\n")


def test_more_markers_for_every_column_that_may_be_missing():
    schema = Schema.from_toml(
        '[columns.a]\nkind = "category"\nvalues = ["NA", "b"]\nmissing = true\n'
        + COLUMNS[COLUMNS.index("[columns.n]") :]
    )
    more = schema.marking(["NA", "?"])
    assert more.column("a").markers == ("?",)  # a listed value stays one
    assert more.column("n").markers == ("?", -9, 99, "NA")


def test_what_a_type_cannot_hold_marks_nothing():
    assert blank_marked_values(pa.array([1, 2], pa.int8()), ("?", 999, 2.5, "x")).to_pylist() == [1, 2]
    assert blank_marked_values(pa.array([True, None]), ("?", 9)).to_pylist() == [True, None]
    assert blank_marked_values(pa.array([3, 4]), ("3.0",)).to_pylist() == [None, 4]


def test_a_report_takes_markers_for_missing(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(typed(), path)
    assert read_coded(path, SCHEMA).table.column("n").to_pylist() == [3, None, None, None]


def test_markers_given_as_a_list_are_as_good_as_any():
    column = Integer("x", (0, 9), missing=True, markers=[-9])
    part = column.part({"x": pa.field("x", pa.int64())}, {"x": column})
    assert column.markers == (-9,) and part.domain.shape == (11,)
