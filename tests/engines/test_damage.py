"""Files that are damaged, or that unpack to far more than their size: a clear refusal, within bounded memory."""

from __future__ import annotations

import gzip
import os
import random
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from weft.cli import app
from weft.engines import MemoryEngine, StreamEngine, open_engine
from weft.errors import DataError, WeftError
from weft.memory_plan import MemoryPlan
from weft.schema import Schema

SECRET = "Ossian"
SCHEMA = f"""
[columns.age]
kind = "integer"
range = [0, 120]
[columns.name]
kind = "category"
values = ["{SECRET}1", "{SECRET}2", "{SECRET}3"]
"""
MEMORY = 1_700_000_000
"""Octets of address space that a command gets here: less than the bombs unpack to."""


def private(rows: int = 3000) -> pa.Table:
    rng = np.random.default_rng(1)
    return pa.table({"age": rng.integers(0, 90, rows), "name": [f"{SECRET}{1 + i % 3}" for i in range(rows)]})


def flipped(data: bytes, seed: int) -> bytes:
    """Return data with some bits turned over."""
    chance = random.Random(seed)
    damaged = bytearray(data)
    for _ in range(chance.choice([1, 1, 3, 20])):
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


WRITERS = {".parquet": pq.write_table, ".orc": pyarrow.orc.write_table}


def try_flipped(folder: Path, monkeypatch: pytest.MonkeyPatch, seeds: Iterable[int], ending: str) -> set[int]:
    """Release damaged files; return the exit codes."""
    monkeypatch.chdir(folder)
    Path("schema.toml").write_text(SCHEMA)
    codes = set()
    for seed in seeds:
        plain = "none" if ending == ".parquet" else "uncompressed"
        WRITERS[ending](private(), f"sound{ending}", compression=[plain, "snappy", "zstd"][seed % 3])
        Path(f"bad{ending}").write_bytes(flipped(Path(f"sound{ending}").read_bytes(), seed))
        told = ["-s", "schema.toml"] if seed % 2 else ["--one-row-per-person"]
        words = ["synth", f"bad{ending}", "-e", "1", "-m", "independent", *told, "-o", f"made{seed}.csv"]
        done = CliRunner(env={"NO_COLOR": "1", "COLUMNS": "300"}).invoke(app, words)
        codes.add(done.exit_code)
        assert done.exit_code in (0, 3, 4), (seed, done.stderr)
        if done.exit_code:
            assert SECRET not in done.output and "Traceback" not in done.output
            assert not Path(f"made{seed}.csv").exists() and not Path(f"made{seed}.card.json").exists()
            assert "Nothing was spent" in done.stderr or Path(f"made{seed}.ledger.jsonl").exists()
    return codes


@pytest.mark.parametrize("ending", WRITERS)
def test_flipped_bits_are_told_plainly(ending, tmp_path, monkeypatch):
    assert 4 in try_flipped(tmp_path, monkeypatch, range(20), ending)


@pytest.mark.slow
@pytest.mark.parametrize("ending", WRITERS)
def test_many_flipped_bits_are_told_plainly(ending, tmp_path, monkeypatch):
    assert 4 in try_flipped(tmp_path, monkeypatch, range(1000, 1300), ending)


def test_a_page_with_a_checksum_is_held_to_it(tmp_path):
    table, path = private(), tmp_path / "t.parquet"
    pq.write_table(table, path, compression="none", write_page_checksum=True, use_dictionary=False)
    data, at = path.read_bytes(), 2000  # among the values of the first column
    schema = Schema.from_toml(SCHEMA.replace("range = [0, 120]\n", 'range = [0, 120]\noutside = "clip"\n'))
    open_engine(path, schema)
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with pytest.raises(DataError, match="damaged"):
        open_engine(path, schema)


AB = '[columns.a]\nkind = "integer"\nrange = [0, 9]\n[columns.b]\nkind = "category"\nvalues = ["2"]\nother = "o"\n'
AB += 'outside = "other"\n'


def pack_text(path: Path, head: bytes, block: bytes, times: int) -> Path:
    """Write a packed file of a beginning and many blocks."""
    with ExitStack() as held:
        if path.suffix == ".gz":
            file = held.enter_context(gzip.open(path, "wb", compresslevel=1))
        else:
            archive = held.enter_context(zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1))
            file = held.enter_context(archive.open("a.csv", "w", force_zip64=True))
        file.write(head)
        file.writelines([block] * times)
    return path


