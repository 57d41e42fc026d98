"""What a row can refuse is refused before the first charge, on every route into discovery; and what is read is true."""

import json
from pathlib import Path
from unittest import mock

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xlsxwriter
from databases import fill_sqlite
from typer.testing import CliRunner

from weft import Dialect, Schema
from weft.cli import app
from weft.engines import open_engine
from weft.errors import DataError, SchemaError, WeftError
from weft.privacy import Ledger
from weft.synthesis.synthesizer import Synthesizer

ROWS = 600


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fitted(source, schema=None, epsilon=8.0, **settings):
    run = Synthesizer(epsilon, method="independent", journal=None, noise_seed=3, **settings)
    return run.fit(source, schema, unit=False)


def charges(source, schema=None, **settings):
    """Return what a run was charged before it was refused; it must be refused."""
    asked, charge = [], Ledger.charge

    def noted(ledger, each):
        asked.append(each.question)
        return charge(ledger, each)

    with mock.patch.object(Ledger, "charge", noted), pytest.raises(WeftError):
        fitted(source, schema, **settings)
    return asked


def lines(words, name="table.csv", encoding="utf-8", header="w,n"):
    rows = "".join(f"{word},{i % 7}\n" for i, word in enumerate(words))
    Path(name).write_bytes(((header + "\n" if header else "") + rows).encode(encoding))
    return name


# A first line that is a row.


@pytest.mark.parametrize(
    "words",
    [["smith", "jones", "smith"], ["1943-05-01", "1950-01-02"], ["12.5", "13"]],
    ids=["words", "days", "numbers"],
)
def test_a_first_line_that_is_a_row_is_not_released_as_names(words):
    source = lines([words[i % len(words)] for i in range(ROWS)], header="")
    assert charges(source) == []
    made = fitted(source, dialect=Dialect(header=False))
    assert made.sample(5).schema.names == ["column_1", "column_2"]
    assert fitted(source, dialect=Dialect(header=True)).sample(5).schema.names[0] == words[0]


def sheet(rows, name="table.xlsx"):
    with xlsxwriter.Workbook(name) as book:
        page = book.add_worksheet()
        for at, row in enumerate(rows):
            page.write_row(at, 0, row)
    return name


def test_a_sheet_without_names_is_refused_and_read_with_no_header():
    source = sheet([["smith", 41 + i % 7] for i in range(ROWS)])
    assert charges(source) == []
    with pytest.raises(DataError, match="needs a schema that lists its columns"):
        fitted(source, dialect=Dialect(header=False))
    with pytest.raises(DataError, match="--no-header"):
        Schema.draft(source)
    assert "column_2" in Schema.draft(source, dialect=Dialect(header=False))


def test_the_command_line_marks_such_a_refusal_private_and_has_one_code_for_it():
    source = lines(["smith"] * ROWS, header="")
    result = CliRunner().invoke(app, ["synth", source, "-e", "8", "--one-row-per-person", "-o", "out.csv"])
    assert result.exit_code == 4
    assert "PRIVATE" in result.stderr and "--no-header" in result.stderr and "smith" not in result.stderr
    assert not Path("out.csv").exists() and "Nothing was spent" in result.stderr
    public = CliRunner().invoke(app, ["synth", "no-such.csv", "-e", "8", "--one-row-per-person", "-o", "out.csv"])
    assert public.exit_code == 4 and "PRIVATE" not in public.stderr


# Rows that could fail a run after charges.


@pytest.mark.parametrize("kind", ["excel", "sqlite"])
def test_a_line_break_outside_a_found_list_is_another_value(kind):
    words = ["two\nlines"] * 400 + ["plain"] * 190 + ["three\nother\nlines"] * 10
    table = pa.table({"w": words, "n": [i % 7 for i in range(ROWS)]})
    rows = [["w", "n"], *map(list, zip(*table.to_pydict().values(), strict=True))]
    source = sheet(rows) if kind == "excel" else fill_sqlite(table, "table.sqlite")
    made = fitted(source)
    assert set(made.sample(300, seed=1)["w"].to_pylist()) <= {"two\nlines", "plain", "other"}
    assert "two\nlines" in made.discovered_.schema.column("w").values


def test_half_a_surrogate_is_another_value():
    frame = pd.DataFrame({"w": pd.Series(["a", "b"] * 300 + ["\ud800"], dtype=object)})
    assert set(fitted(frame).sample(300)["w"]) <= {"a", "b", "other"}


