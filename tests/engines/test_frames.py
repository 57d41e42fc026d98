"""Types of data frames: what the rows hold changes neither the domain, nor a released type, nor whether it fits."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.engines import open_engine
from weft.engines.frames import frame_maker
from weft.errors import DataError, SchemaError
from weft.marginals.records import Records
from weft.schema import Schema
from weft.synthesis.synthesizer import Synthesizer

SCHEMA = Schema.from_toml("""
unit = "who"
rows_per_unit = 2

[columns.who]
kind = "id"
pattern = "{}"

[columns.word]
kind = "category"
values = ["x", "y", "z"]
missing = true
other = "z"

[columns.code]
kind = "category"
values = [1, 2, 3]
other = 3

[columns.whole]
kind = "integer"
range = [0, 9]
missing = true
outside = "clip"

[columns.part]
kind = "real"
range = [0.0, 5.0]
missing = true
outside = "clip"

[columns.flag]
kind = "boolean"
missing = true
outside = "clip"

[columns.day]
kind = "datetime"
range = ["2013-01-01", "2013-01-31"]
step = "1d"
missing = true
outside = "clip"
""")
ROWS = {
    "who": st.none() | st.integers(1, 5),
    "word": st.sampled_from([None, "x", "y", "?"]),
    "code": st.sampled_from([None, 1, 2, 7]),
    "whole": st.none() | st.integers(-3, 12),
    "part": st.none() | st.sampled_from([Decimal("1.5"), Decimal("2.45678"), Decimal("9"), Decimal("-1e12")]),
    "flag": st.sampled_from([None, True, False]),
    "day": st.none() | st.dates(dt.date(2012, 12, 25), dt.date(2013, 2, 5)),
}
WHOLE = ("who", "code", "whole")
POLARS = {
    "who": pl.Int64,
    "word": pl.String,
    "code": pl.Int64,
    "whole": pl.Int64,
    "part": pl.Float64,
    "flag": pl.Boolean,
    "day": pl.Date,
}
ARROW = {
    "who": pa.int64(),
    "word": pa.dictionary(pa.int8(), pa.string()),
    "code": pa.int16(),
    "whole": pa.int8(),
    "part": pa.decimal128(30, 6),
    "flag": pa.bool_(),
    "day": pa.timestamp("us"),
}


def columns(rows):
    return {name: [row[i] for row in rows] for i, name in enumerate(ROWS)}


def floats(values):
    return [None if value is None else float(value) for value in values]


def pandas_object(rows):
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns(rows).items()})


def pandas_inferred(rows):
    """Whatever pandas makes of lists: int64, float64, bool, str or object, as the values have it."""
    given = columns(rows)
    return pd.DataFrame(given | {"part": floats(given["part"])})


def pandas_nullable(rows):
    given = columns(rows)
    made = {name: pd.array(given[name], "Int64") for name in WHOLE}
    made |= {"word": pd.array(given["word"], "string"), "flag": pd.array(given["flag"], "boolean")}
    made |= {
        "part": pd.array(floats(given["part"]), "Float64"),
        "day": pd.to_datetime(pd.Series(given["day"])).dt.as_unit("us"),
    }
    return pd.DataFrame({name: made[name] for name in ROWS})


def pandas_category(rows):
    return pd.DataFrame({name: pd.Categorical(values) for name, values in columns(rows).items()})


def polars_strict(rows):
    given = columns(rows)
    return pl.DataFrame(given | {"part": floats(given["part"])}, schema=POLARS)


def polars_inferred(rows):
    """Whatever polars makes of lists: the types above, or Null; but an id's type is its own."""
    given = columns(rows)
    return pl.DataFrame(given | {"part": floats(given["part"])}, schema_overrides={"who": pl.Int64})


def polars_categorical(rows):
    return polars_strict(rows).with_columns(pl.col("word").cast(pl.Categorical))


def dictionary(array):
    encoded = array.dictionary_encode()
    return pa.DictionaryArray.from_arrays(encoded.indices.cast(pa.int8()), encoded.dictionary)


