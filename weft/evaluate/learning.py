"""What the classification measures share: classifiers, features, and splits into training and test rows."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weft.errors import DataError, WeftError
from weft.evaluate.tables import Ints
from weft.marginals.domain import Domain
from weft.marginals.records import Records

Classifier = Literal["tree", "forest", "adaboost", "logistic", "svm"]
TREES: tuple[Classifier, ...] = ("tree", "forest", "adaboost")
"""The classifiers of BSG's table 3; they see the codes as ordered numbers."""
LINEAR: tuple[Classifier, ...] = ("logistic", "svm")
"""The classifiers of BSG's table 4; they see one indicator a code, rows scaled to norm 1."""
LAMBDAS = (1e-3, 1e-4, 1e-5, 1e-6)
"""Regularisation weights that BSG tries for the linear classifiers."""


def sklearn(module: str) -> Any:
    """Import a part of scikit-learn, which only the classification measures need."""
    try:
        return import_module(f"sklearn.{module}")
    except ImportError as error:
        raise WeftError("the classification measures need scikit-learn: pip install 'weft[evaluate]'") from error


def matrix(records: Records) -> Ints:
    """Codes as rows, int64."""
    return np.column_stack([column.astype(np.int64) for column in records.columns])


def one_hot(rows: Ints, domain: Domain) -> Any:
    """Sparse indicators of every code of every column, column after column."""
    from scipy import sparse

    offsets = np.cumsum([0, *domain.shape])
    cells = (rows + offsets[:-1]).ravel()
    where = (np.repeat(np.arange(len(rows)), rows.shape[1]), cells)
    return sparse.csr_matrix((np.ones(len(cells)), where), (len(rows), int(offsets[-1])))


def without(indicators: Any, domain: Domain, target: int) -> Any:
    """Drop the target's indicators."""
    offsets = np.cumsum([0, *domain.shape])
    return indicators.tocsc()[:, np.r_[: offsets[target], offsets[target + 1] : offsets[-1]]].tocsr()


def predict(classifier: Any, features: Any, labels: NDArray[Any], test: Any) -> NDArray[Any]:
    """Train a scikit-learn classifier and predict; with a single label there is nothing to train."""
    if (labels == labels[0]).all():
        return np.full(test.shape[0], labels[0])
    with warnings.catch_warnings():
        # An iteration limit is part of the protocol: stopping there is no news.
        warnings.simplefilter("ignore", sklearn("exceptions").ConvergenceWarning)
        classifier.fit(features, labels)
        return np.asarray(classifier.predict(test))


def make(kind: Classifier, rng: np.random.Generator, rows: int = 1, weight: float = 1e-4) -> Any:
    """Return an untrained classifier; `weight` is the lambda of a linear one that will see `rows` rows."""
    if kind == "logistic":
        return sklearn("linear_model").LogisticRegression(C=1 / (rows * weight), max_iter=200)
    if kind == "svm":
        return sklearn("svm").LinearSVC(C=1 / (rows * weight), dual=False, max_iter=200)
    state = int(rng.integers(2**31))
    if kind == "tree":
        return sklearn("tree").DecisionTreeClassifier(random_state=state)
    if kind == "forest":
        return sklearn("ensemble").RandomForestClassifier(random_state=state)
    if kind == "adaboost":
        return sklearn("ensemble").AdaBoostClassifier(random_state=state)
    raise ValueError(f"unknown classifier {kind!r}: choose from {', '.join(TREES + LINEAR)}")


def majority(labels: NDArray[Any]) -> int:
    """Most frequent label (the lowest of equals)."""
    return int(np.bincount(labels).argmax())


def enough(rows: int) -> None:
    """Refuse a table that cannot be split into training and test rows."""
    if rows < 1:
        raise DataError("the tables have too few rows to hold some back for testing")
