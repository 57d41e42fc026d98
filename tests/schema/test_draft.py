"""A draft loads, fits its own table, and marks everything it read."""

import datetime as dt
import json
import tempfile
import tomllib
import uuid
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.drafting.draft import csv_text, draft
from weft.drafting.schema_check import SchemaFinding, review_schema
from weft.encoding import Codec
from weft.errors import DataError, SchemaError
from weft.io.dialect import DEFAULT_DIALECT
from weft.schema import Boolean, Category, Id, Integer, Schema
from weft.schema.kinds.draft_facts import MAX_UNREMARKED_TEXTS
from weft.schema.type_conversion import choose_released_type

SHARED = Path(__file__).parents[3] / "shared" / "data"


def drafted(table):
    schema = Schema.from_toml(draft(table, "rows.parquet"), "draft")
    codec = Codec(schema, table.schema)
    records = codec.encode(table)
    out = codec.decode(records, np.random.default_rng(0))
    kept = pa.schema([table.schema.field(name) for name in out.column_names])
    types = [choose_released_type(schema.column(field.name), field.type) for field in kept]
    assert out.schema.types == types and out.schema.names == kept.names
    again = codec.encode(out)
    assert all(np.array_equal(a, b) for a, b in zip(records.columns, again.columns, strict=True))
    return schema


def one(values, arrow_type=None):
    array = values if isinstance(values, pa.Array) else pa.array(values, arrow_type)
    return drafted(pa.table({"x": array, "rest": pa.array([True] * len(array), pa.bool_())})).column("x")


def test_whole_numbers():
    few = one([1, 5, None, 3])
    assert (few.kind, few.range, few.step, few.missing) == ("integer", (1, 5), 2, True)
    assert few.from_data == ("kind", "range", "step", "special", "missing", "outside")
    wide = one([*range(1000), *[0] * 600])
    assert (wide.range, wide.special) == ((0, 999), (0,))
    assert one([1, 500, 9000] * 9).kind == "category"
    assert one(list(range(100, 160))).kind == "id"
    assert one([1.0, float("nan"), 3.0]).kind == "integer"
    assert one([2**64 - 1, 0, 2**63], pa.uint64()).kind == "category"
    assert one([-(2**63), *range(40), 2**63 - 1]).range == (-(2**63), 2**63 - 1)


def test_other_numbers():
    price = one([0.25, 1.5, 10.0, None])
    assert (price.kind, price.range, price.decimals) == ("real", (0.25, 10.0), 2)
    assert one([0.1, 0.2, 1 / 3]).decimals is None
    assert one(np.array([0.1, 0.25], np.float32)).decimals == 2
    assert one([1.5, float("inf")]).outside == "clip"
    assert one([float("nan")]).missing
    assert one([Decimal("1.25"), Decimal("1234567890123456.78")]).decimals == 2
    zero = one([0.0] * 50 + [i / 8 for i in range(100)])
    assert zero.special == (0.0,)


def test_text():
    assert one(["b", "a", ""]).values == ("", "a", "b")
    assert one([f"P{i:05d}" for i in range(50)]).pattern == "P{:05d}"
    assert one([f"P{i}" for i in range(50)]).pattern == "P{}"
    assert one([str(uuid.UUID(int=i)) for i in range(50)]).pattern == "{uuid}"
    assert one([f"{i}x{i}" for i in range(50)]).pattern == "{}"
    dates = one([str(dt.date(2013, 1, 1) + dt.timedelta(days=i)) for i in range(60)])
    assert (dates.kind, dates.format, dates.range, dates.step) == (
        "datetime",
        "%Y-%m-%d",
        ("2013-01-01", "2013-03-01"),
        "1d",
    )
    assert one(pa.array(["a", "b", None]).dictionary_encode()).values == ("a", "b")
    assert one(["a", "b"], pa.string_view()).values == ("a", "b")


def test_dates():
    days = one([dt.date(2013, 1, 1), dt.date(2013, 1, 15)])
    assert (days.kind, days.range, days.step) == ("datetime", ("2013-01-01", "2013-01-15"), "7d")
    hours = one(pa.array([dt.datetime(1066, 1, 1, 5), dt.datetime(1066, 1, 2, 7)], pa.timestamp("us")))
    assert (hours.range, hours.step) == (("1066-01-01 05:00:00", "1066-01-02 07:00:00"), "1h")
    zoned = one(
        pa.array([dt.datetime(2013, 3, 10, 5), dt.datetime(2013, 3, 10, 6)], pa.timestamp("us", "America/New_York"))
    )
    assert zoned.range == ("2013-03-10 05:00:00Z", "2013-03-10 06:00:00Z")
    assert one(pa.array([1], pa.timestamp("ns"))).step == "1ns"
    assert one([dt.date(1, 1, 1), dt.date(9999, 12, 31)], pa.date64()).kind == "datetime"