def arrow(rows):
    arrays = {}
    for name, values in columns(rows).items():
        plain = ARROW[name].value_type if pa.types.is_dictionary(ARROW[name]) else ARROW[name]
        made = pa.array(values, pa.date32()).cast(plain) if name == "day" else pa.array(values, plain)
        arrays[name] = made if plain == ARROW[name] else dictionary(made)
    return pa.table(arrays)


SOURCES = [
    pandas_object,
    pandas_inferred,
    pandas_nullable,
    pandas_category,
    polars_strict,
    polars_inferred,
    polars_categorical,
    arrow,
]


@pytest.mark.parametrize("source", SOURCES)
@settings(max_examples=4, deadline=None)
@given(rows=st.lists(st.tuples(*ROWS.values()), min_size=1, max_size=4), data=st.data())
def test_a_row_less_changes_neither_domain_nor_types(source, rows, data):
    place = data.draw(st.integers(0, len(rows) - 1))
    frames = [source(some) for some in (rows, rows[:place] + rows[place + 1 :])]
    one, other = (open_engine(frame, SCHEMA).codec for frame in frames)
    assert one.domain == other.domain
    assert one.arrow_schema.equals(other.arrow_schema, check_metadata=True)
    released = one.decode(
        Records.of(one.domain, [[0, size - 1] for size in one.domain.shape]), np.random.default_rng(0)
    )
    made, same = (frame_maker(frame, SCHEMA)(released) for frame in frames)
    assert list(getattr(made, "dtypes", [])) == list(getattr(same, "dtypes", []))


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_same_counts(source):
    rows = [
        (1, "x", 1, 4, Decimal("1.5"), True, dt.date(2013, 1, 5)),
        (2, "?", 7, 99, Decimal("2.45678"), False, dt.date(2013, 2, 5)),
        (3, None, None, None, None, None, None),
        (None, "x", 1, 4, Decimal("1.5"), True, dt.date(2013, 1, 5)),
    ]
    engine = open_engine(source(rows), SCHEMA).engine
    word, code, whole, part, flag, day = engine.count([(name,) for name in list(ROWS)[1:]])
    assert word.tolist() == [1, 0, 1, 1]
    assert code.tolist() == [1, 0, 2]
    assert np.flatnonzero(whole).tolist() == [4, 9, 10]
    assert part.sum() == 3 and part[-1] == 1
    assert flag.tolist() == [1, 1, 1]
    assert np.flatnonzero(day).tolist() == [0, 4, 5]  # weeks, and missing


def one_column(text):
    return Schema.from_toml(f"[columns.a]\n{text}\n")


def opened(values, schema, dtype=None):
    return open_engine(pd.DataFrame({"a": pd.Series(values, dtype=dtype)}), schema)


WORDS = one_column('kind = "category"\nvalues = ["x", "y"]\nmissing = true')


def test_a_column_without_values_has_the_whole_domain():
    for frame in (
        pd.DataFrame({"a": pd.Series([None, None], dtype=object)}),
        pd.DataFrame({"a": pd.Series([np.nan, np.nan])}),
        pd.DataFrame({"a": pd.Categorical([None, None])}),
        pd.DataFrame({"a": pd.Series([None, None], dtype=pd.ArrowDtype(pa.null()))}),
        pl.DataFrame({"a": [None, None]}),
        pa.table({"a": pa.nulls(2)}),
    ):
        made = open_engine(frame, WORDS)
        assert made.engine.count([("a",)])[0].tolist() == [0, 0, 2]
        released = made.codec.arrow_schema.field("a").type
        assert (released.value_type if pa.types.is_dictionary(released) else released) == pa.string()
    required = one_column('kind = "category"\nvalues = ["x", "y"]')
    with pytest.raises(DataError, match="missing"):
        open_engine(pa.table({"a": pa.nulls(2)}), required)


