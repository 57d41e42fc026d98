"""DuckDB queries: each row by itself, and nothing sniffed from rows."""

import duckdb
import pyarrow as pa
import pytest

from weft.engines import open_engine
from weft.errors import DataError
from weft.schema import Schema

SCHEMA = Schema.from_toml("""
[columns.day]
kind = "datetime"
range = ["2020-01-01", "2020-12-31"]
bins = 3
outside = "clip"
missing = true
""")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.csv").write_text("n,day\n" + "1,03/05/2020\n" * 50)
    (tmp_path / "a.json").write_text('[{"day": "2020-05-03"}]')
    (tmp_path / "d.json").write_text('{"n": 1, "day": "2020-05-03"}\n' * 50)
    with duckdb.connect("d.db") as database:
        database.execute("CREATE TABLE t AS SELECT range AS n, DATE '2020-05-03' AS day FROM range(50)")
        database.execute("CREATE VIEW plain AS SELECT day FROM t WHERE n > 9")
        database.execute("CREATE VIEW sniffing AS SELECT day FROM 'd.csv'")
        database.execute("CREATE VIEW outer_view AS SELECT * FROM sniffing")
        database.execute("CREATE VIEW sampled AS SELECT day FROM t TABLESAMPLE 10%")
        database.execute("CREATE VIEW shaken AS SELECT day + CAST(random() * 9 AS INTEGER) AS day FROM t")
        database.execute("CREATE MACRO shake(d) AS d + CAST(random() * 9 AS INTEGER)")
        database.execute("CREATE MACRO peek() AS TABLE SELECT day FROM 'd.csv'")
        database.execute("COPY t TO 'd.parquet'")
    return tmp_path


def opened(address):
    return open_engine(f"duckdb:{address}", SCHEMA).engine


def counts(address):
    return opened(address).count([("day",)])[0].tolist()


EXPLICIT = "auto_detect = false, columns = {'n': 'INTEGER', 'day': 'DATE'}"


@pytest.mark.parametrize(
    "query",
    [
        "FROM 'd.csv'",
        "SELECT day FROM read_csv('d.csv')",
        "SELECT day FROM read_csv_auto('d.csv')",
        "SELECT day FROM read_csv('d.csv', header = true, dateformat = '%d/%m/%Y')",
        "SELECT day FROM read_csv('d.csv', columns = {'n': 'INTEGER', 'day': 'DATE'})",
        "SELECT day FROM (SELECT * FROM 'd.csv')",
        "WITH x AS (SELECT * FROM 'd.csv') SELECT day FROM x",
    ],
)
def test_a_sniffed_csv_is_refused_with_the_remedy(folder, query):
    with pytest.raises(DataError, match=r"guess types.*CSV.*auto_detect = false.*itself as the input"):
        opened(query)


@pytest.mark.parametrize(
    "query",
    [
        "FROM 'd.json'",
        "SELECT day FROM read_json('d.json')",
        "SELECT day FROM read_json('a.json', auto_detect = false, columns = {'day': 'DATE'}, format = 'array')",
        "SELECT day FROM read_ndjson('d.json', columns = {'day': 'DATE'})",
    ],
)
def test_a_sniffed_json_is_refused_with_the_remedy(folder, query):
    with pytest.raises(DataError, match=r"guess types.*JSON.*newline_delimited"):
        opened(query)


@pytest.mark.parametrize("table", ["sniffing", "outer_view"])
def test_sniffing_hidden_in_a_view_or_macro_is_found(folder, table):
    with pytest.raises(DataError, match="guess types"):
        opened(f"d.db?table={table}")
    with pytest.raises(DataError, match="guess types"):
        opened("d.db?query=SELECT day FROM peek()")


def test_an_explicit_query_is_read(folder):
    csv = f"SELECT day FROM read_csv('d.csv', header = true, dateformat = '%d/%m/%Y', {EXPLICIT})"
    json = f"SELECT day FROM read_json('d.json', format = 'newline_delimited', {EXPLICIT})"
    for query in (csv, json, "FROM 'd.parquet' SELECT day", "SELECT day FROM read_parquet(['d.parquet'])"):
        assert sum(counts(query)) == 50
    assert sum(counts("d.db?table=t".replace("?table=t", "?query=SELECT day FROM t WHERE n >= 10 ORDER BY n"))) == 40
    assert sum(counts("d.db?table=plain")) == 40


