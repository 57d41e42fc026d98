"""The page on rules is executed: each example loads with the table that it belongs to, and is kept."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from weft import Schema, Synthesizer
from weft.cli import app
from weft.drafting.schema_check import review_schema
from weft.encoding import Codec, count_broken_rows
from weft.io.text_to_types import csv_arrow_schema
from weft.release.card import card_markdown
from weft.schema.rules import RULES

from .rules import drawn

PAGE = (Path(__file__).parents[2] / "docs" / "rules.md").read_text()
TABLE, *EXAMPLES = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


def schema_of(*examples: str) -> Schema:
    top = [example for example in examples if example.startswith("groups")]
    return Schema.from_toml("\n".join([*top, TABLE, *(e for e in examples if e not in top)]))


@pytest.mark.parametrize("example", [*EXAMPLES, None])
def test_each_example_is_kept(example):
    schema = schema_of(*(EXAMPLES if example is None else [example]))
    codec = Codec(schema, csv_arrow_schema(schema))
    table = codec.decode(drawn(codec.domain, 2_000), np.random.default_rng(0))
    assert set(count_broken_rows(table, schema).values()) <= {0}
    told = [finding.text for finding in review_schema(schema) if finding.text.startswith("rule ")]
    assert len(told) == len(schema.rules)


def test_every_sort_of_rule_has_an_example():
    assert {rule.key for rule in schema_of(*EXAMPLES).rules} == set(RULES)


@pytest.mark.parametrize("condition", re.findall(r"^\| `(\w+ = .*?)` \|", PAGE, re.MULTILINE))
def test_each_condition_is_one(condition):
    then = 'room = "single"'
    assert schema_of(f"[[rules]]\nwhen = {{{condition}}}\nthen = {{{then}}}\n")


def test_what_the_page_says_of_attributes_is_true():
    schema = schema_of(*EXAMPLES)
    codec = Codec(schema, csv_arrow_schema(schema))
    assert codec.forms[1].text == "one attribute of 3 combinations instead of 2 x 3 codes"


def test_the_command_lists_what_became_of_each_rule(tmp_path):
    path = tmp_path / "hotel.toml"
    path.write_text(schema_of(*EXAMPLES).to_toml(), encoding="utf-8")
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["schema", "check", str(path)])
    assert result.exit_code == 0
    assert "one attribute of 3 combinations instead of 2 x 3 codes" in result.stdout
    assert "repaired after the draw" in result.stdout and "refused before anything is spent" in result.stdout
    told = json.loads(CliRunner().invoke(app, ["schema", "check", str(path), "--json"]).stdout)
    assert len(told["rules"]) == len(schema_of(*EXAMPLES).rules)
    assert told["rules"][1]["attribute"] == "is_canceled & status"


def test_the_card_states_rules_and_policies_and_no_number_of_rows():
    schema = schema_of(*EXAMPLES)
    codec = Codec(schema, csv_arrow_schema(schema))
    table = codec.decode(drawn(codec.domain, 500), np.random.default_rng(0))
    fitted = Synthesizer(1.0, method="independent", noise_seed=1, journal=None).fit(table, schema).fitted_
    card = card_markdown(fitted, 500, name="hotel.csv")
    assert "## Rules" in card and "counted as the nearest that is possible" in card
    assert re.search(r"\| status \| category \| string \| 3 \|", card)
