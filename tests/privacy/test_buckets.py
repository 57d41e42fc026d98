"""Mechanism 1 with classes of likelihood: brute force over all seeds, the theorem on small tables, end to end."""

import math

import numpy as np
import pyarrow as pa
import pytest
from weft_lab.methods.bayesnet import BayesNet, Family
from weft_lab.methods.bsg.seeded_records import RandomOmega
from weft_lab.queries.plausible_seeds import classify_likelihoods, plausible_seeds, until_passed
from weft_lab.queries.seed_queries import SeedQueries

import weft
from weft.curator import Curator
from weft.engines import MemoryEngine
from weft.errors import BudgetError, MethodError
from weft.marginals.domain import Domain
from weft.marginals.records import Records
from weft.privacy import Adjacency, Budget, Charge, Ledger, Noise
from weft.privacy.deniability import UNIT, PlausibleTest, theorem_one
from weft.privacy.mechanisms import Mechanisms
from weft.schema import Schema

DOMAIN = Domain(("a", "b", "c"), (2, 3, 2))
EVERY = np.array([(a, b, c) for a in range(2) for b in range(3) for c in range(2)])


def network(rng):
    tables = [rng.dirichlet(np.ones(2), 1), rng.dirichlet(np.ones(3), 2), rng.dirichlet(np.ones(2), 6)]
    parents = [(), ("a",), ("a", "b")]
    families = tuple(Family(c, p, t) for c, p, t in zip("abc", parents, tables, strict=True))
    return BayesNet(DOMAIN, 1.0, families)


def literal_chance(net, omegas, y, seed):
    """Pr{y = M(seed)}: one of the omegas is drawn; what is kept agrees, the rest is drawn given what y has before."""
    total = 0.0
    for omega in omegas:
        kept = 3 - omega
        if all(y[i] == seed[i] for i in range(kept)):
            rows = [0, y[0], y[0] * 3 + y[1]]
            total += math.prod(net.families[i].table[rows[i], y[i]] for i in range(kept, 3)) / len(omegas)
    return total


def literal_count(net, omegas, gamma, y, own, seeds):
    """Rows whose chance to give y lies between the same two powers of gamma as the seed's own."""

    def place(p):
        i = 0
        while p <= gamma ** -(i + 1):
            i += 1
        return i

    mine = place(literal_chance(net, omegas, y, own))
    chances = [literal_chance(net, omegas, y, other) for other in seeds]
    return sum(p > 0 and place(p) == mine for p in chances)


@pytest.mark.parametrize("omegas", [[1, 2], [1, 2, 3], [2]])
@pytest.mark.parametrize("gamma", [1.3, 2.0, 50.0])
@pytest.mark.parametrize("seed", range(4))
def test_plausible_seeds_are_what_brute_force_finds(seed, gamma, omegas):
    rng = np.random.default_rng(seed)
    net = network(rng)
    kernel = RandomOmega(net, omegas)
    seeds = EVERY[rng.integers(0, len(EVERY), 30)]
    records = kernel.grow(seeds, rng)
    likelihood = kernel.log_likelihood(records, seeds)
    for i, y in enumerate(records):
        expected = [literal_chance(net, omegas, y, other) for other in seeds]
        np.testing.assert_allclose(np.exp(likelihood[i]), expected, rtol=1e-9)
        assert expected[i] > 0
    found = plausible_seeds(np.diag(likelihood), likelihood, np.ones(30), gamma)
    assert found.tolist() == [
        literal_count(net, omegas, gamma, y, own, seeds) for y, own in zip(records, seeds, strict=True)
    ]
    rows, counts = np.unique(seeds, axis=0, return_counts=True)  # distinct rows and their number say the same
    grouped = plausible_seeds(np.diag(likelihood), kernel.log_likelihood(records, rows), counts, gamma)
    assert grouped.tolist() == found.tolist()


def test_gamma_matters_where_omega_is_not_told():
    rng = np.random.default_rng(1)
    kernel, seeds = RandomOmega(network(rng), [1, 3]), EVERY[rng.integers(0, len(EVERY), 40)]
    records = kernel.grow(seeds, rng)
    likelihood = kernel.log_likelihood(records, seeds)
    narrow, wide = (plausible_seeds(np.diag(likelihood), likelihood, np.ones(40), gamma) for gamma in (1.05, 1e6))
    assert (narrow < wide).any()


def test_a_record_is_drawn_with_its_likelihood():
    rng = np.random.default_rng(2)
    kernel = RandomOmega(network(rng), [1, 2])
    seed = np.array([1, 2, 0])
    drawn = kernel.grow(np.tile(seed, (40_000, 1)), rng)
    expected = np.exp(kernel.log_likelihood(EVERY, seed[None, :]))[:, 0]
    assert expected.sum() == pytest.approx(1.0)
    found = np.array([(drawn == y).all(axis=1).mean() for y in EVERY])
    assert np.abs(found - expected).max() < 5 * math.sqrt(0.25 / 40_000)


def released_law(net, omegas, test, rows):
    """The chance that each record leaves in one attempt, by the definition of Mechanism 1."""
    chances = np.array([[literal_chance(net, omegas, y, d) for d in rows] for y in EVERY])
    law = np.zeros(len(EVERY))
    for j in range(len(rows)):
        with np.errstate(divide="ignore"):
            found = plausible_seeds(np.log(chances[:, j]), np.log(chances), np.ones(len(rows)), test.gamma)
        law += chances[:, j] * test.chances(np.where(chances[:, j] > 0, found, 0)) / UNIT / len(rows)
    return law