def workbook(path: Path, rest: bytes, times: int = 1) -> Path:
    """Write a workbook whose sheet has two names, and then what is given."""
    word = '<c r="{}1" t="inlineStr"><is><t>{}</t></is></c>'
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    links = '<Relationships xmlns="{}/relationships"><Relationship Id="r1" Type="{}/{}" Target="{}"/></Relationships>'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("[Content_Types].xml", f'<Types xmlns="{package}/content-types"/>')
        archive.writestr("_rels/.rels", links.format(package, office, "officeDocument", "xl/workbook.xml"))
        sheets = f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets><sheet name="S" sheetId="1" r:id="r1"/></sheets>'
        archive.writestr("xl/workbook.xml", f"{sheets}</workbook>")
        linked = links.format(package, office, "worksheet", "worksheets/sheet1.xml")
        archive.writestr("xl/_rels/workbook.xml.rels", linked)
        with archive.open("xl/worksheets/sheet1.xml", "w", force_zip64=True) as file:
            names = word.format("A", "a") + word.format("B", "b")
            file.write(f'<worksheet xmlns="{main}"><sheetData><row r="1">{names}</row>'.encode())
            file.writelines([rest] * times)
            file.write(b"</sheetData></worksheet>")
    return path


def release(path: Path) -> subprocess.CompletedProcess[str]:
    """Release a table in a process with little memory."""
    (path.parent / "ab.toml").write_text(AB)
    words = ["-m", "weft.cli", "synth", path.name, "-s", "ab.toml", "-e", "1", "-m", "independent", "-n", "9"]
    limited = f"import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))\n"
    limited += "sys.argv[0] = 'weft'; runpy.run_module('weft.cli', run_name='__main__')"
    command = [sys.executable, "-c", limited, *words[2:], "-o", "made.csv"]
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "NO_COLOR": "1", "COLUMNS": "300"}
    env["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # mimalloc reserves a gigabyte of addresses that it does not use
    env["MALLOC_ARENA_MAX"] = "1"  # every arena of a thread reserves addresses, too, as many as chance wants
    return subprocess.run(command, cwd=path.parent, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("line.csv.gz", lambda path: pack_text(path, b"a,b\n", b"0" * (1 << 20), 1800)),
        ("quote.csv.gz", lambda path: pack_text(path, b'a,b\n1,"', b"0" * (1 << 20), 1800)),
        ("line.jsonl.gz", lambda path: pack_text(path, b'{"a": "', b"0" * (1 << 20), 1800)),
        ("line.csv.zip", lambda path: pack_text(path, b"a,b\n", b"0" * (1 << 20), 1800)),
        ("sparse.xlsx", lambda path: workbook(path, b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>')),
    ],
)
def test_a_bomb_is_refused(name, make, tmp_path):
    path = make(tmp_path / name)
    assert path.stat().st_size < 20_000_000
    done = release(path)
    assert done.returncode == 4 and name in done.stderr and "Nothing was spent" in done.stderr, done.stderr
    assert "bug" not in done.stderr and not (tmp_path / "made.csv").exists()


@pytest.mark.slow
def test_a_cell_without_end_is_refused(tmp_path):
    path = workbook(tmp_path / "cell.xlsx", b"<row><c><v>" + b"0" * (1 << 20), 4000)
    done = release(path)
    assert done.returncode == 4 and "cell.xlsx" in done.stderr, done.stderr


def test_a_short_file_of_long_texts_is_read_in_small_pieces(tmp_path):
    words = pa.DictionaryArray.from_arrays(pa.array(np.zeros(20_000, np.int32)), pa.array(["2" * 200_000]))
    table = pa.table({"a": pa.array(np.ones(20_000, np.int64)), "b": words})
    path = tmp_path / "wide.parquet"  # a kilobyte that stands for 4 GB
    pq.write_table(table, path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 10_000
    done = release(path)
    assert done.returncode == 0, done.stderr


def test_a_short_orc_file_of_long_texts_is_read_in_small_pieces(tmp_path):
    path = tmp_path / "wide.orc"  # a kilobyte that stands for 4 GB
    block = pa.table({"a": pa.array(np.ones(1000, np.int64)), "b": ["2" * 200_000] * 1000})
    with pyarrow.orc.ORCWriter(str(path), compression="zstd", dictionary_key_size_threshold=1.0) as writer:
        for _ in range(20):
            writer.write(block)
    assert path.stat().st_size < 10_000 and pyarrow.orc.ORCFile(str(path)).nstripes == 1
    done = release(path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("memory", [None, "1.2GB"])
def test_a_packed_file_that_is_larger_than_it_looks_is_streamed(tmp_path, monkeypatch, memory):
    path = pack_text(tmp_path / "rows.csv.gz", b"a,b\n", b"1,2\n" * 1000, 300)
    few = MemoryPlan(codes=100_000, stated=memory is not None)
    opened = open_engine(path, Schema.from_toml(AB), room=few)
    assert path.stat().st_size * 6 < few.codes and isinstance(opened.engine, StreamEngine)
    assert opened.engine.count([("a",)])[0][1] == 300_000
    assert isinstance(open_engine(path, Schema.from_toml(AB)).engine, MemoryEngine)
    with pytest.raises(WeftError, match="does not fit the memory"):
        open_engine(path, Schema.from_toml(AB), engine="memory", room=MemoryPlan(codes=100_000, stated=True))
