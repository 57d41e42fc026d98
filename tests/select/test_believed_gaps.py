"""What is believed of many noisy distances: closer to the truth than the answers, however the truth is spread."""

import numpy as np
import pytest

from weft.methods.weave.batch_selection import MIN_CLEAR_DEVIATIONS, shrink_distances


def seen(truth, sigma, seed=0):
    return truth + np.random.default_rng(seed).normal(0, sigma, len(truth))


@pytest.mark.parametrize(
    "truth",
    [
        np.zeros(200),
        np.full(200, 3.0),
        np.r_[np.zeros(180), np.full(20, 40.0)],
        np.random.default_rng(1).exponential(8.0, 200),
    ],
    ids=["none", "all alike", "a few", "all sizes"],
)
def test_beliefs_are_closer_to_the_truth_than_answers_less_one_deviation(truth):
    """The mean over ten draws; before, what was left after one deviation was believed."""
    sigma, found = 8.0, []
    for seed in range(10):
        answers = seen(truth, sigma, seed)
        plain = np.maximum(answers - sigma, 0)
        found.append([np.square(each - truth).mean() for each in (shrink_distances(answers, sigma, 0.5), plain)])
    ours, before = np.mean(found, axis=0)
    assert ours < before


def test_what_stands_far_above_the_noise_is_believed_but_for_a_part_of_it():
    answers = np.array([0.0, 1.0, MIN_CLEAR_DEVIATIONS, 100.0, 1e9])
    assert shrink_distances(answers, 1.0, caution=0.5)[2:] == pytest.approx(answers[2:] - 0.5)


def test_caution_believes_less_of_what_is_unclear_and_hardly_less_of_what_is_not():
    answers = np.r_[seen(np.zeros(100), 1.0), seen(np.full(10, 9.0), 1.0)]
    plain, careful = shrink_distances(answers, 1.0), shrink_distances(answers, 1.0, caution=1.0)
    assert (careful <= plain).all() and careful[:100].sum() < 0.5 * plain[:100].sum()
    assert careful[100:] == pytest.approx(plain[100:], rel=0.2)


@pytest.mark.parametrize("number", [3, 300])
def test_larger_answers_are_never_believed_less_by_their_mean(number):
    answers = np.sort(seen(np.random.default_rng(2).exponential(5.0, number), 4.0))
    assert (np.diff(shrink_distances(answers, 4.0)) > -1e-9).all()


def test_where_answers_begin_to_speak_for_themselves_nothing_jumps_down():
    below, above = (
        shrink_distances(np.array([each]), 1.0, caution=0.5)[0]
        for each in (MIN_CLEAR_DEVIATIONS - 0.01, MIN_CLEAR_DEVIATIONS + 0.01)
    )
    assert below <= above


def test_the_unit_of_a_distance_does_not_matter():
    answers = seen(np.random.default_rng(3).exponential(5.0, 50), 4.0)
    assert shrink_distances(1000 * answers, 4000.0) == pytest.approx(1000 * shrink_distances(answers, 4.0))


@pytest.mark.parametrize("answers", [np.zeros(0), np.array([-5.0]), np.array([-1e12, -3e9])])
def test_odd_answers_are_taken(answers):
    found = shrink_distances(answers, 1.0)
    assert found.shape == answers.shape and (found >= 0).all() and np.isfinite(found).all()


def test_without_noise_answers_are_believed_as_they_are():
    assert shrink_distances(np.array([0.0, 3.0]), 0.0).tolist() == [0.0, 3.0]
