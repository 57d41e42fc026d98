"""DenseMarg: select pairs while their dependence exceeds their noise (PrivSyn 4.2, Algorithm 1).

Leaving pair i out costs its dependence phi_i (InDif: the L1 distance, in counts, between the pair's table and the
product of its margins). Measuring a set X with the optimal shares of rho costs T^1.5 / sqrt(pi rho) counts of L1 noise,
T being the sum over X of cells^(2/3). The greedy step is then one vectorised minimum: the paper's inner loop over all
pairs reduces to arithmetic on T, with the same selection.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Array
from weft.methods.common.allocation import noise_error


@dataclass(frozen=True)
class Trace:
    """A selection with the expected error after each step. Privacy: it depends on noisy scores only."""

    cliques: list[Clique]
    """The selection in order: required cliques, greedy ones, connecting ones."""
    errors: Array
    """Expected total L1 error in counts: before the first step, then after each clique."""


def dense_marginals(
    dependence: Mapping[Clique, float],
    domain: Domain,
    rho: float,
    *,
    threshold: float = 0.0,
    must_include: Iterable[Clique] = (),
    connect: bool = False,
) -> list[Clique]:
    """Return the pairs to measure with `rho`, in order of selection.

    `dependence` has the noisy InDif of every candidate, in counts (the scale of the L1 noise of a table; scores may be
    negative). Selection stops when the best candidate lowers the expected error by no more than `threshold` counts.
    Cliques in `must_include` come first, regardless of their score. With `connect`, each attribute in no selected
    clique is joined to the others by its highest-scoring pair with a selected attribute.
    """
    return dense_trace(dependence, domain, rho, threshold=threshold, must_include=must_include, connect=connect).cliques


def dense_trace(
    dependence: Mapping[Clique, float],
    domain: Domain,
    rho: float,
    *,
    threshold: float = 0.0,
    must_include: Iterable[Clique] = (),
    connect: bool = False,
) -> Trace:
    """Return the selection of `dense_marginals` with the expected error after each step."""
    if not rho > 0:
        raise ValueError("DenseMarg needs a positive rho for the marginals it selects")
    candidates = sorted(dependence)  # ties are broken by name
    phi = np.array([dependence[c] for c in candidates], dtype=np.float64)
    weight = np.array([domain.cells(c) for c in candidates], dtype=np.float64) ** (2 / 3)
    position = {c: i for i, c in enumerate(candidates)}
    free = np.ones(len(candidates), dtype=bool)
    chosen: list[Clique] = []
    errors = [float(phi.sum())]
    state = _State(0.0, errors[0])

    def take(c: Clique) -> None:
        nonlocal state
        i = position.get(c)
        score = float(phi[i]) if i is not None else 0.0
        if i is not None:
            free[i] = False
        state = _State(state.weight + domain.cells(c) ** (2 / 3), state.missed - score)
        chosen.append(c)
        errors.append(float(noise_error(state.weight, rho)) + state.missed)

    for c in dict.fromkeys(make_clique(names) for names in must_include):
        take(c)
    while free.any():
        after = np.where(free, noise_error(state.weight + weight, rho) + state.missed - phi, np.inf)
        best = int(after.argmin())
        if not errors[-1] - after[best] > threshold:
            break
        take(candidates[best])
    if connect:
        for c in _connect_attributes(candidates, phi, chosen, domain):
            take(c)
    return Trace(chosen, np.array(errors))


@dataclass(frozen=True)
class _State:
    weight: float
    """Sum of cells^(2/3) over the selected cliques."""
    missed: float
    """Sum of the scores of unselected cliques."""


def _connect_attributes(candidates: list[Clique], phi: Array, chosen: list[Clique], domain: Domain) -> list[Clique]:
    """Return pairs that join the uncovered attributes one at a time, highest score first."""
    pairs = [(i, c) for i, c in enumerate(candidates) if len(c) == 2]
    if not pairs:
        return []
    score = phi[[i for i, _ in pairs]]
    ends = np.array([[domain.index(name) for name in c] for _, c in pairs])
    inside = np.zeros(len(domain), dtype=bool)
    inside[[domain.index(name) for c in chosen for name in c]] = True
    if not inside.any():
        inside[ends[score.argmax(), 0]] = True  # nothing was selected: start from the highest score
    joined: list[Clique] = []
    while (crossing := inside[ends].sum(axis=1) == 1).any():
        best = int(np.where(crossing, score, -np.inf).argmax())
        inside[ends[best]] = True
        joined.append(pairs[best][1])
    return joined


_EFFORT = 200_000
"""Maximum search steps for one clique size; the search then continues with smaller cliques."""


def combine_cliques(
    pairs: Iterable[Clique],
    domain: Domain,
    *,
    max_cells: int = 5000,
    dependence: Mapping[Clique, float] | None = None,
) -> list[Clique]:
    """Merge `pairs` into larger cliques (PrivSyn, section 4.2, Algorithm 2); return these first, then uncovered pairs.

    In the graph of the pairs, cliques of three or more attributes are visited from large to small. A clique is accepted
    if its table has at most `max_cells` cells and it shares at most two attributes with all accepted ones. Cliques of
    one size are visited in lexicographic order of their attributes, ranked by summed `dependence`, then by name.
    (Ordering whole cliques by their summed dependence would make each visit a heaviest-subgraph problem.)

    >>> abc = Domain(("a", "b", "c", "d"), (2, 2, 2, 9))
    >>> combine_cliques([("a", "b"), ("a", "c"), ("b", "c"), ("c", "d")], abc)
    [('a', 'b', 'c'), ('c', 'd')]
    """
    given = list(dict.fromkeys(make_clique(names) for names in pairs))
    edges: list[Clique] = [c for c in given if len(c) == 2]
    search = _Search(edges, domain, max_cells, dependence or {})
    merged = [make_clique(members) for members in search.run()]
    inside = [set(c) for c in merged]
    return merged + [c for c in given if not any(m.issuperset(c) for m in inside)]


class _Search:
    """One depth-first pass for each clique size, over attributes numbered by rank; sets are bit masks."""

    def __init__(self, edges: list[Clique], domain: Domain, max_cells: int, dependence: Mapping[Clique, float]) -> None:
        strength = dict.fromkeys((name for edge in edges for name in edge), 0.0)
        for edge in edges:
            for name in edge:
                strength[name] += dependence.get(edge, 0.0)
        self.names = sorted(strength, key=lambda name: (-strength[name], name))
        rank = {name: i for i, name in enumerate(self.names)}
        self.sizes = [domain.size(name) for name in self.names]
        self.max_cells = max_cells
        self.near = [0] * len(self.names)
        for a, b in edges:
            self.near[rank[a]] |= 1 << rank[b]
            self.near[rank[b]] |= 1 << rank[a]
        by_size: dict[int, int] = {}
        for i, size in enumerate(self.sizes):
            by_size[size] = by_size.get(size, 0) | 1 << i
        self.by_size = sorted(by_size.items())
        self.covered = 0
        self.accepted: list[list[str]] = []
        self.effort = 0

    def run(self) -> list[list[str]]:
        """Return the accepted cliques, larger sizes first."""
        everything = (1 << len(self.names)) - 1
        widest = max((mask.bit_count() for mask in self.near), default=0) + 1
        for size in range(widest, 2, -1):
            self.effort = _EFFORT
            self._extend(0, everything, 1, size)
        return self.accepted

    def _extend(self, members: int, candidates: int, cells: int, need: int) -> None:
        """Visit in order the cliques of `members` and `need` of the candidates, which are all adjacent to them."""
        if need == 0:
            self.covered |= members
            self.accepted.append([name for i, name in enumerate(self.names) if members >> i & 1])
            return
        while self._possible(members, candidates, cells, need):
            self.effort -= 1
            bit = candidates & -candidates
            candidates ^= bit
            i = bit.bit_length() - 1
            # `covered` may have grown since the candidates were computed, so the overlap is checked again.
            if ((members | bit) & self.covered).bit_count() <= 2 and cells * self.sizes[i] <= self.max_cells:
                self._extend(members | bit, candidates & self.near[i], cells * self.sizes[i], need - 1)

    def _possible(self, members: int, candidates: int, cells: int, need: int) -> bool:
        """Return whether a clique may still be found, by bounds on overlap, cells and colours of the candidates."""
        spare = 2 - (members & self.covered).bit_count()
        if spare < 0 or self.effort <= 0:
            return False
        if spare == 0:
            candidates &= ~self.covered
        return self._fits(candidates, spare, cells, need) and (need < 3 or self._colours(candidates, need))

    def _fits(self, candidates: int, spare: int, cells: int, need: int) -> bool:
        """Return whether the `need` smallest candidates, at most `spare` of them covered, stay within `max_cells`."""
        for size, mask in self.by_size:
            fresh = (candidates & mask & ~self.covered).bit_count()
            used = min((candidates & mask & self.covered).bit_count(), spare, max(need - fresh, 0))
            count = min(fresh, need) + used
            spare -= used
            need -= count
            cells *= size**count
            if need == 0 or cells > self.max_cells:
                break
        return need == 0 and cells <= self.max_cells

    def _colours(self, candidates: int, need: int) -> bool:
        """Return whether greedy colouring needs `need` colours: with fewer, there is no clique of that size."""
        for _ in range(need - 1):
            apart = candidates
            while apart:
                bit = apart & -apart
                candidates ^= bit
                apart &= ~(bit | self.near[bit.bit_length() - 1])
            if not candidates:
                return False
        return True