def test_the_row_that_flipped_all_dates_flips_nothing(folder):
    """500 ambiguous dates were read day first; with one row 03/25/2020 more, all of them month first."""
    query = f"SELECT day FROM read_csv('d.csv', header = true, dateformat = '%m/%d/%Y', {EXPLICIT})"
    before = counts(query)
    with (folder / "d.csv").open("a") as file:
        file.write("1,03/25/2020\n")
    after = counts(query)
    assert sum(abs(a - b) for a, b in zip(after, before, strict=True)) == 1


def test_one_row_cannot_swallow_others_where_duckdb_reads_the_file(folder):
    query = f"SELECT day FROM read_csv('d.csv', header = true, dateformat = '%d/%m/%Y', {EXPLICIT})"
    for row in ('1,"03/05/2020', '1,03/05/2020"', '"1,03/05/2020'):
        (folder / "d.csv").write_text("n,day\n" + row + "\n" + "1,03/05/2020\n" * 50)
        with pytest.raises(DataError, match=r"d\.csv, line 2"):
            opened(query)


@pytest.mark.parametrize("option", ["ignore_errors = true", "null_padding = true", "strict_mode = false", "skip = 1"])
def test_options_that_let_rows_decide_are_refused(folder, option):
    with pytest.raises(DataError, match=option.split(" ")[0]):
        opened(f"SELECT day FROM read_csv('d.csv', header = true, {EXPLICIT}, {option})")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT DISTINCT day FROM t",
        "SELECT day FROM t LIMIT 3",
        "SELECT day FROM t ORDER BY n LIMIT 3",
        "SELECT max(day) AS day FROM t",
        "SELECT day FROM t GROUP BY day",
        "SELECT lag(day) OVER () AS day FROM t",
        "SELECT day FROM t UNION ALL SELECT day FROM t",
        "SELECT a.day FROM t AS a JOIN t AS b USING (n)",
        "SELECT a.day FROM t AS a, t AS b",
        "SELECT day FROM t WHERE n IN (SELECT n FROM t)",
        "SELECT day FROM t WHERE n > (SELECT avg(n) FROM t)",
        "SELECT day FROM t TABLESAMPLE 50%",
        "SELECT day FROM t USING SAMPLE 3",
        "SELECT unnest([day, day]) AS day FROM t",
        "FROM sampled",
        "SELECT CAST(content AS DATE) AS day FROM read_text('d.csv')",
    ],
)
def test_queries_that_relate_rows_are_refused(folder, query):
    with pytest.raises(DataError, match="from one row of one table"):
        opened(f"d.db?query={query}")


@pytest.mark.parametrize(
    ("query", "match"),
    [
        ("SELECT day FROM t WHERE random() < 0.5", "random"),
        ("FROM shaken", "random"),
        ("SELECT shake(day) AS day FROM t", "random"),
        ("SELECT day FROM t WHERE rowid < 5", "rowid"),
        ("SELECT day FROM t; SELECT day FROM t", "understand|single SELECT"),
        ("SELECT day FROM read_parquet(['d.parquet', './d.parquet'])", "named twice"),
    ],
)
def test_queries_that_do_not_say_the_same_each_time_are_refused(folder, query, match):
    with pytest.raises(DataError, match=match):
        opened(f"d.db?query={query}")


def test_a_name_in_a_query_is_no_variable_of_the_program(folder):
    variable = pa.table({"day": [1]})  # noqa: F841 (what a query must not see)
    with pytest.raises(DataError, match="no such table"):
        opened("SELECT day FROM variable")


def test_a_file_named_twice_would_count_its_rows_twice(folder):
    with pytest.raises(DataError, match="named twice"):
        open_engine(["d.parquet", folder / "d.parquet"], SCHEMA)