@pytest.mark.parametrize("kind", ["integer", "real"])
def test_one_blank_or_fraction_does_not_change_a_number_column(kind):
    schema = one_column(f'kind = "{kind}"\nrange = [0, 9]\nmissing = true\noutside = "clip"')
    types = {
        opened(values, schema).codec.arrow_schema.field("a").type
        for values in ([1, 2], [1, None], [1, 2.5], [None, None], [2**63, 1], [])
    }
    assert types == {pa.int64() if kind == "integer" else pa.float64()}


def test_numbers_beyond_the_schemas_type_go_by_the_policy():
    clip = one_column('kind = "integer"\nrange = [0, 9]\nmissing = true\noutside = "clip"')
    values = [np.inf, -np.inf, 1e300, -1e300, 2.5, np.nan, 2.0**63]
    expected = np.zeros(11, int)
    np.add.at(expected, [9, 0, 9, 0, 2, 10, 9], 1)
    assert opened(values, clip).engine.count([("a",)])[0].tolist() == expected.tolist()
    assert opened([2**64 - 1, 3], clip).engine.count([("a",)])[0][[3, 9]].tolist() == [1, 1]
    unsigned = one_column(
        'kind = "integer"\nrange = [0, 18446744073709551615]\nbins = 2\nmissing = true\noutside="clip"'
    )
    assert opened([-1, 1], unsigned).engine.count([("a",)])[0].tolist() == [2, 0, 0]
    refuse = one_column('kind = "integer"\nrange = [0, 9]\nmissing = true')
    for value in (2.5, np.inf, 1e300, 77.0):
        with pytest.raises(DataError, match='column "a"') as caught:
            opened([1.0, value], refuse)
        assert "77" not in str(caught.value)


def test_objects_of_any_sort_never_fail_a_policy_that_takes_all():
    odd = [object(), b"x", [1], {"a": 1}, "\ud800", 1, 2.5, Decimal("NaN"), dt.date(2013, 1, 1), pd.NaT, 10**40]
    for text in (
        'kind = "integer"\nrange = [0, 9]\nmissing = true\noutside = "clip"',
        'kind = "real"\nrange = [0, 9]\nmissing = true\noutside = "clip"',
        'kind = "boolean"\nmissing = true\noutside = "clip"',
        'kind = "category"\nvalues = ["x"]\nother = "y"',
        'kind = "category"\nvalues = [1]\nother = 2',
    ):
        schema = one_column(text)
        together = opened(odd, schema, object).engine.count([("a",)])[0]
        apart = sum(opened([value], schema, object).engine.count([("a",)])[0] for value in odd)
        assert together.sum() == len(odd)
        assert together.tolist() == apart.tolist()  # no value is read differently for the company it is in


