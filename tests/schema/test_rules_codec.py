"""Rules in a codec: what is impossible has no code, each row is coded by itself, and no decoded row breaks a rule."""

from __future__ import annotations

from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from weft import Schema
from weft.encoding import Codec, count_broken_rows
from weft.encoding.column_groups import ColumnGroup, find_nearest_possible
from weft.errors import DataError, ModelFileError, SchemaError
from weft.io.text_to_types import csv_arrow_schema
from weft.marginals.records import Records
from weft.schema.rules import Block, ColumnReader

from .rules import SCHEMA, drawn, expected_faults, numbers_broken

SMALL = """
[columns.a]
kind = "category"
values = ["x", "y"]

[columns.b]
kind = "category"
values = [1, 2, 3]
missing = true

[columns.n]
kind = "integer"
range = [0, 3]
special = [9]
missing = true

[columns.t]
kind = "boolean"
"""

# Each rule with what it says of a row, in plain Python.
RULES = {
    'when = {a = "x"}\nthen = {b = [1, 2]}': lambda r: r["a"] != "x" or r["b"] in (1, 2),
    'when = {a = "x", t = true}\nthen = {b = {not = [1]}, n = {min = 2}}': lambda r: (
        not (r["a"] == "x" and r["t"]) or (r["b"] not in (None, 1) and r["n"] is not None and r["n"] >= 2)
    ),
    'when = {n = {min = 2, max = 5}}\nthen = {a = "y"}': lambda r: r["n"] not in (2, 3) or r["a"] == "y",
    "when = {b = {min = 2}}\nthen = {n = {max = 1, missing = true}}": lambda r: (
        r["b"] not in (2, 3) or r["n"] in (0, 1, None)
    ),
    "when = {b = {missing = true}}\nthen = {n = {missing = false}}": lambda r: r["b"] is not None or r["n"] is not None,
    'forbid = [{a = "x", t = true}, {b = 3, n = 9}]': lambda r: (
        not (r["a"] == "x" and r["t"]) and not (r["b"] == 3 and r["n"] == 9)
    ),
    "forbid = [{b = {missing = true}}]": lambda r: r["b"] is not None,
    'columns = ["a", "b"]\nallowed = [["x", 1], ["y", 2], ["y", {missing = true}]]': lambda r: (
        (r["a"], r["b"]) in {("x", 1), ("y", 2), ("y", None)}
    ),
    'of = "b"\ngives = "a"\nmap = {1 = "x", 2 = "x", 3 = "y"}': lambda r: (
        r["b"] is None or r["a"] == ("y" if r["b"] == 3 else "x")
    ),
    'of = "b"\ngives = "n"\nmap = {1 = 9, 2 = 0, 3 = {missing = true}}': lambda r: (
        r["n"] == {1: 9, 2: 0, 3: None, None: None}[r["b"]]
    ),
    'missing = ["b", "n"]\nwhen = {t = false}': lambda r: r["t"] or (r["b"] is None and r["n"] is None),
    'missing_together = ["b", "n"]': lambda r: (r["b"] is None) == (r["n"] is None),
    'order = ["b", "n"]': lambda r: r["b"] is None or r["n"] is None or r["b"] <= r["n"],
    'order = ["b", "n"]\nstrict = true': lambda r: r["b"] is None or r["n"] is None or r["b"] < r["n"],
    'sum = ["b"]\nis = "n"': lambda r: r["b"] is None or r["b"] == r["n"],
}
TYPES = pa.schema([("a", pa.string()), ("b", pa.int16()), ("n", pa.int32()), ("t", pa.bool_())])


def schema_of(*rules: str, columns: str = SMALL) -> Schema:
    return Schema.from_toml(columns + "".join(f"\n[[rules]]\n{rule}\n" for rule in rules))


def every_row() -> pa.Table:
    rows = [
        dict(zip("abnt", row, strict=True))
        for row in product(["x", "y"], [1, 2, 3, None], [0, 1, 2, 3, 9, None], [False, True])
    ]
    return pa.Table.from_pylist(rows, TYPES)


@pytest.mark.parametrize("rule", RULES)
def test_which_rows_break_a_rule_is_what_python_says(rule):
    schema, table = schema_of(rule), every_row()
    (found,) = count_broken_rows(table, schema).values()
    assert found == sum(not RULES[rule](row) for row in table.to_pylist())


