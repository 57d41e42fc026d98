"""Replicates repeat a release from its model alone, continue after an interruption, and carry intervals that hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import SCHEMA, make_table
from typer.testing import CliRunner

import weft
from weft import Schema, Synthesizer
from weft.cli import app
from weft.errors import DataError, MethodError, WeftError
from weft.evaluation.analysis import Question, estimate_with_interval, fit_logit, fit_ols
from weft.privacy import Budget, Lifetime
from weft.release.publish import Files, publish
from weft.synthesis.replicates import Replicates, draw_replicate, make_replicates

WIDE = SCHEMA + '[columns.place]\nkind = "category"\nvalues = ["in", "out"]\n'


def private(rows: int = 400, seed: int = 0) -> pa.Table:
    table = make_table(rows, seed)
    place = np.where(np.random.default_rng(seed).random(rows) < 0.3, "in", "out")
    return table.append_column("place", pa.array(place))


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a released table, its card, its model and 8 replicates, made by two processes."""
    folder = tmp_path_factory.mktemp("release")
    made = Synthesizer(4.0, method="independent", journal=None, seed=1, noise_seed=1)
    made.fit(private(), Schema.from_toml(WIDE), unit=False)
    publish(made.fitted_, made.tables(seed=2), Files.of(folder / "out.csv"))
    made.save(folder / "out.weft")
    seen: list[int] = []
    make_replicates(folder / "out.weft", folder / "reps", 8, listener=lambda event: seen.append(event.done))
    assert seen[0] == 0 and seen[-1] == 8
    return folder


def test_replicates_depend_on_model_seed_and_number_only(release: Path, tmp_path: Path) -> None:
    whole = {path.name: path.read_bytes() for path in (release / "reps").iterdir()}
    assert len(whole) == 2 * 8 + 1
    assert make_replicates(release / "out.weft", tmp_path / "r", 5, processes=1) == [1, 2, 3, 4, 5]
    (tmp_path / "r/parent-002.parquet").unlink()
    with pytest.raises(DataError, match="4 of 5 replicates are complete"):
        Replicates.read(tmp_path / "r")
    assert make_replicates(release / "out.weft", tmp_path / "r", 8, processes=1) == [2, 6, 7, 8]
    assert {path.name: path.read_bytes() for path in (tmp_path / "r").iterdir()} == whole
    assert make_replicates(release / "out.weft", tmp_path / "r", 8) == []
    with pytest.raises(DataError, match="another model, seed or size"):
        make_replicates(release / "out.weft", tmp_path / "r", 8, seed=1)
    pairs = Replicates.read(tmp_path / "r").pairs
    assert all(not parent.equals(replicate) and parent.schema == replicate.schema for parent, replicate in pairs)
    assert not pairs[0][0].equals(pairs[1][0])


def test_the_manifest_says_that_nothing_was_spent(release: Path) -> None:
    facts = json.loads((release / "reps/replicates.json").read_text())
    assert facts["privacy_cost"] == 0 and "no private row was read" in facts["note"]
    assert facts["stamps"] == list(weft.load(release / "out.weft").ledger_.stamps) != []


