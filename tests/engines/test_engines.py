"""Every engine gives the same counts, whatever the source, the batches, the threads and the order of rows."""

import gzip
from functools import partial
from itertools import combinations

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from databases import fill_postgres, fill_sqlite

from weft.engines import MemoryEngine, StreamEngine, open_engine
from weft.errors import DataError
from weft.io.addresses import KINDS, Kind
from weft.io.reader import Reader
from weft.marginals.counting import count_marginals
from weft.marginals.records import Records
from weft.memory_plan import MemoryPlan
from weft.schema import Schema

SCHEMA = Schema.from_toml("""
[columns.age]
kind = "integer"
range = [0, 99]
bins = 10

[columns.grade]
kind = "integer"
range = [0, 999]
bins = "each"

[columns.ward]
kind = "category"
values = ["a", "b", "c", "d"]
missing = true

[columns.only]
kind = "category"
values = ["x"]
""")
NAMES = ("age", "grade", "only", "ward")
CLIQUES = [(), *((name,) for name in NAMES), *combinations(NAMES, 2), ("age", "grade", "ward")]


def make_table(n=3_000, seed=0):
    rng = np.random.default_rng(seed)
    ward = np.array(["a", "b", "c", "d", None], object)[rng.integers(0, 5, n)]
    return pa.table(
        {
            "age": pa.array(rng.integers(0, 100, n), pa.int16()),
            "grade": rng.integers(0, 1000, n),
            "ward": pa.array(ward, pa.string()),
            "only": ["x"] * n,
        }
    )


def expected_tables(table):
    """Plain counting of codes worked out by hand: ten ages a bin, grades as they are, wards by letter, null last."""
    codes = [
        table["age"].to_numpy() // 10,
        table["grade"].to_numpy(),
        np.array([4 if ward is None else "abcd".index(ward) for ward in table["ward"].to_pylist()]),
        np.zeros(len(table), int),
    ]
    records = Records.of(open_engine(table, SCHEMA).codec.domain, codes)
    return count_marginals(records, CLIQUES, threads=1)


@pytest.fixture(scope="module")
def table():
    return make_table()


@pytest.fixture(scope="module")
def expected(table):
    return expected_tables(table)


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sources")
    pq.write_table(table, folder / "one.parquet", row_group_size=700)
    (folder / "parts").mkdir()
    for i, at in enumerate(range(0, len(table), 999)):
        pq.write_table(table.slice(at, 999), folder / "parts" / f"{i}.parquet")
    pyarrow.csv.write_csv(table, folder / "one.csv")
    (folder / "one.csv.gz").write_bytes(gzip.compress((folder / "one.csv").read_bytes()))
    with duckdb.connect(folder / "one.db") as connection:
        connection.register("given", table)
        connection.sql("CREATE TABLE stays AS SELECT * FROM given")
    return folder


def assert_counts(engine, expected):
    for one, other in zip(engine.count(CLIQUES), expected, strict=True):
        assert one.dtype == np.int64
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("batch_rows", [313, 1 << 17])
@pytest.mark.parametrize("kind", ["memory", "stream"])
@pytest.mark.parametrize("source", ["one.parquet", "one.csv", "one.csv.gz", "parts", "parts/*.parquet", "list"])
def test_files(folder, expected, source, kind, batch_rows, threads):
    path = sorted((folder / "parts").iterdir()) if source == "list" else folder / source
    opened = open_engine(path, SCHEMA, engine=kind, batch_rows=batch_rows, threads=threads)
    assert isinstance(opened.engine, StreamEngine if kind == "stream" else MemoryEngine)
    assert_counts(opened.engine, expected)
    assert_counts(opened.engine, expected)


@pytest.mark.parametrize("kind", ["memory", "stream"])
def test_batches_of_one_row(table, tmp_path, kind):
    few = table.slice(0, 40)
    pq.write_table(few, tmp_path / "few.parquet")
    engine = open_engine(tmp_path / "few.parquet", SCHEMA, engine=kind, batch_rows=1).engine
    assert_counts(engine, expected_tables(few))


@pytest.mark.parametrize("batch_rows", [500, 1 << 17])
@pytest.mark.parametrize("kind", ["memory", "stream"])
@pytest.mark.parametrize(
    "address", ["{}/one.db?table=stays", "{}/one.db?query=FROM stays;", "SELECT * FROM '{}/one.parquet'"]
)
def test_duckdb(folder, expected, address, kind, batch_rows):
    opened = open_engine("duckdb:" + address.format(folder), SCHEMA, engine=kind, batch_rows=batch_rows)
    assert_counts(opened.engine, expected)


@pytest.mark.parametrize("kind", ["memory", "stream"])
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_databases(table, expected, database, kind, tmp_path):
    address = fill_postgres(table, "stays") if database == "postgres" else fill_sqlite(table, tmp_path / "one.sqlite")
    for batch_rows in (500, 1 << 17):
        assert_counts(open_engine(address, SCHEMA, engine=kind, batch_rows=batch_rows).engine, expected)


def test_objects_with_an_arrow_stream(table, expected):
    frame = table.to_pandas()
    for source in (
        table,
        frame,
        pl.from_arrow(table),
        table.to_reader(max_chunksize=100),
        pa.table(frame[frame.columns[::-1]]),
        table.to_batches()[0],
    ):
        if hasattr(source, "__arrow_c_stream__"):
            assert_counts(open_engine(source, SCHEMA, batch_rows=700).engine, expected)


def test_row_order_changes_nothing(table, expected, tmp_path):
    shuffled = table.take(np.random.default_rng(1).permutation(len(table)))
    pq.write_table(shuffled, tmp_path / "shuffled.parquet")
    assert_counts(open_engine(shuffled, SCHEMA).engine, expected)
    assert_counts(open_engine(tmp_path / "shuffled.parquet", SCHEMA, engine="stream").engine, expected)


