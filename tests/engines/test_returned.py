"""Releases come back in the types that the table had, as far as these are public: stated, or found privately."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from weft import Schema, Synthesizer
from weft.io.table_files import write_table

ROWS = 1500
RNG = np.random.default_rng(0)
WHOLE = RNG.integers(0, 50, ROWS)
MOMENTS = np.datetime64("2020-01-01", "s") + RNG.integers(0, 30_000_000, ROWS)
WORDS = RNG.choice(["a", "b"], ROWS)


def fitted(data: Any, schema: str | None = None, **settings: Any) -> Synthesizer:
    made = Synthesizer(8.0, method="independent", journal=None, noise_seed=1, **settings)
    if schema is None:
        return made.fit(data, unit=False)
    return made.fit(data, Schema.from_toml(schema))


REAL = '[columns.x]\nkind = "real"\nrange = [0.0, 50.0]\ndecimals = 0\n'
LISTED = '[columns.c]\nkind = "category"\nvalues = ["a", "b", "unused"]\n'


def test_real_numbers_stay_floats_however_whole_they_are():
    frame = pd.DataFrame({"x": WHOLE.astype(float), "c": WORDS})
    assert fitted(frame, REAL + LISTED).sample(20).x.dtype == np.float64
    assert fitted(pl.from_pandas(frame), REAL + LISTED).sample(20).schema["x"] == pl.Float64


def test_values_that_the_schema_lists_are_categories_even_if_unused_and_no_others():
    frame = pd.DataFrame({"x": WHOLE.astype(float), "c": pd.Categorical(WORDS, ["b", "private", "a"])})
    made = fitted(frame, REAL + LISTED).sample(20)
    assert made.c.cat.categories.tolist() == ["a", "b", "unused"]
    enum = pl.from_pandas(frame).with_columns(pl.col("c").cast(pl.String).cast(pl.Enum(["b", "private", "a"])))
    assert fitted(enum, REAL + LISTED).sample(20).schema["c"] == pl.Enum(["a", "b", "unused"])


@pytest.mark.parametrize("schema", [None, '[columns.0]\nkind = "integer"\nrange = [0, 50]\n[columns.1]' + LISTED[11:]])
def test_column_names_that_are_numbers_come_back_as_numbers(schema):
    frame = pd.DataFrame({0: WHOLE, 1: WORDS})
    made = fitted(frame, schema).sample(20)
    assert made.columns.tolist() == [0, 1] and made.columns.dtype == frame.columns.dtype


def moments(zone: str | None = None, kind: str | None = None) -> str:
    """Write the schema of moments, with a zone and a type if they are stated."""
    stated = (f'timezone = "{zone}"\n' if zone else "") + (f'type = "{kind}"\n' if kind else "")
    return f'[columns.t]\nkind = "datetime"\nrange = ["2020-01-01 00:00:00", "2021-01-01 00:00:00"]\n{stated}' + REAL


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_the_schema_decides_the_resolution_of_moments(unit):
    frame = pd.DataFrame({"t": MOMENTS.astype(f"datetime64[{unit}]"), "x": WHOLE.astype(float)})
    assert fitted(frame, moments()).sample(9).t.dtype == "datetime64[us]"
    assert fitted(frame, moments(kind=f"timestamp[{unit}]")).sample(9).t.dtype == f"datetime64[{unit}]"


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_the_schema_decides_the_zone_of_moments(unit):
    vienna = (
        pd.Series(MOMENTS).dt.tz_localize("UTC").dt.tz_convert("Europe/Vienna").astype(f"M8[{unit}, Europe/Vienna]")
    )
    frame = pd.DataFrame({"t": vienna, "x": WHOLE.astype(float)})
    stated = moments("Europe/Vienna", f"timestamp[{unit}, tz=Europe/Vienna]")
    assert fitted(frame, stated).sample(9).t.dtype == vienna.dtype
    made = fitted(pl.from_pandas(frame), stated).sample(9)
    assert made.schema["t"] == pl.Datetime(unit, "Europe/Vienna")


def test_a_draft_of_a_frame_states_the_types_that_come_back():
    """They may be guesses of a library, so that they are facts to be reviewed."""
    zoned = pd.Series(MOMENTS).dt.tz_localize("UTC").dt.tz_convert("Europe/Vienna").astype("M8[ns, Europe/Vienna]")
    days = MOMENTS.astype("datetime64[D]")
    columns = {"x": WHOLE.astype(float), "t": MOMENTS.astype("M8[ns]"), "v": zoned, "d": days.astype("M8[ns]")}
    frame = pd.DataFrame(columns)
    schema = Schema.from_toml(Schema.draft(frame))
    assert {"x: type", "t: type", "v: type", "v: timezone", "d: type"} <= set(schema.from_data_facts())
    for table in (frame, pl.from_pandas(frame)):
        made = Synthesizer(8.0, method="independent", journal=None, noise_seed=1, trust_data_for_schema=True)
        made = made.fit(table, Schema.from_toml(Schema.draft(table))).sample(9)
        dtypes = [dict(each.dtypes) if isinstance(each, pd.DataFrame) else dict(each.schema) for each in (table, made)]
        assert dtypes[0] == dtypes[1]


def written(made: Synthesizer, tmp_path: Path) -> list[list[str]]:
    path = tmp_path / "made.csv"
    write_table(made.tables(200, seed=1), path, schema=made.fitted_.schema)
    return [line.split(",") for line in path.read_text().splitlines()[1:]]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.csv"
    stamps = np.datetime_as_string(MOMENTS)
    lines = [
        f"{stamp},{number}.0,{number % 7}.5,17-{row:06d},{row % 20:02d}-{row:04d}"
        for row, (stamp, number) in enumerate(zip(stamps, WHOLE, strict=True))
    ]
    path.write_text("\n".join(["t,x,y,case,sample", *lines]) + "\n")
    return path


def check_spelling(rows: list[list[str]]) -> None:
    assert all(len(stamp) == 21 and stamp[11] == "T" for stamp, *_ in rows)
    assert all(number.endswith(".0") for _, number, *_ in rows)
    assert all(number[-2] == "." for _, _, number, *_ in rows)


def test_text_found_privately_is_spelled_as_it_was(text, tmp_path):
    """The spelling is a noisy count of shapes; of ids nothing is measured but that they are ids."""
    made = fitted(str(text))
    check_spelling(written(made, tmp_path))
    assert {"x: type", "t: format"} <= set(made.fitted_.schema.paid_facts())


def test_text_of_a_draft_is_spelled_as_it_was(text, tmp_path):
    schema = Schema.draft(str(text))
    rows = written(fitted(str(text), schema, trust_data_for_schema=True), tmp_path)
    check_spelling(rows)
    assert [row[3] for row in rows[:2]] == ['"17-000001"', '"17-000002"']
    assert [row[4] for row in rows[:2]] == ['"00-0001"', '"00-0002"']


def test_whole_numbers_beyond_exact_floats_are_not_found_to_be_floats(tmp_path):
    path = tmp_path / "large.csv"
    path.write_text("x,y\n" + "".join(f"{4 * 10**17 + row}.0,{row % 3}\n" for row in range(ROWS)))
    made = fitted(str(path))
    assert made.fitted_.schema.column("x").type is None and len(made.sample(5)) == 5


def test_a_resolution_that_discovery_chose_is_that_of_all_other_moments():
    """A table of days at midnight is found to be timestamp[s]; in a frame it is in microseconds, as any moment."""
    days = MOMENTS.astype("datetime64[D]").astype("datetime64[s]")
    found = moments(kind="timestamp[s]").replace('kind = "datetime"', 'kind = "datetime"\npaid = ["type"]')
    frame = pd.DataFrame({"t": days, "x": WHOLE.astype(float)})
    assert fitted(frame, found).sample(9).t.dtype == "datetime64[us]"
    assert fitted(pl.from_pandas(frame), found).sample(9).schema["t"] == pl.Datetime("us")
