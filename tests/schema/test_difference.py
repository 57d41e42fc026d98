"""A column counted from another: order is never broken, types come back, and rows are coded one by one."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from weft.encoding import Codec
from weft.errors import DataError, SchemaError
from weft.marginals.records import Records
from weft.schema import Datetime, Integer, Real, Schema
from weft.values.timestamps import DAY

DATE_TYPES = [
    pa.date32(),
    pa.date64(),
    pa.timestamp("s"),
    pa.timestamp("ns"),
    pa.string(),
    pa.dictionary(pa.int32(), pa.date32()),
    pa.dictionary(pa.int8(), pa.string()),
]
NUMBER_TYPES = [pa.int16(), pa.int64(), pa.uint32(), pa.float64(), pa.decimal128(12, 2), pa.string()]


def table_of(types, *columns):
    arrays = []
    for values, arrow_type in zip(columns, types, strict=True):
        plain = arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type
        array = pa.array(values, pa.int8()) if isinstance(values[0], int) else pa.array(values)
        if pa.types.is_date64(plain) or (pa.types.is_timestamp(plain) and pa.types.is_date(array.type)):
            array = array.cast(pa.timestamp("s")).cast(plain)
        array = array.cast(plain)
        arrays.append(array.dictionary_encode().cast(arrow_type) if plain != arrow_type else array)
    return pa.table(dict(zip("abc", arrays, strict=False)))


def decoded_days(column):
    return [None if v is None else (dt.date.fromisoformat(v) if isinstance(v, str) else v) for v in column.to_pylist()]


def as_day(value):
    return value.date() if isinstance(value, dt.datetime) else value


@pytest.mark.parametrize("first", DATE_TYPES)
@pytest.mark.parametrize("second", DATE_TYPES)
def test_days_by_brute_force(first, second):
    came = [dt.date(2023, 1, 1), dt.date(2023, 2, 28), dt.date(2023, 12, 31), dt.date(2023, 6, 1)]
    stays = [0, 1, 30, 7]
    left = [a + dt.timedelta(n) for a, n in zip(came, stays, strict=True)]
    table = table_of([first, second], came, left)
    schema = Schema(
        (Datetime("a", ("2023-01-01", "2023-12-31"), bins=12), Datetime("b", ("0d", "30d"), after="a", date=True))
    )
    codec = Codec(schema, table.schema)
    assert codec.domain.names == ("a", "b")
    assert codec.domain.size("b") == 31
    records = codec.encode(table)
    assert records.column("b").tolist() == stays
    made = codec.decode(records, np.random.default_rng(0))
    # Indices of a dictionary grow until they can tell all values apart, as everywhere.
    wide = [pa.dictionary(pa.int32(), t.value_type) if pa.types.is_dictionary(t) else t for t in (first, second)]
    assert [field.type for field in made.schema] == wide
    gaps = [
        (as_day(b) - as_day(a)).days for a, b in zip(*(decoded_days(made[name]) for name in ("a", "b")), strict=True)
    ]
    assert gaps == stays
    halves = Records.concatenate([codec.encode(table.slice(0, 1)), codec.encode(table.slice(1))])
    assert all(np.array_equal(x, y) for x, y in zip(halves.columns, records.columns, strict=True))


@pytest.mark.parametrize("first", NUMBER_TYPES)
@pytest.mark.parametrize("second", NUMBER_TYPES)
def test_whole_numbers_by_brute_force(first, second):
    table = table_of([first, second], [2, 7, 12, 12], [2, 9, 10, 32])
    schema = Schema((Integer("a", (2, 12)), Integer("b", (-2, 20), after="a")))
    codec = Codec(schema, table.schema)
    records = codec.encode(table)
    assert records.column("b").tolist() == [2, 4, 0, 22]
    assert codec.decode(records, np.random.default_rng(0)).equals(table)


@pytest.mark.parametrize(
    "types", [(pa.float64(), pa.float64()), (pa.decimal128(9, 2), pa.string()), (pa.int32(), pa.float64())]
)
def test_amounts_are_exact(types):
    base = Real("a", (0, 100), decimals=2, bins=10) if types[0] != pa.int32() else Integer("a", (0, 100))
    schema = Schema((base, Real("b", (0, 0.5), after="a", decimals=2)))
    codec = Codec(schema, pa.schema([("a", types[0]), ("b", types[1])]))
    assert codec.domain.size("b") == 51
    codes = np.tile(np.arange(51), 4)
    rng = np.random.default_rng(1)
    made = codec.decode(Records.of(codec.domain, [rng.integers(0, codec.domain.size("a"), len(codes)), codes]), rng)
    gap = np.array(
        [round(100 * float(b)) - round(100 * float(a)) for a, b in zip(*made.to_pydict().values(), strict=True)]
    )
    assert np.array_equal(gap, codes)
    assert np.array_equal(codec.encode(made).column("b"), codes)


def test_a_chain_of_moments_in_different_units():
    schema = Schema.from_toml(
        """
        [columns.a]
        kind = "datetime"
        range = ["2024-01-01 00:00", "2024-12-31 23:59"]
        step = "1min"
        [columns.b]
        kind = "datetime"
        after = "a"
        range = ["0min", "36h"]
        step = "1min"
        missing = true
        [columns.c]
        kind = "datetime"
        after = "b"
        range = [0, 400]
        missing = true
        """
    )
    assert Schema.from_toml(schema.to_toml()) == schema
    codec = Codec(schema, pa.schema([("c", pa.date32()), ("b", pa.timestamp("ms")), ("a", pa.timestamp("ns"))]))
    rng = np.random.default_rng(0)
    rows = 4000
    records = Records.of(codec.domain, [rng.integers(0, size, rows) for size in codec.domain.shape])
    made = codec.decode(records, rng)
    again = codec.encode(made)
    missing = codec.domain.size("b") - 1
    assert np.array_equal(again.column("b"), records.column("b"))
    gone = records.column("b") == missing
    assert gone.any()
    last = codec.domain.size("c") - 1
    assert (again.column("c")[gone] == last).all()
    assert np.array_equal(again.column("c")[~gone], records.column("c")[~gone])
    for a, b, c in zip(*(made[name].to_pylist() for name in "abc"), strict=True):
        assert b is None or dt.timedelta(0) <= b - a.to_pydatetime() <= dt.timedelta(hours=36)
        assert c is None or (b is not None and 0 <= (c - b.date()).days <= 400)


def test_long_times_are_counted_in_natural_cells():
    column = Datetime("b", ("0s", "60d"), after="a", step="1s", date=False)
    codec = Codec(
        Schema((Datetime("a", ("2024-01-01", "2024-01-09"), date=False), column)),
        pa.schema([("a", pa.timestamp("s")), ("b", pa.timestamp("s"))]),
    )
    assert codec.domain.size("b") < 16_384
    base, late = np.datetime64("2024-01-01T00:00:00"), np.timedelta64(3 * 86_400 + 3600, "s")
    table = pa.table({"a": pa.array([base] * 3), "b": pa.array([base, base + late, base + late + 1])})
    codes = codec.encode(table).column("b")
    assert codes[0] == 0
    assert codes[2] == codes[1] + 1
    drawn = codec.decode(codec.encode(table), np.random.default_rng(0))
    gaps = np.array(drawn["b"]) - np.array(drawn["a"])
    assert gaps[0] == np.timedelta64(0, "s")
    assert gaps[1] == late
    assert late < gaps[2] < late + np.timedelta64(3600, "s")
    minutes = Datetime("b", ("0min", "20d"), after="a", step="1min", date=False)
    domain = Codec(
        Schema((Integer("n", (0, 1)), Datetime("a", ("2024-01-01", "2024-01-09"), date=False), minutes)),
        pa.schema([("n", pa.int8()), ("a", pa.timestamp("s")), ("b", pa.timestamp("s"))]),
    ).domain
    grid = domain.order("b").fine_grid(domain.size("b"))
    assert domain.size("b") == 20 * 1440 + 1
    assert grid.size < 4000
    assert grid.levels[0] > grid.levels[15] > grid.levels[5] > grid.levels[1]


def test_gaps_outside_the_range_and_missing_bases():
    fields = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    table = pa.table({"a": [0, 0, None, None], "b": [99, -99, 5, None]}, fields)
    clip = {"missing": True, "outside": "clip"}
    codec = Codec(Schema((Integer("a", (0, 5), **clip), Integer("b", (0, 9), after="a", **clip))), fields)
    assert codec.encode(table).column("b").tolist() == [9, 0, 10, 10]
    refuse = Codec(Schema((Integer("a", (0, 5), **clip), Integer("b", (0, 9), after="a", missing=True))), fields)
    assert refuse.encode(table.slice(3)).column("b").tolist() == [10]
    with pytest.raises(DataError, match='column "b": a value lies outside'):
        refuse.encode(table.slice(0, 1))
    with pytest.raises(DataError, match='column "b": a value is present where "a" is missing'):
        refuse.encode(table.slice(2, 1))


def test_values_far_away_never_wrap_round():
    low, high = -(2**63), 2**63 - 1
    fields = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    table = pa.table({"a": [low, high, high, 0], "b": [high, low, high, low]}, fields)
    clip = {"missing": True, "outside": "clip"}
    codec = Codec(Schema((Integer("a", (0, 5), **clip), Integer("b", (-1, 9), after="a", **clip))), fields)
    assert codec.encode(table).column("b").tolist() == [10, 0, 1, 0]
    days = pa.schema([("a", pa.date32()), ("b", pa.timestamp("ns"))])
    rows = pa.table(
        [
            pa.array([2**31 - 1, -(2**31), 0], pa.int32()).cast(pa.date32()),
            pa.array([0, 0, DAY]).cast(pa.timestamp("ns")),
        ],
        schema=days,
    )
    made = Codec(
        Schema((Datetime("a", ("1970-01-01", "1980-01-01"), **clip), Datetime("b", (0, 9), after="a", **clip))), days
    )
    assert made.encode(rows).column("b").tolist() == [0, 9, 1]


@pytest.mark.parametrize(
    ("columns", "types", "message"),
    [
        ((Integer("b", (0, 9), after="c"),), None, r'"b": after names "c", which is not a column'),
        ((Integer("a", (0, 9), after="b"), Integer("b", (0, 9), after="a")), None, "in a circle"),
        ((Integer("a", (0, 9), missing=True), Integer("b", (0, 9), after="a")), None, "set missing = true"),
        ((Integer("a", (0, 100)), Integer("b", (0, 100), after="a")), (pa.int8(), pa.int8()), "exceeds its type"),
        (
            (Datetime("a", ("2000-01-01", "2250-01-01")), Datetime("b", ("0d", "9000d"), after="a")),
            (pa.date32(), pa.timestamp("ns")),
            "exceeds its type",
        ),
        (
            (Datetime("a", ("2000-01-01", "2001-01-01")), Integer("b", (0, 9), after="a")),
            (pa.date32(), pa.int8()),
            "cannot come after",
        ),
        (
            (Datetime("a", ("2000-01-01", "2001-01-01")), Datetime("b", (0, 9), after="a")),
            (pa.timestamp("s", "UTC"), pa.date32()),
            "time zone",
        ),
        (
            (Real("a", (0, 9)), Real("b", (0, 9), after="a", decimals=1)),
            (pa.float64(), pa.float64()),
            '"a".*set decimals',
        ),
        (
            (Real("a", (0, 9), decimals=2), Integer("b", (0, 9), after="a")),
            (pa.float64(), pa.float64()),
            "fewer decimal places",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_rows_are_read(columns, types, message):
    fields = [(c.name, t) for c, t in zip(columns, types or [pa.int64()] * len(columns), strict=True)]
    with pytest.raises(SchemaError, match=message):
        Codec(Schema(columns), pa.schema(fields))


@pytest.mark.parametrize(
    "entry",
    ['range = ["0d", "x"]', 'range = ["2020-01-01", "2021-01-01"]', "range = [9, 0]", 'range = [0, 9]\nafter = ""'],
)
def test_faults_of_the_range(entry):
    after = "" if "after" in entry else 'after = "a"\n'
    with pytest.raises(SchemaError, match='column "b"'):
        Schema.from_toml(f'[columns.b]\nkind = "datetime"\n{after}{entry}\n')


@settings(max_examples=80, deadline=None)
@given(st.data(), st.integers(0, 99))
def test_any_two_moments(data, seed):
    types = [pa.date32(), pa.date64(), pa.string(), *(pa.timestamp(u) for u in ("s", "ms", "us", "ns"))]
    first, second = (data.draw(st.sampled_from(types)) for _ in range(2))
    step = data.draw(st.sampled_from([None, "1d", "7d", "1h", "15min", "1s"]))
    spans = st.integers(-50, 400).map(lambda n: f"{n}d") | st.integers(-100, 200).map(lambda n: f"{n}h")
    missing = data.draw(st.booleans())
    facts = {"missing": missing, "outside": data.draw(st.sampled_from(["refuse", "clip"])) if missing else "refuse"}
    try:
        base = Datetime("a", ("1999-12-30", "2002-03-01"), **facts)
        column = Datetime("b", (data.draw(spans), data.draw(spans)), after="a", step=step, **facts)
        codec = Codec(Schema((base, column)), pa.schema([("a", first), ("b", second)]))
    except SchemaError as error:
        assert 'column "' in str(error)
        assume(False)
    codes = np.tile(np.arange(codec.domain.size("b")), 2)[:5000]
    rng = np.random.default_rng(seed)
    others = [rng.integers(0, codec.domain.size(name), len(codes)) for name in codec.domain if name != "b"]
    table = codec.decode(Records.of(codec.domain, [*others, codes]), rng)
    assert [field.type for field in table.schema] == [first, second]
    records = codec.encode(table)
    gone = np.array(table["a"].is_null())
    expected = np.where(gone, codec.domain.size("b") - 1, codes)
    assert np.array_equal(records.column("b"), expected)
    half = len(codes) // 2
    pieces = Records.concatenate([codec.encode(table.slice(0, half)), codec.encode(table.slice(half))])
    assert np.array_equal(pieces.column("b"), expected)
