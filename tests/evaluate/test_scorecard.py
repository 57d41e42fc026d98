"""The figures must be those of the shared scoring script, and right where that script is absent."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from weft_lab.nist_scores import nist_range
from weft_lab.scorecard import scorecard

from weft.evaluation.metrics import k_way, range_queries
from weft.marginals.records import Records

SCRIPT = Path(__file__).parents[2] / "../shared/bench/score.py"
DATA = Path(__file__).parents[2] / "../shared/data"

PAIRS = {
    "small": ((3, 4, 2, 5, 6, 2), 500, 900, 1.5),
    "odd sizes": ((256, 257, 1, 2, 255, 65_537, 65_536), 700, 300, 1.2),
    "two columns": ((7, 9), 400, 400, 2.0),
    "many columns": ((2, 3) * 35, 300, 350, 1.3),
    "large domains": ((3_000, 5_000, 900, 4, 2_500, 700), 2_000, 1_500, 1.1),
}


@pytest.fixture(scope="module")
def score():
    if not SCRIPT.exists():
        pytest.skip("the shared scoring script is not beside this repository")
    spec = importlib.util.spec_from_file_location("shared_score", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def plain(records: Records) -> np.ndarray:
    return np.column_stack([column.astype(np.int64) for column in records.columns])


def agree(ours: dict[str, float], theirs: dict[str, float]) -> None:
    assert theirs.keys() == ours.keys()
    for key, value in theirs.items():
        assert abs(ours[key] - value) <= 1e-12, key


@pytest.mark.parametrize("name", PAIRS)
def test_agrees_with_the_shared_script(score, random_table, name):
    sizes, n, m, tilt = PAIRS[name]
    real, synth = random_table(sizes, n, seed=1), random_table(sizes, m, seed=2, tilt=tilt)
    for seed in (0, 11):
        theirs = score.score(plain(real), plain(synth), list(sizes), seed=seed)
        agree(scorecard(real, synth, seed), theirs)
    assert theirs["tvd_1"] > 0.01


def test_svm_agrees_with_the_shared_script(score, random_table):
    pytest.importorskip("sklearn")
    sizes = (3, 4, 2, 5)
    real, synth = random_table(sizes, 5_000, seed=1), random_table(sizes, 4_500, seed=2, tilt=1.5)
    test = random_table(sizes, 800, seed=3)
    for held in (None, test):
        theirs = score.score(
            plain(real), plain(synth), list(sizes), seed=4, ways=(1,), svm=True, test=held and plain(held)
        )
        ours = scorecard(real, synth, 4, ways=(1,), svm=True, test=held)
        agree(ours, theirs)
        assert ours["svm_misclass_real"] < ours["svm_misclass"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nltcs", "acs", "adult", "br2000", "adult_aim"])
def test_agrees_with_the_shared_script_on_public_tables(score, name):
    path = DATA / f"{name}.parquet"
    if not path.exists():
        pytest.skip("the shared tables are not beside this repository")
    from weft.marginals.domain import Domain

    domain = Domain.of(score.load_domain(DATA / f"{name}.domain.json"))
    rows = score.load_table(path, domain.names, domain.shape)
    rng = np.random.default_rng(0)
    fake = np.column_stack([rng.permutation(column) for column in rows.T])[: len(rows) * 2 // 3]
    ours = scorecard(Records.of(domain, rows.T), Records.of(domain, fake.T), 3)
    agree(ours, score.score(rows, fake, list(domain.shape), seed=3))


def test_is_made_of_the_measures(random_table):
    real, synth = random_table((3, 4, 2, 5), 300, seed=1), random_table((3, 4, 2, 5), 200, seed=2, tilt=2)
    card = scorecard(real, synth, 7)
    assert (card["n_real"], card["n_synth"], card["n_attrs"]) == (300, 200, 4)
    assert "tvd_5" not in card and card["tvd_4"] == k_way(real, synth, 4, seed=7).tvd
    assert card["l1_2"] == 2 * card["tvd_2"] and card["nist_density"] == 1 - card["tvd_3"]
    assert card["range_err"] == range_queries(real, synth, seed=7).error
    assert card["nist_range"] == nist_range(real, synth, seed=7)
    assert scorecard(real, synth, 7, threads=1) == card


def test_pairs_are_sampled_later_than_triples(random_table):
    real, synth = random_table((2,) * 26, 100, seed=1), random_table((2,) * 26, 100, seed=2)
    card = scorecard(real, synth, 7, ways=(2, 3))
    assert card["tvd_2"] == k_way(real, synth, 2, limit=None).tvd
    assert card["tvd_3"] == k_way(real, synth, 3, limit=300, seed=7).tvd
    assert scorecard(real, synth, 7, ways=(2,), max_pairs=20)["tvd_2"] == k_way(real, synth, 2, limit=20, seed=7).tvd


def test_a_perfect_copy(random_table):
    real = random_table((3, 4, 2, 5, 2), 300, seed=1)
    card = scorecard(real, real)
    assert all(card[f"tvd_{k}"] == 0 for k in range(1, 6)) and card["range_err"] == 0
    assert card["nist_density"] == card["nist_range"] == 1
