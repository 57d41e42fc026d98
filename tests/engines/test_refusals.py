"""What cannot be read is refused with the file or column and a remedy, and without a value or a count."""

import gzip
import os

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft.engines import open_engine
from weft.errors import DataError, WeftError
from weft.schema import Schema

SCHEMA = Schema.from_toml("""
[columns.a]
kind = "integer"
range = [0, 9]

[columns.b]
kind = "category"
values = ["u", "v"]
""")
LENIENT = Schema.from_toml("""
[columns.a]
kind = "integer"
range = [0, 9]
missing = true
outside = "clip"

[columns.b]
kind = "category"
values = ["u", "v"]
other = "w"
""")


def table(n=100):
    return pa.table({"a": np.arange(n) % 10, "b": np.array(["u", "v"])[np.arange(n) % 2]})


def refusal(source, schema=SCHEMA, **options):
    with pytest.raises(WeftError) as caught:
        open_engine(source, schema, **options)
    error = caught.value
    assert error.__suppress_context__ or error.__context__ is None
    return str(error)


def test_files_that_are_not_there(tmp_path):
    assert "nowhere.parquet: no such file" in refusal(tmp_path / "nowhere.parquet")
    assert "no such file" in refusal(str(tmp_path / "*.csv"))
    assert "holds no .csv" in refusal(tmp_path)
    assert "no file" in refusal([])


