"""Lengths of time in data frames and Parquet: with a schema, with a draft and with none they come back as such."""

import datetime as dt
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft import Schema, Synthesizer
from weft.engines import open_engine
from weft.engines.sources import open_reader
from weft.errors import SchemaError, WeftError
from weft.progress import ignore_event
from weft.synthesis.discovery.probes import grid_look

CLIP = 'missing = true\noutside = "clip"\n'
STAYS = pd.DataFrame({"stay": pd.to_timedelta([*range(295), None] * 8, unit="min"), "n": [1, 2] * 1184})
STATED = Schema.from_toml(
    '[columns.stay]\nkind = "duration"\nrange = ["0min", "6h"]\nstep = "1min"\nmissing = true\noutside = "clip"\n'
    '[columns.n]\nkind = "integer"\nrange = [1, 2]\n'
)


def in_parquet(unit):
    def write(frame, folder):
        spans = pa.array(frame["stay"], from_pandas=True).cast(pa.duration(unit), safe=False)
        table = pa.table({"stay": spans, "n": frame["n"]})
        pq.write_table(table, folder / "stays.parquet")
        return folder / "stays.parquet"

    return write


HELD = {
    "pandas": (lambda frame, _: frame, "timedelta64[us]"),
    "pandas, seconds": (lambda frame, _: frame.astype({"stay": "timedelta64[s]"}), "timedelta64[us]"),
    "pandas, of Arrow": (
        lambda frame, _: frame.astype({"stay": pd.ArrowDtype(pa.duration("ms"))}),
        "duration[us][pyarrow]",
    ),
    "polars": (lambda frame, _: pl.from_pandas(frame), "Duration(time_unit='us')"),
    "arrow": (lambda frame, _: pa.Table.from_pandas(frame), "duration[us]"),
    **{f"parquet, {unit}": (in_parquet(unit), f"duration[{unit}]") for unit in ("s", "ms", "us", "ns")},
}


def type_of(made):
    if isinstance(made, pa.Table):
        return str(made.schema.field("stay").type)
    return str(made["stay"].dtype)


@pytest.mark.parametrize("schema", [STATED, None, "drafted"], ids=["stated", "found", "drafted"])
@pytest.mark.parametrize("source", HELD)
def test_lengths_of_time_come_back_as_such(source, schema, tmp_path):
    hold, wanted = HELD[source]
    given = hold(STAYS, tmp_path)
    who = {"unit": False} if schema is None else {}
    if schema is None and not source.startswith("parquet"):
        with pytest.raises(SchemaError, match=r'"stay": "duration"'):
            Synthesizer(8.0, journal=None).fit(given, **who)
        schema = {"stay": "duration"}
    if schema == "drafted":
        schema = Schema.from_toml(Schema.draft(given))
        assert (schema.column("stay").kind, schema.column("stay").range) == ("duration", ("0d", "294min"))
    fit = Synthesizer(8.0, method="independent", noise_seed=1, journal=None, trust_data_for_schema=True).fit
    made = fit(given, schema, **who).sample(300, seed=1)
    assert type_of(made) == wanted
    column = made["stay"].to_pylist() if isinstance(made, pa.Table) else list(made["stay"])
    spans = pd.to_timedelta(pd.Series([None if pd.isna(each) else each for each in column]))
    assert spans.dropna().between(pd.Timedelta(0), pd.Timedelta(hours=6)).all()
    assert 60 < spans.median() / pd.Timedelta(minutes=1) < 240 and spans.notna().sum() > 250


