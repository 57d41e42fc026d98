"""What was found by trying to break the contract of sources, lifetime budgets and the keeping of files."""

import datetime
import gzip
import io
import subprocess
import sys

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from weft.engines import open_engine
from weft.errors import BudgetError, WeftError
from weft.privacy import Budget, Charge, Lifetime
from weft.schema import Schema
from weft.synthesis.synthesizer import Synthesizer

NUMBER = Schema.from_toml(
    'extra_columns = "ignore"\n[columns.n]\nkind = "integer"\nrange = [0, 9]\noutside = "clip"\nmissing = true'
)
EXPLICIT = "auto_detect = false, header = true, columns = {'n': 'VARCHAR', 'w': 'VARCHAR'}"


def column(text):
    return Schema.from_toml(f'extra_columns = "ignore"\n[columns.n]\n{text}\nmissing = true\n')


def counts(source, schema=NUMBER):
    """Return the counts of the column, or None where the table is refused before any charge."""
    try:
        return open_engine(source, schema).engine.count([("n",)])[0]
    except WeftError:
        return None


def moved(before, after):
    return 0 if before is None or after is None else int(np.abs(before.astype(int) - after.astype(int)).sum())


# Frames: what a library made of a column depends on every row of it.

BOOLEAN = 'kind = "boolean"\noutside = "clip"'
INTEGER = 'kind = "integer"\nrange = [0, 9]\noutside = "clip"'
DAYS = 'kind = "datetime"\nrange = ["2020-01-01", "2020-12-31"]\nbins = 3\noutside = "clip"\nformat = '


def listed(*values):
    return f'kind = "category"\nvalues = {list(values)}\nother = "o"'.replace("'", '"')


GUESSED = {
    "truth as 1.0": (BOOLEAN, ["1.0", "0.0"], "yes"),
    "truth as -0": (BOOLEAN, ["1", "-0.0"], "yes"),
    "truth for a number": (INTEGER, ["True", "False"], "3"),
    "words TRUE": (listed("TRUE", "FALSE"), ["TRUE", "FALSE"], "x"),
    "codes 007": (listed("007", "7"), ["007", "7"], "x"),
    "codes 1.0": (listed("1.0", "2.0"), ["1.0", "2.0"], "x"),
    "01 that is not listed": (listed("1", "2"), ["01", "2"], "x"),
    "15 digits and a blank": (listed("1000000000000000"), ["1000000000000000", "2"], ""),
    "17 digits and a blank": (listed("12345678901234567"), ["12345678901234567", "2"], ""),
    "14 digits of a moment": (DAYS + '"%Y%m%d%H%M%S"', ["20200305101112", "20201205101112"], ""),
    "days with a nought": (DAYS + '"%d%m%Y"', ["05032020", "05122020"], "x"),
    "days as date32": (DAYS + '"%Y%m%d"\ntype = "date32[day]"', ["20200305", "20201205"], "x"),
}


@pytest.mark.parametrize("options", [{}, {"dtype_backend": "pyarrow"}], ids=["numpy", "arrow"])
@pytest.mark.parametrize("case", GUESSED)
def test_one_row_that_changes_a_guessed_type_moves_one_cell(case, options):
    text, words, odd = GUESSED[case]
    try:
        schema = column(text)
    except WeftError:
        pytest.skip("the schema cannot be said")

    def frame(rows):
        return pd.read_csv(io.StringIO("n,z\n" + "".join(f"{word},1\n" for word in rows)), **options)

    rows = words * 10
    assert moved(counts(frame(rows), schema), counts(frame([*rows, odd]), schema)) <= 1


def test_times_of_day_that_arrow_guessed_are_not_read_by_their_fellows():
    schema = column(listed("10:00", "11:00"))

    def table(rows):
        return pa.csv.read_csv(io.BytesIO(b"n,z\n" + b"".join(row + b",1\n" for row in rows)))

    rows = [b"10:00", b"11:00"] * 10
    assert moved(counts(table(rows), schema), counts(table([*rows, b"x"]), schema)) <= 1


@pytest.mark.parametrize(
    "odd",
    [10**5000, datetime.datetime(1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=5)))],
    ids=["5,001 digits", "a year before the first"],
)
def test_an_object_that_cannot_be_written_is_no_bug_of_ours(odd):
    frame = pd.DataFrame({"n": pd.Series(["1", odd], dtype=object)})
    after = counts(frame)
    assert after is None or after.sum() == 2


