"""PrivMRF: its split of the budget, and Algorithms 1 to 5 written out, beside the recipe with the same noise."""

import itertools
import math

import numpy as np
import pytest
from recipes import LINKS, assert_trace, chained, counts, literal_indif, pairs_of, random_rows, run
from weft_lab.methods.candidates import useful_limit
from weft_lab.methods.privmrf import PrivMrf

from weft.marginals.domain import Domain
from weft.marginals.marginal import Marginal, NoisyMarginal
from weft.marginals.records import Records
from weft.methods import make_method
from weft.models.mrf import fit_mrf


def paper(**options):
    """Return the recipe as published; small tables need no tree of 10^7 cells."""
    return make_method("privmrf", preset="paper", **options)


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
    noise = 10.0 * np.sqrt(2 / np.pi)
    for theta in (1.0, 3.9, 15.0):
        assert useful_limit(64 * noise, theta, 10.0) == pytest.approx(64 / theta)


@pytest.mark.parametrize("pick", ["net", "plain"])
def test_refinement_measures_what_the_model_gets_most_wrong(pick):
    cliques = [("a", "b"), ("a", "c"), ("b", "c")]
    curator = Public(gaps=[500.0, 9000.0, 700.0])
    waiting = list(cliques)
    PrivMrf(pick=pick)._round(curator, Guess(), waiting, 1, 0.1, 1, np.random.default_rng(0))
    assert curator.measured == [("a", "c")]
    assert waiting == [("a", "b"), ("b", "c")]


def test_the_published_budget_is_one_ten_ten_and_seventy_nine_per_cent():
    """Table 2 of the paper, with t = floor(0.8 d) picks: deviations of the scores, the count, the gaps, the tables."""
    records, k = chained(), 3
    made = run(paper(candidates=k), records)
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
    made = run(PrivMrf(rounds=1), chained(), epsilon=8.0)
    each = 0.75 / 7
    assert_trace(
        made,
        [("marginals", 0.1), ("dependence", 0.05), ("marginals", 4 * each), ("scores", 0.1), ("marginals", 3 * each)],
    )


@pytest.mark.parametrize("recipe", [PrivMrf(), paper()], ids=["default", "paper"])
def test_dependent_pairs_are_inside_what_is_measured(recipe):
    made = run(recipe, chained(), epsilon=8.0)
    for pair in LINKS:
        assert any(set(pair) <= set(c) for c in made.measured)


def test_theta_alone_bounds_the_published_candidates():
    """Algorithm 2: with enough rows, marginals of more than six attributes are useful, and theta decides how many."""
    rng = np.random.default_rng(0)
    hidden = rng.random(20_000)
    records = Records.of(Domain(tuple("abcdefghi"), (2,) * 9), [hidden < rng.random(20_000) for _ in range(9)])
    widest = {
        theta: max(map(len, run(paper(theta=theta, picks=0.5), records, epsilon=8.0).measured))
        for theta in (2.0, 200.0)
    }
    assert widest[2.0] > 6 >= widest[200.0]


def maximal_cliques(edges, names):
    """All sets of names that are joined pairwise, and in no larger one."""
    joined = {frozenset(edge) for edge in edges}
    sets = [
        set(s)
        for k in range(1, len(names) + 1)
        for s in itertools.combinations(names, k)
        if all(frozenset(pair) in joined for pair in itertools.combinations(s, 2))
    ]
    return [s for s in sets if not any(s < other for other in sets)]


def is_chordal(edges, names):
    """Whether the graph is its own triangulation: one after another has neighbours that are all joined."""
    left, joined = set(names), {frozenset(edge) for edge in edges}
    while left:
        near = {name: [n for n in left if frozenset((n, name)) in joined and n != name] for name in left}
        simplicial = [
            name for name, ns in near.items() if all(frozenset(p) in joined for p in itertools.combinations(ns, 2))
        ]
        if not simplicial:
            return False
        left.discard(simplicial[0])
    return True


def literal_graph(noisy, domain, most):
    """Algorithm 1, line by line; a triangulation is looked for among all, as the paper names none."""
    names, edges, waiting = list(domain), [], sorted(noisy, key=lambda pair: (-noisy[pair], pair))

    def fits(wanted):
        extra = [p for p in itertools.combinations(sorted(names), 2) if p not in wanted]
        for k in range(len(extra) + 1):
            for added in itertools.combinations(extra, k):
                whole = [*wanted, *added]
                if is_chordal(whole, names) and all(
                    domain.cells(sorted(c)) <= most for c in maximal_cliques(whole, names)
                ):
                    return True
        return False

    going = True
    while going:
        going = False
        for pair in waiting:
            if fits([*edges, pair]):
                edges.append(pair)
                waiting.remove(pair)
                going = True
                break
    return edges


@pytest.mark.parametrize("most", [20, 10**7])
@pytest.mark.parametrize("seed", range(4))
def test_all_pairs_that_fit_enter_the_graph_the_strongest_first(seed, most):
    records = random_rows(seed, 2000)
    made = run(paper(max_cells=most, picks=0.0), records, epsilon=2.0, seed=seed)
    (scores,) = made.answers("dependence")
    noisy = dict(zip(pairs_of(records.domain), scores.released[0].tolist(), strict=True))
    tree = made.model.tree
    assert max(map(records.domain.cells, map(sorted, tree.cliques))) <= most
    for pair in literal_graph(noisy, records.domain, most):
        assert tree.home(pair) is not None
    if most > 10**6:  # room for all of them, whatever their noisy score
        assert tree.home(tuple(sorted(records.domain))) is not None


