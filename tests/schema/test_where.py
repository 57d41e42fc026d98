"""Conditions as a person writes them."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

from weft.errors import ConditionError
from weft.schema import Schema
from weft.schema.rules import plain_readers
from weft.schema.rules.conditions import MAX_CONDITION_LENGTH, Condition, read_where, write_conditions

SCHEMA = Schema.from_toml(
    """
[columns.who]
kind = "id"
[columns.age]
kind = "integer"
range = [0, 110]
[columns."age group"]
kind = "category"
values = ["young", "old", "a|b", "x=1"]
missing = true
[columns.level]
kind = "category"
values = [1, 2, 3]
[columns.member]
kind = "boolean"
[columns.cost]
kind = "real"
range = [0.0, 100.0]
missing = true
[columns.day]
kind = "datetime"
range = ["2024-01-01", "2024-12-31"]
"""
)
READERS = plain_readers(SCHEMA.columns)


def read(*given):
    return read_where(list(given), READERS)


@pytest.mark.parametrize(
    ("text", "name", "condition"),
    [
        ("age=65", "age", Condition((65,))),
        ("age == 65", "age", Condition((65,))),
        ("age >= 65", "age", Condition(min=65)),
        ("age<=65", "age", Condition(max=65)),
        ("age > 65", "age", Condition(min=65, excluded=(65,))),
        ("age < 65", "age", Condition(max=65, excluded=(65,))),
        ("age < 200", "age", Condition(max=200)),
        ("age != 65", "age", Condition(excluded=(65,))),
        ("age in 1, 2,3", "age", Condition((1, 2, 3))),
        ("age not in 1|2", "age", Condition(excluded=(1, 2))),
        ("age group = young|old", "age group", Condition(("young", "old"))),
        ("age group=a|b", "age group", Condition(("a|b",))),
        ('age group="a|b"', "age group", Condition(("a|b",))),
        ("age group=x=1", "age group", Condition(("x=1",))),
        ("age group is missing", "age group", Condition(missing=True)),
        ("cost IS NOT missing", "cost", Condition(missing=False)),
        ("level >= 2", "level", Condition(min=2)),
        ("level > 2", "level", Condition(min=2, excluded=(2,))),
        ("member = true", "member", Condition((True,))),
        ("cost < 12.5", "cost", Condition(max=12.5, excluded=(12.5,))),
        ("day >= 2024-03-01", "day", Condition(min="2024-03-01")),
    ],
)
def test_texts(text, name, condition):
    assert read(text) == ((name, condition),)


def test_strict_ends_leave_the_end_out():
    ((_, below),) = read("day < 2024-03-01")
    reader = READERS["day"]
    days = [datetime.date(2024, 2, 29), datetime.date(2024, 3, 1), datetime.date(2024, 3, 2)]
    assert below.holds(reader.read(pa.array(days))).tolist() == [True, False, False]
    ((_, above),) = read("day > 2024-03-01")
    assert above.holds(reader.read(pa.array(days))).tolist() == [False, False, True]


def test_mappings_are_those_of_rules():
    assert read({"age": {"min": 65}, "age group": ["young", "old"]}) == read("age>=65", "age group=young|old")
    assert read_where({"age": np.int64(3)}, READERS) == read("age=3")
    assert read({"day": {"min": datetime.date(2024, 3, 1)}}) == read("day>=2024-03-01")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("agee = 3", 'Did you mean "age"'),
        ("age", "is not a valid condition"),
        ("age ~ 3", "is not a valid condition"),
        ("= 3", "names no column"),
        ("", "names no column"),
        ("age = ", "is empty"),
        ("age = x", "must be a number"),
        ("age >= x", "must be a number"),
        ("age = 65.5", "must be a number"),
        ("age >= nan", "too large|whole"),
        ("cost >= nan", "too large"),
        ("cost >= 1e999", "too large"),
        ("age >= " + "9" * 400, "too large"),
        ("age = " + "9" * 5000, "must be a number"),
        ("age = 500", "outside its range"),
        ("age > 110", "no value"),
        ("age is missing", "never missing"),
        ("age is 5", "the word missing"),
        ("age group = jung", "not one of its values"),
        ("age group >= young", "has no order"),
        ("day = yesterday", "must be a date"),
        ("who = 5", "is an id"),
        ("age = " + "1|" * MAX_CONDITION_LENGTH, "longer than"),
        ({"age": {"least": 3}}, "unknown key"),
        ({"who": "x"}, "is an id"),
        ({}, "table of conditions"),
        (5, "must be a string or a mapping"),
    ],
)
def test_what_is_no_condition_is_said(given, said):
    with pytest.raises(ConditionError, match=said):
        read(given)


def test_conditions_that_contradict_one_another_are_refused():
    with pytest.raises(ConditionError, match="no value meets age >= 65 and age < 60"):
        read("age >= 65", "age < 60")
    with pytest.raises(ConditionError, match="no value meets"):
        read("age group = young", "age group is missing")
    with pytest.raises(ConditionError, match="no condition"):
        read_where([], READERS)
    assert len(read("age >= 60", "age <= 60")) == 2


def test_a_long_list_is_read_quickly_and_written_whole():
    listed = "|".join(map(str, range(110)))
    conditions = read(f"age={listed}")
    assert write_conditions(conditions)[0].count(",") == 109
    assert write_conditions(read("age > 65", "cost is missing")) == ["age > 65", "cost missing"]
