"""Rows under conditions, from the model to the card."""

import json
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from conftest import SCHEMA, make_table
from typer.testing import CliRunner

import weft
from weft import Schema, Synthesizer
from weft.cli import app
from weft.encoding.condition_codes import evidence_of
from weft.errors import ConditionError
from weft.schema.rules.conditions import read_where
from weft.synthesis.conditional_sampling import Conditioned

STAYS = Schema.from_toml(
    """
unit = "who"
rows_per_unit = 3
per_unit = ["sex", "age"]
[columns.who]
kind = "id"
pattern = "P{:06d}"
[columns.sex]
kind = "category"
values = ["f", "m"]
[columns.age]
kind = "integer"
range = [0, 99]
[columns.ward]
kind = "category"
values = ["surgery", "medicine", "maternity"]
[columns.unit]
kind = "category"
values = ["s1", "s2", "m1", "o1"]
[columns.came]
kind = "datetime"
range = ["2024-01-01", "2024-12-31"]
[columns.left]
kind = "datetime"
after = "came"
range = ["0d", "30d"]
[columns.stay]
kind = "derived"
formula = "left - came"
type = "int64"
[columns.cost]
kind = "real"
range = [0.0, 5000.0]
missing = true
[[rules]]
when = {ward = "maternity"}
then = {age = {min = 15, max = 50}, sex = "f"}
[[rules]]
forbid = [{ward = "surgery", unit = ["m1", "o1"]}, {ward = "medicine", unit = ["s1", "s2", "o1"]},
          {ward = "maternity", unit = ["s1", "s2", "m1"]}]
"""
)


def stays(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, n)
    ward = np.where((age > 14) & (age < 51) & (rng.random(n) < 0.3), 2, rng.integers(0, 2, n))
    unit = np.where(ward == 2, 3, np.where(ward == 1, 2, rng.integers(0, 2, n)))
    came = np.datetime64("2024-01-01") + rng.integers(0, 335, n)
    gap = rng.geometric(0.2, n) - 1
    left = came + np.minimum(gap, 30)
    return pa.table(
        {
            "who": [f"P{i:06d}" for i in rng.integers(0, n // 2, n)],
            "sex": np.where(ward == 2, "f", np.array(["f", "m"])[rng.integers(0, 2, n)]),
            "age": age,
            "ward": np.array(["surgery", "medicine", "maternity"])[ward],
            "unit": np.array(["s1", "s2", "m1", "o1"])[unit],
            "came": pa.array(came),
            "left": pa.array(left),
            "stay": (left - came).astype(np.int64),
            "cost": pa.array(rng.uniform(0, 5000, n), mask=rng.random(n) < 0.2),
        }
    )


@pytest.fixture(scope="module")
def fitted():
    return Synthesizer(3.0, seed=1, noise_seed=1, journal=None).fit(stays(), STAYS)


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        (["age >= 65"], lambda t: pc.greater_equal(t["age"], 65)),
        (["age > 64", "sex != m"], lambda t: pc.and_(pc.greater(t["age"], 64), pc.equal(t["sex"], "f"))),
        (["ward in surgery,maternity"], lambda t: pc.not_equal(t["ward"], "medicine")),
        (["ward = surgery", "unit = s2"], lambda t: pc.and_(pc.equal(t["ward"], "surgery"), pc.equal(t["unit"], "s2"))),
        (["came = 2024-05-03"], lambda t: pc.equal(t["came"], date(2024, 5, 3))),
        (["left >= 2024-11-20"], lambda t: pc.greater_equal(t["left"], date(2024, 11, 20))),
        (["stay >= 5", "stay < 7"], lambda t: pc.and_(pc.greater_equal(t["stay"], 5), pc.less(t["stay"], 7))),
        (["cost is missing"], lambda t: pc.is_null(t["cost"])),
        ({"cost": {"max": 100}, "sex": "f"}, lambda t: pc.and_(pc.less_equal(t["cost"], 100), pc.equal(t["sex"], "f"))),
    ],
)
def test_every_row_meets_the_conditions_and_keeps_the_rules(fitted, where, holds):
    made = fitted.sample(300, where=where, seed=3)
    assert made.num_rows == 300 and pc.all(holds(made)).as_py()
    assert made.schema.equals(fitted.sample(1).schema)
    assert not fitted.fitted_.codec.broken(made).any()
    assert made.equals(fitted.sample(300, where=where, seed=3))
    assert not made.equals(fitted.sample(300, where=where, seed=4))


