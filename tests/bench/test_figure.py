from __future__ import annotations

from xml.etree import ElementTree

import pytest
from weft_lab.charts import PALETTE, Spread
from weft_lab.figure import figure

SVG = "{http://www.w3.org/2000/svg}"


def drawn(spreads: dict[tuple[str, str, float, str], Spread]) -> ElementTree.Element:
    return ElementTree.fromstring(figure(spreads, "t", "A & B <figure>"))


def texts(root: ElementTree.Element) -> list[str]:
    return [node.text or "" for node in root.iter(f"{SVG}text")]


def test_lines_have_a_panel_a_measure_error_bars_and_a_legend() -> None:
    spreads = {
        ("t", measure, epsilon, line): Spread(0.1 * i / epsilon, 0.01, 5)
        for measure in ("pair_l1", "svm")
        for epsilon in (0.5, 1.0, 2.0)
        for i, line in enumerate(("One", "Two & more"), 1)
    }
    spreads |= {("t", "svm_majority", e, "One"): Spread(0.2, 0.0, 5) for e in (0.5, 1.0, 2.0)}
    spreads |= {("t", "seconds", e, "One"): Spread(9.0, 0.0, 5) for e in (0.5, 1.0, 2.0)}
    spreads |= {("other", "pair_l1", 1.0, "Three"): Spread(9.0, 0.0, 5)}
    root = drawn(spreads)
    words = texts(root)
    assert {"One", "Two & more", "A & B <figure>", "most frequent label"} <= set(words)
    assert [word for word in words if word in ("L1 distance of pairs", "SVM misclassification")] != []
    assert words.count("epsilon") == 2
    assert "Three" not in words
    bars = [n for n in root.iter(f"{SVG}path") if n.get("d", "").count("V") == 3 and n.get("fill") is None]
    assert len(bars) == 4
    assert {PALETTE[0], PALETTE[1]} <= {n.get("stroke") for n in root.iter(f"{SVG}path")}


def test_markers_stand_where_the_values_are() -> None:
    spreads = {("t", "range", e, "One"): Spread(v, 0.0, 1) for e, v in ((1.0, 0.0), (2.0, 0.5), (3.0, 1.0))}
    root = drawn(spreads)
    marks = [n for n in root.iter(f"{SVG}path") if n.get("transform") and n.find(f"{SVG}title") is not None]
    at = [tuple(float(x) for x in m.get("transform", "")[10:-1].split()) for m in marks if m[0].text != "One"]
    assert len(at) == 3
    (x0, y0), (x1, y1), (x2, y2) = at
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.2)
    assert y0 > y2


def test_a_gap_is_left_where_a_run_is_missing() -> None:
    spreads = {("t", "range", e, line): Spread(0.1, 0.0, 1) for e in (1.0, 2.0) for line in ("One", "Two")}
    del spreads["t", "range", 1.0, "Two"]
    told = [n.text for n in drawn(spreads).iter(f"{SVG}title")]
    assert told.count("epsilon 2: 0.1") == 2
    assert told.count("epsilon 1: 0.1") == 1


@pytest.mark.parametrize("value", [0.0, -0.2, 1.0, 1e-9, 12345.0])
def test_any_single_value_can_be_drawn(value: float) -> None:
    assert "One" in texts(drawn({("t", "range", 1.0, "One"): Spread(value, 0.0, 1)}))


def test_many_figures_of_one_budget_are_rows_of_dots() -> None:
    spreads = {("t", f"pass_kept_2_k_{k}", 1.0, line): Spread(0.5, 0.1, 3) for k in range(6) for line in ("A", "B")}
    root = drawn(spreads)
    assert "candidates that pass, 2 attributes kept, k = 5" in texts(root)
    assert sum((n.text or "").endswith(": 0.5 ±0.1") for n in root.iter(f"{SVG}title")) == 12