@pytest.mark.parametrize("odd", ["1ns", "-40000D", "90000D", "1us", None])
@pytest.mark.parametrize("source", [name for name in HELD if not name.startswith("parquet")])
def test_one_odd_length_of_time_moves_no_other_row(source, odd, tmp_path):
    """Read with what discovery looks at, and with a schema: one row more is one row more in one cell."""
    look = Schema((grid_look("stay", {"kind": "duration"}, pa.duration("us")).column,), extra_columns="ignore")
    fine = replace(STATED, columns=(replace(STATED.columns[0], step="1ms"), STATED.columns[1]))
    more = pd.concat(
        [STAYS, pd.DataFrame({"stay": [pd.Timedelta(odd) if odd else pd.NaT], "n": [1]})], ignore_index=True
    )
    for schema in (look, STATED, fine):
        counts = [
            open_engine(HELD[source][0](frame, tmp_path), schema, engine="memory").engine.count([("stay",)])[0]
            for frame in (STAYS, more)
        ]
        moved = counts[1].astype(int) - counts[0].astype(int)
        assert sorted(moved.tolist()) == [0] * (len(moved) - 1) + [1]


NANOSECONDS = [1000, 61_500_000_000, -5000, 10**18 + 7000, 1, -1, 9 * 10**18, 9_223_000_000_000_000_001, 1 - 2**63]
BEYOND = 4 * 10**9
"""Of the last units in 64 bits, so many lie beyond what a schema can state, 153722867min or 106751991d."""
AS_OBJECTS = {
    "pandas": lambda spans: spans.astype(object),
    "numpy": lambda spans: pd.Series(list(spans.to_numpy()), dtype=object),
}


def read_of(frame, step):
    """Return the type of column c, and its values as whole numbers."""
    schema = Schema.from_toml(f'[columns.c]\nkind = "duration"\nrange = ["0d", "90d"]\nstep = "{step}"\n{CLIP}')
    reader = open_reader(frame, schema, 100)
    pieces = reader.read(["c"], lambda batch: batch.column("c").cast("int64"), ignore_event, "count")
    return reader.schema, [value for _, array in pieces for value in array.to_pylist()]


@pytest.mark.parametrize(
    "odd", ["words", "1:30:00", 7, dt.timedelta(days=900_000), dt.timedelta(microseconds=1), np.timedelta64(2**62, "D")]
)
@pytest.mark.parametrize("objects", AS_OBJECTS)
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_an_object_among_them_moves_none_either(unit, objects, odd):
    """One object makes a column of objects; the others are read as they were, to the nanosecond, in the same type."""
    spans = pd.Series(np.array(NANOSECONDS, "m8[ns]").astype(f"m8[{unit}]"))
    if unit == "s":
        spans = pd.concat([spans, pd.Series(np.array([10**13, -(10**17)], "m8[s]"))], ignore_index=True)
    beside = pd.concat([AS_OBJECTS[objects](spans), pd.Series([odd], dtype=object)], ignore_index=True)
    for step in ("1s", "1ms", "1ns"):
        (first_type, first), (second_type, second) = (
            read_of(pd.DataFrame({"c": each}), step) for each in (spans, beside)
        )
        assert first_type == second_type
        assert [held(value) for value in first] == [held(value) for value in second[:-1]]


def held(value):
    """Return a length as every range that can be stated sees it: the longest ones are all at its end."""
    return None if value is None else min(max(value, -(2**63) + BEYOND), 2**63 - BEYOND)


@pytest.mark.parametrize("unit", ["W", "D", "h", "m", "s", "ms", "us", "ns", "generic"])
def test_objects_of_numpy_are_read_in_every_unit_that_pandas_takes(unit):
    """Two hundred alike, and one text that makes them objects: one row more in one cell."""
    spans = [np.timedelta64(n % 5, unit) for n in range(200)]
    _, first = read_of(pd.DataFrame({"c": spans}), "1ns")
    _, second = read_of(pd.DataFrame({"c": [*spans, "words"]}), "1ns")
    assert [*first, None] == second and first[1] > 0


@pytest.mark.parametrize("unit", ["Y", "M", "ps"])
def test_objects_of_numpy_without_an_exact_length_are_missing_by_themselves(unit):
    spans = pd.Series([np.timedelta64(1, "h"), np.timedelta64(1, unit), np.timedelta64("NaT")], dtype=object)
    assert read_of(pd.DataFrame({"c": spans}), "1s")[1] == [3_600_000_000, None, None]