def test_files_of_unknown_or_mixed_kind(tmp_path):
    (tmp_path / "notes.docx").write_text("hello")
    assert "unknown kind of file" in refusal(tmp_path / "notes.docx")
    pq.write_table(table(), tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("a,b\n1,u\n")
    assert "different formats" in refusal([tmp_path / "a.parquet", tmp_path / "b.csv"])
    assert "give a pandas" in refusal(42)


def test_damaged_files(tmp_path):
    (tmp_path / "bad.parquet").write_bytes(b"PAR1secret" * 40)
    message = refusal(tmp_path / "bad.parquet")
    assert "bad.parquet cannot be read" in message
    assert "secret" not in message
    (tmp_path / "bad.csv.gz").write_bytes(b"not gzip at all")
    assert "bad.csv.gz" in refusal(tmp_path / "bad.csv.gz")
    pq.write_table(table(50_000), tmp_path / "cut.parquet")
    whole = (tmp_path / "cut.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[:200] + bytes(2_000) + whole[2_200:])
    assert "cut.parquet" in refusal(tmp_path / "cut.parquet")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
def test_files_without_permission(tmp_path):
    pq.write_table(table(), tmp_path / "locked.parquet")
    (tmp_path / "locked.parquet").chmod(0)
    assert "locked.parquet cannot be read" in refusal(tmp_path / "locked.parquet")


def test_parquet_files_of_two_layouts(tmp_path):
    pq.write_table(table(), tmp_path / "1.parquet")
    pq.write_table(table().select(["b", "a"]), tmp_path / "2.parquet")
    assert "2.parquet has other columns" in refusal(tmp_path)


def test_a_column_of_mixed_types():
    frame = pd.DataFrame({"b": ["u", "v", "u"], "a": [1, "hush", 3.5]})
    message = refusal(frame)
    assert 'column "a"' in message
    assert "cannot be read as int64" in message
    assert "hush" not in message


def test_objects_that_are_no_table():
    assert "several columns of this name" in refusal(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    assert "not a table" in refusal(pl.Series([1, 2]))


def test_text_where_a_number_should_be(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,u\nhush,v\n")
    for kind in ("memory", "stream"):
        message = refusal(tmp_path / "t.csv", engine=kind)
        assert "hush" not in message
        assert "a" in message


@pytest.mark.parametrize("kind", ["memory", "stream"])
def test_a_value_outside_the_schema_is_refused_on_opening(tmp_path, kind):
    bad = pa.concat_tables([table(5_000), pa.table({"a": [77_777], "b": ["u"]})])
    pq.write_table(bad, tmp_path / "bad.parquet", row_group_size=500)
    message = refusal(tmp_path / "bad.parquet", engine=kind, batch_rows=100)
    assert "77777" not in message.replace(",", "")
    assert "5001" not in message.replace(",", "")
    assert '"a"' in message or "'a'" in message


def test_lenient_schemas_are_not_read_twice(tmp_path):
    pq.write_table(pa.concat_tables([table(), pa.table({"a": [77], "b": ["z"]})]), tmp_path / "t.parquet")
    events = []
    engine = open_engine(tmp_path / "t.parquet", LENIENT, engine="stream", listener=events.append).engine
    assert not events
    assert engine.count([("a", "b")])[0].sum() == 101


@pytest.mark.parametrize("packed", [False, True])
def test_a_malformed_line_is_refused_on_opening_even_by_lenient_schemas(tmp_path, packed):
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    text = b"a,b\n" + b"1,u\n" * 50 + b"1,hush,9\n" + b"2,v\n"
    path.write_bytes(gzip.compress(text) if packed else text)
    for kind in ("memory", "stream"):
        message = refusal(path, LENIENT, engine=kind)
        assert "more or fewer fields" in message
        assert "hush" not in message
    address = "duckdb:SELECT CAST(a AS INT) AS a, 'u' AS b FROM (VALUES ('1'), ('hush')) t(a)"
    assert "could not finish" in refusal(address, LENIENT, engine="stream")


@pytest.mark.parametrize("text", [b"a,b", b"a,b\n", b"a,b\r\n", b'\xef\xbb\xbf"a",b'])
@pytest.mark.parametrize("kind", ["memory", "stream"])
def test_a_csv_with_nothing_but_a_header_is_a_table_without_rows(tmp_path, kind, text):
    (tmp_path / "t.csv").write_bytes(text)
    for schema in (SCHEMA, LENIENT):
        assert open_engine(tmp_path / "t.csv", schema, engine=kind).engine.count([()])[0] == 0
    (tmp_path / "u.csv").write_bytes(b"a,c")
    assert "no such column" in refusal(tmp_path / "u.csv", engine=kind)


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_a_file_that_changes_or_goes_between_passes(tmp_path, name):
    path = tmp_path / name
    if name == "t.csv":
        path.write_text("a,b\n1,u\n")
    else:
        pq.write_table(table(), path)
    engine = open_engine(path, SCHEMA, engine="stream").engine
    engine.count([("a",)])
    os.utime(path, ns=(1, 1))
    with pytest.raises(DataError, match="has changed since it was opened"):
        engine.count([("a",)])
    path.unlink()
    with pytest.raises(DataError, match="no such file"):
        engine.count([("a",)])


def test_duckdb_refusals(tmp_path):
    with duckdb.connect(tmp_path / "x.db") as connection:
        connection.sql("CREATE TABLE t AS SELECT 'hush' AS a, 'u' AS b")
    db = f"duckdb:{tmp_path}/x.db"
    assert "add ?table=NAME" in refusal(db)
    assert "check its name" in refusal(f"{db}?table=nothing")
    assert "check the path" in refusal(f"duckdb:{tmp_path}/nowhere.db?table=t")
    assert "does not understand" in refusal(f"{db}?query=SELECT FROM WHERE")
    assert "check the path" in refusal(f"duckdb:SELECT * FROM '{tmp_path}/none.parquet'")
    message = refusal(f"{db}?query=SELECT CAST(a AS INT) AS a, b FROM t")
    assert "hush" not in message
    assert not list(tmp_path.glob("nowhere*"))


@pytest.mark.parametrize("other", ["1", "3.0"])
def test_how_one_number_is_written_does_not_decide_how_another_is_read(tmp_path, other):
    """Arrow reads 0x1 as a number where every value of a block is written in a way that it knows."""
    (tmp_path / "t.csv").write_text(f"a,b\n{other},u\n0x1,v\n")
    assert "cannot be read" in refusal(tmp_path / "t.csv")
