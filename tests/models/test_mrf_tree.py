"""Junction trees: properties, sizes, refusals."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from weft_lab.methods.tree_growth import fits_with_clique, grow_tree

from weft.marginals.domain import Domain, make_clique
from weft.models.mrf import ModelTooLarge, junction_tree
from weft.models.mrf.junction_tree import RULES

NAMES = "abcdefghij"


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Domain, list[tuple[str, ...]]]:
    d = draw(st.integers(1, 10))
    names = NAMES[:d]
    domain = Domain.of({name: draw(st.integers(1, 4)) for name in names})
    cliques = draw(st.lists(st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True), max_size=12))
    return domain, [make_clique(c) for c in cliques]


@settings(max_examples=150, deadline=None)
@given(graphs(), st.sampled_from(["best", *RULES]))
def test_running_intersection_and_cover(case, order):
    domain, cliques = case
    tree = junction_tree(domain, cliques, order=order)
    assert all(tree.home(c) is not None for c in cliques)
    assert {name for c in tree.cliques for name in c} == set(domain.names)
    assert sorted(tree.order) == sorted(domain.names)
    # No clique lies in another; parents come first; separators are the intersections, a prefix in tree order.
    assert not any(set(a) <= set(b) for a, b in itertools.permutations(tree.cliques, 2))
    for i, (parent, separator) in enumerate(zip(tree.parents, tree.separators, strict=True)):
        assert parent < i
        shared = set(tree.cliques[i]) & set(tree.cliques[parent]) if parent >= 0 else set()
        assert set(separator) == shared and (parent < 0 or shared)
        assert set(tree.axes[i][: len(separator)]) == shared
    # The cliques that hold an attribute are connected.
    graph = nx.Graph()
    graph.add_nodes_from(range(len(tree.cliques)))
    graph.add_edges_from(tree.edges)
    assert nx.is_forest(graph)
    for name in domain.names:
        assert nx.is_connected(graph.subgraph([i for i, c in enumerate(tree.cliques) if name in c]))


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_the_components_of_the_graph_are_the_parts_of_the_tree(case):
    domain, cliques = case
    tree = junction_tree(domain, cliques)
    graph = nx.Graph()
    graph.add_nodes_from(domain.names)
    for c in cliques:
        graph.add_edges_from(itertools.pairwise(c))
    assert sum(parent < 0 for parent in tree.parents) == nx.number_connected_components(graph)


@settings(max_examples=100, deadline=None)
@given(graphs(), st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True), st.integers(1, 300))
def test_fits_says_what_building_the_tree_would_say(case, extra, limit):
    domain, cliques = case
    added = make_clique(name for name in extra if name in domain)
    if not added:
        return
    tree = junction_tree(domain, cliques)
    if max(tree.sizes) > limit:
        return
    try:
        built = junction_tree(domain, [*cliques, added], max_cells=limit, max_total=4 * limit)
    except ModelTooLarge:
        built = None
    # A clique already covered leaves the tree as it is, though building it anew might find another one.
    if tree.home(added) is None:
        assert fits_with_clique(tree, added, max_cells=limit, max_total=4 * limit) == (built is not None)
    else:
        assert fits_with_clique(tree, added, max_cells=limit, max_total=4 * limit) == (tree.cells <= 4 * limit)


def test_a_chordal_graph_gets_no_fill():
    domain = Domain.of(dict.fromkeys("abcdef", 3))
    cliques = [("a", "b", "c"), ("b", "c", "d"), ("d", "e"), ("e", "f")]
    assert set(junction_tree(domain, cliques).cliques) == set(cliques)


def test_a_cycle_is_triangulated_at_its_small_attributes():
    domain = Domain.of({"a": 100, "b": 2, "c": 100, "d": 2})
    tree = junction_tree(domain, [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")])
    assert set(tree.cliques) == {("a", "b", "d"), ("b", "c", "d")}
    assert tree.cells == 800


def test_refusal_names_the_clique_its_cells_and_the_remedy():
    domain = Domain.of({"age": 100, "job": 50, "town": 400})
    with pytest.raises(ModelTooLarge, match=r"age, job, town with 2,000,000 cells.*limit of 1,000.*max_cells"):
        junction_tree(domain, [("age", "job", "town")], max_cells=1000)
    with pytest.raises(ModelTooLarge, match=r"25,000 cells.*max_total"):
        junction_tree(domain, [("age", "job"), ("job", "town")], max_total=24_000)
    assert fits_with_clique(junction_tree(domain, []), ("age", "job"), max_cells=5000)
    assert not fits_with_clique(junction_tree(domain, []), ("age", "job"), max_cells=4999)


def test_unknown_attribute_is_named():
    with pytest.raises(ValueError, match="'z'"):
        junction_tree(Domain.of({"a": 2}), [("a", "z")])


def test_wide_tables_are_refused_without_being_built():
    domain = Domain.of({f"v{i:03}": 50 for i in range(129)})
    tree = junction_tree(domain, [(f"v{i:03}", f"v{i + 1:03}") for i in range(128)])
    assert max(tree.sizes) == 2500
    assert "128 cliques in 1 part" in tree.summary()
    assert fits_with_clique(tree, ("v000", "v002"), max_cells=125_000)
    assert not fits_with_clique(tree, ("v000", "v128"), max_cells=2500)
    everything = list(itertools.combinations(domain.names, 2))
    with pytest.raises(ModelTooLarge):
        junction_tree(domain, everything)


def test_sizes_and_bytes():
    tree = junction_tree(Domain.of({"a": 2, "b": 3, "c": 4}), [("a", "b"), ("b", "c")])
    assert tree.cells == 18 and tree.bytes >= 8 * 18
    assert np.prod(tree.domain.sizes(tree.cliques[0])) == tree.sizes[0]


def test_a_grown_tree_never_outgrows_its_limits() -> None:
    """A clique that a tree holds by fill edges alone still changes the next triangulation."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        d = int(rng.integers(8, 16))
        domain = Domain(tuple(f"c{i:02}" for i in range(d)), tuple(int(s) for s in rng.integers(2, 12, d)))
        pairs = list(itertools.combinations(domain.names, 2))
        ranked = [pairs[i] for i in rng.permutation(len(pairs))]
        tree = grow_tree(domain, ranked, max_cells=2000, max_total=5000)
        assert max(tree.sizes) <= 2000
        assert tree.cells <= 5000