@pytest.mark.parametrize("rule", RULES)
def test_each_row_is_coded_by_itself_and_kept_where_it_can_be(rule):
    schema, table = schema_of(rule), every_row()
    codec = Codec(schema, TYPES)
    whole = codec.encode(table)
    alone = [codec.encode(table.slice(i, 1)) for i in range(len(table))]
    for name in codec.domain:
        assert whole.column(name).tolist() == [int(records.column(name)[0]) for records in alone]
    # A row that keeps the rule comes back as it was, and every row keeps it.
    back = codec.decode(whole, np.random.default_rng(0))
    assert back.schema == codec.arrow_schema
    for before, after in zip(table.to_pylist(), back.to_pylist(), strict=True):
        assert RULES[rule](after)
        if RULES[rule](before):
            assert after == before


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n", [1, 3, 500])
def test_repair_alone_is_enough(rule, n):
    """Without groups, as for wide columns: any codes, and blocks of a single row."""
    schema = schema_of(rule)
    plain = Codec(schema_of(), TYPES)
    codec = Codec(schema, TYPES)
    for seed in range(5 if n > 100 else 40):
        rng = np.random.default_rng(seed)
        table = plain.decode(drawn(plain.domain, n, seed), rng)
        arrays = {name: table.column(name).combine_chunks() for name in table.column_names}
        made = codec._repair(arrays, rng)
        assert {name: made[name].type for name in made} == {name: arrays[name].type for name in arrays}
        assert all(RULES[rule](row) for row in pa.table(made).to_pylist())
        plain.encode(pa.table(made))  # nothing that the schema does not know


def test_impossible_combinations_have_no_code():
    schema = schema_of('when = {a = "x"}\nthen = {b = 1}')
    codec = Codec(schema, TYPES)
    assert codec.domain.names == ("a & b", "n", "t") and codec.domain.size("a & b") == 5
    (form,) = codec.forms
    assert form.attribute == "a & b" and form.text == "one attribute of 5 combinations instead of 2 x 4 codes"
    (group,) = (part for part in codec.parts if isinstance(part, ColumnGroup))
    assert [tuple(row) for row in group.combinations] == [(0, 0), (1, 0), (1, 1), (1, 2), (1, 3)]


def test_rows_that_break_a_rule_count_as_the_nearest_combination():
    codec = Codec(schema_of('columns = ["a", "b"]\nallowed = [["y", 2], ["y", 3]]'), TYPES)
    table = pa.Table.from_pylist([{"a": a, "b": b, "n": 0, "t": True} for a in "xy" for b in (1, 2, 3, None)], TYPES)
    # The first column is kept where it can be; the rest becomes the first that is possible.
    assert codec.encode(table).column("a & b").tolist() == [0, 0, 0, 0, 0, 0, 1, 0]


def test_the_nearest_cell_agrees_in_as_many_first_columns_as_can_be():
    rng = np.random.default_rng(3)
    for _ in range(50):
        shape = tuple(rng.integers(1, 5, 3))
        possible = rng.random(np.prod(shape)) < 0.3
        possible[rng.integers(len(possible))] = True
        for cell, found in enumerate(find_nearest_possible(possible, shape)):
            assert possible[found] and (not possible[cell] or found == cell)
            agreed = [_agreement(cell, other, shape) for other in np.flatnonzero(possible)]
            assert _agreement(cell, int(found), shape) == max(agreed)


def _agreement(a, b, shape):
    pairs = zip(np.unravel_index(a, shape), np.unravel_index(b, shape), strict=True)
    same = [x == y for x, y in pairs]
    return same.index(False) if False in same else len(same)


def test_rules_that_share_columns_become_one_group():
    codec = Codec(schema_of('when = {a = "x"}\nthen = {b = 1}', "forbid = [{b = 1, t = true}]"), TYPES)
    assert codec.domain.names == ("a & b & t", "n")
    assert {form.attribute for form in codec.forms} == {"a & b & t"}


