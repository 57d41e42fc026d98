"""Weighted rows: counts are sums of integer weights, and sensitivities follow from the mass of a unit."""

import itertools

import numpy as np
import pytest

from weft.curator import Curator
from weft.engines import MemoryEngine
from weft.marginals.counting import Counter
from weft.marginals.domain import Domain
from weft.marginals.marginal import Marginal
from weft.marginals.records import Records
from weft.privacy import Adjacency, Budget, Ledger

DOMAIN = Domain(("a", "b", "c"), (2, 300, 3))
CLIQUES = [(), ("a",), ("a", "b"), ("a", "b", "c"), ("b", "c")]


def some_records(rng, n):
    return Records.of(DOMAIN, [rng.integers(0, size, n) for size in DOMAIN.shape])


@pytest.mark.parametrize("rows", [0, 1, 1025, 40_000])
@pytest.mark.parametrize("threads", [1, 2])
def test_weighted_counts_are_those_of_repeated_rows(rows, threads):
    rng = np.random.default_rng(rows)
    records, weights = some_records(rng, rows), rng.integers(0, 5, rows)
    heavy = MemoryEngine(records, threads=threads, weights=weights, mass=9).count(CLIQUES)
    repeated = MemoryEngine(records.take(np.repeat(np.arange(rows), weights))).count(CLIQUES)
    for one, other in zip(heavy, repeated, strict=True):
        assert one.dtype == np.int64
        assert np.array_equal(one, other)


def test_weights_have_an_integer_type_and_a_mass():
    records = some_records(np.random.default_rng(0), 3)
    with pytest.raises(ValueError, match="maximum total weight"):
        MemoryEngine(records, weights=np.ones(3, np.int64))
    for wrong in (np.ones(3), np.ones(2, np.int64), -np.ones(3, np.int64)):
        with pytest.raises(ValueError, match="one weight each"):
            MemoryEngine(records, weights=wrong, mass=1)
    with pytest.raises(ValueError, match="one weight each"):
        Counter(DOMAIN, ((),)).add(records, np.zeros(1, np.int64), weights=np.ones(3))


def test_weighted_rows_refuse_what_is_not_a_count():
    engine = MemoryEngine(some_records(np.random.default_rng(0), 3), weights=np.ones(3, np.int64), mass=1)
    for query in (lambda: engine.groups(["a"]), lambda: engine.unit_sizes(3), lambda: engine.split([1.0], None)):
        with pytest.raises(ValueError, match="weighted rows cannot"):
            query()


class Exact:
    """Mechanisms without noise, which record the charges."""

    def __init__(self):
        self.charges = []

    def __call__(self, charge, answers):
        self.charges.append(charge)
        return [np.asarray(answer, np.float64) for answer in answers]


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("accounting", ["gaussian", "pure"])
def test_every_query_of_a_fit_moves_by_at_most_its_charged_sensitivity(relation, accounting):
    """All queries of a fit, over all units of mass 6: one to three rows of weight 6 // k in every cell."""
    domain, mass = Domain(("x", "y"), (2, 2)), 6
    rows = list(itertools.product(range(2), range(2)))
    units = [()] + [unit for k in (1, 2, 3) for unit in itertools.combinations_with_replacement(rows, k)]
    budget = Budget(epsilon=1.0, delta=1e-5) if accounting == "gaussian" else Budget(epsilon=1.0, delta=0.0)
    constant = [Marginal(("x", "y"), np.array([[7.0, 2.0], [0.0, 4.0]]))]

    def answer(owned):
        kept = [row for unit in owned for row in unit]
        weights = np.array([mass // len(unit) for unit in owned for _ in unit], np.int64)
        records = Records.of(domain, np.array(kept, np.int64).reshape(-1, 2).T)
        exact = Exact()
        ledger = Ledger(budget, accounting, Adjacency(relation, 1))
        curator = Curator(MemoryEngine(records, weights=weights, mass=mass), ledger, exact)
        tables = [curator.total(0.1).table]
        tables += [m.table for m in curator.measure([("x",), ("x", "y")], 0.1)]
        tables.append(curator.gaps(constant, 0.1))
        tables.append(np.array(list(curator.dependence(0.1).values())))
        joint = [np.asarray(tables[0]), *map(np.asarray, tables[1:3]), tables[3], tables[4]]
        if accounting == "gaussian":
            curator.interactions([("x", "y")], 2, 0.1)
        return joint, exact.charges

    norm = 1 if accounting == "pure" else 2
    base = [(), ((0, 0),), ((0, 1), (1, 1))]
    answers = {unit: answer([*base, unit]) for unit in units}
    pairs = [((), unit) for unit in units] if relation == "add-remove" else itertools.combinations(units, 2)
    worst = np.zeros(5)
    for one, other in pairs:
        (first, charges), (second, _) = answers[one], answers[other]
        worst = np.maximum(worst, [np.linalg.norm((a - b).ravel(), norm) for a, b in zip(first, second, strict=True)])
    stated = [np.atleast_1d(charge.sensitivity).max() for charge in charges[:4]]
    bounds = [stated[0], stated[1], stated[1], stated[2], stated[3]]
    assert (worst <= np.array(bounds) + 1e-9).all()
    assert worst[:3] == pytest.approx(bounds[:3])  # marginals and the total attain theirs
