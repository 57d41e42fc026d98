"""Rows divided by secret coins: disjoint, by unit, by nothing that a row says or where it stands."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import SCHEMA, make_table
from scipy.stats import binomtest

from weft.curator import Curator
from weft.engines import MemoryEngine, open_engine
from weft.errors import BudgetError, DataError
from weft.privacy import Adjacency, Budget, Ledger
from weft.privacy.mechanisms import Mechanisms
from weft.schema import Schema

CHANCES = [0.5, 0.3, 0.1]


def deal(names):
    return np.random.default_rng().integers(0, 2**64, len(names), np.uint64)


def unit_table(people, seed=0):
    """Rows of people who have one to three of them, in no order."""
    rng = np.random.default_rng(seed)
    owner = rng.permutation(np.repeat(np.arange(people), rng.integers(1, 4, people)))
    return make_table(len(owner), seed).append_column("who", pa.array(owner))


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_parts_are_disjoint_and_follow_their_chances(engine, tmp_path):
    pq.write_table(make_table(4000), tmp_path / "t.parquet", row_group_size=700)
    opened = open_engine(str(tmp_path / "t.parquet"), Schema.from_toml(SCHEMA), engine=engine, batch_rows=500).engine
    words = []

    def remembered(names):
        words.append(deal(names))
        return words[0]

    parts = opened.split(CHANCES, remembered)
    (whole,), counted = opened.count([("age", "ward")]), [part.count([("age", "ward")])[0] for part in parts]
    assert (whole - sum(counted) >= 0).all()
    for table, chance in zip(counted, CHANCES, strict=True):
        assert binomtest(int(table.sum()), 4000, chance).pvalue > 1e-6
    assert [int(part.recode({"sex": (np.array([0, 0]), 1)}).count([("sex",)])[0][0]) for part in parts] == [
        int(table.sum()) for table in counted
    ]
    # One call, and a row's part is its own word's.
    (drawn,) = words
    unit = drawn * 2.0**-64
    expected = [((unit >= low) & (unit < high)).sum() for low, high in [(0, 0.5), (0.5, 0.8), (0.8, 0.9)]]
    assert [int(table.sum()) for table in counted] == expected


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_the_rows_of_a_unit_stay_together(engine, tmp_path):
    """With a column that tells the unit, so that the parts can be asked whom they hold."""
    people = 200
    table = unit_table(people).append_column("code", unit_table(people)["who"])
    text = f'[columns.code]\nkind = "integer"\nrange = [0, {people - 1}]\nbins = "each"\n'
    schema = Schema.from_toml(f'unit = "who"\nrows_per_unit = 2\n{SCHEMA}\n[columns.who]\nkind = "id"\n{text}')
    pq.write_table(table, tmp_path / "t.parquet")
    opened = open_engine(str(tmp_path / "t.parquet"), schema, engine=engine).engine
    coins = []
    parts = opened.split([0.5, 0.5], lambda names: coins.append(len(names)) or deal(names))
    (whole,) = opened.count([("code",)])
    held = [part.count([("code",)])[0] for part in parts]
    assert coins == [people]
    assert (whole <= 2).all()
    assert (whole == 2).any()
    for one in held:
        assert ((one == 0) | (one == whole)).all()
    np.testing.assert_array_equal(sum(held), whole)


def test_no_rows_can_be_divided():
    opened = open_engine(make_table(0), Schema.from_toml(SCHEMA)).engine
    assert [int(part.count([()])[0]) for part in opened.split(CHANCES, deal)] == [0, 0, 0]


def curator(source, schema=None, **settings):
    schema = schema or Schema.from_toml(SCHEMA)
    ledger = Ledger(Budget(epsilon=1.0, delta=1e-5), "gaussian", Adjacency())
    return Curator(open_engine(source, schema, **settings).engine, ledger, Mechanisms()), ledger


def test_coins_are_thrown_anew_each_time():
    table = make_table(300)
    counted = []
    for _ in range(2):
        door, _ = curator(table)
        parts = door.split({"a": 0.5, "b": 0.5})
        counted.append(parts["a"]._engine.count([("age", "ward")])[0])
    assert not np.array_equal(*counted)


def test_a_part_has_the_whole_budget_and_says_what_it_asked():
    door, ledger = curator(make_table(300))
    door.total(0.1)
    parts = door.split({"a": 0.5, "b": 0.4})
    for part in parts.values():
        assert part.left == pytest.approx(0.9)
        part.measure([("age",)], part.left)
        with pytest.raises(BudgetError):
            part.total(0.01)
    assert door.left == pytest.approx(0, abs=1e-9)
    assert "rows for b" in ledger.entries[-1].question
    with pytest.raises(BudgetError, match="once"):
        parts["a"].split({"c": 0.5})
    with pytest.raises(BudgetError, match="once"):
        door.split({"c": 0.5})


def test_rows_without_an_order_are_refused_where_they_are_streamed(tmp_path):
    from dataclasses import replace

    pq.write_table(make_table(50), tmp_path / "t.parquet")
    opened = open_engine(str(tmp_path / "t.parquet"), Schema.from_toml(SCHEMA), engine="stream").engine
    shuffled = replace(opened, reader=replace(opened.reader, ordered=False))
    ledger = Ledger(Budget(epsilon=1.0, delta=1e-5), "gaussian", Adjacency())
    with pytest.raises(DataError, match="memory engine"):
        Curator(shuffled, ledger, Mechanisms()).split({"a": 0.5})
    assert ledger.entries == ()


def test_names_are_equal_for_equal_rows_only():
    from weft.engines.recoding import names_of

    rng = np.random.default_rng(0)
    engine = open_engine(make_table(2000), Schema.from_toml(SCHEMA)).engine
    assert isinstance(engine, MemoryEngine)
    rows = np.column_stack(engine.records.columns)
    names = names_of(engine.records)
    assert len(np.unique(names)) == len(np.unique(rows, axis=0))
    order = rng.permutation(len(rows))
    np.testing.assert_array_equal(names_of(engine.records.take(order)), names[order])
