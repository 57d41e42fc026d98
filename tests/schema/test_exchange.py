"""Dictionaries and metadata of others: read as schemas, written from them, and read again."""

import json
import tomllib

import pytest

from weft.drafting.exchange import EXPORTS, read_metadata
from weft.errors import SchemaError
from weft.schema import Schema

SCHEMA = Schema.from_toml("""
[columns.who]
kind = "id"
[columns.age]
kind = "integer"
range = [0, 120]
missing = true
[columns.cost]
kind = "real"
range = [0.0, 500.0]
decimals = 2
[columns.ward]
kind = "category"
values = ["a|b", "c"]
[columns.came]
kind = "datetime"
range = ["2024-01-01", "2024-12-31"]
[columns.ill]
kind = "boolean"
""")


def imported(tmp_path, name, content, table=None):
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    text, form = read_metadata(path, table)
    return tomllib.loads(text)["columns"], form


def test_sdv(tmp_path):
    columns = {
        "who": {"sdtype": "id", "regex_format": "P[0-9]"},
        "age": {"sdtype": "numerical", "computer_representation": "Int64"},
        "cost": {"sdtype": "numerical", "computer_representation": "Float"},
        "ward": {"sdtype": "categorical"},
        "came": {"sdtype": "datetime", "datetime_format": "%d/%m/%Y"},
        "ill": {"sdtype": "boolean"},
        "phone": {"sdtype": "phone_number", "pii": True},
    }
    kinds = ["id", "integer", "real", "category", "datetime", "boolean", "id"]
    for document in ({"columns": columns}, {"tables": {"stays": {"columns": columns}}}):
        found, form = imported(tmp_path, "sdv.json", document)
        assert form == "SDV metadata" and [entry["kind"] for entry in found.values()] == kinds
        assert found["came"]["format"] == "%d/%m/%Y" and "values" not in found["ward"] and "range" not in found["age"]
    two = {"tables": {"a": {"columns": columns}, "b": {"columns": {"x": {"sdtype": "boolean"}}}}}
    assert list(imported(tmp_path, "two.json", two, "b")[0]) == ["x"]
    with pytest.raises(SchemaError, match="has the tables a, b; name one with --table"):
        imported(tmp_path, "two.json", two)


def test_frictionless_and_csvw_come_back(tmp_path):
    found, form = imported(tmp_path, "f.json", EXPORTS["frictionless"](SCHEMA, "made.csv"))
    assert form == "Frictionless"
    again = Schema.from_dict({"columns": found})
    assert again.column("age").range == (0, 120) and again.column("age").missing
    assert again.column("ward").values == ("a|b", "c") and again.column("who").kind == "id"
    assert again.column("came").range == ("2024-01-01", "2024-12-31") and again.column("ill").kind == "boolean"
    assert again.column("cost").range == (0.0, 500.0) and not again.column("cost").missing
    found, form = imported(tmp_path, "c.json", EXPORTS["csvw"](SCHEMA, "made.csv"))
    assert form == "CSVW" and found["age"] == {"kind": "integer", "range": [0, 120], "missing": True}
    assert found["came"]["range"] == ["2024-01-01", "2024-12-31"] and found["ward"] == {"kind": "unknown"}


def test_frictionless_markers_and_packages(tmp_path):
    fields = [
        {"name": "n", "type": "integer", "constraints": {"minimum": 1}},
        {"name": "c", "type": "string", "constraints": {"enum": ["x", "NA"], "required": True}},
        {"name": "s", "type": "string"},
    ]
    found, _ = imported(tmp_path, "f.json", {"fields": fields, "missingValues": ["", "NA"]})
    assert found["n"] == {"kind": "integer", "missing": ["NA"]}
    assert found["c"] == {"kind": "category", "values": ["x", "NA"]} and found["s"] == {"kind": "unknown"}


def test_croissant_has_a_field_for_each_column():
    made = EXPORTS["croissant"](SCHEMA, "made.csv")
    fields = made["recordSet"][0]["field"]
    assert [field["name"] for field in fields] == [column.name for column in SCHEMA.columns]
    assert [field["dataType"] for field in fields][1:3] == ["sc:Integer", "sc:Float"]
    assert made["distribution"][0]["encodingFormat"] == "text/csv"


def test_a_dictionary(tmp_path):
    text = (
        "Variable,Description,Type,Values,Missing\n"
        "age,age at admission,int,0-120,\n"
        'sex,,category,"1=male; 2=female",9\n'
        "ward,,,north|south,\n"
        "cost,,float,0..500.5,\n"
        "came,,date,2024-01-01 to 2024-12-31,\n"
        "code,,integer,1|2|3,\n"
        "note,,text,,\n"
        "pid,patient,id,,\n"
    )
    found, form = imported(tmp_path, "d.csv", text)
    assert form == "data dictionary"
    assert found == {
        "age": {"kind": "integer", "range": [0, 120]},
        "sex": {"kind": "category", "values": ["1", "2"], "missing": ["9"]},
        "ward": {"kind": "category", "values": ["north", "south"]},
        "cost": {"kind": "real", "range": [0.0, 500.5]},
        "came": {"kind": "datetime", "range": ["2024-01-01", "2024-12-31"]},
        "code": {"kind": "category", "values": [1, 2, 3]},
        "note": {"kind": "unknown"},
        "pid": {"kind": "id"},
    }


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("{", "line 1: not JSON"),
        ('{"a": 1}', "unknown format; expected SDV"),
        ("a,b\n1,2\n", "line 1: expected a header with column"),
        ("column,type\nx,int\nx,int\n", "row 3: the column name is missing or repeated"),
        ('{"fields": []}', "describes no columns"),
    ],
)
def test_what_is_no_metadata_is_refused(tmp_path, content, match):
    with pytest.raises(SchemaError, match=match):
        imported(tmp_path, "x.json", content)