def test_objects_are_read_in_the_schemas_type():
    days = one_column('kind = "datetime"\nrange = ["2013-01-01", "2013-01-09"]\nformat = "%d.%m.%Y"')
    counts = opened(["02.01.2013", "03.01.2013", "04.01.2013"], days, object).engine.count([("a",)])
    assert counts[0].tolist() == [0, 1, 1, 1, 0, 0, 0, 0, 0]
    with pytest.raises(DataError, match="are text in the schema"):  # as text it need not have had that format
        opened([dt.date(2013, 1, 2), "03.01.2013"], days, object)
    zoned = one_column('kind = "datetime"\nrange = ["2013-01-01", "2013-01-02"]\nstep = "1h"\ntimezone = "UTC"')
    moment = dt.datetime(2013, 1, 1, 7, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    assert opened([moment, pd.Timestamp(moment)], zoned, object).engine.count([("a",)])[0][5] == 2
    flags = one_column('kind = "category"\nvalues = [0, 1]')
    assert opened([1, 0, 1.0], flags, object).engine.count([("a",)])[0].tolist() == [1, 2]
    for values, dtype in (([True, 0], object), ([True, False], None)):  # DuckDB takes yes and no for truth values
        with pytest.raises((DataError, SchemaError), match="truth values"):
            opened(values, flags, dtype)
    cents = one_column('kind = "real"\nrange = [0, 9]\ntype = "decimal128(5, 2)"')
    assert opened([Decimal("1.5")], cents).codec.arrow_schema.field("a").type == pa.decimal128(5, 2)


@pytest.mark.parametrize("held", [1, 100, 127, 128, 129, 200])
def test_a_dictionary_has_room_for_the_schema_whatever_the_rows_hold(held):
    schema = Schema.from_toml(
        '[columns.a]\nkind = "category"\nvalues = [' + ",".join(f'"v{i}"' for i in range(200)) + "]"
    )
    words = pd.Series([f"v{i}" for i in range(held)])
    made = open_engine(pd.DataFrame({"a": words.astype("category")}), schema).codec
    assert made.arrow_schema.field("a").type == pa.dictionary(pa.int16(), pa.string())
    for index in (pa.int8(), pa.uint8(), pa.int32()):
        given = pa.array(words[:100], pa.string()).dictionary_encode()
        given = pa.DictionaryArray.from_arrays(given.indices.cast(index), given.dictionary)
        codec = open_engine(pa.table({"a": given}), schema).codec
        wide = index if index != pa.int8() else pa.int16()
        assert codec.arrow_schema.field("a").type == pa.dictionary(wide, pa.string())
        every = codec.encode(pa.table({"a": [f"v{i}" for i in range(200)]}))
        assert codec.decode(every, np.random.default_rng(0))["a"].to_pylist()[-1] == "v199"


def test_drawn_dictionaries_and_ids_have_room_too():
    schema = Schema.from_toml('[columns.i]\nkind = "id"\n[columns.a]\nkind = "integer"\nrange = [0, 9999]\nbins = 1')
    table = pa.table({"a": dictionary(pa.array([1, 2])), "i": dictionary(pa.array(["p", "q"]))})
    codec = open_engine(table, schema).codec
    records = codec.encode(pa.table({"a": np.arange(1000), "i": ["p"] * 1000}))
    assert len(set(codec.decode(records, np.random.default_rng(0))["i"].to_pylist())) == 1000


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["y", "x", "never"]), pl.Enum(["x", "y"])])
def test_polars_categories(dtype):
    frame = pl.DataFrame({"a": pl.Series(["x", None, "y", "x"], dtype=dtype)})
    made = fitted(frame, WORDS)
    assert open_engine(frame, WORDS).engine.count([("a",)])[0].tolist() == [2, 1, 1]
    assert made.sample(5).schema["a"] == (pl.Enum(["x", "y"]) if isinstance(dtype, pl.Enum) else pl.Categorical)


def test_an_enum_is_released_with_the_schemas_values_only():
    """The names of an Enum are values of rows, as often as not: S3CRET once left in the released dtype."""
    schema = one_column('kind = "category"\nvalues = ["x", "y"]\nother = "y"')
    for names in (["x", "S3CRET"], ["x"]):
        frame = pl.DataFrame({"a": pl.Series(["x"], dtype=pl.Enum(names))})
        assert fitted(frame, schema).sample(5).schema["a"] == pl.Enum(["x", "y"])
    pandas = pd.DataFrame({"a": pd.Categorical(["x"], categories=["S3CRET", "x"])})
    assert list(fitted(pandas, schema).sample(5)["a"].dtype.categories) == ["x", "y"]


def fitted(frame, schema):
    return Synthesizer(1.0, method="independent", noise_seed=1).fit(frame, schema)


@pytest.mark.parametrize(
    "dtype", ["int64", "int8", "uint16", "float64", "Int64", "int32[pyarrow]", "float32", "category"]
)
def test_whole_numbers_that_may_be_missing_are_always_released(dtype):
    schema = one_column('kind = "integer"\nrange = [0, 9]\nmissing = true')
    frame = pd.DataFrame({"a": pd.Series([1, 2, 3] * 5).astype(dtype)})
    # Few rows and much noise: missing is drawn in some samples and not in others.
    fits = [Synthesizer(0.1, method="independent", noise_seed=seed).fit(frame, schema) for seed in range(6)]
    samples = [fit.sample(n, seed=1)["a"] for fit in fits for n in (0, 1, 40)]
    assert any(sample.isna().any() for sample in samples)
    if dtype == "category":
        assert {type(sample.dtype) for sample in samples} == {pd.CategoricalDtype}
    else:
        assert len({str(sample.dtype) for sample in samples}) == 1
    expected = {"int64": "float64", "int8": "float64", "uint16": "float64"}.get(dtype, dtype)
    assert dtype == "category" or str(samples[0].dtype) == expected
    assert samples[-1].dropna().astype(float).between(0, 9).all()


