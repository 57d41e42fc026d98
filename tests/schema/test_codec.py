"""The fate of every sort of value: each row one code a column, or a refusal that tells nothing."""

import datetime as dt
import json
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from weft.encoding import Codec
from weft.errors import DataError, ModelFileError, SchemaError
from weft.schema import Boolean, Category, Datetime, Id, Integer, Real, Schema


def codec(column, arrow_type, nullable=True):
    return Codec(Schema((column,)), pa.schema([pa.field(column.name, arrow_type, nullable)]))


def encode(column, values, arrow_type=None):
    array = values if isinstance(values, pa.Array) else pa.array(values, arrow_type)
    return codec(column, array.type).encode(pa.table({column.name: array})).columns[0].tolist()


def draws(column, arrow_type, codes, nullable=True, n=1):
    made = codec(column, arrow_type, nullable)
    records = type(made.encode(pa.table({column.name: pa.nulls(0, arrow_type)}))).of(made.domain, [np.repeat(codes, n)])
    return made.decode(records, np.random.default_rng(7)).column(0)


def refuses(column, values, arrow_type=None, match="outside the schema"):
    with pytest.raises(DataError, match=match) as caught:
        encode(column, values, arrow_type)
    assert caught.value.__cause__ is None
    assert f'column "{column.name}"' in str(caught.value)
    return str(caught.value)


AGE = Integer("x", (0, 120), missing=True)
CLIPPED = Integer("x", (0, 120), bins=32, missing=True, outside="clip")


def test_integer_bins_are_the_floor_of_equal_shares():
    assert codec(Integer("x", (1, 10), bins=3), pa.int64()).domain.shape == (3,)
    assert encode(Integer("x", (1, 10), bins=3), list(range(1, 11))) == [0] * 3 + [1] * 3 + [2] * 4
    assert encode(Integer("x", (0, 20), step=5), [0, 5, 20]) == [0, 1, 4]
    assert encode(Integer("x", edges=(0, 1, 18, 65)), [0, 1, 17, 18, 65]) == [0, 1, 1, 2, 2]
    assert codec(Integer("x", (0, 99)), pa.int8()).domain.shape == (100,)
    assert codec(Integer("x", (0, 100)), pa.int8()).domain.shape == (101,)
    assert codec(Integer("x", (0, 3), bins=50), pa.int8()).domain.shape == (4,)


def test_numbers_outside_or_off_the_step_are_refused_without_telling_them():
    for values, arrow_type in [
        ([121], None),
        ([-1], None),
        ([2**63 - 1], None),
        ([2**64 - 1], pa.uint64()),
        ([1.5], None),
        ([math.inf], None),
        ([-math.inf], None),
        ([1e300], None),
        ([Decimal("1.5")], pa.decimal128(9, 2)),
        ([Decimal("9" * 30)], None),
        (["12x"], None),
        (["1e40"], None),
        (["9" * 40], None),
        (["1.5"], None),
        ([""], None),
    ]:
        text = refuses(AGE, values, arrow_type)
        assert "1" not in text and "9" not in text
    refuses(Integer("x", (0, 20), step=5), [7])
    refuses(Integer("x", (0, 20)), [None], pa.int64(), match="missing. Set missing = true")
    refuses(Integer("x", (0, 20)), [float("nan")], match="missing")


def test_clip_takes_everything():
    last = codec(CLIPPED, pa.int64()).domain.shape[0] - 2
    assert encode(CLIPPED, [-5, 500, 2**63 - 1, -(2**63), None]) == [0, last, last, 0, last + 1]
    assert encode(CLIPPED, [2**64 - 1, 0], pa.uint64()) == [last, 0]
    assert encode(CLIPPED, [math.inf, -math.inf, math.nan, None, -0.0, 119.5]) == [last, 0, last + 1, last + 1, 0, last]
    assert encode(CLIPPED, ["6", "junk", "", None, "1e99", "-" + "9" * 40, " 8 "]) == [1, 32, 32, 32, last, 0, 2]
    assert encode(CLIPPED, [Decimal("9" * 35), Decimal("-" + "9" * 35), None]) == [last, 0, last + 1]
    stepped = Integer("x", (0, 20), step=5, missing=True, outside="clip")
    assert encode(stepped, [4, 5, 9, 22]) == [0, 1, 1, 4]
    real = Real("x", (0, 1), bins=4, missing=True, outside="clip")
    assert encode(real, [math.inf, -math.inf, math.nan, None, -1e308, 0.3]) == [3, 0, 4, 4, 0, 1]
    assert encode(real, ["inf", "-Infinity", "nan", "nought", "0.3", "1e999"]) == [3, 0, 4, 4, 1, 3]
    yes = Boolean("x", missing=True, outside="clip")
    assert encode(yes, [0, 1, 7, None]) == [0, 1, 2, 2]


