"""CSV: types from the schema, missing values where they belong, and messages that quote nothing."""

import datetime as dt
import gzip
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from weft.encoding import Codec
from weft.errors import DataError, SchemaError
from weft.io.byte_stream import open_text_stream
from weft.io.dialect import DEFAULT_DIALECT
from weft.io.formats.csv_files import csv_batches, csv_names, read_csv
from weft.io.text_to_types import csv_arrow_schema
from weft.schema import Boolean, Category, Datetime, Id, Integer, Real, Schema


def table(tmp_path, text, *columns, **facts):
    path = tmp_path / "rows.csv"
    path.write_text(text)
    return read_csv(path, Schema(columns, **facts))


def column(tmp_path, values, made):
    quoted = "".join('"' + value.replace('"', '""') + '",\n' for value in values)
    return table(tmp_path, f"{made.name},rest\n{quoted}", made, extra_columns="ignore").column(0)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (Category("x", ("1", "2")), pa.string()),
        (Category("x", (1, 2)), pa.int64()),
        (Category("x", (2**63,)), pa.uint64()),
        (Category("x", (1.5,)), pa.float64()),
        (Category("x", (True,)), pa.bool_()),
        (Integer("x", (0, 9)), pa.int64()),
        (Integer("x", (0, 2**63)), pa.uint64()),
        (Integer("x", (0, 9), type="int8"), pa.int8()),
        (Real("x", (0, 9)), pa.float64()),
        (Real("x", (0, 9), type="decimal128(10, 2)"), pa.decimal128(10, 2)),
        (Datetime("x", ("2013-01-01", "2013-01-02")), pa.date32()),
        (Datetime("x", ("2013-01-01", "2013-01-02"), step="1h"), pa.timestamp("s")),
        (Datetime("x", ("2013-01-01", "2013-01-02"), step="1ms", timezone="UTC"), pa.timestamp("ms", "UTC")),
        (Datetime("x", ("2013-01-01", "2013-01-02"), date=False), pa.timestamp("s")),
        (Datetime("x", ("2013-01-01", "2013-01-02"), format="%d.%m.%Y"), pa.string()),
        (
            Datetime("x", ("2013-01-01", "2013-01-02"), type="timestamp[us, tz=Asia/Tokyo]"),
            pa.timestamp("us", "Asia/Tokyo"),
        ),
        (Boolean("x"), pa.bool_()),
        (Id("x"), pa.string()),
        (Id("x", type="int64"), pa.int64()),
    ],
)
def test_types_come_from_the_schema(made, expected):
    schema = Schema((made,))
    assert csv_arrow_schema(schema).field("x").type == expected
    assert Codec(Schema((made, Boolean("y"))), csv_arrow_schema(Schema((made, Boolean("y"))))).arrow_schema is not None


def test_an_unknown_type_is_refused():
    with pytest.raises(SchemaError, match='column "x": unknown type "int33"'):
        csv_arrow_schema(Schema((Integer("x", (0, 9), type="int33"),)))


def test_digits_stay_text_and_empty_text_is_missing_only_where_that_is_allowed(tmp_path):
    text = 'code,note,n\n007,,1\n008,"",\n'
    read = table(
        tmp_path,
        text,
        Category("code", ("007", "008")),
        Category("note", ("", "x")),
        Integer("n", (0, 9), missing=True),
    )
    assert read.to_pydict() == {"code": ["007", "008"], "note": ["", ""], "n": [1, None]}
    read = table(tmp_path, text, Category("note", ("x",), missing=True), extra_columns="ignore")
    assert read.to_pydict() == {"note": [None, None]}


def test_the_files_column_order_is_kept(tmp_path):
    columns = (Boolean("a"), Boolean("b"))
    read = table(tmp_path, "b,a\ntrue,0\n", *columns)
    assert read.column_names == ["b", "a"] and read.to_pylist() == [{"b": True, "a": False}]
    assert csv_arrow_schema(Schema(columns), ["b", "a"]).names == ["b", "a"]
    packed = tmp_path / "rows.csv.gz"
    packed.write_bytes(gzip.compress(b'\xef\xbb\xbfb,"a"\n1,0\n'))
    assert csv_names(packed) == ["b", "a"]
    assert read_csv(packed, Schema(columns)).to_pylist() == [{"b": True, "a": False}]


