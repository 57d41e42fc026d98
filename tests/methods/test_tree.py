"""Tree: one look at pairs (or triples), one junction tree, one choice of what is worth its noise."""

import itertools
import math

import numpy as np
import pytest
from recipes import LINKS, assert_trace, assert_weighted_by_size, chained, counts, random_rows, run
from weft_lab.methods.tree import Tree

from weft.marginals.marginal import NoisyMarginal
from weft.marginals.pooling import common_total
from weft.marginals.simplex import project_to_simplex


@pytest.mark.parametrize("ways", [2, 3])
def test_a_tenth_for_columns_a_tenth_for_scores_the_rest_for_marginals(ways):
    records = chained()
    made = run(Tree(ways=ways), records, epsilon=8.0)
    assert_trace(made, [("marginals", 0.1), ("scores", 0.1), ("marginals", 0.8)])
    assert made.ledger.entries[1].draws == math.comb(4, 2) + (math.comb(4, 3) if ways == 3 else 0)
    assert_weighted_by_size(made, records.domain, first=4)


def test_dependent_pairs_are_measured_and_others_are_not():
    made = run(Tree(ways=2), chained(), epsilon=0.5, exact=True)
    assert set(made.measured[4:]) >= LINKS
    assert not any("d" in c for c in made.measured[4:])


@pytest.mark.parametrize("sizes", [(2, 3, 4, 4), (5, 5, 5, 2)])
def test_triples_are_offered_where_columns_are_narrow(sizes):
    rng = np.random.default_rng(0)
    from weft.marginals.domain import Domain
    from weft.marginals.records import Records

    records = Records.of(Domain(tuple("abcd"), sizes), [rng.integers(0, size, 500) for size in sizes])
    asked = run(Tree(), records).ledger.entries[1].draws
    assert asked == (10 if np.median(sizes) <= 4 else 6)


def literal_choice(gaps, cells, rho):
    """Take candidates by gain for y = (cells sqrt(2/pi))^(2/3), each if it gains more than the noise it adds."""
    y = {c: (cells[c] * math.sqrt(2 / math.pi)) ** (2 / 3) for c in gaps}
    chosen = []
    for c in sorted(gaps, key=lambda c: -gaps[c] / y[c]):
        noise = [sum(y[other] for other in some) ** 1.5 / math.sqrt(2 * rho) for some in (chosen, [*chosen, c])]
        if gaps[c] > noise[1] - noise[0]:
            chosen.append(c)
    return chosen


@pytest.mark.parametrize("epsilon", [0.5, 5.0])
@pytest.mark.parametrize("seed", range(5))
def test_what_is_measured_is_what_gains_more_than_its_noise(seed, epsilon):
    """A tree with room for everything: the choice is by gain and noise alone."""
    records = random_rows(seed, 3000)
    domain = records.domain
    made = run(Tree(ways=3, rare=0.0), records, epsilon=epsilon, seed=seed)
    assert made.model.inner.domain == domain  # no value was merged
    candidates = sorted(c for k in (2, 3) for c in itertools.combinations(sorted(domain), k))
    (scores,) = made.answers("scores")
    ones = [
        NoisyMarginal((name,), table, made.sigmas[0]) for name, table in zip(domain, made.tape[0].released, strict=True)
    ]
    total = common_total(ones)[0]
    own = {m.clique[0]: project_to_simplex(m.table, total) for m in ones}
    for c, exact in zip(candidates, scores.exact[0], strict=True):
        product = own[c[0]]
        for name in c[1:]:
            product = np.multiply.outer(product, own[name]) / total
        assert exact == np.abs(counts(records, c) - np.rint(product)).sum()
    gaps = dict(zip(candidates, scores.released[0].tolist(), strict=True))
    chosen = literal_choice(gaps, {c: domain.cells(c) for c in candidates}, 0.8 * made.ledger.capacity)
    assert set(made.measured[len(domain) :]) == (set(chosen) or {(name,) for name in domain})


def test_a_narrow_tree_holds_some_pairs_and_the_records_are_adjusted_to_others():
    records = chained()
    none, some = (
        run(Tree(ways=2, max_cells=12, max_total=30, extra_pairs_per_column=extra), records, epsilon=8.0)
        for extra in (0.0, 8.0)
    )
    tree = none.model.inner.tree
    assert all(tree.home(c) is not None for c in none.measured[4:])
    assert set(none.measured[4:]) < set(some.measured[4:])
