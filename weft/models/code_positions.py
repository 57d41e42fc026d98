"""Positions of numbers within their coarse codes: they follow the related attributes.

A model relates coarse codes only. A value that is drawn from its code independently of the other attributes weakens
slopes and correlations, so the values of a code are distributed among its records by a Gaussian copula. A code is an
interval of normal scores. A ridge regression on the records predicts the expected score of a record from its other
codes, and a score is drawn from the normal distribution that the interval truncates. Values are assigned in the order
of these scores, so no table of coarse codes and no one-way marginal changes.

Privacy: post-processing of sampled records.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from weft.marginals.domain import Domain
from weft.marginals.marginal import Array
from weft.marginals.records import Codes, Records
from weft.marginals.value_groups import ValueMap

MAX_PREDICTORS = 10
"""Attributes of a regression: the most related ones."""

MAX_PREDICTOR_CODES = 100
"""Attributes with more codes predict nothing."""

MAX_FITTED = 10_000
"""Records to which a regression is fitted."""

MIN_FITTED = 200
"""Fewer records keep independent positions."""

RIDGE = 10.0
"""Penalty on an effect, in records."""

MIN_RESIDUAL = 0.05
"""Minimum variance of scores that the other attributes do not explain."""

_EDGE = 1e-6


@dataclass(frozen=True)
class CodeScores:
    """Normal scores of the codes of an attribute; special codes have none."""

    low: Array
    high: Array
    means: Array
    live: Array
    """Whether a code is ordered, and so has an interval of scores."""

    @classmethod
    def count(cls, codes: Codes, merged: ValueMap, apart: Collection[int]) -> CodeScores:
        """Compute the scores of merged codes from their frequencies."""
        counts = np.bincount(codes, minlength=merged.size).astype(np.float64)
        live = np.ones(merged.size, bool)
        live[merged.codes[list(apart)]] = False
        low, high, means = (np.zeros(merged.size) for _ in range(3))
        low[live], high[live], means[live] = compute_score_intervals(counts[live])
        return cls(low, high, means, live)


def follow_related(
    domain: Domain,
    records: Records,
    maps: Mapping[str, ValueMap],
    fine: Mapping[str, Codes],
    rng: np.random.Generator,
    given: Mapping[str, str] | None = None,
) -> dict[str, Codes]:
    """Return the original codes of merged attributes, exchanged among the records of each merged code.

    Those of an attribute in `given` are exchanged among the records with one code of the other attribute, too.
    """
    made = dict(fine)
    wide = [name for name in fine if domain.order(name).ordered and maps[name].size > 2 and len(maps[name].merged)]
    if len(records) < MIN_FITTED or len(records.domain) < 2 or not wide:
        return made
    fitted = records.take(rng.choice(len(records), MAX_FITTED, False)) if len(records) > MAX_FITTED else records
    known = {n: CodeScores.count(records.column(n), maps[n], domain.order(n).apart) for n in wide}
    models = {name: _Regression.fit(fitted, name, known[name]) for name in wide}
    scores: dict[str, Array] = {}
    for name in wide:
        scores[name] = models[name].draw(records, known, scores, rng)
        codes = records.column(name).astype(np.int64)
        if given and name in given:
            codes += records.column(given[name]).astype(np.int64) * maps[name].size
        ordered = np.empty_like(made[name])
        ordered[np.lexsort((scores[name], codes))] = made[name][np.lexsort((made[name], codes))]
        made[name] = ordered
    return made


def compute_score_intervals(counts: Array) -> tuple[Array, Array, Array]:
    """Return the ends of the interval of normal scores of each code, and its mean.

    >>> compute_score_intervals(np.array([50, 50]))[2].round(3)
    array([-0.798,  0.798])
    """
    ends = np.concatenate([[0.0], np.cumsum(counts)]) / max(float(counts.sum()), 1.0)
    edges = ndtri(np.minimum(ends, 1.0))
    density = np.exp(-(edges**2) / 2) / np.sqrt(2 * np.pi)
    return edges[:-1], edges[1:], -np.diff(density) / np.maximum(np.diff(ends), 1e-12)


@dataclass(frozen=True)
class _Regression:
    """Expected scores of an attribute, as a sum of effects of the codes of others."""

    name: str
    scores: CodeScores
    effects: Mapping[str, Array]
    spread: float
    """Standard deviation of the scores around their expectation."""

    @classmethod
    def fit(cls, records: Records, name: str, scores: CodeScores) -> _Regression:
        """Fit the effects of the attributes that explain most."""
        records = records.take(scores.live[records.column(name)])
        target = scores.means[records.column(name)]
        predictors = _find_predictors(records, name, target)
        sizes = [records.domain.size(other) for other in predictors]
        starts = np.cumsum([0, *sizes])
        chosen = np.zeros((len(records), int(starts[-1])), np.float32)
        for start, other in zip(starts, predictors, strict=False):
            chosen[np.arange(len(records)), start + records.column(other)] = 1
        gram = chosen.T @ chosen + RIDGE * np.eye(int(starts[-1]))
        effects = np.linalg.solve(gram, chosen.T @ target)
        explained = float(np.var(chosen @ effects)) if len(records) else 0.0
        parts = dict(zip(predictors, np.split(effects, starts[1:-1]), strict=True))
        return cls(name, scores, parts, float(np.sqrt(max(1 - explained, MIN_RESIDUAL))))

    def draw(
        self, records: Records, known: Mapping[str, CodeScores], scores: Mapping[str, Array], rng: np.random.Generator
    ) -> Array:
        """Draw a score of each record inside the interval of its code, given the other codes, or scores if drawn."""
        expected, codes = np.zeros(len(records)), records.column(self.name)
        for other, effect in self.effects.items():
            found, own = records.column(other), known.get(other)
            part = effect[found]
            if own is not None and other in scores and own.live.sum() > 1:
                along = np.interp(scores[other], own.means[own.live], effect[own.live])
                part = np.where(own.live[found], along, part)
            expected += part
        begin, end = (ndtr((edge[codes] - expected) / self.spread) for edge in (self.scores.low, self.scores.high))
        drawn = ndtri(np.clip(begin + rng.random(len(codes)) * (end - begin), _EDGE, 1 - _EDGE))
        return np.asarray(expected + self.spread * drawn)


def _find_predictors(records: Records, name: str, target: Array) -> list[str]:
    """Return the attributes whose codes explain most of the variance of an attribute's scores."""
    found = []
    for other in records.domain:
        if other != name and records.domain.size(other) <= MAX_PREDICTOR_CODES:
            codes = records.column(other)
            explained = np.bincount(codes, target) ** 2 / (np.bincount(codes) + RIDGE)
            found.append((-float(explained.sum()), other))
    return [other for _, other in sorted(found)[:MAX_PREDICTORS]]
