"""The dialect of CSV: what leaves it is refused at its line, and no row decides how another is read."""

import gzip
import io
from itertools import product

import pyarrow as pa
import pytest

from weft.errors import DataError
from weft.io.csv_scan import MAX_LINE_LENGTH, Checked
from weft.io.formats.csv_files import read_csv
from weft.schema import Category, Integer, Schema

COLUMNS = (Integer("a", (0, 9), missing=True, outside="clip"), Category("b", ("u", "v"), other="w", outside="other"))


def read(tmp_path, content, *columns, packed=False):
    path = tmp_path / ("rows.csv.gz" if packed else "rows.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    return read_csv(path, Schema(columns or COLUMNS))


@pytest.mark.parametrize(
    ("content", "line", "match"),
    [
        (b'a,b\n1,u\n1,"S3CRET\n2,u\n', 3, "line break"),
        (b'a,b\n1,u\n1,"S3CRET', 3, "left open at the end"),
        (b'a,b\n1,u\n1,S3CRET"\n', 3, "inside a field"),
        (b'a,b\r\n1,"S3"CRET\r\n', 2, "follows a closing quote"),
        (b"a,b\n1,u\nS3CRET\n", 3, "more or fewer fields"),
        (b"a,b\r\n1,u\r\n1,S3CRET,3\r\n", 3, "more or fewer fields"),
        (b"a,b\n\n\n1,u\n1", 5, "more or fewer fields"),
        (b"a,b\n1,S3CRET\r2,u\n", 2, "carriage return"),
        (b"a,b\n1,S3CRET\r", 2, "carriage return"),
        (b"a,b\n1,u\n1," + b"x" * MAX_LINE_LENGTH + b"\n", 3, "longer than 1 MiB"),
        (b"a,b\n1,\xe9\n1\n", 3, "more or fewer fields"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_what_leaves_the_dialect_is_told_with_its_line(tmp_path, content, line, match, packed):
    with pytest.raises(DataError, match=f"line {line}: .*{match}") as caught:
        read(tmp_path, content, Integer("a", (0, 9)), COLUMNS[1], packed=packed)
    assert "S3CRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "values"),
    [
        (b'\xef\xbb\xbfa,b\n1,"u"\n', ["u"]),
        (b"a,b\r\n\r\n1,u\r\n2,v", ["u", "v"]),
        (b'a,b\n1,"x""y"\n', ['x"y']),
        (b'a,b\n1,"x,y"\n', ["x,y"]),
        (b'a,b\n1,""\n1,\n', ["", ""]),
        (b"a,b\n1,x\xe2\x80\xa8y\n", ["x\u2028y"]),
        (b"a,b\n1," + b"x" * (MAX_LINE_LENGTH - 4) + b"\n", ["x" * (MAX_LINE_LENGTH - 4)]),
    ],
)
def test_what_keeps_to_it_is_read(tmp_path, content, values):
    assert read(tmp_path, content)["b"].to_pylist() == values


def test_line_breaks_are_taken_where_the_schema_lists_one_and_nowhere_else(tmp_path):
    listed = Category("b", ("u", "v\nw", "v\r\nw"), other="x", outside="other")
    made = read(tmp_path, b'a,b\n1,"v\nw"\n2,"v\r\nw"\n3,q\n', COLUMNS[0], listed)
    assert made["b"].to_pylist() == ["v\nw", "v\r\nw", "q"]
    with pytest.raises(DataError, match='column "b": a value holds a line break'):
        read(tmp_path, b'a,b\n1,"S3\nCRET"\n', COLUMNS[0], listed)
    with pytest.raises(DataError, match="line 2"):
        read(tmp_path, b'a,b\n"1\n",u\n', COLUMNS[0], listed)


def test_names_of_columns_may_be_broken_and_lines_are_counted_on(tmp_path):
    columns = (Integer("a\nx", (0, 9)), COLUMNS[1])
    assert read(tmp_path, b'"a\nx",b\n1,u\n', *columns)["b"].to_pylist() == ["u"]
    with pytest.raises(DataError, match=r"line 3: .*line break"):
        read(tmp_path, b'"a\nx",b\n1,"S3CRET\n"\n', *columns)


def records_of(text):
    """Split a text into records as the rules say, in plain Python; None where they are broken."""
    records, fields, field, quoted, closed = [], [], "", False, False
    at = 0
    while at <= len(text):
        sign = text[at] if at < len(text) else "end"
        if quoted and sign != "end":
            if sign == '"' and text[at + 1 : at + 2] == '"':
                field, at = field + '"', at + 1
            elif sign == '"':
                quoted, closed = False, True
            elif sign == "\n":
                return None
            else:
                field += sign
        elif sign == "end" or sign == "\n":
            if quoted:
                return None
            if fields or field or closed:
                records.append([*fields, field])
            fields, field, closed = [], "", False
        elif sign == ",":
            fields, field, closed = [*fields, field], "", False
        elif sign == '"':
            if field or closed:
                return None
            quoted = True
        else:
            if closed:
                return None
            field += sign
        at += 1
    return records if all(len(record) == 2 for record in records) else None


def test_the_scan_agrees_with_a_plain_reading_of_every_short_text(tmp_path):
    """All texts of up to six signs, fed in blocks of every size: accepted or refused as the rules say."""
    for length in range(7):
        for signs in product(',"\nx', repeat=length):
            text = "".join(signs)
            for size in (1, 3):
                stream = Checked(io.BytesIO(("a,b\n" + text).encode()), "rows.csv", [False, False])
                try:
                    read = b"".join(stream.records(size)).decode()
                    assert read.strip("\n") == text.strip("\n")
                    accepted = True
                except DataError:
                    accepted = False
                assert accepted == (records_of(text) is not None), repr(text)


@pytest.mark.parametrize("row", [b'1,"p1000', b'1,"', b'"', b'1,""",u', b'1,u"', b'"1,u', b'1,"u""'])
@pytest.mark.parametrize("place", [0, 1, 500, 1000])
@pytest.mark.parametrize("others", [b"1,u", b'1,"u"', b'"1","v"'])
def test_a_row_with_a_quote_too_many_swallows_nobody(tmp_path, row, place, others):
    """One row `a,"p1000` in front of 1,000 rows once left one row to be counted."""
    rows = [others] * 1000
    rows.insert(place, row)
    with pytest.raises(DataError, match="line"):
        read(tmp_path, b"a,b\n" + b"\n".join(rows) + b"\n")


def test_arrow_reads_the_same_records(tmp_path):
    texts = ["".join(signs) for signs in product(',"x', repeat=5)]
    good = [(text, records_of(text)) for text in texts if records_of(text)]
    assert len(good) > 20
    content = "a,b\n" + "\n".join(text for text, _ in good)
    columns = (Category("a", ("x",), other="y", outside="other"), Category("b", ("x",), other="y", outside="other"))
    made = read(tmp_path, content.encode(), *columns)
    assert isinstance(made, pa.Table)
    assert [list(row.values()) for row in made.to_pylist()] == [record for _, found in good for record in found]