def test_whole_numbers_that_a_float_cannot_tell_apart_are_nullable():
    for high, dtype in ((2**62, "Int64"), (2**64 - 1, "UInt64")):
        schema = one_column(f'kind = "integer"\nrange = [{high - 9}, {high}]\nmissing = true\noutside = "clip"')
        frame = pd.DataFrame({"a": [high, high - 1]})
        sample = fitted(frame, schema).sample(30)["a"]
        assert sample.dtype == dtype and sample.dropna().between(high - 9, high).all()


def test_pandas_frames_come_back_in_their_declared_dtypes():
    schema = Schema.from_toml("""
[columns.text]
kind = "category"
values = ["x"]
[columns.nullable]
kind = "category"
values = ["x"]
missing = true
[columns.small]
kind = "integer"
range = [0, 9]
[columns.half]
kind = "real"
range = [0, 9]
[columns.flag]
kind = "boolean"
[columns.maybe]
kind = "boolean"
missing = true
[columns.moment]
kind = "datetime"
range = ["2013-01-01", "2013-01-31"]
missing = true
timezone = "UTC"
date = false
[columns.day]
kind = "datetime"
range = ["2013-01-01", "2013-01-31"]
[columns.written]
kind = "datetime"
range = ["2013-01-01", "2013-01-31"]
format = "%Y-%m-%d"
[columns.who]
kind = "id"
[columns.grade]
kind = "category"
values = ["lo", "hi"]
""")
    frame = pd.DataFrame(
        {
            "text": pd.Series(["x"] * 3, dtype="str"),
            "nullable": pd.Series(["x", None, "x"], dtype="string"),
            "small": pd.Series([1, 2, 3], dtype="uint8"),
            "half": pd.Series([1, 2, 3], dtype="float32"),
            "flag": [True, False, True],
            "maybe": pd.Series([True, None, False], dtype="boolean"),
            "moment": pd.Series(["2013-01-05", None, "2013-01-07"], dtype="datetime64[us]").dt.tz_localize("UTC"),
            "day": pd.to_datetime(["2013-01-05", "2013-01-06", "2013-01-07"]).as_unit("us"),
            "written": ["2013-01-05", "2013-01-06", "2013-01-07"],
            "who": pd.Series([7, 8, 9], dtype="uint32"),
            "grade": pd.Categorical(["lo", "hi", "lo"], ["lo", "hi"], ordered=True),
        }
    )
    sample = fitted(frame, schema).sample(20)
    assert sample.dtypes.astype(str).to_dict() == frame.dtypes.astype(str).to_dict()
    assert sample["grade"].dtype == frame["grade"].dtype
    assert sample["written"].str.fullmatch(r"2013-01-\d\d").all()
    assert (sample["day"] == sample["day"].dt.normalize()).all()


def test_pandas_columns_without_a_schema_stay_unread():
    schema = Schema.from_toml('extra_columns = "ignore"\n[columns.a]\nkind = "integer"\nrange = [0, 9]')
    frame = pd.DataFrame({"b": [object(), 1j], "a": [1, 2]})
    assert open_engine(frame, schema).engine.count([()])[0] == 2
    with pytest.raises(SchemaError, match='does not describe "b"'):
        open_engine(frame, one_column('kind = "integer"\nrange = [0, 9]'))
    with pytest.raises(DataError, match="dtype complex128 cannot be read"):
        open_engine(frame.assign(a=[1j, 2j]), schema)


