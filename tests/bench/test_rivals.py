from __future__ import annotations

import re
from pathlib import Path

import pytest
from weft_lab import rivals

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"


def test_every_run_has_a_program_with_its_provenance() -> None:
    known = rivals.software()
    for run in rivals.runs():
        found = known[run.rival]
        assert found.label and found.version and found.source and found.run
        assert run.errors or run.status, run
        assert all(0 < error < 1 for error in run.errors)
        assert len(run.errors) in (0, 3, 5)


def test_errors_grow_with_the_order_of_the_marginals() -> None:
    for run in rivals.runs():
        assert list(run.errors) == sorted(run.errors), run


def test_the_best_is_the_least_of_each_order() -> None:
    found = rivals.rivals("adult", 0.8)
    assert len(found) > 5
    assert rivals.best("adult", 0.8)[2] == min(run.errors[2] for run in found)
    assert all(error != error for error in rivals.best("no such table", 0.8))


def test_the_page_quotes_the_best_rivals() -> None:
    quoted = re.findall(
        r"^\| (\w+) ([\d.]+) \|[^|]*\|[^|]*\| ([\d. /]+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(quoted) == 12
    for table, epsilon, figures in quoted:
        shown = [float(figure) for figure in figures.split("/")]
        assert shown == pytest.approx(rivals.best(table, float(epsilon))[1:]), (table, epsilon)
