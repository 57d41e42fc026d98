"""BSG's model: what its structure asks for, the structure written out, and how noisy counts become distributions."""

import itertools
import math

import numpy as np
import pytest
from recipes import LINKS, assert_trace, assert_weighted_by_size, chained, counts, random_rows, run
from weft_lab.methods.bsg.bsg import Bsg
from weft_lab.methods.bsg.entropy_network import compute_dirichlet_weights, compute_posterior
from weft_lab.queries.entropy_queries import ENTROPY_STEPS

from weft.marginals.domain import Domain
from weft.marginals.records import Records
from weft.privacy import Adjacency

MODEL = [("total", 0.01), ("scores", 0.3), ("marginals", 0.69)]
DOMAIN = Domain(("age", "group", "label", "wide"), (40, 4, 2, 100))


def rows(n, seed=0):
    """The group is the age's decade; the wide column has only two of its codes, one for each label."""
    rng = np.random.default_rng(seed)
    age, label = rng.integers(0, 40, n), rng.integers(0, 2, n)
    return Records.of(DOMAIN, [age, age // 10, label, np.where(label == 1, 70, 20)])


def ask(records, epsilon=1.0, seed=0, **options):
    made = run(Bsg(**options), records, epsilon, seed=seed)
    return made.model, made.ledger


@pytest.mark.parametrize("accounting", ["gaussian", "paper", "pure"])
def test_a_hundredth_for_the_rows_three_tenths_for_the_structure_the_rest_for_the_tables(accounting):
    made = run(Bsg(accounting=accounting), chained(), delta=0.0 if accounting == "pure" else 1e-6)
    assert_trace(made, MODEL)
    assert_weighted_by_size(made, chained().domain, first=0)


def test_seeds_have_half_of_the_budget_and_the_model_the_same_parts_of_the_rest():
    """The model's own questions come first and are half as dear; slack has made the budget a little smaller since."""
    made = run(Bsg(omega=2, rows=20), chained(20_000), epsilon=4.0)
    model = made.trace[:3]
    half = sum(share for _, share in model)
    assert half == pytest.approx(0.5, rel=0.02)
    assert [(purpose, share / half) for purpose, share in model] == [(p, pytest.approx(share)) for p, share in MODEL]
    assert [entry.mechanism for entry in made.ledger.entries[3:]] == ["gaussian", "seeded"]
    assert made.ledger.used <= 1


def test_the_links_of_a_chain_are_its_edges():
    model = run(Bsg(), chained(), epsilon=8.0).model
    assert {tuple(sorted((f.child, parent))) for f in model.families for parent in f.parents} >= LINKS


def literal_entropy(records, names):
    share = counts(records, names).ravel() / len(records)
    return -sum(p * math.log2(p) for p in share if p > 0)


def literal_structure(domain, corr, most, own=True):
    """Section 3.3: add the edge that raises a child's merit most, while one does, makes no cycle and fits.

    The limit is on the child's table, or, without its `own` values, on the configurations of its parents (eq. 6).
    """
    parents = {name: [] for name in domain}

    def merit(child, some):
        among = sum(corr[frozenset((j, k))] for j in some for k in some if j != k)
        return sum(corr[frozenset((child, j))] for j in some) / math.sqrt(len(some) + among) if some else 0.0

    def above(name):
        return {name}.union(*(above(parent) for parent in parents[name]))

    while True:
        best, gain = None, 0.0
        for i, j in itertools.product(domain, domain):
            fits = domain.cells([*([i] if own else []), *parents[i], j]) <= most if j not in (i, *parents[i]) else False
            if fits and i not in above(j):
                gained = merit(i, [*parents[i], j]) - merit(i, parents[i])
                if gained > gain + 1e-12:
                    best, gain = (i, j), gained
        if best is None:
            return {name: set(some) for name, some in parents.items()}
        parents[best[0]].append(best[1])


@pytest.mark.parametrize(("theta", "max_cost"), [(0.5, None), (30.0, None), (2.0, 3), (2.0, 8)])
@pytest.mark.parametrize("seed", range(6))
def test_the_structure_is_that_of_greedy_feature_selection_on_noisy_entropies(seed, theta, max_cost):
    records = random_rows(seed, 2000)
    domain = records.domain
    made = run(Bsg(theta=theta, max_cost=max_cost), records, epsilon=5.0, seed=seed)
    total, scores = made.tape[:2]
    n = float(total.released[0])
    low = max(2, round(n - 2 * total.charge.scales[0]))  # the entropies' sensitivity holds from so many rows on
    step = (Adjacency().entropy(low) + 1e-11) / ENTROPY_STEPS
    asked = [*((name,) for name in domain), *(tuple(sorted(pair)) for pair in itertools.combinations(domain, 2))]
    for names, exact in zip(asked, scores.exact[0].tolist(), strict=True):
        assert abs(exact - literal_entropy(records, names) * min(1.0, len(records) / low) / step) <= 1
    entropy = dict(zip(asked, (scores.released[0] * step).tolist(), strict=True))
    corr = {}
    for a, b in asked[len(domain) :]:
        both = entropy[a,] + entropy[b,]
        corr[frozenset((a, b))] = min(max(2 - 2 * entropy[a, b] / both, 0.0), 1.0) if both > 0 else 0.0
    sigma = math.sqrt(len(domain) / (2 * 0.69 * made.ledger.capacity))
    found = {family.child: set(family.parents) for family in made.model.families}
    most = max(1.0, n / (theta * sigma)) if max_cost is None else max_cost
    assert found == literal_structure(domain, corr, most, own=max_cost is None)


@pytest.mark.parametrize("buckets", [{}, {"age": 10}, {"age": 10, "wide": 50}])
def test_every_attribute_and_pair_is_asked_for_once_whatever_the_buckets(buckets):
    _, ledger = ask(rows(1000), buckets=buckets)
    (asked,) = [entry for entry in ledger.entries if "entropies" in entry.question]
    assert asked.draws == 4 + 6
    assert ledger.spent == pytest.approx(ledger.capacity)


def test_buckets_show_what_depends_on_what():
    model, _ = ask(rows(20_000), buckets={"age": 10})
    found = {frozenset((family.child, parent)) for family in model.families for parent in family.parents}
    assert {frozenset(("age", "group")), frozenset(("label", "wide"))} <= found


def test_little_is_left_of_the_noise_on_empty_cells():
    """Cut at zero, each of the 98 codes that nobody has would keep 0.4 deviations of noise."""
    model, ledger = ask(rows(4000), epsilon=0.5)
    made = model.marginal(["wide"])
    cut = 98 * 0.4 * max(ledger.entries[-1].scales) / 4000
    assert cut > 0.1
    assert 1 - made[[20, 70]].sum() / made.sum() < cut / 2


def test_few_rows_are_smoothed_towards_all_rows_as_far_as_noise_goes():
    counts = np.array([[900.0, 100.0], [0.0, 0.0], [0.0, 50.0]])
    overall = (counts.sum(axis=0) + 1) / (counts.sum() + 2)
    quiet, noisy = (compute_posterior(compute_dirichlet_weights(counts, sigma, 2.0)) for sigma in (0.0, 20.0))
    for found in (quiet, noisy):
        np.testing.assert_allclose(found.sum(axis=1), 1)
        np.testing.assert_allclose(found[1], overall)  # nothing known but the prior
    np.testing.assert_allclose(quiet, (counts + overall) / (counts.sum(axis=1, keepdims=True) + 1))
    assert quiet[2, 1] > 0.98
    assert overall[1] < noisy[2, 1] < 0.7
    weight = 1 + 2 * 20 * np.sqrt(2)
    np.testing.assert_allclose(noisy[2], (counts[2] + weight * overall) / (50 + weight))
