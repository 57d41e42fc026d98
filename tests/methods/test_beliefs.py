"""Of a measured pair weave believes what stands above its noise."""

import numpy as np
import pytest

from weft.marginals.marginal import NoisyMarginal, compute_interaction
from weft.marginals.noise_error import group_cells_by_size
from weft.methods.weave import pair_shrinkage as shrinking
from weft.methods.weave.pair_shrinkage import PairShrinkage, compute_shrinkage_error, shrink_difference

PAIR = ("a", "b")


def tables(kind, rng, rows=20_000, size=12):
    """A true pair, and what independent columns make of it."""
    a = rng.integers(0, size, rows)
    if kind == "copies":
        b = np.where(rng.random(rows) < 0.97, a, rng.integers(0, size, rows))
    elif kind == "weak":
        b = np.where(rng.random(rows) < 0.05, a, rng.integers(0, size, rows))
    else:
        b = (a // 3 + rng.geometric(0.3, rows)) % size
    true = np.zeros((size, size))
    np.add.at(true, (a, b), 1)
    return true, np.outer(true.sum(1), true.sum(0)) / rows


@pytest.mark.parametrize("kind", ["copies", "weak", "bent"])
@pytest.mark.parametrize("noise", [20.0, 80.0])
def test_what_is_believed_is_nearer_than_the_answer_and_than_what_was_expected(kind, noise):
    rng = np.random.default_rng(3)
    true, expected = tables(kind, rng)
    runs = [
        np.abs(
            expected + shrink_difference(true + rng.normal(0, noise, true.shape) - expected, expected, noise) - true
        ).sum()
        for _ in range(20)
    ]
    answered = true.size * noise * np.sqrt(2 / np.pi)
    assert np.mean(runs) < answered
    assert np.mean(runs) < 1.05 * np.abs(expected - true).sum()


def twin(difference, expected, noise):
    """What is believed, written with whole arrays of cells and sizes."""
    relative = (expected / expected.mean()).reshape(-1, 1)
    squared = np.square(difference.reshape(-1, 1) / noise)

    def log(sizes):
        return -0.5 * (np.log(1 + sizes * relative) + squared / (1 + sizes * relative))

    one = log(shrinking._ONE).sum(axis=0)
    several, weight = log(shrinking._SIZES), np.full(shrinking._SIZES.size, 1 / shrinking._SIZES.size)
    likely = np.exp(several - several.max(axis=1, keepdims=True))
    for _ in range(shrinking._ROUNDS):
        weight = weight * (likely / (likely @ weight)[:, None]).sum(axis=0)
        weight[0] += shrinking._AS_EXPECTED
        weight = np.maximum(weight / weight.sum(), 1e-12)
    gained = (np.log(likely @ weight) + several.max(axis=1)).sum() - one.max()
    part = (likely * weight * (1 - 1 / (1 + shrinking._SIZES * relative))).sum(axis=1) / (likely @ weight)
    if gained < 0.5 * np.log(difference.size):
        part = 1 - 1 / (1 + shrinking._ONE[one.argmax()] * relative[:, 0])
    return difference * part.reshape(difference.shape)


@pytest.mark.parametrize("kind", ["copies", "weak", "bent"])
@pytest.mark.parametrize("noise", [0.001, 20.0, 80.0, 1e6])
def test_the_kernel_agrees_with_its_plain_twin(kind, noise):
    rng = np.random.default_rng(6)
    true, expected = tables(kind, rng)
    measured = true + rng.normal(0, noise, true.shape) - expected
    assert shrink_difference(measured, expected, noise) == pytest.approx(
        twin(measured, expected, noise), rel=1e-9, abs=1e-9
    )


def test_a_table_that_did_not_change_is_shrunk_once():
    beliefs = PairShrinkage()
    true, expected = tables("bent", np.random.default_rng(7))
    beliefs.expect({PAIR: expected})
    first = NoisyMarginal(PAIR, true, 20.0)
    (seen,) = beliefs.of([first])
    assert beliefs.of([first])[0] is seen
    (other,) = beliefs.of([NoisyMarginal(PAIR, true + 40, 20.0)])
    assert np.abs(other.table - seen.table).max() > 1


def test_an_exact_answer_is_believed_and_noise_alone_is_not():
    rng = np.random.default_rng(4)
    true, expected = tables("bent", rng)
    assert shrink_difference(true - expected, expected, 1e-3) == pytest.approx(true - expected, abs=1)
    noise = rng.normal(0, 50, true.shape)
    assert np.abs(shrink_difference(noise, expected, 50.0)).sum() < 0.1 * np.abs(noise).sum()


def test_cells_that_nothing_is_expected_in_stay_as_expected():
    expected = np.array([100.0, 100.0, 0.0, 0.0])
    assert shrink_difference(np.array([50.0, -50.0, 50.0, -50.0]), expected, 10.0)[2:].tolist() == [0, 0]


def test_the_foretold_error_is_the_one_that_is_left():
    rng = np.random.default_rng(5)
    expected = rng.gamma(1.0, 200.0, (15, 15))
    off = rng.normal(0, 30, expected.shape) * np.sqrt(expected / expected.mean())
    for noise in (10.0, 40.0, 160.0):
        runs = [
            np.abs(shrink_difference(off + rng.normal(0, noise, off.shape), expected, noise) - off).sum()
            for _ in range(20)
        ]
        foretold = compute_shrinkage_error(
            group_cells_by_size([expected]), np.array([np.abs(off).sum()]), np.array([noise])
        )[0, 0]
        assert foretold == pytest.approx(np.mean(runs), rel=0.15)


@pytest.mark.parametrize("order", [0, 2])
def test_a_pair_is_shrunk_towards_what_was_expected_before_it_was_measured(order):
    rng = np.random.default_rng(6)
    true, expected = tables("bent", rng)
    part = compute_interaction(true, order) / true.size if order else true
    told = part + rng.normal(0, 60, true.shape)
    if order:
        told = compute_interaction(told, order) / true.size
    beliefs, noisy = PairShrinkage(), NoisyMarginal(PAIR, told, 60.0, order)
    assert beliefs.of([noisy])[0] is noisy  # nothing was expected of it
    beliefs.expect({PAIR: expected})
    beliefs.expect({PAIR: true})  # what is expected afterwards has seen the answer, and does not count
    one = beliefs.of([noisy])[0]
    assert np.abs(one.table - part).sum() < 0.8 * np.abs(told - part).sum()
    assert one.sigma == noisy.sigma
    again = PairShrinkage()
    again.expect({PAIR: expected})
    assert np.array_equal(again.of([noisy])[0].table, one.table)


def test_small_tables_and_larger_cliques_are_believed_as_they_are():
    beliefs = PairShrinkage()
    small, large = np.full((2, 2), 5.0), np.full((3, 3, 3), 5.0)
    beliefs.expect({PAIR: small, ("a", "b", "c"): large})
    told = [NoisyMarginal(PAIR, small + 3, 4.0, 2), NoisyMarginal(("a", "b", "c"), large - 2, 4.0, 3)]
    assert beliefs.of(told) == told


def test_shrinking_can_be_left():
    beliefs = PairShrinkage(shrink=False)
    beliefs.expect({PAIR: np.full((5, 5), 4.0)})
    told = NoisyMarginal(PAIR, np.full((5, 5), 9.0), 10.0)
    assert beliefs.of([told])[0] is told