def test_special_values_have_codes_of_their_own_and_leave_the_bins():
    column = Integer("x", (0, 3), special=(999999, 0), missing=True)
    made = codec(column, pa.int32())
    assert made.domain.shape == (6,)  # 1, 2, 3, the two special ones, missing
    assert encode(column, [1, 2, 3, 999999, 0, None]) == [0, 1, 2, 3, 4, 5]
    assert draws(column, pa.int32(), [0, 1, 2, 3, 4, 5]).to_pylist() == [1, 2, 3, 999999, 0, None]
    wide = Integer("x", (0, 999), bins=10, special=(0, 50, 51, 99))
    drawn = set(draws(wide, pa.int64(), [0], n=5000).to_pylist())
    assert drawn == set(range(100)) - {0, 50, 51, 99}
    real = Real("x", (0, 1), decimals=1, bins=2, special=(0, 0.2, -9))
    assert set(draws(real, pa.float64(), [0], n=500).to_pylist()) == {0.1, 0.3, 0.4}
    assert encode(real, [-0.0, 0.2, -9.0, 0.1]) == [2, 3, 4, 0]
    off = Integer("x", (0, 3), special=(0,), missing=True, outside="clip")
    assert encode(off, [0.5, 0.0]) == [0, 3]  # one half is not the special nought


def test_special_values_may_not_take_the_whole_range():
    with pytest.raises(SchemaError, match="leaves no value"):
        codec(Integer("x", (0, 1), special=(0, 1)), pa.int64())


def test_arithmetic_is_exact_at_the_ends_of_64_bits():
    signed = Integer("x", (-(2**63), 2**63 - 1), bins=2)
    assert encode(signed, [-(2**63), -1, 0, 2**63 - 1]) == [0, 0, 1, 1]
    unsigned = Integer("x", (0, 2**64 - 1), bins=2)
    assert encode(unsigned, [0, 2**63 - 1, 2**63, 2**64 - 1], pa.uint64()) == [0, 0, 1, 1]
    near = Integer("x", edges=(0, 2**60, 2**60 + 1, 2**62))
    assert encode(near, [2**60 - 1, 2**60, 2**60 + 1]) == [0, 1, 2]
    assert draws(near, pa.int64(), [1]).to_pylist() == [2**60]


def test_floats_are_one_code_for_minus_zero_and_for_nan_and_null():
    column = Real("x", (0, 1), bins=2, special=(0.0,), missing=True)
    assert encode(column, [0.0, -0.0, math.nan, None, 0.5, 1.0]) == [2, 2, 3, 3, 1, 1]
    assert encode(Category("x", (0.0, 1.5), missing=True), [-0.0, 0.0, 1.5, math.nan, None]) == [0, 0, 1, 2, 2]
    refuses(column, [math.inf])
    refuses(column, [1.0000001])


def test_schema_numbers_mean_the_numbers_of_the_columns_type():
    assert encode(Real("x", (0.0, 0.1), bins=2, special=(0.05,)), [0.1, 0.05], pa.float32()) == [1, 2]
    assert encode(
        Real("x", (0, 1), bins=10), [Decimal("0.10"), Decimal("0.30"), Decimal("0.29")], pa.decimal128(9, 2)
    ) == [1, 3, 2]
    assert encode(Category("x", (0.1, 0.7)), [0.7, 0.1], pa.float32()) == [1, 0]


def test_missing_decodes_to_null_or_to_nan_where_null_is_forbidden():
    column = Real("x", (0, 1), bins=1, missing=True)
    assert draws(column, pa.float32(), [1]).null_count == 1
    forbidden = draws(column, pa.float32(), [1], nullable=False)
    assert forbidden.null_count == 0 and math.isnan(forbidden[0].as_py())
    whole = draws(Integer("x", (0, 1), missing=True), pa.float64(), [2, 1], nullable=False)
    assert math.isnan(whole[0].as_py()) and whole[1].as_py() == 1.0
    coded = draws(Category("x", (1.5,), missing=True), pa.float64(), [1, 0], nullable=False)
    assert math.isnan(coded[0].as_py()) and coded[1].as_py() == 1.5
    made = codec(Integer("x", (0, 1), missing=True), pa.int8(), nullable=False)
    assert made.arrow_schema.field("x").nullable


