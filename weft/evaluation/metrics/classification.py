"""Misclassification rates of SVMs trained on either table (PrivMRF and PrivSyn)."""

import warnings
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weft.errors import DataError, WeftError
from weft.evaluation.metrics.aligned_tables import Floats, Ints, validate_shared_domain
from weft.marginals.domain import Domain
from weft.marginals.records import Records


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
    """Train a scikit-learn classifier and predict; with a single label or no feature, predict the most frequent."""
    if features.shape[1] == 0 or (labels == labels[0]).all():
        return np.full(test.shape[0], np.bincount(labels).argmax())
    with warnings.catch_warnings():
        # The iteration limit is part of the protocol: reaching it deserves no warning.
        warnings.simplefilter("ignore", import_sklearn("exceptions").ConvergenceWarning)
        classifier.fit(features, labels)
        return np.asarray(classifier.predict(test))


def require_enough_rows(rows: int) -> None:
    """Raise DataError if no training or test rows are left."""
    if rows < 1:
        raise DataError("the tables have too few rows for a split into training and test rows")


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
        np.array([np.mean(rows[:, t] != np.bincount(real_rows[:, t]).argmax()) for t in targets]),
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