def literal_useful(cliques, domain, limit, ways):
    """Algorithm 2: every subset of a clique whose average cell holds theta times the noise; single ones always."""
    subsets = {s for c in cliques for k in range(1, ways + 1) for s in itertools.combinations(c, k)}
    return {s for s in subsets if len(s) == 1 or domain.cells(s) <= limit}


def literal_families(useful, related, domain, whole):
    """Algorithm 3 with eq. 8: R(A, B) of the others, over the root of how many they are and of what they share.

    As printed, `whole`, |M| counts A too; the radicand is kept at 1, for noise may turn it negative.
    """

    def merit(a, m):
        others = [b for b in m if b != a]
        among = sum(related[tuple(sorted((b, c)))] for b in others for c in others if b != c)
        size = len(m) if whole else len(others)
        return sum(related[tuple(sorted((a, b)))] for b in others) / math.sqrt(max(size + among, 1.0))

    chosen, free = [], sorted(useful, key=lambda s: (len(s), s))
    for a in domain:
        around = [m for m in free if a in m]
        if around:
            best = max(around, key=lambda m: merit(a, m))
            chosen.append(best)
            free.remove(best)
    return chosen


@pytest.mark.parametrize("published", [False, True], ids=["default", "paper"])
@pytest.mark.parametrize("theta", [0.5, 6.0])
@pytest.mark.parametrize("seed", range(4))
def test_families_and_refinement_are_as_the_boxes_say(seed, theta, published):
    records = random_rows(seed, 2000)
    domain, d = records.domain, len(records.domain)
    ours = {} if published else {"merit": "shares", "pick": "net", "pairs": "positive"}
    made = run(paper(theta=theta, **ours), records, epsilon=5.0, seed=seed)
    count, scores = made.tape[:2]
    exact = [math.floor(literal_indif(records, *p) / 2 + 1e-9) for p in pairs_of(domain)]
    assert scores.exact[0].tolist() == exact  # R is half of InDif
    noisy = dict(zip(pairs_of(domain), scores.released[0].tolist(), strict=True))

    total, picks = float(count.released[0]), math.floor(0.8 * d)
    sigma = math.sqrt((d + picks) / (2 * 0.79 * made.ledger.capacity))
    limit = total / (theta * sigma * math.sqrt(2 / math.pi))
    useful = literal_useful(made.model.tree.cliques, domain, limit, 6)
    shares = {p: min(max(v / total, 0.0), 1.0) for p, v in noisy.items()}
    families = literal_families(useful, noisy if published else shares, domain, published)
    assert made.measured[: len(families)] == families

    waiting = sorted(useful - set(families))
    first = made.answers("scores")[0]
    assert len(first.exact[0]) == len(waiting)
    picked = made.measured[max(len(families), d)]
    noise = 0.0 if published else math.sqrt(2 / math.pi) * sigma
    merit = {c: gap - noise * domain.cells(c) for c, gap in zip(waiting, first.released[0].tolist(), strict=True)}
    assert picked == max(merit, key=merit.get)
    assert made.answers("marginals")[1].exact[0].tolist() == counts(records, picked).tolist()


def test_the_boxes_are_put_to_the_test():
    """Families of more than two columns, for which eq. 8 weighs what they share."""
    made = [run(PrivMrf(theta=0.5), random_rows(seed, 2000), epsilon=5.0, seed=seed) for seed in range(6)]
    assert any(len(c) > 2 for each in made for c in each.measured[5:9])


def literal_descent(domain, tables, total, step=1e-4, passes=6000):
    """Algorithm 5 on the whole table of all cells: theta - eta (mu - y), until mu converges."""
    names = sorted(domain)
    shape = domain.sizes(names)
    theta = {m.clique: np.zeros(m.table.shape) for m in tables}

    def spread(c, table):
        return table.reshape([domain.size(n) if n in c else 1 for n in names])

    for _ in range(passes):
        logs = sum((spread(c, table) for c, table in theta.items()), np.zeros(shape))
        joint = np.exp(logs - logs.max())
        joint *= total / joint.sum()
        for m in tables:
            mu = joint.sum(axis=tuple(i for i, n in enumerate(names) if n not in m.clique))
            theta[m.clique] = theta[m.clique] - step * (mu - m.table)
    return joint


def test_mirror_descent_ends_where_the_box_ends():
    records = random_rows(1, 2000)
    names = sorted(records.domain)
    rng = np.random.default_rng(1)
    pairs = list(itertools.combinations(names, 2))[:4]
    tables = [NoisyMarginal(c, counts(records, c) + rng.normal(0, 5, records.domain.sizes(c)), 5.0) for c in pairs]
    joint = literal_descent(records.domain, tables, 2000.0)
    model = fit_mrf(records.domain, tables, total=2000.0, solver="mirror", tolerance=0.0, iterations=3000)
    assert np.abs(model.marginal(names) - joint).sum() < 0.01 * 2000


def test_the_published_fit_ends_at_its_share_of_the_noise():
    """In the last fit at 0.7 of what noise alone would give; the pass that goes below is the last."""
    model = run(paper(), chained(seed=2), epsilon=2.0).model
    assert 0.69 < model.loss <= 0.7 and model.passes < 3000
