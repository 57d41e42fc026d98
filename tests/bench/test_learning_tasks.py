"""Classifiers that are trained on synthetic rows, and weave with another method's rho."""

import numpy as np
import pyarrow as pa
import pytest
from weft_lab import equal_rho, learning, trial
from weft_lab.tables import BenchTable

from weft.errors import DataError
from weft.schema import Schema


def table(rows=3000):
    rng = np.random.default_rng(0)
    hidden = rng.random(rows) < 0.4
    return pa.table({f"c{i}": np.where(rng.random(rows) < 0.1, ~hidden, hidden).astype(np.int8) for i in range(6)})


def test_rows_that_teach_something_lead_to_a_larger_area(monkeypatch):
    pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    monkeypatch.setitem(learning.TASKS, "made_up", learning.Task("c0", "1"))
    monkeypatch.setattr(
        learning, "opened", lambda name, folder: (table(), Schema.from_domain({f"c{i}": 2 for i in range(6)}))
    )
    (sheet,) = learning.learning(["made_up"], ["weave", "independent"], epsilon=4.0)
    ((name, real, weave, independent),) = sheet.rows
    assert name == "made_up" and float(real) > 0.8 and float(weave) > 0.75 > 0.65 > float(independent)
    assert sheet.notes == ["weave is ahead everywhere."]


def test_a_table_without_a_task_is_refused():
    with pytest.raises(DataError, match="no learning task"):
        next(learning.learning(["nltcs"]))


def test_the_rows_held_out_are_the_others():
    seen, held = learning.parted(pa.table({"a": np.arange(100)}), 1)
    assert len(seen) == 80 and sorted(seen["a"].to_pylist() + held["a"].to_pylist()) == list(range(100))


def test_weave_gets_the_rho_of_the_other_and_not_more(monkeypatch):
    asked = []

    def instead(name, method, epsilon, runs, options):
        asked.append((epsilon, options["budget"]))
        return trial.Repeated({k: trial.Spread.of([0.001]) for k in trial.ORDERS}, 1.0)

    monkeypatch.setattr(equal_rho, "repeated", instead)
    rows = table(10)
    adult = BenchTable.of("adult", rows, Schema.from_domain(dict.fromkeys(rows.column_names, 2)))
    (sheet,) = equal_rho.equal_rho([adult], 1)
    assert [epsilon for epsilon, _ in asked] == [0.2, 0.8, 3.2] and len(sheet.rows) == 3
    for epsilon, budget in asked:
        mine = equal_rho.Budget(epsilon=epsilon, delta=trial.DELTA)
        assert budget.capacity("gaussian") <= mine.capacity("zcdp") < mine.capacity("gaussian")
    assert "nowhere" in sheet.notes[0]
