"""Private choices: their exact distributions, and the divergence that is claimed for them."""

import decimal
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from weft.errors import BudgetError
from weft.privacy import Charge, Noise, exponential_mechanism, floor_to_grid
from weft.privacy import noise_tails as exact
from weft.privacy.mechanisms.exponential import Exponential
from weft.privacy.selection import _compute_weights, exponential_draws

CASES = [([0, 1], 1, 1.0), ([3, 0, 2], 1, 0.7), ([10, 13, 13, 4], 5, 2.0), ([7], 1, 1.0)]


def softmax(scores, sensitivity, epsilon):
    weights = np.exp(epsilon * (np.array(scores) - max(scores)) / (2 * sensitivity))
    return weights / weights.sum()


@pytest.mark.parametrize("case", CASES)
def test_choices_follow_the_closed_form(case):
    """F12: chi-square of 3,000 choices against the exact law."""
    scores, sensitivity, epsilon = case
    noise, n = Noise.seeded(21), 3_000
    expected = softmax(*case)
    assert expected.sum() == pytest.approx(1, abs=1e-9)
    seen = np.bincount(
        [exponential_mechanism(np.array(scores), sensitivity, epsilon, noise) for _ in range(n)], minlength=len(scores)
    )
    if len(scores) > 1:
        assert stats.chisquare(seen, n * expected).pvalue > 1e-3


def test_divergence_between_neighbours_is_at_most_what_is_claimed():
    """F12: all moves of up to the sensitivity, on up to 4 candidates, in closed form."""
    epsilon, sensitivity = 1.3, 2
    worst = bounded_range = 0.0
    for scores in ([0, 0], [5, 0, 1], [2, 2, 2, 2], [0, 9, 3, 4]):
        before = softmax(scores, sensitivity, epsilon)
        for moves in itertools.product((-2, 0, 2), repeat=len(scores)):
            after = softmax([s + m for s, m in zip(scores, moves, strict=True)], sensitivity, epsilon)
            loss = np.log(before / after)
            worst = max(worst, np.abs(loss).max())
            bounded_range = max(bounded_range, loss.max() - loss.min())
    assert 0.6 * epsilon < worst <= epsilon + 1e-9
    paid = Charge.exponential("choice", sensitivity=sensitivity, epsilon=epsilon)
    assert paid.epsilon == pytest.approx(epsilon)
    assert bounded_range <= epsilon + 1e-9  # what the price epsilon^2/8 rests on
    assert paid.rho == pytest.approx(epsilon**2 / 8)


def test_only_score_differences_matter_and_far_candidates_never_win():
    far = np.array([-(10**15), 10**15, 10**15 - 10**9])
    ends = np.array([-(2**63), 2**63 - 1])
    assert {exponential_mechanism(ends, 1, 1e-6, Noise()) for _ in range(20)} == {1}
    assert {exponential_mechanism(far, 1, 1.0, Noise()) for _ in range(20)} == {1}
    shifted = [exponential_mechanism(np.array([2, 3]) + s, 1, 1.0, Noise.seeded(3)) for s in (0, -(10**12))]
    assert shifted[0] == shifted[1]


@given(st.floats(-1e6, 1e6), st.floats(0, 1), st.sampled_from([0.1, 1.0, 3.7, 1e-3]), st.integers(1, 5000))
def test_a_grid_keeps_the_sensitivity(base, share, sensitivity, steps):
    other = base + share * sensitivity
    if abs(Fraction(other) - Fraction(base)) <= Fraction(sensitivity):  # as floats, not as we meant them
        a, b = floor_to_grid([base, other], sensitivity, steps)
        assert 0 <= b - a <= steps


def test_what_is_not_a_choice_is_refused():
    noise = Noise.seeded(0)
    for scores, sensitivity, epsilon in (
        (np.array([0.5, 1.0]), 1, 1.0),
        (np.array([], np.int64), 1, 1.0),
        (np.array([1, 2]), 0, 1.0),
        (np.array([1, 2]), 1, 0.0),
        (np.array([1, 2]), 1, math.inf),
    ):
        with pytest.raises(BudgetError):
            exponential_mechanism(scores, sensitivity, epsilon, noise)
    for bad in (0.0, math.inf, math.nan):
        with pytest.raises(BudgetError):
            floor_to_grid([1.0], bad, 10)


@pytest.mark.parametrize("case", [*CASES, ([4, 0, 4, 2, 4, 0], 1, 0.9)])
def test_many_draws_follow_the_same_closed_form(case):
    scores, sensitivity, epsilon = case
    drawn = exponential_draws(np.array(scores), sensitivity, epsilon, 20_000, Noise.seeded(3))
    seen = np.bincount(drawn, minlength=len(scores))
    assert len(seen) == len(scores)
    if len(scores) > 1:
        assert stats.chisquare(seen, 20_000 * softmax(*case)).pvalue > 1e-3


def test_draws_of_far_candidates_and_the_price_of_many():
    ends = np.array([-(2**63) + 1, 2**63 - 1, 2**63 - 1])
    assert set(exponential_draws(ends, 1, 1e-6, 50, Noise()).tolist()) == {1, 2}
    paid = Charge.exponential("draws", sensitivity=2, epsilon=0.25, draws=8)
    assert (paid.epsilon, paid.rho) == (pytest.approx(2.0), pytest.approx(8 * 0.25**2 / 8))
    assert Charge.from_dict(paid.to_dict()) == paid


def test_weights_are_exponentials_to_the_last_bit_but_one():
    behind = [0, 1, 2, 3, 1000, 12345, 10**6]
    for scale in (0.75, 3.0, 1e4):
        with decimal.localcontext(exact.CONTEXT):
            plain = [exact.as_bits((-k / decimal.Decimal(scale)).exp()) for k in behind]
        assert all(abs(a - b) <= 1 for a, b in zip(_compute_weights(behind, scale), plain, strict=True))


@pytest.mark.parametrize("candidates", [3, 20_000])
def test_one_draw_is_one_position_however_many_candidates_there_are(candidates):
    charge = Charge.exponential("which", sensitivity=1, epsilon=5.0)
    scores = np.zeros(candidates, np.int64)
    scores[1] = 1000
    (chosen,) = Exponential().release(charge, [scores], Noise.seeded(4))
    assert int(chosen) == 1
