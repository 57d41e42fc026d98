from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import weft as package
from weft.methods import METHODS, make_method
from weft.methods.common.options import options_of
from weft.schema import Schema
from weft.synthesis import model_file as modelfile
from weft.synthesis import synthesizer

from .conftest import Weft, command, environment, outputs, table

COMMANDS = [["demo"], ["synth"], ["fit"], ["sample"], ["ledger"], ["methods"], ["schema", "draft"], ["schema", "check"]]


def test_version(weft: Weft) -> None:
    assert weft("--version").stdout == f"weft {package.__version__}\n"


def test_help_documents_the_exit_codes(weft: Weft) -> None:
    shown = weft("--help").stdout
    for code in (0, 1, 2, 3, 4, 5, 6, 7, 70, 130):
        assert f" {code} " in shown


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_shows_examples(weft: Weft, words: list[str]) -> None:
    shown = weft(*words, "--help").stdout
    assert "Examples" in shown
    assert f"weft {' '.join(words)}" in shown


def test_help_imports_nothing_heavy() -> None:
    code = "import sys, weft.cli; print([m for m in sys.argv[1:] if m in sys.modules])"
    heavy = ["numpy", "numba", "pyarrow", "scipy", "networkx", "rich.progress", "weft.synthesis.synthesizer"]
    done = subprocess.run([sys.executable, "-c", code, *heavy], env=environment(), capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_help_loads_the_added_commands_and_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['weft', '--help']\nfrom weft.cli import main\ntry: main()\nexcept SystemExit: pass\n"
        "print([m for m in ('numpy', 'pyarrow', 'weft.synthesis.synthesizer') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert " bench " in done.stdout and done.stderr.strip() == "[]"


def test_the_summary_of_a_run_imports_nothing_of_the_report() -> None:
    code = (
        "import sys, weft.synthesis.synthesizer, weft.synthesis.verdicts\n"
        "print(sorted(m for m in sys.modules if m.startswith('weft.evaluation.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_fit_then_sample(weft: Weft, model: Path, folder: Path) -> None:
    assert outputs(folder) == {"visits.weft", "visits.ledger.jsonl"}
    weft("sample", model, "-n", 50, "--seed", 4, "-o", "a.csv")
    weft("sample", model, "-n", 50, "--seed", 4, "-o", "b.csv")
    weft("sample", model, "-n", 50, "-o", "c.csv")
    a, b, c = (Path(f"{name}.csv").read_bytes() for name in "abc")
    assert a == b != c
    assert len(a.splitlines()) == 51
    assert json.loads(Path("a.card.json").read_text())["privacy"]["epsilon"] == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("rows", [0, 1, 25])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_sample_writes_in_blocks(
    weft: Weft, model: Path, monkeypatch: pytest.MonkeyPatch, rows: int, suffix: str
) -> None:
    monkeypatch.setattr(synthesizer, "BLOCK_ROWS", 10)
    weft("sample", model, "-n", rows, "-o", f"out.{suffix}")
    read = {"csv": pa.csv.read_csv, "parquet": pa.parquet.read_table}[suffix]
    made = read(f"out.{suffix}")
    assert made.num_rows == rows
    assert len(set(made["visit"].to_pylist())) == rows
    assert made.column_names == table().column_names


def test_fit_summary_and_json(weft: Weft) -> None:
    words = ("fit", "visits.csv", "-s", "visits.toml", "-e", 1, "-m", "independent", "-o", "m.weft")
    assert "weft sample m.weft" in weft(*words).stdout
    answer = json.loads(weft(*words, "--overwrite", "--json").stdout)
    assert answer["files"] == ["m.weft", "m.ledger.jsonl"]
    assert len(answer["ledger"]["entries"]) == 1


def test_ledger_of_a_model_and_of_its_journal_agree(weft: Weft, model: Path) -> None:
    of_model = json.loads(weft("ledger", model, "--json").stdout)["runs"]
    of_journal = json.loads(weft("ledger", "visits.ledger.jsonl", "--json").stdout)["runs"]
    assert len(of_model) == len(of_journal) == 1
    assert of_model[0] == of_journal[0]
    for file in (model, "visits.ledger.jsonl"):
        shown = weft("ledger", file).stdout
        assert "epsilon 1 at delta 1e-05" in shown
        assert "100.0%" in shown


def test_ledger_of_nothing(weft: Weft) -> None:
    weft("ledger", "gone.weft", code=6)


def _rezip(model: Path, replace: dict[str, bytes]) -> None:
    with zipfile.ZipFile(model) as file:
        members = {name: file.read(name) for name in file.namelist()}
    members |= replace
    if "manifest.json" not in replace:  # a forger writes a manifest too
        hashes = {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}
        del hashes["manifest.json"]
        members["manifest.json"] = json.dumps({"format": 2, "members": hashes}).encode()
    with zipfile.ZipFile("hostile.weft", "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)


def _array_name(model: Path) -> str:
    with zipfile.ZipFile(model) as file:
        return next(name for name in file.namelist() if name.startswith("arrays/"))


class Bomb:
    def __reduce__(self):
        return (Path("executed").touch, ())


@pytest.mark.parametrize("kind", ["random", "empty", "pickle", "huge shape", "future", "not json", "no ledger", "bomb"])
@pytest.mark.parametrize("words", [("ledger",), ("sample", "-o", "out.csv")], ids=lambda words: words[0])
def test_hostile_model_files(
    weft: Weft, model: Path, monkeypatch: pytest.MonkeyPatch, kind: str, words: tuple[str, ...]
) -> None:
    hostile = Path("hostile.weft")
    match kind:
        case "random":
            hostile.write_bytes(np.random.default_rng(0).bytes(5000))
        case "empty":
            hostile.write_bytes(b"")
        case "pickle":
            array = io.BytesIO()
            np.lib.format.write_array(array, np.array([Bomb()], object), allow_pickle=True)
            _rezip(model, {_array_name(model): array.getvalue()})
        case "huge shape":
            array = io.BytesIO()
            np.lib.format.write_array_header_1_0(array, {"descr": "<f8", "fortran_order": False, "shape": (1 << 50,)})
            _rezip(model, {_array_name(model): array.getvalue()})
        case "future":
            _rezip(model, {"manifest.json": b'{"format": 99, "members": {}}'})
        case "not json":
            _rezip(model, {"model.json": b"{" * 100_000})
        case "no ledger":
            _rezip(model, {"ledger.json": b"{}"})
        case "bomb":
            _rezip(model, {_array_name(model): bytes(1 << 24)})
            monkeypatch.setattr(modelfile, "MAX_ARRAYS", 1 << 22)
    result = weft(words[0], hostile, *words[1:], code=6)
    assert "hostile.weft" in result.stderr
    assert "Traceback" not in result.stderr
    assert not Path("executed").exists()
    assert not Path("out.csv").exists()


def test_methods(weft: Weft) -> None:
    shown = weft("methods").stdout
    assert "independent" in shown and "weave (default)" in shown and "Another name for independent" in shown
    assert "max_cells" not in shown  # options are for `weft methods NAME`
    listed = json.loads(weft("methods", "--json").stdout)
    assert listed["independent"]["options"] == {"accounting": "gaussian"}
    assert [name for name, facts in listed.items() if facts["default"]] == ["weave"]


def test_a_method_is_explained_option_by_option(weft: Weft) -> None:
    shown = weft("methods", "bsg").stdout
    assert "Noise: Gaussian" in shown
    (line,) = [line for line in shown.splitlines() if line.startswith("k ")]
    assert "none" in line and "Seeds that must be plausible" in line
    assert "pure epsilon" in weft("methods", "privbayes").stdout
    (line,) = [line for line in weft("methods", "privmrf").stdout.splitlines() if line.startswith("share_scores")]
    assert line.split()[:3] == ["share_scores", "0.05", "0.1"]  # by default, and as published
    assert "paper" not in weft("methods", "weave").stdout
    assert json.loads(weft("methods", "mst", "--json").stdout)["paper"]["selection"] == "exponential"
    assert json.loads(weft("methods", "auto", "--json").stdout)["name"] == "weave"
    assert "Did you mean 'bsg'?" in weft("methods", "bgs", code=2).stderr


@pytest.mark.parametrize("name", METHODS)
def test_the_meaning_of_every_option_is_shown(weft: Weft, name: str) -> None:
    lines = weft("methods", name).stdout.splitlines()
    (head,) = [line for line in lines if line.startswith("option ")]
    place = head.index("what it means")
    shown = " ".join(" ".join(line[place:] for line in lines).split())
    options = options_of(type(make_method(name)))
    assert options and all(option.meaning in shown for option in options)


def test_none_is_written_either_way(weft: Weft) -> None:
    words = ("fit", "visits.csv", "-s", "visits.toml", "-e", 1, "-m", "mst", "-o", "m.weft", "-q")
    for value in ("none", "None", "null"):
        refused = weft(*words, "--option", f"rare={value}", code=2)
        assert "option rare: expected a finite number, not None." in refused.stderr
    weft(*words, "-m", "privsyn", "--option", "connect=True")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["marginals=score"], """as JSON: '[["age", "ward"]]', not 'score'"""),
        (["gum=4"], """as JSON: '{"name": 10}', not 4"""),
        (['gum={"iteratons": 3}'], "option gum has no setting 'iteratons'. Did you mean 'iterations'?"),
        (['gum={"alpha": "x"}'], "option gum, alpha: expected a finite number, not 'x'"),
    ],
)
def test_options_that_do_not_fit_are_explained(weft: Weft, options: list[str], told: str) -> None:
    given = [word for option in options for word in ("--option", option)]
    words = ("fit", "visits.csv", "-s", "visits.toml", "-e", 1, "-m", "privsyn", "-o", "m.weft", *given)
    result = weft(*words, code=2)
    assert told in result.stderr and "Nothing was spent" in result.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("ledger", "visits.csv"), "neither a model file nor a journal"),
        (("sample", "visits.csv", "-o", "x.csv"), "not a model file"),
        (("ledger", "gone.weft"), "gone.weft: no such file"),
        (("sample", "gone.weft", "-o", "x.csv"), "gone.weft: no such file"),
        (("ledger", "."), "cannot be read"),
    ],
)
def test_what_is_no_model_is_told_plainly(weft: Weft, words: tuple[str, ...], told: str) -> None:
    said = weft(*words, code=6).stderr
    assert told in said and "BadZipFile" not in said and "Error" not in said


