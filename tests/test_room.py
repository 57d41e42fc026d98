"""A limit of memory is divided before anything is spent, and kept to, or refused with what to do."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import SCHEMA, make_table

from weft import Synthesizer
from weft.engines import MemoryEngine, StreamEngine, open_engine
from weft.errors import DataError, MemoryLimitError, MethodError
from weft.memory_plan import MIN_MEMORY, MODEL, PROGRAM, MemoryPlan, parse_memory
from weft.schema import Schema


@pytest.mark.parametrize("wrong", ["", "much", "4XB", "-1GB"])
def test_what_is_no_limit_is_wrong_usage(wrong):
    with pytest.raises(MethodError, match="memory") as raised:
        Synthesizer(memory=wrong)
    assert raised.value.exit_code == 2


@pytest.mark.parametrize("small", ["1000MB", 5])
def test_a_limit_that_is_too_small_is_no_fault_of_the_budget(small):
    with pytest.raises(MemoryLimitError, match="memory") as raised:
        Synthesizer(memory=small)
    assert raised.value.exit_code == 1


@pytest.mark.parametrize("limit", [MIN_MEMORY, 4 * 10**9, 10**12])
def test_the_shares_of_a_limit_are_no_more_than_it(limit):
    room = MemoryPlan.of(limit)
    assert room.codes + room.counts + room.spill + room.rows + PROGRAM + MODEL <= limit
    for columns in (1, 20, 1000):
        assert 1 << 10 <= room.rows_at_once(columns, 1 << 17) <= 1 << 17
    assert room.rows_at_once(20, 7) == 7


def test_a_table_that_does_not_fit_is_streamed_or_refused_before_a_charge(tmp_path):
    table, schema = make_table(3000), Schema.from_toml(SCHEMA)
    pq.write_table(table, tmp_path / "t.parquet")
    little = MemoryPlan(codes=5000, stated=True)
    assert isinstance(open_engine(tmp_path / "t.parquet", schema, room=little).engine, StreamEngine)
    assert isinstance(open_engine(tmp_path / "t.parquet", schema).engine, MemoryEngine)
    for held in (table, table.to_pandas()):
        with pytest.raises(DataError, match="write it to a Parquet file"):
            open_engine(held, schema, room=little)


def test_tables_are_counted_in_as_many_passes_as_the_limit_asks_for(tmp_path, monkeypatch):
    passes = []
    count = MemoryEngine.count
    monkeypatch.setattr(MemoryEngine, "count", lambda self, asked: passes.append(list(asked)) or count(self, asked))
    table, schema = make_table(500), Schema.from_toml(SCHEMA)
    made = []
    for room in (MemoryPlan(), MemoryPlan(counts=8 * 40)):
        monkeypatch.setattr(MemoryPlan, "of", classmethod(lambda cls, memory, room=room: room))
        passes.clear()
        fitted = Synthesizer(1.0, method="privsyn", noise_seed=1, seed=2, journal=None).fit(table, schema)
        made.append((fitted.sample(50, seed=1).to_pylist(), len(passes)))
    assert made[0][0] == made[1][0] and made[0][1] < made[1][1]


def test_weave_keeps_to_a_limit_with_the_same_answers(tmp_path, monkeypatch):
    """Rows that are streamed and counted in many passes give the model of rows in memory; rows come in small blocks."""
    schema = Schema.from_toml(SCHEMA)
    pq.write_table(make_table(2000), tmp_path / "t.parquet")
    made = []
    for room in (MemoryPlan(), MemoryPlan(codes=5000, counts=8 * 300, rows=3 * 64 * 2 * 1024, stated=True)):
        monkeypatch.setattr(MemoryPlan, "of", classmethod(lambda cls, memory, room=room: room))
        chains = {"tuning": {"max_tree": 0, "chains": 500}}
        fitted = Synthesizer(1.0, method="weave", noise_seed=1, seed=2, journal=None, **chains)
        fitted.fit(tmp_path / "t.parquet", schema)
        made.append((fitted.model_.to_arrays(), [len(block) for block in fitted.tables(2500, seed=1)]))
    (one, whole), (other, blocks) = made
    assert one[0] == other[0] and all(np.array_equal(one[1][name], other[1][name]) for name in one[1])
    assert len(whole) == 1 and len(blocks) > 1 and sum(blocks) == 2500


def test_memory_is_stated_in_octets():
    assert parse_memory("2 gib") == 2 << 30 and parse_memory("1e9") == 10**9 and parse_memory("3.5MB") == 3_500_000


LARGE = """
import re, resource, sys
from pathlib import Path
from weft import Schema, Synthesizer
schema = 'unit = "who"\\nrows_per_unit = 3\\n[columns.who]\\nkind = "id"\\n' + "".join(
    f'[columns.c{i}]\\nkind = "integer"\\nrange = [0, 19]\\n' for i in range(20))
made = Synthesizer(1.0, method="independent", memory=sys.argv[2], journal=None)
made.fit(sys.argv[1], Schema.from_toml(schema))
for _ in made.tables(2_000_000):
    pass
status = Path("/proc/self/status")  # ru_maxrss also counts the process that started this one, before the exec
peak = re.search(r"VmHWM:\\s+(\\d+)", status.read_text())[1] if status.exists() else None
print(peak or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_a_limit_is_kept(tmp_path):
    rng = np.random.default_rng(0)
    schema = pa.schema([("who", pa.int64()), *((f"c{i}", pa.int8()) for i in range(20))])
    with pq.ParquetWriter(tmp_path / "t.parquet", schema) as writer:
        for _ in range(16):  # 8 million rows: 160 MB of codes, and more than a hundred of ids
            ids = rng.integers(0, 4_000_000, 500_000)
            writer.write_table(
                pa.table([ids, *(rng.integers(0, 20, 500_000).astype(np.int8) for _ in range(20))], schema=schema)
            )
    done = subprocess.run(
        [sys.executable, "-c", LARGE, str(tmp_path / "t.parquet"), "1GiB"], capture_output=True, text=True, check=True
    )
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(done.stdout) * unit < MIN_MEMORY, int(done.stdout)
