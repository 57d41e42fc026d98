"""What an experiment measures of a synthetic table, each task a function of what one run made."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from weft import evaluate
from weft.evaluate.learning import LINEAR, TREES
from weft.evaluate.tables import keys
from weft.marginals.records import Records
from weft.models import Model
from weft.models.bayesnet.model import BayesNet
from weft.privacy.deniability import UNIT, Acceptance


@dataclass(frozen=True)
class Made:
    """What one run leaves to be measured."""

    real: Records
    """The rows that the method has seen."""
    synth: Records
    test: Records | None
    """Real rows that the method has not seen, where an experiment asks for some."""
    model: Model
    target: str
    """The label of the tasks that predict a single column."""
    seed: int


Task = Callable[[Made], dict[str, float]]
"""Gives named figures; what is drawn to ask with (marginals, queries) is the same in every run."""


def _svm(made: Made) -> dict[str, float]:
    rates = evaluate.svm_misclassification(made.real, made.synth, target=made.target, test=made.test, seed=made.seed)
    return {"svm": rates.synth, "svm_nonpriv": rates.real, "svm_majority": rates.majority}


def _svm_each(made: Made) -> dict[str, float]:
    rates = evaluate.svm_misclassification(made.real, made.synth, test=made.test, seed=made.seed, kernel="rbf")
    return {"svm_each": rates.synth, "svm_each_nonpriv": rates.real, "svm_each_majority": rates.majority}


def _tvd(k: int) -> Task:
    def distance(made: Made) -> dict[str, float]:
        return {f"tvd_{k}": evaluate.k_way(made.real, made.synth, k).tvd} if k <= len(made.real.domain) else {}

    return distance


def _density(made: Made) -> dict[str, float]:
    return {"nist_density": evaluate.nist_density(made.real, made.synth)} if len(made.real.domain) >= 3 else {}


def _trees(made: Made) -> dict[str, float]:
    found = evaluate.classify(
        made.real, made.synth, target=made.target, models=TREES, runs=1, test=made.test, seed=made.seed
    )
    accuracies = {f"{one.model}_accuracy": one.synth for one in found}
    accuracies |= {f"{one.model}_accuracy_nonpriv": one.real for one in found}
    agreements = {f"{one.model}_agreement": one.agreement for one in found}
    return accuracies | agreements | {f"{one.model}_agreement_nonpriv": one.agreement_real for one in found}


def _linear(made: Made) -> dict[str, float]:
    found = evaluate.classify(
        made.real, made.synth, target=made.target, models=LINEAR, runs=1, test=made.test, seed=made.seed
    )
    accuracies = {f"{one.model}_accuracy": one.synth for one in found}
    return accuracies | {f"{one.model}_accuracy_nonpriv": one.real for one in found}


def _distinguish(made: Made) -> dict[str, float]:
    games = evaluate.distinguishing(made.real, made.synth, seed=made.seed)
    return {f"{game.model}_distinguishes": game.accuracy for game in games}


PASS_K = (10, 25, 50, 100)
PASS_KEPT = (2, 4, 6)


def _pass_rate(made: Made) -> dict[str, float]:
    """Share of candidates that pass test 2 with epsilon0 = 1: every row is a seed, and keeps its first attributes.

    Seeds are plausible if they share the kept attributes, so the model says nothing but their order.
    """
    if not isinstance(made.model, BayesNet):
        return {}
    rates = {}
    for kept in (kept for kept in PASS_KEPT if kept < len(made.real.domain)):
        (cell,) = keys([made.real], tuple(made.model.order[:kept]))
        counts = np.unique(cell, return_counts=True)[1]
        for k in PASS_K:
            levels = Acceptance(k, 1.0).levels
            passing = levels[np.minimum(counts, len(levels) - 1)] / UNIT
            rates[f"pass_kept_{kept}_k_{k}"] = float((counts * passing).sum() / counts.sum())
    return rates


TASKS: Mapping[str, Task] = {
    "pair_l1": lambda made: {"pair_l1": evaluate.pairwise_l1(made.real, made.synth).mean},
    "range": lambda made: {"range": evaluate.range_queries(made.real, made.synth).error},
    "svm": _svm,
    "svm_each": _svm_each,
    "tvd_3": _tvd(3),
    "tvd_4": _tvd(4),
    "tvd_5": _tvd(5),
    "trees": _trees,
    "linear": _linear,
    "distinguish": _distinguish,
    "pass_rate": _pass_rate,
    "nist_density": _density,
    "nist_range": lambda made: {"nist_range": evaluate.nist_range(made.real, made.synth)},
}
"""Every task by name."""

_TITLES = {
    "pair_l1": "L1 distance of pairs",
    "range": "range query error",
    "svm": "SVM misclassification",
    "svm_each": "SVM misclassification, mean over labels",
    "tvd_3": "3-way total variation",
    "tvd_4": "4-way total variation",
    "tvd_5": "5-way total variation",
    "nist_density": "NIST density score",
    "nist_range": "NIST range score",
}

REFERENCES = {"_nonpriv": "trained on real rows", "_majority": "most frequent label"}
"""Endings of figures that do not depend on the method, and what they are."""


def title(measure: str) -> str:
    """Say what a figure is.

    >>> title("svm"), title("svm_majority"), title("tree_accuracy")
    ('SVM misclassification', 'SVM misclassification, most frequent label', 'tree accuracy')
    """
    for ending, meaning in REFERENCES.items():
        if measure.endswith(ending):
            return f"{title(measure.removesuffix(ending))}, {meaning}"
    if found := re.fullmatch(r"pass_kept_(\d+)_k_(\d+)", measure):
        return f"candidates that pass, {found[1]} attributes kept, k = {found[2]}"
    return _TITLES.get(measure, measure.replace("_", " "))
