"""Classifiers trained on either table, as in BSG (plausible deniability), tables 3 to 5 and figure 2, and PrivMRF."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weft.errors import DataError, WeftError
from weft.evaluation.metrics.aligned_tables import Floats, Ints, validate_shared_domain
from weft.marginals.domain import Domain
from weft.marginals.records import Records

Classifier = Literal["tree", "forest", "adaboost", "logistic", "svm"]
TREES: tuple[Classifier, ...] = ("tree", "forest", "adaboost")
"""The classifiers of BSG's table 3; their features are the codes as ordered numbers."""
LINEAR: tuple[Classifier, ...] = ("logistic", "svm")
"""The classifiers of BSG's table 4; their features are one indicator per code, with rows scaled to norm 1."""
LAMBDAS = (1e-3, 1e-4, 1e-5, 1e-6)
"""Regularisation weights that BSG tries for the linear classifiers."""


def import_sklearn(module: str) -> Any:
    """Import a module of scikit-learn, an optional dependency of the classification metrics."""
    try:
        return import_module(f"sklearn.{module}")
    except ImportError as error:
        raise WeftError("classification metrics require scikit-learn: pip install 'weft[evaluate]'") from error


def stack_codes(records: Records) -> Ints:
    """Return the codes as a matrix of rows."""
    return np.column_stack([column.astype(np.int64) for column in records.columns])


def one_hot(rows: Ints, domain: Domain) -> Any:
    """Return sparse indicators of every code of every attribute, attribute by attribute."""
    from scipy import sparse

    offsets = np.cumsum([0, *domain.shape])
    cells = (rows + offsets[:-1]).ravel()
    where = (np.repeat(np.arange(len(rows)), rows.shape[1]), cells)
    return sparse.csr_matrix((np.ones(len(cells)), where), (len(rows), int(offsets[-1])))


def drop_target(indicators: Any, domain: Domain, target: int) -> Any:
    """Remove the target's indicators."""
    offsets = np.cumsum([0, *domain.shape])
    return indicators.tocsc()[:, np.r_[: offsets[target], offsets[target + 1] : offsets[-1]]].tocsr()


def train_and_predict(classifier: Any, features: Any, labels: NDArray[Any], test: Any) -> NDArray[Any]:
    """Train a scikit-learn classifier and predict; with a single label, predict that."""
    if (labels == labels[0]).all():
        return np.full(test.shape[0], labels[0])
    with warnings.catch_warnings():
        # The iteration limit is part of the protocol: reaching it deserves no warning.
        warnings.simplefilter("ignore", import_sklearn("exceptions").ConvergenceWarning)
        classifier.fit(features, labels)
        return np.asarray(classifier.predict(test))


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


def find_majority_label(labels: NDArray[Any]) -> int:
    """Return the most frequent label (the lowest one of a tie)."""
    return int(np.bincount(labels).argmax())


def require_enough_rows(rows: int) -> None:
    """Raise DataError if no training or test rows are left."""
    if rows < 1:
        raise DataError("the tables have too few rows for a split into training and test rows")


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


@dataclass(frozen=True)
class AttributeAccuracy:
    """Accuracy of predicting each attribute from the others by training rows, on real test rows."""

    names: tuple[str, ...]
    synth: Floats
    real: Floats
    majority: Floats
    """Always the most frequent code (BSG's "marginals")."""
    uniform: Floats
    """Codes drawn uniformly."""

    @property
    def improvement(self) -> Floats:
        """Share of the majority's errors that training on synthetic rows avoids (0 if it makes none)."""
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


def attribute_accuracy(
    real: Records,
    synth: Records,
    *,
    model: Classifier = "forest",
    cap: int = 4000,
    test: Records | None = None,
    seed: int = 0,
) -> AttributeAccuracy:
    """Predict each attribute from all others, with the classifier trained on either table."""
    domain = validate_shared_domain(real, synth) if test is None else validate_shared_domain(real, synth, test)
    rng = np.random.default_rng([seed, 105])
    parts = [stack_codes(part) for part in _split_rows(real, synth, test, cap, rng)]
    figures = np.array([_compare_classifiers(model, domain, t, parts, rng) for t in range(len(domain))])
    return AttributeAccuracy(
        domain.names, figures[:, 0], figures[:, 1], figures[:, 4], 1 / np.array(domain.shape, np.float64)
    )


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