def test_people_stay_people(fitted):
    made = fitted.sample(600, where="age >= 40", seed=5)
    people = made.group_by("who").aggregate([("sex", "count_distinct"), ("age", "count_distinct"), ("who", "count")])
    assert pc.max(people["sex_count_distinct"]).as_py() == pc.max(people["age_count_distinct"]).as_py() == 1
    assert pc.max(people["who_count"]).as_py() in (2, 3)


def test_without_a_number_they_are_the_rows_of_a_whole_table_that_meet_them(fitted):
    whole = fitted.sample(seed=8)
    part = fitted.sample(where="sex = f", seed=8)
    assert part.equals(whole.filter(pc.equal(whole["sex"], "f")))


def test_evidence_says_as_much_as_codes_can_tell(fitted):
    codec = fitted.fitted_.codec

    def kept(*texts):
        return {name: int(w.sum()) for name, w in evidence_of(read_where(list(texts), codec.readers), codec).items()}

    assert kept("age >= 65") == {"age": 35}
    assert kept("ward = surgery", "unit = s1|s2") == {"ward & unit": 2}
    assert 1 <= kept("came = 2024-05-03")["came"] <= 3  # the week, and its neighbours at most
    assert kept("cost is missing") == {"cost": 1}
    assert kept("stay >= 5", "left >= 2024-03-01") == {}  # computed, and a difference


def test_bins_that_reach_into_a_range_are_never_ruled_out():
    schema = Schema.from_toml('[columns.x]\nkind = "real"\nrange = [0, 1000]\nbins = 7\nspecial = [0, 2000]\n')
    codec = weft.encoding.Codec(schema, pa.schema([("x", pa.float64())]))
    values = np.linspace(0.001, 999.999, 5000)
    codes = codec.encode(pa.table({"x": values})).column("x")
    for low, high in [(0.5, 3), (142.8, 142.9), (400, 700), (999.9, 2000), (143, 143)]:
        conditions = read_where({"x": {"min": low, "max": high}}, codec.readers)
        possible = evidence_of(conditions, codec)["x"] > 0
        assert possible[codes[(values >= low) & (values <= high)]].all()
        assert possible[8] == (high == 2000) and not possible[7]


def test_what_nothing_can_meet_is_said(fitted):
    with pytest.raises(ConditionError, match="rules on ward & unit exclude it"):
        fitted.sample(5, where=["ward = maternity", "unit = s1"])
    with pytest.raises(ConditionError, match="outside its range"):
        fitted.sample(5, where="age = 200")


def test_what_rules_leave_nothing_of_is_given_up(fitted, monkeypatch):
    monkeypatch.setattr("weft.synthesis.conditional_sampling.MAX_VAIN_DRAWS", 3000)
    with pytest.raises(ConditionError, match="none of 3,000 sampled rows"):
        fitted.sample(3000, where=["ward = maternity", "age = 80"], seed=0)


def test_what_is_rare_is_told_with_its_number(fitted, monkeypatch):
    monkeypatch.setattr("weft.synthesis.conditional_sampling.MAX_DRAWN", 4000)
    monkeypatch.setattr("weft.synthesis.conditional_sampling.MAX_DRAWN_PER_ROW", 1)
    with pytest.raises(ConditionError, match=r"only \d+ rows? of 2,000 .* about 1 in \d+ .*Request fewer"):
        fitted.sample(2000, where=["stay = 9"], seed=0)


def test_none_in_a_whole_table_is_said():
    schema = Schema.from_domain({"a": 2, "b": 2000})
    table = pa.table({"a": [0, 1] * 30, "b": [0] * 60})
    made = Synthesizer(20.0, method="independent", seed=0, journal=None).fit(table, schema)
    with pytest.raises(ConditionError, match="state how many such rows to make"):
        made.sample(where="b = 1999", seed=0)


