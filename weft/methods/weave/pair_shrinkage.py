"""Empirical-Bayes shrinkage of measured pairs towards the model's estimate before the measurement.

Noise moves most cells of a measured pair farther than the distance between the data and the earlier model. A pair is
therefore shrunk towards its expected table, and the selection takes this into account: a noisy measurement of a pair
gains a little and never loses, so more pairs are worth measuring. Tables with fewer than three degrees of freedom, such
as pairs of binary attributes, are not shrunk, since their variance cannot be estimated (from three on, the James-Stein
estimator dominates). Nor are larger cliques: their interaction terms beyond pairs are in few cells, and shrinking them
was worse (decision 019).

A measured table differs from the expected one by noise of known variance and by a true difference. In a cell of
expected count e the true difference has prior variance v = s e / mean(e), and its estimate is the measured difference
times v / (v + noise variance): nearly all of it far above the noise, nearly nothing below. Two priors are compared. In
the first, s is one number. In the second, s follows a mixture of scales with probabilities estimated by expectation
maximization; this suits pairs in which one attribute nearly determines the other, so that most cells match the
expectation and a few differ by their whole count. The prior with the higher likelihood is used, the second only if its
log-likelihood is higher by at least half the logarithm of the number of cells.

Privacy: uses noisy answers only, so it is post-processing and costs no budget.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from weft.kernels import kernel
from weft.marginals.domain import Clique
from weft.marginals.marginal import Array, NoisyMarginal, compute_interaction, compute_interaction_norm
from weft.marginals.noise_error import MEAN_ABS_NORMAL, Profile, compute_projected_error, group_cells_by_size

_ONE = np.geomspace(1e-3, 1e4, 57)  # candidate values of s for a whole table, in units of the noise variance
_SIZES = np.array([0.0, *(0.25 * 10.0 ** np.arange(7))])  # scales of the mixture; 0 for cells that match exactly
_AS_EXPECTED = 3.0  # pseudo-count of cells at scale 0, so that noise is not mistaken for a few true differences
_ROUNDS = 30
_LARGE = 1e200  # product of variances above which its logarithm is taken; one more factor still fits a float


def shrink_difference(difference: Array, expected: Array, noise: float) -> Array:
    """Return the shrinkage estimate of a difference measured with noise of this (positive) standard deviation per cell.

    >>> shrink_difference(np.array([90.0, -3.0, 2.0, -90.0]), np.array([50.0, 50.0, 50.0, 50.0]), 3.0).round()
    array([ 90.,  -0.,   0., -90.])
    """
    counts = np.maximum(expected, 0.0)
    relative = np.ravel(counts / max(float(counts.mean()), 1e-9))
    squared = np.square(np.ravel(difference) / noise)
    one = np.zeros(_ONE.size)
    _one_size(squared, relative, _ONE, one)
    best = int(np.argmax(one))
    part = np.empty(difference.size)
    several = _several_sizes(squared, relative, _SIZES, part)
    if several - one[best] < 0.5 * math.log(difference.size):
        part = 1 - 1 / (1 + _ONE[best] * relative)
    return np.asarray(difference * part.reshape(difference.shape))


@kernel(cache=True, nogil=True)
def _one_size(squared: Any, relative: Any, sizes: Any, likelihoods: Any) -> None:
    """Compute the log-likelihood of each s, multiplying variances while the product fits a float (fewer logarithms)."""
    product = np.ones(sizes.size)
    for i in range(squared.size):
        for k in range(sizes.size):
            variance = 1 + sizes[k] * relative[i]
            likelihoods[k] -= 0.5 * squared[i] / variance
            product[k] *= variance
            if product[k] > _LARGE:
                likelihoods[k] -= 0.5 * math.log(product[k])
                product[k] = 1.0
    likelihoods -= 0.5 * np.log(product)


@kernel(cache=True, nogil=True)
def _several_sizes(squared: Any, relative: Any, sizes: Any, part: Any) -> float:
    """Compute the shrinkage factor of each cell under the mixture of scales and return the log-likelihood."""
    cells, several = squared.size, sizes.size
    likely, whole = np.empty((cells, several)), 0.0
    for i in range(cells):
        most = -np.inf
        for k in range(several):
            variance = 1 + sizes[k] * relative[i]
            likely[i, k] = -0.5 * (math.log(variance) + squared[i] / variance)
            most = max(most, likely[i, k])
        for k in range(several):
            likely[i, k] = math.exp(likely[i, k] - most)
        whole += most
    weight, found = np.full(several, 1 / several), np.empty(several)
    for _ in range(_ROUNDS):
        found[:] = 0
        for i in range(cells):
            mean = 0.0
            for k in range(several):
                mean += likely[i, k] * weight[k]
            for k in range(several):
                found[k] += likely[i, k] / mean
        found *= weight
        found[0] += _AS_EXPECTED
        weight = np.maximum(found / found.sum(), 1e-12)
    for i in range(cells):
        mean, kept = 0.0, 0.0
        for k in range(several):
            mean += likely[i, k] * weight[k]
            kept += likely[i, k] * weight[k] * (1 - 1 / (1 + sizes[k] * relative[i]))
        part[i] = kept / mean
        whole += math.log(mean)
    return whole


def compute_shrinkage_error(tables: Profile, gaps: Array, noise: Array) -> Array:
    """Return the expected L1 error, in counts, of tables after measurement and shrinkage (table x noise level).

    `tables` are the expected counts and `gaps` their L1 distances from the true tables. Assumes one s for all cells:
    where a few cells make up the gap, the error is smaller.
    """
    mean = tables.total / np.maximum(tables.cells.sum(axis=1), 1.0)
    relative = np.maximum(tables.counts, 0.0) / np.maximum(mean, 1e-9)[:, None]
    unit = MEAN_ABS_NORMAL * (tables.cells * np.sqrt(relative)).sum(axis=1)
    real = np.square(gaps / np.maximum(unit, 1e-9))[:, None, None] * relative[:, None, :]
    variance = np.square(np.broadcast_to(noise, (len(real), np.shape(noise)[-1])))[:, :, None]
    left = np.sqrt(real * variance / np.maximum(real + variance, 1e-300))
    return np.asarray(MEAN_ABS_NORMAL * (tables.cells[:, None, :] * left).sum(axis=2))


MIN_DEGREES_OF_FREEDOM = 3
"""Minimum degrees of freedom of a table that is shrunk."""


@dataclass
class PairShrinkage:
    """Expected tables of pairs before their measurement, and their estimated distances from the data."""

    shrink: bool = True
    _expected: dict[Clique, Array] = field(default_factory=dict, init=False)
    _off: dict[Clique, float] = field(default_factory=dict, init=False)
    _seen: dict[Clique, tuple[NoisyMarginal, NoisyMarginal]] = field(default_factory=dict, init=False)

    def expect(self, tables: Mapping[Clique, Array]) -> None:
        """Store the model's tables of pairs that are about to be measured for the first time."""
        if self.shrink:
            self._expected = {**{c: t for c, t in tables.items() if len(c) == 2}, **self._expected}

    def of(self, measured: Sequence[NoisyMarginal]) -> list[NoisyMarginal]:
        """Return the shrunk measurements; their stated noise remains that of the measurement."""
        return [self._one(m) if m.clique in self._expected else m for m in measured]

    def _one(self, m: NoisyMarginal) -> NoisyMarginal:
        seen = self._seen.get(m.clique)
        if seen is None or seen[0] is not m:  # most measurements are unchanged since the last batch
            seen = self._seen[m.clique] = (m, self._shrunk(m))
        return seen[1]

    def _shrunk(self, m: NoisyMarginal) -> NoisyMarginal:
        expected = self._expected[m.clique]
        part = compute_interaction_norm(expected.shape, m.order)
        if not _is_shrinkable(part, expected.size, m.clique):
            return m
        # James-Stein: of k degrees of freedom, estimating the variance takes two.
        noise = m.sigma * math.sqrt(part * (1 - 2 / (part * expected.size)))
        mean = compute_interaction(expected, m.order) / expected.size if m.order else expected
        difference = shrink_difference(m.table - mean, expected, noise)
        self._off[m.clique] = float(np.abs(difference).sum())
        return replace(m, table=mean + difference)

    def errors_known(self, tables: Mapping[Clique, Array], parts: Array, noise: Array) -> Array:
        """Return the expected L1 error of measured tables for each noise level (table x level).

        `parts` are the measured shares of each (`compute_interaction_share`), `noise` is the noise left per cell.
        """
        plain = compute_projected_error(group_cells_by_size(list(tables.values())), noise, whole=np.isclose(parts, 1))
        shrunk = [i for i, c in enumerate(tables) if c in self._off]
        if shrunk:
            names = [list(tables)[i] for i in shrunk]
            before, off = (
                group_cells_by_size([self._expected[c] for c in names]),
                np.array([self._off[c] for c in names]),
            )
            plain[shrunk] = np.minimum(plain[shrunk], compute_shrinkage_error(before, off, noise[shrunk]))
        return plain

    def errors_new(self, outlook: Profile, cliques: Sequence[Clique], gaps: Array, parts: Array, noise: Array) -> Array:
        """Return the expected L1 error of candidates once measured; `outlook` has the model's tables of them."""
        plain = compute_projected_error(outlook, noise, whole=np.isclose(parts, 1))
        sizes = outlook.cells.sum(axis=1)
        shrunk = [i for i, c in enumerate(cliques) if self.shrink and _is_shrinkable(float(parts[i, 0]), sizes[i], c)]
        if shrunk:
            some = Profile(outlook.cells[shrunk], outlook.counts[shrunk])
            plain[shrunk] = np.minimum(plain[shrunk], compute_shrinkage_error(some, gaps[shrunk], noise[shrunk]))
        return plain


def _is_shrinkable(part: float, cells: float, c: Clique) -> bool:
    return len(c) == 2 and part * cells >= MIN_DEGREES_OF_FREEDOM
