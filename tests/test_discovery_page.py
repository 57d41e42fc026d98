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
