from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from weft_lab import runner
from weft_lab.catalogue import EXPERIMENTS, experiment
from weft_lab.experiment import Experiment, Variant
from weft_lab.methods.bayesnet import BayesNet, Family
from weft_lab.results import SECONDS, Store, summary, write_parquet
from weft_lab.runner import run
from weft_lab.tables import BenchTable
from weft_lab.tasks import TASKS, Made

from weft.errors import DataError, MethodError, WeftError
from weft.marginals.domain import Domain
from weft.marginals.records import Records
from weft.privacy import Noise
from weft.schema import Schema

TWO = Experiment(
    name="two",
    paper="none",
    about="two methods",
    variants={"Independent": Variant("independent"), "Trees": Variant("mst"), "Coming": Variant("not-there-yet")},
    tasks=("pair_l1", "range"),
    epsilons=(1.0, 5.0),
    delta=1e-6,
)


def counting(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note every fit."""
    fits: list[str] = []
    real = runner.fit

    def noted(table: BenchTable, variant: Variant, *rest: object) -> object:
        fits.append(variant.method)
        return real(table, variant, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(runner, "fit", noted)
    return fits


def test_every_cell_gives_one_row_a_measure(small: BenchTable) -> None:
    outcome = run(TWO, [small], seeds=2)
    cells = {(row.variant, row.epsilon, row.seed, row.measure) for row in outcome.rows}
    assert len(cells) == len(outcome.rows) == 2 * 2 * 2 * 3
    assert {row.measure for row in outcome.rows} == {"pair_l1", "range", SECONDS}
    assert outcome.missing == ["Coming"]
    assert not outcome.refused


def test_a_seed_repeats_its_run(small: BenchTable) -> None:
    first, again = (run(TWO, [small], seeds=1, epsilons=[1.0]) for _ in range(2))
    assert [r.value for r in first.rows if r.measure != SECONDS] == [
        r.value for r in again.rows if r.measure != SECONDS
    ]
    assert len({r.value for r in run(TWO, [small], seeds=3, epsilons=[1.0]).rows if r.measure == "range"}) > 3


def test_an_interrupted_run_goes_on(small: BenchTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "two.jsonl"
    whole = run(TWO, [small], store=Store(kept), seeds=2)
    lines = kept.read_text().splitlines(keepends=True)
    # Three cells of three rows are whole, the fourth lacks its last row, and a line is cut.
    kept.write_text("".join(lines[:11]) + lines[11][:20])
    fits = counting(monkeypatch)
    resumed = run(TWO, [small], store=Store(kept), seeds=2)
    assert len(fits) == 8 - 3
    assert [(r.cell, r.measure) for r in resumed.rows] == [(r.cell, r.measure) for r in whole.rows]
    assert all(a.value == b.value for a, b in zip(whole.rows, resumed.rows, strict=True) if a.measure != SECONDS)
    run(TWO, [small], store=Store(kept), seeds=2)
    assert len(fits) == 8 - 3


def test_what_decides_an_outcome_decides_what_is_skipped(
    small: BenchTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def again(experiment: Experiment = TWO, **changes: object) -> int:
        before = len(fits)
        run(experiment, [small], store=Store(tmp_path / "kept.jsonl"), seeds=1, **{"epsilons": [1.0], **changes})
        return len(fits) - before

    fits = counting(monkeypatch)
    assert again() == 2
    assert again() == 0
    assert again(delta=1e-7) == 2
    assert again(target="a") == 2
    assert again(replace(TWO, tasks=("range",))) == 0
    assert again(replace(TWO, tasks=("pair_l1", "range", "tvd_3"))) == 2
    assert again(replace(TWO, variants={"Trees": Variant("mst", {"share_columns": 0.5})})) == 1


def test_a_file_of_something_else_is_not_taken_for_results(tmp_path: Path) -> None:
    other = tmp_path / "two.jsonl"
    other.write_text('{"hello": 1}\n')
    with pytest.raises(DataError, match="line 1"):
        Store(other)


def test_a_variant_that_cannot_run_is_listed_and_the_others_run(small: BenchTable) -> None:
    broken = replace(TWO, variants={"Broken": Variant("mst", {"no_such": 1}), **TWO.variants})
    outcome = run(broken, [small], seeds=1, epsilons=[1.0])
    assert len(outcome.refused) == 1
    assert "no_such" in outcome.refused[0]
    assert {row.variant for row in outcome.rows} == {"Independent", "Trees"}


def test_an_unknown_target_is_refused_before_anything_runs(small: BenchTable) -> None:
    with pytest.raises(WeftError, match="'z'"):
        run(TWO, [small], target="z")


def test_held_out_rows_are_not_seen(small: BenchTable, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Made] = []
    monkeypatch.setitem(TASKS, "look", lambda one: made.append(one) or {"look": 0.0})  # type: ignore[misc]
    run(replace(TWO, tasks=("look",), held_out=True), [small], seeds=2, epsilons=[1.0])
    for one in made:
        assert one.test is not None
        assert len(one.real) + len(one.test) == 600
        rows = np.concatenate([np.stack(part.columns, 1) for part in (one.real, one.test)])
        whole = np.stack(small.records.columns, 1)
        assert sorted(map(tuple, rows.tolist())) == sorted(map(tuple, whole.tolist()))


def test_exact_scores_are_exact_and_everything_else_is_noisy(small: BenchTable) -> None:
    fitted = runner.fit(small, Variant("privsyn", exact_scores=True), 1.0, 1e-6, 0).fitted_
    assert any("NOT PRIVATE" in stamp for stamp in fitted.ledger.stamps)
    spent = {entry.purpose: entry.cost / fitted.ledger.capacity for entry in fitted.ledger.entries}
    assert spent["dependence"] < 1e-5
    release = runner.ExactScores(Noise.seeded(0))
    asked = {entry.purpose: entry for entry in fitted.ledger.entries}
    exact = np.arange(10)
    assert (release(asked["dependence"], [exact])[0] == exact).all()
    first = next(entry for entry in fitted.ledger.entries if entry.purpose == "marginals")
    answers = [exact for _ in first.scales]
    assert any((noisy != exact).any() for noisy in release(first, answers))


def test_every_task_gives_figures_between_0_and_2(small: BenchTable) -> None:
    seen, test = small.split(0)
    model = runner.fit(seen, Variant("bsg"), 5.0, 1e-6, 0).model_
    made = Made(seen.records, model.sample(300, np.random.default_rng(0)), test, model, "d", 0)
    for name, task in TASKS.items():
        figures = task(made)
        assert figures or name == "gini", name  # for which a table needs areas, genders and wages
        assert all(0 <= value <= 2 for value in figures.values()), (name, figures)


def test_tasks_that_need_more_columns_are_left_out() -> None:
    domain = Domain(("x", "y"), (2, 2))
    records = Records.of(domain, [[0, 1], [1, 0]])
    model = runner.fit(BenchTable.of("two", _two(), Schema.from_domain({"x": 2, "y": 2})), Variant("bsg"), 1, 1e-6, 0)
    made = Made(records, records, None, model.model_, "y", 0)
    assert [TASKS[name](made) for name in ("tvd_3", "tvd_5", "nist_density", "pass_rate")] == [{}] * 4
    assert TASKS["pair_l1"](made) == {"pair_l1": 0.0}


def _two() -> pa.Table:
    return pa.table({"x": [0, 1] * 50, "y": [0, 1, 1, 0] * 25})


def test_pass_rate_by_hand() -> None:
    domain = Domain(("x", "y", "z"), (2, 2, 2))
    half = np.full((1, 2), 0.5)
    model = BayesNet(domain, 200.0, tuple(Family(name, (), half) for name in domain.names), {})
    # 190 rows share (0, 0) on the first two attributes, 10 rows share (1, 1).
    ones = np.repeat([0, 1], [190, 10])
    records = Records.of(domain, [ones, ones, np.zeros(200, int)])
    rates = TASKS["pass_rate"](Made(records, records, None, model, "z", 0))
    assert rates["pass_kept_2_k_100"] == pytest.approx(0.95)
    assert rates["pass_kept_2_k_10"] == pytest.approx(0.95 + 0.05 * 0.5, abs=1e-6)


def test_a_summary_has_mean_and_spread(small: BenchTable, tmp_path: Path) -> None:
    rows = run(TWO, [small], seeds=3, epsilons=[1.0]).rows
    values = [row.value for row in rows if row.measure == "range" and row.variant == "Trees"]
    spread = summary(rows)["small", "range", 1.0, "Trees"]
    assert spread.runs == 3
    assert spread.mean == pytest.approx(np.mean(values))
    assert spread.sd == pytest.approx(np.std(values, ddof=1))
    write_parquet(rows, tmp_path / "rows.parquet")
    import pyarrow.parquet as pq

    assert pq.read_table(tmp_path / "rows.parquet").num_rows == len(rows)


def test_the_catalogue_is_sound(small: BenchTable) -> None:
    for name, known in EXPERIMENTS.items():
        assert known.name == name
        assert set(known.tasks) <= set(TASKS)
        assert bool(known.ready().variants) != (known.reckoned is not None)
        for label, variant in known.ready().variants.items():
            json.dumps(variant.settings(small.records))
            from weft.methods import make_method

            make_method(variant.method, **variant.settings(small.records)).check(small.records.domain)
            assert known.with_methods([label.lower().replace(" ", "-")]).variants == {label: variant}


def test_methods_join_an_experiment_by_name() -> None:
    chosen = experiment("privsyn-figure6").with_methods(["equal-laplace", "mst"])
    assert list(chosen.variants) == ["Equal Laplace", "mst"]
    with pytest.raises(MethodError, match="no line 'nothing'"):
        experiment("privsyn-figure6").with_methods(["nothing"])
    with pytest.raises(MethodError, match="Did you mean 'privsyn-figure6'"):
        experiment("privsyn-figur6")
