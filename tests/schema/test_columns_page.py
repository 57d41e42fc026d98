"""Every schema on the page about columns loads, makes rows in its own types, and reads them again."""

import datetime as dt
import re
from pathlib import Path

import numpy as np
import pytest

from weft.encoding import Codec
from weft.io.text_to_types import csv_arrow_schema
from weft.marginals.records import Records
from weft.schema import KINDS, Schema

PAGE = (Path(__file__).parents[2] / "docs" / "columns.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def rows_of(text, rows=500):
    schema = Schema.from_toml(text)
    assert Schema.from_toml(schema.to_toml()) == schema
    codec = Codec(schema, csv_arrow_schema(schema))
    assert Codec.from_dict(codec.to_dict()).domain == codec.domain
    rng = np.random.default_rng(0)
    table = codec.decode(Records.of(codec.domain, [rng.integers(0, size, rows) for size in codec.domain.shape]), rng)
    records = codec.encode(table)
    again = codec.encode(codec.decode(records, rng))
    assert all(np.array_equal(x, y) for x, y in zip(records.columns, again.columns, strict=True))
    return table.to_pylist()


@pytest.mark.parametrize("text", BLOCKS)
def test_an_example_runs(text):
    assert len(rows_of(text)) == 500


def test_the_page_shows_what_it_says():
    made = {name: row for text in BLOCKS for row in rows_of(text) for name in [tuple(row)]}
    assert len(made) == len(BLOCKS)
    stays, visits, trips, wards, pieces, people, times, texts, numbers, asked, money = (
        rows_of(text) for text in BLOCKS
    )
    for row in pieces:
        arrival = dt.date(row["arrival_year"], row["arrival_month"], row["arrival_day"])
        assert 0 <= (row["departure"] - arrival).days <= 70
    assert all(isinstance(row["patient"], int) for row in people)
    assert all(0 <= (row["discharged"] - row["admitted"]).days <= 60 for row in stays)
    assert all(row["gross"] >= row["net"] for row in visits)
    assert all(row["seen"] is None or row["seen"] >= row["triage"] for row in visits)
    for row in trips:
        assert row["nights"] == row["week_nights"] + row["weekend nights"]
        assert (row["departure"] - row["arrival"]).days == row["nights"]
        assert (row["arrival_year"], row["arrival_month"]) == (row["arrival"].year, f"{row['arrival']:%B}")
    assert all((row["building"] == "south") == (row["ward"] == "maternity") for row in wards)
    assert all(re.fullmatch(r"[01]\d:(00|15|30|45)", row["opened"]) for row in times)
    assert all(re.fullmatch(r"\d\d/\d\d/20\d\d", row["seen"]) for row in texts)
    assert all(-50_000 <= row["cost"] <= 50_000 for row in money)
    assert {None} < {row["age"] for row in asked} <= {None, *range(121)}
    assert all(20230101 <= row["visit"] <= 20231231 for row in numbers)


def test_the_page_uses_kinds_that_exist():
    named = set(re.findall(r'^kind = "(\w+)"', PAGE, re.MULTILINE))
    assert {"derived", "time", "duration", "datetime"} <= named <= set(KINDS)
