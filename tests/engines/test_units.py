"""At most so many rows of a unit are ever counted, chosen fairly, and one unit never decides for another."""

import doctest

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft.engines.privacy_units
from weft.engines import MemoryEngine, StreamEngine, open_engine
from weft.engines.privacy_units import keep_rows, unit_codes
from weft.schema import Schema

PEOPLE = 40


def schema(most):
    return Schema.from_toml(f"""
unit = "person"
rows_per_unit = {most}

[columns.person]
kind = "id"

[columns.who]
kind = "integer"
range = [0, {PEOPLE - 1}]
bins = "each"

[columns.visit]
kind = "integer"
range = [0, 99]
bins = "each"
""")


def visits(seed=0):
    """Person i comes i times; `who` repeats the person so that the tests can see whose rows stayed."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(PEOPLE), np.arange(PEOPLE))
    visit = np.concatenate([np.arange(i) for i in range(PEOPLE)])
    order = rng.permutation(len(who))
    person = pa.array([f"p{i}" for i in who[order]])
    return pa.table({"person": person, "who": who[order], "visit": visit[order]})


@pytest.mark.parametrize("most", [1, 3, 1000])
@pytest.mark.parametrize("kind", ["memory", "stream", "duckdb"])
def test_no_unit_has_more_than_its_rows(tmp_path, kind, most):
    pq.write_table(visits(), tmp_path / "v.parquet", row_group_size=100)
    source = f"duckdb:FROM '{tmp_path}/v.parquet'" if kind == "duckdb" else tmp_path / "v.parquet"
    options = {} if kind == "duckdb" else {"engine": kind}
    engine = open_engine(source, schema(most), batch_rows=64, **options).engine
    assert isinstance(engine, StreamEngine if kind == "stream" else MemoryEngine)
    who, cells = engine.count([("who",), ("visit", "who")])
    np.testing.assert_array_equal(who, np.minimum(np.arange(PEOPLE), most))
    assert cells.max() == 1
    for again in engine.count([("visit", "who")]):
        np.testing.assert_array_equal(again, cells)


def test_two_openings_choose_differently():
    tables = [open_engine(visits(), schema(2)).engine.count([("visit", "who")])[0] for _ in range(2)]
    assert (tables[0] != tables[1]).any()


def test_memory_and_stream_keep_the_same_rows_for_the_same_keys(tmp_path):
    pq.write_table(visits(), tmp_path / "v.parquet", row_group_size=100)
    tables = [
        open_engine(
            tmp_path / "v.parquet", schema(2), engine=kind, batch_rows=rows, rng=np.random.default_rng(5)
        ).engine.count([("visit", "who")])[0]
        for kind, rows in (("memory", 50), ("stream", 77), ("stream", 1000))
    ]
    np.testing.assert_array_equal(tables[0], tables[1])
    np.testing.assert_array_equal(tables[0], tables[2])


@settings(deadline=None)
@given(st.lists(st.integers(0, 8), max_size=60), st.integers(1, 4), st.integers(0, 2**32))
def test_other_units_are_unaffected_by_one_more(units, most, seed):
    # The new unit's rows come last, so the shared rows have the same keys in both tables.
    before = keep_rows(np.array(units, np.int64), most, np.random.default_rng(seed))
    after = keep_rows(np.array([*units, 99, 99, 99], np.int64), most, np.random.default_rng(seed))
    np.testing.assert_array_equal(after[: len(units)], before)
    kept = np.bincount(np.array(units, np.int64)[before], minlength=9)
    np.testing.assert_array_equal(kept, np.minimum(np.bincount(np.array(units, np.int64), minlength=9), most))


def test_the_choice_is_uniform():
    rng = np.random.default_rng(11)
    kept = sum(keep_rows(np.zeros(6, np.int64), 2, rng).astype(int) for _ in range(6_000))
    # Each row stays with probability 1/3: 2000 of 6000, standard deviation 36.5.
    assert np.abs(kept - 2_000).max() < 6 * 36.5


def test_units_are_told_apart_exactly_across_batches_and_types():
    chunks = [pa.array(["x", "y", None]), pa.array(["y", "", None, "x"])]
    codes = unit_codes(chunks)
    assert codes[0] == codes[6]
    assert codes[1] == codes[3]
    assert codes[2] == codes[4] == codes[5] == -1  # nobody's
    assert len(set(codes.tolist())) == 3
    dictionaries = [pa.array(["x", "y"]).dictionary_encode(), pa.array(["y", "x", None]).dictionary_encode()]
    codes = unit_codes(dictionaries)
    assert codes.tolist()[:2] == codes.tolist()[3:1:-1]
    words = pl.Series(["x", "y", None, "x"])
    for column in (words, words.cast(pl.Categorical), words.cast(pl.Enum(["y", "x"]))):
        codes = unit_codes(pa.chunked_array(column).chunks)
        assert codes[0] == codes[3]
        assert len(set(codes.tolist())) == 3
    assert len(set(unit_codes([pa.array([2**53, 2**53 + 1])]).tolist())) == 2
    assert unit_codes([]).size == unit_codes([pa.array([], pa.string())]).size == 0


@pytest.mark.parametrize("kind", ["memory", "stream"])
@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("missing", [None, ""])
def test_rows_without_an_id_have_no_influence(tmp_path, missing, coded, kind):
    person = pa.array(["p", missing, "q", missing], pa.string())
    person = person.dictionary_encode() if coded else person
    pq.write_table(pa.table({"person": person, "who": [0, 1, 2, 3], "visit": [0] * 4}), tmp_path / "t.parquet")
    engine = open_engine(tmp_path / "t.parquet", schema(1), engine=kind).engine
    assert engine.count([("who",)])[0][:4].tolist() == [1, 0, 1, 0]


def test_an_id_that_is_not_a_number_is_missing():
    assert unit_codes([pa.array([7.0, float("nan"), None, 7.0])]).tolist() == [0, -1, -1, 0]
    assert keep_rows(np.array([0, -1, -1, 1]), 2, np.random.default_rng(0)).tolist() == [True, False, False, True]


def test_rows_without_an_id_in_csv_and_pandas(tmp_path):
    (tmp_path / "t.csv").write_text('person,who,visit\np,0,0\n,1,0\nq,2,0\n"",3,0\n')
    frame = pd.DataFrame({"person": [7, np.nan, 8, None], "who": [0, 1, 2, 3], "visit": [0] * 4})
    for source in (tmp_path / "t.csv", frame, frame.astype({"person": "Int64"}), frame.astype({"person": object})):
        assert open_engine(source, schema(1)).engine.count([("who",)])[0][:4].tolist() == [1, 0, 1, 0]
    # Ids are never held to a type: two large ones stay two people.
    large = pd.DataFrame({"person": [2**62, 2**62 + 1], "who": [0, 1], "visit": [0, 0]})
    assert open_engine(large, schema(1)).engine.count([("who",)])[0][:2].tolist() == [1, 1]


def test_adding_a_person_without_an_id_changes_nothing():
    table = visits()
    nobody = pa.table({"person": pa.array([None], pa.string()), "who": [0], "visit": [99]})
    for first in (table, pa.concat_tables([nobody, table])):
        counts = [
            open_engine(pa.concat_tables(parts), schema(1000)).engine.count([("visit", "who")])[0]
            for parts in ([first], [first, nobody])
        ]
        np.testing.assert_array_equal(*counts)


def test_duckdb_tables_with_units(tmp_path):
    table = visits()
    with duckdb.connect(tmp_path / "v.db") as connection:
        connection.register("given", table)
        connection.sql("CREATE TABLE v AS FROM given")
    engine = open_engine(f"duckdb:{tmp_path}/v.db?table=v", schema(2), engine="stream").engine
    np.testing.assert_array_equal(engine.count([("who",)])[0], np.minimum(np.arange(PEOPLE), 2))


def test_examples():
    assert doctest.testmod(weft.engines.privacy_units).failed == 0