def test_a_cast_that_fails_is_seen_before_a_charge():
    with duckdb.connect("table.db") as database:
        database.execute(
            "CREATE TABLE t AS SELECT 'a' AS w, (CASE WHEN i = 599 THEN 'x' ELSE '1' END) AS v FROM range(600) r(i)"
        )
    assert charges("duckdb:table.db?query=SELECT w, CAST(v AS INTEGER) AS v FROM t") == []


RULED = """
extra_columns = "discover"
[columns.low]
kind = "integer"
range = [0, 99]
[columns.high]
kind = "integer"
range = [0, 99]
"""


def test_a_rule_that_refuses_rows_is_checked_before_a_charge():
    rule = '[[rules]]\nwhen = {low = {min = 50}}\nthen = {high = {min = 50}}\npolicy = "refuse"\n'
    schema = Schema.from_toml(RULED + rule)
    table = pa.table({"low": [1] * 599 + [60], "high": [9] * ROWS, "w": ["a", "b"] * 300})
    pq.write_table(table, "table.parquet")
    assert charges("table.parquet", schema) == []
    pq.write_table(table.slice(0, 599), "table.parquet")
    assert fitted("table.parquet", schema).sample(5).num_rows == 5


def test_a_rule_that_refuses_rows_by_an_unknown_column_is_refused():
    rule = '[[rules]]\nwhen = {low = {min = 50}}\nthen = {n = [3]}\npolicy = "refuse"\n'
    pq.write_table(pa.table({"low": [1] * ROWS, "high": [9] * ROWS, "n": [3] * ROWS}), "table.parquet")
    schema = Schema.from_toml(RULED + '[columns.n]\nkind = "integer"\n' + rule)
    with pytest.raises(SchemaError, match="which the schema does not state"):
        fitted("table.parquet", schema)


def test_every_row_is_read_in_every_column_before_the_first_charge():
    """Columns that are only listed, only ranged, stated or ids: an unreadable byte in any of them costs nothing."""
    for place in range(3):
        words = [["a", "1", "x"] for _ in range(ROWS)]
        words[400][place] = "\udcff"
        Path("t.csv").write_bytes(
            b"a,b,c\n" + b"".join(",".join(r).encode("utf-8", "surrogateescape") + b"\n" for r in words)
        )
        assert charges("t.csv") == []


# Text in another encoding.


def test_a_file_in_another_encoding_is_refused_with_the_remedy():
    source = lines(["männlich" if i % 2 else "weiblich" for i in range(ROWS)], encoding="latin-1")
    assert charges(source) == []
    result = CliRunner().invoke(app, ["synth", source, "-e", "8", "--one-row-per-person", "-o", "out.csv"])
    assert result.exit_code == 4 and "--encoding latin-1" in result.stderr
    words = ["--encoding", "latin-1", "-m", "independent", "--one-row-per-person", "-o", "out.csv"]
    assert CliRunner().invoke(app, ["synth", source, "-e", "8", *words]).exit_code == 0
    assert {"männlich", "weiblich"} <= set(pd.read_csv("out.csv", encoding="latin-1")["w"]) | {"männlich"}


# Values that no list has.


def test_a_rare_value_becomes_other_and_no_listed_value():
    """Grades E to G became B, and positive tests negative, while the screen said "nearly all there are"."""
    words = ["negative"] * 2700 + ["positive"] * 40 + ["invalid"] * 260
    made = fitted(lines(words), epsilon=1.0)
    column = made.discovered_.schema.column("w")
    assert column.other == "other" and "other" in column.values
    released = pd.Series(made.sample(3000, seed=1)["w"].to_pylist())
    assert abs((released == "negative").mean() - 0.9) < 0.05
    assert (released == "other").any() or "positive" in set(released)


def test_the_share_of_unlisted_values_is_on_screen_card_and_report(folder):
    words = [f"rare {i}" for i in range(900)] + ["common"] * 2100
    source = lines(words)
    options = ["-e", "2", "-m", "independent", "--one-row-per-person", "--model", "m.weft", "-o", "out.csv"]
    result = CliRunner().invoke(app, ["synth", source, *options])
    assert result.exit_code == 0, result.stderr
    told = 'are not listed and appear as "other"'
    assert told in " ".join(result.stdout.split())
    card = json.loads(Path("out.card.json").read_text())
    assert any(told in reason for reason in card["columns"][0]["reasons"])
    assert "are not listed" in Path("out.card.md").read_text()
    share = Schema.load("out.schema.toml").column("w").lost_share
    assert 0.2 < share < 0.4
    assert CliRunner().invoke(app, ["report", "--releasable", "m.weft", "out.csv", "-o", "r.html"]).exit_code == 0
    assert "are not listed and appear as" in Path("r.html").read_text()


