"""Rows that Spark holds give the counts that they give in memory, however they are divided."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import SCHEMA, make_table
from sparks import fill_spark, spark

from weft import Synthesizer
from weft.engines import open_engine
from weft.engines import spill as keyed
from weft.engines.spark.packed_rows import WORD, TakenApart, Words, from_octets, lines_of, make_binary_array, octets_of
from weft.engines.spark.workers import PIECE, DivideRows, Truncate, add_pieces, iterate_count_pieces, sum_pieces
from weft.errors import DataError, OutputError
from weft.io.output_tables import Dataset
from weft.marginals.domain import Domain
from weft.marginals.records import Records
from weft.privacy import read_journal
from weft.privacy.mechanisms import Mechanisms
from weft.release.spark_release import publish_dataset
from weft.release.verification import verify
from weft.schema import Schema

from .test_contract import CELLS, PLAIN, ROWS, UNITS, arrow, counts, moved, parquet

VISITS = Schema.from_toml(f'unit = "person"\nrows_per_unit = 2\n\n[columns.person]\nkind = "id"\n{SCHEMA}')
CLIQUES = [("age", "sex"), ("cost", "ward"), ("age", "cost", "ward"), ()]
ROWS_ONLY = Schema.from_toml(SCHEMA)
DOMAIN = Domain(("a", "b", "c"), (3, 300, 70_000))


def equal(some, others):
    return all((one == other).all() for one, other in zip(some, others, strict=True))


def visits(n, people, seed=1):
    rng = np.random.default_rng(seed)
    return make_table(n).append_column("person", pa.array(rng.integers(0, people, n)))


def key_words(names):
    assert len(names) == 2
    return np.array([3, 4], np.uint64)


# Without Spark: what its workers do.


def plain_siphash(text, key):
    """SipHash-2-4 as its paper writes it, one text at a time."""
    mask = 2**64 - 1
    k0, k1 = (int.from_bytes(key[at : at + 8], "little") for at in (0, 8))
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def turned(x, bits):
        return ((x << bits) | (x >> (64 - bits))) & mask

    def mix():
        for a, b, c, d, left, right in ((0, 1, 2, 3, 13, 16), (2, 1, 0, 3, 17, 21)):
            v[a] = (v[a] + v[b]) & mask
            v[c] = (v[c] + v[d]) & mask
            v[b], v[d] = turned(v[b], left) ^ v[a], turned(v[d], right) ^ v[c]
            v[a] = turned(v[a], 32)

    padded = text + b"\0" * (7 - len(text) % 8) + bytes([len(text) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        mix(), mix()
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(4):
        mix()
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def test_keyed_words_are_siphash():
    rng = np.random.default_rng(0)
    texts = [rng.bytes(length) for length in [*range(20), 255, 256, 300]]
    key = rng.bytes(keyed.KEY)
    ends = np.cumsum([0, *map(len, texts)])
    words = keyed.words_of(np.frombuffer(b"".join(texts), np.uint8), ends, key)
    assert words.tolist() == [plain_siphash(text, key) for text in texts]


def test_lines_and_pieces_come_back_as_they_were():
    rng = np.random.default_rng(0)
    records = Records.of(DOMAIN, [rng.integers(0, size, 50) for size in DOMAIN.shape])
    lines = octets_of(records)
    there = from_octets(lines_of(make_binary_array(lines).slice(7), lines.shape[1]), DOMAIN)
    assert equal(there.columns, records.take(slice(7, None)).columns)
    assert sorted(map(bytes, lines)) == [bytes(lines[i]) for i in np.lexsort(records.columns[::-1])]
    flat = rng.integers(0, 9, 2 * PIECE + 77) * (rng.random(2 * PIECE + 77) < 0.1) * 10_000
    total = np.zeros_like(flat)
    for batch in sum_pieces(
        itertools.chain(
            iterate_count_pieces(flat), iterate_count_pieces(flat[: PIECE + 5]), iterate_count_pieces(flat * 1_000_000)
        )
    ):
        add_pieces(batch, total)
    expected = flat * 1_000_001
    expected[: PIECE + 5] += flat[: PIECE + 5]
    assert (total == expected).all()


def narrow(n, seed=0):
    """A table of every kind that is put into words, its least and largest values and nulls among them, and others."""
    rng = np.random.default_rng(seed)
    columns = {}
    for bits in (8, 16, 32):
        ends = [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, -1, 0]
        whole = np.append(rng.integers(ends[0], ends[1], n - 4), ends).astype(f"i{bits // 8}")
        columns |= {f"i{bits}": pa.array(whole, mask=rng.random(n) < 0.2), f"all{bits}": pa.array(whole)}
    days = pa.array(rng.integers(-(10**5), 10**5, n).astype("i4"), mask=rng.random(n) < 0.2).cast(pa.date32())
    truths = [pa.array(rng.random(n) < 0.5, mask=rng.random(n) < 0.2) for _ in range(WORD)]  # more than a word knows
    columns |= {"day": days, "text": pa.array(["é", None] * (n // 2)), "big": pa.array(range(n))}
    columns |= {f"f{i}": each for i, each in enumerate(truths)}
    return pa.table(columns).select(rng.permutation(list(columns)).tolist())


def in_words(words, table):
    """What Spark's query makes of a table, a value at a time."""
    made = {}
    for place in words.places:
        width = {"bool": 8, "date32[day]": 32}.get(str(place.kind)) or int(str(place.kind).removeprefix("int"))
        for row, value in enumerate(table[place.name].cast(pa.int32()).to_pylist()):
            for name, number, shift in (
                (f"v{place.word}", (value or 0) % 2**width, place.shift),
                (f"k{place.known // WORD}", value is not None, place.known % WORD),
            ):
                made.setdefault(name, [0] * len(table))[row] |= number << shift
    made = {name: np.array(column, np.uint64).view(np.int64) for name, column in made.items()}
    packed = {place.name for place in words.places}
    rest = {f"c{i}": table[name] for i, name in enumerate(table.column_names) if name not in packed}
    return pa.table(made | rest).to_batches()[0]


