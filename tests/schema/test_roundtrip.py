"""Whatever a code decodes to encodes to that code again, in every kind and Arrow type."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from weft.encoding import Codec
from weft.errors import SchemaError
from weft.marginals.records import Records
from weft.schema import Boolean, Category, Datetime, Integer, Real, Schema

TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
SIGNED = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
UNSIGNED = [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float32(), pa.float64()]
DECIMALS = [pa.decimal128(38, 0), pa.decimal128(20, 3), pa.decimal128(9, 2)]
STAMPS = [pa.timestamp(u, z) for u in ("s", "ms", "us", "ns") for z in (None, "UTC", "America/New_York", "+05:30")]
DATES = [pa.date32(), pa.date64()]


def check(column, arrow_type, seed, nullable=True):
    try:
        codec = Codec(Schema((column,)), pa.schema([pa.field("x", arrow_type, nullable)]))
    except SchemaError as error:
        assert 'column "x"' in str(error)
        assume(False)
    codes = np.tile(np.arange(codec.domain.shape[0]), 3)
    rng = np.random.default_rng(seed)
    others = [rng.integers(0, size, len(codes)) for size in codec.domain.shape[1:]]
    table = codec.decode(Records.of(codec.domain, [codes, *others]), rng)
    table.validate(full=True)
    assert table.schema.field("x").type == arrow_type
    records = codec.encode(table)
    if others:  # not every week has every weekday in range: what comes out is a moment that exists, and stays so
        records, codes = codec.encode(codec.decode(records, rng)), records.columns[0]
    assert np.array_equal(records.columns[0], codes)
    assert len(codec.decode(Records.empty(codec.domain), np.random.default_rng(seed))) == 0


def wrapped(types):
    return st.sampled_from(types + [pa.dictionary(pa.int32(), t) for t in types if t != pa.string_view()])


@st.composite
def binned(draw, member, kinds):
    """Facts that every binned column may have."""
    low, high = sorted(draw(st.lists(member, min_size=2, max_size=2)))
    missing = draw(st.booleans())
    facts = {
        "missing": missing,
        "outside": draw(st.sampled_from(["refuse", "clip"])) if missing else "refuse",
        "special": tuple(draw(st.lists(member | st.sampled_from([low, high]), unique=True, max_size=3))),
    }
    cut = draw(st.sampled_from(kinds))
    if cut == "edges":
        edges = sorted(draw(st.lists(member, min_size=2, max_size=6, unique=True)))
        return facts | {"edges": tuple(edges)}
    return facts | {"range": (low, high), "bins": draw(st.integers(1, 40)) if cut == "bins" else None}


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(0, 99))
def test_integers(data, seed):
    size = data.draw(st.sampled_from([7, 100, 2**15, 2**31, 2**52, 2**63, 2**64]))
    member = (
        st.integers(0, size - 1) if data.draw(st.booleans()) else st.integers(-(min(size, 2**64) // 2), size // 2 - 1)
    )
    facts = data.draw(binned(member, ["bins", "edges", "default"]))
    column = Integer("x", step=data.draw(st.sampled_from([1, 1, 2, 7])), **facts)
    check(column, data.draw(wrapped(SIGNED + UNSIGNED + FLOATS + DECIMALS + TEXTS)), seed, data.draw(st.booleans()))


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(0, 99))
def test_reals(data, seed):
    member = data.draw(
        st.sampled_from(
            [
                st.floats(-10, 10, width=32),
                st.floats(0, 1e6),
                st.integers(-5000, 5000).map(lambda k: k / 100),
                st.floats(allow_nan=False, allow_infinity=False),
                st.floats(1, 1 + 1e-6),
            ]
        )
    ).map(lambda x: x + 0.0)
    facts = data.draw(binned(member, ["bins", "edges", "default"]))
    column = Real("x", decimals=data.draw(st.sampled_from([None, 0, 1, 2, 5])), **facts)
    check(column, data.draw(wrapped(FLOATS + DECIMALS + TEXTS + SIGNED + UNSIGNED)), seed, data.draw(st.booleans()))


@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(0, 99))
def test_datetimes(data, seed):
    years = data.draw(st.sampled_from([(1, 9999), (1900, 2100), (2013, 2013)]))
    moment = st.dates(min_value=_day(years[0], 1), max_value=_day(years[1], 12))
    member = moment.map(str) if data.draw(st.booleans()) else moment.flatmap(_times)
    facts = data.draw(binned(member, ["bins", "edges", "default"]))
    step = data.draw(st.sampled_from([None, "1d", "7d", "1h", "15min", "1s", "1ms", "250us", "1ns"]))
    try:
        column = Datetime("x", step=step, **facts)
    except SchemaError:
        assume(False)
    check(column, data.draw(wrapped(STAMPS + DATES + TEXTS)), seed)


def _day(year, month):
    import datetime

    return datetime.date(year, month, 28)


def _times(day):
    return st.tuples(st.integers(0, 23), st.integers(0, 59), st.sampled_from(["00", "30", "59.5", "00.000001"])).map(
        lambda t: f"{day} {t[0]:02d}:{t[1]:02d}:{t[2]}"
    )


@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(0, 99))
def test_categories(data, seed):
    member = data.draw(
        st.sampled_from(
            [st.text(max_size=5), st.integers(-100, 300), st.floats(-5, 5).map(lambda x: x + 0.0), st.booleans()]
        )
    )
    values = tuple(data.draw(st.lists(member, unique=True, min_size=1, max_size=8)))
    other = data.draw(st.none() | st.sampled_from(values))
    column = Category(
        "x", values, other=other, outside="refuse" if other is None else "other", missing=data.draw(st.booleans())
    )
    types = TEXTS + SIGNED + UNSIGNED + FLOATS + DECIMALS + [pa.bool_()]
    check(column, data.draw(wrapped(types)), seed, data.draw(st.booleans()))


@pytest.mark.parametrize("arrow_type", [pa.bool_(), pa.int8(), pa.float64(), *TEXTS])
@pytest.mark.parametrize("missing", [False, True])
def test_booleans(arrow_type, missing):
    check(Boolean("x", missing=missing), arrow_type, 0)


@pytest.mark.parametrize("arrow_type", [pa.int8(), pa.string(), pa.dictionary(pa.int32(), pa.string()), pa.date32()])
def test_a_table_gives_back_its_types_and_nulls(arrow_type):
    values = [1, None, 2, 1]
    array = pa.array(values, pa.int32()) if pa.types.is_date(arrow_type) else pa.array(values, pa.int8())
    plain = arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type
    array = array.cast(plain)
    if pa.types.is_dictionary(arrow_type):
        encoded = array.dictionary_encode()
        array = pa.DictionaryArray.from_arrays(encoded.indices, encoded.dictionary)
    column = (
        Datetime("x", ("1970-01-01", "1970-01-09"), missing=True)
        if pa.types.is_date(arrow_type)
        else Integer("x", (0, 9), missing=True)
    )
    table = pa.table({"x": array})
    codec = Codec(Schema((column,)), table.schema)
    assert codec.decode(codec.encode(table), np.random.default_rng(0)).equals(table)
