"""Schemas of several tables: reading, writing, and errors with place and remedy before anything is read."""

import pytest

from weft.errors import SchemaError
from weft.schema.database import Database, is_database_document

HOSPITAL = """
root = "patients"

[tables.patients]
source = "patients.csv"
key = "id"

[tables.patients.columns.sex]
kind = "category"
values = ["f", "m"]

[tables.patients.columns.stays]
kind = "integer"
range = [0, 5]

[tables.stays]
key = "stay"
foreign_keys = {patient = "patients.id", ward = "wards.code"}
max_children = 5
time = "admitted"

[tables.stays.columns.admitted]
kind = "datetime"
range = ["2020-01-01", "2024-12-31"]
format = "%Y-%m-%d"

[tables.stays.columns.kind]
kind = "category"
values = ["first", "later"]

[tables.drugs]
foreign_keys = ["drugs.stay -> stays.stay"]
max_children = 3

[tables.drugs.columns.dose]
kind = "integer"
range = [1, 9]

[[tables.drugs.rules]]
forbid = {dose = 7}

[tables.wards]
key = "code"
public = true

[tables.wards.columns.floor]
kind = "integer"
range = [0, 9]

[[family_rules]]
at_most_one = "stays"
where = {kind = "first"}

[[family_rules]]
count = "stays"
column = "stays"
max = 5
"""


def test_a_schema_of_several_tables_is_read_and_written_back():
    schema = Database.from_toml(HOSPITAL)
    assert [table.name for table in schema.private] == ["patients", "stays", "drugs"]
    assert [table.name for table in schema.public] == ["wards"]
    assert schema.unit == "patients.id"
    assert schema.rows_per_unit == 1 + 5 + 15
    assert schema.table("drugs").parent == "stays"
    assert schema.table("stays").schema.column("patient").kind == "id"  # keys need no description
    assert list(schema.defined("patients")) == ["stays"]
    assert Database.from_toml(schema.to_toml()) == schema
    assert Database.from_dict(schema.to_dict()) == schema


def test_one_table_is_a_database_of_one_table():
    schema = Database.from_toml('[tables.t]\nkey = "id"\ncolumns.a = {kind = "boolean"}\n')
    assert (schema.root, schema.rows_per_unit, schema.rules) == ("t", 1, ())


WRONG = {
    "missing table": ('"patients.id", ward', '"patient.id", ward', 'no table "patient".*Did you mean'),
    "missing column": ('patient = "patients.id"', 'patient = "patients.nr"', '"nr" is not the key of "patients"'),
    "bound of zero": ("max_children = 5", "max_children = 0", "max_children must be a whole number from 1"),
    "bound not whole": ("max_children = 5", "max_children = 2.5", "max_children must be a whole number"),
    "composite key": ('key = "stay"', 'key = ["patient", "stay"]', "composite keys are not supported"),
    "no key at the root": ('key = "id"\n', "", '"id" is not the key of "patients"'),
    "unknown root": ('root = "patients"', 'root = "patiens"', 'root must name a table. Did you mean "patients"'),
    "two roots": ('foreign_keys = ["drugs.stay -> stays.stay"]\nmax_children = 3', "", "two roots"),
    "public root": ('source = "patients.csv"', "public = true", "cannot refer to a private|the root cannot be public"),
    "cycle": ('key = "id"', 'key = "id"\nforeign_keys = {stay = "stays.stay"}', "root cannot refer to"),
    "unit in a table": ('key = "id"', 'key = "id"\nunit = "id"', "The key of the root identifies the privacy unit"),
    "key that is no id": ('key = "id"', 'key = "sex"', '"sex" is a key and must be of kind "id"|is not the key'),
    "unknown time": ('time = "admitted"', 'time = "admited"', "not a modelled column"),
    "unknown role": ('where = {kind = "first"}', 'where = {kind = "frist"}', "family rule 1"),
    "rule without where": ('where = {kind = "first"}', "", "needs conditions"),
    "rule on a root": ('at_most_one = "stays"', 'at_most_one = "patients"', "is no child table"),
    "rule on no column": ('column = "stays"', 'column = "nothing"', "needs a column of the parent table"),
    "unknown rule": ('count = "stays"', 'cuont = "stays"', "expected exactly one of"),
    "two parents": (
        'foreign_keys = ["drugs.stay -> stays.stay"]',
        'foreign_keys = {stay = "stays.stay", patient = "patients.id"}',
        "several private parents",
    ),
    "roles on two columns": (
        'where = {kind = "first"}',
        'where = {kind = "first"}\n[[family_rules]]\nexactly_one = "stays"\nwhere = {admitted = "2020-01-01"}',
        "must be values of one column",
    ),
    "more roles than rows": (
        'at_most_one = "stays"',
        'exactly_one = "drugs"\nwhere = {dose = 1}\n'
        + "".join(f'[[family_rules]]\nexactly_one = "drugs"\nwhere = {{dose = {i}}}\n' for i in (2, 3, 4))
        + '[[family_rules]]\nat_most_one = "stays"',
        "more such roles than max_children",
    ),
    "unknown key": ("max_children = 3", "max_childs = 3", 'unknown key "max_childs". Did you mean "max_children"'),
    "bound without link": ('key = "code"', 'key = "code"\nmax_children = 2', "no effect without foreign_keys"),
    "not TOML": ("[tables.wards]", "[tables.wards", "not TOML"),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_invalid_schema_names_the_place_and_the_remedy(case):
    old, new, told = WRONG[case]
    assert old in HOSPITAL
    with pytest.raises(SchemaError, match=told) as error:
        Database.from_toml(HOSPITAL.replace(old, new), "db.toml")
    assert str(error.value).startswith("db.toml")


def test_a_cycle_of_private_tables_is_refused():
    cycle = """
    [tables.a]
    key = "id"
    foreign_keys = {b = "b.id"}
    columns.x = {kind = "boolean"}
    [tables.b]
    key = "id"
    foreign_keys = {a = "a.id"}
    columns.x = {kind = "boolean"}
    """
    with pytest.raises(SchemaError, match="cycle"):
        Database.from_toml(cycle)
    below = cycle + '[tables.r]\nkey = "id"\ncolumns.x = {kind = "boolean"}\n'
    with pytest.raises(SchemaError, match="part of a cycle"):
        Database.from_toml('root = "r"\n' + below)


def test_a_schema_file_of_several_tables_is_recognised(tmp_path):
    one, several = tmp_path / "one.toml", tmp_path / "several.toml"
    one.write_text('[columns.a]\nkind = "boolean"\n')
    several.write_text(HOSPITAL)
    assert not is_database_document(one)
    assert is_database_document(several)
    assert Database.load(several) == Database.from_toml(HOSPITAL)
