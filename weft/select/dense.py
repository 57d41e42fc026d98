"""DenseMarg: take pairs as long as what they tell outweighs their noise (PrivSyn 4.2, Algorithm 1).

Leaving pair i out costs its dependence phi_i (InDif: the L1 distance, in counts, between the pair's table and
the product of its margins). Measuring a set X with the best shares of rho costs T^1.5 / sqrt(pi rho) counts
of L1 noise, T being the sum over X of cells^(2/3). The greedy choice of the next pair is then one vectorised
minimum: the paper's inner loop over all pairs collapses to arithmetic on T, and gives the same selection.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from weft.marginals.domain import Clique, Domain, clique
from weft.marginals.marginal import Array
from weft.select.allocation import noise_error


@dataclass(frozen=True)
class Trace:
    """A selection with the expected error along the way. Made of noisy scores only, so it may be shown."""

    cliques: list[Clique]
    """The selection in order: cliques that had to be included, greedy ones, connecting ones."""
    errors: Array
    """Expected total L1 error in counts: before any choice, then after each clique."""


def dense_marginals(
    dependence: Mapping[Clique, float],
    domain: Domain,
    rho: float,
    *,
    threshold: float = 0.0,
    must_include: Iterable[Clique] = (),
    connect: bool = False,
) -> list[Clique]:
    """Return the pairs worth measuring with `rho`, in order of selection.

    `dependence` holds the noisy InDif of every candidate, in counts (same scale as the L1 noise of a table;
    negative scores are harmless). Selection ends when the best candidate lowers the expected error by no more
    than `threshold` counts. Cliques in `must_include` come first, whatever their score. With `connect`, each
    attribute that is in no selected clique is joined to the others through its highest-scoring pair with a
    selected attribute.
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
    """Return what `dense_marginals` selects, with the expected error after each step."""
    if not rho > 0:
        raise ValueError("DenseMarg needs a positive rho for the marginals it selects")
    candidates = sorted(dependence)  # so that equal scores are settled by name
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

    for c in dict.fromkeys(clique(names) for names in must_include):
        take(c)
    while free.any():
        after = np.where(free, noise_error(state.weight + weight, rho) + state.missed - phi, np.inf)
        best = int(after.argmin())
        if not errors[-1] - after[best] > threshold:
            break
        take(candidates[best])
    if connect:
        for c in _connections(candidates, phi, chosen, domain):
            take(c)
    return Trace(chosen, np.array(errors))


@dataclass(frozen=True)
class _State:
    weight: float
    """Sum of cells^(2/3) over the selected cliques."""
    missed: float
    """Sum of the scores left out."""


def _connections(candidates: list[Clique], phi: Array, chosen: list[Clique], domain: Domain) -> list[Clique]:
    """Pairs that join the attributes outside all chosen cliques, one at a time, strongest first."""
    pairs = [(i, c) for i, c in enumerate(candidates) if len(c) == 2]
    if not pairs:
        return []
    score = phi[[i for i, _ in pairs]]
    ends = np.array([[domain.index(name) for name in c] for _, c in pairs])
    inside = np.zeros(len(domain), dtype=bool)
    inside[[domain.index(name) for c in chosen for name in c]] = True
    if not inside.any():
        inside[ends[score.argmax(), 0]] = True  # nothing was selected: grow from the strongest pair
    joined: list[Clique] = []
    while (crossing := inside[ends].sum(axis=1) == 1).any():
        best = int(np.where(crossing, score, -np.inf).argmax())
        inside[ends[best]] = True
        joined.append(pairs[best][1])
    return joined
