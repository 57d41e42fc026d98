"""AIM: rounds of asking about the worst candidates and measuring one, until the budget is gone."""

import itertools
import math

import numpy as np
import pytest
from recipes import CHAIN, LINKS, assert_trace, chained, counts, random_rows, run
from weft_lab.methods.aim import MIN_BUDGET_SHARE, Aim, _compute_overlap, make_pair_at_distance

from weft.marginals.marginal import NoisyMarginal
from weft.marginals.noise_error import compute_projected_error, group_cells_by_size
from weft.marginals.records import Records
from weft.models.mrf import fit_mrf


def rounds_of(made, after):
    """The shares of each round: for asking again, and for measuring."""
    trace = made.trace[after:]
    asked, measured = trace[::2], trace[1::2]
    assert {purpose for purpose, _ in asked} == {"scores"} and {purpose for purpose, _ in measured} == {"marginals"}
    return [(one, other) for (_, one), (_, other) in zip(asked, measured, strict=True)]


@pytest.mark.parametrize("records", [chained(), random_rows(3)], ids=["chain", "random"])
def test_columns_a_look_and_rounds_that_only_grow(records):
    d = len(records.domain)
    recipe = Aim(rounds_per_column=3.0)
    made = run(recipe, records)
    assert_trace(made, [("marginals", 0.1), ("scores", 0.05), *made.trace[2:]])
    rounds = rounds_of(made, after=2)
    first = 0.85 / (3 * d)  # what is left, were it divided evenly
    assert sum(rounds[0]) == pytest.approx(first)
    for part, rest in rounds[:-1]:
        assert part == pytest.approx(0.1 * (part + rest))
        assert math.log2(sum((part, rest)) / first) == pytest.approx(round(math.log2(sum((part, rest)) / first)))
    sizes = [sum(one) for one in rounds[:-1]]
    assert sizes == sorted(sizes)
    assert len(rounds) <= 3 * d


def test_rounds_grow_only_where_nothing_is_seen():
    """Without annealing all rounds but the last are equal; columns without any relation make them grow."""
    records = chained()
    even = rounds_of(run(Aim(rounds_per_column=3.0, anneal=1.0), records), after=2)
    assert [sum(one) for one in even[:-1]] == pytest.approx([0.85 / 12] * (len(even) - 1))
    rng = np.random.default_rng(0)
    unrelated = Records.of(CHAIN, [rng.integers(0, size, 6000) for size in CHAIN.shape])
    grown = rounds_of(run(Aim(rounds_per_column=3.0), unrelated, epsilon=0.5), after=2)
    assert len(grown) < len(even) / 2


def test_what_the_model_gets_most_wrong_is_measured_first():
    made = run(Aim(ways=2), chained(), epsilon=8.0)
    assert set(made.measured[4:6]) == LINKS


def test_overlap_with_the_workload_goes_with_the_size():
    names, ways = "abcde", 3
    candidates = [c for k in (2, 3) for c in itertools.combinations(names, k)]
    literal = [sum(len(set(c) & set(w)) for w in itertools.combinations(names, ways)) for c in candidates]
    ratio = np.array(literal) / _compute_overlap(candidates, ways)
    assert ratio == pytest.approx(ratio[0])


@pytest.mark.parametrize("epsilon", [1.0, 5.0])
@pytest.mark.parametrize("seed", range(6))
def test_a_round_asks_about_the_worst_and_measures_the_worst_of_these(seed, epsilon):
    """The first round, written out: quality is size times what is left of the error after the noise of measuring."""
    records, most, rounds = random_rows(seed), 4, 60
    domain = records.domain
    candidates = sorted(c for k in (2, 3) for c in itertools.combinations(sorted(domain), k))
    recipe = Aim(rare=0.0, shortlist=most, rounds_per_column=rounds / len(domain))
    made = run(recipe, records, epsilon=epsilon, seed=seed)
    assert made.model.inner.domain == domain  # no value was merged
    look, again = made.answers("scores")[:2]
    ones = [
        NoisyMarginal((name,), table, made.sigmas[0]) for name, table in zip(domain, made.tape[0].released, strict=True)
    ]
    alone = fit_mrf(domain, ones)
    errors = dict(zip(candidates, look.released[0].tolist(), strict=True))
    sigma = math.sqrt(1 / (2 * 0.9 * 0.85 / rounds * made.ledger.capacity))

    def left_by(c):
        if len(c) > 2:
            return math.sqrt(2 / math.pi) * sigma * domain.cells(c)  # as published
        table = make_pair_at_distance(
            alone.marginal(c[:1]), alone.marginal(c[1:]), look.released[0][candidates.index(c)]
        )
        return compute_projected_error(group_cells_by_size([table]), np.array([sigma]))[0, 0]

    noise = {c: left_by(c) for c in candidates}

    def quality(c):
        return len(c) * (errors[c] - noise[c])

    asked = sorted(candidates, key=lambda c: -quality(c))[:most]
    for c, exact, released in zip(asked, again.exact[0], again.released[0], strict=True):
        assert exact == np.abs(counts(records, c) - np.rint(alone.marginal(c))).sum()
        errors[c] = released
    assert made.measured[len(domain)] == max(asked, key=quality)


def test_the_budget_is_gone_at_the_end():
    made = run(Aim(), random_rows(1))
    assert 1 - sum(share for _, share in made.trace) < MIN_BUDGET_SHARE