def test_columns_come_out_of_words_as_they_were():
    table = narrow(40)
    words = Words.of(table.schema)
    assert len(words.places) == table.num_columns - 2
    whole = in_words(words, table)
    for batch in (whole, whole.slice(3, 5), whole.slice(0, 0)):
        back = TakenApart(words, lambda batch: batch)(batch)
        start = 3 if batch.num_rows == 5 else 0
        assert pa.Table.from_batches([back]).equals(table.slice(start, batch.num_rows))
    assert not Words.of(pa.schema([("a", pa.int32()), ("b", pa.int64()), ("c", pa.string())])).places  # nothing saved


def rows_of_units(units, records, batch):
    lines = octets_of(records)
    order = np.argsort(units, kind="stable")
    names = pa.array([str(unit).encode() for unit in units[order]], pa.binary())
    table = [pa.nulls(len(units), pa.string()), names, make_binary_array(lines[order])]
    whole = pa.RecordBatch.from_arrays(table, names=["fault", "unit", "line"])
    return (whole.slice(at, batch) for at in range(0, len(units), batch))


def kept(units, records, most, batch=10_000, key=b"k" * 16):
    made = []
    for block in Truncate(DOMAIN, most, key)(rows_of_units(units, records, batch)):
        cells = [block.column(f"c{i}")[0].as_py() for i in range(len(DOMAIN))]
        codes = [np.frombuffer(cell, c.dtype) for cell, c in zip(cells, records.columns, strict=True)]
        made += list(zip(*(code.tolist() for code in codes), strict=True))
    return sorted(made)


