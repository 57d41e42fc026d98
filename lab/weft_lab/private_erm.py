"""DP-ERM (Chaudhuri, Monteleoni, Sarwate; JMLR 2011), the baseline of BSG's table 4: an EXPERIMENT, never a release.

A linear classifier is the minimum of J(f) = mean loss(y f.x) + weight |f|^2 / 2, with |x| <= 1. Output perturbation
adds noise to the minimum; objective perturbation adds a random linear term to J and releases its minimum. Neighbours
replace one row; the number of rows is public. Both proofs are of the exact minimum, which no program finds.

Here, the distance to it is certified. J is strongly convex, so a point with gradient g is within |g| / weight of the
minimum. The solver goes on until |g|, plus a bound on its rounding, is at most `TOLERANCE`, the same for all tables;
otherwise nothing is returned. Privacy, with t = TOLERANCE / weight:
- Output: the exact minima of neighbours are 2 / (n weight) apart, so what is computed is at most 2 / (n weight) + 2 t
  apart; noise with density exp(-b |z|), b = epsilon / that distance, is epsilon-DP.
- Objective: the exact minimum is (1 - PART) epsilon-DP by the paper's Theorem 9. Given it, what is computed lies within
  t of it, so noise for a distance of 2 t and PART epsilon hides the rest; the two epsilons add up.

Noise is drawn in floating point, from a seeded generator, and the weight is chosen without noise, as in BSG's paper.
That is why no method, ledger or file is made of this (docs/decisions/018).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from weft.errors import DataError
from weft.evaluation.metrics.aligned_tables import Floats
from weft.evaluation.metrics.classification import drop_target, one_hot, stack_codes
from weft.marginals.records import Records
from weft_lab.classifiers import LAMBDAS

Loss = Literal["logistic", "svm"]
Perturbation = Literal["none", "output", "objective"]

TOLERANCE = 1e-9
"""Largest norm of the gradient, rounding included, at which a point counts as found."""
UNIT = 2.0**-53
"""Unit of rounding in double precision."""
TERMS = 64
"""Bound on the roundings of one margin and its slope: rows have at most half as many values that are not 0."""
PART = 0.01
"""Part of epsilon for the distance from the exact minimum, in objective perturbation."""
HUBER = 0.5
"""Half the width of the smoothed corner of the hinge loss, as in the paper."""
CURVATURE: Mapping[Loss, float] = {"logistic": 0.25, "svm": 1 / (2 * HUBER)}
MOST_STEPS = 200
MOST_ROWS = 1 << 20
LINES: Mapping[str, Perturbation] = {
    "trained on real rows": "none",
    "Output perturbation": "output",
    "Objective perturbation": "objective",
}


@dataclass(frozen=True)
class Minimum:
    """A point, and how far from the exact minimum it is at most."""

    point: Floats
    distance: float


def differentiate(loss: Loss, margin: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the loss at each margin y f.x with its first and second derivative, which lie in [-1, 0] and [0, c]."""
    if loss == "logistic":
        chance = 0.5 * (1 - np.tanh(margin / 2))  # of the other label
        return np.logaddexp(0, -margin), -chance, chance * (1 - chance)
    inside, beyond = np.abs(1 - margin) <= HUBER, margin < 1 - HUBER
    value = np.where(beyond, 1 - margin, np.where(inside, (1 + HUBER - margin) ** 2 / (4 * HUBER), 0.0))
    slope = np.where(beyond, -1.0, np.where(inside, -(1 + HUBER - margin) / (2 * HUBER), 0.0))
    return value, slope, inside / (2 * HUBER)