def test_columns_that_tell_nothing():
    for arrow_type in (pa.null(), pa.string(), pa.int8(), pa.float32(), pa.date32(), pa.bool_(), pa.decimal128(9, 2)):
        assert one([None, None], arrow_type).missing
        assert one([], arrow_type) is not None
    schema = drafted(pa.table({"x": [[1], [2]], "y": [True, False]}))
    assert [c.name for c in schema.columns] == ["y"] and schema.extra_columns == "ignore"


def test_every_fact_is_marked_and_explained():
    table = pa.table({"a b": [1, 2], "flag": [True, None], "who": [f"u{i}" for i in range(2)]})
    text = draft(table, "rows.parquet")
    assert text.startswith("# Schema of rows.parquet, drafted from the table itself.")
    assert "from_data" in text.split("[columns", maxsplit=1)[0]
    assert text.count("\n# ") >= 3
    facts = Schema.from_toml(text).from_data_facts()
    assert [fact for fact in facts if fact.startswith("a b")] == [
        f"a b: {fact}" for fact in ("kind", "range", "step", "special", "missing", "outside")
    ]
    # A declared type that says by itself which kind a column is cannot be flipped by a row.
    assert [fact for fact in facts if fact.startswith("flag")] == ["flag: missing", "flag: outside"]
    assert facts[-3:] == ["who: kind", "who: values", "who: missing"]


WRITING = ("prefix", "suffix", "thousands", "decimal", "accounting", "timezone", "type")
NUMBERS = [
    "0",
    "1",
    "2",
    "3",
    "7",
    "100",
    "5000",
    "-9",
    "999",
    "3.0",
    "2.5",
    "1e9",
    "inf",
    "nan",
    "007",
    "$5",
    "57%",
    "1,234",
]
CELLS = st.sampled_from([*NUMBERS, "NA", "?", "x", "y", "true", "false", "2013-01-05", "2013-02-30", "05/01/2013", ""])


@settings(max_examples=50, deadline=None)
@given(st.lists(CELLS, min_size=2, max_size=45), CELLS, st.sampled_from(["n", "patient_id", "code"]))
def test_whatever_one_row_flips_is_marked(cells, cell, name):
    """A draft of a CSV, and of the same with one row more: what differs carries a mark in both."""
    with tempfile.TemporaryDirectory() as folder:
        drafts = []
        for rows in (cells, [*cells, cell]):
            path = Path(folder) / "rows.csv"
            path.write_text(f"{name},rest\n" + "".join(f'"{each}",1\n' for each in rows))
            text = draft(csv_text(path), "rows", DEFAULT_DIALECT)
            drafts.append(tomllib.loads(text)["columns"][name])
    one, other = drafts
    if one["kind"] != other["kind"]:
        assert "kind" in one["from_data"] and "kind" in other["from_data"]
        return
    for key in (one.keys() | other.keys()) - {"from_data"}:
        if one.get(key) != other.get(key):
            # How a column is written belongs to its kind, and what stands for the rest to its values.
            fact = "kind" if key in WRITING else "values" if key == "other" else key
            assert fact in one["from_data"] and fact in other["from_data"]


@settings(max_examples=6, deadline=None)
@given(st.data())
def test_any_table_fits_its_own_draft(data):
    drafted(any_table(data))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_many_tables_fit_their_own_draft(data):
    drafted(any_table(data))


def any_table(data):
    rows = data.draw(st.integers(0, 30))
    kinds = {
        pa.int64(): st.integers(-(2**63), 2**63 - 1),
        pa.uint8(): st.integers(0, 255),
        pa.float64(): st.floats(),
        pa.float32(): st.floats(width=32),
        pa.string(): st.text(max_size=4),
        pa.bool_(): st.booleans(),
        pa.date32(): st.dates(),
        pa.timestamp("us"): st.datetimes(),
        pa.decimal128(10, 3): st.integers(-(10**9), 10**9).map(lambda k: Decimal(k).scaleb(-3)),
    }
    return pa.table(
        {
            f"c{i}": pa.array(data.draw(st.lists(st.none() | values, min_size=rows, max_size=rows)), kind)
            for i, (kind, values) in enumerate(kinds.items())
        }
    )


def people(different, rows, seed=3):
    return np.random.default_rng(seed).integers(0, different, rows)


def test_an_id_that_repeats_is_an_id_and_suggested_as_the_unit():
    numbers = people(1294, 3000)
    table = pa.table(
        {
            "visit": [f"V{n:05d}" for n in range(3000)],
            "slot_no": [f"S{n:04d}" for n in numbers[::-1]],
            "mrn": [f"{n:06d}" for n in numbers],
            "flag": [True] * 3000,
        }
    )
    schema = drafted(table)
    assert [column.kind for column in schema.columns] == ["id", "id", "id", "boolean"]
    assert schema.column("mrn").pattern == "{:06d}"
    assert schema.unit is None
    text = draft(table, "rows")
    assert '# unit = "mrn"\n# rows_per_unit = 5\n' in text
    assert len(text.splitlines()) < 50
    uncommented = text.replace("# unit", "unit").replace("# rows_per_unit", "rows_per_unit")
    assert Schema.from_toml(uncommented).unit == "mrn"
    assert '# unit = "person_id"' in draft(table.select(["visit", "flag"]), "rows")


