"""The README is executed: its Python runs, its schema loads, its commands exist."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("code", blocks("python"))
def test_python_runs(code, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert "marginals" in capsys.readouterr().out


@pytest.mark.parametrize("text", blocks("toml"))
def test_schema_loads(text):
    from weft import Schema

    assert Schema.from_toml(text).unit == "patient"


def commands() -> list[str]:
    shown = [line[2:].split("#")[0].strip() for block in blocks("console") for line in block.splitlines()]
    inline = re.findall(r"`(weft [^`]+)`", README)
    return [command for command in [*shown, *inline] if command.startswith("weft ")]


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"make ([a-z-]+)", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_commands_run_in_order(tmp_path, monkeypatch):
    """Run every command the README shows, on a table and schema with the names it uses."""
    import pyarrow.csv

    from weft.cli import app
    from weft.demo import hospital, hospital_schema

    monkeypatch.chdir(tmp_path)
    pyarrow.csv.write_csv(hospital(rows=500), "stays.csv")
    runner = CliRunner()
    ran = 0
    for command in commands():
        words = shlex.split(command)[1:]
        if words[0] == "synth":
            Path("stays.toml").write_text(hospital_schema())
        if "stays.csv" in words or "stays.toml" in words or words == ["methods"]:
            result = runner.invoke(app, words)
            assert result.exit_code == 0, (command, result.output)
            ran += 1
    assert ran >= 4
    assert Path("released.csv").exists()