def minimise(rows: Any, loss: Loss, weight: float, linear: Floats | None = None) -> Minimum:
    """Return a certified minimum of mean loss(f.row) + weight |f|^2 / 2 + linear.f; each row is y x, of norm at most 1.

    Newton's method with halved steps, on sparse rows. A mean of n terms of size 1, summed in any order, is off by at
    most n UNIT; a slope, whose derivative is at most c, by TERMS UNIT (1 + c |f|). DataError if the gradient does not
    fall to the tolerance.
    """
    n, d = rows.shape
    widest, longest = int(np.diff(rows.indptr).max()), float(np.sqrt(rows.multiply(rows).sum(axis=1).max()))
    if n > MOST_ROWS or 2 * widest > TERMS or longest > 1 + 1e-9:
        raise DataError(f"certified minima need at most {MOST_ROWS:,} rows of norm 1 with {TERMS // 2} values")
    linear = np.zeros(d) if linear is None else linear
    point = np.zeros(d)

    def objective(at: Floats) -> float:
        value, _, _ = differentiate(loss, rows @ at)
        return float(value.mean() + weight * (at @ at) / 2 + linear @ at)

    for _ in range(MOST_STEPS):
        _, slope, curvature = differentiate(loss, rows @ point)
        gradient = rows.T @ slope / n + weight * point + linear
        length = float(np.linalg.norm(point))
        rounding = UNIT * (
            n + TERMS * (1 + CURVATURE[loss] * length) + TERMS * (float(np.linalg.norm(linear)) + length)
        )
        norm = float(np.linalg.norm(gradient)) + rounding
        if norm <= TOLERANCE:
            return Minimum(point, norm / weight)
        hessian = (rows.T @ rows.multiply(curvature[:, None])).toarray() / n + weight * np.eye(d)
        step = np.linalg.solve(hessian, gradient)
        size, before = 1.0, objective(point)
        while size > 1e-6 and objective(point - size * step) > before + 1e-15:
            size /= 2
        point = point - size * step
    raise DataError("the minimum was not found to the certified tolerance: nothing is returned")


def draw_radial(d: int, rate: float, rng: np.random.Generator) -> Floats:
    """Draw a vector with density proportional to exp(-rate |z|): a direction, and a length of gamma distribution."""
    direction = rng.normal(size=d)
    return np.asarray(direction / np.linalg.norm(direction) * rng.gamma(d, 1 / rate))


def perturb(
    rows: Any, loss: Loss, weight: float, epsilon: float, how: Perturbation, rng: np.random.Generator
) -> Floats:
    """Return a classifier, with noise for this epsilon (see the module)."""
    n, d = rows.shape
    if how == "none":
        return minimise(rows, loss, weight).point
    if how == "output":
        apart = 2 / (n * weight) + 2 * TOLERANCE / weight
        return minimise(rows, loss, weight).point + draw_radial(d, epsilon / apart, rng)
    own, curvature = (1 - PART) * epsilon, CURVATURE[loss]
    rest = own - math.log1p(2 * curvature / (n * weight) + (curvature / (n * weight)) ** 2)
    more = 0.0
    if rest <= 0:
        more, rest = max(curvature / (n * math.expm1(own / 4)) - weight, 0.0), own / 2
    linear = draw_radial(d, rest / 2, rng) / n
    found = minimise(rows, loss, weight + more, linear)
    return found.point + draw_radial(d, PART * epsilon / (2 * TOLERANCE / (weight + more)), rng)


def table_4(records: Records | None, epsilon: float, delta: float, seed: int) -> dict[str, dict[str, float]]:
    """Return the accuracy of each line on rows held back; the weight is the best of those trained without noise."""
    assert records is not None
    rng = np.random.default_rng([seed, 113])
    order = rng.permutation(len(records))
    held = min(len(records) // 5, 4000)
    codes = stack_codes(records)
    t = len(records.domain) - 1
    features = drop_target(one_hot(codes, records.domain), records.domain, t) / math.sqrt(max(t, 1))
    signed = np.where(codes[:, t] > 0, 1.0, -1.0)
    test, train = order[:held], order[held:]
    rows = features[train].multiply(signed[train, None]).tocsr()

    def accuracy(classifier: Floats) -> float:
        return float(np.mean((features[test] @ classifier > 0) == (signed[test] > 0)))

    made: dict[str, dict[str, float]] = {line: {} for line in LINES}
    for loss in CURVATURE:
        exact = {weight: accuracy(perturb(rows, loss, weight, epsilon, "none", rng)) for weight in LAMBDAS}
        best = max(exact, key=lambda weight: exact[weight])
        for line, how in LINES.items():
            classifier = perturb(rows, loss, best, epsilon, how, rng)
            made[line][f"{loss}_accuracy"] = accuracy(classifier)
    return made