# Dates in several formats.


def test_dates_in_several_formats_are_all_read():
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 300, 3000), unit="D")
    forms = np.array(["%Y-%m-%d", "%d/%m/%Y"])[rng.integers(0, 2, 3000)]
    words = [day.strftime(form) for day, form in zip(days, forms, strict=True)]
    made = fitted(lines(words), epsilon=3.0)
    column = made.discovered_.schema.column("w")
    assert {column.format, *column.other_formats} == {"%Y-%m-%d", "%d/%m/%Y"}
    assert made.sample(500, seed=1)["w"].null_count == 0
    assert column.lost_share == 0


def test_dates_that_cannot_be_read_are_told_with_their_share():
    words = ["2020-01-05"] * 2700 + ["sometime"] * 300
    made = fitted(lines(words), epsilon=3.0)
    column = made.discovered_.schema.column("w")
    assert column.kind == "datetime" and 0.05 < column.lost_share < 0.15
    assert 20 < made.sample(500, seed=1)["w"].null_count < 90


def test_days_and_moments_in_one_column_are_all_read():
    words = [f"2020-01-{1 + i % 28:02d}" + (" 10:30:00" if i % 2 else "") for i in range(3000)]
    made = fitted(lines(words), epsilon=3.0)
    assert made.sample(500, seed=1)["w"].null_count == 0


# Tables with next to no rows.


@pytest.mark.parametrize("rows", [0, 1, 30])
def test_a_handful_of_rows_is_asked_about_before_anything_is_spent(rows):
    source = lines(["a", "b"] * (rows // 2) + ["a"] * (rows % 2))
    words = ["synth", source, "-e", "1", "--one-row-per-person", "-o", "out.csv"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 4 and "PRIVATE" in result.stderr and "too few rows" in result.stderr
    assert "--few-rows" in result.stderr and not list(Path().glob("*.ledger.jsonl"))
    assert CliRunner().invoke(app, [*words, "--few-rows", "-m", "independent"]).exit_code == 0


# Ids.


def test_blanks_around_an_id_are_no_part_of_it():
    schema = Schema.from_toml(
        'unit = "who"\nrows_per_unit = 1\n[columns.who]\nkind = "id"\n[columns.n]\nkind = "integer"\nrange = [0, 9]\n'
    )
    Path("t.csv").write_text("who,n\np1,1\np1 ,2\n p1,3\n\t,4\n  ,5\np2,6\n")
    for source in ("t.csv", pd.read_csv("t.csv"), pa.table({"who": ["p1", "p1 ", "  ", "p2"], "n": [1, 2, 3, 4]})):
        assert int(open_engine(source, schema).engine.count([()])[0]) == 2


# Sources that could not be discovered.


def test_json_lines_are_discovered_where_all_rows_have_the_same_keys():
    rows = [{"w": "ab"[i % 2], "n": i % 7} for i in range(ROWS)]
    Path("t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert fitted("t.jsonl").sample(5).schema.names == ["w", "n"]
    Path("t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"w": "a", "n": 1, "secret": 2}]))
    assert charges("t.jsonl") == []
    Path("t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [{"w": "a"}, *rows]))
    assert charges("t.jsonl") == []


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_time_stamps_of_every_unit_are_discovered(unit):
    seconds = np.arange(ROWS) * 86_400 * 3 + 1_600_000_000
    stamps = pa.array(seconds, pa.timestamp("s")).cast(pa.timestamp(unit))
    pq.write_table(pa.table({"t": stamps, "n": np.arange(ROWS) % 7}), "t.parquet")
    made = fitted("t.parquet")
    assert made.discovered_.schema.column("t").kind == "datetime"


def test_dates_that_python_does_not_have_are_no_bug():
    far = pa.array([10**9] * (ROWS - 1) + [10**15], pa.timestamp("s"))
    pq.write_table(pa.table({"t": far, "n": np.arange(ROWS) % 7}), "t.parquet")
    assert fitted("t.parquet").sample(5).num_rows == 5
    from weft.curator import PrivateTable

    assert PrivateTable("t.parquet").first_rows(3).num_rows == 3
    table = pa.table({"t": far, "n": np.arange(ROWS) % 7})
    schema = Schema.from_toml(
        '[columns.t]\nkind = "datetime"\nrange = ["2000-01-01", "2010-01-01"]\noutside = "clip"\n'
        '[columns.n]\nkind = "integer"\nrange = [0, 9]\n'
    )
    assert int(open_engine(table, schema).engine.count([()])[0]) == ROWS
