"""What is wrong with a CSV file is found, told with its line and a remedy, and never quoted."""

import pytest

from weft.errors import DataError, SchemaError
from weft.io.file_faults import explain_csv_errors, header_fault


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


def test_files_that_cannot_be_opened_have_no_fault_of_their_own(tmp_path):
    assert header_fault(tmp_path / "none.csv") is None
    assert told(header_fault, tmp_path / "bad.csv.gz", b"no gzip") == ""


def test_only_a_failure_that_the_file_explains_is_replaced(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a,b\n1,2\n")
    for kind in (SchemaError, DataError):
        with pytest.raises(kind, match="as it was"), explain_csv_errors(path):
            raise kind("as it was")
    path.write_bytes(b"a;b\n1;2\n")
    for kind in (SchemaError, DataError):
        with pytest.raises(DataError, match="separated by") as caught, explain_csv_errors(path):
            raise kind("as it was")
        assert caught.value.__suppress_context__
