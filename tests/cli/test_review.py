"""`weft schema review`, `import` and `export`: in the terminal and by flags, and never at the cost of the file."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from typer.testing import CliRunner

from weft.cli import app
from weft.schema import Schema

from .conftest import Weft

DRAFT = """# My words.
[columns.age]  # in years
kind = "integer"
range = [3, 97]
missing = true
from_data = ["kind", "range", "missing"]

# A list.
[columns.ward]
kind = "category"
values = [
  "a",
  "b",
]
from_data = ["kind", "values"]
"""


def entries() -> dict[str, dict[str, object]]:
    return tomllib.loads(Path("draft.toml").read_text())["columns"]


def answered(*answers: str) -> str:
    Path("draft.toml").write_text(DRAFT)
    result = CliRunner().invoke(app, ["schema", "review", "draft.toml"], input="\n".join(answers) + "\n")
    assert result.exit_code == 0, result.output
    return result.output


def test_flags_accept_and_edit_and_keep_comments(weft: Weft) -> None:
    Path("draft.toml").write_text(DRAFT)
    weft("schema", "review", "draft.toml", "--column", "age", "--range", 0, 120)
    assert entries()["age"] == {"kind": "integer", "range": [0, 120], "missing": True, "from_data": ["kind", "missing"]}
    said = weft("schema", "review", "draft.toml", "--accept", "missing", "--accept", "kind").stdout
    assert "1 fact in 1 column left to review (values)" in said
    weft("schema", "review", "draft.toml", "--column", "ward", "--values", "a,b,c")
    assert "nothing is left" in weft("schema", "review", "draft.toml", "--accept", "all").stdout
    text = Path("draft.toml").read_text()
    assert "# My words." in text and "# in years" in text and "# A list." in text
    assert Schema.load("draft.toml").column("ward").values == ("a", "b", "c")
    assert Schema.load("draft.toml").from_data_facts() == []


def test_flags_write_elsewhere_and_change_kinds(weft: Weft) -> None:
    Path("draft.toml").write_text(DRAFT)
    weft("schema", "review", "draft.toml", "-o", "new.toml", "--column", "ward", "--kind", "id")
    assert Path("draft.toml").read_text() == DRAFT
    assert tomllib.loads(Path("new.toml").read_text())["columns"]["ward"] == {"kind": "id"}


def test_wrong_flags_leave_the_file_alone(weft: Weft) -> None:
    Path("draft.toml").write_text(DRAFT)
    assert "exactly one --column" in weft("schema", "review", "draft.toml", "--range", 0, 9, code=2).stderr
    assert "not a type of fact" in weft("schema", "review", "draft.toml", "--accept", "rang", code=2).stderr
    assert "lowest" in weft("schema", "review", "draft.toml", "--column", "age", "--range", 9, 0, code=3).stderr
    assert (
        'no column "agee"'
        in weft("schema", "review", "draft.toml", "--column", "agee", "--accept", "kind", code=3).stderr
    )
    assert Path("draft.toml").read_text() == DRAFT


def test_private_facts_leave_the_schema(weft: Weft) -> None:
    Path("draft.toml").write_text(DRAFT)
    weft("schema", "review", "draft.toml", "--private", "range", "--private", "values", "--accept", "all")
    assert entries() == {"age": {"kind": "integer", "missing": True}, "ward": {"kind": "category"}}
    Path("draft.toml").write_text(DRAFT)
    weft("schema", "review", "draft.toml", "--private", "kind", "--column", "age")
    assert entries()["age"] == {"kind": "unknown"}


def test_in_the_terminal(weft: Weft) -> None:
    said = answered("A", "e", "0", "120", "wrong", "s", "p")
    assert "I know this without looking at the rows" in said and "the smallest and the largest possible value" in said
    assert entries()["age"] == {"kind": "integer", "range": [0, 120], "missing": True, "from_data": ["missing"]}
    assert entries()["ward"] == {"kind": "category"}
    assert "1 fact in 1 column left to review (missing)" in said
    answered("q")
    assert Path("draft.toml").read_text() == DRAFT


def test_a_draft_with_long_lists_is_reviewed_and_synthesised(weft: Weft) -> None:
    rows = "".join(f"w{n % 300}x,{n % 5}\n" for n in range(1200))
    Path("long.csv").write_text("ward,n\n" + rows)
    weft("schema", "draft", "long.csv", "-o", "long.toml")
    assert len(Path("long.values/ward.txt").read_text().splitlines()) == 300
    assert "already exists" in weft("schema", "draft", "long.csv", "-o", "long.toml", code=7).stderr
    Path("away").mkdir()
    elsewhere = weft("schema", "review", "long.toml", "-o", "away/long.toml", "--accept", "all", code=7).stderr
    assert "refers to files in its folder" in elsewhere
    weft("schema", "review", "long.toml", "--accept", "all")
    words = ("-e", 1, "-m", "independent", "--metadata", "frictionless,csvw,croissant", "-o", "made.csv")
    weft("synth", "long.csv", "-s", "long.toml", *words)
    package = json.loads(Path("made.frictionless.json").read_text())
    assert package["resources"][0]["path"] == "made.csv" and len(package["resources"][0]["schema"]["fields"]) == 2
    assert Path("made.csvw.json").is_file() and Path("made.croissant.json").is_file()
    refused = weft("synth", "long.csv", "-s", "long.toml", "-e", 1, "--metadata", "x", "-o", "m2.csv", code=7).stderr
    assert "unknown metadata format: x" in refused


def test_import_and_export(weft: Weft) -> None:
    Path("d.csv").write_text("column,description,type,values\nage,,int,0-120\nward,,category,a|b\n")
    weft("schema", "import", "d.csv", "-o", "s.toml")
    assert Schema.load("s.toml").column("ward").values == ("a", "b")
    assert "already exists" in weft("schema", "import", "d.csv", "-o", "s.toml", code=7).stderr
    weft("schema", "export", "s.toml", "--to", "frictionless", "-o", "p.json")
    weft("schema", "import", "p.json", "-o", "again.toml")
    assert Schema.load("again.toml").column("age").range == (0, 120)
    weft("schema", "export", "s.toml", "--to", "xml", code=2)