def test_which_rows_of_a_person_stay_is_that_persons_own(monkeypatch):
    rng = np.random.default_rng(0)
    n = 600
    units = rng.integers(100, 180, n)
    units[200:290] = 555  # one whom a batch does not hold
    records = Records.of(DOMAIN, [rng.integers(0, 3, n), rng.integers(0, 3, n), rng.integers(0, 2, n)])
    whole = kept(units, records, 3)
    assert len(whole) == sum(min(3, size) for size in np.unique(units, return_counts=True)[1])
    monkeypatch.setattr("weft.engines.spark.workers.gather_batches", lambda batches: batches)
    shuffled = rng.permutation(n)
    assert kept(units[shuffled], records.take(shuffled), 3, batch=17) == whole
    one = units == 555
    without = kept(units[~one], records.take(~one), 3)
    assert len(whole) - len(without) == 3
    rest = list(whole)
    for row in without:
        rest.remove(row)  # all others keep what they had
    assert kept(units, records, 3, key=b"j" * 16) != whole


def test_equal_rows_of_a_person_stay_as_often_as_they_are_there():
    # A person with three rows of one kind and one of another keeps the other one a fourth of the time.
    records = Records.of(DOMAIN, [[0, 0, 0, 1]] * 3)
    keys = (i.to_bytes(16, "little") for i in range(800))
    other = sum(kept(np.zeros(4, np.int64), records, 1, key=key) == [(1, 1, 1)] for key in keys)
    assert 150 < other < 250  # four standard deviations


def test_one_row_more_leaves_all_others_in_their_part(monkeypatch):
    monkeypatch.setattr("weft.engines.spark.workers.gather_batches", lambda batches: batches)
    rng = np.random.default_rng(0)
    records = Records.of(DOMAIN, [rng.integers(0, 2, 200), rng.integers(0, 3, 200), rng.integers(0, 2, 200)])

    def parts(lines, batch):
        lines = lines[np.lexsort(lines.T[::-1])]
        cut = (make_binary_array(lines[at : at + batch]) for at in range(0, len(lines), batch))
        batches = (pa.RecordBatch.from_arrays([each], names=["line"]) for each in cut)
        found = [0, 0]
        for block in DivideRows(DOMAIN, (0.5, 0.3), b"k" * 16)(batches):
            found[block.column("part")[0].as_py()] += block.column("rows")[0].as_py()
        return np.array(found)

    lines = octets_of(records)
    before = parts(lines, 13)
    assert (before == parts(lines[::-1], 1000)).all() and 60 < before[0] < 140
    for row in range(0, 200, 10):
        assert np.abs(parts(np.vstack([lines, lines[row : row + 1]]), 13) - before).sum() <= 1


# With Spark. The short form is one test, so that the default suite starts one Spark at most.


def test_spark_in_short(tmp_path):
    session = spark()
    # Files of several row groups give the counts of memory, and a row is read by itself.
    there = open_engine(fill_spark(arrow(ROWS), tmp_path / "d"), PLAIN).engine
    here = open_engine(parquet(ROWS, tmp_path / "here.parquet"), PLAIN).engine
    assert equal(there.count(CELLS), here.count(CELLS))
    assert equal(there.groups(["w", "n"]), here.groups(["w", "n"]))
    odd = ["p", "9" * 400, "-1e400", "a\nb", "9007199254740993", "yes", "25/03/2020"]
    after = counts(fill_spark(arrow([*ROWS[:30], odd, *ROWS[30:]]), tmp_path / "d"), PLAIN, "auto")
    assert max(moved(here.count(CELLS), after)) <= 1
    # Words that Spark makes are those of the definition.
    typed = narrow(40)
    words = Words.of(typed.schema)
    made = session.createDataFrame(typed).select(*words.columns()).toArrow()
    assert made.to_pylist() == pa.Table.from_batches([in_words(words, typed)]).select(made.column_names).to_pylist()
    # Of every person the same rows stay in any partition, and as many as in memory.
    table = visits(3000, 1200)
    frame = session.createDataFrame(table)
    files = fill_spark(table, tmp_path / "rows")
    names = [f"spark.sql.execution.arrow.{name}" for name in ("maxRecordsPerBatch", "maxBytesPerBatch")]
    session.conf.set(names[0], "77")
    before = [session.conf.get(name) for name in names]
    kept = [open_engine(each, VISITS, rng=np.random.default_rng(5)).engine for each in (frame.repartition(4), files)]
    assert equal(kept[0].count(CLIQUES), kept[1].count(CLIQUES))
    assert (kept[0].unit_sizes(2) == open_engine(table, VISITS).engine.unit_sizes(2)).all()
    assert [session.conf.get(name) for name in names] == before  # the user's settings are put back
    session.conf.unset(names[0])
    numbered = frame.selectExpr("*", "row_number() OVER (PARTITION BY person ORDER BY ward) AS n").where("n = 1")
    for unstable in (frame.limit(10), frame.dropDuplicates(["person"]), numbered.drop("n")):
        with pytest.raises(DataError, match="each time"):
            open_engine(unstable, VISITS)
    assert open_engine(frame.distinct(), VISITS).engine.count([()])[0] > 0


