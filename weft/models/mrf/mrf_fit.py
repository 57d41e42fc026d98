"""Estimate a Markov random field from noisy marginals by least squares weighted with the inverse noise variance.

Minimizes L(mu) = 1/2 sum_M ||mu_M - y_M||^2 / sigma_M^2 over the marginals mu of all distributions with the given
total. The iterates belong to the exponential family of the measured cliques, so the solution has maximum entropy.
Fitting below the noise level would fit noise, so the algorithm stops if the loss improves too slowly or reaches
`noise_level`; the number of passes is only an upper limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array, Marginal, NoisyMarginal
from weft.marginals.pooling import common_total, pool_by_clique
from weft.models.conditional import ImpossibleEvidenceError
from weft.models.mrf.inference import reorder_axes
from weft.models.mrf.junction_tree import MAX_CELLS, MAX_TOTAL, JunctionTree, junction_tree
from weft.models.mrf.message_passing import Tape, plan_calibration
from weft.models.mrf.mrf_model import MrfModel
from weft.progress import Listener, Stage, ignore_event, report_stage

_WINDOW = 20  # number of passes over which improvement is measured
_PROBE = 0.3  # standard deviation of the probe, in units of sigma
_PATIENCE = 40  # number of passes without a lower risk after which a probed fit stops


@dataclass
class Problem:
    """Concatenated targets and weights, and the calibration pass that solvers call.

    Each row of `target`, and of every solver's vectors, is one fit. The optional second row runs the same steps on
    targets perturbed by a random probe; only the first row determines the steps.
    """

    tape: Tape
    total: float
    target: Array
    weight: Array
    places: dict[Clique, slice]
    work: Array
    probe: Array | None

    @classmethod
    def of(
        cls,
        tree: JunctionTree,
        merged: Mapping[Clique, NoisyMarginal],
        total: float,
        zeros: Sequence[Marginal],
        rng: np.random.Generator | None,
    ) -> Problem:
        """Lay out the measured tables for the tape of a tree."""
        barred = [tree.in_order(zero.clique) for zero in zeros]
        tape = plan_calibration(tree, [tree.in_order(c) for c in merged], barred)
        places = {c: tape.tables[tree.in_order(c)] for c in merged}
        target, weight = np.empty((1, tape.length)), np.empty(tape.length)
        for c, m in merged.items():
            if m.table.shape != tree.domain.sizes(c):
                raise ValueError(f"the table over {c} needs shape {tree.domain.sizes(c)}, not {m.table.shape}")
            target[0, places[c]] = reorder_axes(m.table, c, tree.in_order(c)).ravel()
            weight[places[c]] = m.precision
        probe = None
        if rng is not None:
            probe = _PROBE * rng.normal(size=tape.length)
            target = np.vstack([target, target + probe / np.sqrt(weight)])
        tables = [reorder_axes(zero.table, zero.clique, axes) for zero, axes in zip(zeros, barred, strict=True)]
        return cls(tape, total, target, weight, places, tape.start(total, tables), probe)

    @property
    def noise(self) -> float:
        """Expected loss of the exact tables, which is due to noise only."""
        return 0.5 * len(self.weight)

    def counts(self, theta: Array) -> Array:
        """Run one pass; the first row is computed last, so that `log_partition` refers to it."""
        return np.array([self.tape.run(self.work, row).copy() for row in theta[::-1]])[::-1]

    def log_partition(self) -> float:
        """Return total times the log-partition of the last pass: the potential of the Bregman distance."""
        value = self.tape.log_partition(self.work)
        if value == -math.inf:
            raise ImpossibleEvidenceError("no record is possible under the structural zeros; remove some of them")
        return self.total * value

    def loss(self, counts: Array) -> float:
        """Return half the squared distance to the measurements, in noise variances."""
        gap = counts[0] - self.target[0]
        return 0.5 * float(np.dot(self.weight * gap, gap))

    def risk(self, counts: Array) -> float:
        """Estimate half the squared distance to the exact tables, in noise variances (Stein); the loss if no probe.

        The noise is Gaussian with known sigmas, so loss - cells / 2 + divergence is Stein's unbiased estimate; the
        divergence is how far the iterate follows a small change of the measurements. The second fit takes the same
        steps on measurements moved by a random probe z: <z, second - first> / |z|^2, times the cells, estimates the
        divergence (Ramani, Blu, Unser 2008). Privacy: post-processing.
        """
        loss = self.loss(counts)
        if self.probe is None:
            return loss
        moved = np.sqrt(self.weight) * (counts[1] - counts[0])
        # divergence: E <z, moved(z)> / variance of z; both sides of the distance are halved
        return float(loss - self.noise + np.dot(self.probe, moved) / _PROBE**2)

    def gradient(self, counts: Array) -> Array:
        """Return the derivative of the loss with respect to the counts."""
        return np.asarray(self.weight * (counts - self.target))

    def table(self, theta: Array, c: Clique) -> Array:
        """Return one table of a flat vector, axes in tree order, shifted to maximum 0 (which has no effect)."""
        tree = self.tape.tree
        found = theta[0, self.places[c]].reshape(tree.domain.sizes(tree.in_order(c)))
        return np.asarray(found - found.max())


@dataclass
class Watch:
    """Pass counter, best potentials so far and stopping rule."""

    problem: Problem
    theta: Array  # potentials of the lowest loss
    iterations: int
    tolerance: float
    noise_level: float
    work: Stage
    passes: int = 0
    loss: float = math.inf
    history: list[float] = field(default_factory=list)
    kept: Array = field(init=False)  # potentials of the lowest risk
    kept_loss: float = math.inf
    risk: float = math.inf
    kept_at: int = 0

    def __post_init__(self) -> None:
        self.kept = self.theta

    def counts(self, theta: Array) -> Array:
        """Run a pass and store the potentials if they are the best so far."""
        counts = self.problem.counts(theta)
        loss, risk = self.problem.loss(counts), self.problem.risk(counts)
        self.passes += 1
        if loss < self.loss:
            self.theta, self.loss = theta, loss
        # The exact tables are at the noise level, so above it the loss decides, regardless of the estimated risk.
        if risk < self.risk if self.kept_loss <= self.problem.noise else loss < self.kept_loss:
            self.kept, self.kept_loss, self.risk, self.kept_at = theta, loss, risk, self.passes
        self.history.append(self.loss)
        if self.passes % 10 == 0:
            self.work.advance(10, f"loss {self.loss / self.problem.noise:.3f} of noise")
        return counts

    @property
    def spent(self) -> bool:
        """Whether no pass is left or `noise_level` is reached."""
        return self.passes >= self.iterations or self.loss <= self.noise_level * self.problem.noise

    @property
    def idle(self) -> bool:
        """Whether the last half of the window brought no improvement at all."""
        return self.history[-1 - _WINDOW // 2] <= self.loss

    def stalled(self, since: int) -> bool:
        """Return whether the last passes, all after pass `since`, improved too little."""
        if self.passes - since <= _WINDOW:
            return False
        if self.problem.probe is not None and self.passes - self.kept_at > _PATIENCE:
            return True
        # Above the noise level there is signal left, even if progress is slow.
        least = self.tolerance if self.loss < self.problem.noise else 0.1 * self.tolerance
        return self.history[-1 - _WINDOW] - self.loss <= least * self.loss


def descend_mirror(watch: Watch) -> None:
    """Minimize the loss by entropic mirror descent: theta <- theta - a grad L(mu(theta)), with backtracking on a."""
    problem = watch.problem
    theta = watch.theta
    counts = watch.counts(theta)
    loss = problem.loss(counts)
    step = 2.0 / (problem.weight.max() * problem.total)
    while not (watch.spent or watch.stalled(0)):
        slope = problem.gradient(counts)
        ahead = theta - step * slope
        there = watch.counts(ahead)
        lower = problem.loss(there)
        if loss - lower >= 0.5 * float(np.dot(slope[0], counts[0] - there[0])):
            theta, counts, loss = ahead, there, lower
            step *= 1.1
        else:
            step *= 0.5


def fit_proportionally(watch: Watch, fresh: Array) -> None:
    """Move the tables that are new in this fit close to their targets by damped proportional fitting.

    theta_M += step * log((y_M + sigma) / (mu_M + sigma)), damped by how often an attribute is measured and by whether
    the loss falls. Iterative proportional fitting made safe for noise: it finds the rough shape in a few passes, but
    its fixed point is not the least-squares solution.
    """
    problem = watch.problem
    theta = watch.theta
    counts = watch.counts(theta)
    if not fresh.any():
        return
    loss = problem.loss(counts)
    slack = problem.weight**-0.5
    aim = np.log(np.maximum(problem.target, 0.0) + slack)
    damp = _compute_damping(problem, fresh)
    step = 1.0
    # Below the noise level, or once a pass gains little, exact steps are better.
    while not watch.spent and loss > problem.noise and step > 0.1:
        ahead = theta + step * damp * (aim - np.log(counts + slack))
        there = watch.counts(ahead)
        lower = problem.loss(there)
        if lower < loss:
            slow = lower > 0.9 * loss
            theta, counts, loss = ahead, there, lower
            step *= 1.2
            if slow:
                break
        else:
            step *= 0.5


def _compute_damping(problem: Problem, fresh: Array) -> Array:
    # Tables that share an attribute correct the same error; each applies its share of the correction.
    uses: dict[str, int] = {}
    for c, place in problem.places.items():
        for name in c if fresh[place.start] else ():
            uses[name] = uses.get(name, 0) + 1
    damp = np.zeros(len(fresh))
    for c, place in problem.places.items():
        if fresh[place.start]:
            damp[place] = 1.0 / max((uses[name] for name in c), default=1)
    return damp


def descend_accelerated(watch: Watch) -> None:
    """Minimize the loss by accelerated Bregman gradient descent (Auslender and Teboulle; Tseng).

    Gradients at y = (1 - t) x + t z, mirror steps on z = mu(theta), averages x. Backtracking compares the curvature of
    the quadratic with the exact Bregman distance of the step, N KL between the two models, which a pass gives for free.
    The result is the best z, which has potentials of its own; in practice its loss is below that of x.
    """
    problem = watch.problem
    since = watch.passes
    theta = watch.theta
    z = x = watch.counts(theta)
    partition = problem.log_partition()
    curvature = float(problem.weight.max()) * problem.total
    weight, again = 0.0, math.inf
    while not watch.spent:
        if watch.stalled(since):
            if not watch.idle or watch.loss >= again:
                break
            # Momentum oscillates around the best point: restart from it, once per best point.
            theta, weight, again, since = watch.theta, 0.0, watch.loss, watch.passes
            z = x = watch.counts(theta)
            partition = problem.log_partition()
        step = (1.0 + math.sqrt(1.0 + 4.0 * curvature * weight)) / (2.0 * curvature)
        share = step / (weight + step)
        slope = problem.gradient(x + share * (z - x))
        ahead = theta - step * slope
        there = watch.counts(ahead)
        there_partition = problem.log_partition()
        # L(x') <= L(y) + <slope, x' - y> + curvature share^2 D(z', z), where x' - y = share (z' - z): for a quadratic
        # both sides are known exactly. D is the Bregman distance of the joint distributions, total times their KL.
        bregman = float(np.dot(ahead[0] - theta[0], there[0])) - (there_partition - partition)
        moved = there[0] - z[0]
        if 0.5 * float(np.dot(problem.weight * moved, moved)) > curvature * bregman + 1e-9 * watch.loss:
            curvature *= 2.0
            continue
        x = x + share * (there - x)
        theta, z, partition = ahead, there, there_partition
        weight += step
        curvature /= 1.03
        if problem.loss(z) > 1.02 * max(problem.loss(x), watch.loss):
            # Momentum has overshot the minimum: restart from the best point.
            theta, weight = watch.theta, 0.0
            z = x = watch.counts(theta)
            partition = problem.log_partition()


Solver = Literal["accelerated", "mirror"]


def fit_mrf(
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
    listener: Listener = ignore_event,
) -> MrfModel:
    """Estimate a model from noisy marginals.

    `total` defaults to the inverse-variance average of the tables' sums. `warm` are initial potentials of an earlier
    fit on some of the cliques. `zeros` are boolean tables, true for impossible cells. The fit stops after `iterations`
    passes, or once twenty passes improve the loss by less than the fraction `tolerance` (a tenth of it while the loss
    is above the noise level), or once the loss is below `noise_level` times the expected loss of pure noise (half the
    number of cells). A smaller tolerance fits the noise and makes measured marginals worse.

    With `probe`, a random generator, the potentials of lowest estimated distance to the exact tables are returned
    instead of those of lowest loss, and the tolerance is divided by ten. Do not combine it with `warm`: noise fitted
    earlier cannot be removed.
    """
    if any(m.order for m in measurements):
        raise ValueError("a fit needs whole tables, not interaction terms")
    merged = pool_by_clique(measurements)
    total = common_total(list(merged.values()))[0] if total is None else total
    if tree is None:
        cliques = [*merged, *(zero.clique for zero in zeros)]
        tree = junction_tree(domain, cliques, max_cells=max_cells, max_total=max_total)
    zeros = [*zeros, *(Marginal(c, m.empty) for c, m in merged.items() if m.empty is not None and m.empty.any())]
    problem = Problem.of(tree, merged, max(float(total), 1.0), zeros, probe)
    theta, fresh = _make_start_potentials(
        problem, tree, warm.potentials if isinstance(warm, MrfModel) else (warm or {})
    )
    if probe is not None:
        tolerance *= 0.1
    with report_stage(listener, "fit", total=iterations) as work:
        watch = Watch(problem, theta, iterations, tolerance, noise_level, work)
        if merged and solver == "accelerated":
            fit_proportionally(watch, fresh)
            descend_accelerated(watch)
        elif merged:
            descend_mirror(watch)
    potentials = {
        c: np.ascontiguousarray(reorder_axes(problem.table(watch.kept, c), tree.in_order(c), c)) for c in problem.places
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


def _make_start_potentials(problem: Problem, tree: JunctionTree, known: Mapping[Clique, Array]) -> tuple[Array, Array]:
    """Return initial potentials, and for each cell whether no earlier fit included it."""
    theta = np.zeros(problem.target.shape)
    fresh = np.ones(problem.tape.length, dtype=np.bool_)
    for c, place in problem.places.items():
        if c in known:
            theta[:, place] = reorder_axes(known[c], c, tree.in_order(c)).ravel()
            fresh[place] = False
    return theta, fresh
