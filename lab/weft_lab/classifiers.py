"""Classifiers trained on either table, as in BSG (plausible deniability), tables 3 to 5."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weft.evaluation.metrics.aligned_tables import Ints, validate_shared_domain
from weft.evaluation.metrics.classification import (
    drop_target,
    import_sklearn,
    one_hot,
    require_enough_rows,
    stack_codes,
    train_and_predict,
)
from weft.marginals.domain import Domain
from weft.marginals.records import Records

Classifier = Literal["tree", "forest", "adaboost", "logistic", "svm"]


TREES: tuple[Classifier, ...] = ("tree", "forest", "adaboost")
"""The classifiers of BSG's table 3; their features are the codes as ordered numbers."""


LINEAR: tuple[Classifier, ...] = ("logistic", "svm")
"""The classifiers of BSG's table 4; their features are one indicator per code, with rows scaled to norm 1."""


LAMBDAS = (1e-3, 1e-4, 1e-5, 1e-6)
"""Regularisation weights that BSG tries for the linear classifiers."""


def find_majority_label(labels: NDArray[Any]) -> int:
    """Return the most frequent label (the lowest one of a tie)."""
    return int(np.bincount(labels).argmax())


def make_classifier(kind: Classifier, rng: np.random.Generator, rows: int = 1, weight: float = 1e-4) -> Any:
    """Return an untrained classifier; `weight` is the lambda of a linear one that is trained on `rows` rows."""
    if kind == "logistic":
        return import_sklearn("linear_model").LogisticRegression(C=1 / (rows * weight), max_iter=200)
    if kind == "svm":
        return import_sklearn("svm").LinearSVC(C=1 / (rows * weight), dual=False, max_iter=200)
    state = int(rng.integers(2**31))
    if kind == "tree":
        return import_sklearn("tree").DecisionTreeClassifier(random_state=state)
    if kind == "forest":
        return import_sklearn("ensemble").RandomForestClassifier(random_state=state)
    if kind == "adaboost":
        return import_sklearn("ensemble").AdaBoostClassifier(random_state=state)
    raise ValueError(f"unknown classifier {kind!r}: choose from {', '.join(TREES + LINEAR)}")


_TEST_SHARE = 0.3  # test rows for each training row


@dataclass(frozen=True)
class Classification:
    """Accuracy of one kind of classifier by its training rows, on real test rows, averaged over the runs."""

    model: Classifier
    synth: float
    real: float
    agreement: float
    """Share of the test rows for which classifiers trained on synthetic and on real rows predict the same label."""
    agreement_real: float
    """The same for two classifiers trained on disjoint real rows: the best agreement to be expected."""
    majority: float
    """Always the most frequent label."""


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

    Every run draws new rows: at most `cap` per training set, and 0.3 times as many test rows, from `test` if given.
    Real training, other real training and test rows are disjoint. The regularisation of a linear classifier is the one
    with the best accuracy when trained on real rows, as in the paper.
    """
    domain = validate_shared_domain(real, synth) if test is None else validate_shared_domain(real, synth, test)
    rng = np.random.default_rng([seed, 103])
    t = domain.index(target)
    figures = np.zeros((len(models), 5))
    for _ in range(runs):
        parts = [stack_codes(part) for part in _split_rows(real, synth, test, cap, rng)]
        for i, kind in enumerate(models):
            figures[i] += _compare_classifiers(kind, domain, t, parts, rng)
    return tuple(Classification(kind, *(row / runs).tolist()) for kind, row in zip(models, figures, strict=True))


def _split_rows(
    real: Records, synth: Records, test: Records | None, cap: int, rng: np.random.Generator
) -> tuple[Records, Records, Records, Records]:
    """Draw equally many synthetic, real and other real training rows, and test rows."""
    share = 2 + _TEST_SHARE if test is None else 2
    train = min(cap, len(synth), int(len(real) / share))
    held = int(_TEST_SHARE * train)
    if test is not None:
        held = min(max(held, 1), len(test))
    require_enough_rows(min(train, held))
    order = rng.permutation(len(real))
    made = synth.take(rng.permutation(len(synth))[:train])
    tested = (
        real.take(order[2 * train : 2 * train + held]) if test is None else test.take(rng.permutation(len(test))[:held])
    )
    return made, real.take(order[:train]), real.take(order[train : 2 * train]), tested


def _compare_classifiers(
    kind: Classifier, domain: Domain, t: int, parts: list[Ints], rng: np.random.Generator
) -> tuple[float, float, float, float, float]:
    made, learned, other, tested = parts
    truth = tested[:, t]
    if kind in LINEAR:
        told = _make_linear_predictor(kind, domain, t, tested, rng)
        best = max(LAMBDAS, key=lambda weight: np.mean(told(learned, weight) == truth))
        by_synth, by_real, by_other = (told(part, best) for part in (made, learned, other))
    else:
        features = np.delete(tested, t, 1)
        by_synth, by_real, by_other = (
            train_and_predict(make_classifier(kind, rng), np.delete(part, t, 1), part[:, t], features)
            for part in (made, learned, other)
        )
    return (
        float(np.mean(by_synth == truth)),
        float(np.mean(by_real == truth)),
        float(np.mean(by_synth == by_real)),
        float(np.mean(by_other == by_real)),
        float(np.mean(truth == find_majority_label(learned[:, t]))),
    )


def _make_linear_predictor(
    kind: Classifier, domain: Domain, t: int, tested: Ints, rng: np.random.Generator
) -> Callable[[Ints, float], NDArray[Any]]:
    # Every row has one indicator per attribute: this scale gives it norm 1, as in the paper.
    scale = 1 / np.sqrt(max(len(domain) - 1, 1))
    tests = scale * drop_target(one_hot(tested, domain), domain, t)

    def told(part: Ints, weight: float) -> NDArray[Any]:
        features = scale * drop_target(one_hot(part, domain), domain, t)
        return train_and_predict(make_classifier(kind, rng, len(part), weight), features, part[:, t], tests)

    return told


_TRAIN_SHARE = 0.7


@dataclass(frozen=True)
class Distinguishing:
    """Result of the distinguishing game (BSG, table 5) for one kind of classifier."""

    model: Classifier
    accuracy: float
    """On test rows, half real and half synthetic. 0.5: indistinguishable; 1: always distinguished."""


def distinguishing(
    real: Records,
    synth: Records,
    *,
    models: Sequence[Classifier] = ("forest", "tree"),
    cap: int = 50_000,
    seed: int = 0,
) -> tuple[Distinguishing, ...]:
    """Train on equally many rows of both tables (at most `cap` of each), and test on other rows of both."""
    domain = validate_shared_domain(real, synth)
    rng = np.random.default_rng([seed, 104])
    rows = min(len(real), len(synth))
    train = min(cap, int(_TRAIN_SHARE * rows))
    test = min(train, rows - train)
    require_enough_rows(min(train, test))
    orders = [(table, rng.permutation(len(table))) for table in (real, synth)]
    learned = np.concatenate([stack_codes(table.take(order[:train])) for table, order in orders])
    asked = np.concatenate([stack_codes(table.take(order[train : train + test])) for table, order in orders])
    is_synth, truth = np.repeat([0, 1], train), np.repeat([0, 1], test)

    games = []
    for kind in models:
        features, tests = learned, asked
        if kind in LINEAR:
            features, tests = (one_hot(part, domain) / np.sqrt(len(domain)) for part in (learned, asked))
        told = train_and_predict(make_classifier(kind, rng, 2 * train), features, is_synth, tests)
        games.append(Distinguishing(kind, float(np.mean(told == truth))))
    return tuple(games)