STRICT = '[columns.n]\nkind = "integer"\nrange = [0, 9]\n'


@pytest.mark.slow
def test_a_fit_on_spark_is_the_fit_in_memory(tmp_path, monkeypatch):
    session = spark()
    monkeypatch.chdir(tmp_path)
    table = make_table(4000)
    settings = {"epsilon": 1.0, "noise_seed": 1, "seed": 2, "journal": None}
    here = Synthesizer(**settings).fit(table, ROWS_ONLY).sample(500, seed=3)
    for partitions in (1, 7):
        there = Synthesizer(**settings).fit(session.createDataFrame(table).repartition(partitions), ROWS_ONLY)
        made = there.sample(500, seed=3)
        assert made.toArrow().to_pylist() == here.to_pylist()
    assert len(session.sparkContext._jsc.getPersistentRDDs()) == 0  # nothing is kept once the fit has ended


@pytest.mark.slow
def test_rows_that_break_the_schema_are_refused_without_their_values():
    with pytest.raises(DataError, match="range") as refused:
        open_engine(spark().createDataFrame(pa.table({"n": [1, 77]})), Schema.from_toml(STRICT))
    assert "77" not in str(refused.value)


@pytest.mark.slow
def test_parts_and_seeds_on_spark(tmp_path, monkeypatch):
    session = spark()
    monkeypatch.chdir(tmp_path)
    table = visits(3000, 1200)
    frame = session.createDataFrame(table)
    loose = Schema.from_toml('extra_columns = "ignore"\n' + SCHEMA)
    for schema in (loose, VISITS):
        halves = []
        for each in (frame.repartition(2), frame.repartition(9)):
            engine = open_engine(each, schema, rng=np.random.default_rng(5)).engine
            parts = engine.split([0.5, 0.25], key_words)
            halves.append([part.count(CLIQUES) for part in parts])
            left = 1 - sum(part.count([()])[0] for part in parts) / engine.count([()])[0]
            assert 0.2 < left < 0.3
        assert all(equal(*pair) for pair in zip(*halves, strict=True))
    made = Synthesizer(1.0, 1e-5, method="bsg", omega=2, rows=50, split=[0.5, 0.25, 0.25], journal=None)
    assert made.fit(frame, loose).sample(50).count() == 50


@pytest.mark.slow
@pytest.mark.parametrize("schema", [PLAIN, UNITS], ids=["rows", "units"])
def test_every_odd_row_of_spark(schema, tmp_path):
    from .test_contract import cases, check

    read = [check("spark", row, place, schema, "auto", tmp_path) for row, place, _ in cases("spark", 40, 2)]
    assert sum(read) > 0