DAYS = one_column('kind = "datetime"\nrange = ["2013-01-01", "2013-01-31"]\nmissing = true\noutside = "clip"')
MOMENTS = one_column(
    'kind = "datetime"\nrange = ["2013-01-01", "2013-01-31"]\ndate = false\nmissing = true\noutside="clip"'
)


@pytest.mark.parametrize("schema", [DAYS, MOMENTS])
def test_one_row_never_flips_the_type_of_dates(schema):
    """The unit of datetime64 follows the finest value; the schema decides the type that is read and released."""
    texts = [["2013-01-05"], ["2013-01-05 10:00:00.5"], ["2013-01-05 10:00:00.000000001"]]
    frames = [pd.DataFrame({"a": pd.to_datetime(pd.Series(["2013-01-07", *more]), format="mixed")}) for more in texts]
    frames += [pd.DataFrame({"a": [dt.date(2013, 1, 7)]}), pl.DataFrame({"a": [dt.date(2013, 1, 7)]})]
    frames += [pl.DataFrame({"a": [dt.datetime(2013, 1, 7)]}, schema={"a": pl.Datetime(unit)}) for unit in ("ms", "ns")]
    frames += [pa.table({"a": pa.array([dt.datetime(2013, 1, 7)], pa.timestamp(unit))}) for unit in ("s", "ns")]
    made = [open_engine(frame, schema) for frame in frames]
    assert len({str(each.codec.arrow_schema) for each in made}) == 1
    assert len({int(each.engine.count([("a",)])[0].argmax()) for each in made[3:]}) == 1
    released = [fitted(frame, schema).sample(3) for frame in frames]
    assert {str(frame["a"].dtype) for frame in released[:4]} == {"datetime64[us]"}
    assert len({frame.schema["a"] for frame in released[4:7]}) == 1


@pytest.mark.parametrize("schema", [DAYS, MOMENTS])
@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"a": ["2013-01-07", "2013-01-08"]}),
        pd.DataFrame({"a": pd.Series([dt.date(2013, 1, 7), "2013-01-08"], dtype=object)}),
        pd.DataFrame({"a": pd.Categorical(["2013-01-07"])}),
        pl.DataFrame({"a": ["2013-01-07"]}),
        pa.table({"a": ["2013-01-07"]}),
    ],
    ids=["str", "object", "categories", "polars", "arrow"],
)
def test_text_for_dates_is_refused_by_its_type(schema, frame):
    """A parser of dates leaves a whole column as text where one row is no date: as text, none could be read alike."""
    with pytest.raises((DataError, SchemaError), match="does not state how they are written"):
        open_engine(frame, schema)


def test_dates_in_text_are_read_in_stated_formats():
    schema = one_column(
        'kind = "datetime"\nrange = ["2013-01-01", "2013-01-31"]\nformat = "%Y-%m-%d"\nother_formats = ["%d/%m/%Y"]\n'
        'missing = true\noutside = "clip"\nbins = 31'
    )
    read = opened(["2013-01-07", "07/01/2013", "01/25/2013", None], schema)
    counts = read.engine.count([("a",)])[0]
    assert (counts[6], counts[-1], counts.sum()) == (2, 2, 4)
    assert set(fitted(pd.DataFrame({"a": ["2013-01-07"] * 50}), schema).sample(20)["a"].dropna().str.len()) <= {10}
    with pytest.raises(SchemaError, match="text in the schema"):
        open_engine(pd.DataFrame({"a": pd.to_datetime(["2013-01-07"])}), schema)


def test_time_zones_are_the_schemas():
    zoned = pd.DataFrame({"a": pd.to_datetime(["2013-01-05 23:30:00-05:00"])})
    with pytest.raises(SchemaError, match="values have a time zone; state it"):
        open_engine(zoned, MOMENTS)
    with pytest.raises(SchemaError, match="values have a time zone; state it"):
        open_engine(pl.DataFrame({"a": pl.Series([dt.datetime(2013, 1, 5)]).dt.replace_time_zone("UTC")}), DAYS)
    schema = one_column(
        'kind = "datetime"\nrange = ["2013-01-01", "2013-01-31"]\nstep = "1h"\nbins = "each"\ntimezone = "UTC"'
    )
    whole = zoned.assign(a=zoned["a"].dt.floor("h"))
    assert open_engine(whole, schema).engine.count([("a",)])[0].argmax() == 5 * 24 + 4  # UTC: the sixth, at four


