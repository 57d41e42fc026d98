"""How much noise hides of a dependence score: InDif beside mutual information and entropies (PrivSyn, appendix B).

Logarithms are to base 2. The sensitivities of mutual information and of entropies are those that the paper quotes from
PrivBayes and BSG, for n rows; ours, which need no n, are in `weft.privacy.sensitivity`. Nothing of this is released.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations

import numpy as np

from weft.errors import DataError
from weft.evaluation.metrics.aligned_tables import Floats
from weft.marginals.counting import count_marginals
from weft.marginals.records import Records

INDIF, MUTUAL, ENTROPY, SUC = "InDif", "Mutual information", "Entropy", "Symmetrical uncertainty"
RATIO_LINES, ERROR_LINES = (INDIF, MUTUAL, ENTROPY), (INDIF, MUTUAL, SUC)
ROWS = 600_000
VALUES = (2, 50, 100, 1_000, 10_000, 100_000)
"""Numbers of values of an attribute in table 3."""
INDIF_SENSITIVITY = 4.0


def mutual_sensitivity(n: int) -> float:
    """Return how much one of n rows may change mutual information, as PrivBayes has it."""
    return 2 / n * math.log2((n + 1) / 2) + (n - 1) / n * math.log2((n + 1) / (n - 1))


def entropy_sensitivity(n: int) -> float:
    """Return how much one of n rows may change an entropy, as BSG has it."""
    return (2 + 1 / math.log(2) + 2 * math.log2(n)) / n


def ratios(_: Records | None, _epsilon: float, _delta: float, _seed: int) -> dict[str, dict[str, float]]:
    """Return n times the sensitivity over the range, for attributes of several sizes: table 3."""
    n = ROWS
    return {
        INDIF: {f"ratio_{c}": n * INDIF_SENSITIVITY / (2 * n) for c in VALUES},
        MUTUAL: {f"ratio_{c}": n * mutual_sensitivity(n) / math.log2(c) for c in VALUES},
        ENTROPY: {f"ratio_{c}": n * entropy_sensitivity(n) / math.log2(c) for c in VALUES},
    }


def relative_errors(
    records: Records | None, epsilon: float, delta: float, seed: int
) -> Mapping[str, Mapping[str, float]]:
    """Return the mean over pairs of |noisy - true| / true: table 4.

    Gaussian noise for all pairs under zCDP, by the paper's closed form. The symmetrical uncertainty comes from noisy
    entropies of every column and every pair, as in BSG. Pairs whose score is 0 have no relative error.
    """
    if records is None or len(records.domain) < 2 or len(records) < 2:
        raise DataError("dependence scores need two columns and two rows")
    n, names = len(records), records.domain.names
    pairs = list(combinations(range(len(names)), 2))
    rho = (math.sqrt(epsilon + math.log(1 / delta)) - math.sqrt(math.log(1 / delta))) ** 2
    rng = np.random.default_rng([seed, 104])

    def noise(sensitivity: float, answers: int, size: int) -> Floats:
        return rng.normal(0.0, sensitivity * math.sqrt(answers / (2 * rho)), size)

    tables = [table.astype(np.float64) for table in count_marginals(records, [(names[i], names[j]) for i, j in pairs])]
    indif = np.array([np.abs(t - np.outer(t.sum(1), t.sum(0)) / n).sum() for t in tables])
    single = np.array(
        [_entropy(table.astype(np.float64), n) for table in count_marginals(records, [(name,) for name in names])]
    )
    joint = np.array([_entropy(table, n) for table in tables])
    sums = np.array([single[i] + single[j] for i, j in pairs])
    mutual = np.maximum(sums - joint, 0.0)

    asked = len(names) + len(pairs)
    own = single + noise(entropy_sensitivity(n), asked, len(names))
    together = joint + noise(entropy_sensitivity(n), asked, len(pairs))
    noisy_sums = np.array([own[i] + own[j] for i, j in pairs])
    return {
        INDIF: {"relative_error": _relative(indif, indif + noise(INDIF_SENSITIVITY, len(pairs), len(pairs)))},
        MUTUAL: {"relative_error": _relative(mutual, mutual + noise(mutual_sensitivity(n), len(pairs), len(pairs)))},
        SUC: {"relative_error": _relative(2 - 2 * joint / sums, 2 - 2 * together / noisy_sums)},
    }


def _entropy(table: Floats, n: int) -> float:
    shares = table[table > 0] / n
    return float(-(shares * np.log2(shares)).sum())


def _relative(true: Floats, noisy: Floats) -> float:
    told = true > 1e-12
    return float(np.mean(np.abs(noisy - true)[told] / true[told])) if told.any() else 0.0
