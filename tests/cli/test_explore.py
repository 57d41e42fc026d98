from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from weft_lab.exploration import explore_columns

from weft.encoding import Codec
from weft.schema import Schema

from .conftest import Weft


def test_a_public_table_is_shown_with_a_warning(weft: Weft) -> None:
    shown = weft("explore", "visits.csv", "--html", "visits.html")
    assert "FOR PUBLIC DATA ONLY" in shown.stdout
    assert "Arras" in shown.stdout and "InDif" in shown.stdout
    page = Path("visits.html").read_text()
    assert "FOR PUBLIC DATA ONLY" in page and "<svg" in page and "Arras" in page


def test_machines_get_all_pairs_and_the_warning(weft: Weft) -> None:
    answered = weft("explore", "visits.parquet", "-s", "visits.toml", "--json")
    told = json.loads(answered.stdout)
    names = {column["name"] for column in told["columns"]}
    assert len(told["pairs"]) == len(names) * (len(names) - 1) // 2
    assert "PUBLIC" in told["warning"] and "PUBLIC" in answered.stderr


def test_only_wrong_usage_is_refused(weft: Weft) -> None:
    weft("explore", "nowhere.csv", code=4)
    weft("explore", "visits.csv", "--html", "visits.csv", code=7)


def test_pairs_are_ranked_by_what_chance_does_not_explain() -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 4, 5000)
    table = pa.table({"a": a, "b": (a + (rng.random(5000) < 0.2)) % 4, "c": rng.integers(0, 4, 5000)})
    codec = Codec(Schema.from_domain({"a": 4, "b": 4, "c": 4}), table.schema)
    found = explore_columns(codec, codec.encode(table))
    assert found.pairs[0].columns == ("a", "b")
    counts = np.zeros((4, 4))
    np.add.at(counts, (a, table["b"].to_numpy()), 1)
    apart = np.abs(counts - np.outer(counts.sum(1), counts.sum(0)) / 5000).sum() / 10_000
    assert np.isclose(found.pairs[0].indif, apart)
    for pair in found.pairs[1:]:
        assert 0.4 < pair.indif / pair.chance < 2
    assert all(np.isclose(sum(column.shares), 1) for column in found.columns)
