"""Raw exports, file to file: what is refused before a charge is told as that, and ends no experiment."""

import numpy as np
import pyarrow as pa
import pytest
from weft_lab import raw

from weft.errors import DataError


def test_a_refusal_before_a_charge_is_a_line_of_the_sheet(monkeypatch):
    many = pa.table({f"c{i:03}": np.arange(20) % 3 for i in range(400)})
    few = pa.table({"a": np.arange(3000) % 3, "b": np.arange(3000) % 2, "c": np.arange(3000) % 4})
    monkeypatch.setattr(raw, "MADE", {"many": lambda: many, "few": lambda: few})
    (sheet,) = raw.Raw(("many", "few")).sheets()
    assert [row[0] for row in sheet.rows] == ["many", "few"] and all(
        len(row) == len(sheet.columns) for row in sheet.rows
    )
    assert sheet.rows[0][5] == "refused, nothing spent" and float(sheet.rows[1][5]) < 1


def test_a_run_that_fails_otherwise_ends_the_experiment(monkeypatch, tmp_path):
    monkeypatch.setattr(raw, "UNSPENT", "what nobody says")
    monkeypatch.setattr(raw, "MADE", {"many": lambda: pa.table({f"c{i:03}": np.arange(20) for i in range(400)})})
    with pytest.raises(DataError, match=r"many\.csv"):
        next(raw.Raw(("many",)).sheets())
