"""Plausible deniability: the tests against the paper's definition, and what is said of a run that releases by them."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom, laplace
from weft_lab.methods.bayesnet import BayesNet, Family

from weft.engines import MemoryEngine
from weft.errors import BudgetError, ModelFileError
from weft.marginals.domain import Domain
from weft.marginals.records import Records
from weft.privacy import Adjacency, Budget, Charge, Ledger, Noise
from weft.privacy.deniability import MAX_DENIABLE_ROWS, UNIT, PlausibleTest
from weft.privacy.ledger import DENIABILITY
from weft.privacy.mechanisms import Mechanisms

DOMAIN = Domain(("a", "b", "c"), (2, 3, 2))
EVERY = np.array(list(itertools.product(*map(range, DOMAIN.shape))))
"""All possible records."""


def network(rng):
    families = [Family("a", (), rng.dirichlet(np.ones(2), 1)), Family("b", ("a",), rng.dirichlet(np.ones(3), 2))]
    return BayesNet(DOMAIN, 1.0, (*families, Family("c", ("a", "b"), rng.dirichlet(np.ones(2), 6))))


def chance(net, y, seed, kept):
    """Pr{y = M(seed)}: the kept attributes agree, and the others are drawn given what y has before them."""
    if (y[:kept] != seed[:kept]).any():
        return 0.0
    rows = [0, y[0], y[0] * 3 + y[1]]
    return float(np.prod([net.families[i].table[rows[i], y[i]] for i in range(kept, 3)]))


def seeds_of(rng, n):
    return np.column_stack([rng.integers(0, size, n) for size in DOMAIN.shape])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(0, 2), st.floats(1.01, 10))
def test_plausible_seeds_are_those_that_share_the_prefix(seed, n, kept, gamma):
    """By the definition: rows whose probability of giving y is in the class, of width gamma, of the seed's own."""
    rng = np.random.default_rng(seed)
    net, seeds = network(rng), seeds_of(rng, n)
    for own in seeds[:5]:
        y = next(y for y in EVERY[rng.permutation(len(EVERY))] if chance(net, y, own, kept) > 0)
        chances = np.array([chance(net, y, other, kept) for other in seeds])
        with np.errstate(divide="ignore"):
            classes = np.floor(-np.log(chances) / math.log(gamma))
        wanted = math.floor(-math.log(chance(net, y, own, kept)) / math.log(gamma))
        if kept:
            prefixes, counts = MemoryEngine(Records.of(DOMAIN, seeds.T)).groups(DOMAIN.names[:kept])
            counted = counts[(prefixes == y[:kept]).all(axis=1)].sum()
        else:
            counted = n
        assert (classes == wanted).sum() == counted


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 8))
def test_no_row_is_a_likelier_seed_than_k_others_even_if_omega_is_not_told(seed, n, k):
    """The mechanism by enumeration: draw a number of kept attributes, then a seed that passes for it, then the rest."""
    rng = np.random.default_rng(seed)
    net, seeds, test = network(rng), seeds_of(rng, n), PlausibleTest(k)
    law = np.zeros((n, len(EVERY)))  # P(row i is the seed, y is released)
    for kept in (1, 2):
        groups = [(seeds[:, :kept] == own[:kept]).all(axis=1).sum() for own in seeds]
        weights = test.weights(np.array(groups)) / np.array(groups)  # c L(c) is that of all c rows
        if weights.sum() == 0:
            continue
        for i, own in enumerate(seeds):
            drawn = np.array([chance(net, y, own, kept) for y in EVERY])
            law[i] += 0.5 * weights[i] / weights.sum() * drawn
    for released in law.T[law.sum(axis=0) > 0]:
        best = released.max()
        assert (released >= best * (1 - 1e-9)).sum() >= k
        assert best / released.sum() <= 1 / k + 1e-9


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 12),
    st.none() | st.floats(0.1, 3),
    st.none() | st.integers(0, 30),
    st.none() | st.integers(0, 60),
    st.lists(st.integers(1, 40), min_size=1, max_size=8),
)
def test_the_chance_to_pass_is_that_of_counting_as_told(k, epsilon0, above, more, counts):
    """Rows are looked at in a random order until so many are checked; counting stops at a cap; k may carry noise."""
    cap, checked = (None if extra is None else k + extra for extra in (above, more))
    test, counts = PlausibleTest(k, epsilon0, 4.0, cap, checked), np.array(counts)
    n = int(counts.sum())
    for c, weight in zip(counts, test.weights(counts), strict=True):
        h = np.arange(n + 1)
        p = (h == c).astype(float) if checked is None else hypergeom.pmf(h, n, c, min(checked, n))
        found = h if cap is None else np.minimum(h, cap)
        passes = found >= k if epsilon0 is None else laplace.cdf((found - k) * epsilon0)
        assert weight / UNIT == pytest.approx(c * (p * passes).sum(), abs=1e-6)
        if epsilon0 is None:
            assert c >= k or weight == 0


