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


def test_the_commands_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wards = ("surgery", "medicine", "maternity")
    Path("stays.csv").write_text("age,ward\n" + "".join(f"{n % 90},{wards[n % 3]}\n" for n in range(200)))
    (dictionary,) = blocks("csv")
    Path("dictionary.csv").write_text(dictionary)
    ran = 0
    for line in "".join(blocks("console")).splitlines():
        result = CliRunner().invoke(app, shlex.split(line.removeprefix("$ weft ")))
        assert result.exit_code == 0, (line, result.output)
        ran += 1
    assert ran == 11
    assert Schema.load("draft.toml").from_data_facts() == []
    assert Schema.load("again.toml").column("ward").values == wards
