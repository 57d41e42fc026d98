"""Counts asked of fitted models: where they come from, what is told of them, and that stated ranges hold."""

import json
import zipfile
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from weft import Schema, Synthesizer
from weft.errors import ConditionError, MethodError, ModelFileError
from weft.synthesis import model_file as modelfile
from weft.synthesis.statement import NOT_PRIVATE
from weft.synthesis.synthesizer import load

SCHEMA = """
[columns.id]
kind = "id"

[columns.age]
kind = "integer"
range = [0, 99]

[columns.sex]
kind = "category"
values = ["f", "m"]

[columns.town]
kind = "category"
values = ["a", "b", "c", "d", "e", "f", "g", "h"]

[columns.score]
kind = "integer"
range = [0, 9]

[columns.half]
kind = "derived"
formula = "age - score"
type = "int64"
"""


def people(n, seed):
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(45, 20, n), 0, 99).astype(int)
    sex = rng.random(n) < 0.3 + 0.4 * (age > 50)
    town = rng.zipf(1.6, n) % 8
    score = np.clip(age // 12 + rng.integers(0, 3, n), 0, 9)
    return pa.table(
        {
            "id": pa.array(np.arange(n)),
            "age": pa.array(age),
            "sex": pa.array(np.where(sex, "m", "f")),
            "town": pa.array(np.array(list("abcdefgh"))[town]),
            "score": pa.array(score),
            "half": pa.array(age - score),
        }
    )


def fitted(method, seed=0, rows=4000, epsilon=1.0, **options):
    settings = {"method": method, "journal": None, "seed": seed, "noise_seed": seed, **options}
    return Synthesizer(epsilon, 1e-6, **settings).fit(people(rows, seed), Schema.from_toml(SCHEMA))


@pytest.fixture(scope="module")
def mst():
    return fitted("mst", selection="heaviest")


@pytest.fixture(scope="module")
def weave():
    return fitted("weave")


def test_measured_columns_are_answered_from_released_tables(weave):
    ages = weave.query("age")
    assert ages.source == "measured"
    assert ages.labels[0][4] == "20 to 24"
    assert abs(float(ages.estimate.sum()) - 4000) < 400
    assert "about 95 of 100" in ages.meaning


def test_no_column_counts_all_rows(mst):
    rows = mst.query()
    assert rows.source == "measured"
    assert rows.estimate.shape == ()
    assert float(rows.low) < 4000 < float(rows.high)


def exact(table, counts, met=None):
    """Count the private rows in the cells of an answer, by the names of its values and bins."""
    places = []
    for name, labels in zip(counts.columns, counts.labels, strict=True):
        values = table.column(name).to_pylist()
        of = {}
        for place, label in enumerate(labels):
            low, _, high = label.partition(" to ")
            if low.isdigit():
                of |= dict.fromkeys(range(int(low), int(high or low) + 1), place)
            else:
                of |= dict.fromkeys(label.split(", "), place)
        places.append([of.get(value, -1) for value in values])
    cells = np.array(places)
    keep = (cells >= 0).all(axis=0) & (np.ones(len(table), bool) if met is None else met)
    shape = tuple(map(len, counts.labels))
    flat = np.ravel_multi_index(cells[:, keep], shape)
    return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)


@pytest.mark.parametrize(
    "method", ["mst", "weave", *(pytest.param(m, marks=pytest.mark.slow) for m in ("privbayes", "privsyn"))]
)
def test_stated_ranges_hold_the_exact_count(method):
    inside = cells = 0
    for seed in range(8):
        made, table = fitted(method, seed, 2000), people(2000, seed)
        domain = made.fitted_.codec.domain
        asked = {(name,) for name in domain} | {t.clique for t in made.fitted_.measured if len(t.clique) < 4}
        for columns in sorted(asked):
            counts = made.query(*columns, bins=100)
            if counts.source != "measured" or any("rarer" in label for own in counts.labels for label in own):
                continue
            truth = exact(table, counts)
            inside += int(((counts.low <= truth) & (truth <= counts.high)).sum())
            cells += truth.size
    assert cells >= 1000
    assert 0.90 < inside / cells < 0.99


def test_conditions_on_measured_columns_are_measured_too(mst):
    pair = next(t.clique for t in mst.fitted_.measured if len(t.clique) == 2 and "sex" in t.clique)
    (other,) = set(pair) - {"sex"}
    counts = mst.query(other, where="sex=f")
    assert counts.source == "measured"
    assert counts.where == ('sex = "f"',)
    both = mst.query(other, "sex")
    assert counts.estimate == pytest.approx(both.estimate[:, 0])
    assert counts.standard_error == pytest.approx(both.standard_error[:, 0])
    alone = mst.query("sex", where="sex=f")
    assert alone.labels == (("f",),)


def test_other_columns_are_answered_by_the_model_and_said_to_be(mst):
    counts = mst.query("town", "sex", "age")
    assert counts.source == "model"
    assert "does not cover" in counts.meaning
    assert counts.estimate.shape == tuple(map(len, counts.labels))
    assert float(counts.estimate.sum()) == pytest.approx(mst.model_.total)
    expected = mst.model_.marginal(("sex", "town"))
    assert counts.estimate.sum(axis=2) == pytest.approx(expected.T)


def test_derived_columns_are_counted_on_rows(mst):
    counts = mst.query("half", "sex", bins=5)
    assert counts.source == "rows"
    assert len(counts.labels[0]) <= 6
    assert float(counts.estimate.sum()) == pytest.approx(mst.model_.total)
    part = mst.query("sex", where="half >= 10")
    assert part.source == "rows"
    assert 0 < float(part.estimate.sum()) < mst.model_.total