def test_categories_match_in_the_columns_type():
    assert encode(Category("x", ("b", "a", "")), ["a", "", "b"]) == [1, 2, 0]
    assert encode(Category("x", (3, 1)), [1, 3], pa.uint8()) == [1, 0]
    assert encode(Category("x", (3, 1), missing=True), [1.0, math.nan]) == [1, 2]
    assert encode(Category("x", ("3", "1")), [1, 3], pa.int16()) == [1, 0]
    assert encode(Category("x", (1, 2)), ["2", "1"]) == [1, 0]
    assert encode(Category("x", (True,), missing=True), [True, None]) == [0, 1]
    dictionary = pa.DictionaryArray.from_arrays(pa.array([1, 0, None], pa.int8()), ["a", "b"])
    assert encode(Category("x", ("b", "a"), missing=True), dictionary) == [0, 1, 2]
    unused = pa.DictionaryArray.from_arrays(pa.array([0]), ["a", "never used"])
    assert encode(Category("x", ("a",)), unused) == [0]
    for values, arrow_type in [(("a",), pa.int64()), ((1.5,), pa.int64()), ((300,), pa.int8()), (("x",), pa.date32())]:
        with pytest.raises(SchemaError, match='column "x": its values do not fit'):
            codec(Category("x", values), arrow_type)
    with pytest.raises(SchemaError, match="equal in the column's type"):
        codec(Category("x", (0.1, 0.1 + 1e-12)), pa.float32())


def test_unknown_categories_are_refused_or_sent_to_other():
    column = Category("x", ("a", "b"))
    text = refuses(column, ["secret"], match="not listed in the schema")
    assert "secret" not in text
    refuses(column, [None], pa.string(), match="missing")
    other = Category("x", ("a", "z"), other="z", outside="other")
    assert encode(other, ["a", "secret", None, ""]) == [0, 1, 1, 1]
    kept = Category("x", ("a",), other="z", outside="other", missing=True)
    assert encode(kept, ["a", "secret", None, "z"]) == [0, 1, 2, 1]
    assert draws(kept, pa.string(), [0, 1, 2]).to_pylist() == ["a", "z", None]


def test_booleans():
    assert encode(Boolean("x", missing=True), [True, False, None]) == [1, 0, 2]
    assert encode(Boolean("x"), [1, 0], pa.int8()) == [1, 0]
    assert encode(Boolean("x"), ["true", "false"]) == [1, 0]
    refuses(Boolean("x"), [2], pa.int8(), match="neither true nor false")


def test_columns_without_values():
    for column in (AGE, Real("x", (0, 1), missing=True), Category("x", ("a",), missing=True)):
        for arrow_type in (pa.null(), pa.string(), pa.dictionary(pa.int8(), pa.string())):
            made = codec(column, arrow_type)
            records = made.encode(pa.table({"x": pa.nulls(3, arrow_type)}))
            assert records.columns[0].tolist() == [made.domain.shape[0] - 1] * 3
            assert made.decode(records, np.random.default_rng(0)).column(0).null_count == 3
            assert len(made.encode(pa.table({"x": pa.nulls(0, arrow_type)}))) == 0
    for column, expected in [
        (Integer("x", (0, 9), missing=True), pa.int64()),
        (Real("x", (0, 9), missing=True, type="float32"), pa.float32()),
        (Category("x", ("a", "b"), missing=True), pa.string()),
    ]:
        assert codec(column, pa.null()).domain == codec(column, expected).domain
        assert codec(column, pa.null()).arrow_schema.field("x").type == expected
        assert codec(column, pa.dictionary(pa.int8(), pa.null())).domain == codec(column, expected).domain
    refuses(Integer("x", (0, 1)), pa.nulls(1), match="missing. Set missing = true")
    assert encode(Category("x", ("a", "z"), other="z", outside="other"), pa.nulls(2)) == [1, 1]


def test_a_batch_without_values_belongs_to_a_typed_column():
    made = codec(AGE, pa.int8())
    batches = [pa.table({"x": pa.array([1], pa.int8())}), pa.table({"x": pa.nulls(1)})]
    with pytest.raises(SchemaError, match="type changed"):
        made.encode(batches[1])  # a null type stands for the schema's own type, int64, and not for this one
    wide = codec(AGE, pa.int64())
    assert wide.encode(batches[1]).columns[0].tolist() == [wide.domain.shape[0] - 1]


