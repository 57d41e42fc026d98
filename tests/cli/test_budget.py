"""`weft budget` and `--budget`: what may be spent on a table in all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weft.privacy import Lifetime

from .conftest import Weft

PLAIN = ("visits.csv", "-s", "visits.toml", "-m", "independent")


def shown(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture
def budget(weft: Weft) -> str:
    weft("budget", "create", "clinic.budget", "--epsilon", 3, "--delta", 1e-6, "--table", "patients 2024")
    return "clinic.budget"


def test_a_budget_is_made_shown_and_drawn_from(weft: Weft, budget: str) -> None:
    empty = shown(weft("budget", "show", budget).stdout)
    assert "patients 2024" in empty and "0.0%" in empty and "epsilon 3 at delta 1e-06" in empty
    weft("synth", *PLAIN, "-e", 1, "--budget", budget, "-o", "out.csv")
    weft("fit", *PLAIN, "-e", 1, "--budget", budget, "-o", "m.weft")
    facts = json.loads(weft("budget", "show", budget, "--json").stdout)
    assert [run["method"] for run in facts["runs"]] == ["independent"] * 2
    assert [run["source"] for run in facts["runs"]] == ["visits.csv"] * 2
    assert all(run["ended"] and run["charges"] for run in facts["runs"])
    assert facts["spent"] == pytest.approx(sum(run["spent"] for run in facts["runs"])) and facts["held"] == 0
    assert facts["spent"] + facts["left"] == pytest.approx(1)
    assert "█" in weft("budget", "show", budget).stdout


def test_the_card_and_the_screen_say_whether_there_is_one(weft: Weft, budget: str) -> None:
    with_one = weft("synth", *PLAIN, "-e", 1, "--budget", budget, "-o", "out.csv")
    assert "lifetime budget" in shown(with_one.stdout) and "(3, 1e-06)-differential privacy" in shown(with_one.stdout)
    card = json.loads(Path("out.card.json").read_text())
    assert card["privacy"]["lifetime"]["head"] in Lifetime(budget).state().hashes
    assert card["privacy"]["lifetime"]["head"] in Path("out.card.md").read_text()
    without = weft("synth", *PLAIN, "-e", 1, "-o", "other.csv")
    sentence = "No lifetime budget is kept for this table: the privacy cost of other releases is not included."
    assert sentence in shown(without.stdout) and sentence in Path("other.card.md").read_text()
    weft("verify", ".")


def test_verify_looks_for_the_entries_of_releases(weft: Weft, budget: str) -> None:
    weft("synth", *PLAIN, "-e", 1, "--budget", budget, "-o", "out.csv")
    assert "entry in the lifetime budget" in shown(weft("verify", "out.csv", "--budget", budget).stdout)
    Path(budget).rename("old.budget")
    weft("budget", "create", budget, "--epsilon", 3)
    assert "does not contain the entry" in weft("verify", ".", "--budget", budget, code=1).stderr
    weft("verify", ".", "--budget", "old.budget")
    weft("synth", *PLAIN, "-e", 1, "-o", "other.csv")
    assert "did not draw from a lifetime budget" in weft("verify", "other.csv", "--budget", "old.budget", code=1).stderr


def test_what_was_drawn_from_a_budget_is_told_of_later_samples_too(weft: Weft, budget: str) -> None:
    weft("fit", *PLAIN, "-e", 1, "--budget", budget, "-o", "m.weft")
    weft("sample", "m.weft", "-o", "late.csv")
    assert json.loads(Path("late.card.json").read_text())["privacy"]["lifetime"]["table"] == "patients 2024"


def test_a_run_that_the_rest_cannot_pay_is_refused_before_anything_is_read(weft: Weft, budget: str) -> None:
    weft("synth", *PLAIN, "-e", 2.5, "--budget", budget, "-o", "out.csv")
    before = json.loads(weft("budget", "show", budget, "--json").stdout)
    Path("visits.csv").unlink()  # so that reading it would fail in another way
    refused = weft("synth", *PLAIN, "-e", 2, "--budget", budget, "-o", "more.csv", code=5)
    assert "Use an epsilon of at most" in refused.stderr and "Nothing was spent" in refused.stderr
    assert not Path("more.csv").exists()
    assert json.loads(weft("budget", "show", budget, "--json").stdout) == before


def test_mistakes_are_told(weft: Weft, budget: str) -> None:
    assert "already exists" in weft("budget", "create", budget, "-e", 1, code=7).stderr
    assert "weft budget create" in weft("budget", "show", "none.budget", code=4).stderr
    Path("odd.budget").write_text("not one")
    assert (
        "is not a lifetime budget"
        in weft("synth", *PLAIN, "-e", 1, "--budget", "odd.budget", "-o", "o.csv", code=4).stderr
    )
    assert (
        "is an input"
        in weft("synth", *PLAIN, "-e", 1, "--budget", budget, "-o", "o.csv", "--model", budget, code=7).stderr
    )
    assert (
        "is an input"
        in weft("synth", *PLAIN, "-e", 1, "--budget", budget, "-o", "o.csv", "--journal", budget, code=7).stderr
    )
    assert "has no run" in weft("budget", "release", budget, "abc", code=4).stderr
    assert "pure" in weft("budget", "create", "p.budget", "-e", 1, "--delta", 0, "--accounting", "zcdp", code=5).stderr


def test_deniable_records_cannot_be_drawn_from_a_budget(weft: Weft, budget: str) -> None:
    deny = ("-m", "bsg", "-n", 20, "--option", "omega=1", "--option", "guarantee=deniability", "--option", "k=5")
    result = weft("synth", *PLAIN[:3], "-e", 1, *deny, "--budget", budget, "-o", "o.csv", code=5)
    assert "no price" in result.stderr and "Nothing was spent" in result.stderr
    assert json.loads(weft("budget", "show", budget, "--json").stdout)["spent"] == 0


def test_runs_on_one_table_are_added_up_over_the_journals_of_a_folder(weft: Weft) -> None:
    weft("synth", *PLAIN, "-e", 1, "-o", "a.csv")
    second = shown(weft("synth", *PLAIN, "-e", 1, "-o", "b.csv").stdout)
    assert "Journals in this folder record 2 runs: epsilon 2 at delta 2e-05 in total" in second
    Path("other.csv").write_bytes(Path("visits.csv").read_bytes())
    other = shown(weft("synth", "other.csv", *PLAIN[1:], "-e", 1, "-o", "c.csv").stdout)
    assert "now hold" not in other
