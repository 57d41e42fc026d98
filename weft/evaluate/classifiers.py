"""Classifiers trained on either table, as in BSG (plausible deniability), tables 3 and 4 and figure 2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.evaluate.learning import (
    LAMBDAS,
    LINEAR,
    TREES,
    Classifier,
    enough,
    majority,
    make,
    matrix,
    one_hot,
    predict,
    without,
)
from weft.evaluate.tables import Floats, Ints, comparable
from weft.marginals.domain import Domain
from weft.marginals.records import Records

_TEST_SHARE = 0.3  # test rows for each training row


@dataclass(frozen=True)
class Classification:
    """One kind of classifier, on real test rows, averaged over the runs."""

    model: Classifier
    synth: float
    """Accuracy, trained on synthetic rows."""
    real: float
    """Accuracy, trained on real rows."""
    agreement: float
    """Share of the test rows on which those two say the same."""
    agreement_real: float
    """The same for two classifiers trained on disjoint real rows: as much agreement as one can hope for."""
    majority: float
    """Accuracy of the most frequent label."""


@dataclass(frozen=True)
class AttributeAccuracy:
    """Accuracy of predicting each column from the others, on real test rows."""

    names: tuple[str, ...]
    synth: Floats
    """Trained on synthetic rows."""
    real: Floats
    """Trained on real rows."""
    majority: Floats
    """Most frequent code (the marginals of BSG)."""
    uniform: Floats
    """Guessing among the codes."""

    @property
    def improvement(self) -> Floats:
        """Share of the marginals' errors that training on synthetic rows avoids (0 where they make none)."""
        missed = 1 - self.majority
        return np.divide(self.synth - self.majority, missed, out=np.zeros_like(missed), where=missed > 0)


def classify(
    real: Records,
    synth: Records,
    *,
    target: str,
    models: Sequence[Classifier] = TREES + LINEAR,
    runs: int = 5,
    cap: int = 10_000,
    test: Records | None = None,
    seed: int = 0,
) -> tuple[Classification, ...]:
    """Train each kind of classifier for one label on synthetic rows, real rows and other real rows.

    Every run draws its rows anew: at most `cap` of each kind to train, and 0.3 as many to test, from `test`
    where given; real training, other training and test rows are disjoint. A linear classifier's
    regularisation is the one that serves the real rows best, as in the paper.
    """
    domain = comparable(real, synth) if test is None else comparable(real, synth, test)
    rng = np.random.default_rng([seed, 103])
    t = domain.index(target)
    figures = np.zeros((len(models), 5))
    for _ in range(runs):
        parts = [matrix(part) for part in _split(real, synth, test, cap, rng)]
        for i, kind in enumerate(models):
            figures[i] += _compare(kind, domain, t, parts, rng)
    return tuple(Classification(kind, *(row / runs).tolist()) for kind, row in zip(models, figures, strict=True))


def attribute_accuracy(
    real: Records,
    synth: Records,
    *,
    model: Classifier = "forest",
    cap: int = 4000,
    test: Records | None = None,
    seed: int = 0,
) -> AttributeAccuracy:
    """Predict each column in turn from all others, with the classifier trained on either table."""
    domain = comparable(real, synth) if test is None else comparable(real, synth, test)
    rng = np.random.default_rng([seed, 105])
    parts = [matrix(part) for part in _split(real, synth, test, cap, rng)]
    figures = np.array([_compare(model, domain, t, parts, rng) for t in range(len(domain))])
    return AttributeAccuracy(
        domain.names, figures[:, 0], figures[:, 1], figures[:, 4], 1 / np.array(domain.shape, np.float64)
    )


def _split(
    real: Records, synth: Records, test: Records | None, cap: int, rng: np.random.Generator
) -> tuple[Records, Records, Records, Records]:
    """Draw synthetic, real and other real training rows, and test rows: equally many to train on."""
    share = 2 + _TEST_SHARE if test is None else 2
    train = min(cap, len(synth), int(len(real) / share))
    held = int(_TEST_SHARE * train)
    if test is not None:
        held = min(max(held, 1), len(test))
    enough(min(train, held))
    order = rng.permutation(len(real))
    made = synth.take(rng.permutation(len(synth))[:train])
    tested = (
        real.take(order[2 * train : 2 * train + held]) if test is None else test.take(rng.permutation(len(test))[:held])
    )
    return made, real.take(order[:train]), real.take(order[train : 2 * train]), tested


def _compare(
    kind: Classifier, domain: Domain, t: int, parts: list[Ints], rng: np.random.Generator
) -> tuple[float, float, float, float, float]:
    made, learned, other, tested = parts
    truth = tested[:, t]
    if kind in LINEAR:
        told = _linear(kind, domain, t, tested, rng)
        best = max(LAMBDAS, key=lambda weight: np.mean(told(learned, weight) == truth))
        by_synth, by_real, by_other = (told(part, best) for part in (made, learned, other))
    else:
        features = np.delete(tested, t, 1)
        by_synth, by_real, by_other = (
            predict(make(kind, rng), np.delete(part, t, 1), part[:, t], features) for part in (made, learned, other)
        )
    return (
        float(np.mean(by_synth == truth)),
        float(np.mean(by_real == truth)),
        float(np.mean(by_synth == by_real)),
        float(np.mean(by_other == by_real)),
        float(np.mean(truth == majority(learned[:, t]))),
    )


def _linear(
    kind: Classifier, domain: Domain, t: int, tested: Ints, rng: np.random.Generator
) -> Callable[[Ints, float], NDArray[Any]]:
    # Every row has one indicator a column: this scale gives it norm 1, as the paper asks.
    scale = 1 / np.sqrt(max(len(domain) - 1, 1))
    tests = scale * without(one_hot(tested, domain), domain, t)

    def told(part: Ints, weight: float) -> NDArray[Any]:
        features = scale * without(one_hot(part, domain), domain, t)
        return predict(make(kind, rng, len(part), weight), features, part[:, t], tests)

    return told
