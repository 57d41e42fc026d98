"""The solvers of a fit. Three solvers share one oracle, a pass: log-potentials in, expected counts out.

- `mirror`: entropic mirror descent, theta <- theta - a grad L(mu(theta)), backtracking on the step.
- proportional start: theta_M += step * log((y_M + sigma) / (mu_M + sigma)), damped by how often an attribute is
  measured and by whether the loss falls. Iterative proportional fitting made safe for noise: gross shape in a few
  passes, but its fixed point is not the least-squares one.
- `accelerated` (default): that start, then accelerated Bregman steps (Auslender and Teboulle; Tseng): gradients at
  y = (1 - t) x + t z, mirror steps on z = mu(theta), averages x. Backtracking compares the quadratic's curvature
  with the exact Bregman distance of the step, N (KL between the two models), which a pass gives for free. The answer is
  the best z, which has potentials of its own; in practice it is ahead of x.
"""

from __future__ import annotations

import math

import numpy as np

from weft.marginals.marginal import Array
from weft.models.mrf.objective import Problem, Watch


def mirror(watch: Watch) -> None:
    """Descend by entropic mirror steps."""
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


def proportional(watch: Watch, fresh: Array) -> None:
    """Bring the tables that no earlier fit has seen near their targets."""
    problem = watch.problem
    theta = watch.theta
    counts = watch.counts(theta)
    if not fresh.any():
        return
    loss = problem.loss(counts)
    slack = problem.weight**-0.5
    aim = np.log(np.maximum(problem.target, 0.0) + slack)
    damp = _damping(problem, fresh)
    step = 1.0
    # Past the noise level, or once a pass gains little, exact steps do better.
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


def _damping(problem: Problem, fresh: Array) -> Array:
    # Tables that share an attribute all correct the same thing at once; each takes its part of the correction.
    uses: dict[str, int] = {}
    for c, place in problem.places.items():
        for name in c if fresh[place.start] else ():
            uses[name] = uses.get(name, 0) + 1
    damp = np.zeros(len(fresh))
    for c, place in problem.places.items():
        if fresh[place.start]:
            damp[place] = 1.0 / max((uses[name] for name in c), default=1)
    return damp


def accelerated(watch: Watch) -> None:
    """Descend by accelerated Bregman steps."""
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
            # Momentum goes to and fro around the best: start again from it, once for every best.
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
            # Momentum has carried z past the valley: start again from the best.
            theta, weight = watch.theta, 0.0
            z = x = watch.counts(theta)
            partition = problem.log_partition()
