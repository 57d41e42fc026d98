"""The coverage experiment counts what it says, on errors whose coverage is known."""

import numpy as np
import pytest
from weft_lab.coverage import POPULATION, Outcome, Size, coverage_sheet, draw_population, summarise


def outcomes(bias, runs=60, statistics=20, replicates=20):
    rng = np.random.default_rng(0)
    made = []
    for _ in range(runs):
        private = rng.normal(size=statistics)
        parents = rng.normal(size=(statistics, replicates))
        made.append(
            Outcome(
                tuple("ab"[i % 2] for i in range(statistics)),
                ("share",) * statistics,
                private,
                private + rng.normal(bias, 1, statistics),
                parents,
                parents + rng.normal(bias, 1, parents.shape),
                np.full(statistics, 0.3),
            )
        )
    return made


def test_errors_of_one_distribution_are_covered_and_naive_intervals_are_not():
    found = summarise(outcomes(0.0))["share"]
    assert found["intervals"] == 1200 and 0.93 < found["coverage"] < 0.99 and 1 < found["width"] < 1.4
    assert found["naive coverage"] < 0.5 and found["naive width"] == pytest.approx(0.3, rel=0.1)
    assert summarise(outcomes(2.0))["share"]["coverage"] > 0.95


def test_intervals_for_a_wrong_value_do_not_cover():
    shifted = [
        Outcome(o.names, o.kinds, o.private + 6, o.released, o.parents, o.replicates, o.naive) for o in outcomes(0.0, 5)
    ]
    assert summarise(shifted)["share"]["coverage"] < 0.1


def test_the_generated_population_is_the_same_for_a_seed():
    assert draw_population(50, 1).equals(draw_population(50, 1))
    assert not draw_population(50, 1).equals(draw_population(50, 2))


@pytest.mark.slow
def test_the_sheet_of_a_small_study():
    sheet = coverage_sheet([POPULATION], [4.0], Size(1000, 2, 5), processes=1)
    assert {row[1] for row in sheet.rows} >= {"share", "mean", "coefficient"}
    assert any("for the population" in row[0] for row in sheet.rows)
