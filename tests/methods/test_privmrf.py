"""PrivMRF: its split of the budget, what theta and refinement decide, and Algorithms 2 to 4 written out."""

import itertools
import math

import numpy as np
import pytest
from recipes import (
    LINKS,
    assert_trace,
    assert_weighted_by_size,
    chained,
    counts,
    literal_indif,
    pairs_of,
    random_rows,
    run,
)

from weft.marginals.domain import Domain
from weft.marginals.marginal import Marginal, NoisyMarginal
from weft.methods.privmrf import PrivMrf
from weft.models.mrf import junction_tree

DOMAIN = Domain(("a", "b", "c"), (4, 4, 4))


class Public:
    """A curator of a table that everybody knows."""

    domain = DOMAIN
    left = 0.5

    def __init__(self, gaps=()):
        self._gaps, self.measured = np.array(gaps), []

    def sigma(self, share):
        return 10.0

    def gaps(self, guesses, share):
        return self._gaps

    def measure(self, cliques, share, weights=None):
        self.measured += cliques
        return [NoisyMarginal(c, np.zeros(DOMAIN.sizes(c)), 1.0) for c in cliques]


class Guess:
    """A model that expects nothing."""

    def many_marginals(self, cliques):
        return [Marginal(c, np.zeros(DOMAIN.sizes(c))).table for c in cliques]


def test_a_marginal_is_useful_if_its_cells_hold_theta_times_the_noise():
    tree = junction_tree(DOMAIN, [("a", "b", "c")])
    noise = 10.0 * np.sqrt(2 / np.pi)
    for theta, widest in ((1.0, 3), (3.9, 2), (15.0, 1)):
        # 64 cells of 64 / theta' times the noise: the average cell of a k-way table holds total / 4^k.
        found = PrivMrf(theta=theta)._useful(Public(), tree, total=64 * noise, each=0.1)
        assert max(map(len, found), default=0) == widest


def test_refinement_measures_what_the_model_gets_most_wrong():
    cliques = [("a", "b"), ("a", "c"), ("b", "c")]
    curator = Public(gaps=[500.0, 9000.0, 700.0])
    waiting = list(cliques)
    PrivMrf()._round(curator, Guess(), waiting, 1, 0.1, 1, np.random.default_rng(0))
    assert curator.measured == [("a", "c")]
    assert waiting == [("a", "b"), ("b", "c")]


def test_the_published_budget_is_one_ten_ten_and_seventy_nine_per_cent():
    """Table 2 of the paper, with t = floor(0.8 d) picks: deviations of the scores, the count, the gaps, the tables."""
    records, k = chained(), 3
    made = run(PrivMrf.paper(candidates=k), records)
    d, t = 4, 3
    each = 0.79 / (d + t)
    rounds = [("scores", 0.1 / t), ("marginals", each)] * t
    assert_trace(made, [("total", 0.01), ("dependence", 0.1), ("marginals", each * d), *rounds])
    g = 2 * made.ledger.capacity  # mu^2
    count, scores, tables, gaps, *_ = made.ledger.entries
    assert count.scales == pytest.approx([1 / math.sqrt(0.01 * g)])
    assert scores.scales == pytest.approx([math.sqrt(2 * d * (d - 1) / (0.1 * g))])
    assert tables.scales == pytest.approx([math.sqrt((d + t) / (0.79 * g))] * d)
    assert gaps.scales == pytest.approx([math.sqrt(t * k / (0.1 * g))])


def test_by_default_columns_have_a_tenth_and_scores_a_twentieth():
    records = chained()
    made = run(PrivMrf(max_ways=2), records, epsilon=8.0)
    assert_trace(made, [("marginals", 0.1), ("dependence", 0.05), ("marginals", 0.85)])
    assert_weighted_by_size(made, records.domain, first=4)


@pytest.mark.parametrize("recipe", [PrivMrf(), PrivMrf.paper()], ids=["cover", "paper"])
def test_dependent_pairs_are_inside_what_is_measured(recipe):
    made = run(recipe, chained(), epsilon=8.0)
    for pair in LINKS:
        assert any(set(pair) <= set(c) for c in made.measured)


def literal_useful(cliques, domain, limit, ways):
    """Algorithm 2: every subset of a clique whose average cell holds theta times the noise; single ones always."""
    subsets = {s for c in cliques for k in range(1, ways + 1) for s in itertools.combinations(c, k)}
    return {s for s in subsets if len(s) == 1 or domain.cells(s) <= limit}


def literal_families(useful, related, domain):
    """Algorithm 3 with eq. 8: R(A, B) of the others, over the root of how many they are and of what they share."""

    def merit(a, m):
        others = [b for b in m if b != a]
        among = sum(related[tuple(sorted((b, c)))] for b in others for c in others if b != c)
        return sum(related[tuple(sorted((a, b)))] for b in others) / math.sqrt(max(len(others) + among, 1.0))

    chosen, free = [], sorted(useful, key=lambda s: (len(s), s))
    for a in domain:
        around = [m for m in free if a in m]
        if around:
            best = max(around, key=lambda m: merit(a, m))
            chosen.append(best)
            free.remove(best)
    return chosen


@pytest.mark.parametrize("theta", [0.5, 6.0])
@pytest.mark.parametrize("seed", range(6))
def test_families_and_refinement_are_as_the_boxes_say(seed, theta):
    records = random_rows(seed, 2000)
    domain, d = records.domain, len(records.domain)
    made = run(PrivMrf.paper(theta=theta), records, epsilon=5.0, seed=seed)
    count, scores = made.tape[:2]
    exact = [math.floor(literal_indif(records, *p) / 2 + 1e-9) for p in pairs_of(domain)]
    assert scores.exact[0].tolist() == exact  # R is half of InDif
    noisy = dict(zip(pairs_of(domain), scores.released[0].tolist(), strict=True))
    assert all(made.model.tree.home(pair) is not None for pair in noisy if noisy[pair] > 0)  # there is room for all

    total, picks = float(count.released[0]), math.floor(0.8 * d)
    sigma = math.sqrt((d + picks) / (2 * 0.79 * made.ledger.capacity))
    limit = total / (theta * sigma * math.sqrt(2 / math.pi))
    useful = literal_useful(made.model.tree.cliques, domain, limit, 6)
    families = literal_families(useful, {p: min(max(v / total, 0.0), 1.0) for p, v in noisy.items()}, domain)
    assert made.measured[: len(families)] == families

    waiting = sorted(useful - set(families))
    first = made.answers("scores")[0]
    assert len(first.exact[0]) == len(waiting)
    picked = made.measured[max(len(families), d)]
    merit = {
        c: gap - math.sqrt(2 / math.pi) * sigma * domain.cells(c)
        for c, gap in zip(waiting, first.released[0].tolist(), strict=True)
    }
    assert picked == max(merit, key=merit.get)
    assert made.answers("marginals")[1].exact[0].tolist() == counts(records, picked).tolist()


def test_the_boxes_are_put_to_the_test():
    """Families of more than two columns, for which eq. 8 weighs what they share."""
    made = [run(PrivMrf.paper(theta=0.5), random_rows(seed, 2000), epsilon=5.0, seed=seed) for seed in range(6)]
    assert any(len(c) > 2 for each in made for c in each.measured[:4])