@pytest.mark.parametrize("settings", [{"delta": 0.0}, {"neighbours": "replace-one"}, {"method": "weave", "rare": 0.0}])
def test_a_replicate_is_fitted_like_the_release(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    made = Synthesizer(2.0, journal=None, seed=1, **({"method": "independent"} | settings))
    fitted = made.fit(private(), Schema.from_toml(WIDE), unit=False).fitted_
    repeated = []
    fit = Synthesizer.fit_request
    monkeypatch.setattr(Synthesizer, "fit_request", lambda self, request: repeated.append(fit(self, request)) or self)
    parent, replicate = draw_replicate(fitted, 1, 0, rows=50)
    (again,) = repeated
    mine, theirs = fitted.ledger, again.ledger_
    assert (mine.budget, str(mine.accounting), mine.adjacency) == (
        theirs.budget,
        str(theirs.accounting),
        theirs.adjacency,
    )
    assert again.fitted_.options == fitted.options and again.fitted_.method == fitted.method
    assert len(replicate) == 50 and abs(len(parent) - 400) < 100


def test_discovery_is_not_repeated_and_what_it_cost_is_not_spent_again(tmp_path: Path) -> None:
    budget = tmp_path / "table.budget"
    Lifetime.create(budget, Budget(epsilon=9.0))
    path = tmp_path / "private.csv"
    rng = np.random.default_rng(0)
    path.write_text("kind,size\n" + "".join(f"{'ab'[rng.integers(2)]},{rng.integers(9)}\n" for _ in range(3000)))
    made = Synthesizer(4.0, method="independent", journal=None, budget_file=budget, seed=1).fit(path, unit=False)
    before = budget.read_bytes()
    found = made.replicates(5, processes=1)
    assert len(found.pairs) == 5 and budget.read_bytes() == before
    ledger = made.ledger_
    spent = sum(entry.cost for entry in ledger.entries if entry.purpose == "discovery")
    from weft.synthesis.replicates import find_budget

    assert spent > 0 and find_budget(made.fitted_).rho == pytest.approx(ledger.capacity - spent)
    assert weft.analyse(made.sample(seed=1), "mean(size)", found).estimates[0].low < 4.2


def test_a_failing_worker_ends_the_run_with_its_message(release: Path, tmp_path: Path) -> None:
    with pytest.raises(WeftError, match="could not be made: cannot move"):
        blocked = tmp_path / "r"
        blocked.mkdir()
        (blocked / "parent-003.parquet").mkdir()
        make_replicates(release / "out.weft", blocked, 6)


def test_records_grown_from_private_rows_cannot_be_repeated() -> None:
    made = Synthesizer(4.0, method="bsg", omega=1, rows=50, guarantee="deniability", k=5, journal=None)
    made.fit(make_table(400), Schema.from_toml(SCHEMA), unit=False)
    with pytest.raises(WeftError, match="grown from private rows"):
        made.replicates(5)


def test_statistics_have_their_values_in_the_release(release: Path) -> None:
    table = pq.read_table(release / "reps/replicate-001.parquet")
    frame = table.to_pandas()
    made = Replicates.read(release / "reps")
    age, cost = frame["age"].astype(float), frame["cost"].astype(float)
    expected = {
        "mean(age)": {"mean of age": age.mean()},
        "median(cost)": {"quantile 0.5 of cost": cost.median()},
        "quantile(cost, 0.9)": {"quantile 0.9 of cost": cost.quantile(0.9)},
        "share(age >= 65)": {"share of age >= 65": (age >= 65).mean()},
        "mean(age) by sex": {
            "mean of age, sex = f": age[frame["sex"] == "f"].mean(),
            "mean of age, sex = m": age[frame["sex"] == "m"].mean(),
            "sex = m minus sex = f": age[frame["sex"] == "m"].mean() - age[frame["sex"] == "f"].mean(),
        },
    }
    for text, values in expected.items():
        found = weft.analyse(table, text, made)
        assert {each.name: each.released for each in found.estimates} == pytest.approx(values, rel=1e-6)


def test_regressions_agree_with_statsmodels(release: Path) -> None:
    formula = pytest.importorskip("statsmodels.formula.api")
    table = pq.read_table(release / "reps/replicate-001.parquet")
    frame, made = table.to_pandas(), Replicates.read(release / "reps")
    frame["inside"] = (frame["place"] == "in").astype(float)
    for text, theirs in (
        ("cost ~ age + ward", formula.ols("cost ~ age + ward", frame).fit()),
        ("place = in ~ age + sex", formula.logit("inside ~ age + sex", frame).fit(disp=0)),
    ):
        mine = [each.released for each in weft.analyse(table, text, made).estimates]
        names = list(theirs.params.index)
        order = ["Intercept", *(name for name in names if "T." in name), "age"]
        shuffled = [mine[0], *mine[2:], mine[1]]
        assert shuffled == pytest.approx([theirs.params[name] for name in order], rel=1e-3, abs=1e-4)
    both = weft.analyse(table, "place ~ age", made).estimates[1].released
    assert both == pytest.approx(-weft.analyse(table, "place = in ~ age", made).estimates[1].released, rel=1e-6)


def test_least_squares_and_newton_solve_their_equations_and_separation_is_not_a_number() -> None:
    rng = np.random.default_rng(0)
    design = np.column_stack([np.ones(500), rng.normal(size=500), rng.normal(size=500)])
    outcome = (rng.random(500) < 1 / (1 + np.exp(-design @ [0.2, 1.0, -0.5]))).astype(float)
    residual = outcome - design @ fit_ols(design, outcome)
    assert np.abs(design.T @ residual).max() < 1e-8
    chance = 1 / (1 + np.exp(-design @ fit_logit(design, outcome)))
    assert np.abs(design.T @ (outcome - chance)).max() < 1e-6
    assert np.isnan(fit_logit(design, (design[:, 1] > 0).astype(float))).all()


def test_any_function_of_a_table_is_a_statistic(release: Path) -> None:
    made = Replicates.read(release / "reps")
    frame = pq.read_table(release / "reps/replicate-002.parquet").to_pandas()
    found = weft.analyse(frame, lambda table: table["age"].mean(), made)
    assert found.estimates[0].released == pytest.approx(frame["age"].mean())
    both = weft.analyse(frame, lambda table: table[["age", "cost"]].mean(), made)
    assert [each.name for each in both.estimates] == ["age", "cost"]
    same = weft.analyse(frame, "mean(age)", made).estimates[0]
    assert (same.low, same.high) == pytest.approx((found.estimates[0].low, found.estimates[0].high))


def test_intervals_are_prediction_intervals_for_one_more_error() -> None:
    """Errors of one normal distribution, replicates and release alike: the interval covers at its level."""
    rng, hits, trials = np.random.default_rng(0), {0.0: 0, 3.0: 0}, 4000
    for bias in hits:
        for _ in range(trials):
            errors = rng.normal(bias, 1, 21)
            found = estimate_with_interval("", 5 + errors[0], errors[1:], None, 0.9)
            hits[bias] += found.low <= 5 <= found.high
    assert 0.89 < hits[0.0] / trials < 0.96 and hits[3.0] / trials > 0.95
    assert estimate_with_interval("", 1.0, np.array([1.0, 1.0, 1.0])).estimate == 0.0


def test_intervals_for_the_population_are_wider(release: Path) -> None:
    table = pq.read_table(release / "reps/replicate-001.parquet")
    made = Replicates.read(release / "reps")
    (small,), (large,) = (weft.analyse(table, "mean(age)", made, target=t).estimates for t in ("table", "population"))
    assert small.high - small.low < large.high - large.low and small.estimate == large.estimate


def test_relations_that_were_never_measured_are_named(release: Path) -> None:
    made = Replicates.read(release / "reps")  # of a method that measures no pairs
    tables = [made.pairs[0][1]]
    assert Question.parse("mean(age)", made, tables).find_gaps() == []
    (gap,) = Question.parse("place = in ~ age", made, tables).find_gaps()
    assert "age and place" in gap and "not cover" in gap
    wide = Synthesizer(8.0, method="weave", journal=None, seed=0).fit(private(2000), Schema.from_toml(WIDE), unit=False)
    told = wide.replicates(5, processes=1)
    assert told.facts["measured"] and Question.parse("cost ~ ward", told, tables).find_gaps() == []


FAULTS = {
    "mean(agee)": 'no column "agee"',
    "mean(ward)": "no numbers",
    "quantile(age, 2)": "between 0 and 1",
    "quantile(age)": "between 0 and 1",
    "total(age)": "not a statistic",
    "ward ~ age": "has 4 values",
    "share(nix = 1)": "nix",
    "mean(age) by cost": "too many",
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_wrong_statistic_is_refused_with_a_remedy(release: Path, text: str) -> None:
    with pytest.raises(WeftError, match=FAULTS[text]):
        weft.analyse(pq.read_table(release / "reps/replicate-001.parquet"), text, release / "reps")


def test_tables_that_do_not_belong_together_are_refused(release: Path, tmp_path: Path) -> None:
    other = Synthesizer(4.0, method="independent", journal=None, seed=3)
    other.fit(private(), Schema.from_toml(WIDE), unit=False)
    publish(other.fitted_, other.tables(seed=2), Files.of(tmp_path / "other.csv"))
    with pytest.raises(DataError, match="another release"):
        weft.analyse(tmp_path / "other.csv", "mean(age)", release / "reps")
    loaded = weft.load(release / "out.weft")
    loaded_tables = loaded.tables(30, where="sex = f", seed=0)
    publish(loaded.fitted_, loaded_tables, Files.of(tmp_path / "few.csv"), conditions=["sex = f"])
    with pytest.raises(DataError, match="conditional"):
        weft.analyse(tmp_path / "few.csv", "mean(age)", release / "reps")
    publish(loaded.fitted_, loaded.tables(30, seed=0), Files.of(tmp_path / "short.csv"))
    assert any(
        "30 rows" in each for each in weft.analyse(tmp_path / "short.csv", "mean(age)", release / "reps").warnings
    )
    with pytest.raises(DataError, match="weft replicates MODEL"):
        weft.analyse(tmp_path / "short.csv", "mean(age)", tmp_path)
    with pytest.raises(MethodError, match="target"):
        weft.analyse(tmp_path / "short.csv", "mean(age)", release / "reps", target="all")  # type: ignore[arg-type]


def test_the_commands_say_what_the_interval_is_for(release: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke
    made = run(app, ["replicates", str(release / "out.weft"), "-n", "8", "-o", str(release / "reps"), "--json"])
    assert made.exit_code == 0 and json.loads(made.stdout)["made"] == 0
    command = ["analyse", str(release / "out.csv"), "mean(age)", "place ~ age", "--replicates", str(release / "reps")]
    done = run(app, command)
    assert done.exit_code == 0 and "private table" in done.output and "Never measured together" in done.output
    assert "population" in run(app, [*command, "--target", "population"]).output
    (first, second) = json.loads(run(app, [*command, "--json"]).stdout)["analyses"]
    assert first["replicates"] == 8 and first["estimates"][0]["low"] < first["estimates"][0]["high"]
    assert len(second["warnings"]) > len(first["warnings"])
    assert (
        run(app, ["analyse", str(release / "out.csv"), "mean(x)", "--replicates", str(release / "reps")]).exit_code != 0
    )
