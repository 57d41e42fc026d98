"""The page on discovery is executed: its commands, its schema and its Python."""

import re
import shlex
from pathlib import Path

from typer.testing import CliRunner

from weft import Schema
from weft.cli import app

PAGE = (Path(__file__).parents[1] / "docs" / "discovery.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_commands_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    assert runner.invoke(app, ["demo", "--rows", "2000", "-q"]).exit_code == 0
    lines = [line[2:] for block in blocks("console") for line in block.splitlines()]
    assert len(lines) == 3
    for line in lines:
        result = runner.invoke(app, [*shlex.split(line)[1:], *(["-m", "independent"] if " synth " in line else [])])
        assert result.exit_code == 0, (line, result.output)


def test_the_schema_is_incomplete_and_loads():
    (text,) = blocks("toml")
    schema = Schema.from_toml(text)
    assert schema.incomplete
    assert [column.name for column in schema.unknown] == ["age"]


def test_the_python_runs(capsys):
    (code,) = blocks("python")
    exec(compile(code, "discovery.md", "exec"), {})
    assert "whole numbers from" in capsys.readouterr().out


def test_the_screen_has_what_is_shown(tmp_path, monkeypatch):
    """Its numbers are the noise of one run; its words, its columns and their order are not."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    runner = CliRunner()
    assert runner.invoke(app, ["demo", "--rows", "4000", "-q"]).exit_code == 0
    (screen,) = (block for block in blocks("text") if "found privately" in block)
    command = shlex.split(blocks("console")[0])[2:]
    shown = runner.invoke(app, [*command, "-m", "independent", "--noise-seed", "1"]).output
    heads = re.findall(r"^  (\w+) {2,}\w", screen, re.MULTILINE)
    assert {"protected", "spent", "column", "stay_id", "admitted", "cost"} <= set(heads)
    at = 0
    for head in heads:
        at = shown.index(f"\n  {head} ", at)
    for part in (
        "each row: whether the private table contains it",
        "on schema discovery",
        "text that rarely repeats: an id",
        "dates from 2024-01-01 to 2024-12-31",
        "Strengths and limitations",
    ):
        assert part in " ".join(screen.split()) and part in " ".join(shown.split())