def test_a_time_of_day_is_not_cut_off_in_silence():
    strict = one_column('kind = "datetime"\nrange = ["2013-01-01", "2013-01-31"]')
    for frame in (
        pd.DataFrame({"a": pd.to_datetime(["2013-01-05 10:00:00"])}),
        pl.DataFrame({"a": [dt.datetime(2013, 1, 5, 10)]}),
    ):
        with pytest.raises(DataError, match="a finer step"):
            open_engine(frame, strict)


def test_frames_of_a_csv_reader_have_the_schemas_types(tmp_path):
    """One odd row flips what `read_csv` of each library makes of a column, and nothing of what is released."""
    schema = one_column('kind = "integer"\nrange = [0, 9]\nmissing = true\noutside = "clip"')
    readers = [pd.read_csv, pl.read_csv, pa.csv.read_csv, lambda path: pd.read_csv(path, dtype_backend="pyarrow")]
    readers.append(lambda path: pd.read_csv(path, dtype_backend="numpy_nullable"))
    for read in readers:
        types, dtypes = set(), set()
        for row in ("3", "3.5", "", "n/a", "true", "2013-01-05"):
            path = tmp_path / "rows.csv"
            path.write_text(f'a,b\n1,1\n2,1\n"{row}",1\n')
            frame = read(path)
            frame = frame.drop(columns="b") if hasattr(frame, "iloc") else frame.select(["a"])
            opened = open_engine(frame, schema)
            types.add(opened.codec.arrow_schema.field("a").type)
            counts = opened.engine.count([("a",)])[0]
            # Truth values among numbers are 1 and 0, whether the library left them text or not.
            assert counts[[1, 2]].tolist() == [1 + (row == "true"), 1] and counts.sum() == 3
            column = fitted(frame, schema).sample(4)["a"]
            dtypes.add(str(column.dtype if hasattr(column, "dtype") else column.type))
        assert types == {pa.int64()} and len(dtypes) == 1


def units(ids, **dtype):
    frame = pd.DataFrame({"who": pd.Series(ids, **dtype), "a": 1})
    schema = Schema.from_toml(
        'unit = "who"\nrows_per_unit = 1\n[columns.who]\nkind = "id"\n[columns.a]\nkind = "integer"\nrange = [0, 9]'
    )
    return int(open_engine(frame, schema).engine.count([()])[0])


def test_ids_that_a_float_would_merge_are_refused():
    """1,000 people of 64-bit numbers: one row without an id once left 10 of them."""
    ids = [2**60 + i for i in range(1000)]
    assert units(ids) == 1000
    with pytest.raises(DataError, match=r'column "who": whole numbers of 2\^53'):
        units([*ids, None])
    assert units([*ids, None], dtype="Int64") == 1000
    assert units([*range(1000), None]) == 1000
    codes = one_column(f'kind = "category"\nvalues = [{2**60}, {2**60 + 1}]\nmissing = true')
    assert opened([2**60, 2**60 + 1], codes).engine.count([("a",)])[0].tolist() == [1, 1, 0]
    with pytest.raises(DataError, match=r"2\^53"):
        opened([2**60, None], codes)


def test_ids_that_are_no_text_are_refused():
    assert units(["a", "b"], dtype=object) == 2
    for kind in (object, "str"):
        try:
            ids = pd.Series(["a\ud800", "a\udfff"], dtype=kind)
        except UnicodeEncodeError:
            continue  # this pandas holds no such text in the first place
        with pytest.raises(DataError, match='column "who": an id is invalid text'):
            units(ids)