def test_large_combinations_are_repaired_and_their_zeros_known():
    columns = "".join(f'[columns.{c}]\nkind = "category"\nvalues = {list(range(40))}\n' for c in "ab")
    schema = schema_of("forbid = [{a = 1, b = 2}]", columns=columns)
    codec = Codec(schema, csv_arrow_schema(schema))
    assert codec.domain.names == ("a", "b")
    (zeros,) = codec.domain.impossible
    assert zeros.clique == ("a", "b") and np.argwhere(zeros.cells).tolist() == [[1, 2]]
    assert codec.forms[0].text.startswith("1 of 1,600 cells are known to be empty, without noise")


def test_an_ordered_column_of_many_codes_keeps_its_order():
    columns = SMALL + '\n[columns.age]\nkind = "integer"\nrange = [0, 99]\n'
    schema = schema_of('when = {age = {max = 14}}\nthen = {a = "x"}', columns=columns)
    codec = Codec(schema, csv_arrow_schema(schema))
    assert codec.domain.order("age").ordered and codec.forms[0].attribute is None


def test_a_declared_group_holds_all_combinations_and_merges_with_rules():
    declared = Schema.from_toml('groups = [["n", "a"]]\n' + SMALL)
    codec = Codec(declared, TYPES)
    assert codec.domain.names == ("n & a", "b", "t") and codec.domain.size("n & a") == 12
    table = every_row()
    assert codec.decode(codec.encode(table), np.random.default_rng(0)).equals(table)
    with_rule = Schema.from_toml('groups = [["n", "a"]]\n' + SMALL + '[[rules]]\nforbid = [{a = "x", t = true}]\n')
    assert Codec(with_rule, TYPES).domain.names == ("n & a & t", "b")


def test_a_group_may_be_too_large_or_impossible():
    wide = "".join(f'[columns.{c}]\nkind = "integer"\nrange = [0, 999]\n' for c in "ab")
    dates = '[columns.d]\nkind = "datetime"\nrange = ["2020-01-01", "2021-12-31"]\n'
    schema = Schema.from_toml(f'groups = [["a", "b"]]\n{wide}')
    with pytest.raises(SchemaError, match="groups: a, b have 1,000,000 combinations, more than 100,000"):
        Codec(schema, csv_arrow_schema(schema))
    schema = Schema.from_toml(f'groups = [["a", "d"]]\n{wide}{dates}')
    with pytest.raises(SchemaError, match='groups: column "d" has no attribute of its own; remove it from the group'):
        Codec(schema, csv_arrow_schema(schema))


def test_a_schema_without_rules_is_as_before():
    codec = Codec(schema_of(), TYPES)
    assert codec.domain.names == ("a", "b", "n", "t") and codec.forms == () and codec.domain.impossible == ()