@pytest.mark.parametrize("method", ["independent", "privbayes", "privsyn", "bsg"])
def test_every_sort_of_model_answers(method):
    made = fitted(method)
    for columns in [("sex",), ("age", "town"), ("half",)]:
        counts = made.query(*columns)
        assert (counts.standard_error >= 0).all()
        assert abs(float(counts.count.sum()) - 4000) < 1500


def test_a_saved_model_answers_as_the_fitted_one(weave, tmp_path):
    path = tmp_path / "made.weft"
    weave.save(path)
    again = load(path)
    for columns in [("age",), ("sex", "score"), ()]:
        before, after = weave.query(*columns), again.query(*columns)
        assert after.labels == before.labels
        assert after.estimate == pytest.approx(before.estimate, rel=1e-5, abs=1e-3)
        assert after.standard_error == pytest.approx(before.standard_error)


def test_files_without_released_tables_are_answered_by_the_model(weave, tmp_path):
    path, old = tmp_path / "made.weft", tmp_path / "old.weft"
    weave.save(path)
    members = {}
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist() if "released" not in name}
    head = json.loads(members["weft.json"])
    del head["released"]
    members["weft.json"] = json.dumps(head).encode()
    rewrite(old, members)
    counts = load(old).query("age")
    assert counts.source == "model"
    assert "Fit the model again" in counts.meaning


def rewrite(path, members):
    """Write a model file with these members and a manifest that fits."""
    import hashlib

    hashes = {name: hashlib.sha256(held).hexdigest() for name, held in members.items() if name != "manifest.json"}
    members["manifest.json"] = json.dumps({"format": modelfile.FORMAT, "members": hashes}).encode()
    with zipfile.ZipFile(path, "w") as file:
        for name, held in members.items():
            file.writestr(name, held)


@pytest.mark.parametrize("change", ["shape", "sigma", "order", "coding", "cells"])
def test_damaged_released_tables_are_refused(weave, tmp_path, change):
    path, bad = tmp_path / "made.weft", tmp_path / "bad.weft"
    weave.save(path)
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    head = json.loads(members["weft.json"])
    tables = head["released"]["tables"]
    if change == "shape":
        tables[-1][1][0] += 1
    elif change == "sigma":
        tables[-1][2] = -1.0
    elif change == "order":
        tables[-1][3] = -1
    elif change == "coding":
        tables[-1][4] = [10_000]
    else:
        tables.pop()
    members["weft.json"] = json.dumps(head).encode()
    rewrite(bad, members)
    with pytest.raises(ModelFileError):
        load(bad)


def test_what_cannot_be_asked_is_refused(mst):
    with pytest.raises(MethodError, match='Did you mean "age"'):
        mst.query("agee")
    with pytest.raises(MethodError, match="id"):
        mst.query("id")
    with pytest.raises(MethodError, match="twice"):
        mst.query("sex", "sex")
    with pytest.raises(MethodError, match="fewer bins"):
        mst.query("age", "town", "score", "half", bins=10_000)
    with pytest.raises(ConditionError):
        mst.query("sex", where="age >= 400")


def test_counts_can_be_taken_as_a_table(mst):
    counts = mst.query("sex")
    assert counts.table.column_names == ["sex", "count", "standard_error", "low", "high", "stamps"]
    assert [cell.values for cell in counts] == [("f",), ("m",)]
    assert "f: " in str(counts)
    unstamped = replace(counts, stamps=())
    assert unstamped.table.column_names == ["sex", "count", "standard_error", "low", "high"]
    assert unstamped.to_dict()["releasable"] is True


def test_a_stamp_goes_wherever_counts_go(mst):
    counts = mst.query("sex")  # of a fit with seeded noise
    assert counts.stamps == (NOT_PRIVATE,) and counts.to_dict()["releasable"] is False
    assert counts.table["stamps"].to_pylist() == [NOT_PRIVATE] * 2
    assert str(counts).startswith(NOT_PRIVATE) and NOT_PRIVATE in counts._repr_html_()
    renamed = replace(counts, columns=("stamps",)).table
    assert renamed["stamps (of the release)"].to_pylist() == [NOT_PRIVATE] * 2


def test_cells_that_rules_make_impossible_are_empty():
    rules = (
        SCHEMA
        + """
[[rules]]
when = {sex = "m"}
then = {town = ["a", "b", "c"]}
"""
    )
    table = people(3000, 1)
    town = np.where(np.array(table["sex"].to_pylist()) == "m", "b", np.array(table["town"].to_pylist()))
    table = table.set_column(3, "town", pa.array(town))
    for method in ("independent", "mst"):
        settings = {"method": method, "journal": None, "seed": 0, "noise_seed": 0}
        made = Synthesizer(1.0, 1e-6, **settings).fit(table, Schema.from_toml(rules))
        counts = made.query("sex", "town")
        kept = [counts.labels[1].index(name) for name in "abc"]
        others = [i for i in range(len(counts.labels[1])) if i not in kept]
        assert not counts.estimate[1][others].any()
        assert not counts.standard_error[1][others].any()
        assert counts.estimate[1][kept].sum() > 500


def test_rows_that_break_a_rule_are_in_the_counts():
    """The models make none of them; but they were counted as they are, and the range is for the private table."""
    table = people(3000, 1)
    rule = '[[rules]]\nwhen = {age = {max = 60}}\nthen = {town = "a"}\n'
    made = Synthesizer(1.0, 1e-6, method="mst", journal=None, seed=0, noise_seed=0)
    counts = made.fit(table, Schema.from_toml(SCHEMA + rule)).query("town")
    real = np.array([table["town"].to_pylist().count(name) for (name,) in (cell.values for cell in counts)])
    assert (np.abs(counts.estimate - real) < 5 * counts.standard_error + 1).all()
