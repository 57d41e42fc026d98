"""The distinguishing game (BSG, table 5): can a classifier tell synthetic rows from real ones?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.evaluate.learning import LINEAR, Classifier, enough, make, matrix, one_hot, predict
from weft.evaluate.tables import comparable
from weft.marginals.records import Records

_TRAIN_SHARE = 0.7


@dataclass(frozen=True)
class Distinguishing:
    """How often one kind of classifier is right on held-out rows, half real and half synthetic."""

    model: Classifier
    accuracy: float
    """0.5: it can only guess; 1: it always knows."""


def distinguishing(
    real: Records,
    synth: Records,
    *,
    models: Sequence[Classifier] = ("forest", "tree"),
    cap: int = 50_000,
    seed: int = 0,
) -> tuple[Distinguishing, ...]:
    """Train on equally many rows of both tables (at most `cap` of each), test on other rows of both."""
    domain = comparable(real, synth)
    rng = np.random.default_rng([seed, 104])
    rows = min(len(real), len(synth))
    train = min(cap, int(_TRAIN_SHARE * rows))
    test = min(train, rows - train)
    enough(min(train, test))
    orders = [(table, rng.permutation(len(table))) for table in (real, synth)]
    learned = np.concatenate([matrix(table.take(order[:train])) for table, order in orders])
    asked = np.concatenate([matrix(table.take(order[train : train + test])) for table, order in orders])
    is_synth, truth = np.repeat([0, 1], train), np.repeat([0, 1], test)

    games = []
    for kind in models:
        features, tests = learned, asked
        if kind in LINEAR:
            features, tests = (one_hot(part, domain) / np.sqrt(len(domain)) for part in (learned, asked))
        told = predict(make(kind, rng, 2 * train), features, is_synth, tests)
        games.append(Distinguishing(kind, float(np.mean(told == truth))))
    return tuple(games)