@pytest.mark.slow
def test_a_table_of_the_catalogue_and_what_is_none(tmp_path, monkeypatch):
    session = spark()
    session.createDataFrame(make_table(300)).write.saveAsTable("stays", mode="overwrite")
    session.sql("CREATE OR REPLACE VIEW seen AS SELECT * FROM stays")
    here = open_engine(make_table(300), ROWS_ONLY).engine.count(CLIQUES)
    assert equal(open_engine("spark:table:stays", ROWS_ONLY).engine.count(CLIQUES), here)
    for address, said in {
        "spark:table:seen": "view",
        "spark:table:nobody": "no such table",
        "spark:parquet:/nowhere/*.parquet": "cannot read",
        "spark:csv:x": "written spark:parquet",
        "spark:parquet:s3a://key:secret@bucket/x": "no password",
    }.items():
        with pytest.raises(DataError, match=said) as refused:
            open_engine(address, ROWS_ONLY)
        assert "secret" not in str(refused.value)
    # Folders named by a value are text, whatever the values of others look like.
    folder = tmp_path / "n"
    for value in (1, 2):
        (folder / f"n={value}").mkdir(parents=True)
        pq.write_table(pa.table({"sex": ["f"]}), folder / f"n={value}" / "a.parquet")
    schema = Schema.from_toml('[columns.sex]\nkind = "category"\nvalues = ["f", "m"]\n' + STRICT)
    before = open_engine(f"spark:parquet:{folder}", schema).engine.count([("n",)])[0]
    assert before.tolist()[1:3] == [1, 1]


@pytest.mark.slow
def test_files_that_change_are_noticed(tmp_path):
    source = fill_spark(make_table(300), tmp_path / "rows")
    engine = open_engine(source, ROWS_ONLY).engine
    pq.write_table(make_table(200), tmp_path / "rows" / "1.parquet")
    with pytest.raises(DataError, match="changed"):
        engine.count(CLIQUES)


@pytest.mark.slow
def test_a_killed_worker_changes_no_count(tmp_path):
    session = spark()
    table = make_table(400_000)
    memory = open_engine(table, ROWS_ONLY).engine.count(CLIQUES)
    frame = session.createDataFrame(table).repartition(24)
    killed, done = [], threading.Event()

    def kill():
        while not done.is_set() and len(killed) < 3:
            time.sleep(0.4)
            for worker in workers()[:1]:
                os.kill(worker, signal.SIGKILL)
                killed.append(worker)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        engine = open_engine(frame, ROWS_ONLY).engine
        for _ in range(4):
            assert equal(engine.count(CLIQUES), memory)
    finally:
        done.set()
        killer.join()
    assert killed


