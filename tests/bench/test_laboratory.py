from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pyarrow as pa
import pytest
from weft_lab import ablations, accuracy, bsg_paper, orderings, runner, settings, structure, weave, weave_parts
from weft_lab.ablations import COMPARISONS
from weft_lab.catalogue import EXPERIMENTS
from weft_lab.experiment import Experiment, Variant
from weft_lab.generated import GENERATED, acs_like
from weft_lab.tables import BenchTable
from weft_lab.timings import TIMINGS, timings

from weft.errors import MethodError, WeftError
from weft.marginals.records import Records
from weft.methods import make_method

from .test_command import weft


def recipes(experiment: Experiment, records: Records) -> dict[str, tuple[object, bool, float]]:
    return {
        label: (make_method(variant.method, **variant.settings(records)), variant.exact_scores, variant.made)
        for label, variant in experiment.ready().variants.items()
    }


@pytest.mark.parametrize("experiment", [e for e in EXPERIMENTS.values() if e.reckoned is None], ids=lambda e: e.name)
def test_every_experiment_builds_and_no_two_lines_are_equal(experiment: Experiment, small: BenchTable) -> None:
    made = recipes(experiment, small.records)
    assert made
    for one, other in combinations(made, 2):
        assert made[one] != made[other], (one, other)


def test_no_two_settings_of_weave_are_equal() -> None:
    lines = {label: make_method("weave", **options) for label, options in settings.WEAVE_PARTS.items()}
    lines |= {f"{sweeps} sweeps": make_method("weave", **options) for sweeps, options in settings.WEAVE_SWEEPS.items()}
    shared = {"1 sweeps": "1 sweep to a record, chains", "12 sweeps": "12 sweeps to a record, chains"}
    for one, other in combinations(lines, 2):
        assert lines[one] != lines[other] or shared.get(other) == one, (one, other)


def test_lines_that_keep_attributes_make_other_records_than_the_line_that_keeps_none(small: BenchTable) -> None:
    lines = [line for line in EXPERIMENTS["bsg-table3"].variants if line.startswith("BSG")]
    made = []
    for line in lines:
        model = runner.fit(small, EXPERIMENTS["bsg-table3"].variants[line], 1.0, 1e-9, 0).model_
        made.append(np.stack(model.sample(200, np.random.default_rng(0)).columns))
    assert len(made) == 5
    assert all((one != other).any() for one, other in combinations(made, 2))


def test_accuracy_stands_beside_rivals(small: BenchTable) -> None:
    known = BenchTable("adult", small.rows, small.schema, small.records)
    (sheet,) = accuracy.accuracy([known], ["independent"], [0.8], 2)
    assert sheet.rows[0][0] == "independent" and "±" in sheet.rows[0][3]
    assert "rival dpsynth SWIFT" in {row[0] for row in sheet.rows}
    assert {len(row) for row in sheet.rows} == {len(sheet.columns)}


def test_weave_is_judged_and_drawn(small: BenchTable) -> None:
    known = BenchTable("adult", small.rows, small.schema, small.records)
    compared = weave.Comparison([known], [0.8, 3.2], 1, "independent")
    (sheet,) = compared.sheets()
    assert [row[1] for row in sheet.rows] == ["independent", "best rival"] * 2
    assert {len(row) for row in sheet.rows} == {len(sheet.columns)}
    assert "met" in sheet.rows[0][-1]
    drawn = compared.figure()
    assert "AIM" in drawn and "independent" in drawn


def test_a_target_is_met_or_not() -> None:
    from weft_lab.charts import Spread
    from weft_lab.trial import Repeated

    result = Repeated({3: Spread(0.1, 0.0, 1), 5: Spread(0.2, 0.0, 1)}, 1.0)
    assert weave.Target(0.1, 0.2, 1.0).met(result)
    assert not any(weave.Target(*most).met(result) for most in ((0.09, 0.2, 1), (0.1, 0.19, 1), (0.1, 0.2, 0.9)))


def test_parts_of_weave_run_on_a_small_table(small: BenchTable) -> None:
    sheets = list(weave_parts.stress(lambda _: small))
    assert [row[1] for row in sheets[0].rows] == ["weave", "mst", "independent"]
    assert set(weave_parts.PARTS) == {"large", "wide", "floor", "stress", "monotone", "equal-rho", "public"}


def test_models_of_the_same_tables_are_compared(small: BenchTable) -> None:
    sheet = COMPARISONS["models"](small, 1, lambda _: None)
    assert len(sheet.rows) == 7 and {len(row) for row in sheet.rows} == {len(sheet.columns)}


