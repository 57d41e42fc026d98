from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner
from weft_lab.catalogue import EXPERIMENTS

from weft.cli import app
from weft.methods import METHODS


def weft(*words: object, code: int = 0) -> Any:
    result = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, ["bench", *map(str, words)])
    assert result.exit_code == code, (result.exit_code, result.stdout, result.stderr, result.exception)
    return result


def test_the_list_names_every_experiment() -> None:
    shown = weft("--list").stdout
    assert all(name in shown for name in EXPERIMENTS)
    listed = json.loads(weft("--list", "--json").stdout)
    own = {"weave", "accuracy", "ablations", "orderings", "plan", "priview", "structure", "raw", "bsg-paper"}
    own |= {
        "related",
        "histories",
        "coverage",
        "timings",
        "data",
        "fire",
        "mechanisms",
        "itemsets",
        "weave-suite",
        "learning",
        "parities",
        "all",
    }
    assert set(listed) == set(EXPERIMENTS) | own
    assert all(name in shown and listed[name]["about"] for name in own)
    assert "not there yet" not in shown
    assert listed["privsyn-figure4"]["lines"] == ["PrivSyn", "PGM", "PrivBayes(InDif)", "DualQuery"]


def test_help_shows_examples() -> None:
    assert "weft bench privsyn-figure6" in weft("--help").stdout


def test_an_experiment_prints_tables_and_writes_files(folder: Path) -> None:
    words = ("privsyn-figure6", "--data", "small", "--epsilons", "1,4", "--seeds", 2, "--tasks", "pair_l1,range")
    shown = weft(*words).stdout
    for text in ("PRIVATE", "Weighted Gaussian", "Equal Laplace", "L1 distance of pairs", "range query error", "±"):
        assert text in shown
    out = folder / "bench"
    assert {p.name for p in out.iterdir()} == {
        "privsyn-figure6.jsonl",
        "privsyn-figure6.parquet",
        "privsyn-figure6-small.svg",
    }
    rows = pq.read_table(out / "privsyn-figure6.parquet")
    assert rows.num_rows == 3 * 2 * 2 * 3 == len((out / "privsyn-figure6.jsonl").read_text().splitlines())
    before = (out / "privsyn-figure6.jsonl").read_bytes()
    weft(*words)
    assert (out / "privsyn-figure6.jsonl").read_bytes() == before


def test_an_answer_for_machines(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(METHODS, "dp-wgan")  # as if nobody had built it yet
    result = weft(
        *("privmrf-figure4", "--data", "small.parquet", "--methods", "independent,DP-WGAN", "--epsilons", "1"),
        *("--seeds", 1, "--tasks", "tvd_3", "--json", "-o", "here"),
    )
    answer = json.loads(result.stdout)
    assert {row["line"] for row in answer["results"]} == {"independent"}
    assert answer["missing"] == ["DP-WGAN"]
    assert "DP-WGAN" in result.stderr
    assert all(Path(file).exists() for file in answer["files"])


def test_an_experiment_of_methods_to_come_ends_cleanly(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(METHODS, "dp-wgan")
    result = weft("privmrf-figure4", "--data", "small", "--methods", "dp-wgan", "--seeds", 1)
    assert "not there yet: DP-WGAN" in result.stderr
    assert not list((folder / "bench").iterdir())


@pytest.mark.parametrize(
    ("words", "told", "code"),
    [
        ((), "--list", 2),
        (("privsyn-figure6",), "--data", 2),
        (("privsyn-figure9", "--data", "small"), "Did you mean", 2),
        (("privsyn-figure6", "--data", "small", "--epsilons", "a"), "--epsilons a", 2),
        (("privsyn-figure6", "--data", "small", "--tasks", "tvd_3"), "--tasks tvd_3", 2),
        (("privsyn-figure6", "--data", "small,small", "-s", "small.domain.json"), "one table", 2),
        (("privsyn-figure6", "--data", "nowhere"), "no such file", 4),
    ],
)
def test_mistakes_are_told(folder: Path, words: tuple[str, ...], told: str, code: int) -> None:
    assert told in weft(*words, code=code).stderr


def test_all_experiments_go_into_one_page_and_go_on_where_they_stopped(folder: Path) -> None:
    words = ("all", "--quick", "--data", "small", "--only", "bsg-figure6", "--rows", 200, "--seeds", 2, "-o", "out")
    shown = weft(*words).stdout
    assert "PRIVATE" in shown and "1 experiment" in shown
    page = (folder / "out" / "all.md").read_text()
    assert "## bsg-figure6" in page and "| BSG | " in page and "| epsilon | 1 |" in page
    assert "![bsg-figure6](bsg-figure6-small-200-rows.svg)" in page
    assert (folder / "out" / "bsg-figure6-small-200-rows.svg").exists()
    runs = folder / "out" / "bsg-figure6.jsonl"
    kept = runs.read_text().splitlines(keepends=True)
    half = "".join(line for line in kept if '"seed": 0' in line)
    runs.write_text(half)  # as if it had been stopped
    answer = json.loads(weft(*words, "--json").stdout)
    assert answer["experiments"] == ["bsg-figure6"]
    assert runs.read_text().startswith(half) and len(runs.read_text().splitlines()) == len(kept)
    before = runs.read_bytes()
    weft(*words)
    assert runs.read_bytes() == before


def test_all_experiments_need_a_table(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft_lab.every.locate", lambda name, folder: None)
    assert "--data" in weft("all", "--quick", code=4).stderr
    assert "Did you mean" in weft("all", "--data", "small", "--only", "privsyn-figure9", code=2).stderr