@pytest.mark.parametrize(
    ("made", "values", "expected"),
    [
        (Integer("x", (0, 9), missing=True, outside="clip"), ["7", "x", "", "3.0", "2.5"], [7, None, None, 3, 2]),
        (Integer("x", (0, 9), missing=True, outside="clip", type="int8"), ["300", "-1e9"], [127, -128]),
        (
            Real("x", (0, 9), missing=True, outside="clip"),
            ["7.5", "x", "", "inf", "nan"],
            [7.5, None, None, math.inf, None],
        ),
        (
            Real("x", (0, 9), missing=True, outside="clip", type="decimal128(6, 2)"),
            ["7.255", "x", "1e99"],
            [Decimal("7.26"), None, Decimal("9999.99")],
        ),
        *(
            (
                Real("x", (0, 9), missing=True, outside="clip", type=f"decimal128({digits}, 2)"),
                ["1e18", "-1e40", "inf", "1.5"],
                [top, -top, top, Decimal("1.50")],
            )
            for digits, top in ((16, Decimal("99999999999999.99")), (18, Decimal("9999999999999999.99")))
        ),
        (Boolean("x", missing=True, outside="clip"), ["True", "0", "x", ""], [True, False, None, None]),
        (Category("x", (1, 2), other=2, outside="other"), ["1", "x", "", "1.5"], [1, None, None, None]),
        (Category("x", ("a",), other="z", outside="other"), ["a", "q", ""], ["a", "q", ""]),
        (
            Datetime("x", ("2013-01-01", "2013-12-31"), missing=True, outside="clip"),
            ["2013-02-01", "2013-02-01 10:00:00", "1066-10-14", "soon", "", "2013-02-30", "2013-02-29 10:00:00"],
            [dt.date(2013, 2, 1), dt.date(2013, 2, 1), dt.date(1066, 10, 14), None, None, None, None],
        ),
        (
            Datetime("x", ("2013-01-01", "2013-12-31"), step="1us", missing=True, outside="clip"),
            ["2013-02-01T10:00:00.25Z", "2013-02-01 10:00:00.000001", "2013-02-01", "2013-02-01 10:00:00.", "x.5"],
            [
                dt.datetime(2013, 2, 1, 10, 0, 0, 250000),
                dt.datetime(2013, 2, 1, 10, 0, 0, 1),
                dt.datetime(2013, 2, 1),
                None,
                None,
            ],
        ),
        (
            Datetime("x", ("2013-01-01", "2013-12-31"), format="%d/%m/%Y", type="date32", missing=True),
            ["01/02/2013", ""],
            [dt.date(2013, 2, 1), None],
        ),
    ],
)
def test_clip_and_other_columns_never_fail(tmp_path, made, values, expected):
    read = column(tmp_path, values, made)
    assert read.to_pylist() == expected
    schema = Schema((made,))
    codec = Codec(schema, csv_arrow_schema(schema))
    records = codec.encode(pa.table({"x": read}))
    assert len(records) == len(values)
    assert codec.decode(records, np.random.default_rng(0)).schema.field("x").type == read.type


@pytest.mark.parametrize(
    ("text", "error", "match"),
    [
        ("n,d\nS3CRET,01/02/2013\n", DataError, 'column "n": a value cannot be read as int64.*float64.*clip'),
        ("n,d\n1,S3CRET\n", DataError, 'column "d": a value cannot be read as date32'),
        ("n,d\n1,01/02/2013\nS3CRET\n", DataError, "more or fewer fields"),
        ("", DataError, "is empty"),
        ("n\n1\n", SchemaError, 'column "d": the table has no such column'),
        ("n,d,e\n1,01/02/2013,S3CRET\n", SchemaError, 'does not describe "e"'),
        ("n,d\n\xff,01/02/2013\n", DataError, "cannot be read as int64"),
        ("n,d\n1,30/02/2013\n", DataError, 'column "d": a value cannot be read as date32'),
        ("n,d\n1,\xff\n", DataError, 'column "d": a value cannot be read as date32'),
        ("n", SchemaError, 'column "d": the table has no such column'),
    ],
)
def test_refusals_quote_neither_value_nor_row(tmp_path, text, error, match):
    path = tmp_path / "rows.csv"
    path.write_bytes(text.encode("latin-1"))
    columns = (Integer("n", (0, 9)), Datetime("d", ("2013-01-01", "2013-12-31"), format="%d/%m/%Y", type="date32"))
    with pytest.raises(error, match=match) as caught:
        read_csv(path, Schema(columns))
    assert "S3CRET" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_missing_column_is_named_when_others_are_ignored(tmp_path):
    with pytest.raises(SchemaError, match=r'rows.csv: column "m": the table has no such column'):
        table(tmp_path, "n\n1\n", Integer("n", (0, 9)), Integer("m", (0, 9)), extra_columns="ignore")
    with pytest.raises(DataError, match="no such file"):
        read_csv(tmp_path / "none.csv", Schema((Boolean("x"),)))


def test_bad_text_is_refused_or_missing(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"w\n\xff\xfe\n")
    schema = Schema((Category("w", ("a",)),))
    with pytest.raises(DataError, match='column "w": a value is not UTF-8'):
        read_csv(path, schema)
    assert read_csv(path, Schema((Category("w", ("a",), other="z", outside="other"),))).num_rows == 1
    for made in (Integer("w", (0, 9), missing=True, outside="clip"), Boolean("w", missing=True, outside="clip")):
        assert read_csv(path, Schema((made,)))["w"].null_count == 1


@pytest.mark.parametrize("text", ["n", "n\n", '"n"', "n\r\n"])
def test_a_header_alone_is_a_table_without_rows(tmp_path, text):
    read = table(tmp_path, text, Integer("n", (0, 9)))
    assert read.num_rows == 0 and read.schema == pa.schema([("n", pa.int64())])


def test_a_header_that_cannot_be_read_chains_nothing(tmp_path):
    (tmp_path / "rows.csv.gz").write_bytes(b"S3CRET")
    for path in (tmp_path / "rows.csv.gz", tmp_path / "none.csv"):
        with pytest.raises(DataError, match=r"cannot be read|no such file") as caught:
            csv_names(path)
        assert caught.value.__cause__ is None and caught.value.__suppress_context__
        assert "S3CRET" not in str(caught.value)


def test_batches_can_be_streamed(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("n,s\n" + "5,a\n" * 1_200_000)
    schema = Schema((Integer("n", (0, 9)), Category("s", ("a",))))
    codec = Codec(schema, csv_arrow_schema(schema))
    with open_text_stream(path, DEFAULT_DIALECT) as stream:
        sizes = [len(codec.encode(batch)) for batch in csv_batches(stream, schema)]
    assert sum(sizes) == 1_200_000 and len(sizes) > 1


def test_an_odd_row_does_not_send_decimals_another_way(tmp_path):
    schema = Schema((Real("x", (0, 1e17), type="decimal128(20, 2)"), Integer("n", (0, 9))))
    path = tmp_path / "rows.csv"
    for odd in ("", "1,3.0\n"):
        path.write_text(f"x,n\n12345678901234567.89,1\n{odd}")
        assert str(read_csv(path, schema)["x"][0]) == "12345678901234567.89"
