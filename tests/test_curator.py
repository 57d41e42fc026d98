"""The door itself: what it refuses before anything is charged, and sensitivities of its answers by brute force."""

import itertools
import math

import numpy as np
import pytest
from weft_lab.queries.entropy_queries import EntropyQueries

from weft.curator import Curator
from weft.curator.score_queries import MAX_TABLE_SUM
from weft.errors import BudgetError, MethodError
from weft.marginals.counting import count_marginals
from weft.marginals.domain import Domain
from weft.marginals.marginal import Marginal, compute_interaction
from weft.marginals.records import Records
from weft.privacy import Adjacency, Budget, Ledger, Noise
from weft.privacy.mechanisms import Mechanisms

DOMAIN = Domain(("a", "b"), (2, 3))


class Rows:
    """An engine over records in memory that remembers whether it was asked."""

    def __init__(self, records):
        self.records, self.domain, self.asked = records, records.domain, 0

    def count(self, cliques):
        self.asked += 1
        return count_marginals(self.records, cliques)

    def recode(self, maps):
        raise AssertionError("not needed here")


class Exact:
    """Lets exact answers out, to look at them."""

    private = False

    def __call__(self, charge, exact):
        self.charge, self.exact = charge, exact
        return [np.zeros((), np.int64) if charge.norm == "linf" else answer.copy() for answer in exact]


def curator(rows=((0, 0), (1, 2)), domain=DOMAIN, accounting="gaussian", adjacency=None, release=None):
    columns = list(zip(*rows, strict=True)) if len(rows) else [[] for _ in domain.names]
    engine = Rows(Records.of(domain, columns))
    budget = Budget(epsilon=1.0, delta=0.0 if accounting == "pure" else 1e-5)
    ledger = Ledger(budget, accounting, adjacency or Adjacency())
    return Curator(engine, ledger, release or Exact()), engine, ledger


GOOD = Marginal(("a",), np.array([1.0, 2.0]))


@pytest.mark.parametrize(
    "ask",
    [
        lambda c: c.gaps([Marginal(("a",), np.zeros(1))], share=0.1),  # would be broadcast
        lambda c: c.gaps([Marginal(("a",), np.array([math.nan, 0.0]))], share=0.1),
        lambda c: c.gaps([Marginal(("a",), np.array([math.inf, 0.0]))], share=0.1),
        lambda c: c.gaps([Marginal(("a",), np.array([float(MAX_TABLE_SUM), 0.0]))], share=0.1),
        lambda c: c.dependence(share=0.1, pairs=[("a",)]),
        lambda c: c.dependence(share=0.1, score="mutual information"),
        lambda c: c.measure([("b", "a")], share=0.1),
        lambda c: c.measure([("a", "z")], share=0.1),
        lambda c: c.measure([("a",)], share=0.0),
        lambda c: c.measure([("a",)], share=0.1, weights=[-1.0]),
        lambda c: c.interactions([("a",)], 2, share=0.1),
        lambda c: c.interactions([("a",)], 0, share=0.1),
        lambda c: c.interactions([("a", "z")], 2, share=0.1),
    ],
)
def test_nonsense_is_refused_before_it_is_charged(ask):
    door, engine, ledger = curator(accounting="zcdp")
    with pytest.raises((ValueError, MethodError)):
        ask(door)
    assert (ledger.spent, engine.asked) == (0, 0)


def test_a_table_too_large_to_count_is_refused_before_it_is_charged():
    wide = Domain(("a", "b"), (1 << 16, 1 << 16))
    door, engine, ledger = curator(rows=((0, 0),), domain=wide)
    with pytest.raises(MethodError, match="coarser bins"):
        door.measure([("a", "b")], share=0.5)
    assert (ledger.spent, engine.asked) == (0, 0)


def test_noise_too_large_to_draw_is_refused_before_it_is_charged():
    door, engine, ledger = curator()
    with pytest.raises(BudgetError, match="raise the budget"):
        door.measure([("a",)], share=1e-20)
    assert (ledger.spent, engine.asked) == (0, 0)