@pytest.mark.parametrize("name", ["demo", "synth", "fit", "sample", "report", "bench", "ledger", "methods"])
def test_flags_are_not_shown_to_take_a_value(weft: Weft, name: str) -> None:
    valued = [line for line in weft(name, "--help").stdout.splitlines() if "<bool>" in line]
    assert all("--help" in line for line in valued)  # typer's own


def test_help_tells_of_databases_and_of_cards(weft: Weft) -> None:
    shown = " ".join(weft("synth", "--help").stdout.split())
    assert "duckdb:h.duckdb?table=stays" in shown
    assert "with a card; - for CSV to stdout, without a card" in shown


def test_draft_is_refused_then_trusted_with_a_stamp(weft: Weft) -> None:
    result = weft("schema", "draft", "visits.csv", "-o", "draft.toml")
    assert "from_data" in result.stderr
    Schema.load("draft.toml")
    words = ("synth", "visits.csv", "-s", "draft.toml", "-e", 1, "-o", "out.csv")
    refused = weft(*words, code=3)
    assert "--trust-data-for-schema" in refused.stderr
    assert "Nothing was spent" in refused.stderr
    assert not Path("out.csv").exists()
    trusted = weft(*words, "--trust-data-for-schema")
    assert "NOT PRIVATE IN FULL" in trusted.stdout
    card = json.loads(Path("out.card.json").read_text())
    assert "NOT PRIVATE IN FULL" in card["stamps"][0]
    assert card["schema"]["facts_read_from_the_data"]
    assert "NOT PRIVATE IN FULL" in Path("out.card.md").read_text()