@pytest.mark.parametrize("rows", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_many_rows_of_any_codes_break_no_rule(rows):
    schema = Schema.from_toml(SCHEMA)
    codec = Codec(schema, csv_arrow_schema(schema))
    table = codec.decode(drawn(codec.domain, rows), np.random.default_rng(1))
    assert table.schema == codec.arrow_schema
    assert set(count_broken_rows(table, schema).values()) == {0}
    assert expected_faults(table.slice(0, 20_000)) == dict.fromkeys(range(1, 12), 0)
    codec.encode(table)  # every value is one that the schema knows
    assert len(set(table.column("key").to_pylist())) == len(table)


def test_broken_counts_what_python_counts():
    schema = Schema.from_toml(SCHEMA)
    plain = Schema(schema.columns)
    codec = Codec(plain, csv_arrow_schema(schema))
    table = codec.decode(drawn(codec.domain, 3_000), np.random.default_rng(2))
    found = numbers_broken(count_broken_rows(table, schema))
    assert found == expected_faults(table)
    assert min(number for rule, number in found.items() if rule != 11) > 0


@pytest.mark.parametrize(
    "n",
    [
        1,
        pytest.param(0, marks=pytest.mark.slow),
        pytest.param(2, marks=pytest.mark.slow),
        pytest.param(7, marks=pytest.mark.slow),
    ],
)
def test_small_blocks_are_repaired_too(n):
    schema = Schema.from_toml(SCHEMA)
    codec = Codec(schema, csv_arrow_schema(schema))
    for seed in range(8):
        table = codec.decode(drawn(codec.domain, n, seed), np.random.default_rng(seed))
        assert len(table) == n and set(count_broken_rows(table, schema).values()) == {0}


def test_other_types_are_repaired_in_their_own_type():
    schema = Schema.from_toml(SCHEMA)
    types = pa.schema(
        [
            ("key", pa.string()),
            ("canceled", pa.dictionary(pa.int8(), pa.int64())),
            ("status", pa.dictionary(pa.int8(), pa.string())),
            ("sex", pa.large_string()),
            ("pregnant", pa.bool_()),
            ("city", pa.dictionary(pa.int32(), pa.string())),
            ("land", pa.dictionary(pa.int32(), pa.string())),
            ("age", pa.float64()),
            pa.field("income", pa.float64(), nullable=False),
            ("tax", pa.decimal128(8, 2)),
            ("arrival", pa.timestamp("ns")),
            ("departure", pa.date32()),
            ("adults", pa.string()),
            ("children", pa.uint8()),
            ("guests", pa.int8()),
            ("size", pa.string()),
            ("colour", pa.string()),
            ("shift", pa.string()),
            ("floor", pa.int64()),
            ("room", pa.dictionary(pa.int32(), pa.int64())),
        ]
    )
    codec = Codec(schema, types)
    table = codec.decode(drawn(codec.domain, 2_000), np.random.default_rng(1))
    assert table.schema == codec.arrow_schema
    assert set(count_broken_rows(table, schema).values()) == {0}
    codec.encode(table)


def test_keys_that_cannot_differ_are_an_error_that_says_so():
    codec = Codec(schema_of('unique = ["a", "t"]'), TYPES)
    rng = np.random.default_rng(0)
    for seed in range(10):
        four = codec.decode(drawn(codec.domain, 4, seed), rng)
        assert len({(r["a"], r["t"]) for r in four.to_pylist()}) == 4
    with pytest.raises(SchemaError, match=r"a, t unique: the keys of this many rows cannot all differ\. Make fewer"):
        codec.decode(drawn(codec.domain, 5), rng)


def test_rules_that_no_row_keeps_are_an_error_that_says_so():
    columns = "".join(f'[columns.{c}]\nkind = "real"\nrange = [0.0, 1.0]\n' for c in "ab")
    # Each by itself can be kept; of numbers with a fraction nobody has asked all combinations before.
    rules = ["when = {a = {min = 0}}\nthen = {b = {min = 0.6}}", "when = {a = {max = 1}}\nthen = {b = {max = 0.4}}"]
    schema = schema_of(*rules, columns=columns)
    codec = Codec(schema, csv_arrow_schema(schema))
    with pytest.raises(SchemaError, match="no synthetic row satisfies all rules"):
        codec.decode(drawn(codec.domain, 100), np.random.default_rng(0))


def test_a_chain_of_columns_is_ordered_whatever_is_missing():
    columns = "".join(
        f'[columns.{c}]\nkind = "integer"\nrange = [{low}, {low + 9}]\nmissing = true\n'
        for c, low in zip("abcd", (0, 3, 1, 5), strict=True)
    )
    schema = schema_of('order = ["a", "b", "c", "d"]', columns=columns)
    codec = Codec(schema, csv_arrow_schema(schema))
    table = codec.decode(drawn(codec.domain, 5_000), np.random.default_rng(0))
    codec.encode(table)
    for row in table.to_pylist():
        there = [row[c] for c in "abcd" if row[c] is not None]
        assert there == sorted(there)
    assert min(table.column(c).null_count for c in "abcd") > 300


def test_a_donor_keeps_what_hangs_together():
    """Mended values come from rows of the block to which the rule applies too."""
    columns = '[columns.a]\nkind = "category"\nvalues = ["x", "y"]\n[columns.r]\nkind = "real"\nrange = [0.0, 100.0]\n'
    schema = schema_of('when = {a = "x"}\nthen = {r = {min = 10}}', columns=columns)
    readers = {c.name: ColumnReader(c, pa.field(c.name, c.arrow_type())) for c in schema.columns}
    arrays = {"a": pa.array(["x", "x", "x", "y"]), "r": pa.array([50.0, 60.0, 1.0, 99.0])}
    seen = set()
    for seed in range(40):
        block = Block(arrays, readers)
        schema.rules[0].mend(block, np.array([2]), np.random.default_rng(seed))
        seen.add(block.arrays["r"][2].as_py())
        assert block.arrays["r"].to_pylist()[:2] == [50.0, 60.0]
    assert seen == {50.0, 60.0}


def test_refused_rows_are_refused_by_the_name_of_the_rule_alone():
    schema = schema_of('when = {a = "x"}\nthen = {b = [1, 2]}\npolicy = "refuse"')
    codec = Codec(schema, TYPES)
    fine = pa.Table.from_pylist([{"a": "x", "b": 1, "n": 0, "t": True}] * 3, TYPES)
    codec.encode(fine)
    bad = pa.concat_tables([fine, pa.Table.from_pylist([{"a": "x", "b": None, "n": 0, "t": True}], TYPES)])
    with pytest.raises(DataError) as caught:
        codec.encode(bad)
    told = 'rule 1 (when a = "x" then b in [1, 2]): a row breaks it. Correct the rows, or set policy = "keep"'
    assert str(caught.value) == told
    assert codec.narrowed(["n"]).encode(bad).column("n").tolist() == [0] * 4


def test_a_codec_with_rules_is_stored_and_comes_back():
    schema = Schema.from_toml(SCHEMA)
    codec = Codec(schema, csv_arrow_schema(schema))
    back = Codec.from_dict(codec.to_dict())
    assert back.schema == schema and back.domain == codec.domain and back.forms == codec.forms
    damaged = codec.to_dict()
    damaged["schema"]["rules"][0]["then"] = {"status": "nonsense"}
    with pytest.raises(ModelFileError):
        Codec.from_dict(damaged)


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        ('kind = "integer"\nrange = [0, 5]\nspecial = [0, 3, 99]\nmissing = true', pa.int8()),
        ('kind = "integer"\nrange = [-6, 6]\nstep = 3', pa.float32()),
        ('kind = "integer"\nrange = [1, 4]\nbins = "each"\nmissing = true\noutside = "clip"', pa.string()),
        ('kind = "category"\nvalues = [0.5, 1.5]\nmissing = true', pa.float64()),
        ('kind = "category"\nvalues = ["b", "a"]\nother = "rest"', pa.dictionary(pa.int8(), pa.string())),
        ('kind = "boolean"\nmissing = true', pa.bool_()),
    ],
)
def test_codes_stand_for_the_values_that_a_reader_says(entry, kind):
    schema = Schema.from_toml(f"[columns.c]\n{entry}\n")
    codec = Codec(schema, pa.schema([("c", kind)]))
    reader = ColumnReader(schema.column("c"), pa.field("c", kind))
    known = reader.codes
    size = codec.domain.size("c")
    assert known is not None and len(known) == size
    table = codec.decode(Records.of(codec.domain, [np.arange(size)]), np.random.default_rng(0))
    read = reader.read(table.column("c").combine_chunks())
    assert read.missing.tolist() == known.missing.tolist()
    assert read.numbers[~read.missing].tolist() == known.numbers[~known.missing].tolist()
    made = reader.make(known.numbers[~known.missing])
    assert made.type == reader.type
    back = codec.encode(pa.table([made], ["c"]))
    assert back.column("c").tolist() == np.flatnonzero(~known.missing).tolist()


def test_bins_of_several_values_are_not_codes_of_values():
    schema = Schema.from_toml('[columns.c]\nkind = "integer"\nrange = [0, 9]\nbins = 5\n')
    assert ColumnReader(schema.column("c"), pa.field("c", pa.int64())).codes is None


def test_conditions_inside_bins_are_kept():
    """A rule may cut a bin in two: values are mended, not codes."""
    columns = '[columns.a]\nkind = "boolean"\n[columns.n]\nkind = "integer"\nrange = [0, 99]\nbins = 2\n'
    schema = schema_of(
        "when = {a = true}\nthen = {n = [7, 77]}", "when = {a = false}\nthen = {n = {min = 98}}", columns=columns
    )
    codec = Codec(schema, csv_arrow_schema(schema))
    for n in (1, 5, 4_000):
        for row in codec.decode(drawn(codec.domain, n), np.random.default_rng(0)).to_pylist():
            assert row["n"] in ((7, 77) if row["a"] else (98, 99))