def test_overspending_is_refused_before_a_row_is_touched():
    door, engine, _ = curator()
    door.measure([("a",)], share=0.9)
    asked = engine.asked
    with pytest.raises(BudgetError, match="left"):
        door.measure([("b",)], share=0.2)
    assert engine.asked == asked


QUESTIONS = {
    "measure": lambda c: c.measure([("a",), ("a", "b")], share=0.5),
    "total": lambda c: c.total(share=0.5),
    "indif": lambda c: c.dependence(share=0.5),
    "r": lambda c: c.dependence(share=0.5, score="r"),
    "gaps": lambda c: c.gaps([Marginal(("a", "b"), np.full((2, 3), 1.4)), GOOD], share=0.5),
}


def moved(answer, other, norm):
    gap = np.abs(answer.astype(float) - other.astype(float)).ravel()
    return {"l1": gap.sum(), "l2": math.sqrt((gap**2).sum()), "linf": gap.max()}[norm]


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("accounting", ["gaussian", "pure"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_keep_to_their_declared_sensitivity(question, accounting, relation):
    """All neighbours of random small tables, through the curator itself."""
    rng = np.random.default_rng(7)
    records = list(itertools.product(range(2), range(3)))
    worst = 0.0
    for _ in range(60):
        rows = [records[i] for i in rng.integers(0, 6, rng.integers(0, 9))]
        if relation == "add-remove":
            neighbours = [[*rows, extra] for extra in records]
        else:
            neighbours = [[*rows[1:], other] for other in records] if rows else []
        ask = QUESTIONS[question]

        def answers(table, ask=ask):
            release = Exact()
            door, *_ = curator(table, accounting=accounting, adjacency=Adjacency(relation), release=release)
            ask(door)
            return release

        base = answers(rows)
        for neighbour in neighbours:
            there = answers(neighbour)
            assert there.charge.sensitivity == base.charge.sensitivity
            for x, y in zip(base.exact, there.exact, strict=True):
                worst = max(worst, moved(x, y, base.charge.norm))
    assert worst <= base.charge.sensitivity * (1 + 1e-12)
    if (question, relation) != ("total", "replace-one"):  # there n never moves, and we pay all the same
        assert worst >= base.charge.sensitivity / 4  # the bound is not idle


def test_dependence_is_exact_past_64_bits():
    from weft.curator.score_queries import dependence_of

    huge = np.array([[3 << 40, 1], [2, 5 << 40]])
    n = int(huge.sum())
    exact = sum(
        abs(n * int(huge[i, j]) - int(huge[i].sum()) * int(huge[:, j].sum())) for i in range(2) for j in range(2)
    )
    assert dependence_of(huge, 1) == exact // n
    assert dependence_of(np.zeros((2, 2), np.int64), 1) == 0


def test_figure_1_of_privsyn():
    """Gender and age: the paper's example has InDif = 0.08 n."""
    table = {(0, 0): 10, (0, 1): 10, (0, 2): 20, (1, 0): 10, (1, 1): 20, (1, 2): 30}
    rows = [cell for cell, many in table.items() for _ in range(many)]
    door, *_ = curator(rows)
    assert door.dependence(share=0.5) == {("a", "b"): 8.0}
    assert door.dependence(share=0.5, score="r") == {("a", "b"): 4.0}


def test_interactions_are_asked_at_their_own_sensitivity():
    rows = [(i % 2, i % 3) for i in range(50)] + [(0, 0)] * 40
    release = Exact()
    door, _, ledger = curator(rows, release=release)
    pair, single = door.interactions([("a", "b"), ("b",)], 1, share=0.5, weights=[3.0, 1.0])
    assert ledger.spent == pytest.approx(0.5 * ledger.capacity)
    assert release.charge.sensitivities == pytest.approx((6 * math.sqrt(1 - 1 / 6), 3 * math.sqrt(1 - 1 / 3)))
    assert all(answer.dtype == np.int64 for answer in release.exact)
    table = count_marginals(Records.of(DOMAIN, list(zip(*rows, strict=True))), [("a", "b")])[0]
    assert pair.table == pytest.approx(table - 90 / 6)  # no noise here: only the total is missing
    assert single.table == pytest.approx(table.sum(axis=0) - 90 / 3)
    assert (pair.order, single.order) == (1, 1)
    (both,) = door.interactions([("a", "b")], 2, share=0.1)
    a, b = table.sum(axis=1, keepdims=True) / 3, table.sum(axis=0, keepdims=True) / 2
    assert both.table == pytest.approx(table - a - b + 90 / 6)


def test_the_noise_of_an_interaction_is_what_its_sigma_says():
    domain = Domain(("a", "b"), (3, 4))
    rng = np.random.default_rng(0)
    rows = list(zip(rng.integers(0, 3, 500), rng.integers(0, 4, 500), strict=True))
    door, _, _ = curator(rows, domain, release=Mechanisms(Noise.seeded(1)))
    exact = (
        compute_interaction(count_marginals(Records.of(domain, list(zip(*rows, strict=True))), [("a", "b")])[0], 2) / 12
    )
    seen = [door.interactions([("a", "b")], 2, share=1e-4)[0] for _ in range(400)]
    noise = np.array([m.table - exact for m in seen])
    assert np.abs(noise.sum(axis=1)).max() < 1e-9 * seen[0].sigma * 12
    # of the noise on 12 cells the interaction keeps (3 - 1) (4 - 1) = 6 dimensions
    assert (noise**2).sum(axis=(1, 2)).mean() == pytest.approx(6 * seen[0].sigma ** 2, rel=0.1)


def test_pure_accounting_has_no_interactions():
    door, engine, ledger = curator(accounting="pure")
    with pytest.raises(ValueError, match="Gaussian"):
        door.interactions([("a", "b")], 2, share=0.1)
    assert (engine.asked, ledger.spent) == (0, 0)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("accounting", ["gaussian", "pure"])
def test_distances_and_tables_have_the_noise_that_is_stated(accounting, relation):
    release = Mechanisms(Noise.seeded(0))
    made, *_ = curator(accounting=accounting, adjacency=Adjacency(relation), release=release)
    asked = [Marginal(("a",), np.array([1.0, 1.0]))] * 3000
    spread = np.std(made.gaps(asked, share=0.5) - 0.0)
    assert made.gap_sigma(len(asked), 0.5) == pytest.approx(spread, rel=0.06)
    assert made.sigma_of(made.rho(0.3)) == pytest.approx(made.sigma(0.3))


def test_laplace_noise_on_scores_is_priced_score_by_score():
    """Each of m entropies is released with its own sensitivity; their rhos add up to the share, and no L1 norm does."""
    made, _, ledger = curator(accounting="laplace", rows=[(i % 2, i % 3) for i in range(60)])
    EntropyQueries.of(made).entropies([("a",), ("b",), ("a", "b")], share=0.3, rows=50)
    (charge,) = ledger.entries
    assert charge.sensitivities == (1000.0,) * 3 and len(set(charge.scales)) == 1 and charge.mechanism == "geometric"
    assert charge.cost == pytest.approx(3 * (1000 / charge.scales[0]) ** 2 / 2)
    assert charge.cost == pytest.approx(0.3 * ledger.capacity)
    assert made.gap_sigma(3, 0.1) == pytest.approx(math.sqrt(2) / math.sqrt(2 * 0.1 * ledger.capacity / 3))


@pytest.mark.parametrize("accounting", ["laplace", "pure", "gaussian"])
def test_scores_change_no_more_than_charged_when_a_row_is_added(accounting):
    rows = [(0, 1), (1, 2), (1, 1), (0, 0)]
    for added in itertools.product(range(2), range(3)):
        answers = []
        for held in (rows, [*rows, added]):
            release = Exact()
            made, _, ledger = curator(held, accounting=accounting, release=release)
            EntropyQueries.of(made).entropies([("a",), ("a", "b")], share=0.3, rows=3)
            answers.append(release.exact)
        (charge,) = ledger.entries
        norm = {"l1": 1, "l2": 2}[charge.norm]
        for one, other, bound in zip(*answers, charge.sensitivities, strict=True):
            assert np.linalg.norm((one - other).astype(float), norm) <= bound
