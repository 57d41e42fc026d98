"""Records grown from seeds, from the command line: how many is said once, and what they are is said everywhere."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest

from weft.errors import ModelFileError
from weft.privacy.ledger import DENIABILITY

from .conftest import Weft, command, environment, table

BSG = ("visits.csv", "-s", "visits.toml", "-e", 2, "-m", "bsg")
DENY = ("--option", "k=5", "--option", "guarantee=deniability")


def shown(text: str) -> str:
    """Return what a terminal shows without its line ends and frames."""
    return " ".join(text.replace("┃", " ").split())


def test_rows_are_what_is_grown(weft: Weft) -> None:
    weft("synth", *BSG, "--rows", 40, "--option", "omega=4", "-o", "out.csv")
    assert pyarrow.csv.read_csv("out.csv").num_rows == 40
    card = json.loads(Path("out.card.json").read_text())
    assert card["method"]["options"] == {"omega": 4, "rows": 40}
    assert card["privacy"]["epsilon"] == 2.0


@pytest.mark.parametrize("command", ["synth", "fit"])
def test_rows_are_needed_and_said_in_one_way(weft: Weft, command: str) -> None:
    result = weft(command, *BSG, "--option", "omega=4", "-o", "out.csv", code=2)
    assert "--rows" in result.stderr
    assert "Nothing was spent" in result.stderr
    result = weft(command, *BSG, "--option", "omega=4", "--option", "rows=40", "-o", "out.csv", code=2)
    assert "--rows" in result.stderr


def test_a_fit_grows_what_is_sampled_later(weft: Weft) -> None:
    weft("fit", *BSG, "--rows", 40, "--option", "omega=3-4", "-o", "seeds.weft")
    weft("sample", "seeds.weft", "-n", 40, "-o", "out.csv")
    assert pyarrow.csv.read_csv("out.csv").num_rows == 40
    assert "no more" in weft("sample", "seeds.weft", "-n", 41, "-o", "out.csv", "--overwrite", code=2).stderr


def test_rows_change_nothing_for_methods_that_need_not_know(weft: Weft) -> None:
    weft("synth", "visits.csv", "-s", "visits.toml", "-e", 2, "-m", "independent", "--rows", 40, "-o", "out.csv")
    assert json.loads(Path("out.card.json").read_text())["method"]["options"] == {}


def test_no_screen_or_file_promises_epsilon_for_deniable_records(weft: Weft) -> None:
    made = weft("synth", *BSG, "--rows", 40, "--option", "omega=2-4", *DENY, "--model", "m.weft", "-o", "out.csv")
    fitted = weft("fit", *BSG, "--rows", 40, "--option", "omega=4", *DENY, "-o", "n.weft")
    sampled = weft("sample", "m.weft", "-o", "again.csv")
    ledger = weft("ledger", "m.weft")
    journal = weft("ledger", "out.ledger.jsonl")
    for result in (made, fitted, sampled, ledger, journal):
        assert DENIABILITY in shown(result.stdout + result.stderr)
        assert "-differential privacy" not in result.stdout
        assert "epsilon 2" not in shown(result.stdout)
        assert "no epsilon holds for the records" in shown(result.stdout)
    for name in ("out.card.md", "out.card.json", "again.card.md"):
        text = Path(name).read_text()
        assert DENIABILITY in text
        assert "-differential privacy" not in text
    assert json.loads(Path("out.card.json").read_text())["privacy"]["epsilon"] is None
    (run,) = json.loads(weft("ledger", "m.weft", "--json").stdout)["runs"]
    assert run["epsilon"] is None
    weft("synth", *BSG, "--rows", 40, "--option", "omega=4", "-o", "other.csv", "--journal", "out.ledger.jsonl")
    assert "together" not in weft("ledger", "out.ledger.jsonl").stdout


def test_a_failure_promises_no_epsilon_for_deniable_records(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("weft.release.publish.publish", stop)
    words = ("synth", *BSG, "--rows", 40, "--option", "omega=4", *DENY, "-o", "out.csv")
    for more in ((), ("--json",)):
        result = weft(*words, *more, code=130)
        said = shown(result.stdout + result.stderr)
        assert "Recorded as spent: the whole budget, all of it for the model; no epsilon holds" in said
        assert "epsilon 2" not in said
        assert DENIABILITY in said


@pytest.mark.parametrize("more", [("--quiet",), ("--json",)])
def test_stamps_are_said_before_rows_that_a_pipe_cuts_off(weft: Weft, more: tuple[str, ...]) -> None:
    deny = ("--rows", 40, "--option", "omega=4", *DENY, "--noise-seed", 1)
    weft("fit", *BSG, *deny, "-o", "m.weft", "-q")
    for words in (("sample", "m.weft"), ("synth", *BSG, *deny)):
        with subprocess.Popen(
            command(*words, "-o", "-", *more), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout is not None and process.stderr is not None
            process.stdout.close()  # nobody reads a single row
            said = process.stderr.read().decode()
        assert process.returncode == 0, said
        assert DENIABILITY in said
        assert "NOT PRIVATE" in said.replace(DENIABILITY, "")
        assert "Traceback" not in said


def test_a_damaged_journal_of_deniable_records_gets_a_clear_error(weft: Weft) -> None:
    weft("synth", *BSG, "--rows", 40, "--option", "omega=4", *DENY, "-o", "out.csv", "-q")
    lines = Path("out.ledger.jsonl").read_text().splitlines()
    for terms in (None, [], "k"):
        spoilt = [json.loads(line) for line in lines]
        Path("bad.jsonl").write_text(
            "\n".join(json.dumps(line | {"terms": terms} if "terms" in line else line) for line in spoilt) + "\n"
        )
        result = weft("ledger", "bad.jsonl", code=ModelFileError.exit_code)
        assert "damaged" in result.stderr


def test_a_report_shows_no_epsilon_for_deniable_records(weft: Weft) -> None:
    weft("synth", *BSG, "--rows", 40, "--option", "omega=4", *DENY, "--model", "m.weft", "-o", "out.csv")
    weft("report", "--releasable", "m.weft", "out.csv", "-o", "report.html")
    page = Path("report.html").read_text()
    assert "no ε" in page
    assert '"big">ε' not in page
    assert "PLAUSIBLE DENIABILITY, NOT DIFFERENTIAL PRIVACY" in page


def test_rows_can_be_divided_from_the_command_line(weft: Weft) -> None:
    split = ("--option", "split=[0.0, 0.5, 0.5]")
    weft("synth", *BSG, *split, "-o", "out.csv")
    card = Path("out.card.md").read_text()
    assert "secret random partition" in card
    assert "rows for parameters" in card
    weft("synth", "visits.parquet", *BSG[1:], *split, "--engine", "stream", "-o", "out.csv", "--overwrite")
    assert abs(pyarrow.csv.read_csv("out.csv").num_rows - table().num_rows) < 300


def test_the_ledger_tells_what_model_and_seeds_cost(weft: Weft) -> None:
    pyarrow.parquet.write_table(table(20_000), "many.parquet")
    made = weft("synth", "many.parquet", *BSG[1:], "--rows", 20, "--option", "omega=4", "-o", "out.csv", "-v")
    (run,) = json.loads(weft("ledger", "out.ledger.jsonl", "--json").stdout)["runs"]
    costs = run["costs"]
    assert list(costs) == ["model", "seeds", "slack", "total"]
    assert costs["model"] + costs["seeds"] + costs["slack"] == pytest.approx(costs["total"])
    assert costs["model"] == pytest.approx(0.5, abs=0.001)  # the other half is kept for seeds, and the look is theirs
    assert 0 < costs["slack"] < costs["seeds"] <= 0.5
    assert json.loads(Path("out.card.json").read_text())["costs"] == pytest.approx(costs)
    for text in (made.stdout, weft("ledger", "out.ledger.jsonl").stdout, Path("out.card.md").read_text()):
        assert f"{costs['model']:.1%}" in text
        assert f"{costs['seeds']:.1%}" in text
    assert "All 20 records were generated from seeds" in shown(made.stdout)


def test_costs_of_deniable_and_divided_runs(weft: Weft) -> None:
    weft("synth", *BSG, "--rows", 20, "--option", "omega=4", *DENY, "-o", "a.csv")
    weft("synth", *BSG, "--option", "split=[0.0, 0.5, 0.5]", "-o", "b.csv")
    weft("synth", *BSG[:-1], "independent", "-o", "c.csv")
    deniable, divided, plain = (json.loads(Path(f"{name}.card.json").read_text())["costs"] for name in "abc")
    assert deniable == {"model": pytest.approx(1), "seeds": None, "total": None}
    assert list(divided) == ["rows for structure", "rows for parameters", "the most for a row"]
    assert divided["the most for a row"] == pytest.approx(1)
    assert plain == {"total": pytest.approx(1)}


def test_a_run_that_could_afford_no_seeds_says_so(weft: Weft) -> None:
    made = weft("synth", *BSG, "--rows", 100_000, "--option", "omega=3", "-o", "out.csv")
    assert "No seed was used" in shown(made.stdout)
    assert "No seed was used" in Path("out.card.md").read_text()
    assert "None of its rows belongs to a real person" in Path("out.card.md").read_text()


def test_pure_runs_have_no_delta(weft: Weft) -> None:
    made = weft("synth", *BSG[:-1], "privbayes", "-o", "out.csv")
    assert "at delta 0" in shown(made.stdout)