def test_draft_to_stdout_is_toml_only(weft: Weft) -> None:
    result = weft("schema", "draft", "visits.parquet")
    assert set(tomllib.loads(result.stdout)["columns"]) == set(table().column_names)


@pytest.mark.parametrize("name", ["gone.csv", "gone.parquet", "noise.parquet"])
def test_draft_of_an_unreadable_file(weft: Weft, name: str) -> None:
    Path("noise.parquet").write_bytes(b"PAR1 noise")
    assert name in weft("schema", "draft", name, code=4).stderr


def test_check_tells_codes(weft: Weft) -> None:
    found = json.loads(weft("schema", "check", "visits.toml", "--json").stdout)
    codes = {column["name"]: column["codes"] for column in found["columns"]}
    assert codes == {"visit": None, "score": 21, "town": 4, "price": 11, "day": 13, "regular": 2}
    assert found["log10_domain"] == pytest.approx(np.log10(21 * 4 * 11 * 13 * 7 * 2))
    shown = weft("schema", "check", "visits.toml", "visits.parquet").stdout
    assert "names and types match visits.parquet" in shown
    assert "dictionary" in shown


def test_check_warns_of_marks(weft: Weft) -> None:
    weft("schema", "draft", "visits.csv", "-o", "draft.toml")
    result = weft("schema", "check", "draft.toml", "visits.csv")
    assert "read from private rows" in result.stderr