def workers():
    """Return Spark's Python workers: processes that a daemon of ours forked."""
    listed = subprocess.run(["ps", "-ww", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()[1:]]
    daemons = {pid for pid, _, args in rows if "pyspark.daemon" in args}
    mine = {pid for pid, parent, _ in rows if _above(pid, rows, os.getpid())}
    return [int(pid) for pid, parent, _ in rows if parent in daemons and pid in mine]


def _above(pid, rows, root):
    parents = {pid: parent for pid, parent, _ in rows}
    while pid in parents:
        if pid == str(root):
            return True
        pid = parents[pid]
    return False


# Of no module that workers could look for, so that it is sent to them as it is.
DYING = eval("lambda batches: __import__('os')._exit(9)", {"__name__": "__main__"})


@pytest.mark.slow
def test_a_fit_that_spark_cannot_finish_draws_no_noise_and_says_so(tmp_path, monkeypatch):
    session = spark()
    monkeypatch.chdir(tmp_path)
    frame = session.createDataFrame(make_table(500))
    monkeypatch.setattr("weft.engines.spark.spark_engine.workers.Count", lambda *given: DYING)
    drawn = []
    monkeypatch.setattr(Mechanisms, "__call__", lambda *given: drawn.append(given))
    with pytest.raises(DataError, match="No answer was made") as refused:
        Synthesizer(1.0, journal="j.jsonl").fit(frame, ROWS_ONLY)
    (run,) = read_journal(tmp_path / "j.jsonl")
    assert len(run.charges) == 1 and not drawn  # charged first, and nothing was released for it
    assert "Traceback" not in str(refused.value)


KILLED_EXECUTOR = """
import os, signal, subprocess, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from conftest import SCHEMA, make_table
import pyspark
from weft import Synthesizer
from weft.privacy import read_journal
from weft.io.spark_source import spark_session
from weft.schema import Schema

local = {"ui.enabled": "false", "driver.host": "127.0.0.1", "driver.bindAddress": "127.0.0.1"}
local |= {"executor.memory": "512m"}
settings = " ".join(f"--conf spark.{name}={value}" for name, value in local.items())
os.environ |= {
    "SPARK_HOME": str(Path(pyspark.__file__).parent),
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYSPARK_PYTHON": sys.executable,
    "PYSPARK_SUBMIT_ARGS": f"--master local-cluster[2,1,700] {settings} pyspark-shell",
}

def children(pid):
    listed = subprocess.check_output(["ps", "-ww", "-eo", "pid,ppid,args"], text=True)
    for own, parent, args in [line.split(None, 2) for line in listed.splitlines()]:
        if parent == str(pid):
            yield int(own), args
            yield from children(own)

cliques, schema, table = [("age", "sex"), ("cost", "ward")], Schema.from_toml(SCHEMA), make_table(50_000)
frame = spark_session().createDataFrame(table).repartition(8)
executors, killed = [], []

def kill(event):  # an executor, with the codes that it kept, when the first count begins
    if event.stage == "count" and not killed:
        found = [pid for pid, args in children(os.getpid()) if "ExecutorBackend" in args and "java" in args.split()[0]]
        executors.extend(found)
        os.kill(found[0], signal.SIGKILL)
        killed.append(found[0])

settings = {"epsilon": 1.0, "method": "mst", "noise_seed": 1, "seed": 2}
there = Synthesizer(**settings, journal="there.jsonl").fit(frame, schema, listener=kill)
here = Synthesizer(**settings, journal="here.jsonl").fit(table, schema)
# The same noise on the same counts: another draw anywhere would have moved all that follow.
assert there.sample(500, seed=3).toArrow().to_pylist() == here.sample(500, seed=3).to_pylist()
(one,), (other,) = read_journal(Path("there.jsonl")), read_journal(Path("here.jsonl"))
assert [each["cost"] for each in one.charges] == [each["cost"] for each in other.charges]
assert killed
print("same", len(executors))
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_executor_that_is_killed_during_a_fit_changes_nothing(tmp_path):
    spark()
    tests = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", KILLED_EXECUTOR, str(tests)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.stdout.strip() == "same 2", done.stderr[-2000:]


@pytest.mark.slow
def test_a_sample_on_spark_is_the_same_on_any_number_of_executors(tmp_path, monkeypatch):
    spark()
    monkeypatch.chdir(tmp_path)
    made = Synthesizer(1.0, journal=None).fit(make_table(500), ROWS_ONLY)
    made.save("m.weft")
    model = tmp_path / "m.weft"
    for name in ("one", "two"):
        publish_dataset(model, made.fitted_, 950, Dataset(tmp_path / name), 7, block_rows=200)
    one, two = (sorted((tmp_path / name).iterdir()) for name in ("one", "two"))
    assert [path.name for path in one] == [f"part-{i:06d}.parquet" for i in range(5)]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]
    assert len(pq.read_table(tmp_path / "one")) == 950 and not verify(tmp_path / "one").wrong
    two[0].write_bytes(one[1].read_bytes())
    assert verify(tmp_path / "two").wrong
    with pytest.raises(OutputError, match="already exists"):
        publish_dataset(model, made.fitted_, 5, Dataset(tmp_path / "one"), 7)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []
