"""Rules are read, checked and written back; what is wrong with one is said at its line, with a remedy."""

from __future__ import annotations

import json
import re

import pytest

from weft import Schema
from weft.errors import SchemaError
from weft.schema.rules import RULES, Allowed, Condition, Mapped, Ordered, RuleError

from .rules import SCHEMA

COLUMNS = """
[columns.a]
kind = "category"
values = ["x", "y"]

[columns.b]
kind = "category"
values = ["x", "y", "z"]
missing = true

[columns.n]
kind = "integer"
range = [0, 9]

[columns.m]
kind = "integer"
range = [10, 19]

[columns.d]
kind = "datetime"
range = ["2020-01-01", "2020-12-31"]

[columns.r]
kind = "real"
range = [0.0, 1.0]

[columns.key]
kind = "id"
"""
FIRST = COLUMNS.count("\n") + 1  # line of the header of the first rule


def schema_of(*rules: str) -> Schema:
    return Schema.from_toml(COLUMNS + "".join(f"[[rules]]\n{rule}\n" for rule in rules), "table.toml")


def test_each_sort_of_rule_comes_back_from_toml_and_from_json():
    schema = Schema.from_toml(SCHEMA)
    assert {type(rule).key for rule in schema.rules} == set(RULES)
    assert Schema.from_toml(schema.to_toml()) == schema
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    assert schema.groups == (("shift", "floor"),)


@pytest.mark.parametrize(
    "condition",
    ['"x"', '["x", "y"]', '{not = ["x"]}', "{missing = true}", "{missing = false}", '{not = ["x"], missing = true}'],
)
def test_conditions_come_back(condition):
    schema = schema_of(f'when = {{a = "x"}}\nthen = {{b = {condition}}}')
    assert Schema.from_toml(schema.to_toml()) == schema


def test_dates_of_toml_are_dates():
    schema = schema_of('when = {d = {min = 2020-02-01, max = "2020-03-01"}}\nthen = {a = "x"}')
    assert schema.rules[0].when == (("d", Condition(min="2020-02-01", max="2020-03-01")),)


def test_rules_can_be_made_in_python():
    schema = Schema(schema_of().columns, rules=(Ordered(("n", "m")),))
    assert schema.to_dict()["rules"] == [{"order": ["n", "m"]}]
    with pytest.raises(RuleError, match='rule 1: order names "q"'):
        Schema(schema_of().columns, rules=(Ordered(("n", "q")),))


@pytest.mark.parametrize(
    ("rule", "line", "told"),
    [
        ('order = ["n", "q"]', 1, 'order names "q", which is not a column'),
        ('order = ["n"]', 1, "at least 2 columns"),
        ('order = ["n", "n"]', 1, "names a column twice; name it once"),
        ('order = ["a", "n"]', 1, 'column "a": its values have no order; remove it'),
        ('order = ["d", "n"]', 1, "dates cannot be compared with numbers"),
        ('order = ["m", "n"]', 1, 'by their ranges, "m" is always larger than "n".*change a range'),
        ('order = ["n", "m"]\nstrict = 1', 2, "strict must be true or false"),
        ('order = ["n", "m"]\npolicy = "drop"', 2, 'policy must be "keep" or "refuse"'),
        ('ordre = ["n", "m"]', 1, 'Did you mean "order"'),
        ('order = ["n", "m"]\nunique = ["n"]', 2, "must have one of the keys"),
        ('order = ["n", "m"]\nstrcit = true', 2, 'unknown key "strcit".*Did you mean "strict"'),
        ('when = {a = "x"}\nthen = {b = "q"}', 2, 'column "b": "q" is not one of its values'),
        ('when = {a = "x"}\nthen = {b = 1}', 2, 'column "b": 1 is not one of its values'),
        ('when = {a = "x"}\nthen = {n = {min = 10}}', 2, "no value can meet n >= 10"),
        ('when = {n = 11}\nthen = {a = "x"}', 1, "11 lies outside its range"),
        ('when = {n = 1.5}\nthen = {a = "x"}', 1, "1.5 must be a whole number"),
        ('when = {n = nan}\nthen = {a = "x"}', 1, "nan"),
        ('when = {n = inf}\nthen = {a = "x"}', 1, "inf"),
        ('when = {d = "soon"}\nthen = {a = "x"}', 1, "must be a date"),
        ('when = {a = "x"}\nthen = {a = "y"}', 2, 'column "a" is in both when and then'),
        ('when = {a = {min = "x"}}\nthen = {b = "x"}', 1, "have no order; list them"),
        ('when = {a = "x"}\nthen = {a = {missing = true}}', 2, "is never missing; set missing = true in .columns.a."),
        ('when = {a = {mni = 1}}\nthen = {b = "x"}', 1, 'unknown key "mni"'),
        ('when = {}\nthen = {b = "x"}', 1, "must be a table of conditions"),
        ('when = {key = "1"}\nthen = {b = "x"}', 1, "key"),
        ('forbid = [{a = ["x", "y"]}]', 1, 'excludes every value of column "a"'),
        ("forbid = []", 1, "must be a list of combinations"),
        ('columns = ["a", "b"]\nallowed = []', 2, "no combination is allowed.*list at least one"),
        ('columns = ["a", "b"]\nallowed = [["x"]]', 2, "must have 2 values"),
        ('columns = ["a", "b"]\nallowed = [["x", "q"]]', 2, '"q" is not one of its values'),
        ('columns = ["a", "b"]\nallowed = [[{missing = true}, "x"]]', 2, 'column "a" is never missing'),
        ('columns = ["a", "b"]\nallowed = "none.csv"', 2, "put it in the folder of the schema"),
        ('of = "b"\ngives = "a"\nmap = {x = "x"}', 3, 'map has no result for "y" of column "b"; add one'),
        ('of = "b"\ngives = "a"\nmap = {x = "x", y = "q", z = "x"}', 3, '"q" is not one of its values'),
        ('of = "b"\ngives = "b"\nmap = {x = "x", y = "x", z = "x"}', 2, "must be different columns"),
        ('missing = ["n"]\nwhen = {a = "x"}', 1, 'column "n": it is never missing'),
        ('missing = ["b"]', None, "when must be a table"),
        ('missing_together = ["b", "n"]', 1, 'column "n": it is never missing'),
        ('sum = ["a", "n"]\nis = "m"', 1, "only numbers can be added"),
        ('sum = ["n", "m"]\nis = "n"', 2, "a total cannot be one of its parts"),
        ('sum = ["m", "m2"]\nis = "n"', 1, 'sum names "m2".*Did you mean "m"'),
        ('sum = ["m"]\nis = "n"', 2, "no possible sum is in the range.*change a range"),
        ('sum = ["r"]\nis = "n"', 2, "is an integer"),
        ('unique = ["n"]\npolicy = "refuse"', 2, "read one by one.*remove policy"),
    ],
)
def test_a_fault_is_told_at_its_line_with_a_remedy(rule, line, told):
    with pytest.raises(SchemaError, match=f"(?s){told}") as caught:
        schema_of('order = ["n", "m"]', rule)
    expected = FIRST + 2 + (line or 0)  # after the first rule, which is sound
    assert str(caught.value).startswith(f"table.toml, line {expected}: rule 2: "), caught.value


