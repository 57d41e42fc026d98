"""The page about schemas is executed: its commands run in order, its schemas load."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weft.cli import app
from weft.schema import Schema

PAGE = (Path(__file__).parents[2] / "docs" / "schema.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("text", blocks("toml"))
def test_a_schema_loads(text):
    assert Schema.from_toml(text).column("drinks").values == ("yes", "no", "not asked")


WARDS = ("surgery", "medicine", "maternity")


@pytest.fixture
def stays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("stays.csv").write_text("age,ward\n" + "".join(f"{n % 90},{WARDS[n % 3]}\n" for n in range(200)))


def test_the_screen_of_a_review_is_what_is_shown(stays):
    (screen,) = (block for block in blocks("text") if "to go)" in block)
    typed = re.findall(r"(?:\[s\]|lowest|highest): (.*)$", screen, re.MULTILINE)
    assert CliRunner().invoke(app, ["schema", "draft", "stays.csv", "-o", "draft.toml"]).exit_code == 0
    shown = CliRunner().invoke(app, ["schema", "review", "draft.toml"], input="\n".join(typed) + "\n").output
    assert shown.split() == screen.split()  # but for where lines are broken
    assert Schema.load("draft.toml").column("age").range == (0, 120)


def test_the_commands_run_in_order(stays):
    (dictionary,) = blocks("csv")
    Path("dictionary.csv").write_text(dictionary)
    ran = 0
    for line in "".join(blocks("console")).splitlines():
        result = CliRunner().invoke(app, shlex.split(line.removeprefix("$ weft ")))
        assert result.exit_code == 0, (line, result.output)
        ran += 1
    assert ran == 11
    assert Schema.load("draft.toml").from_data_facts() == []
    assert Schema.load("again.toml").column("ward").values == WARDS