def test_parts_that_would_change_nothing_are_left_out(small: BenchTable, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = {label: settings.WEAVE_PARTS[label] for label in ("as it is", settings.WEAVE_CHAINS)}
    monkeypatch.setattr(ablations, "WEAVE_PARTS", tried)
    for idle in ([], [settings.WEAVE_CHAINS]):
        monkeypatch.setattr(ablations, "without_effect", lambda table, idle=idle: idle)
        sheet = ablations.parts(small, 1)
        assert [row[0] for row in sheet.rows] == [label for label in tried if label not in idle]
        assert bool(sheet.notes) == bool(idle)
    monkeypatch.undo()
    assert set(ablations.without_effect(small)) <= {settings.WEAVE_CHAINS, *settings.WEAVE_BATCHES}
    assert set(settings.WEAVE_BATCHES) | {settings.WEAVE_CHAINS} <= set(settings.WEAVE_PARTS)


def test_orderings_are_judged(small: BenchTable, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = {name: replace(EXPERIMENTS[name], variants=_fast(name)) for name in orderings_of}
    monkeypatch.setattr(orderings, "EXPERIMENTS", quick)
    sheets = list(orderings.orderings([small], 3))
    noise, said, selection, *_ = sheets
    assert [row[0] for row in noise.rows] == quick[orderings.NOISE].lines
    assert "reconciled" in noise.notes[0] and "private and exact selection share" in selection.notes[0]
    assert said.title.startswith("What the paper says, on small") and "not counted" in said.notes[-1]
    assert len(sheets) == 6


orderings_of = (orderings.NOISE, orderings.SELECTION, orderings.SYNTHESIS)


def _fast(name: str) -> dict[str, Variant]:
    """The same lines with two passes of adjusting records in place of a hundred."""
    lines = EXPERIMENTS[name].variants
    return {
        label: replace(line, options={**line.options, "gum": {**line.options.get("gum", {}), "iterations": 2}})
        if line.method == "privsyn"
        else line
        for label, line in lines.items()
    }


def test_the_deniability_papers_figures_stand_beside_ours() -> None:
    rates = bsg_paper.pass_rates(acs_like(3_000), 8.0, {"age": 10, "hours": 15})
    assert set(rates) == {"omega 10", "omega 9", "omega 8", "omega 9-11", "omega 5-11"}
    for values in rates.values():
        assert values == sorted(values, reverse=True)
        assert all(0 <= value <= 100 for value in values)
    assert bsg_paper._beside([1.0], [2.0]) == ["1.0 (2.0)"]


def test_every_timing_is_known_and_an_unknown_one_is_refused() -> None:
    from importlib import import_module

    assert set(TIMINGS) == {
        "bsg",
        "counting",
        "databases",
        "evaluate",
        "fit",
        "gum",
        "mrf",
        "noise",
        "privsyn",
        "records",
        "scale",
        "startup",
        "stream",
    }
    assert all(callable(import_module(f"weft_lab.timings.{name}").figures) for name in TIMINGS)
    with pytest.raises(MethodError, match="Did you mean 'noise'"):
        next(timings(["noisy"]))


def test_a_timing_that_fails_is_named_after_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = {"noise": (1, ""), "gum": (0, 'words\n[["a", "1 s"]]\n')}

    def child(command: list[str], **_: object) -> CompletedProcess[str]:
        return CompletedProcess(command, *outcomes[command[3]])

    monkeypatch.setattr("weft_lab.timings.subprocess.run", child)
    made = timings(["noise", "gum"])
    assert next(made).rows == [("a", "1 s")]
    with pytest.raises(WeftError, match="failed: noise"):
        next(made)


def test_generated_tables_have_the_sizes_they_say() -> None:
    made = GENERATED["latent_small"].make()
    assert (len(made), len(made.domain)) == (2_000, 8)


def test_the_commands_print_sheets(folder: Path) -> None:
    words = ("--tables", "small", "--epsilons", "1", "--seeds", 1)
    shown = weft("accuracy", "--methods", "independent", *words).stdout
    assert "small, epsilon 1" in shown and "tvd_3" in shown and "PRIVATE" in shown
    answer = json.loads(weft("weave", "--method", "independent", "--all", "--figure", "f.svg", *words, "--json").stdout)
    assert answer["experiment"] == "weave"
    assert [row[1] for row in answer["sheets"][0]["rows"]] == ["independent", "best rival"]
    assert Path("f.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("words", "told", "code"),
    [
        (("accuracy", "--tables", "nowhere"), "no table of this name", 4),
        (("accuracy", "--tables", "small", "--epsilons", "x"), "write numbers with commas", 2),
        (
            ("weave", "--tables", "small", "--all", "--epsilons", "1", "--seeds", 1, "--figure", "no/f.svg"),
            "cannot write",
            7,
        ),
        (("timings", "xyz"), "There are: bsg", 2),
    ],
)
def test_mistakes_are_told(folder: Path, words: tuple[object, ...], told: str, code: int) -> None:
    assert told in weft(*words, code=code).stderr


@pytest.mark.parametrize("name", ["weave", "accuracy", "ablations", "orderings", "bsg-paper", "timings", "data"])
def test_each_command_has_help(name: str) -> None:
    valued = [line for line in weft(name, "--help").stdout.splitlines() if "<bool>" in line]
    assert all("--help" in line for line in valued)


@pytest.mark.usefixtures("folder")
def test_plans_are_compared_with_what_is_measured() -> None:
    words = ("--tables", "small", "--epsilons", "1", "--seeds", "1", "--method", "independent")
    shown = weft("plan", *words).stdout
    assert "foretold" in shown and "within 1.5" in shown and "small" in shown
    assert len(json.loads(weft("plan", *words, "--json").stdout)) >= 1


def test_weekdays_of_a_date_in_parts() -> None:
    parts = {"year": [2024, 2024, 2024], "month": ["January", "January", "June"], "day": [1, 8, 8]}
    shares = structure.weekdays(pa.table(parts), ("year", "month", "day"))  # two Mondays and a Saturday
    assert shares.tolist() == pytest.approx([2 / 3, 0, 0, 0, 0, 1 / 3, 0])


def test_a_fit_of_many_rows_is_measured_beside_its_targets() -> None:
    from weft_lab.timings.fit import measured

    told = dict(measured(3000, 500, "1GiB", 1e9, 1 << 20))
    assert "0.00 of the target" in told["  in all"] and "MiB (0.00 of" in told["  peak memory"]
