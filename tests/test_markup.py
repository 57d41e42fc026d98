"""Whatever a name holds, a card shows it as text."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from weft import Synthesizer
from weft.release.card import (
    card_json,
    card_markdown,
    escape_markdown,
    format_code_span,
    render_card,
    strip_invisible_signs,
)
from weft.schema import Schema

HOSTILE = [
    "a | b",
    "x\n\n# Public domain",
    "# heading",
    "---",
    "<script>alert(1)</script>",
    "`format_code_span`",
    "[link](javascript:x)",
    "![i](http://x)",
    "**bold**",
    "1. one",
    "- item",
    "a\r\nepsilon: 0.0",
    "\u202edesrever",
    "&lt;",
    "~~~",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_text_has_no_sign_that_means_something(name: str) -> None:
    shown = escape_markdown(name)
    assert "\n" not in shown and "\r" not in shown and "\u202e" not in shown
    bare = shown.replace("\\\\", "")
    for sign in "`*[]<>|~&":
        assert all(bare[at - 1] == "\\" for at in range(len(bare)) if bare[at] == sign)
    assert shown[0] not in "#-+=>" and "://" not in shown
    assert strip_invisible_signs(name) == shown.replace("\\", "")


@pytest.mark.parametrize("name", ["a", "`", "``a`b", "", " ", "a\nb"])
def test_code_ends_where_it_should(name: str) -> None:
    shown = format_code_span(name)
    fence = shown[: len(shown) - len(shown.lstrip("`"))]
    inside = shown[len(fence) : -len(fence)]
    assert shown.endswith(fence) and fence not in inside.split() and "\n" not in shown


@pytest.mark.parametrize("name", HOSTILE)
def test_a_card_keeps_its_shape_whatever_columns_are_called(name: str) -> None:
    columns = {"size": {"kind": "integer", "range": [0, 9]}, name: {"kind": "category", "values": ["=cmd", "b"]}}
    table = pa.table({"size": pa.array([1, 2, 3] * 50, pa.int64()), name: ["=cmd", "b", "b"] * 50})
    fitted = Synthesizer(1.0, method="independent").fit(table, Schema.from_dict({"columns": columns})).fitted_
    usual = card_markdown(fitted, 5, name="out.csv").splitlines()
    shown = card_markdown(fitted, 5, name=name, sha256="0" * 64).splitlines()
    headings = [line for line in shown if line.startswith("#")]
    assert [line for line in headings if line.startswith("## ")] == [
        *(line for line in usual if line.startswith("## ")),
        "## Verification",
    ]
    assert sum(line.startswith("# ") for line in headings) == 1
    assert shown.count("---") == 2
    rows = [line for line in shown if line.startswith("| ") and " category | " in line]
    (row,) = rows
    assert len([at for at in range(1, len(row)) if row[at] == "|" and row[at - 1] != "\\"]) == 7
    head = dict(line.split(": ", 1) for line in shown[1 : shown.index("---", 1)] if ": " in line)
    assert json.loads(head["pretty_name"]) == name
    assert head["  epsilon"] == "1"


def test_a_method_is_a_quoted_value_of_the_head() -> None:
    table = pa.table({"a": [True, False] * 50})
    fitted = (
        Synthesizer(1.0, method="independent").fit(table, Schema.from_toml('[columns.a]\nkind = "boolean"')).fitted_
    )
    facts = card_json(fitted, 5, name="out.csv")
    facts["method"]["name"] = "x\nprivacy: none"
    quoted = json.dumps(facts["method"]["name"])
    assert f"method: {quoted}" in render_card(facts).splitlines()