@pytest.mark.parametrize(
    "values", [pd.period_range("2020", periods=4, freq="M"), pd.interval_range(0, 4)], ids=["Period", "Interval"]
)
def test_extension_types_are_refused_in_words(values):
    assert counts(pd.DataFrame({"n": values})) is None


def test_a_signalling_number_is_told_with_its_column():
    from decimal import Decimal

    frame = pd.DataFrame({"n": pd.Series(["1", Decimal("sNaN")], dtype=object)})
    after = counts(frame)
    assert after is None or after.sum() == 2


@pytest.mark.parametrize("kind", [pa.json_(), pa.bool8()], ids=["json", "bool8"])
def test_extension_types_of_arrow_are_refused_in_words(kind):
    assert counts(pa.table({"n": pa.array([None, None], kind.storage_type).cast(kind)})) is None


# DuckDB queries.


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_view_is_looked_into_though_another_schema_has_one_of_its_name(folder):
    with duckdb.connect("d.db") as database:
        database.execute("CREATE TABLE t AS SELECT (i % 10)::INT n FROM range(20) r(i)")
        database.execute("CREATE SCHEMA s1; CREATE SCHEMA s2; CREATE VIEW s2.v AS SELECT n FROM t")
        database.execute("CREATE VIEW s1.v AS SELECT (rowid % 10)::INT AS n FROM t")
    assert counts("duckdb:d.db?query=SELECT n FROM s1.v") is None


@pytest.mark.parametrize("call", ['"random"()', "random/**/()", "random -- \n ()"])
def test_a_random_function_is_found_however_it_is_written(folder, call):
    with duckdb.connect("d.db") as database:
        database.execute("CREATE TABLE t AS SELECT (i % 10)::INT n FROM range(20) r(i)")
    assert counts(f"duckdb:d.db?query=SELECT ({call} * 9)::INT AS n FROM t") is None


def swallowing(write, query):
    """Counts of rows of which one has a quote too many, and with one more that opens one."""
    found = []
    for odd in (b"", b'3,"a\n'):
        write(b"n,w\n" + odd + b"3,a\n" * 20 + b'3,b"\n')
        found.append(counts(f"duckdb:SELECT n FROM {query}"))
    return moved(*found)


def test_files_that_only_duckdb_finds_are_checked_too(folder):
    (folder / "a.csv").write_bytes(b"n,w\n3,a\n")
    assert swallowing((folder / ".b.csv").write_bytes, f"read_csv('*.csv', {EXPLICIT})") <= 1


def test_a_packed_file_is_checked_unpacked(folder):
    query = "read_csv('d.dat', auto_detect = false, header = true, columns = {'n': 'VARCHAR'}, compression = 'gzip')"
    found = []
    for odd in (b"", b'"30\n'):
        (folder / "d.dat").write_bytes(gzip.compress(b"n\n" + odd + b"3\n" * 200 + b'3"\n', mtime=0))
        found.append(counts(f"duckdb:SELECT n FROM {query}"))
    assert moved(*found) <= 1


def test_the_type_of_a_partition_does_not_hang_on_one_row(folder):
    schema = Schema.from_toml(
        '[columns.n]\nkind = "integer"\nrange = [0, 9]\n[columns.y]\nkind = "category"\nvalues = [1, 2]\nother = 2\n'
    )
    types = set()
    for values in (["1", "2"], ["1", "2", "x"]):
        for value in values:
            (folder / "h" / f"y={value}").mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"n": pa.array([1], pa.int32())}), folder / "h" / f"y={value}" / "a.parquet")
        try:
            types.add(str(open_engine("duckdb:FROM 'h/*/*.parquet'", schema).codec.arrow_schema.field("y").type))
        except WeftError:
            types.add("refused")
    assert len(types - {"refused"}) <= 1


def test_a_pattern_and_a_hard_link_count_no_row_twice(folder):
    pq.write_table(pa.table({"n": pa.array([1] * 4, pa.int32())}), "a.parquet")
    assert counts("duckdb:SELECT n FROM read_parquet(['a.parquet', '*.parquet'])") is None
    (folder / "b.parquet").hardlink_to("a.parquet")
    assert counts(["a.parquet", "b.parquet"]) is None


# Lifetime budgets.

UNIT = Schema.from_toml(
    'unit = "row"\nrows_per_unit = 3\n[columns.row]\nkind = "id"\n[columns.n]\nkind = "integer"\nrange = [0, 9]'
)
ROWS = Schema.from_toml('[columns.row]\nkind = "id"\n[columns.n]\nkind = "integer"\nrange = [0, 9]')


