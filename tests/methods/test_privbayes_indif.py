"""PrivBayes(InDif): one release of all scores, a greedy network from it, and tables that stay useful."""

import math

import numpy as np
import pytest
from recipes import LINKS, assert_trace, chained, literal_indif, pairs_of, random_rows, run
from weft_lab.methods.privbayes_indif import PrivBayesInDif

from weft.marginals.domain import Domain
from weft.marginals.records import Records


@pytest.mark.parametrize("accounting", ["gaussian", "paper", "pure"])
def test_a_hundredth_for_the_rows_a_tenth_for_the_scores_the_rest_for_the_tables(accounting):
    recipe = PrivBayesInDif(accounting=accounting)
    made = run(recipe, chained(), delta=0.0 if accounting == "pure" else 1e-6)
    assert_trace(made, [("total", 0.01), ("dependence", 0.1), ("marginals", 0.89)])
    assert made.sigmas == pytest.approx([made.sigmas[0]] * len(made.sigmas))  # evenly


def test_the_links_of_a_chain_are_in_its_families():
    made = run(PrivBayesInDif(max_parents=1), chained(), epsilon=8.0)
    assert set(made.measured) > LINKS
    assert len(made.measured) == 3


def literal_network(phi, domain, most, cells):
    """From the attribute of the greatest summed score on: the attribute whose parents tell most about it comes next."""

    def score(x, y):
        return phi[tuple(sorted((x, y)))]

    first = max(domain, key=lambda x: sum(score(x, y) for y in domain if y != x))
    placed, families = [first], []
    while len(placed) < len(domain):
        offered = []
        for x in (name for name in domain if name not in placed):
            parents = []
            for y in sorted(placed, key=lambda y: -score(x, y)):
                if domain.cells([x, y, *parents]) <= cells and len(parents) < most and (score(x, y) > 0 or not parents):
                    parents.append(y)
            offered.append((bool(parents), sum(score(x, y) for y in parents), x, parents))
        *_, child, parents = max(offered, key=lambda one: one[:2])
        families.append(tuple(sorted([child, *parents])))
        placed.append(child)
    return families if any(first in family for family in families) else [(first,), *families]


@pytest.mark.parametrize("theta", [1.0, 20.0])
@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.parametrize("seed", range(4))
def test_the_network_is_the_greedy_one_on_noisy_scores(seed, most, theta):
    records = random_rows(seed)
    domain = records.domain
    made = run(PrivBayesInDif(max_parents=most, theta=theta), records, seed=seed)
    rows, scores = made.tape[:2]
    assert scores.exact[0].tolist() == [math.floor(literal_indif(records, *p) + 1e-9) for p in pairs_of(domain)]
    phi = dict(zip(pairs_of(domain), scores.released[0].tolist(), strict=True))
    sigma = math.sqrt(len(domain) / (2 * 0.89 * made.ledger.capacity))
    cells = max(1.0, float(rows.released[0]) / (theta * sigma))  # theta-useful
    assert made.measured == literal_network(phi, domain, most, cells)


def test_one_column_is_a_network_too():
    records = Records.of(Domain(("a",), (4,)), [np.arange(50) % 4])
    made = run(PrivBayesInDif(), records)
    assert made.model.order == ("a",)
    assert_trace(made, [("total", 0.01), ("marginals", 0.99)])
