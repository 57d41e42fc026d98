"""Which files are one, and which outputs a source would read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weft.errors import OutputError
from weft.io.output_paths import check_apart, same_file


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("d/a.csv", "d/deep/b.parquet", "q.parquet", "x.db", "other.txt"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("rows")
    return tmp_path


def refused(source: object, target: str) -> bool:
    try:
        check_apart({"the private table": source}, {"the output": Path(target)})  # type: ignore[dict-item]
    except OutputError as error:
        assert target in str(error) and error.exit_code == 7
        return True
    return False


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("q.parquet", "q.parquet"),
        ("q.parquet", "d/../q.parquet"),
        ("d", "d/a.csv"),
        ("d", "d/new.csv"),
        ("d", "d/deep/deeper/new.parquet"),
        (".", "out.csv"),
        ("d/*.csv", "d/a.csv"),
        ("d/*.csv", "d/new.csv"),
        ("d/**/*.parquet", "d/deep/x/new.parquet"),
        ("[dq].parquet", "d.parquet"),
        (["q.parquet", "d/a.csv"], "d/a.csv"),
        ("duckdb:x.db?table=stays", "x.db"),
        ("duckdb:x.db?table=stays", "x.db.wal"),
        ("duckdb:x.db?query=SELECT * FROM 'q.parquet'", "q.parquet"),
        ("duckdb:SELECT * FROM 'q.parquet'", "q.parquet"),
        ('duckdb:from "q.parquet"', "q.parquet"),
        ("duckdb:SELECT * FROM q.parquet", "q.parquet"),
        ("duckdb:SELECT * FROM read_csv(['d/*.csv', 'e/*.csv'])", "d/new.csv"),
        ("duckdb:WITH t AS (SELECT * FROM 'd/a.csv') SELECT * FROM t", "d/a.csv"),
    ],
)
def test_what_is_read_is_not_written(source: object, target: str) -> None:
    assert refused(source, target)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("q.parquet", "r.parquet"),
        ("d", "out.csv"),
        ("d", "d/model.weft"),  # not read as rows
        ("d/*.csv", "d/new.parquet"),
        ("d/*.csv", "d/deep/new.csv"),
        ("d/*.csv", "dd/new.csv"),
        ("duckdb:SELECT replace(a, '*', '.') FROM 'q.parquet' WHERE b = 'd'", "d/new.csv"),
        (Path("d/[a].csv"), "d/a.csv"),  # a path is one file
    ],
)
def test_what_is_not_read_may_be_written(source: object, target: str) -> None:
    assert not refused(source, target)


def test_links_and_inodes_make_files_one(folder: Path) -> None:
    Path("soft.parquet").symlink_to("q.parquet")
    os.link("q.parquet", "hard.parquet")
    Path("door").symlink_to("d", target_is_directory=True)
    assert refused("q.parquet", "soft.parquet") and refused("soft.parquet", "q.parquet")
    assert refused("q.parquet", "hard.parquet")
    assert refused("d", "door/new.csv") and refused("door/*.csv", "d/new.csv")
    assert same_file(Path("door/new.csv"), folder / "d" / "new.csv")
    assert not same_file(Path("new.csv"), Path("d/new.csv"))


def test_two_outputs_are_two_files() -> None:
    one, other = Path("out.csv"), Path("d/../out.csv")
    with pytest.raises(OutputError, match="the table and the model"):
        check_apart({}, {"the table": one, "the model": other})
    with pytest.raises(OutputError, match="the table and the journal"):
        check_apart({}, {"the table": one}, {"the journal": other})


def test_records_are_kept_and_nothing_else_is_taken_for_one() -> None:
    Path("old.jsonl").write_text('{"run": "1", "budget": {}}\n')
    with pytest.raises(OutputError, match="budget journal"):
        check_apart({}, {"the model": Path("old.jsonl")})
    check_apart({}, {}, {"the journal": Path("old.jsonl")})
    with pytest.raises(OutputError, match="holds something else"):
        check_apart({}, {}, {"the journal": Path("other.txt")})


@pytest.mark.parametrize("source", ["x" * 5000, "duckdb:SELECT '" + "y" * 5000 + "'", "a\0b", "duckdb:"])
def test_names_that_cannot_be_are_nobodys(source: str) -> None:
    assert not refused(source, "out.csv")
