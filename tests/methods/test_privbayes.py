"""PrivBayes and its InDif variant: the choice of families, accounting, tables kept useful."""

import numpy as np
import pytest
from conftest import make_table

from weft.curator import Curator
from weft.engines import MemoryEngine
from weft.marginals.domain import Domain
from weft.marginals.records import Records
from weft.methods.privbayes import PrivBayes
from weft.methods.privbayes_indif import PrivBayesInDif
from weft.privacy import Adjacency, Budget, Ledger, Noise
from weft.privacy.mechanisms import Mechanisms
from weft.progress import silence

DOMAIN = Domain(("a", "b", "c", "noise"), (3, 3, 4, 5))


def rows(n, seed=0):
    """c follows a and b together; the last column follows nothing."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 3, (2, n))
    c = np.where(rng.random(n) < 0.9, (a + b) % 4, rng.integers(0, 4, n))
    return Records.of(DOMAIN, [a, b, c, rng.integers(0, 5, n)])


def ask(records, recipe, epsilon=8.0, seed=0):
    ledger = Ledger(Budget(epsilon=epsilon, delta=1e-6), recipe.accounting, Adjacency())
    curator = Curator(MemoryEngine(records), ledger, Mechanisms(Noise.seeded(seed)))
    return recipe.fit(curator, np.random.default_rng(seed), silence), ledger


def joint_error(model, records):
    real = np.zeros((3, 3, 4))
    np.add.at(real, tuple(records.columns[:3]), 1)
    made = model.marginal(["a", "b", "c"])
    return np.abs(real / real.sum() - made / made.sum()).sum() / 2


@pytest.mark.parametrize(
    "recipe", [PrivBayes(), PrivBayes(accounting="zcdp"), PrivBayesInDif(), PrivBayesInDif(accounting="pure")]
)
def test_a_relation_of_three_columns_is_learned(recipe):
    records = rows(20_000)
    model, ledger = ask(records, recipe)
    assert joint_error(model, records) < 0.15
    assert ledger.spent == pytest.approx(ledger.capacity)


def test_privbayes_is_pure_and_asks_as_its_paper_says():
    _, ledger = ask(rows(5000), PrivBayes(), epsilon=1.0)
    noise = ["geometric"] * 2  # columns, rows
    assert [entry.mechanism for entry in ledger.entries] == [*noise, *["exponential"] * 3, "geometric"]
    choices = [entry.cost for entry in ledger.entries if entry.mechanism == "exponential"]
    assert sum(choices) == pytest.approx(0.15)
    assert {entry.sensitivity for entry in ledger.entries if entry.mechanism == "exponential"} == {2.0}


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
            Curator(MemoryEngine(Records.of(DOMAIN, each.T)), ledger, Peek()).choose_family(family, 0.5)
        (sensitivity, one), (_, two) = seen[-2:]
        assert np.abs(one - two).max() <= sensitivity
        assert one[1] == two[1] == 0  # no parents, nothing told


def test_more_candidates_than_wanted_mean_fewer_parents():
    domain = Domain(tuple("abcdefghij"), (2,) * 10)
    offered = PrivBayes(max_candidates=40)._offer(domain, list("abcdefgh"), 64)
    assert len(offered) <= 40
    assert {len(parents) for _, parents in offered} == {1}


def test_one_column_is_a_network_too():
    made = make_table(50)
    records = Records.of(Domain(("a",), (4,)), [np.arange(made.num_rows) % 4])
    for recipe in (PrivBayes(), PrivBayesInDif()):
        model, _ = ask(records, recipe)
        assert model.order == ("a",)
