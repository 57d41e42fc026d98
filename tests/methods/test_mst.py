"""MST: the pairs farthest from independence, joined to the heaviest tree."""

import itertools

import numpy as np
import pytest
from recipes import LINKS, assert_trace, assert_weighted_by_size, chained, counts, pairs_of, random_rows, run
from weft_lab.methods.mst import Mst

from weft.marginals.marginal import NoisyMarginal
from weft.marginals.pooling import common_total
from weft.marginals.simplex import project_to_simplex


def test_a_tenth_for_columns_a_tenth_for_scores_the_rest_for_the_tree():
    records = chained()
    made = run(Mst(), records)
    assert_trace(made, [("marginals", 0.1), ("scores", 0.1), ("marginals", 0.8)])
    assert [entry.draws for entry in made.ledger.entries[:2]] == [12, 6]  # all codes, all pairs
    assert_weighted_by_size(made, records.domain, first=4)


@pytest.mark.parametrize("selection", ["implied", "heaviest", "exponential"])
def test_the_links_of_a_chain_are_the_tree(selection):
    accounting = "zcdp" if selection == "exponential" else "gaussian"
    made = run(Mst(selection=selection, accounting=accounting), chained(), epsilon=8.0)
    assert len(made.measured) == 4 + 3  # a tree over four columns
    assert set(made.measured[4:]) > LINKS


def literal_tree(weights, names):
    """The heaviest of all sets of d - 1 pairs that connect all columns."""

    def connected(edges):
        reached = {names[0]}
        for _ in names:
            reached |= {name for edge in edges for name in edge if reached & set(edge)}
        return len(reached) == len(names)

    trees = (edges for edges in itertools.combinations(weights, len(names) - 1) if connected(edges))
    return set(max(trees, key=lambda edges: sum(weights[edge] for edge in edges)))


@pytest.mark.parametrize("seed", range(8))
def test_the_heaviest_tree_is_the_heaviest_of_all(seed):
    """The choice follows from what was released alone, and the scores are distances from the product of columns."""
    records = random_rows(seed)
    names = sorted(records.domain)
    made = run(Mst(selection="heaviest", rare=0.0), records, seed=seed)
    assert made.model.inner.domain == records.domain  # no value was merged
    first, (scores,) = made.answers("marginals")[0], made.answers("scores")
    ones = {
        name: NoisyMarginal((name,), table, made.sigmas[0])
        for name, table in zip(records.domain, first.released, strict=True)
    }
    total = common_total(list(ones.values()))[0]
    own = {name: project_to_simplex(noisy.table, total) for name, noisy in ones.items()}
    for (a, b), exact in zip(pairs_of(records.domain), scores.exact[0], strict=True):
        assert exact == np.abs(counts(records, (a, b)) - np.rint(np.outer(own[a], own[b]) / total)).sum()
    weights = dict(zip(pairs_of(records.domain), scores.released[0].tolist(), strict=True))
    assert set(made.measured[len(names) :]) == literal_tree(weights, names)