def test_orders_in_a_circle_are_found():
    columns = "".join(f'[columns.{c}]\nkind = "real"\nrange = [0.0, 1.0]\n' for c in "abcd")
    circle = ['order = ["a", "b", "c"]', 'order = ["d", "a"]', 'order = ["c", "d"]']
    same = Schema.from_toml(columns + "".join(f"[[rules]]\n{rule}\n" for rule in circle))
    assert len(same.rules) == 3  # all of them equal: a row can keep it
    for place in range(3):
        strict = [f"{rule}\nstrict = true" if i == place else rule for i, rule in enumerate(circle)]
        with pytest.raises(SchemaError, match=r"rule 3: with earlier rules, .* is larger than itself; change one"):
            Schema.from_toml(columns + "".join(f"[[rules]]\n{rule}\n" for rule in strict))


def test_rules_that_contradict_one_another_are_found():
    with pytest.raises(SchemaError, match=r"line \d+: rule 2: rules 1 and 2 contradict .* no combination of a, b"):
        schema_of('columns = ["a", "b"]\nallowed = [["x", "x"]]', 'columns = ["a", "b"]\nallowed = [["y", "y"]]')
    with pytest.raises(SchemaError, match=r"rules 1 and 2 contradict .* no row can meet the when of rule 1"):
        schema_of('when = {a = "x"}\nthen = {b = "x"}', 'when = {a = "x"}\nthen = {b = "y"}')


@pytest.mark.parametrize(
    ("groups", "told"),
    [
        ('[["a"]]', "at least two columns"),
        ('[["a", "q"]]', 'no column "q"'),
        ('[["a", "b"], ["b", "n"]]', 'column "b" is listed twice'),
        ('[["a", "key"]]', "is an id"),
        ('["a", "b"]', "lists of columns"),
    ],
)
def test_groups_are_checked(groups, told):
    with pytest.raises(SchemaError, match=f"table.toml, line 1: groups.*{told}"):
        Schema.from_toml(f"groups = {groups}\n{COLUMNS}", "table.toml")


def test_tables_are_read_from_files_beside_the_schema_and_stored_inside(tmp_path):
    (tmp_path / "combos.csv").write_text("b,note,a\nx,1,x\n,2,y\nx,3,x\n", encoding="utf-8")
    (tmp_path / "codes.csv").write_text("n,a\n" + "".join(f"{i},{'xy'[i > 4]}\n" for i in range(10)), encoding="utf-8")
    rules = (
        '[[rules]]\ncolumns = ["a", "b"]\nallowed = "combos.csv"\n[[rules]]\nof = "n"\ngives = "a"\nmap = "codes.csv"\n'
    )
    (tmp_path / "table.toml").write_text(COLUMNS + rules, encoding="utf-8")
    schema = Schema.load(tmp_path / "table.toml")
    assert schema.rules[0] == Allowed(("a", "b"), (("x", "x"), ("y", None)))
    assert isinstance(schema.rules[1], Mapped) and schema.rules[1].map[5] == (5, "y")
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    (tmp_path / "combos.csv").write_text("b,a\nx,q\n", encoding="utf-8")
    with pytest.raises(SchemaError, match=re.escape('"combos.csv", line 2, column "a": "q" is not one of its values')):
        Schema.load(tmp_path / "table.toml")
    (tmp_path / "combos.csv").write_text("b\nx\n", encoding="utf-8")
    with pytest.raises(SchemaError, match='has no column "a" in its first line'):
        Schema.load(tmp_path / "table.toml")


def test_a_stored_schema_reads_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "combos.csv").write_text("a,b\nx,x\n", encoding="utf-8")
    document = schema_of().to_dict() | {"rules": [{"columns": ["a", "b"], "allowed": "combos.csv"}]}
    with pytest.raises(SchemaError, match="must contain the table itself"):
        Schema.from_dict(document)
