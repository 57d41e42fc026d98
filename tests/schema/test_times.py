"""Times of day, lengths of time, and days and moments written as whole numbers."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from weft import Synthesizer
from weft.drafting.draft import draft
from weft.encoding import Codec
from weft.errors import DataError, SchemaError
from weft.evaluation.report.report_codes import label_codes
from weft.marginals.records import Records
from weft.schema import Datetime, Duration, Schema, Time
from weft.values.storage import DayNumbers

TIMES = [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.string(), pa.large_string()]
TIMES += [pa.dictionary(pa.int32(), pa.time64("us")), pa.dictionary(pa.int32(), pa.string())]
DURATIONS = [pa.duration(unit) for unit in ("s", "ms", "us", "ns")] + [pa.string()]
NUMBERS = [pa.int32(), pa.int64(), pa.uint32(), pa.uint64()]


def codec_of(column, arrow_type):
    try:
        return Codec(Schema((column,)), pa.schema([("x", arrow_type)]))
    except SchemaError as error:
        assert 'column "x"' in str(error)
        assume(False)


def check(column, arrow_type, seed):
    codec = codec_of(column, arrow_type)
    rng = np.random.default_rng(seed)
    codes = np.tile(np.arange(codec.domain.shape[0]), 2)
    others = [rng.integers(0, size, len(codes)) for size in codec.domain.shape[1:]]
    table = codec.decode(Records.of(codec.domain, [codes, *others]), rng)
    table.validate(full=True)
    assert table.schema.field("x").type == arrow_type
    records = codec.encode(table)
    if not others:
        assert np.array_equal(records.columns[0], codes)
    half = len(codes) // 2
    pieces = Records.concatenate([codec.encode(table.slice(0, half)), codec.encode(table.slice(half))])
    assert all(np.array_equal(x, y) for x, y in zip(pieces.columns, records.columns, strict=True))
    again = codec.encode(codec.decode(records, rng))
    assert all(np.array_equal(x, y) for x, y in zip(again.columns, records.columns, strict=True))


@settings(max_examples=25, deadline=None)
@given(st.data(), st.integers(0, 99))
def test_any_times_of_day(data, seed):
    step = data.draw(st.sampled_from(["1min", "15min", "1s", "1h", "7min", "500ms"]))
    ends = sorted(data.draw(st.lists(st.times().map(lambda t: t.strftime("%H:%M:%S")), min_size=2, max_size=2)))
    missing = data.draw(st.booleans())
    facts = {
        "range": data.draw(st.sampled_from([None, tuple(ends)])),
        "step": step,
        "missing": missing,
        "outside": "clip" if missing else "refuse",
        "bins": data.draw(st.sampled_from([None, 5])),
        "special": data.draw(st.sampled_from([(), ("12:00",)])),
    }
    check(Time("x", **facts), data.draw(st.sampled_from(TIMES)), seed)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(0, 99))
def test_any_lengths_of_time(data, seed):
    spans = st.integers(-3000, 50_000)
    low, high = sorted(data.draw(st.lists(spans, min_size=2, max_size=2)))
    step = data.draw(st.sampled_from(["1min", "15min", "1s", "1h"]))
    facts = {"step": step, "missing": True, "outside": "clip", "bins": data.draw(st.sampled_from([None, 5]))}
    check(Duration("x", (f"{low}min", f"{high}min"), **facts), data.draw(st.sampled_from(DURATIONS)), seed)


@pytest.mark.parametrize("arrow_type", NUMBERS)
@pytest.mark.parametrize("bins", [None, 12])
def test_days_as_whole_numbers(arrow_type, bins):
    column = Datetime("x", ("1999-02-27", "2000-03-02"), format="%Y%m%d", bins=bins, missing=True)
    check(column, arrow_type, 0)
    codec = codec_of(column, arrow_type)
    made = codec.decode(
        Records.of(codec.domain, [np.random.default_rng(0).integers(0, s, 3000) for s in codec.domain.shape]),
        np.random.default_rng(0),
    )
    for value in made["x"].drop_null().to_pylist():
        dt.datetime.strptime(str(value), "%Y%m%d")
    for wrong in (20000172, 19990229, 20000230, 0, 2**31 - 1):
        with pytest.raises(DataError, match='column "x": a value lies outside'):
            codec.encode(pa.table({"x": pa.array([wrong], arrow_type)}))


def test_every_day_number_by_brute_force():
    days = [dt.date(1600, 1, 1) + dt.timedelta(n) for n in range(0, 250_000, 17)]
    array = pa.array([d.year * 10_000 + d.month * 100 + d.day for d in days])
    carrier = DayNumbers(pa.int64())
    reading = carrier.read(array)
    assert not reading.unreadable.any()
    assert reading.values.tolist() == [(d - dt.date(1970, 1, 1)).days for d in days]
    assert carrier.write(reading.values.view(np.uint64), reading.missing).equals(array)


@pytest.mark.parametrize(("form", "scale"), [("epoch", 1), ("epoch_ms", 1000)])
def test_epochs(form, scale):
    column = Datetime("x", ("2024-01-01 00:00", "2024-03-31 23:00"), step="1h", format=form)
    check(column, pa.int64(), 0)
    codec = codec_of(column, pa.int64())
    first = int(dt.datetime(2024, 1, 1, 5, tzinfo=dt.UTC).timestamp()) * scale
    records = codec.encode(pa.table({"x": [first]}))
    assert codec.domain.names == ("x", "x (weekday)", "x (hour)")
    assert [int(part[0]) for part in records.columns] == [0, 0, 5]
    assert codec.decode(records, np.random.default_rng(0))["x"].to_pylist() == [first]
    with pytest.raises(SchemaError, match="does not fit its type string"):
        Codec(Schema((column,)), pa.schema([("x", pa.string())]))


def test_whole_numbers_come_after_one_another():
    base = Datetime("a", ("2024-01-01", "2024-12-31"), format="%Y%m%d")
    schema = Schema((base, Datetime("b", ("0d", "40d"), after="a", format="%Y%m%d")))
    table = pa.table({"a": [20240131, 20240228, 20241231], "b": [20240131, 20240301, 20250101]})
    codec = Codec(schema, table.schema)
    assert codec.encode(table).column("b").tolist() == [0, 2, 1]


def test_heaps_of_the_clock_are_told_apart():
    column = Time("x")
    codec = Codec(Schema((column,)), pa.schema([("x", pa.time32("s"))]))
    grid = codec.domain.order("x").fine_grid(1440)
    assert grid.size == codec.domain.size("x") == 1440
    assert grid.levels[60] > grid.levels[30] > grid.levels[15] > grid.levels[5] > grid.levels[1] == 0
    assert [str(label) for label in label_codes(codec, "x")[:2]] == ["00:00", "00:01"]
    fine = Codec(Schema((Time("x", step="1s"),)), pa.schema([("x", pa.time32("s"))])).domain
    assert fine.size("x") == 86_400
    assert fine.order("x").fine_grid(86_400).size < 10_000


def test_faults():
    for entry in ('step = "1 hour"', 'range = ["8", "9"]', 'range = ["09:00", "08:00"]', 'after = "y"', 'format = "x"'):
        with pytest.raises(SchemaError, match='line 3: column "x"'):
            Schema.from_toml(f'[columns.x]\nkind = "time"\n{entry}\n')
    with pytest.raises(SchemaError, match='column "x"'):
        Schema.from_toml('[columns.x]\nkind = "duration"\nrange = ["1h", "x"]\n')
    with pytest.raises(SchemaError, match="format loses part"):
        Codec(Schema((Time("x", step="1s", format="%H:%M"),)), pa.schema([("x", pa.string())]))
    codec = Codec(Schema((Time("x"),)), pa.schema([("x", pa.string())]))
    for word in ("24:00", "8h", "08:30:01"):
        with pytest.raises(DataError, match='column "x": a value lies outside'):
            codec.encode(pa.table({"x": [word]}))


def test_drafts():
    minutes = [f"{n % 24:02d}:{n * 5 % 60:02d}" for n in range(60)]
    table = pa.table(
        {
            "at": minutes,
            "exact": [f"{word}:07" for word in minutes],
            "clock": pa.array([dt.time(n % 24, 30) for n in range(60)]),
            "long": pa.array([dt.timedelta(minutes=15 * n) for n in range(60)]),
            "day": [20230101 + n % 28 for n in range(60)],
            "number": [20230101 + n for n in range(60)],
        }
    )
    schema = Schema.from_toml(draft(table, "rows"))
    kinds = {c.name: c.kind for c in schema.columns}
    times = {"at": "time", "exact": "time", "clock": "time", "long": "duration"}
    assert kinds == times | {"day": "datetime", "number": "id"}
    assert schema.column("day").format == "%Y%m%d"
    assert (schema.column("at").step, schema.column("exact").format) == ("5min", "%H:%M:%S")
    Codec(schema, table.schema).encode(table)


@pytest.mark.parametrize("outside", ["", 'missing = true\noutside = "clip"\n'])
def test_from_a_file_to_a_release(tmp_path, outside):
    path = tmp_path / "rows.csv"
    path.write_text("at,spelled,day,long\n" + "08:30:00,8h30,20240229,1:30:00\n17:05:00,17h05,20240301,0:05:00\n" * 200)
    schema = Schema.from_toml(
        f'[columns.at]\nkind = "time"\n{outside}[columns.spelled]\nkind = "time"\nformat = "%Hh%M"\n{outside}'
        f'[columns.day]\nkind = "datetime"\nrange = ["2024-01-01", "2024-12-31"]\nformat = "%Y%m%d"\n'
        f'type = "int32"\n{outside}'
        f'[columns.long]\nkind = "duration"\nrange = ["0min", "3h"]\nstep = "5min"\n{outside}'
    )
    made = Synthesizer(20.0, method="independent", noise_seed=1, journal=None).fit(path, schema).sample()
    assert [str(field.type) for field in made.schema] == ["time32[s]", "string", "int32", "string"]
    rows = made.to_pydict()
    assert sum(at == dt.time(8, 30) for at in rows["at"]) > 150
    assert rows["spelled"].count("08h30") > 150
    assert rows["long"].count("1:30:00") > 150
    assert all(day is None or 20240101 <= day <= 20241231 for day in rows["day"])


def test_times_in_frames_have_the_type_of_the_schema():
    import pandas as pd

    times = [dt.time(8, 30), None, dt.time(17)] * 50
    schema = Schema((Time("x", missing=True, outside="clip", type="time64[ns]"),))
    fit = Synthesizer(8.0, method="independent", noise_seed=1, journal=None).fit
    declared = pa.table({"x": pa.array(times, pa.time64("ns"))})
    assert fit(declared, schema).sample().schema.field("x").type == pa.time64("ns")
    made = fit(pd.DataFrame({"x": times}), schema).sample()
    assert dt.time(8, 30) in set(made["x"])


def test_the_finest_steps_have_cells_of_a_second():
    column = Duration("x", ("0h", "2000d"), step="1ns")
    codec = Codec(Schema((column,)), pa.schema([("x", pa.duration("ns"))]))
    assert codec.domain.size("x") < 20_000
