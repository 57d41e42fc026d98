"""What a fit lowers, and when it has gone far enough: the loss of the tables, the risk behind it, and a watch on both.

Where to stop can also be estimated. The noise is Gaussian with known sigmas, so Stein's unbiased estimate tells
the distance of any iterate to the *exact* tables: loss - cells / 2 + divergence, where the divergence is how much of a
small change of the measurements the iterate follows. A shadow fit takes the same steps on measurements moved by a
random probe z; <z, shadow - fit> / |z|^2, times the cells, estimates the divergence (Ramani, Blu, Unser 2008). The
iterate of least estimated distance is kept: between the largest-entropy start and the noisy end, the fit shrinks by as
much as the noise deserves. Post-processing of released tables: it costs passes, no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from weft.marginals.domain import Clique
from weft.marginals.marginal import Array, Marginal, NoisyMarginal
from weft.models.evidence import Impossible
from weft.models.mrf.inference import transpose
from weft.models.mrf.junction import JunctionTree
from weft.models.mrf.tape import Tape, plan
from weft.progress import Stage

_WINDOW = 20
"""Passes over which an improvement is judged."""

_PROBE = 0.3
"""Standard deviation of the probe, in units of sigma."""

_PATIENCE = 40
"""Passes without a lower risk after which a probed fit ends."""


@dataclass
class Problem:
    """Targets and weights side by side, and the pass that the solvers call.

    A row of `target`, and of every vector that a solver keeps, is one fit; the second row, if there is one, is the
    shadow: the same steps on targets moved by a random probe. What steps to take is decided by the first row alone.
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
        """Lay out the tables to be fitted along the tape of a tree."""
        barred = [tree.in_order(zero.clique) for zero in zeros]
        tape = plan(tree, [tree.in_order(c) for c in merged], barred)
        places = {c: tape.tables[tree.in_order(c)] for c in merged}
        target, weight = np.empty((1, tape.length)), np.empty(tape.length)
        for c, m in merged.items():
            if m.table.shape != tree.domain.sizes(c):
                raise ValueError(f"the table over {c} needs shape {tree.domain.sizes(c)}, not {m.table.shape}")
            target[0, places[c]] = transpose(m.table, c, tree.in_order(c)).ravel()
            weight[places[c]] = m.precision
        probe = None
        if rng is not None:
            probe = _PROBE * rng.normal(size=tape.length)
            target = np.vstack([target, target + probe / np.sqrt(weight)])
        tables = [transpose(zero.table, zero.clique, axes) for zero, axes in zip(zeros, barred, strict=True)]
        return cls(tape, total, target, weight, places, tape.start(total, tables), probe)

    @property
    def noise(self) -> float:
        """The loss that pure noise would give."""
        return 0.5 * len(self.weight)

    def counts(self, theta: Array) -> Array:
        """One pass; the row that decides comes last, so that `log_partition` is its own."""
        return np.array([self.tape.run(self.work, row).copy() for row in theta[::-1]])[::-1]

    def log_partition(self) -> float:
        """Total times the log-partition of the last pass: the potential of the Bregman distance."""
        value = self.tape.log_partition(self.work)
        if value == -math.inf:
            raise Impossible("the structural zeros leave no possible record; remove some of them")
        return self.total * value

    def loss(self, counts: Array) -> float:
        """Half the squared distance to the measurements, in noise variances."""
        gap = counts[0] - self.target[0]
        return 0.5 * float(np.dot(self.weight * gap, gap))

    def risk(self, counts: Array) -> float:
        """Half the squared distance to the exact tables, in noise variances, estimated after Stein; or the loss.

        The divergence is E <z, moved(z)> / variance of z; both sides of the distance are halved.
        """
        loss = self.loss(counts)
        if self.probe is None:
            return loss
        moved = np.sqrt(self.weight) * (counts[1] - counts[0])
        return float(loss - self.noise + np.dot(self.probe, moved) / _PROBE**2)

    def gradient(self, counts: Array) -> Array:
        """Derivative of the loss with respect to the counts."""
        return np.asarray(self.weight * (counts - self.target))

    def table(self, theta: Array, c: Clique) -> Array:
        """One table of a flat vector, axes in tree order, largest value 0 (a shift changes nothing)."""
        tree = self.tape.tree
        found = theta[0, self.places[c]].reshape(tree.domain.sizes(tree.in_order(c)))
        return np.asarray(found - found.max())


@dataclass
class Watch:
    """Counts passes, keeps the best potentials, and says when to stop."""

    problem: Problem
    theta: Array
    """Potentials of the lowest loss."""
    iterations: int
    tolerance: float
    noise_level: float
    work: Stage
    passes: int = 0
    loss: float = math.inf
    history: list[float] = field(default_factory=list)
    kept: Array = field(init=False)
    """Potentials of the lowest risk."""
    kept_loss: float = math.inf
    risk: float = math.inf
    kept_at: int = 0

    def __post_init__(self) -> None:
        """Start with what is given."""
        self.kept = self.theta

    def counts(self, theta: Array) -> Array:
        """Make a pass and remember the potentials if they are the best so far."""
        counts = self.problem.counts(theta)
        loss, risk = self.problem.loss(counts), self.problem.risk(counts)
        self.passes += 1
        if loss < self.loss:
            self.theta, self.loss = theta, loss
        # The exact tables are at the noise level: whatever a noisy estimate says, a fit above it has more to learn.
        if risk < self.risk if self.kept_loss <= self.problem.noise else loss < self.kept_loss:
            self.kept, self.kept_loss, self.risk, self.kept_at = theta, loss, risk, self.passes
        self.history.append(self.loss)
        if self.passes % 10 == 0:
            self.work.advance(10, f"loss {self.loss / self.problem.noise:.3f} of noise")
        return counts

    @property
    def spent(self) -> bool:
        """Whether no pass is left, or the noise level is reached."""
        return self.passes >= self.iterations or self.loss <= self.noise_level * self.problem.noise

    @property
    def idle(self) -> bool:
        """Whether half of the passes that are looked back on brought no improvement at all."""
        return self.history[-1 - _WINDOW // 2] <= self.loss

    def stalled(self, since: int) -> bool:
        """Whether the last passes, all after pass `since`, improved too little."""
        if self.passes - since <= _WINDOW:
            return False
        if self.problem.probe is not None and self.passes - self.kept_at > _PATIENCE:
            return True
        # Above the noise level there is signal left, however slowly it comes.
        least = self.tolerance if self.loss < self.problem.noise else 0.1 * self.tolerance
        return self.history[-1 - _WINDOW] - self.loss <= least * self.loss