def test_whole_numbers_that_repeat_are_ids_only_by_name():
    numbers = people(500, 1500).tolist()
    table = pa.table({"patient_id": numbers, "paid": numbers, "flag": [True] * 1500})
    assert [column.kind for column in drafted(table).columns] == ["id", "integer", "boolean"]
    assert '# unit = "patient_id"' in draft(table, "rows")


def test_texts_that_mean_something_stay_categories_with_a_word_about_long_lists():
    words = {
        "postcode": [f"{n:05d}" for n in people(400, 3000)],
        "town": [f"{n}ville" for n in people(400, 3000)],
        "device": [f"D{min(n, 150):03d}" for n in people(1000, 3000)],  # most rows at one of them
        "day": [f"{n % 28 + 1} of {n // 28}" for n in people(400, 3000)],
    }
    schema = drafted(pa.table(words))
    assert {column.kind for column in schema.columns} == {"category"}
    text = draft(pa.table(words), "rows")
    assert text.count("very many different values") == 4 and '# unit = "person_id"' in text
    short = draft(pa.table({"x": [f"{n}x" for n in range(MAX_UNREMARKED_TEXTS)] * 2}), "rows")
    assert "very many" not in short


def test_two_columns_of_one_name_are_refused_and_one_without_a_name_is_left_out():
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(SchemaError, match='column "a": the table has several columns of this name; rename them'):
        draft(twice, "rows")
    unnamed = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], names=["", "a", ""])
    schema = Schema.from_toml(draft(unnamed, "rows"))
    assert [column.name for column in schema.columns] == ["a"] and schema.extra_columns == "ignore"


def test_check_tells_codes_marks_and_dangers():
    schema = Schema((Id("who"), Integer("n", (0, 20_000), bins="each"), Category("c", ("a",), from_data=("values",))))
    findings = review_schema(schema)
    assert SchemaFinding("info", "n", "integer: 20,001 codes") in findings
    told = [(f.column, f.text.split(";")[0]) for f in findings if f.level == "warning"]
    assert told == [
        ("n", "20,001 codes: mostly noise"),
        ("c", "only one code: there is nothing to model"),
        ("c", "values was read from private rows"),
        (None, "the privacy unit is one row"),
    ]
    marked = Schema((Category("c", ("a", "b"), from_data=("values", "type", "missing")),))
    (told,) = (finding.text for finding in review_schema(marked) if finding.level == "warning")
    assert told.startswith("values, type and missing were read from private rows; confirm them")
    with pytest.raises(SchemaError, match="does not fit its type bool"):
        review_schema(Schema((Integer("n", (0, 1)), Boolean("b"))), pa.schema([("n", pa.bool_()), ("b", pa.bool_())]))


@pytest.mark.parametrize(
    ("ids", "advice"),
    [
        (["visit", "mrn"], 'if "mrn" repeats for a person, set unit = "mrn" and rows_per_unit'),
        (["visit"], 'if "visit" repeats for a person, set unit = "visit" and rows_per_unit'),
        (["visit", "order"], 'if one of "visit", "order" repeats for a person, set unit to its name, and rows'),
    ],
)
def test_check_prefers_the_id_of_a_person_for_the_unit(ids, advice):
    schema = Schema((*map(Id, ids), Boolean("x")))
    assert any(finding.column is None and advice in finding.text for finding in review_schema(schema))


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared tables are not on this machine")
@pytest.mark.parametrize("name", ["adult_raw", "hotel_bookings_raw"])
def test_real_tables_keep_types_and_nulls(name):
    table = pq.read_table(SHARED / f"{name}.parquet").slice(0, 20_000)
    drafted(table)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared tables are not on this machine")
@pytest.mark.parametrize(("name", "columns"), [("adult", 15), ("fire", 30)])
def test_domain_files_fit_their_tables(name, columns):
    table = pq.read_table(SHARED / f"{name}.parquet")
    schema = Schema.load(SHARED / f"{name}.domain.json")
    codec = Codec(schema, table.schema)
    assert len(codec.domain) == columns
    out = codec.decode(codec.encode(table), np.random.default_rng(0))
    assert out.equals(table.select(out.column_names).replace_schema_metadata(None))
    assert json.loads(json.dumps(schema.to_dict()))["extra_columns"] == "ignore"


def test_objects_of_a_frame_are_drafted_as_they_are_read():
    """Half a surrogate pair is no sound text, and drafts as text; what cannot be written is told with its column."""
    assert "[columns.c]" in Schema.draft(pd.DataFrame({"c": pd.Series(["a", "\ud800"] * 20, dtype=object)}))
    with pytest.raises(DataError, match='column "c": an object cannot be written as text'):
        Schema.draft(pd.DataFrame({"c": pd.Series(["a", 10**5000], dtype=object)}))
