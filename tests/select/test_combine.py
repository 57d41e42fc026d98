import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.marginals.domain import Domain
from weft.methods.privsyn import combine_cliques


def literal_algorithm_2(pairs, domain, max_cells, dependence):
    """PrivSyn's Algorithm 2 over all subsets of attributes, in the documented order."""
    names = {name for pair in pairs for name in pair}
    strength = {n: sum(dependence.get(p, 0.0) for p in pairs if n in p) for n in names}
    ranked = sorted(names, key=lambda n: (-strength[n], n))
    covered, merged = set(), []
    for size in range(len(names), 2, -1):
        for c in itertools.combinations(ranked, size):
            if any(tuple(sorted(edge)) not in pairs for edge in itertools.combinations(c, 2)):
                continue
            if len(covered & set(c)) <= 2 and domain.cells(c) <= max_cells:
                merged.append(tuple(sorted(c)))
                covered |= set(c)
    return merged + [p for p in pairs if not any(set(p) <= set(c) for c in merged)]


@given(
    st.integers(2, 8),
    st.floats(0.2, 1.0),
    st.sampled_from([8, 30, 100, 5000]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=200, deadline=None)
def test_search_equals_brute_force(d, density, max_cells, scored, seed):
    rng = np.random.default_rng(seed)
    names = tuple(f"x{i}" for i in range(d))
    domain = Domain(names, tuple(rng.integers(1, 7, d).tolist()))
    pairs = [p for p in itertools.combinations(names, 2) if rng.random() < density]
    scores = {p: float(rng.normal(100, 50)) for p in pairs} if scored else {}
    got = combine_cliques(pairs, domain, max_cells=max_cells, dependence=scores or None)
    assert got == literal_algorithm_2(pairs, domain, max_cells, scores)


def covers(pairs, cliques):
    return all(any(set(p) <= set(c) for c in cliques) for p in pairs)


def test_a_complete_graph_of_forty_binary_attributes():
    names = tuple(f"x{i:02d}" for i in range(40))
    domain = Domain(names, (2,) * 40)
    pairs = list(itertools.combinations(names, 2))
    rng = np.random.default_rng(0)
    scores = {p: float(rng.normal(100, 50)) for p in pairs}
    for dependence in (None, scores):
        cliques = combine_cliques(pairs, domain, dependence=dependence)
        merged = [c for c in cliques if len(c) > 2]
        assert max(map(len, merged)) == 12  # 2^12 = 4096 is the largest within 5000 cells
        assert covers(pairs, cliques)
        assert all(len(set(a) & set(b)) <= 2 for a, b in itertools.combinations(merged, 2))


def test_a_dense_selection_over_97_attributes_of_mixed_sizes():
    rng = np.random.default_rng(1)
    names = tuple(f"x{i:02d}" for i in range(97))
    domain = Domain(names, tuple(rng.integers(2, 20, 97).tolist()))
    everything = list(itertools.combinations(names, 2))
    # Half of the edges lie among 30 hub attributes, as in real selections.
    hubs = [p for p in everything if p[1] < "x30"]
    chosen = {hubs[i] for i in rng.choice(len(hubs), 350, replace=False)}
    chosen |= {everything[i] for i in rng.choice(len(everything), 350, replace=False)}
    pairs = sorted(chosen)
    cliques = combine_cliques(pairs, domain)
    assert covers(pairs, cliques)
    assert any(len(c) > 2 for c in cliques)
    assert all(domain.cells(c) <= 5000 for c in cliques if len(c) > 2)
    assert len(set(cliques)) == len(cliques)


def test_a_hard_graph_ends():
    # 60 binary attributes in 20 groups of three without edges inside: 3^20 cliques, none of more than 20 attributes.
    names = tuple(f"x{i:02d}" for i in range(60))
    domain = Domain(names, (1,) * 60)
    pairs = [(a, b) for a, b in itertools.combinations(names, 2) if int(a[1:]) // 3 != int(b[1:]) // 3]
    cliques = combine_cliques(pairs, domain)
    assert covers(pairs, cliques)
    assert max(map(len, cliques)) == 20


def test_stronger_attributes_are_merged_first():
    domain = Domain(("a", "b", "c", "d"), (2, 2, 2, 2))
    pairs = [("a", "b"), ("a", "c"), ("b", "c"), ("b", "d"), ("c", "d")]
    weak_first = {("a", "b"): 1.0, ("a", "c"): 1.0, ("b", "c"): 5.0, ("b", "d"): 9.0, ("c", "d"): 9.0}
    assert combine_cliques(pairs, domain, dependence=weak_first)[0] == ("b", "c", "d")
    assert combine_cliques(pairs, domain)[0] == ("a", "b", "c")


def test_wider_and_single_cliques_pass_through():
    domain = Domain(("a", "b", "c", "d"), (2, 2, 2, 2))
    given_ = [("a", "b", "d"), ("a", "b"), ("a", "c"), ("b", "c"), ("c",), ("d",)]
    assert combine_cliques(given_, domain) == [("a", "b", "c"), ("a", "b", "d"), ("d",)]
    assert combine_cliques([], domain) == []