@pytest.mark.parametrize("epsilon0", [None, 2.0])
def test_too_few_seeds_never_pass_in_a_large_table(epsilon0):
    """The sum of half a million probabilities is 1 only nearly: what it lacks is no chance to pass."""
    k, n = 20, 600_000
    test = PlausibleTest(k, epsilon0, max_check_plausible=50_000)
    few = np.arange(1, k)
    rest = n - int(few.sum())
    for others in (np.ones(rest, np.int64), np.array([rest]), np.full(rest // 50_000, 50_000)):
        weights = test.weights(np.concatenate([few, others]))
        # Counted are c at most: with noise on k, no more than so many pass by themselves.
        most = PlausibleTest(k, epsilon0).weights(few)
        assert (weights[: k - 1] <= most).all()
        if epsilon0 is None:
            assert not weights[: k - 1].any()
    if epsilon0 is None:
        assert not test.weights(np.ones(n, np.int64)).any()


def test_records_leave_as_if_they_had_been_tried_for():
    """Monte Carlo: draw a seed, test it, try again; the mechanism draws from that law without trying."""
    rng = np.random.default_rng(0)
    counts, test = np.array([2, 5, 7, 30]), PlausibleTest(6, epsilon0=0.7)
    seeds = np.repeat(np.arange(4), counts)
    tried = rng.choice(seeds, 400_000)
    passed = tried[counts[tried] >= 6 + rng.laplace(0, 1 / 0.7, len(tried))]
    charge = Charge.deniable("records", test=test, records=200_000)
    (drawn,) = Mechanisms(Noise.seeded(1))(charge, [np.arange(4)[:, None], counts])
    made, expected = (np.bincount(x, minlength=4) / len(x) for x in (drawn[:, 0], passed))
    np.testing.assert_allclose(made, expected, atol=0.006)


def test_test_one_releases_nothing_with_fewer_seeds_and_may_release_nothing_at_all():
    charge = Charge.deniable("records", test=PlausibleTest(6), records=1000)
    (drawn,) = Mechanisms(Noise.seeded(1))(charge, [np.arange(3)[:, None], np.array([5, 6, 7])])
    assert set(drawn[:, 0]) == {1, 2}
    (drawn,) = Mechanisms(Noise.seeded(1))(charge, [np.arange(3)[:, None], np.array([5, 5, 5])])
    assert drawn.shape == (0, 1)


@pytest.mark.parametrize(
    "settings_",
    [
        {"k": 0},
        {"k": 2.5},
        {"k": MAX_DENIABLE_ROWS},
        {"k": 5, "gamma": 1.0},
        {"k": 5, "gamma": math.nan},
        {"k": 5, "epsilon0": 0.0},
        {"k": 5, "max_plausible": 4},
        {"k": 5, "max_check_plausible": 4},
        {"k": 5, "max_plausible": 7.5},
    ],
)
def test_a_test_that_makes_no_sense_is_refused(settings_):
    with pytest.raises(BudgetError):
        PlausibleTest(**settings_)


def test_a_test_survives_a_charge():
    for test in (PlausibleTest(5), PlausibleTest(5, 1.5, 2.0, 10, 1000)):
        charge = Charge.from_dict(Charge.deniable("records", test=test, records=3).to_dict())
        assert PlausibleTest.of(charge.terms) == test


def test_a_file_with_an_impossible_test_is_refused():
    ledger = Ledger(Budget(epsilon=1.0, delta=1e-5), "gaussian", Adjacency())
    ledger.charge(Charge.deniable("records", test=PlausibleTest(5), records=3))
    values = ledger.to_dict()
    for terms in (
        {},
        {"k": 0},
        {"k": 5, "gamma": math.inf},
        {"k": "five"},
        {"k": 5, "more": 1},
        {"k": 5, "gamma": None},
        None,
        [],
        [5],
        "k",
        5,
    ):
        with pytest.raises(ModelFileError):
            Ledger.from_dict(values | {"entries": [values["entries"][0] | {"terms": terms}]})


def test_theorem_one_speaks_of_test_two_only():
    assert PlausibleTest(50, 1.0).alone(2.0**-30) == pytest.approx(1 + math.log(1 + 4 / 29))
    assert PlausibleTest(50).alone(1e-6) is None
    assert PlausibleTest(50, 1.0, max_check_plausible=100).alone(1e-6) is None
    assert PlausibleTest(5, 0.1).alone(1e-9) is None
    assert PlausibleTest(50, 1.0).alone(0.0) is None


@pytest.mark.parametrize("accounting", ["gaussian", "zcdp", "pure"])
def test_a_ledger_with_deniable_records_states_no_epsilon(accounting, tmp_path):
    ledger = Ledger(
        Budget(epsilon=1.0, delta=0 if accounting == "pure" else 1e-5),
        accounting,
        Adjacency(),
        journal=tmp_path / "journal",
    )
    assert "differential privacy" in str(ledger.spend_statement())
    ledger.charge(Charge.deniable("records", test=PlausibleTest(5), records=3))
    for each in (ledger, Ledger.from_dict(ledger.to_dict() | {"stamps": []})):
        assert each.deniable
        assert each.stamps == (DENIABILITY,)
        assert str(each.spend_statement()) == DENIABILITY
        assert each.spend_statement().epsilon == math.inf
        assert each.spent_epsilon() == each.spent_epsilon(0.1) == math.inf
        assert "unpriced" in str(each)
    assert DENIABILITY in (tmp_path / "journal").read_text()
