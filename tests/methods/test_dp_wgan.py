"""DP-WGAN: a critic that sees real rows through noisy gradients in whole numbers, and a generator that sees none."""

import numpy as np
import pytest
from recipes import assert_trace, chained, random_rows, run
from weft_lab.methods.dp_wgan import DpWgan
from weft_lab.network_gradients import MAX_GRADIENT_WEIGHT, STEPS, Critic
from weft_lab.queries.gradient_queries import GradientQueries

from weft import Synthesizer
from weft.curator import Curator
from weft.engines import MemoryEngine
from weft.errors import MethodError
from weft.marginals.domain import Domain
from weft.marginals.records import Records
from weft.privacy import Adjacency, Budget, Ledger

DOMAIN = Domain(("b", "a", "c"), (3, 2, 4))


def some_critic(seed, units=5, limit=MAX_GRADIENT_WEIGHT):
    rng = np.random.default_rng(seed)

    def weights(*shape):
        return rng.integers(-limit, limit + 1, shape)

    return Critic(tuple(weights(size, units) for size in DOMAIN.shape), weights(units), weights(units))


def some_rows(seed, n):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, size, n) for size in DOMAIN.shape])


def test_columns_then_as_many_steps_of_equal_shares():
    made = run(DpWgan(steps=4), chained())
    assert_trace(made, [("marginals", 0.3), *[("scores", 0.7 / 4)] * 4])
    assert {entry.sensitivity for entry in made.ledger.entries[1:]} == {STEPS}


def score(critic, row):
    sums = critic.bias + sum(table[code] for table, code in zip(critic.inner, row, strict=True))
    return float((critic.outer * np.maximum(sums, 0)).sum())


@pytest.mark.parametrize("seed", range(4))
def test_what_a_row_adds_is_the_gradient_of_its_score_at_length_one(seed):
    critic, (row,) = some_critic(seed), some_rows(seed, 1)
    added = critic.summed(np.array([row]), np.array([1])).end_to_end()
    flat = np.concatenate([*(table.ravel() for table in critic.inner), critic.bias, critic.outer])
    slopes = np.zeros(len(flat))
    for i in range(len(flat)):
        moved = flat.copy()
        moved[i] += 1
        *inner, bias, outer = np.split(moved, np.cumsum([*(table.size for table in critic.inner), len(critic.bias)]))
        shaped = tuple(part.reshape(table.shape) for part, table in zip(inner, critic.inner, strict=True))
        slopes[i] = score(Critic(shaped, bias, outer), row) - score(critic, row)
    length = np.sqrt((slopes**2).sum())
    np.testing.assert_allclose(added, slopes * STEPS / length, atol=1.01)


def test_no_row_adds_more_than_one_whatever_the_weights():
    longest = 0
    for seed in range(200):
        limit = (1, 10, 1000, MAX_GRADIENT_WEIGHT)[seed % 4]
        added = some_critic(seed, limit=limit).summed(some_rows(seed, 1), np.array([1])).end_to_end()
        longest = max(longest, int((added.astype(object) ** 2).sum()))
    assert 0.9 * STEPS**2 < longest <= STEPS**2
    still = Critic(tuple(np.zeros((size, 2), np.int64) for size in DOMAIN.shape), *np.zeros((2, 2), np.int64))
    assert not still.summed(some_rows(0, 3), np.ones(3, np.int64)).end_to_end().any()


@pytest.mark.parametrize("seed", range(4))
def test_what_a_row_adds_does_not_depend_on_the_others(seed, monkeypatch):
    critic, rows = some_critic(seed), some_rows(seed, 301)
    apart = sum(critic.summed(rows[i : i + 1], np.array([1])).end_to_end() for i in range(len(rows)))
    ones = np.ones(len(rows), np.int64)
    assert np.array_equal(critic.summed(rows, ones).end_to_end(), apart)
    assert np.array_equal(critic.summed(rows[::-1], ones).end_to_end(), apart)
    monkeypatch.setattr("weft_lab.network_gradients._ROWS", 7)
    assert np.array_equal(critic.summed(rows, ones).end_to_end(), apart)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("rows", [1, 2])
def test_a_unit_moves_the_sum_by_no_more_than_the_sensitivity(relation, rows):
    seen = []

    class Peek:
        private = False

        def __call__(self, charge, exact):
            seen.append((charge.sensitivity, exact[0]))
            return [exact[0].copy()]

    most = 0.0
    for seed in range(60):
        table, critic = some_rows(seed, 6), some_critic(seed, units=1)
        other = np.vstack([table, np.repeat(some_rows(seed + 1000, 1), rows, axis=0)])
        if relation == "replace-one":
            other = np.vstack([table[:-rows], other[-rows:]])
            table[-rows:] = table[-1]
        for each in (table, other):
            ledger = Ledger(Budget(epsilon=1.0, delta=1e-6), "gaussian", Adjacency(relation, rows_per_unit=rows))
            curator = Curator(MemoryEngine(Records.of(DOMAIN, each.T)), ledger, Peek())
            GradientQueries.of(curator).critic_gradient(critic, 0.5)
            assert ledger.spent == pytest.approx(0.5 * ledger.capacity)
        (sensitivity, one), (_, two) = seen[-2:]
        most = max(most, np.sqrt(((one - two) ** 2).sum()) / sensitivity)
    assert sensitivity == STEPS * rows * (1 if relation == "add-remove" else 2)
    assert 0.4 < most <= 1.0


WRONG = {
    "a shape": lambda c: Critic(c.inner[:-1], c.bias, c.outer),
    "another shape": lambda c: Critic(c.inner, c.bias, c.outer[:-1]),
    "no whole numbers": lambda c: Critic(c.inner, c.bias.astype(float), c.outer),
    "too large": lambda c: Critic(c.inner, c.bias + 2 * MAX_GRADIENT_WEIGHT, c.outer),
    "too many": lambda c: Critic(
        tuple(np.zeros((size, 300), np.int64) for size in DOMAIN.shape), *np.zeros((2, 300), np.int64)
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_weights_that_the_proof_does_not_hold_for_are_refused_before_any_charge(wrong):
    ledger = Ledger(Budget(epsilon=1.0, delta=1e-6), "gaussian", Adjacency())
    curator = Curator(MemoryEngine(Records.of(DOMAIN, some_rows(0, 9).T)), ledger, None)
    with pytest.raises(ValueError):
        GradientQueries.of(curator).critic_gradient(WRONG[wrong](some_critic(0)), 0.5)
    assert not ledger.entries


def test_a_plain_epsilon_cannot_pay_for_gaussian_noise(table, schema, tmp_path):
    with pytest.raises(MethodError, match="State a delta"):
        Synthesizer(1.0, 0.0, method="dp-wgan", journal=tmp_path / "j").fit(table, schema)
    assert not (tmp_path / "j").exists()


def test_the_generator_learns_something():
    """Without noise, and from anywhere: columns come nearer than even ones are."""
    records = random_rows(1, 4000)
    made = run(DpWgan(rare=0.0, share_columns=0.01, steps=80), records, exact=True).model
    near = [np.abs(made.marginal([name]) / made.total - shares(records, name)).sum() for name in records.domain]
    even = [np.abs(1 / records.domain.size(name) - shares(records, name)).sum() for name in records.domain]
    assert sum(near) < sum(even)


def shares(records, name):
    return np.bincount(records.column(name), minlength=records.domain.size(name)) / len(records)
