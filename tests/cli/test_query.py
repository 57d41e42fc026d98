from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from weft.synthesis.statement import VOID

from .conftest import Weft


@pytest.fixture
def model(weft: Weft) -> str:
    weft("fit", "visits.csv", "-s", "visits.toml", "-e", 1, "-m", "mst", "-o", "made.weft", "-q")
    return "made.weft"


def test_counts_are_shown_with_what_they_mean(weft: Weft, model: str) -> None:
    shown = weft("query", model, "town", "regular")
    assert "95% range" in shown.stdout
    assert "Arras" in shown.stdout
    assert "may be released" in shown.stdout


def test_counts_leave_as_json_and_csv(weft: Weft, model: str) -> None:
    answer = json.loads(weft("query", model, "town", "--json", "--where", "regular=true").stdout)
    assert answer["columns"] == ["town"]
    assert [cell["values"] for cell in answer["cells"]] == [["Arras"], ["Bruges"], ["Ghent"], ["missing"]]
    assert answer["where"]
    weft("query", model, "town", "--csv", "counts.csv")
    lines = Path("counts.csv").read_text().splitlines()
    assert lines[0] == "town,count,standard_error,low,high"
    assert len(lines) == 5
    assert weft("query", model, "town", "--csv", "-", "-q").stdout.splitlines() == lines


STAMPED = {
    "seeded noise": ("-e", 1, "--noise-seed", 1),
    "an epsilon that protects nobody": ("-e", 50, "--insecure"),
    "facts that were read from the rows": ("-e", 1, "--trust-data-for-schema"),
}


@pytest.mark.parametrize("why", STAMPED)
def test_no_counts_leave_a_stamped_model_without_its_stamp(weft: Weft, why: str) -> None:
    schema = Path("visits.toml").read_text()
    if "--trust-data-for-schema" in STAMPED[why]:
        schema = schema.replace("range = [0, 20]", 'range = [0, 20]\nfrom_data = ["range"]')
        Path("visits.toml").write_text(schema)
    weft("fit", "visits.csv", "-s", "visits.toml", "-m", "mst", "-o", "made.weft", "-q", *STAMPED[why])
    (stamp,) = json.loads(weft("query", "made.weft", "town", "--json").stdout)["stamps"]
    shown = weft("query", "made.weft", "town", "--csv", "counts.csv")
    assert stamp in " ".join(shown.stdout.split()) and VOID in " ".join(shown.stdout.split())
    with Path("counts.csv").open(newline="") as file:
        assert [row["stamps"] for row in csv.DictReader(file)] == [stamp] * 4
    screen = weft("query", "made.weft", "town", "--csv", "-")
    assert screen.stdout == Path("counts.csv").read_text() and stamp in " ".join(screen.stderr.split())
    weft("query", "made.weft", "town", "score", "--csv", "both.csv", "-q")
    assert all(stamp in line for line in Path("both.csv").read_text().splitlines()[1:])


def test_wrong_questions_are_refused(weft: Weft, model: str) -> None:
    assert 'Did you mean "town"' in weft("query", model, "twon", code=2).stderr
    weft("query", model, "town", "--where", "nowhere=3", code=2)
    weft("query", "visits.csv", "town", code=6)
    weft("query", model, "town", "--json", "--csv", "-", code=2)
    before = Path(model).read_bytes()
    weft("query", model, "town", "--csv", model, code=7)
    assert Path(model).read_bytes() == before
