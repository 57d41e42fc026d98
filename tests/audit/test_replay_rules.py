"""Whether rows keep or break a rule shows nowhere but through the mechanisms."""

import pyarrow as pa
import pytest
from conftest import SCHEMA, make_table
from weft_lab.replay import replay

from weft.schema import Schema

from .programs import seeded, synthesise, without_last

RULES = """
[columns.stays]
kind = "integer"
range = [0, 99]

[[rules]]
when = {sex = "m"}
then = {ward = ["a", "b", "c"]}

[[rules]]
missing = ["cost"]
when = {age = {max = 9}}

[[rules]]
order = ["stays", "age"]

[[rules]]
forbid = [{ward = "d", age = {min = 90}}]

[[rules]]
unique = ["age", "cost", "stays"]
"""


def table_with(*, broken: bool) -> pa.Table:
    """Rows of which some break rules; the last one keeps all of them, or breaks every one."""
    table = make_table(300)
    table = table.append_column("stays", pa.array([int(age) // 2 for age in table.column("age").to_pylist()]))
    kept = {"age": 50, "sex": "f", "ward": "a", "cost": 3.5, "stays": 1}
    wrong = {"age": 95, "sex": "m", "ward": "d", "cost": 3.5, "stays": 99}
    return pa.concat_tables([table, pa.Table.from_pylist([wrong if broken else kept], table.schema)])


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize(
    ("method", "source"), [("independent", "csv"), ("weave", "arrow"), ("independent", "parquet, streamed")]
)
def test_a_row_that_breaks_every_rule_shows_no_more_than_any_other(method, source, broken):
    table = table_with(broken=broken)
    program = synthesise(method, Schema.from_toml(SCHEMA + RULES), source=source, epsilon=2.0)
    assert replay(program, table, without_last(table), seeded()) == []
