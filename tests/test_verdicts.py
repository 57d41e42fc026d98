"""A column that went wrong is named, with the reason, wherever a release is described."""

import numpy as np
import pyarrow as pa
import pytest

from weft.evaluation.report import render
from weft.evaluation.report.measure_report import measure_private, measure_releasable
from weft.release.card import card_json, render_card
from weft.schema import Schema
from weft.synthesis.synthesizer import Synthesizer
from weft.synthesis.verdicts import GRADES, describe_points, judge_columns

TEXT = """
[columns.fine]
kind = "category"
values = ["a", "b"]
[columns.score]
kind = "integer"
range = [0, 9]
outside = "clip"
paid = ["kind", "range"]
[columns.city]
kind = "category"
values = ["here", "other"]
other = "other"
outside = "other"
paid = ["kind", "values"]
[columns.rare]
kind = "boolean"
paid = ["kind"]
[columns.twice]
kind = "derived"
formula = "2 * score"
"""
ROWS = 4000


def make_rows() -> pa.Table:
    rng = np.random.default_rng(0)
    score = rng.integers(0, 40, ROWS)
    city = np.where(rng.random(ROWS) < 0.3, "here", np.char.add("town", rng.integers(0, 400, ROWS).astype(str)))
    return pa.table(
        {"fine": rng.choice(["a", "b"], ROWS), "score": score, "city": city, "rare": np.arange(ROWS) == 0,
         "twice": 2 * score}
    )  # fmt: skip


@pytest.fixture(scope="module")
def fitted():
    return Synthesizer(1.0, method="independent", noise_seed=1).fit(make_rows(), Schema.from_toml(TEXT)).fitted_


def test_every_column_has_a_verdict_with_its_reason(fitted):
    found = {verdict.column: verdict for verdict in judge_columns(fitted)}
    assert found["fine"].grade == "usable" and found["fine"].reasons == ()
    assert found["score"].grade == "not usable" and "% of the values are at 9" in found["score"].reasons[0]
    assert found["city"].grade == "not usable" and "not listed" in found["city"].reasons[0]
    assert found["rare"].grade == "not usable" and "the same value" in found["rare"].reasons[0]
    assert found["twice"].grade == "not usable" and "depends on score" in found["twice"].reasons[0]


def test_noise_decides_where_nothing_is_lost(fitted):
    rows = make_rows().select(["fine"]).slice(0, 60)
    grades = []
    for epsilon in (5.0, 0.2, 0.02):
        made = Synthesizer(epsilon, method="independent", noise_seed=3)
        verdict = judge_columns(made.fit(rows, Schema.from_toml(TEXT.split("[columns.score]")[0])).fitted_)[0]
        grades.append(GRADES.index(verdict.grade))
    assert grades[0] == 0 and grades == sorted(grades) and grades[-1] == 2
    assert "noise" in verdict.reasons[0]


def test_card_screen_and_both_editions_say_the_same(fitted):
    verdicts = judge_columns(fitted)
    card = card_json(fitted, ROWS, name="made.csv")
    assert [column["verdict"] for column in card["columns"]] == [verdict.grade for verdict in verdicts]
    assert "city: about" in render_card(card) and any(
        "city: not usable" in line for line in describe_points(fitted).worst
    )
    rows = make_rows()
    synth = fitted.codec.decode(fitted.model.sample(ROWS, np.random.default_rng(0)), np.random.default_rng(0))
    coded = fitted.codec.encode(synth)
    released = measure_releasable(fitted, coded, table=synth)
    assert released.verdicts == verdicts
    private = measure_private(fitted.codec.encode(rows), coded, fitted.codec, fitted, tables=(rows, synth))
    city = next(verdict for verdict in private.verdicts if verdict.column == "city")
    assert city.grade == "not usable" and "400 values of the private table are lost" in " ".join(city.reasons)
    for report in (released, private):
        page = render(report)
        assert (
            '<span class="grade g1">not usable</span>' in page
            and f">city</a></b>: {'' if report is private else 'about'}" in page
        )
        pairs = {pair.columns: pair for pair in report.pairs}
        assert pairs["fine", "city"].grade == "not usable" and "city is not usable" in pairs["fine", "city"].reason
        assert "data-grades" in page
    assert private.headlines[3].value < 0.1  # rare values, each town by itself


def test_detail_that_noise_hides_is_told():
    rng = np.random.default_rng(1)
    rows = pa.table({"rate": np.round(rng.choice([0.0, 40.0, 41.0], ROWS) + rng.random(ROWS), 2)})
    schema = Schema.from_toml('[columns.rate]\nkind = "real"\nrange = [0, 100]\nbins = 256\ndecimals = 2\n')
    told = {
        epsilon: judge_columns(Synthesizer(epsilon, noise_seed=2).fit(rows, schema).fitted_)[0]
        for epsilon in (0.05, 20.0)
    }
    assert any("counts are smoothed" in reason for reason in told[0.05].reasons)
    assert told[20.0].grade == "usable"
