import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weft.cli import app


@pytest.fixture
def weft(tmp_path, monkeypatch, table, fitted, codec, synth):
    import numpy as np
    import pyarrow.parquet
    from conftest import SCHEMA

    from weft.release.publish import Files, publish
    from weft.synthesis import model_file as modelfile

    monkeypatch.chdir(tmp_path)
    pyarrow.parquet.write_table(table, "real.parquet")
    publish(fitted, [codec.decode(synth, np.random.default_rng(0))], Files.of(Path("synth.csv")))
    Path("s.toml").write_text(SCHEMA)
    modelfile.save_model(fitted, Path("m.weft"))

    def run(*words, code=0):
        result = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, ["report", *map(str, words)])
        assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
        return result

    return run


def test_the_curators_edition(weft):
    out = weft("real.parquet", "synth.csv", "--schema", "s.toml", "-o", "r.html").stdout
    assert "PRIVATE" in out and "r.html" in out
    assert "PRIVATE" in Path("r.html").read_text() and json.loads(Path("r.json").read_text())["edition"] == "private"


def test_the_model_adds_the_ledger_and_the_noise(weft):
    weft("real.parquet", "synth.csv", "--model", "m.weft", "-o", "r.html", "-q")
    values = json.loads(Path("r.json").read_text())
    assert values["ledger"]["entries"] and values["marginals"] and values["guarantee"]["method"] == "privsyn"


def test_the_releasable_edition_needs_no_private_table(weft):
    Path("real.parquet").unlink()
    answer = json.loads(weft("--releasable", "m.weft", "synth.csv", "-o", "r.html", "--json").stdout)
    assert answer["edition"] == "releasable" and answer["files"] == ["r.html", "r.json"]
    assert "PRIVATE" not in Path("r.html").read_text()


@pytest.mark.parametrize(
    "words",
    [("--releasable", "m.weft", "real.parquet"), ("synth.csv", "real.parquet", "--model", "m.weft")],
    ids=["releasable", "model"],
)
def test_the_private_table_is_never_taken_for_a_release(weft, words):
    result = weft(*words, code=1)
    assert "real.parquet: nothing shows that this model made it" in result.stderr
    assert "weft sample MODEL -o FILE" in result.stderr
    assert not list(Path().glob("*.html")) and not Path("report.json").exists()


def test_the_private_table_is_not_taken_for_a_release_under_its_name_either(weft):
    Path("synth.card.json").rename("real.card.json")
    assert "not the table that real.card.json is for" in weft("--releasable", "m.weft", "real.parquet", code=1).stderr


@pytest.mark.parametrize("words", [("--releasable", "o.weft"), ("real.parquet", "--model", "o.weft")], ids=len)
def test_a_model_speaks_only_for_its_own_tables(weft, table, words):
    from conftest import SCHEMA

    from weft import Schema, Synthesizer

    Synthesizer(epsilon=0.5, method="independent").fit(table, Schema.from_toml(SCHEMA)).save("o.weft")
    result = weft(words[0], *words[1:], "synth.csv", code=1)
    assert "synth.csv: made by another model" in result.stderr
    assert not list(Path().glob("*.html"))


def test_a_table_without_a_model_needs_no_card(weft):
    Path("synth.card.json").unlink()
    weft("real.parquet", "synth.csv", "--schema", "s.toml", "-o", "r.html", "-q")
    assert json.loads(Path("r.json").read_text())["guarantee"] is None


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("real.parquet", "synth.csv"), 2, "a schema is needed"),
        (("--releasable", "m.weft", "synth.csv", "--schema", "s.toml"), 2, "leave --schema"),
        (("--releasable", "synth.csv", "synth.csv"), 6, "not a model file"),
        (("none.csv", "synth.csv", "-s", "s.toml"), 4, "no such file"),
        (("real.parquet", "synth.csv", "-s", "s.toml", "-o", "r.txt"), 7, "name it .html"),
        (("real.parquet", "synth.csv", "-s", "s.toml", "-o", "no/r.html"), 7, "does not exist"),
        (("real.parquet", "synth.csv", "-s", "m.json", "--model", "m.weft", "-o", "m.html"), 7, "is an input"),
    ],
)
def test_what_cannot_be_done_is_refused_clearly(weft, words, code, text):
    result = weft(*words, code=code)
    assert text in result.stderr
    assert not list(Path().glob("*.html")) and not Path("r.json").exists()


def test_the_demo_ends_with_the_report(tmp_path):
    words = ["demo", "--folder", str(tmp_path / "d"), "--rows", "500"]
    result = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, words)
    assert result.exit_code == 0, (result.stderr, result.exception)
    ours, theirs = tmp_path / "d" / "report.html", tmp_path / "d" / "released" / "report.html"
    assert str(ours) in result.stdout and str(theirs) in result.stdout
    assert "PRIVATE" in ours.read_text() and "PRIVATE" not in theirs.read_text()