SPELLED = [
    *(dt.timedelta(microseconds=sign * n) for sign in (1, -1) for n in (0, 1, 999_999, 10**6, 3_600_000_000)),
    *(sign * dt.timedelta(1, 9005, 3002) for sign in (1, -1)),
    dt.timedelta(days=106_751_991),
    None,
]


@pytest.mark.parametrize("step", ["1h", "1s", "1ms", "1us", "1ns"])
def test_lengths_that_polars_spells_out_are_read_as_they_were(step):
    """One text makes Polars spell all lengths of time; the others stay where they were."""
    alone, among = pl.Series("c", SPELLED), pl.Series("c", [*SPELLED, "words"], strict=False)
    assert among.dtype == pl.String and "-1d -2h -30m -5s -3002µs" in among.to_list()
    (first_type, first), (second_type, second) = (read_of(each.to_frame(), step) for each in (alone, among))
    assert first_type == second_type and [*map(held, first), None] == [None if v is None else held(v) for v in second]


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("1d 2h 30m 5s 3ms 2µs", 95_405_003_002),
        ("-1d -2h", -93_600_000_000),
        ("1500ns", 1),
        ("-1ms", -1000),
        *((odd, None) for odd in ("", " ", "-", "1d -2h", "-1d 2h", "2h 1d", "h", "1 h", "1h1", "x1h", "100h")),
        ("99999999999999999999us", None),
    ],
)
def test_how_a_length_is_spelled_decides_alone(text, microseconds):
    assert read_of(pd.DataFrame({"c": [text, "1:00:00"]}), "1us")[1] == [microseconds, 3_600_000_000]


def test_lengths_of_time_written_as_text_are_found_where_their_kind_is_stated(tmp_path):
    (tmp_path / "rows.csv").write_text("stay\n" + "".join(f"{n % 40}:{n % 60:02d}:00\n" for n in range(3000)))
    schema = Schema.from_toml('[columns.stay]\nkind = "duration"\n')
    fitted = Synthesizer(8.0, method="independent", noise_seed=1, journal=None).fit(tmp_path / "rows.csv", schema)
    assert fitted.fitted_.schema.column("stay").range == ("0d", "2d")
    assert fitted.sample(50).schema.field("stay").type == pa.string()


@pytest.mark.parametrize(
    ("source", "step"),
    [("csv", "1ms"), ("s", "1ms"), ("ms", "1us"), ("us", "1ns"), ("us", "1500ns"), ("csv", "a while")],
)
def test_a_step_finer_than_the_type_is_refused_before_anything_is_spent(source, step, tmp_path):
    if source == "csv":
        path = tmp_path / "rows.csv"
        path.write_text("stay,n\n" + "0:00:01,1\n" * 200)
    else:
        path = in_parquet(source)(STAYS, tmp_path)
    schema = Schema.from_toml(f'extra_columns = "discover"\n[columns.stay]\nkind = "duration"\nstep = "{step}"\n')
    journal = tmp_path / "run.ledger.jsonl"
    made = Synthesizer(2.0, method="independent", journal=journal, trust_data_for_schema=True)
    with pytest.raises(
        WeftError, match=r'column "stay": step (is finer than its type .* coarser|must be a duration such as)'
    ):
        made.fit(path, schema)
    assert not journal.exists() or "question" not in journal.read_text()


@pytest.mark.parametrize("source", ["pandas", "polars", "arrow"])
def test_a_frame_is_read_as_finely_as_the_step_says(source, tmp_path):
    spans = pd.DataFrame({"stay": pd.to_timedelta([*range(500)] * 4, unit="ns"), "n": [1, 2] * 1000})
    schema = Schema.from_toml('extra_columns = "discover"\n[columns.stay]\nkind = "duration"\nstep = "1ns"\n')
    made = Synthesizer(8.0, method="independent", noise_seed=1, journal=None).fit(
        HELD[source][0](spans, tmp_path), schema
    )
    assert made.fitted_.schema.column("stay").step == "1ns"