def test_a_model_without_such_records_says_so():
    schema = Schema.from_domain({"a": 2, "b": 3})
    table = pa.table({"a": [0, 1] * 30, "b": [0, 1, 2] * 20})
    alone = Synthesizer(20.0, method="independent", seed=0, noise_seed=1, journal=None).fit(table, schema)
    zeros = alone.fitted_.model.tables[1].copy()
    zeros[2] = 0
    object.__setattr__(alone.fitted_.model, "tables", (alone.fitted_.model.tables[0], zeros))
    with pytest.raises(ConditionError, match="rows that meet b = 2 have probability 0"):
        alone.sample(3, where="b = 2")


def test_records_that_were_released_as_they_are_cannot_be_asked_for_others():
    table, schema = make_table(400), Schema.from_toml(SCHEMA)
    made = Synthesizer(5.0, method="bsg", rows=40, omega=2, seed=1, journal=None).fit(table, schema)
    with pytest.raises(ConditionError, match="fixed released records"):
        made.sample(3, where="sex = f")


def test_keys_differ_across_rounds():
    schema = Schema.from_toml(
        '[columns.k]\nkind = "integer"\nrange = [0, 4000]\n[columns.a]\nkind = "integer"\nrange = [0, 9]\n'
        '[columns.b]\nkind = "derived"\nformula = "a + a"\n[[rules]]\nunique = ["k"]\n'
    )
    rng = np.random.default_rng(0)
    a = rng.integers(0, 10, 500)
    table = pa.table({"k": rng.permutation(4001)[:500], "a": a, "b": 2.0 * a})
    made = Synthesizer(5.0, seed=1, journal=None).fit(table, schema).sample(300, where="b >= 12", seed=2)
    assert made.num_rows == 300 and len(pc.unique(made["k"])) == 300
    assert pc.min(made["a"]).as_py() >= 6


def test_conditioning_costs_nothing(fitted):
    spent = fitted.ledger_.spent
    fitted.sample(10, where="sex = f")
    assert fitted.ledger_.spent == spent


def test_the_command_and_its_card(fitted, tmp_path):
    fitted.save(tmp_path / "m.weft")
    model, old, page = (str(tmp_path / name) for name in ("m.weft", "old.csv", "page.html"))
    asked = ["--where", "sex=f", "--where", "age>=65"]
    run = CliRunner().invoke(app, ["sample", model, "-n", "40", *asked, "--seed", "1", "-o", old])
    assert run.exit_code == 0, run.output
    assert 'where sex = "f" and age >= 65' in run.output.replace("\n", " ")
    card = json.loads((tmp_path / "old.card.json").read_text())
    assert card["table"]["conditions"] == ['sex = "f"', "age >= 65"] and card["table"]["rows"] == 40
    told = (tmp_path / "old.card.md").read_text()
    assert "conditional sample" in told and "age >= 65" in told and "does not represent the whole table" in told
    assert CliRunner().invoke(app, ["verify", str(tmp_path)]).exit_code == 0
    run = CliRunner().invoke(app, ["report", "--releasable", model, old, "-o", page])
    assert run.exit_code == 1 and "a conditional sample" in run.output.replace("\n", " ")


@pytest.mark.parametrize(
    "text", ["sex=x", "sexx=f", "age>=65 and sex=f", "age=200", "who=P1", "sex = ", "\x00", "🧵=1"]
)
def test_a_wrong_condition_writes_nothing(fitted, tmp_path, text):
    fitted.save(tmp_path / "m.weft")
    run = CliRunner().invoke(
        app, ["sample", str(tmp_path / "m.weft"), "-n", "4", "--where", text, "-o", str(tmp_path / "x.csv")]
    )
    assert run.exit_code == 2 and "Traceback" not in run.output
    assert [path.name for path in tmp_path.iterdir()] == ["m.weft"]


def test_nothing_is_drawn_before_conditions_are_understood(fitted):
    asked = Conditioned(fitted.fitted_, ["sex = f"])
    assert asked.written == ['sex = "f"'] and asked.shown == 'sex = "f"'