@dataclass(frozen=True)
class Misclassification:
    """SVM misclassification rates on real test rows for each target (PrivMRF) or one (PrivSyn), and their means."""

    targets: tuple[str, ...]
    synths: Floats
    reals: Floats
    """NonPriv: trained on real rows that are not among the test rows. The expected lower bound."""
    majorities: Floats
    """Majority: always the most frequent label of those real training rows. The expected upper bound."""

    @property
    def synth(self) -> float:
        """Mean rate of the classifiers trained on synthetic rows."""
        return float(np.mean(self.synths))

    @property
    def real(self) -> float:
        """Mean rate of the classifiers trained on real rows (NonPriv)."""
        return float(np.mean(self.reals))

    @property
    def majority(self) -> float:
        """Mean rate of the most frequent label (Majority)."""
        return float(np.mean(self.majorities))


def svm_misclassification(
    real: Records,
    synth: Records,
    *,
    target: str | None = None,
    seed: int = 0,
    test: Records | None = None,
    cap: int = 4000,
    kernel: Literal["linear", "rbf"] = "linear",
) -> Misclassification:
    """Train SVMs on at most `cap` rows of either table, and test them on at most `cap` real rows.

    By default, each attribute is the target in turn. Test rows are the first of `test` (rows not used for synthesis)
    or, by default, a random part of the real table on which NonPriv is then not trained. "linear" is a fast linear SVM
    on indicators; "rbf" is PrivMRF's: standardised codes, Gaussian kernel, gamma = 1 / number of features.
    """
    domain = validate_shared_domain(real, synth) if test is None else validate_shared_domain(real, synth, test)
    rng = np.random.default_rng([seed, 102])
    order = rng.permutation(len(real))
    if test is None:
        # A table of up to `cap` rows is halved, so that training rows are left.
        held = cap if len(real) > cap else len(real) // 2
        require_enough_rows(held)
        tested, learned = real.take(order[:held]), real.take(order[held : held + cap])
    else:
        tested, learned = test.take(slice(cap)), real.take(order[:cap])
    made = synth.take(rng.permutation(len(synth))[:cap])

    targets = range(len(domain)) if target is None else [domain.index(target)]
    rows, real_rows, synth_rows = stack_codes(tested), stack_codes(learned), stack_codes(made)
    rates = _linear_rates if kernel == "linear" else _rbf_rates
    return Misclassification(
        tuple(domain.names[t] for t in targets),
        rates(synth_rows, rows, domain, targets),
        rates(real_rows, rows, domain, targets),
        np.array([np.mean(rows[:, t] != find_majority_label(real_rows[:, t])) for t in targets]),
    )


def _linear_rates(train: Ints, test: Ints, domain: Domain, targets: Any) -> Floats:
    features, tests = one_hot(train, domain), one_hot(test, domain)
    rates = []
    for t in targets:
        machine = import_sklearn("svm").LinearSVC(C=0.1, dual=False, tol=1e-3, max_iter=200)
        told = train_and_predict(machine, drop_target(features, domain, t), train[:, t], drop_target(tests, domain, t))
        rates.append(np.mean(told != test[:, t]))
    return np.array(rates)


def _rbf_rates(train: Ints, test: Ints, _domain: Domain, targets: Any) -> Floats:
    rates = []
    for t in targets:
        machine = import_sklearn("pipeline").make_pipeline(
            import_sklearn("preprocessing").StandardScaler(), import_sklearn("svm").SVC(gamma="auto")
        )
        told = train_and_predict(machine, np.delete(train, t, 1), train[:, t], np.delete(test, t, 1))
        rates.append(np.mean(told != test[:, t]))
    return np.array(rates)


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
