"""`verify` checks every statement of a card on the rows: values, formulas, constants of a person, and rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from weft import Schema, Synthesizer
from weft.cli import app
from weft.io.atomic_files import hash_file
from weft.release.card import render_card
from weft.release.publish import Files, publish
from weft.release.verification import verify
from weft.synthesis.synthesizer import Synthesizer as Fitted

SCHEMA = """
unit = "patient"
rows_per_unit = 4
per_unit = ["sex", "birth"]
[columns.patient]
kind = "id"
pattern = "-P{:05d}"
[columns.sex]
kind = "category"
values = ["f", "m"]
[columns.birth]
kind = "datetime"
range = ["1930-01-01", "2010-12-31"]
[columns.seen]
kind = "datetime"
after = "birth"
range = ["0d", "20000d"]
[columns.age]
kind = "derived"
formula = "seen - birth"
[columns.year]
kind = "integer"
range = [2015, 2024]
[columns.pregnant]
kind = "boolean"
missing = true
[columns.adults]
kind = "integer"
range = [0, 4]
[columns.children]
kind = "integer"
range = [0, 4]
[columns.guests]
kind = "integer"
range = [0, 8]
[columns.paid]
kind = "real"
range = [0.0, 500.0]
decimals = 2
missing = true
[columns.due]
kind = "real"
range = [0.0, 500.0]
decimals = 2
[columns.ward]
kind = "category"
values = ["=a", "b", "-c"]
[columns.house]
kind = "derived"
of = "ward"
map = {"=a" = "north", b = "south", "-c" = "south"}
[[rules]]
unique = ["patient", "year"]
[[rules]]
order = ["paid", "due"]
[[rules]]
forbid = [{sex = "m", pregnant = true}]
[[rules]]
when = {year = {max = 2016}}
then = {adults = {min = 1}}
[[rules]]
sum = ["adults", "children"]
is = "guests"
[[rules]]
missing_together = ["paid", "pregnant"]
"""

FORMATS = [".csv", ".csv.gz", ".tsv", ".parquet", ".arrow", ".jsonl", ".xlsx"]


def table(people: int = 300) -> pa.Table:
    rng = np.random.default_rng(0)
    rows = rng.integers(1, 5, people)
    n = int(rows.sum())
    birth = np.repeat(np.datetime64("1930-01-01") + rng.integers(0, 20_000, people), rows)
    seen = birth + rng.integers(0, 8_000, n)
    adults, children = rng.integers(1, 5, n), rng.integers(0, 5, n)
    ward = rng.choice(["=a", "b", "-c"], n)
    due = np.round(rng.uniform(100, 500, n), 2)
    sex = np.repeat(rng.choice(["f", "m"], people), rows)
    return pa.table(
        {
            "patient": np.repeat(np.arange(people), rows).astype(str),
            "sex": sex,
            "birth": birth,
            "seen": seen,
            "age": (seen - birth).astype(float),
            "year": np.concatenate([rng.permutation(np.arange(2015, 2025))[:k] for k in rows]),
            "pregnant": pa.array(np.where(sex == "f", rng.random(n) < 0.2, False)),
            "adults": adults,
            "children": children,
            "guests": adults + children,
            "paid": np.round(due * rng.uniform(0, 1, n), 2),
            "due": due,
            "ward": ward,
            "house": np.where(ward == "=a", "north", "south"),
        }
    )


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    return Synthesizer(4.0, method="independent", journal=None, noise_seed=1).fit(table(), Schema.from_toml(SCHEMA))


def released(fitted: Fitted, path: Path, **settings: Any) -> Files:
    files = Files.of(path)
    publish(fitted.fitted_, fitted.tables(400, seed=1), files, **settings)
    return files


RULES = [f"rule {number}: " for number in range(1, 7)]
STATED = ["age = seen - birth", "house = map of ward", "sex is the same in all rows of a patient"]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("formulas", ["keep", "escape"])
def test_every_statement_of_a_card_is_checked_in_every_format(fitted, tmp_path, form, formulas):
    files = released(fitted, tmp_path / f"made{form}", formulas=formulas)
    found = verify(files.data)
    assert not found.wrong and not found.skipped
    what = [check.what for check in found.checks]
    for stated in [*RULES, *STATED, "birth is the same in all rows of a patient", "10 columns: ", '"seen": in range']:
        assert any(each.startswith(stated) for each in what), stated
    card = json.loads(files.card_json.read_text())
    assert all(check["broken_rows"] == 0 for check in card["checks"])
    assert {rule["broken_rows"] for rule in card["schema"]["rules"]} == {0}
    assert "holds in every row" in files.card.read_text()


def change(files: Files, edit: Any) -> None:
    """Change rows, and the hash in the card with them, as a careful editor would."""
    made = pq.read_table(files.data).to_pandas()
    edit(made)
    schema = pq.read_schema(files.data)
    pq.write_table(pa.Table.from_pandas(made, schema=schema, preserve_index=False), files.data)
    facts = json.loads(files.card_json.read_text())
    facts["table"]["sha256"] = hash_file(files.data)
    files.card_json.write_text(json.dumps(facts))
    files.card.write_text(render_card(facts))


def set_first(**values: Any) -> Any:
    def edit(frame: Any) -> None:
        for name, value in values.items():
            frame.loc[0, name] = value

    return edit


def repeat_key(frame: Any) -> None:
    frame.loc[1, ["patient", "sex", "birth", "year"]] = frame.loc[0, ["patient", "sex", "birth", "year"]]


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        (set_first(ward="d"), "10 columns"),
        (set_first(due=501.0), "10 columns"),
        (set_first(age=-1.0), "age = "),
        (set_first(house="west"), "house = "),
        (repeat_key, "rule 1"),
        (set_first(paid=400.0, due=1.0), "rule 2"),
        (set_first(sex="m", pregnant=True), "rule 3"),
        (set_first(year=2015, adults=0), "rule 4"),
        (set_first(guests=8, adults=1, children=1), "rule 5"),
        (set_first(paid=None, pregnant=True), "rule 6"),
    ],
)
def test_a_row_that_breaks_a_statement_is_found(fitted, tmp_path, edit, what):
    files = released(fitted, tmp_path / "made.parquet")
    change(files, edit)
    wrong = [check.what for check in verify(files.data).wrong]
    assert any(each.startswith(what) for each in wrong), wrong


def test_constants_of_a_person_are_checked(fitted, tmp_path):
    files = released(fitted, tmp_path / "made.parquet")

    def edit(frame: Any) -> None:
        person = frame.patient.value_counts().index[0]
        row = frame.index[frame.patient == person][0]
        frame.loc[row, "sex"] = "m" if frame.loc[row, "sex"] == "f" else "f"

    change(files, edit)
    assert "sex is the same in all rows of a patient" in [check.what for check in verify(files.data).wrong]


def test_keys_are_compared_across_blocks(fitted, tmp_path):
    """Blocks of one and the same rows: a card says how many rows break a rule, and `verify` finds the same number."""
    block = next(fitted.tables(50, seed=1))
    files = Files.of(tmp_path / "made.parquet")
    facts = publish(fitted.fitted_, [block, block], files)
    assert facts["schema"]["rules"][0]["broken_rows"] == 50
    assert "| 50 rows |" in files.card.read_text()
    assert not verify(files.data).wrong


def test_what_is_not_checked_is_said_not_to_be(fitted, tmp_path, capsys):
    files = released(fitted, tmp_path / "made.csv")
    facts = json.loads(files.card_json.read_text())
    del facts["schema"]["codec"], facts["checks"]
    for rule in facts["schema"]["rules"]:
        del rule["broken_rows"]
    files.card_json.write_text(json.dumps(facts))
    files.card.write_text(render_card(facts))
    found = verify(files.data)
    assert not found.wrong and len(found.skipped) == 1
    assert app(["verify", str(files.data), "--json"], standalone_mode=False) in (None, 0)
    told = json.loads(capsys.readouterr().out)
    assert [check["what"] for check in told["checks"] if check["not_checked"]] == ["content of the rows"]


def test_a_rule_that_the_schema_does_not_have_is_found(fitted, tmp_path):
    files = released(fitted, tmp_path / "made.csv")
    facts = json.loads(files.card_json.read_text())
    facts["schema"]["rules"][0]["rule"] = "patient unique"
    files.card_json.write_text(json.dumps(facts))
    files.card.write_text(render_card(facts))
    assert any("differ from those of its schema" in str(check.wrong) for check in verify(files.data).wrong)
