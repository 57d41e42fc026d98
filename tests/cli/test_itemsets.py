from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Weft


@pytest.fixture
def lines(weft: Weft) -> str:
    rows = ["order,product"]
    for i in range(3000):
        rows += [f"{i},bread"] * (i % 2 == 0) + [f"{i},milk"] * (i % 3 == 0) + [f"{i},eggs"] * (i % 4 == 0)
    Path("lines.csv").write_text("\n".join(rows) + "\n")
    return "lines.csv"


def test_sets_are_shown_and_written(weft: Weft, lines: str) -> None:
    words = ("itemsets", lines, "--basket", "order", "--item", "product", "-e", 1, "--top", 5)
    shown = weft(*words, "-o", "sets.csv")
    assert "bread" in shown.stdout and "differential privacy" in shown.stdout
    table = Path("sets.csv").read_text().splitlines()
    assert table[0] == "items,size,count,standard_error,share"
    assert len(table) == 6
    assert Path("sets.ledger.jsonl").exists()
    answer = json.loads(weft(*words, "--json").stdout)
    assert answer["sets"][0]["items"] == ["bread"]


def test_no_sets_leave_a_stamped_run_without_its_stamp(weft: Weft, lines: str) -> None:
    words = ("itemsets", lines, "--basket", "order", "--item", "product", "-e", 1, "--top", 5, "--noise-seed", 1)
    shown = weft(*words, "-o", "sets.csv")
    assert "NOT PRIVATE" in shown.stdout and "May be released" not in shown.stdout
    head, *rows = Path("sets.csv").read_text().splitlines()
    assert head.endswith(",stamps") and len(rows) == 5 and all(",NOT PRIVATE: " in row for row in rows)


def test_a_lifetime_budget_pays(weft: Weft, lines: str) -> None:
    weft("budget", "create", "shop.budget", "--epsilon", 1, "--delta", "1e-5", "--table", "orders")
    words = ("itemsets", lines, "--basket", "order", "--item", "product", "--budget", "shop.budget", "-o", "sets.csv")
    weft(*words, "-e", 0.8, "--delta", "5e-6")
    refused = weft(*words, "-e", 0.8, "--delta", "5e-6", "--overwrite", code=5)
    assert "budget" in refused.stderr


def test_wrong_usage_costs_nothing(weft: Weft, lines: str) -> None:
    for words in [
        ("itemsets", lines),
        ("itemsets", lines, "--basket", "order"),
        ("itemsets", lines, "--basket", "order", "--item", "what"),
        ("itemsets", lines, "--basket", "order", "--item", "product", "--top", 0),
        ("itemsets", lines, "--basket", "order", "--item", "product", "-q"),
        ("itemsets", lines, "--columns", "product", "--items", lines),
    ]:
        assert "Nothing was spent" in weft(*words, code=2).stderr
    weft("itemsets", lines, "--basket", "order", "--item", "product", "-o", lines, code=7)
    weft("itemsets", "nowhere.csv", "--columns", "all", code=4)
    assert not Path("weft.ledger.jsonl").exists()


def test_items_that_are_no_words_and_standard_input_are_told_plainly(weft: Weft) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for kind in (pa.struct([("x", pa.int64())]), pa.list_(pa.int64())):
        pq.write_table(pa.table({"basket": pa.nulls(3, pa.list_(kind))}), "odd.parquet")
        assert "words or numbers" in weft("itemsets", "odd.parquet", "-e", 1, "-o", "sets.csv", code=4).stderr
    assert "save them to a file" in weft("itemsets", "-", "-e", 1, "-o", "sets.csv", code=2).stderr
    assert not Path("sets.ledger.jsonl").exists() or "question" not in Path("sets.ledger.jsonl").read_text()
