"""Fit a Markov random field to noisy marginals: least squares in noise variances, over all distributions.

Minimise L(mu) = 1/2 sum_M ||mu_M - y_M||^2 / sigma_M^2 over the tables mu that some distribution with the given total
has. The iterates are members of the exponential family of the measured cliques, so the solution is also the one of
largest entropy. The solvers are in `solvers`, what they lower and when they stop in `objective`.

What is fitted beyond the noise level is noise. So the fit stops when the loss improves too slowly, or is as low as
`noise_level` asks, and the number of passes is only a cap.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array, Marginal, NoisyMarginal
from weft.marginals.pooling import common_total, pooled_by_clique
from weft.models.mrf.inference import transpose
from weft.models.mrf.junction import MAX_CELLS, MAX_TOTAL, JunctionTree, junction_tree
from weft.models.mrf.model import MrfModel
from weft.models.mrf.objective import Problem, Watch
from weft.models.mrf.solvers import accelerated, mirror, proportional
from weft.progress import Listener, silence, stage

Solver = Literal["accelerated", "mirror"]


def fit(
    domain: Domain,
    measurements: Sequence[NoisyMarginal],
    *,
    total: float | None = None,
    tree: JunctionTree | None = None,
    warm: MrfModel | Mapping[Clique, Array] | None = None,
    zeros: Sequence[Marginal] = (),
    max_cells: int = MAX_CELLS,
    max_total: int = MAX_TOTAL,
    iterations: int = 1000,
    tolerance: float = 0.03,
    noise_level: float = 0.0,
    solver: Solver = "accelerated",
    probe: np.random.Generator | None = None,
    listener: Listener = silence,
) -> MrfModel:
    """Fit a model to noisy marginals.

    `total` defaults to the inverse-variance average of the tables' sums. `warm` gives potentials to start from, of an
    earlier fit on some of the cliques. `zeros` are boolean tables, true where a cell is impossible. The fit stops
    after `iterations` passes, or once twenty passes improve the loss by less than the fraction `tolerance` (a tenth
    of it while the loss is above the noise level), or once the loss is below `noise_level` times what pure noise would
    give (half the number of cells). A smaller tolerance fits the noise: measured answers get worse, not better.

    With `probe`, a source of chance, the potentials of least estimated distance to the exact tables are returned
    instead of those of least loss, and the tolerance is a tenth. Give no `warm` start then: what an earlier fit has
    taken from the noise cannot be given back.
    """
    if any(m.order for m in measurements):
        raise ValueError("a fit needs whole tables, not interactions")
    merged = pooled_by_clique(measurements)
    total = common_total(list(merged.values()))[0] if total is None else total
    if tree is None:
        cliques = [*merged, *(zero.clique for zero in zeros)]
        tree = junction_tree(domain, cliques, max_cells=max_cells, max_total=max_total)
    zeros = [*zeros, *_empty(merged)]
    problem = Problem.of(tree, merged, max(float(total), 1.0), zeros, probe)
    theta, fresh = _start(problem, tree, warm.potentials if isinstance(warm, MrfModel) else (warm or {}))
    if probe is not None:
        tolerance *= 0.1
    with stage(listener, "fit", total=iterations) as work:
        watch = Watch(problem, theta, iterations, tolerance, noise_level, work)
        if merged and solver == "accelerated":
            proportional(watch, fresh)
            accelerated(watch)
        elif merged:
            mirror(watch)
    potentials = {
        c: np.ascontiguousarray(transpose(problem.table(watch.kept, c), tree.in_order(c), c)) for c in problem.places
    }
    return MrfModel(
        tree,
        problem.total,
        potentials,
        {c: m.precision for c, m in merged.items()},
        tuple(zeros),
        watch.kept_loss / problem.noise if problem.noise else math.nan,
        watch.passes,
    )


def _empty(tables: Mapping[Clique, NoisyMarginal]) -> list[Marginal]:
    """Return what rules leave out of the measured tables."""
    return [Marginal(c, m.empty) for c, m in tables.items() if m.empty is not None and m.empty.any()]


def _start(problem: Problem, tree: JunctionTree, known: Mapping[Clique, Array]) -> tuple[Array, Array]:
    """Return potentials to start from, and of each cell whether no earlier fit has seen it."""
    theta = np.zeros(problem.target.shape)
    fresh = np.ones(problem.tape.length, dtype=np.bool_)
    for c, place in problem.places.items():
        if c in known:
            theta[:, place] = transpose(known[c], c, tree.in_order(c)).ravel()
            fresh[place] = False
    return theta, fresh
