"""An earlier release is not replaced by accident, a refused run leaves nothing, and an empty file is called empty."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from weft.cli import app
from weft.cli.terminal import Terminal
from weft.errors import DataError
from weft.methods.independent import Independent
from weft.privacy import read_journal

from .conftest import Weft, outputs

FIT = ("visits.csv", "-s", "visits.toml", "-e", 1, "-m", "independent")


@pytest.mark.parametrize(
    ("words", "made"),
    [
        (("synth", *FIT, "-n", 20, "-o", "out.csv"), "out.csv"),
        (("synth", *FIT, "-n", 20, "--model", "m.weft", "-o", "-"), "m.weft"),
        (("fit", *FIT, "-o", "out.weft"), "out.weft"),
        (("itemsets", "visits.csv", "--columns", "town", "-e", 1, "-o", "sets.csv"), "sets.csv"),
    ],
)
def test_an_earlier_release_is_kept_unless_somebody_says_otherwise(weft: Weft, words: Any, made: str) -> None:
    weft(*words)
    before, (journal,) = Path(made).read_bytes(), Path().glob("*.ledger.jsonl")
    said = weft(*words, code=7).stderr
    assert made in said and "--overwrite" in said and "Nothing was spent" in said
    assert Path(made).read_bytes() == before and len(read_journal(journal)) == 1
    weft(*words, "--overwrite")
    assert len(read_journal(journal)) == 2


def test_more_rows_replace_no_others(weft: Weft, model: Path) -> None:
    weft("sample", model, "-n", 5, "-o", "out.csv")
    before = Path("out.csv").read_bytes()
    assert "--overwrite" in weft("sample", model, "-n", 7, "-o", "out.csv", code=7).stderr
    assert Path("out.csv").read_bytes() == before
    weft("sample", model, "-n", 7, "-o", "out.csv", "--overwrite")
    assert Path("out.csv").read_bytes() != before


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 7)])
def test_a_terminal_is_asked(weft: Weft, model: Path, monkeypatch: pytest.MonkeyPatch, answer: str, code: int) -> None:
    weft("sample", model, "-n", 5, "-o", "out.csv")
    before = Path("out.csv").read_bytes()
    monkeypatch.setattr(Terminal, "asks", True)
    words = ["sample", str(model), "-n", "7", "-o", "out.csv"]
    done = CliRunner(env={"NO_COLOR": "1"}).invoke(app, words, input=answer)
    assert done.exit_code == code and "out.csv (and 2 more files) already exist" in done.stderr
    assert (Path("out.csv").read_bytes() == before) == (code == 7)


def test_a_run_that_is_refused_before_its_first_charge_leaves_nothing(
    weft: Weft, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Independent, *_: Any) -> None:
        raise DataError("a rule is broken")

    monkeypatch.setattr(Independent, "fit", refuse)
    assert "Nothing was spent" in weft("synth", *FIT, "-o", "out.csv", code=4).stderr
    assert outputs(folder) == set()


def test_a_run_that_is_refused_leaves_the_journal_of_others_as_it_was(
    weft: Weft, monkeypatch: pytest.MonkeyPatch
) -> None:
    weft("synth", *FIT, "-o", "out.csv")
    before = Path("out.ledger.jsonl").read_bytes()

    def refuse(self: Independent, *_: Any) -> None:
        raise DataError("a rule is broken")

    monkeypatch.setattr(Independent, "fit", refuse)
    said = weft("synth", *FIT, "-o", "out.csv", "--overwrite", code=4).stderr
    assert "Nothing was spent" in said and "weft resume" not in said
    assert Path("out.ledger.jsonl").read_bytes() == before and not list(Path().glob("*.checkpoint"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("none.csv", b""),
        ("none.tsv", b""),
        ("lines.csv", b"\n\n"),
        ("mark.csv", b"\xef\xbb\xbf"),
        ("none.csv.gz", b""),
        ("packed.csv.gz", gzip.compress(b"", mtime=0)),
        ("none.csv.zip", b""),
        ("none.parquet", b""),
        ("none.arrow", b""),
        ("none.xlsx", b""),
        ("none.sav", b""),
    ],
)
@pytest.mark.parametrize("schema", [("--schema", "visits.toml"), ("--one-row-per-person",)])
def test_an_empty_file_is_called_empty(
    weft: Weft, folder: Path, name: str, content: bytes, schema: tuple[str, ...]
) -> None:
    Path(name).write_bytes(content)
    said = weft("synth", name, *schema, "-e", 1, "-o", "out.csv", code=4).stderr
    assert name in said and "is empty" in said and "Nothing was spent" in said
    assert outputs(folder) <= {name}


@pytest.mark.parametrize("name", ["none.csv", "none.parquet", "none.xlsx"])
def test_a_draft_of_an_empty_file_says_so(weft: Weft, name: str) -> None:
    Path(name).touch()
    assert "empty" in weft("schema", "draft", name, "-o", "draft.toml", code=4).stderr
