"""What a command says of its own run: what earlier runs spent, what noise left, and nothing that is not so."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from weft.synthesis.statement import APART, FAINT, VOID

from .conftest import Weft, command, environment, outputs

INPUT = ("visits.csv", "-s", "visits.toml")
PLAIN = (*INPUT, "-e", 1, "-m", "independent", "--overwrite")
TOGETHER = (
    "Journals in this folder record 2 runs: epsilon 2 at delta 2e-05 in total, if all of them used the same table."
)


def shown(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("verb", ["synth", "fit"])
def test_a_second_run_on_a_ledger_says_what_both_spent(weft: Weft, verb: str) -> None:
    words = (verb, *PLAIN, "-o", "out.csv")
    assert "in this folder record" not in weft(*words).stdout
    assert TOGETHER in shown(weft(*words).stdout)
    elsewhere = weft(verb, *PLAIN, "-o", "other.csv", "--journal", "out.ledger.jsonl", "--quiet")
    assert "record 3 runs: epsilon 3 " in elsewhere.stderr
    (warning,) = json.loads(weft(*words, "--json").stdout)["warnings"]
    assert "record 4 runs: epsilon 4 " in warning


def test_a_run_that_failed_before_it_asked_anything_does_not_count(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.methods.independent import Independent

    with monkeypatch.context() as patched:
        patched.setattr(Independent, "fit", lambda *_: 1 / 0)
        weft("synth", *PLAIN, "-o", "out.csv", code=70)
    assert "in this folder record" not in weft("synth", *PLAIN, "-o", "out.csv").stdout


def test_a_damaged_ledger_does_not_fail_a_run_that_is_done(weft: Weft) -> None:
    Path("out.ledger.jsonl").write_text("no ledger\n\x7b}\n")
    assert "the cost of earlier runs is unknown" in shown(weft("synth", *PLAIN, "-o", "out.csv").stdout)
    assert Path("out.csv").exists()


@pytest.mark.parametrize("verb", ["synth", "fit"])
def test_a_warning_is_repeated_where_the_promise_is_made(weft: Weft, verb: str) -> None:
    assert VOID in shown(weft(verb, *PLAIN, "--noise-seed", 1, "-o", "out.csv").stdout)
    assert VOID not in shown(weft(verb, *PLAIN, "-o", "out.csv").stdout)
    text = Path("visits.toml").read_text().replace("range = [0, 20]", 'range = [0, 20]\nfrom_data = ["range"]')
    Path("visits.toml").write_text(text)
    assert VOID in shown(weft(verb, *PLAIN, "--trust-data-for-schema", "-o", "out.csv").stdout)


@pytest.mark.parametrize("epsilon", ["1e-300", "1e-20", "1e-6"])
@pytest.mark.parametrize("method", ["privbayes", "weave"])
def test_budgets_that_buy_nothing_are_refused_first(weft: Weft, folder: Path, epsilon: str, method: str) -> None:
    result = weft("synth", *INPUT, "-e", epsilon, "-m", method, "-o", "out.csv", code=5)
    assert "Choose at least 0.0001" in result.stderr
    assert "Nothing was spent" in result.stderr
    assert outputs(folder) == set()


def test_noise_as_large_as_the_table_is_warned_of(weft: Weft) -> None:
    words = ("synth", *INPUT, "-e", 0.001, "-m", "independent", "-n", 10, "--noise-seed", 1)
    assert FAINT in shown(weft(*words, "-o", "a.csv").stdout)
    assert FAINT in Path("a.card.md").read_text()
    assert FAINT in weft(*words, "-o", "b.csv", "--quiet").stderr
    assert FAINT in json.loads(weft(*words, "-o", "c.csv", "--json").stdout)["warnings"][0]
    assert FAINT not in shown(weft("synth", *PLAIN, "-o", "d.csv").stdout)


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_summary_that_nobody_reads_is_no_failure(folder: Path, more: tuple[str, ...]) -> None:
    words = command("synth", *PLAIN, "-o", "out.csv", *more)
    with subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        said = process.stderr.read().decode()
    assert process.returncode == 0, said
    assert said == ""
    assert outputs(folder) == {"out.csv", "out.card.md", "out.card.json", "out.ledger.jsonl"}


def test_a_failure_that_nobody_reads_is_still_one(folder: Path) -> None:
    words = command("synth", "gone.csv", "-s", "visits.toml", "-e", 1, "-o", "out.csv", "--json")
    with subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        said = process.stderr.read().decode()
    assert process.returncode == 4, said
    assert "Traceback" not in said


def test_what_was_spent_and_what_is_promised_are_told_apart(weft: Weft) -> None:
    made = weft("synth", *INPUT, "-e", 1, "-m", "bsg", "-n", 1, "--option", "omega=4", "-o", "out.csv")
    assert "of the budget; the guarantee is stated for the whole budget: epsilon = 1 (delta = 1e-05)" in shown(
        made.stdout
    )
    assert "1 synthetic row, 6 columns" in made.stdout
    assert "the guarantee is stated" not in shown(weft("synth", *PLAIN, "-o", "whole.csv").stdout)


def test_one_column_is_one(weft: Weft) -> None:
    Path("one.toml").write_text('[columns.score]\nkind = "integer"\nrange = [0, 20]\n')
    Path("one.csv").write_text("score\n" + "7\n" * 200)
    one = weft("fit", "one.csv", "-s", "one.toml", "-e", 1, "-m", "independent", "-o", "one.weft").stdout
    assert "model of 1 column," in one
    assert "1 synthetic row, 1 column," in weft("sample", "one.weft", "-n", 1, "-o", "made.csv").stdout
    assert APART not in shown(one)


@pytest.mark.parametrize("verb", ["synth", "fit"])
def test_columns_that_were_not_measured_together_are_said_to_be_apart(weft: Weft, verb: str) -> None:
    assert APART in shown(weft(verb, *INPUT, "-e", 0.01, "-m", "weave", "-o", "out.csv").stdout)
    assert APART not in shown(weft(verb, *INPUT, "-e", 1, "-m", "mst", "-o", "out.csv", "--overwrite").stdout)
