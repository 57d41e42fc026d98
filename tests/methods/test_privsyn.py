"""PrivSyn: the split of Algorithm 3, DenseMarg and combination as the paper's boxes say, and its baselines."""

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from recipes import LINKS, assert_trace, assert_weighted_by_size, chained, literal_indif, pairs_of, random_rows, run

import weft
from weft.encoding import Codec
from weft.evaluation.metrics import k_way
from weft.methods.privsyn import PrivSyn
from weft.schema import Schema


@pytest.mark.parametrize("accounting", ["gaussian", "paper", "pure"])
def test_the_budget_is_divided_as_in_algorithm_3(accounting):
    records = chained()
    recipe = PrivSyn(accounting=accounting, max_cells=12)  # pairs are not combined
    made = run(recipe, records, epsilon=8.0, delta=0.0 if accounting == "pure" else 1e-6)
    assert_trace(made, [("marginals", 0.1), ("dependence", 0.1), ("marginals", 0.8)])
    columns, scores, _ = made.ledger.entries
    rho = made.ledger.capacity
    if accounting == "pure":  # naive composition: every answer has its part of epsilon
        assert columns.scales == pytest.approx([4 / (0.1 * rho)] * 4)
        assert scores.scales == pytest.approx([4 * 6 / (0.1 * rho)])
    else:
        assert columns.scales == pytest.approx([math.sqrt(4 / (2 * 0.1 * rho))] * 4)
        assert scores.scales == pytest.approx([math.sqrt(8 * 6 / (0.1 * rho))])  # Theorem 5: 8 m / rho, m pairs
    assert_weighted_by_size(made, records.domain, first=4)


def test_the_published_accounting_is_the_closed_form():
    """rho + 2 sqrt(rho ln(1/delta)) = epsilon."""
    rho = run(PrivSyn(accounting="paper"), chained(), epsilon=1.0).ledger.capacity
    assert rho + 2 * math.sqrt(rho * math.log(1e6)) == pytest.approx(1.0)


def test_equal_shares_are_equal():
    made = run(PrivSyn(allocation="equal", max_cells=12), chained(), epsilon=8.0)
    assert len(made.sigmas) > 5 and made.sigmas[4:] == pytest.approx([made.sigmas[4]] * len(made.sigmas[4:]))


def test_dependent_pairs_are_published():
    made = run(PrivSyn(), chained(), epsilon=0.5, exact=True)
    for pair in LINKS:
        assert any(set(pair) <= set(c) for c in made.measured[4:])
    assert not any("d" in c for c in made.measured[4:])  # it follows nothing


def literal_dense(phi, cells, rho):
    """Algorithm 1: add the marginal that leaves the least error of noise and of what is missed, while it falls."""
    chosen, error = [], sum(phi.values())
    while True:
        best, least = None, error
        for i in sorted(set(phi) - set(chosen)):
            tried = [*chosen, i]
            weight = sum(cells[j] ** (2 / 3) for j in tried)
            noise = sum(cells[j] / math.sqrt(math.pi * rho * cells[j] ** (2 / 3) / weight) for j in tried)
            missed = sum(phi[j] for j in phi if j not in tried)
            if noise + missed < least:
                best, least = i, noise + missed
        if best is None:
            return chosen
        chosen.append(best)
        error = least


def literal_combined(pairs, phi, domain, gamma):
    """Algorithm 2: cliques of the graph of pairs, largest first, that share at most two attributes with those taken."""
    strength = {n: sum(phi[p] for p in pairs if n in p) for n in domain}
    ranked = sorted({n for p in pairs for n in p}, key=lambda n: (-strength[n], n))
    taken, inside = [], set()
    for size in range(len(ranked), 2, -1):
        for c in itertools.combinations(ranked, size):
            whole = all(tuple(sorted(edge)) in pairs for edge in itertools.combinations(c, 2))
            if whole and len(inside & set(c)) <= 2 and domain.cells(c) <= gamma:
                taken.append(tuple(sorted(c)))
                inside |= set(c)
    return taken + [p for p in pairs if not any(set(p) <= set(c) for c in taken)]


SEEDS, GAMMAS = range(8), (30, 5000)


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("epsilon", [0.1, 0.3, 20.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_published_is_what_the_boxes_choose(seed, epsilon, gamma):
    """The choice follows from the noisy scores alone, and these are InDif with noise."""
    records = random_rows(seed, 3000)
    domain = records.domain
    made = run(PrivSyn(rare=0.0, max_cells=gamma), records, epsilon=epsilon, seed=seed)
    assert made.model.inner.domain == domain  # no value was merged
    (scores,) = made.answers("dependence")
    assert scores.exact[0].tolist() == [math.floor(literal_indif(records, *p) + 1e-9) for p in pairs_of(domain)]
    phi = dict(zip(pairs_of(domain), scores.released[0].tolist(), strict=True))
    pairs = literal_dense(phi, {p: domain.cells(p) for p in phi}, 0.8 * made.ledger.capacity)
    chosen = literal_combined(pairs, phi, domain, gamma) or [(name,) for name in domain]
    assert made.measured[len(domain) :] == chosen


def test_the_boxes_are_put_to_the_test():
    """Of the runs above, some merge pairs and some are kept from it by gamma."""
    found = {}
    for seed, gamma in itertools.product(SEEDS, GAMMAS):
        records = random_rows(seed, 3000)
        made = run(PrivSyn(rare=0.0, max_cells=gamma), records, epsilon=20.0, seed=seed)
        found[seed, gamma] = max(map(len, made.measured))
    assert max(found.values()) > 2
    assert any(found[seed, 30] < found[seed, 5000] for seed in SEEDS)


def test_marginals_may_be_named():
    named = run(PrivSyn(marginals=[["b", "a"], ["c", "d"]]), chained())
    assert_trace(named, [("marginals", 0.1), ("marginals", 0.9)])  # no score is asked for
    assert named.measured[4:] == [("a", "b"), ("c", "d")]
    forced = run(PrivSyn(must_include=[["a", "d"]]), chained())
    assert any({"a", "d"} <= set(c) for c in forced.measured[4:])
    connected = run(PrivSyn(connect=True), chained(), epsilon=0.5, exact=True)
    assert any("d" in c for c in connected.measured[4:])


def test_baselines_of_its_evaluation_are_worse_or_run():
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, 5, 20_000)]
    for _ in range(5):
        columns.append(np.where(rng.random(20_000) < 0.7, (columns[-1] + 1) % 5, rng.integers(0, 5, 20_000)))
    table = pa.table({f"x{i}": column for i, column in enumerate(columns)})
    schema = Schema.from_domain({f"x{i}": 5 for i in range(6)})
    codec = Codec(schema, table.schema)

    def error(**options):
        runs = [weft.Synthesizer(0.3, method="privsyn", **options).fit(table, schema).sample() for _ in range(2)]
        return np.mean([k_way(codec.encode(table), codec.encode(made), 2).tvd for made in runs])

    assert error(accounting="pure", delta=0.0, allocation="equal") > error()
    assert error(selection="privbayes-indif") < 0.5
