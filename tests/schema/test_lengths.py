"""Lengths of time in data frames and Parquet: with a schema, with a draft and with none they come back as such."""

import datetime as dt
from dataclasses import replace

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft import Schema, Synthesizer
from weft.discovery.looks import grid_look
from weft.engines import open_engine
from weft.engines.sources import open_reader
from weft.errors import BudgetError
from weft.progress import silence

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
        with pytest.raises(BudgetError, match=r'"stay": lengths of time .* kind = "duration"'):
            Synthesizer(8.0, journal=None).fit(given, **who)
        schema, who = Schema.from_toml('extra_columns = "discover"\n[columns.stay]\nkind = "duration"\n'), {}
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


@pytest.mark.parametrize("odd", ["words", "1:30:00", 7, dt.timedelta(days=900_000), dt.timedelta(microseconds=1)])
def test_an_object_among_them_moves_none_either(odd):
    """One object makes a column of objects; the others are read as they were, to the nanosecond, in the same type."""
    spans = pd.Series(pd.to_timedelta([1, 61_500_000, -5, 10**15 + 7], unit="us").append(pd.to_timedelta(["1ns"])))
    beside = pd.concat([spans.astype(object), pd.Series([odd])], ignore_index=True)
    for step in ("1s", "1ms", "1ns"):
        schema = Schema.from_toml(f'[columns.c]\nkind = "duration"\nrange = ["0d", "90d"]\nstep = "{step}"\n{CLIP}')
        alone, among = (open_reader(pd.DataFrame({"c": each}), schema, 100) for each in (spans, beside))
        assert alone.schema == among.schema
        first, second = (
            [
                value
                for _, array in each.read(["c"], lambda b: b.column("c").cast("int64"), silence, "count")
                for value in array.to_pylist()
            ]
            for each in (alone, among)
        )
        assert first == second[:-1]


def test_lengths_of_time_written_as_text_are_found_where_their_kind_is_stated(tmp_path):
    (tmp_path / "rows.csv").write_text("stay\n" + "".join(f"{n % 40}:{n % 60:02d}:00\n" for n in range(3000)))
    schema = Schema.from_toml('[columns.stay]\nkind = "duration"\n')
    fitted = Synthesizer(8.0, method="independent", noise_seed=1, journal=None).fit(tmp_path / "rows.csv", schema)
    assert fitted.fitted_.schema.column("stay").range == ("0d", "2d")
    assert fitted.sample(50).schema.field("stay").type == pa.string()
