"""SVM misclassification with each column as the label in turn (PrivMRF), or with one label (PrivSyn)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from weft.evaluate.learning import enough, majority, matrix, one_hot, predict, sklearn, without
from weft.evaluate.tables import Floats, Ints, comparable
from weft.marginals.domain import Domain
from weft.marginals.records import Records


@dataclass(frozen=True)
class Misclassification:
    """Rates on real test rows, one for each target, and their means."""

    targets: tuple[str, ...]
    synths: Floats
    """Trained on synthetic rows."""
    reals: Floats
    """NonPriv: trained on real rows that are not among the test rows. The floor."""
    majorities: Floats
    """Majority: always the most frequent label of those real training rows. The ceiling."""

    @property
    def synth(self) -> float:
        """Mean rate of the classifiers trained on synthetic rows."""
        return float(np.mean(self.synths))

    @property
    def real(self) -> float:
        """Mean rate of those trained on real rows (NonPriv)."""
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

    Without a target, each column is one in turn. Test rows are the first of `test` (rows that the synthesizer
    has not seen) or else a random part of the real table, from which NonPriv then does not learn. "linear" is
    a quick linear SVM on indicators; "rbf" is PrivMRF's: standardised codes, Gaussian kernel, gamma = 1 over
    the number of features.
    """
    domain = comparable(real, synth) if test is None else comparable(real, synth, test)
    rng = np.random.default_rng([seed, 102])
    order = rng.permutation(len(real))
    if test is None:
        # A table of up to `cap` rows is halved, so that there is always something to learn from.
        held = cap if len(real) > cap else len(real) // 2
        enough(held)
        tested, learned = real.take(order[:held]), real.take(order[held : held + cap])
    else:
        tested, learned = test.take(slice(cap)), real.take(order[:cap])
    made = synth.take(rng.permutation(len(synth))[:cap])

    targets = range(len(domain)) if target is None else [domain.index(target)]
    rows, real_rows, synth_rows = matrix(tested), matrix(learned), matrix(made)
    rates = _linear_rates if kernel == "linear" else _rbf_rates
    return Misclassification(
        tuple(domain.names[t] for t in targets),
        rates(synth_rows, rows, domain, targets),
        rates(real_rows, rows, domain, targets),
        np.array([np.mean(rows[:, t] != majority(real_rows[:, t])) for t in targets]),
    )


def _linear_rates(train: Ints, test: Ints, domain: Domain, targets: Any) -> Floats:
    features, tests = one_hot(train, domain), one_hot(test, domain)
    rates = []
    for t in targets:
        machine = sklearn("svm").LinearSVC(C=0.1, dual=False, tol=1e-3, max_iter=200)
        told = predict(machine, without(features, domain, t), train[:, t], without(tests, domain, t))
        rates.append(np.mean(told != test[:, t]))
    return np.array(rates)


def _rbf_rates(train: Ints, test: Ints, _domain: Domain, targets: Any) -> Floats:
    rates = []
    for t in targets:
        machine = sklearn("pipeline").make_pipeline(
            sklearn("preprocessing").StandardScaler(), sklearn("svm").SVC(gamma="auto")
        )
        told = predict(machine, np.delete(train, t, 1), train[:, t], np.delete(test, t, 1))
        rates.append(np.mean(told != test[:, t]))
    return np.array(rates)
