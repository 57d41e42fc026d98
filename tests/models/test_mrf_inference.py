"""Exact marginals against brute force over the whole domain."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.marginals.domain import Domain, make_clique
from weft.marginals.marginal import Marginal
from weft.models.mrf import ImpossibleEvidenceError, ModelTooLarge, calibrate_tree, junction_tree
from weft.models.mrf.message_passing import add_logarithms, exponentiate_row, plan_calibration, plan_sums

NAMES = "abcdefghij"


def joint(domain, potentials, total, zeros=()):
    """Counts over the whole domain, by definition."""
    logs = np.zeros(domain.shape)
    for c, table in [*potentials.items(), *((z.clique, np.where(z.table, -np.inf, 0.0)) for z in zeros)]:
        ranked = sorted(c, key=domain.index)
        moved = np.transpose(table, [c.index(name) for name in ranked])
        logs = logs + moved.reshape([domain.size(name) if name in c else 1 for name in domain.names])
    weights = np.exp(logs - logs.max())
    return total * weights / weights.sum()


def down(full, domain, c):
    """The marginal of a full table over a clique, axes in clique order."""
    kept = [name for name in domain.names if name in c]
    table = full.sum(axis=tuple(i for i, name in enumerate(domain.names) if name not in c))
    return np.transpose(table, [kept.index(name) for name in c])


@st.composite
def models(draw):
    d = draw(st.integers(1, 10))
    largest = 3 if d <= 7 else 2
    domain = Domain.of({name: draw(st.integers(1, largest)) for name in draw(st.permutations(NAMES[:d]))})
    cliques = draw(st.lists(st.lists(st.sampled_from(domain.names), min_size=1, max_size=4, unique=True), max_size=8))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from([0.0, 1.0, 10.0, 300.0]))
    potentials = {make_clique(c): scale * rng.normal(size=domain.sizes(make_clique(c))) for c in cliques}
    zeros = []
    possible = [rng.integers(size) for size in domain.shape]
    for c in list(potentials)[:: draw(st.integers(1, 3))]:
        table = rng.random(domain.sizes(c)) < 0.5
        table[tuple(possible[domain.index(name)] for name in c)] = False
        zeros.append(Marginal(c, table))
        if draw(st.booleans()):
            # The same as -inf potentials.
            potentials[c] = np.where(table, -np.inf, potentials[c])
    return domain, potentials, zeros


@settings(max_examples=200, deadline=None)
@given(models(), st.data())
def test_marginals_equal_brute_force(model, data):
    domain, potentials, zeros = model
    tree = junction_tree(domain, potentials)
    beliefs = calibrate_tree(tree, potentials, 100.0, zeros)
    full = joint(domain, potentials, 100.0, zeros)
    for c in [*tree.cliques, *potentials]:
        np.testing.assert_allclose(beliefs.marginal(c), down(full, domain, c), rtol=1e-8, atol=1e-8)
    asked = data.draw(
        st.lists(st.lists(st.sampled_from(domain.names), max_size=5, unique=True).map(make_clique), max_size=6)
    )
    for c, table in zip(asked, beliefs.many(asked), strict=True):
        np.testing.assert_allclose(table, down(full, domain, c), rtol=1e-8, atol=1e-8)


def test_far_apart_potentials_do_not_underflow():
    # Slices whose weights differ by e^2000 and are brought back by the neighbour: any linear scaling would lose them.
    domain = Domain.of({"a": 2, "b": 2, "c": 2})
    first = np.array([[0.0, -2000.0], [0.5, -2000.0]])
    second = np.array([[-2000.0, -2000.5], [0.0, 0.25]])
    beliefs = calibrate_tree(
        junction_tree(domain, [("a", "b"), ("b", "c")]), {("a", "b"): first, ("b", "c"): second}, 1.0
    )
    expected = joint(domain, {("a", "b"): first, ("b", "c"): second}, 1.0)
    np.testing.assert_allclose(beliefs.marginal(("a", "c")), down(expected, domain, ("a", "c")), rtol=1e-9)
    assert beliefs.marginal(("b",)).min() > 0.1


def test_disconnected_and_untouched_attributes_are_independent():
    domain = Domain.of({"a": 2, "b": 3, "c": 2, "d": 4})
    table = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    beliefs = calibrate_tree(junction_tree(domain, [("a", "b")]), {("a", "b"): table}, 60.0)
    np.testing.assert_allclose(beliefs.marginal("d"), 15.0)
    np.testing.assert_allclose(
        beliefs.marginal("acd"), np.multiply.outer(beliefs.marginal("a"), np.full((2, 4), 1 / 8))
    )
    assert beliefs.marginal(()) == pytest.approx(60.0)


def test_no_possible_record_is_an_error():
    domain = Domain.of({"a": 2, "b": 2})
    tree = junction_tree(domain, [("a", "b")])
    barred = [Marginal(("a",), np.array([True, False])), Marginal(("a", "b"), np.array([[False, False], [True, True]]))]
    with pytest.raises(ImpossibleEvidenceError):
        calibrate_tree(tree, {}, 1.0, barred)


def test_too_large_an_answer_is_refused():
    domain = Domain.of({f"v{i}": 30 for i in range(8)})
    beliefs = calibrate_tree(junction_tree(domain, []), {}, 1.0)
    with pytest.raises(ModelTooLarge, match="fewer columns"):
        beliefs.marginal(domain.names)


def test_many_marginals_of_a_large_clique_share_a_ladder():
    rng = np.random.default_rng(5)
    domain = Domain.of({f"v{i:02}": 2 for i in range(16)})
    whole = make_clique(domain.names)
    potentials = {whole: rng.normal(size=domain.shape)}
    beliefs = calibrate_tree(junction_tree(domain, [whole]), potentials, 10.0)
    full = joint(domain, potentials, 10.0)
    asked = [*list(itertools.combinations(whole, 3))[::9], whole[:9], ("v03",), whole[4:12], whole]
    for c, table in zip(asked, beliefs.many(asked), strict=True):
        np.testing.assert_allclose(table, down(full, domain, c), rtol=1e-9)
    code, *_ = plan_sums(domain, whole, asked)
    sums = int((code[:, 3] * code[:, 4] * code[:, 5]).sum())
    assert sums < 0.2 * len(asked) * domain.cells(whole)


def test_a_plan_visits_each_large_clique_a_few_times():
    rng = np.random.default_rng(6)
    domain = Domain.of({f"v{i:02}": 2 for i in range(16)})
    tables = list(dict.fromkeys(make_clique(rng.choice(domain.names, 4, replace=False)) for _ in range(60)))
    tree = junction_tree(domain, tables)
    code = plan_calibration(tree, [tree.in_order(c) for c in tables]).code
    assert int((code[:, 3] * code[:, 4] * code[:, 5]).sum()) < 25 * tree.cells


def test_exponentials_and_logarithms_equal_the_library():
    rng = np.random.default_rng(7)
    x = np.concatenate([-rng.exponential(20, 10_000), [0.0, -0.0, -1e-300, -707.9, -708.1, -1e308, -np.inf]])
    found = x.copy()
    exponentiate_row(found)
    np.testing.assert_allclose(found, np.where(x > -708, np.exp(x), 0.0), rtol=5e-16, atol=0)
    z = np.concatenate([1 + rng.exponential(50, 10_000), 2.0 ** np.arange(40), [1.0, 1 + 1e-15, 2**0.5, 1e300]])
    sums = np.zeros(len(z))
    add_logarithms(sums, z)
    np.testing.assert_allclose(sums, np.log(z), rtol=1e-15, atol=1e-15)
    below = np.array([-np.inf])
    add_logarithms(below, np.zeros(1))
    assert below[0] == -np.inf
