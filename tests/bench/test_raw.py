"""Raw exports, file to file: what is refused before a charge is told as that, and ends no experiment."""

import numpy as np
import pyarrow as pa
import pytest
from weft_lab import raw, raw_tables
from weft_lab.raw_scores import score_release
from weft_lab.raw_tables import Export

from weft.errors import DataError


def test_a_refusal_before_a_charge_is_a_line_of_the_sheet(monkeypatch):
    many = pa.table({f"c{i:03}": np.arange(20) % 3 for i in range(400)})
    few = pa.table({"a": np.arange(3000) % 3, "b": np.arange(3000) % 2, "c": np.arange(3000) % 4})
    for module in (raw, raw_tables):
        monkeypatch.setattr(module, "EXPORTS", {"many": Export(lambda: many), "few": Export(lambda: few)})
    sheet = next(raw.Raw(("many", "few")).sheets())
    assert [row[0] for row in sheet.rows] == ["many", "few"] and all(
        len(row) == len(sheet.columns) for row in sheet.rows
    )
    assert sheet.rows[0][5] == "refused, nothing spent" and float(sheet.rows[1][5]) < 1


def test_a_run_that_fails_otherwise_ends_the_experiment(monkeypatch, tmp_path):
    monkeypatch.setattr(raw, "UNSPENT", "what nobody says")
    many = pa.table({f"c{i:03}": np.arange(20) for i in range(400)})
    for module in (raw, raw_tables):
        monkeypatch.setattr(module, "EXPORTS", {"many": Export(lambda: many)})
    with pytest.raises(DataError, match=r"many\.csv"):
        next(raw.Raw(("many",)).sheets())


def test_scores_are_those_of_the_raw_values(tmp_path):
    """A value outside the found range and a lost category count as wrong, whatever the found schema says."""
    real = pa.table({"x": [value // 2 * 2 for value in range(100)], "word": ["a"] * 90 + ["b"] * 10})
    made = pa.table({"x": [value % 50 for value in range(100)], "word": ["a"] * 100})
    schema = tmp_path / "found.toml"
    schema.write_text(
        '[columns.x]\nkind = "integer"\nrange = [0, 49]\n[columns.word]\nkind = "category"\nvalues = ["a"]\n'
    )
    scores = score_release(real, made, schema, {})
    assert scores.outside["x"] == 0.5 and scores.lost_2["word"] == 0.5 and abs(scores.variation["word"] - 0.1) < 1e-9