@pytest.mark.parametrize("seed", range(12))
def test_one_attempt_keeps_to_theorem_one(seed):
    """On random tables and a row more: the divergence beyond e^epsilon is within delta, both ways, for every t."""
    rng = np.random.default_rng(seed)
    net, omegas = network(rng), [1, 2, 3]
    test = PlausibleTest(k=int(rng.integers(3, 8)), epsilon0=float(rng.uniform(0.3, 1.5)), gamma=2.0)
    n = int(rng.integers(test.k, 20))
    rows = EVERY[rng.integers(0, len(EVERY), n)]
    more = np.vstack([rows, EVERY[rng.integers(0, len(EVERY))]])
    one, two = released_law(net, omegas, test, rows), released_law(net, omegas, test, more)
    for t in range(1, test.k):
        epsilon = test.epsilon0 + math.log1p(test.gamma / t)
        delta = math.exp(-test.epsilon0 * (test.k - t)) / 2
        assert np.maximum(two - math.exp(epsilon) * one, 0).sum() <= delta + 1e-9
        assert np.maximum(one - math.exp(epsilon) * two, 0).sum() <= 1e-9
        assert theorem_one(test.k, test.epsilon0, test.gamma, 2 * delta) <= epsilon + 1e-9
        # Tried for until one passes: the laws of what leaves, given that something does.
        p = min(one.sum(), two.sum())
        more_epsilon, more_delta = until_passed(epsilon, delta, n, p)
        for a, b in ((one, two), (two, one)):
            assert np.maximum(a / a.sum() - math.exp(more_epsilon) * b / b.sum(), 0).sum() <= more_delta + 1e-9


def test_without_a_chance_to_pass_there_is_no_bound():
    assert until_passed(1.0, 0.5, 10, 0.4) == (math.inf, 1.0)


def test_under_test_one_no_record_leaves_with_fewer_plausible_seeds():
    rng = np.random.default_rng(3)
    net = network(rng)
    kernel = RandomOmega(net, [1, 2])
    records = Records.of(DOMAIN, EVERY[rng.integers(0, len(EVERY), 60)].T)
    test = PlausibleTest(k=20, gamma=2.0)
    ledger = Ledger(Budget(epsilon=1.0, delta=1e-6), "gaussian", Adjacency())
    curator = Curator(MemoryEngine(records), ledger, Mechanisms(Noise.seeded(1)))
    released = SeedQueries.of(curator).plausible_release(kernel, test, 200)
    assert 0 < len(released) < 200
    rows = np.column_stack(records.columns)
    for y in np.column_stack(released.columns)[:40]:
        logs = np.log(np.maximum([literal_chance(net, [1, 2], y, d) for d in rows], 1e-300))
        assert np.bincount(classify_likelihoods(logs, 2.0)[logs > -600]).max() >= 20  # some class has as many
    (entry,) = ledger.entries
    assert ledger.deniable and entry.mechanism == "deniable" and entry.terms["buckets"] == 1.0
    assert Charge.from_dict(entry.to_dict()).terms == entry.terms
    with pytest.raises(BudgetError, match="max_check_plausible"):
        SeedQueries.of(curator).plausible_release(kernel, PlausibleTest(k=3, max_check_plausible=10), 5)


def test_the_chance_to_pass_is_that_of_the_test():
    test = PlausibleTest(k=5, epsilon0=0.5)
    charge = Charge.deniable("try", test=test, records=20_000, buckets=True)
    candidates = np.arange(20_000)[:, None]
    counts = np.repeat([2, 5, 9], [8000, 8000, 4000])
    (passed,) = Mechanisms(Noise.seeded(0))(charge, [candidates, counts])
    for c, expected in ((2, 0.5 * math.exp(-1.5)), (5, 0.5), (9, 1 - 0.5 * math.exp(-2))):
        share = np.isin(candidates[counts == c][:, 0], passed).mean()
        assert abs(share - expected) < 0.03


def test_records_are_grown_by_classes_from_end_to_end(tmp_path):
    rng = np.random.default_rng(0)
    table = pa.table({name: rng.integers(0, 3, 400) for name in "xyzw"})
    schema = Schema.from_domain(dict.fromkeys("xyzw", 3))
    options = {"omega": "1-3", "rows": 50, "guarantee": "deniability", "k": 10, "epsilon0": 1.0, "test": "classes"}
    made = weft.Synthesizer(1.0, 1e-6, method="bsg", noise_seed=1, seed=1, journal=None, **options).fit(table, schema)
    assert made.ledger_.deniable and made.sample().num_rows == 50
    again = weft.Synthesizer(1.0, 1e-6, method="bsg", noise_seed=1, seed=1, journal=None, **options).fit(table, schema)
    assert again.sample(seed=2).equals(made.sample(seed=2))
    for idle in ({"test": "classes"}, options | {"max_check_plausible": 20}):
        with pytest.raises(MethodError):
            weft.Synthesizer(method="bsg", journal=tmp_path / "j", **idle).fit(table, schema)