def frame():
    return pd.DataFrame({"row": [f"p{i // 3}" for i in range(300)], "n": 1})


def fit(schema, **options):
    settings = {"epsilon": 0.5, "delta": 1e-6, "method": "independent", "journal": None, "budget_file": "b.budget"}
    return Synthesizer(**settings | options).fit(frame(), schema)


def test_a_column_called_row_is_not_taken_for_rows(folder):
    Lifetime.create("b.budget", Budget(epsilon=3, delta=1e-6))
    fit(ROWS)
    with pytest.raises(BudgetError, match="protects"):
        fit(UNIT)


def test_noise_that_can_be_recomputed_draws_from_no_lifetime_budget(folder):
    Lifetime.create("b.budget", Budget(epsilon=3, delta=1e-6))
    with pytest.raises(BudgetError, match="seed"):
        fit(ROWS, noise_seed=1)


def test_facts_read_from_the_data_draw_from_no_lifetime_budget(folder):
    Lifetime.create("b.budget", Budget(epsilon=3, delta=1e-6))
    marked = Schema.from_toml(
        '[columns.row]\nkind = "id"\n[columns.n]\nkind = "integer"\nrange = [0, 9]\nfrom_data = ["range"]'
    )
    with pytest.raises(BudgetError, match="read from the data"):
        fit(marked, trust_data_for_schema=True)
    assert Lifetime("b.budget").state().spent == 0


def test_a_run_that_has_ended_charges_nothing_more(folder):
    Lifetime.create("b.budget", Budget(epsilon=3, delta=1e-6))
    ledger = fit(ROWS).ledger_
    before = Lifetime("b.budget").state().spent
    try:
        ledger.charge(Charge.gaussian("more", sensitivity=1.0, scale=1e6, draws=1))
    except BudgetError:
        return
    assert Lifetime("b.budget").state().spent > before


# Files that must be kept.

TOML = '[columns.n]\nkind = "integer"\nrange = [0, 9]\n'


def synth(*words):
    command = [sys.executable, "-m", "weft.cli", "synth", *words, "-s", "s.toml", "-e", "1", "-m", "independent"]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_a_model_is_not_saved_over_a_lifetime_budget(folder):
    (folder / "s.toml").write_text(TOML)
    (folder / "t.csv").write_text("n\n" + "3\n" * 50)
    Lifetime.create("b.budget", Budget(epsilon=3, delta=1e-6))
    assert synth("t.csv", "-o", "o.csv", "--model", "b.budget").returncode == 7
    Lifetime("b.budget").state()


def test_a_draft_is_not_written_over_a_lifetime_budget(folder):
    (folder / "t.csv").write_text("n\n" + "3\n" * 50)
    Lifetime.create("b.budget", Budget(epsilon=3, delta=1e-6))
    words = [sys.executable, "-m", "weft.cli", "schema", "draft", "t.csv", "-o", "b.budget", "--force"]
    assert subprocess.run(words, capture_output=True, timeout=300, check=False).returncode == 7
    Lifetime("b.budget").state()


@pytest.mark.parametrize(
    "address",
    [
        "d.db?table=v",
        "d.db?query=SELECT * FROM m()",
        "FROM 'file:{folder}/q.parquet'",
        pytest.param("FROM 'file://localhost{folder}/q.parquet'", marks=pytest.mark.slow),
        pytest.param("FROM read_parquet($$q.parquet$$)", marks=pytest.mark.slow),
        "FROM read_parquet(E'q\\x2eparquet')",
        pytest.param("FROM read_parquet('q' || '.parquet')", marks=pytest.mark.slow),
        "FROM query('FROM ''q.parquet''')",
    ],
)
def test_a_release_does_not_overwrite_what_a_query_reads(folder, address):
    (folder / "s.toml").write_text(TOML)
    with duckdb.connect("d.db") as database:
        database.execute("COPY (SELECT (i % 10)::INT n FROM range(50) r(i)) TO 'q.parquet'")
        database.execute("CREATE VIEW v AS FROM 'q.parquet'; CREATE MACRO m() AS TABLE FROM 'q.parquet'")
    before = (folder / "q.parquet").read_bytes()
    synth("duckdb:" + address.format(folder=folder), "-o", "q.parquet")
    assert (folder / "q.parquet").read_bytes() == before
