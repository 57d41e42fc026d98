"""Dates in pieces: learned as one date, made as pieces that fit together; sums of a date and days."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from weft import Schema, Synthesizer
from weft.encoding import Codec, count_broken_rows
from weft.errors import DataError, SchemaError
from weft.marginals.records import Records

MONTHS = ["Dec", "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov"]
TEXT = f"""
[columns.arrival]
kind = "datetime"
range = ["2015-07-01", "2017-08-31"]
pieces = {{year = "y", month = "m", day = "d", week = "w"}}
[columns.y]
kind = "integer"
range = [2015, 2017]
[columns.m]
kind = "category"
values = {MONTHS}
[columns.d]
kind = "integer"
range = [1, 31]
[columns.w]
kind = "integer"
range = [1, 53]
[columns.left]
kind = "datetime"
after = "arrival"
range = ["-30d", "70d"]
[columns.nights]
kind = "integer"
range = [0, 20]
[columns.status]
kind = "category"
values = ["out", "no"]
[[rules]]
sum = ["arrival", "nights"]
is = "left"
when = {{status = "out"}}
"""
SCHEMA = Schema.from_toml(TEXT)


def table(rows=2000, seed=0):
    rng = np.random.default_rng(seed)
    days = [dt.date(2015, 7, 1) + dt.timedelta(days=int(n)) for n in rng.integers(0, 793, rows)]
    nights = rng.integers(0, 20, rows)
    out = rng.random(rows) < 0.7
    left = [d + dt.timedelta(days=int(n) if o else -3) for d, n, o in zip(days, nights, out, strict=True)]
    return pa.table(
        {
            "y": pa.array([d.year for d in days], pa.int16()),
            "m": [d.strftime("%b") for d in days],
            "d": [d.day for d in days],
            "w": [d.isocalendar().week for d in days],
            "left": left,
            "nights": nights,
            "status": np.where(out, "out", "no"),
        }
    )


def dates(made):
    return [
        dt.date(y, MONTHS.index(m) or 12, d)
        for y, m, d in zip(*(made.column(n).to_pylist() for n in "ymd"), strict=True)
    ]


def test_pieces_come_back_as_they_were():
    rows = table()
    codec = Codec(SCHEMA, rows.schema)
    assert set(codec.domain.names) == {"arrival", "arrival (weekday)", "left", "nights", "status"}
    made = codec.decode(codec.encode(rows), np.random.default_rng(1))
    assert made.equals(rows)


def test_each_row_is_put_together_by_itself():
    rows = table(50)
    codec = Codec(SCHEMA, rows.schema)
    whole = codec.encode(rows)
    for i in range(50):
        one = codec.encode(rows.slice(i, 1))
        assert [c[0] for c in one.columns] == [c[i] for c in whole.columns]


def test_whatever_is_drawn_is_a_day_that_exists_and_sums_hold():
    codec = Codec(SCHEMA, table(1).schema)
    rng = np.random.default_rng(2)
    codes = [rng.integers(0, size, 50_000) for size in codec.domain.shape]
    made = codec.decode(Records.of(codec.domain, codes), rng)
    found = dates(made)  # a day that does not exist would not make a date
    assert [d.isocalendar().week for d in found] == made.column("w").to_pylist()
    assert sum(count_broken_rows(made, SCHEMA).values()) == 0
    gaps = {(b - a).days for a, b in zip(found, made.column("left").to_pylist(), strict=True)}
    assert min(gaps) >= -30 and max(gaps) <= 70


@pytest.mark.parametrize("method", ["independent", "weave"])
def test_a_model_keeps_the_date_whole(method, tmp_path):
    import weft

    rows = table(4000)
    fitted = Synthesizer(8.0, method=method, journal=None, noise_seed=1).fit(rows, SCHEMA)
    fitted.save(tmp_path / "model.weft")
    made = weft.load(tmp_path / "model.weft").sample(3000, seed=1)
    assert made.schema.equals(rows.schema)
    assert sum(count_broken_rows(made, SCHEMA).values()) == 0
    assert min(dates(made)) >= dt.date(2015, 7, 1)


def test_a_csv_has_the_pieces_and_not_the_date(tmp_path):
    import pyarrow.csv as pc

    path = tmp_path / "stays.csv"
    pc.write_csv(table(300), path)
    made = Synthesizer(4.0, method="independent", journal=None, noise_seed=1).fit(path, SCHEMA).sample(20, seed=1)
    assert made.column_names == ["y", "m", "d", "w", "left", "nights", "status"]


def test_a_31st_of_june_counts_as_the_30th():
    rows = table(1).set_column(1, "m", pa.array(["Jun"])).set_column(2, "d", pa.array([31]))
    rows = rows.set_column(0, "y", pa.array([2016], pa.int16())).set_column(4, "left", pa.array([dt.date(2016, 7, 1)]))
    codec = Codec(SCHEMA, rows.schema)
    made = codec.decode(codec.encode(rows), np.random.default_rng(0))
    assert dates(made) == [dt.date(2016, 6, 30)]


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ('day = "d", ', "", "pieces must name the columns of year, month and day"),
        ('day = "d"', 'day = "x"', '"x", which is not a column'),
        ('day = "d"', 'day = "status"', "must hold whole numbers"),
        ("range = [1, 31]", "range = [1, 28]", "must reach from 1 to 31"),
        ('"Dec", ', '"Xyz", ', "twelve months"),
        ('range = ["2015-07-01", "2017-08-31"]', 'range = ["2015-07-01 10:00", "2017-08-31"]', "plain dates"),
    ],
)
def test_pieces_that_make_no_date_are_refused(old, new, match):
    text = TEXT.replace(old, new) if '"Xyz"' not in new else TEXT.replace("'Dec', ", "'Xyz', ")
    with pytest.raises(SchemaError, match=match):
        Codec(Schema.from_toml(text), table(1).schema)


def test_a_date_outside_the_range_is_refused_without_telling_it():
    rows = table(5).set_column(0, "y", pa.array([2015] * 5, pa.int16())).set_column(1, "m", pa.array(["Jan"] * 5))
    with pytest.raises(DataError, match='column "arrival"'):
        Codec(SCHEMA, rows.schema).encode(rows)


def test_a_sum_speaks_of_the_rows_that_it_is_about():
    text = TEXT.replace('when = {status = "out"}\n', 'when = {status = "out"}\npolicy = "refuse"\n')
    rows = table(100)
    Codec(Schema.from_toml(text), rows.schema).encode(rows)
    wrong = rows.set_column(5, "nights", pa.array([20] * 100))
    with pytest.raises(DataError, match="rule 1"):
        Codec(Schema.from_toml(text), rows.schema).encode(wrong)
    with pytest.raises(SchemaError, match="one date and numbers of days"):
        Schema.from_toml(TEXT.replace('sum = ["arrival", "nights"]', 'sum = ["nights", "d"]'))
