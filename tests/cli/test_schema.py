"""`weft schema`: a draft spares what is there, a check says what it has looked at, and bad files are named as such."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from weft.schema import Schema

from .conftest import Weft

CANARY = "Xanthippe-77"


def test_a_draft_leaves_a_file_alone_that_is_there(weft: Weft) -> None:
    Path("mine.toml").write_text("reviewed")
    refused = weft("schema", "draft", "visits.csv", "-o", "mine.toml", code=7).stderr
    assert "mine.toml already exists" in refused and "another name" in refused and "--force" in refused
    assert Path("mine.toml").read_text() == "reviewed"
    weft("schema", "draft", "visits.csv", "-o", "mine.toml", "--force")
    assert Schema.load("mine.toml").column("town").missing


def test_a_draft_never_replaces_its_own_table(weft: Weft) -> None:
    before = Path("visits.csv").read_bytes()
    for words in ((), ("--force",)):
        assert "an input" in weft("schema", "draft", "visits.csv", "-o", "./visits.csv", *words, code=7).stderr
    assert Path("visits.csv").read_bytes() == before


def test_a_drafted_table_fits_its_draft(weft: Weft) -> None:
    weft("schema", "draft", "visits.csv", "-o", "draft.toml")
    words = ("-e", 1, "-m", "independent", "--trust-data-for-schema", "-o", "out.csv")
    weft("synth", "visits.csv", "-s", "draft.toml", *words)
    town = Schema.load("draft.toml").column("town")
    assert (town.to_dict()["values"], town.missing) == (["Arras", "Bruges", "Ghent"], True)
    made = Path("out.csv").read_text().splitlines()
    assert any(line.split(",")[2] == "" for line in made) and not any(',"",' in line for line in made)


def test_check_heads_a_draft_truthfully_and_tells_each_column_once(weft: Weft) -> None:
    weft("schema", "draft", "visits.csv", "-o", "draft.toml")
    schema = Schema.load("draft.toml")
    facts, columns = len(schema.from_data_facts()), sum(bool(column.from_data) for column in schema.columns)
    result = weft("schema", "check", "draft.toml", "visits.csv")
    assert f"! draft.toml is valid, but {facts} facts in {columns} columns are still to be reviewed" in result.stdout
    assert "✓ names and types match visits.csv; no row was read" in result.stdout
    assert "✓ draft.toml" not in result.stdout
    warned = re.findall(r'^warning: column "(\w+)"', result.stderr, re.MULTILINE)
    assert sorted(warned) == sorted(column.name for column in schema.columns)


def test_check_of_one_mark_and_of_none(weft: Weft) -> None:
    assert "✓ visits.toml is valid\n" in weft("schema", "check", "visits.toml").stdout
    Path("one.toml").write_text('[columns.x]\nkind = "category"\nvalues = ["a"]\nfrom_data = ["values"]\n')
    result = weft("schema", "check", "one.toml")
    assert "one.toml is valid, but 1 fact in 1 column is still to be reviewed" in result.stdout
    (warning,) = json.loads(weft("schema", "check", "one.toml", "--json").stdout)["warnings"]
    assert warning.startswith('column "x": only one code') and "also, values was read from private rows" in warning


@pytest.mark.parametrize(
    ("content", "match", "code"),
    [
        ("", "the file is empty", 4),
        (f"a,b\n1,u\n{CANARY}\n", "line 3: it has more or fewer fields", 4),
        (f"a;b\n1;{CANARY}\n", "looks separated by ';'", 4),
        (f"a,b\n1,{CANARY}é\n", 'column "b": a value is not UTF-8 text', 4),
        (f"a,é\n1,{CANARY}\n", "is not UTF-8 text", 4),
        (f"a,a\n1,{CANARY}\n", 'column "a": the table has several columns of this name; rename them', 3),
    ],
)
def test_draft_and_synth_say_what_is_wrong_with_a_file(weft: Weft, content: str, match: str, code: int) -> None:
    Path("bad.csv").write_bytes(content.encode("latin-1"))
    Path("ab.toml").write_text(
        '[columns.a]\nkind = "integer"\nrange = [0, 9]\n[columns.b]\nkind = "category"\nvalues = ["u"]\n'
    )
    for words in (
        ("schema", "draft", "bad.csv", "-o", "bad.toml"),
        ("synth", "bad.csv", "-s", "ab.toml", "-e", 1, "-o", "out.csv"),
    ):
        said = weft(*words, code=code).stderr
        assert match in said and CANARY not in said and "bug" not in said
    assert not Path("bad.toml").exists() and not Path("out.csv").exists()


def test_a_header_alone_gives_no_draft(weft: Weft) -> None:
    Path("bare.csv").write_text("a,b\n")
    assert "has no rows" in weft("schema", "draft", "bare.csv", code=4).stderr


def test_a_schema_with_columns_that_a_run_would_find_is_checked_as_far_as_it_goes(weft: Weft, folder: Path) -> None:
    known = '[columns.sex]\nkind = "category"\nvalues = ["f", "m"]\n'
    (folder / "part.toml").write_text(f'{known}[columns.age]\nkind = "unknown"\n')
    assert "discovers them for a share of its budget: age" in weft("schema", "check", "part.toml").stdout
    answer = json.loads(weft("schema", "check", "part.toml", "--json").stdout)
    assert [c["name"] for c in answer["columns"]] == ["sex"] and answer["found_privately"] == ["age"]
    assert '"age" would be discovered privately' in weft("plan", "part.toml", "-e", 1, "--rows", 100, code=1).stderr
