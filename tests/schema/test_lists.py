"""Lists that columns share: in the schema, in files beside it, and in the columns themselves once they are read."""

import pytest

from weft.errors import SchemaError
from weft.schema import Schema

COLUMNS = '[columns.a]\nkind = "category"\nvalues = "codes"\n\n[columns.b]\nkind = "category"\nvalues = "codes"\n'


@pytest.mark.parametrize(
    ("line", "file", "content"),
    [
        ('codes = ["x", "y"]', None, ""),
        ('codes = "codes.txt"', "codes.txt", "x\r\ny\n\n"),
        ('codes = "codes.csv"', "codes.csv", 'code,label\nx,"one, two"\ny,\nx,again\n'),
        ('codes = {file = "all.csv", column = "code"}', "all.csv", "n,code\n1,x\n2,y\n"),
    ],
)
def test_lists_are_read_with_the_schema_and_kept_as_values(tmp_path, line, file, content):
    if file:
        (tmp_path / file).write_bytes(content.encode())
    path = tmp_path / "s.toml"
    path.write_text(f"[lists]\n{line}\n\n{COLUMNS}")
    schema = Schema.load(path)
    assert schema.column("a").values == schema.column("b").values == ("x", "y")
    assert Schema.from_dict(schema.to_dict()) == schema


def test_whole_numbers_of_a_file_are_such_where_the_type_says_so(tmp_path):
    (tmp_path / "n.txt").write_text("1\n20\n")
    (tmp_path / "s.toml").write_text(
        '[lists]\nn = "n.txt"\n[columns.a]\nkind = "category"\nvalues = "n"\ntype = "int64"\n'
    )
    assert Schema.load(tmp_path / "s.toml").column("a").values == (1, 20)


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ('code = ["x"]', 'line 6: column "a": values names the list "codes".*Did you mean "code"'),
        ('codes = "gone.txt"', 'line 3: list "codes" names the file "gone.txt", which cannot be read'),
        ('codes = "empty.txt"', 'line 3: list "codes" names the file "empty.txt", which contains no value'),
        (
            'codes = {file = "t.csv", column = "cod"}',
            'line 3: list "codes" names the column "cod".*Did you mean "code"',
        ),
        ('codes = {file = "bad.csv"}', "line 3: .*whose rows 1 and 3 differ in length"),
        ("codes = 3", 'line 3: list "codes" must be values'),
    ],
)
def test_faults_name_file_and_line(tmp_path, line, match):
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "t.csv").write_text("code\nx\n")
    (tmp_path / "bad.csv").write_text("code,n\nx,1\ny\n")
    path = tmp_path / "s.toml"
    path.write_text(f"\n[lists]\n{line}\n[columns.a]\nkind = 'category'\nvalues = 'codes'\n")
    with pytest.raises(SchemaError, match=match) as caught:
        Schema.load(path)
    assert str(path) in str(caught.value)


def test_a_model_names_no_file():
    with pytest.raises(SchemaError, match="must contain the values themselves"):
        Schema.from_dict({"lists": {"codes": "codes.txt"}, "columns": {"a": {"kind": "category", "values": "codes"}}})