def unsound(*texts):
    ends = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(ends), pa.py_buffer(b"".join(texts)))


@pytest.mark.parametrize("arrow_type", [pa.string(), pa.large_string(), pa.string_view()])
def test_text_that_is_not_utf8_cannot_be_read_and_fails_no_policy_that_takes_all(arrow_type):
    bad = unsound(b"7", b"\xff\xfe", "\u00e9".encode(), b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b" 8").cast(arrow_type)
    small = Integer("x", (0, 9), missing=True, outside="clip")
    assert encode(small, bad) == [7, 10, 10, 10, 10, 8]
    assert encode(Real("x", (0, 9), bins=9, missing=True, outside="clip"), bad) == [7, 9, 9, 9, 9, 8]
    assert encode(Category("x", ("7", "\u00e9"), other="z", outside="other"), bad) == [0, 2, 1, 2, 2, 2]
    assert encode(Datetime("x", ("2013-01-01", "2013-01-02"), missing=True, outside="clip"), bad) == [2] * 6
    refuses(Integer("x", (0, 9)), bad)
    refuses(Real("x", (0, 9)), bad)


@pytest.mark.parametrize("kind", ["category", "boolean"])
def test_wide_decimals_cannot_be_categories(kind):
    column = Category("x", (1, 2), other=2, outside="other") if kind == "category" else Boolean("x")
    with pytest.raises(SchemaError, match="does not fit its type decimal256"):
        codec(column, pa.decimal256(60, 2))


def test_dates_of_every_age_and_unit():
    old = Datetime("x", ("1066-10-01", "1066-10-20"))
    assert encode(old, [dt.date(1066, 10, 14)]) == [13]
    assert encode(old, pa.array([dt.date(1066, 10, 14)], pa.date64())) == [13]
    assert encode(old, pa.array([dt.datetime(1066, 10, 14)], pa.timestamp("s")).cast(pa.timestamp("ms")))[0] > 0
    far = Datetime("x", ("12000-01-01", "12000-01-10"), step="1d")
    assert draws(far, pa.timestamp("s"), [0]).cast(pa.int64()).to_pylist() == [316516204800]
    with pytest.raises(SchemaError, match="range exceeds"):
        codec(far, pa.timestamp("ns"))
    with pytest.raises(SchemaError, match="step is finer"):
        codec(Datetime("x", ("2013-01-01", "2013-01-02"), step="1ms"), pa.timestamp("s"))
    with pytest.raises(SchemaError, match="step is finer"):
        codec(Datetime("x", ("2013-01-01", "2013-01-02"), step="1h"), pa.date32())


def test_a_stray_time_in_a_date64_column_is_off_the_grid():
    stray = pa.Array.from_buffers(pa.date64(), 1, [None, pa.py_buffer(np.array([86_400_001]).tobytes())])
    refuses(Datetime("x", ("1970-01-01", "1970-01-09")), stray)
    assert encode(Datetime("x", ("1970-01-01", "1970-01-09"), missing=True, outside="clip"), stray) == [1]


def test_a_plain_last_date_includes_its_day():
    hours = Datetime("x", ("2013-01-01", "2013-01-02"), step="1h")
    assert codec(hours, pa.timestamp("us")).domain.shape == (48,)
    assert encode(hours, [dt.datetime(2013, 1, 2, 23)]) == [47]
    refuses(hours, [dt.datetime(2013, 1, 3)])
    refuses(hours, [dt.datetime(2013, 1, 2, 23, 30)])
    clipped = Datetime("x", ("2013-01-01", "2013-01-02"), step="1h", missing=True, outside="clip")
    assert encode(clipped, [dt.datetime(2013, 1, 2, 23, 30), dt.datetime(1, 1, 1), None]) == [47, 0, 48]
    edges = Datetime("x", edges=("2013-01-01", "2013-02-01", "2013-12-31"), special=("1900-01-01",))
    assert encode(edges, [dt.date(2013, 1, 31), dt.date(2013, 2, 1), dt.date(2013, 12, 31), dt.date(1900, 1, 1)]) == [
        0,
        1,
        1,
        2,
    ]


