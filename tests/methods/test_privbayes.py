"""PrivBayes: the choice of families, what it costs, and tables that stay useful."""

import itertools
import math

import numpy as np
import pytest
from recipes import Taped, assert_trace, assert_weighted_by_size, counts, random_rows, run
from weft_lab.methods.privbayes import PrivBayes
from weft_lab.methods.privbayes_indif import PrivBayesInDif
from weft_lab.queries.selection_queries import SelectionQueries

from weft.curator import Curator
from weft.engines import MemoryEngine
from weft.marginals.domain import Domain
from weft.marginals.records import Records
from weft.privacy import Adjacency, Budget, Ledger
from weft.progress import ignore_event

DOMAIN = Domain(("a", "b", "c", "noise"), (3, 3, 4, 5))


def rows(n, seed=0):
    """c follows a and b together; the last column follows nothing."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 3, (2, n))
    c = np.where(rng.random(n) < 0.9, (a + b) % 4, rng.integers(0, 4, n))
    return Records.of(DOMAIN, [a, b, c, rng.integers(0, 5, n)])


def ask(records, recipe, epsilon=8.0, seed=0):
    made = run(recipe, records, epsilon, 0.0 if recipe.accounting == "pure" else 1e-6, seed)
    return made.model, made.ledger


def joint_error(model, records):
    real = counts(records, ("a", "b", "c"))
    made = model.marginal(["a", "b", "c"])
    return np.abs(real / real.sum() - made / made.sum()).sum() / 2


@pytest.mark.parametrize("accounting", ["pure", "zcdp"])
def test_the_budget_is_for_columns_rows_choices_and_families(accounting):
    made = run(PrivBayes(accounting=accounting), rows(5000), epsilon=1.0, delta=0.0 if accounting == "pure" else 1e-6)
    assert_trace(made, [("marginals", 0.4), ("total", 0.01), *[("choice", 0.05)] * 3, ("marginals", 0.44)])
    choices = [entry for entry in made.ledger.entries if entry.purpose == "choice"]
    assert {(entry.mechanism, entry.sensitivity) for entry in choices} == {("exponential", 2.0)}
    if accounting == "pure":
        assert [entry.epsilon for entry in choices] == pytest.approx([0.05] * 3)
        assert {entry.mechanism for entry in made.ledger.entries} == {"geometric", "exponential"}
    else:  # a choice of epsilon is epsilon^2 / 8 zCDP
        assert [entry.epsilon**2 / 8 for entry in choices] == pytest.approx([0.05 * made.ledger.capacity] * 3)


@pytest.mark.parametrize("accounting", ["pure", "zcdp"])
def test_larger_tables_have_more_of_the_budget(accounting):
    made = run(PrivBayes(accounting=accounting), rows(5000), delta=0.0 if accounting == "pure" else 1e-6)
    assert_weighted_by_size(made, DOMAIN, first=4)


def literal_score(records, child, parents):
    """Half of sum |n_ij - n_i n_j / n|, the configurations of the parents being the codes of one attribute."""
    table = np.moveaxis(counts(records, sorted((child, *parents))), sorted((child, *parents)).index(child), 0)
    table = table.reshape(records.domain.size(child), -1)
    cells = itertools.product(range(table.shape[0]), range(table.shape[1]))
    n = len(records)
    return sum(abs(table[i, j] - table[i].sum() * table[:, j].sum() / n) for i, j in cells) / 2


def literal_offer(domain, placed, cells):
    """Every attribute with every set of placed ones that fits and to which none can be added."""

    def fits(child, parents):
        return domain.cells([child, *parents]) <= cells

    offered = []
    for child in (name for name in domain if name not in placed):
        sets = [s for k in range(len(placed) + 1) for s in itertools.combinations(placed, k) if fits(child, s) or not s]
        offered += [(child, s) for s in sets if not any(set(s) < set(other) for other in sets)]
    return offered


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("theta", [1.0, 20.0])
@pytest.mark.parametrize("seed", range(3))
def test_every_choice_is_among_all_maximal_useful_families_by_their_score(seed, theta, exact):
    records = random_rows(seed, 300)
    domain, d = records.domain, len(records.domain)
    ledger, release = Ledger(Budget(epsilon=2.0, delta=0.0), "pure", Adjacency()), Taped(seed, exact)
    curator = Curator(MemoryEngine(records), ledger, release)
    _, families = PrivBayes(theta=theta).choose(curator, np.random.default_rng(seed), ignore_event)
    assert [len(family) for family in families[:1]] == [1]
    count, *choices = release.tape
    cells = max(1.0, float(count.released[0]) / (theta * d / (2.0 * (1 - 0.01 - 0.15))))  # n over theta scales
    placed = list(families[0])
    for answer, family in zip(choices, families[1:], strict=True):
        (child,) = set(family) - set(placed)
        scores = {
            (child, frozenset(parents)): math.floor(literal_score(records, child, parents) + 1e-9)
            for child, parents in literal_offer(domain, placed, cells)
        }
        assert sorted(answer.exact[0].tolist()) == sorted(scores.values())
        taken = scores[child, frozenset(family) - {child}]
        assert taken == answer.exact[0][int(answer.released[0])]
        assert not exact or taken == max(scores.values())
        placed.append(child)


@pytest.mark.parametrize(
    "recipe", [PrivBayes(), PrivBayes(accounting="zcdp"), PrivBayesInDif(), PrivBayesInDif(accounting="pure")]
)
def test_a_relation_of_three_columns_is_learned(recipe):
    records = rows(20_000)
    model, ledger = ask(records, recipe)
    assert joint_error(model, records) < 0.15
    assert ledger.spent == pytest.approx(ledger.capacity)


def test_few_rows_mean_small_tables():
    model, _ = ask(rows(300), PrivBayes(share_total=0.2), epsilon=0.5)
    assert max(len(family.parents) for family in model.families) == 0
    model, _ = ask(rows(50_000), PrivBayes(), epsilon=8.0)
    assert max(len(family.parents) for family in model.families) == 3


def one_way_error(model, records):
    errors = []
    for name in DOMAIN:
        real = np.bincount(records.column(name), minlength=DOMAIN.size(name)) / len(records)
        made = model.marginal([name])
        errors.append(np.abs(real - made / made.sum()).sum() / 2)
    return np.mean(errors)


def test_columns_measured_alone_keep_their_marginals():
    records = rows(20_000)

    def error(columns):
        runs = [ask(records, PrivBayes(share_columns=columns), 0.5, seed)[0] for seed in range(6)]
        return np.mean([one_way_error(model, records) for model in runs])

    assert error(0.4) < 0.75 * error(0.01)


def test_the_whole_budget_is_spent_even_where_no_attribute_has_a_parent():
    model, ledger = ask(rows(300), PrivBayes(share_total=0.2), epsilon=0.5)
    assert all(not family.parents for family in model.families)
    assert ledger.spent == pytest.approx(ledger.capacity)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_the_score_of_a_family_keeps_to_its_sensitivity(relation):
    """Over random small tables: R of an attribute and two parents moves by at most the declared sensitivity."""
    adjacency = Adjacency(relation)
    family = [("c", ("a", "b")), ("a", ()), ("noise", ("a", "b", "c"))]
    seen = []

    class Peek:
        private = False

        def __call__(self, charge, exact):
            seen.append((charge.sensitivity, exact[0]))
            return [np.array(0)]

    rng = np.random.default_rng(1)
    for _ in range(150):
        n = int(rng.integers(1, 12))
        table = np.column_stack([rng.integers(0, size, n) for size in DOMAIN.shape])
        other = np.vstack([table, [rng.integers(0, size) for size in DOMAIN.shape]])
        if relation == "replace-one":
            other = other[1:]
        for each in (table, other):
            ledger = Ledger(Budget(epsilon=1.0, delta=0), "pure", adjacency)
            curator = Curator(MemoryEngine(Records.of(DOMAIN, each.T)), ledger, Peek())
            SelectionQueries.of(curator).choose_family(family, 0.5)
        (sensitivity, one), (_, two) = seen[-2:]
        assert np.abs(one - two).max() <= sensitivity
        assert one[1] == two[1] == 0  # no parents, nothing told


def test_more_candidates_than_wanted_mean_fewer_parents():
    domain = Domain(tuple("abcdefghij"), (2,) * 10)
    offered = PrivBayes(max_candidates=40)._offer(domain, list("abcdefgh"), 64)
    assert len(offered) <= 40
    assert {len(parents) for _, parents in offered} == {1}


def test_one_column_is_a_network_too():
    made = run(PrivBayes(), Records.of(Domain(("a",), (4,)), [np.arange(50) % 4]), delta=0.0)
    assert made.model.order == ("a",)
    assert_trace(made, [("marginals", 0.4), ("total", 0.01), ("marginals", 0.59)])
