"""CSV without a schema: what the draft says of it is what reading by the draft finds."""

import gzip

import numpy as np
import pyarrow as pa
import pytest

from weft.drafting.draft import csv_text, draft
from weft.encoding import Codec
from weft.errors import DataError, SchemaError, WeftError
from weft.io.dialect import DEFAULT_DIALECT
from weft.io.formats.csv_files import read_csv
from weft.io.table_files import write_table
from weft.io.text_to_types import csv_arrow_schema
from weft.schema import Category, Schema


def written(tmp_path, text):
    path = tmp_path / "rows.csv"
    path.write_text(text, encoding="utf-8")
    return path


def drafted(path):
    """The schema drafted from a file, which the file itself must fit, and its rows read by it."""
    schema = Schema.from_toml(draft(csv_text(path), "rows", DEFAULT_DIALECT))
    table = read_csv(path, schema)
    Codec(schema, table.schema).encode(table)
    return schema, table


def test_a_blank_text_is_missing_in_draft_reading_and_release(tmp_path):
    path = written(tmp_path, 'town,n\nArras,1\n,2\n"",\nGhent,4\n')
    schema, table = drafted(path)
    town = schema.column("town")
    assert (town.values, town.missing, town.from_data) == (("Arras", "Ghent"), True, ("kind", "values", "missing"))
    assert table["town"].to_pylist() == ["Arras", None, None, "Ghent"]
    codec = Codec(schema, table.schema)
    write_table([codec.decode(codec.encode(table), np.random.default_rng(0))], tmp_path / "out.csv")
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[2] == ",2" and lines[3] == ","
    assert read_csv(tmp_path / "out.csv", schema)["town"].to_pylist() == table["town"].to_pylist()


def test_a_schema_that_lists_the_blank_keeps_it_as_a_value(tmp_path):
    path = written(tmp_path, 'town,n\nArras,1\n,2\n"",3\n')
    schema = Schema((Category("town", ("", "Arras")),), extra_columns="ignore")
    assert read_csv(path, schema)["town"].to_pylist() == ["Arras", "", ""]
    codec = Codec(schema, csv_arrow_schema(schema))
    assert codec.encode(read_csv(path, schema)).columns[0].tolist() == [1, 0, 0]


def test_leading_noughts_and_endless_digits_stay_text(tmp_path):
    rows = "".join(f"{n % 7:05d},{n:06d},{n % 3},{10**20 + n % 5},{n % 4}.5\n" for n in range(40))
    schema, table = drafted(written(tmp_path, "postcode,mrn,n,long,x\n" + rows))
    assert [column.kind for column in schema.columns] == ["category", "id", "integer", "category", "real"]
    assert schema.column("postcode").values == tuple(f"{n:05d}" for n in range(7))
    assert schema.column("mrn").pattern == "{:06d}"
    assert table["postcode"][3].as_py() == "00003" and table["mrn"][3].as_py() == "000003"


def test_a_nought_by_itself_is_a_number(tmp_path):
    schema, _ = drafted(written(tmp_path, "n,x\n0,0.5\n10,-0.25\n,\n"))
    assert [column.kind for column in schema.columns] == ["integer", "real"]


def test_words_for_missing_are_listed_as_markers(tmp_path):
    rows = "".join(f"{n % 9},{(1, 500, 9000)[n % 3]},{'true' if n % 2 else 'NULL'},NA,{n % 3}\n" for n in range(40))
    schema, table = drafted(written(tmp_path, "n,codes,flag,none,plain\nNA,N/A,,NA,1\n" + rows))
    n, codes, flag, none, plain = schema.columns
    assert (n.kind, n.outside, n.markers) == ("integer", "refuse", ("NA",))
    assert (flag.kind, flag.markers) == ("boolean", ("NULL",))
    assert codes.values == (1, 500, 9000) and codes.markers == ("N/A",)
    assert none.values == ("NA",)
    assert plain.outside == "refuse"
    assert table["n"][0].as_py() is None


def test_times_of_day_are_recognised_and_packed_files_are_read(tmp_path):
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(b"at,n\n08:30,1\n17:00,2\n"))
    column = drafted(path)[0].column("at")
    assert (column.kind, column.format, column.step) == ("time", "%H:%M", "30min")


@pytest.mark.parametrize(
    ("content", "error", "match"),
    [
        (b"", DataError, "is empty"),
        (b"a,b", DataError, "has no rows.*a draft needs some"),
        (b"a,b\r\n", DataError, "has no rows.*a draft needs some"),
        (b"a,b\n1,2\nS3CRET\n", DataError, "line 3: it has more or fewer fields"),
        (b"a;b\nS3CRET;2\n", DataError, "looks separated by ';'"),
        (b"a,b\n1,S3CRET\xe9\n", DataError, 'column "b": a value is not UTF-8 text.*--encoding'),
        (b"a,caf\xe9\n1,S3CRET\n", DataError, "is not UTF-8 text.*--encoding"),
        (b"a,b,a\n1,2,S3CRET\n", SchemaError, 'column "a": the table has several columns of this name; rename them'),
    ],
)
def test_files_unfit_for_a_draft_are_refused_without_a_value(tmp_path, content, error, match):
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    with pytest.raises(error, match=match) as caught:
        csv_text(path)
    assert "S3CRET" not in str(caught.value)
    assert isinstance(caught.value, WeftError)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_parquet_and_frames_keep_blank_and_missing_apart():
    schema = Schema.from_toml(draft(pa.table({"x": ["", "a", None]}), "rows"))
    assert schema.column("x").values == ("", "a") and schema.column("x").missing