@pytest.mark.parametrize("source", ["visits.csv", "visits.parquet"])
def test_check_finds_columns_that_do_not_fit(weft: Weft, source: str) -> None:
    renamed = Path("visits.toml").read_text().replace("columns.score", "columns.skore")
    Path("renamed.toml").write_text(renamed)
    assert "skore" in weft("schema", "check", "renamed.toml", source, code=3).stderr


def test_check_finds_types_that_do_not_fit(weft: Weft) -> None:
    text = (
        Path("visits.toml")
        .read_text()
        .replace('kind = "boolean"', 'kind = "datetime"\nrange = ["2024-01-01", "2024-01-09"]')
    )
    Path("typed.toml").write_text(text)
    assert "regular" in weft("schema", "check", "typed.toml", "visits.parquet", code=3).stderr


def test_check_names_the_line_of_a_fault(weft: Weft) -> None:
    Path("bad.toml").write_text('[columns.score]\nkind = "integer"\nrnage = [0, 20]\n')
    result = weft("schema", "check", "bad.toml", code=3)
    assert "line 3" in result.stderr
    assert "range" in result.stderr


def test_square_brackets_in_names_are_shown_as_they_are(weft: Weft) -> None:
    Path("odd.toml").write_text('[columns."[red]x[/red]"]\nkind = "boolean"\n')
    assert "[red]x[/red]" in weft("schema", "check", "odd.toml").stdout


def test_demo(weft: Weft, folder: Path) -> None:
    shown = weft("demo", "--rows", 3000).stdout
    assert "never before admitted" in shown and "computed, never measured" in shown and "broken in 0" in shown
    home = folder / "weft-demo"
    released = {"synthetic.csv", "synthetic.card.md", "synthetic.card.json", "model.weft"}
    private = {"hospital.csv", "hospital.toml", "report.html", "report.json", "synthetic.ledger.jsonl", "released"}
    assert {path.name for path in home.iterdir()} == private
    assert {path.name for path in (home / "released").iterdir()} == released | {"report.html", "report.json"}
    for words in (
        "3,000 stays",
        "epsilon 1 at delta 1e-05",
        "mean age",
        "similar on average",
        "hospital.csv",
        "weft sample",
    ):
        assert words in shown
    answer = json.loads(weft("demo", "--rows", 3000, "--folder", "other", "--epsilon", 5, "--json").stdout)
    assert answer["comparison"]["columns_alike"] > 0.95
    private, synthetic = answer["comparison"]["figures"]["mean age"]
    assert abs(private - synthetic) < 2


def test_demo_where_no_folder_can_be(weft: Weft) -> None:
    Path("file").write_text("")
    weft("demo", "--folder", "file", code=7)


def test_a_plain_terminal_without_our_signs(folder: Path) -> None:
    env = environment() | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command("schema", "check", "visits.toml"), env=env, capture_output=True, check=True)
    assert b"visits.toml is valid" in done.stdout