def test_a_table_without_rows(table, tmp_path):
    empty = table.slice(0, 0)
    pq.write_table(empty, tmp_path / "empty.parquet")
    pyarrow.csv.write_csv(empty, tmp_path / "empty.csv")
    for source in (empty, tmp_path / "empty.parquet", tmp_path / "empty.csv"):
        for kind in ("memory", "stream") if source is not empty else ("memory",):
            tables = open_engine(source, SCHEMA, engine=kind).engine.count(CLIQUES)
            assert all(not counts.any() for counts in tables)


def test_large_files_are_streamed_on_their_own(folder, expected):
    assert isinstance(open_engine(folder / "one.parquet", SCHEMA).engine, MemoryEngine)
    for name in ("one.parquet", "one.csv"):
        opened = open_engine(str(folder / name), SCHEMA, room=MemoryPlan(codes=1_000))
        assert isinstance(opened.engine, StreamEngine)
        assert_counts(opened.engine, expected)


@pytest.mark.parametrize("kind", ["memory", "stream"])
def test_recode_is_a_view_that_merges_codes(folder, expected, kind):
    engine = open_engine(folder / "one.parquet", SCHEMA, engine=kind, batch_rows=700).engine
    halves = (np.arange(1000) // 500, 2)
    wards = (np.array([0, 1, 1, 0, 2]), 300)
    view = engine.recode({"grade": halves, "ward": wards})
    assert view.domain.sizes(("age", "grade", "ward")) == (10, 2, 300)
    table = view.count([("age", "grade", "ward")])[0]
    fine = expected[-1]
    assert table.sum() == fine.sum()
    np.testing.assert_array_equal(table[:, 0, 1], fine[:, :500, 1:3].sum(axis=(1, 2)))
    assert not table[:, :, 3:].any()
    again = view.recode({"ward": (np.minimum(np.arange(300), 1), 2)})
    np.testing.assert_array_equal(again.count([("ward",)])[0], [fine[:, :, [0, 3]].sum(), fine[:, :, [1, 2, 4]].sum()])
    assert_counts(engine, expected)


@pytest.mark.parametrize("kind", ["memory", "stream"])
def test_a_map_that_does_not_fit_is_refused(folder, kind):
    engine = open_engine(folder / "one.parquet", SCHEMA, engine=kind).engine
    for maps, text in (
        ({"nobody": (np.zeros(3, int), 1)}, "not an attribute"),
        ({"ward": (np.zeros(4, int), 1)}, "one whole number for each of its 5"),
        ({"ward": (np.zeros(5), 1)}, "whole number"),
        ({"ward": (np.arange(5), 4)}, "outside its 4"),
        ({"ward": (np.arange(5) - 1, 5)}, "outside"),
    ):
        with pytest.raises(ValueError, match=text):
            engine.recode(maps)


def test_progress_reaches_the_listener_without_row_numbers(folder, monkeypatch):
    events = []
    engine = open_engine(folder / "one.parquet", SCHEMA, engine="stream", listener=events.append, batch_rows=700).engine
    engine.count(CLIQUES)
    assert [event.stage for event in events if event.finished] == ["check", "count"]
    assert {event.total for event in events} == {100}
    assert [event.done for event in events if event.finished] == [100, 100]
    assert not any(event.note for event in events)


@pytest.mark.parametrize(("rows", "size"), [(True, None), (None, 1000), (None, None)])
def test_progress_does_not_show_how_many_batches_there_are(table, rows, size):
    """The number of events would otherwise tell the number of rows, exactly where a batch is added."""
    seen = []
    for batch_rows in (1, 7, 250, 100_000):
        batches = table.slice(0, 500).to_batches(batch_rows)
        shares = [(place + 1) / len(batches) if rows or size else None for place in range(len(batches))]
        pairs = list(zip(batches, shares, strict=True))
        start = partial(lambda pairs, _: iter(pairs), pairs)
        reader = Reader("a table", table.schema, start, rows=500 if rows else None, size=size)
        events = []
        assert len(list(reader.read(table.column_names, len, events.append, "read"))) == len(batches)
        seen.append(events)
    assert all(events == seen[0] for events in seen)
    assert [event.done for event in seen[0]] == ([*range(0, 101, 10), 100] if rows or size else [0, 0])


def test_the_first_compilation_is_a_stage(table, monkeypatch):
    events = []
    monkeypatch.setattr("weft.engines.is_compiled", lambda: False)
    open_engine(table, SCHEMA, listener=events.append)
    assert events[0].stage.startswith("compile")


def test_a_new_kind_of_source_needs_one_entry(table, expected, monkeypatch):
    def open_shelf(address, schema, batch_rows):
        assert address == "the:table"
        return Reader("shelf", table.schema, lambda columns: ((b, None) for b in table.to_batches(batch_rows)))

    monkeypatch.setitem(KINDS, "shelf", Kind(open_shelf, lambda address: f"shelf:{address}"))
    assert_counts(open_engine("shelf:the:table", SCHEMA, batch_rows=800).engine, expected)


def test_a_reader_cannot_be_streamed(table):
    with pytest.raises(DataError, match="memory engine"):
        open_engine(table.to_reader(), SCHEMA, engine="stream")


def test_pandas_frames_of_many_types_agree(table, expected):
    frame = table.to_pandas()
    frame["ward"] = pd.Categorical(frame["ward"])
    frame["only"] = frame["only"].astype("category")
    frame.index = frame.index[::-1]
    assert_counts(open_engine(frame, SCHEMA, batch_rows=999).engine, expected)