def test_ranges_are_read_in_the_columns_zone():
    day = Datetime("x", ("2013-07-01", "2013-07-01"), step="1h")
    zone = pa.timestamp("us", "America/New_York")
    assert encode(day, pa.array([dt.datetime(2013, 7, 1, 4), dt.datetime(2013, 7, 2, 3)], zone)) == [0, 23]
    refuses(day, pa.array([dt.datetime(2013, 7, 1, 3)], zone))
    utc = Datetime("x", ("2013-07-01", "2013-07-01"), step="1h", timezone="UTC")
    assert encode(utc, pa.array([dt.datetime(2013, 7, 1, 3)], zone)) == [3]
    with pytest.raises(SchemaError, match="has no time zone"):
        codec(utc, pa.timestamp("us"))
    with pytest.raises(SchemaError, match="edges swap"):
        spring = ("2013-03-10 01:00", "2013-03-10 02:30", "2013-03-10 03:00", "2013-03-10 05:00")
        codec(Datetime("x", edges=spring), zone)


def test_dates_in_text_keep_their_format():
    column = Datetime("x", ("2013-01-01", "2013-12-31"), bins="each", format="%d/%m/%Y", missing=True)
    assert encode(column, ["01/01/2013", "31/12/2013", None]) == [0, 364, 365]
    assert draws(column, pa.large_string(), [31, 365]).to_pylist() == ["01/02/2013", None]
    refuses(column, ["2013-01-01"])
    for impossible in ("30/02/2013", "29/02/2013", "31/04/2013", "31/6/2013", "00/01/2013"):
        refuses(column, [impossible])
    assert encode(column, ["1/2/2013", "28/02/2013", " 3/ 3/2013"]) == [31, 58, 61]
    leap = Datetime("x", ("2012-01-01", "2012-12-31"), bins="each", missing=True, outside="clip")
    assert encode(leap, ["2012-02-29", "2012-02-30", "2013-02-29", "2012-3-1"]) == [59, 366, 366, 60]
    named = Datetime("x", ("2013-01-01", "2013-12-31"), bins="each", format="%d %B %Y", missing=True, outside="clip")
    assert encode(named, ["1 feb 2013", "01 February 2013", "30 Feb 2013"]) == [31, 31, 365]
    clipped = Datetime("x", ("2013-01-01", "2013-12-31"), bins=32, missing=True, outside="clip")
    assert encode(clipped, ["2013-01-01", "no date", ""]) == [0, 32, 32]
    with pytest.raises(SchemaError, match="format loses"):
        codec(Datetime("x", ("2013-01-01", "2013-12-31"), step="1d", format="%Y-%m"), pa.string())


def test_draws_fill_the_bin_and_not_only_its_middle():
    assert set(draws(Integer("x", (0, 200), step=10, bins=2), pa.int64(), [0], n=500).to_pylist()) == set(
        range(0, 100, 10)
    )
    drawn = draws(Real("x", (0, 10), bins=2), pa.float64(), [1], n=1000).to_numpy()
    assert drawn.min() < 5.1 and drawn.max() > 9.9 and len(set(drawn)) > 900
    cents = draws(Real("x", (0, 1), bins=2, decimals=2), pa.decimal128(10, 4), [0], n=2000).to_pylist()
    assert set(cents) == {Decimal(i) / 100 for i in range(50)}
    whole = draws(Real("x", (0.5, 9.5), bins=3), pa.int16(), [0], n=200).to_pylist()
    assert set(whole) == {1, 2, 3}


def test_bins_without_a_drawable_value_have_no_code():
    column = Real("x", (0, 1), bins=32, decimals=1)
    assert codec(column, pa.float64()).domain.shape == (11,)
    refuses(column, [0.05])
    near = Real("x", (0, 1), bins=32, decimals=1, missing=True, outside="clip")
    assert encode(near, [0.07, 0.04, None]) == [1, 0, 11]


def test_ids_are_unique_across_blocks():
    for pattern, arrow_type in [
        ("P{:06d}", pa.string()),
        (None, pa.int32()),
        ("{uuid}", pa.large_string()),
        ("{}", pa.dictionary(pa.int32(), pa.string())),
        ("n{}", pa.string_view()),
    ]:
        schema = Schema((Id("who", pattern), Boolean("x")), unit="who")
        made = Codec(schema, pa.schema([("x", pa.bool_()), ("who", arrow_type)]))
        assert made.domain.names == ("x",) and made.unit_column == "who"
        records = made.encode(pa.table({"x": [True] * 500, "who": pa.nulls(500, arrow_type)}))
        rng = np.random.default_rng(0)
        blocks = [made.decode(records, rng, start=start) for start in (0, 500)]
        assert blocks[0].schema.names == ["x", "who"] and blocks[0].schema.field("who").type == arrow_type
        ids = [i for block in blocks for i in block["who"].to_pylist()]
        assert len(set(ids)) == 1000
        if pattern == "P{:06d}":
            assert ids[0] == "P000001" and ids[-1] == "P001000"
        if pattern == "{uuid}":
            import uuid

            assert all(uuid.UUID(i).version == 4 for i in ids)
    with pytest.raises(SchemaError, match="is numeric"):
        Codec(Schema((Id("who", "P{}"), Boolean("x"))), pa.schema([("who", pa.int64()), ("x", pa.bool_())]))
    small = Codec(Schema((Id("who"), Boolean("x"))), pa.schema([("who", pa.int8()), ("x", pa.bool_())]))
    with pytest.raises(DataError, match="cannot hold an id for every row"):
        small.decode(
            small.encode(pa.table({"who": pa.nulls(200, pa.int8()), "x": [True] * 200})), np.random.default_rng()
        )


