"""Steps that several methods for comparison share: candidates, narrowed families, and the last fit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Annotated

import numpy as np

from weft.bounds import Bounds
from weft.errors import MethodError
from weft.marginals.counting import MAX_CELLS
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import NoisyMarginal
from weft.models.mrf import JunctionTree, MrfModel, Solver, fit_mrf, junction_tree
from weft.privacy import AccountingName, find_accounting
from weft.progress import Listener, ignore_event
from weft_lab.methods.tree_growth import fits_with_clique

Passes = Annotated[int, Bounds(1, 1_000_000)]
"""Maximum passes of a fit."""

SOLVER = (
    'How the model is fitted: "accelerated", which stops before it fits noise; or the published "mirror" descent, '
    "which runs until the loss stops falling."
)
PASSES = "Mirror descent: maximum passes."


def fit_as(
    solver: Solver,
    passes: int,
    domain: Domain,
    tables: Sequence[NoisyMarginal],
    *,
    tree: JunctionTree,
    total: float | None = None,
    warm: MrfModel | None = None,
    probe: np.random.Generator | None = None,
    listener: Listener = ignore_event,
) -> MrfModel:
    """Fit a model; `warm` applies to mirror descent, `probe` to the accelerated solver (`fit_mrf`)."""
    if solver == "accelerated":
        return fit_mrf(domain, tables, total=total, tree=tree, probe=probe, listener=listener)
    return fit_mrf(
        domain,
        tables,
        total=total,
        tree=tree,
        warm=warm,
        solver="mirror",
        iterations=passes,
        tolerance=0.0,
        listener=listener,
    )


MAX_CANDIDATES = 20_000_000
"""Maximum sets of attributes that are enumerated before the smallest are kept: about ten seconds."""


def check_mixed(accounting: AccountingName) -> None:
    """Refuse accounting that does not cover the exponential mechanism together with Gaussian noise."""
    if not find_accounting(accounting).pays_for_mixtures:
        raise MethodError('option accounting must be "zcdp" or "paper", which cover the exponential mechanism.')


def check_candidates(domain: Domain, ways: int) -> None:
    """Refuse domains with too many candidates of up to `ways` attributes."""
    many = sum(math.comb(len(domain), k) for k in range(2, min(ways, len(domain)) + 1))
    if many > MAX_CANDIDATES:
        raise MethodError(
            f"option ways: {ways} of {len(domain)} attributes make {many:,} candidates, above the limit of "
            f"{MAX_CANDIDATES:,}. Lower it, or choose method mst."
        )


def all_subsets(domain: Domain, max_ways: int, max_cells: float) -> list[Clique]:
    """Return every set of two to `max_ways` attributes with at most `max_cells` cells."""
    names = sorted(domain)
    return [c for k in range(2, max_ways + 1) for c in itertools.combinations(names, k) if domain.cells(c) <= max_cells]


def parent_sets(domain: Domain, placed: Sequence[str], cells: float, limit: int) -> list[Clique]:
    """Return the maximal sets of placed attributes whose table has at most `cells` cells; [()] if none fits.

    If there are more than `limit`, return the maximal sets of at most t parents, for the largest t within the limit.
    Privacy: only public domain sizes are used.

    >>> parent_sets(Domain(("a", "b", "c"), (2, 3, 9)), ["a", "b", "c"], 10, limit=100)
    [('a', 'b'), ('c',)]
    """
    names = sorted(placed, key=lambda name: (domain.size(name), name))
    sizes = [domain.size(name) for name in names]
    found: list[Clique] = [()]
    for most in range(1, len(names) + 1):
        longer = []
        for chosen in _iterate_fitting_sets(sizes, cells, most):
            longer.append(make_clique(names[i] for i in chosen))
            if len(longer) > limit:
                return found
        if sorted(longer) == sorted(found):
            return found
        found = longer
    return found


def _iterate_fitting_sets(sizes: Sequence[int], cells: float, most: int) -> Iterator[tuple[int, ...]]:
    """Yield the maximal sets of at most `most` positions whose product of sizes is at most `cells`."""

    def grow(chosen: tuple[int, ...], product: int, start: int) -> Iterator[tuple[int, ...]]:
        if len(chosen) < most:
            for i in range(start, len(sizes)):  # ascending sizes: after the first that does not fit, none does
                if product * sizes[i] > cells:
                    break
                yield from grow((*chosen, i), product * sizes[i], i + 1)
        # Maximal: the set is full, or the smallest attribute left out does not fit.
        left_out = next((i for i in range(len(sizes)) if i not in chosen), None)
        if len(chosen) == most or left_out is None or product * sizes[left_out] > cells:
            yield chosen

    return grow((), 1, 0)


def narrow_families(domain: Domain, families: list[Clique], max_cells: int, max_total: int) -> list[Clique]:
    """Return the families, with fewer parents where the junction tree would be too large."""
    kept: list[Clique] = []
    placed: set[str] = set()
    for family in families:
        tree = junction_tree(domain, kept, max_cells=max_cells, max_total=max_total)
        parents = [name for name in family if name in placed]
        while parents and not fits_with_clique(tree, family, max_cells=max_cells, max_total=max_total):
            largest = max(parents, key=domain.size)
            parents.remove(largest)
            family = tuple(name for name in family if name != largest)
        kept.append(family)
        placed.update(family)
    return kept


def check_pairs(domain: Domain) -> None:
    """Refuse attributes so wide that not all pairs can be counted."""
    widest = sorted(domain, key=domain.size)[-2:]
    if domain.cells(make_clique(widest)) > MAX_CELLS:
        raise MethodError(
            f"the marginal over {' and '.join(widest)} would have {domain.cells(make_clique(widest)):,} cells, above "
            f"the limit of {MAX_CELLS:,}. Choose coarser bins for them in the schema, or method tree or mst."
        )
