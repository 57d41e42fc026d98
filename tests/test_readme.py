"""The README is executed: its Python runs, its schema loads, its commands exist."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

ROOT = Path(__file__).parents[1]
PLACEHOLDERS = {"REAL", "MODEL", "FOLDER"}
RUN = ("synth", "sample", "query", "plan", "schema", "report", "methods", "budget", "verify")
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("code", blocks("python"))
def test_python_runs(code, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert "one-way marginals" in capsys.readouterr().out


def commands() -> list[str]:
    shown = [line[2:].split("#")[0].strip() for block in blocks("console") for line in block.splitlines()]
    inline = re.findall(r"`(weft [^`]+)`", README)
    return [command for command in [*shown, *inline] if command.startswith("weft ")]


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"make ([a-z-]+)", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_commands_run_in_order(tmp_path, monkeypatch):
    """Paste every line of the README into a folder where the demo has run, as a newcomer would."""
    from weft.cli import app

    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    assert runner.invoke(app, ["demo", "--rows", "1000", "-q"]).exit_code == 0
    ran = []
    for command in commands():
        words = shlex.split(command)[1:]
        if words[0] in RUN and words != ["sample"] and not PLACEHOLDERS & set(words):
            result = runner.invoke(app, words)
            assert result.exit_code == 0, (command, result.output)
            ran.append(" ".join(words[:2]))
    assert ran == [
        "synth weft-demo/hospital.csv",
        "synth weft-demo/hospital.csv",
        "query hospital.weft",
        "report --releasable",
    ]
    assert all(Path(name).exists() for name in ("released.csv", "released.card.json", "public.html"))


def test_it_is_one_screen_and_every_page_that_it_names_is_there():
    assert len(README.splitlines()) < 110
    for path in re.findall(r"\]\(((?:docs|[A-Z]+\.md)[^)#]*)", README):
        assert (ROOT / path).exists(), path


def test_the_schema_shown_rules_out_seeds_as_said():
    """The guide to deniability says that a schema with several rows a person is refused by omega."""
    import pyarrow as pa

    from weft import Schema, Synthesizer
    from weft.errors import BudgetError

    page = (ROOT / "docs" / "tutorials" / "several-rows.md").read_text()
    (text,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    rows = {"patient": [f"P{i:05d}" for i in range(60)], "sex": ["f"] * 60, "ward": ["surgery"] * 60}
    synthesizer = Synthesizer(method="bsg", omega=1, rows=10)
    with pytest.raises(BudgetError, match="one row"):
        synthesizer.fit(pa.table(rows), Schema.from_toml(text))
    assert "`omega` is refused" in (ROOT / "docs" / "guides" / "deniability.md").read_text()


def test_a_table_of_duckdb_is_named_as_said(tmp_path, monkeypatch):
    duckdb = pytest.importorskip("duckdb")
    from weft.cli import app
    from weft.hospital import hospital, hospital_schema

    monkeypatch.chdir(tmp_path)
    (source,) = set(re.findall(r"'(duckdb:[^']+)'", README))
    with duckdb.connect("hospital.duckdb") as connection:
        connection.register("rows", hospital(rows=300))
        connection.execute("CREATE TABLE stays AS FROM rows")
    Path("hospital.toml").write_text(hospital_schema())
    words = ["synth", source, "-s", "hospital.toml", "-e", "1", "-m", "independent", "-o", "released.csv", "-q"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
