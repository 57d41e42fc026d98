import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from weft_lab.methods.mst import fit_implied_tree

from weft.marginals.spanning_tree import spanning_tree


def implied_gaps(edges, correlation, d, total=1000.0):
    """Distances of fair two-valued columns on a tree: a pair's correlation is the product along its path."""
    graph = nx.Graph(edges)
    found = {}
    for a, b in itertools.combinations(range(d), 2):
        path = nx.shortest_path(graph, a, b)
        strength = np.prod([correlation[frozenset(edge)] for edge in itertools.pairwise(path)])
        found[f"x{a}", f"x{b}"] = float(strength * total)
    return found


COLUMN = np.array([500.0, 500.0])


@given(st.integers(3, 8), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_it_is_a_spanning_tree_and_finds_the_true_one(d, seed):
    rng = np.random.default_rng(seed)
    edges = [(int(rng.integers(i)), i) for i in range(1, d)]
    correlation = {frozenset(edge): float(rng.uniform(0.5, 0.95)) for edge in edges}
    gaps = implied_gaps(edges, correlation, d)
    tree = fit_implied_tree(gaps, {f"x{i}": COLUMN for i in range(d)})
    assert nx.is_tree(nx.Graph(tree))
    assert set(tree) == {(f"x{a}", f"x{b}") for a, b in edges}
    assert [gaps[pair] for pair in tree] == sorted((gaps[pair] for pair in tree), reverse=True)


def test_a_tree_that_implies_more_is_worth_a_slightly_weaker_edge():
    """A star whose hub edges are a little noisy: the heaviest tree hangs a leaf on a leaf."""
    edges = [(0, 1), (0, 2), (0, 3), (0, 4)]
    gaps = implied_gaps(edges, {frozenset(edge): 0.9 for edge in edges}, 5)
    gaps["x1", "x2"] = gaps["x0", "x2"] + 10  # noise has lifted one pair of leaves above a spoke
    columns = {f"x{i}": COLUMN for i in range(5)}
    assert ("x1", "x2") in spanning_tree(gaps)
    assert set(fit_implied_tree(gaps, columns)) == {(f"x{a}", f"x{b}") for a, b in edges}
    assert fit_implied_tree(gaps, columns, keep=1.01) == spanning_tree(gaps)
    assert fit_implied_tree(gaps, columns, widest=1) == spanning_tree(gaps)


@pytest.mark.parametrize("gaps", [{}, {("a", "b"): 3.0}, {("a", "b"): 3.0, ("c", "d"): 1.0}])
def test_small_cases_and_forests_are_left_alone(gaps):
    names = {name for pair in gaps for name in pair} or {"a"}
    assert fit_implied_tree(gaps, dict.fromkeys(names, COLUMN)) == spanning_tree(gaps)