def test_a_table_that_does_not_fit_is_refused_before_any_row_is_read():
    schema = Schema((Integer("age", (0, 9)), Category("sex", ("f", "m"))))
    for fields, match in [
        ([("age", pa.int8())], 'column "sex": the table has no such column'),
        ([("age", pa.int8()), ("Sex", pa.string())], 'Did you mean "Sex"'),
        ([("age", pa.int8()), ("sex", pa.string()), ("extra", pa.int8())], 'does not describe "extra".*extra_columns'),
        ([("age", pa.list_(pa.int8())), ("sex", pa.string())], 'column "age": kind integer does not fit its type list'),
        ([("age", pa.bool_()), ("sex", pa.string())], "does not fit its type bool"),
        ([("age", pa.int8()), ("sex", pa.string()), ("sex", pa.string())], "several columns of this name"),
    ]:
        with pytest.raises(SchemaError, match=match):
            Codec(schema, pa.schema(fields))
    with pytest.raises(SchemaError, match="range exceeds what its type int8"):
        codec(Integer("x", (0, 200)), pa.int8())
    with pytest.raises(SchemaError, match="special exceeds"):
        codec(Integer("x", (0, 2), special=(999,)), pa.uint8())
    with pytest.raises(SchemaError, match="exceeds what its type float"):
        codec(Integer("x", (0, 2**25)), pa.float32())
    with pytest.raises(SchemaError, match="many decimals"):
        codec(Real("x", (0, 1e12), decimals=9), pa.float64())
    with pytest.raises(SchemaError, match="every column is an id"):
        codec(Id("x"), pa.string())


def test_order_types_and_a_saved_codec():
    schema = Schema((Integer("b", (0, 9)), Category("a", ("f", "m")), Id("i")), extra_columns="ignore")
    table = pa.table({"a": ["f", "m"], "extra": [1, 2], "i": [5, 6], "b": pa.array([1, 2], pa.int8())})
    table = table.replace_schema_metadata({"private": "a fact about the rows"})
    made = Codec(schema, table.schema)
    assert made.domain.names == ("b", "a")
    saved = json.loads(json.dumps(made.to_dict()))
    again = Codec.from_dict(saved)
    assert again.domain == made.domain and again.arrow_schema.equals(made.arrow_schema, check_metadata=True)
    assert not again.arrow_schema.metadata
    out = again.decode(made.encode(table), np.random.default_rng(0))
    assert out.column_names == ["a", "i", "b"]
    assert out.schema.types == [pa.string(), pa.int64(), pa.int8()]
    assert out["a"].to_pylist() == ["f", "m"]
    with pytest.raises(SchemaError, match="type changed"):
        made.encode(table.set_column(3, "b", pa.array([1, 2], pa.int16())))
    for damaged in [{}, saved | {"arrow_schema": "AAAA"}, saved | {"schema": []}, saved | {"arrow_schema": 5}]:
        with pytest.raises(ModelFileError, match="damaged"):
            Codec.from_dict(damaged)


def test_batches_tables_and_chunks_agree():
    table = pa.table({"x": pa.chunked_array([[1, 2], [], [3]], pa.int64())})
    made = codec(Integer("x", (0, 9)), pa.int64())
    assert made.encode(table).columns[0].tolist() == [1, 2, 3]
    sliced = table.combine_chunks().slice(1).to_batches()[0]
    assert made.encode(sliced).columns[0].tolist() == [2, 3]
    decimals = pa.array([Decimal("1.00"), None, Decimal("3.00")], pa.decimal128(9, 2)).slice(1)
    assert encode(Integer("x", (0, 9), missing=True), decimals) == [10, 3]
