from __future__ import annotations

import json
from pathlib import Path

import pytest

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


def test_wrong_questions_are_refused(weft: Weft, model: str) -> None:
    assert 'Did you mean "town"' in weft("query", model, "twon", code=2).stderr
    weft("query", model, "town", "--where", "nowhere=3", code=2)
    weft("query", "visits.csv", "town", code=6)
    weft("query", model, "town", "--json", "--csv", "-", code=2)
    before = Path(model).read_bytes()
    weft("query", model, "town", "--csv", model, code=7)
    assert Path(model).read_bytes() == before
