"""What is wrong with a CSV file is found, told with its line and a remedy, and never quoted."""

import gzip

import pytest

from weft.errors import DataError, SchemaError
from weft.schema.faults import explained, header_fault, line_fault


def told(find, path, content):
    path.write_bytes(content)
    fault = find(path)
    text = str(fault or path)
    assert fault is None or isinstance(fault, DataError)
    assert str(path) in text and "S3CRET" not in text.replace(str(path), "")
    return str(fault or "")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "is empty"),
        (b"\n \r\n", "is empty"),
        (b"\nS3CRET,b\n", "first line is blank"),
        (b"S3CRET;b\n1;2\n", "separated by ';'"),
        (b"sep=;\nS3CRET;b\n", "separated by ';'"),
        (b"S3CRET\tb\n", "separated by tabs"),
        (b"S3CRET|b\n", "separated by '|'"),
        (b"S3CRET\xe9,b\n", "is not UTF-8"),
        ("S3CRET,b\n".encode("utf-16"), "is not UTF-8"),
        ("S3CRET,b\n".encode("utf-16-le"), "is not UTF-8"),
        (b"a,b\n", ""),
        (b"a\n", ""),
        (b'"a;b"\n', ""),
        (b"a;b,c\n", ""),
        (b"\xef\xbb\xbfa,caf\xc3\xa9\n", ""),
    ],
)
def test_first_lines(tmp_path, content, match):
    fault = told(header_fault, tmp_path / "rows.csv", content)
    assert match in fault and bool(match) == bool(fault)


def test_a_first_line_beyond_what_is_looked_at(tmp_path):
    assert told(header_fault, tmp_path / "rows.csv", b"a," + "é".encode() * 2**20 + b"\n") == ""


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"a,b\n1,2\nS3CRET\n", 3),
        (b"a,b\r\n1,2\r\n1,S3CRET,3\r\n", 3),
        (b'a,b\n"1\n1",2\n\n"S3CRET\nx"\n', 5),
        (b"a,b\n1,\xe9\n1\n", 3),
        (b'a,b\n1,"S3CRET\n2,3\n', None),
        (b"a,b\n1,x\xe2\x80\xa8y\n", None),
        (b"a,b\n\n1,2\n\n", None),
        (b"", None),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_lines_with_other_fields(tmp_path, content, line, packed):
    path = tmp_path / ("rows.csv.gz" if packed else "rows.csv")
    fault = told(line_fault, path, gzip.compress(content) if packed else content)
    assert fault == "" if line is None else f"line {line}: it has more or fewer fields" in fault


def test_files_that_cannot_be_opened_have_no_fault_of_their_own(tmp_path):
    for find in (header_fault, line_fault):
        assert find(tmp_path / "none.csv") is None
        assert told(find, tmp_path / "bad.csv.gz", b"no gzip") == ""


def test_only_a_failure_that_the_file_explains_is_replaced(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a,b\n1,2\n")
    for kind in (SchemaError, DataError):
        with pytest.raises(kind, match="as it was"), explained(path):
            raise kind("as it was")
    path.write_bytes(b"a;b\n1;2\n")
    for kind in (SchemaError, DataError):
        with pytest.raises(DataError, match="separated by") as caught, explained(path):
            raise kind("as it was")
        assert caught.value.__suppress_context__
    path.write_bytes(b"a,b\n1\n")
    with pytest.raises(SchemaError, match="as it was"), explained(path):
        raise SchemaError("as it was")  # names that do not fit are not for want of a field
    with pytest.raises(DataError, match="line 2"), explained(path):
        raise DataError("as it was")
