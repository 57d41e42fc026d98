"""What an experiment measures of a synthetic table, each task a function of what one run made."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from weft.evaluation import metrics as evaluate
from weft.evaluation.metrics.aligned_tables import number_cells
from weft.evaluation.metrics.classification import LINEAR, TREES
from weft.marginals.records import Records
from weft.models import Model, Sequential
from weft.models.bayesnet import BayesNet
from weft.privacy.deniability import UNIT, Acceptance
from weft_lab import acs
from weft_lab.likeliest import accuracies


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
    ordered: tuple[str, ...] = ()
    """Columns whose codes lie in an order: the schema calls them numbers or dates."""


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


def _other(k: int) -> Task:
    """Distance of marginals from those of other real rows; and that of the real rows themselves."""

    def distance(made: Made) -> dict[str, float]:
        if made.test is None or k > len(made.real.domain):
            return {}
        measured = {f"other_{k}": made.synth, f"other_{k}_nonpriv": made.real}
        return {name: evaluate.k_way(made.test, side, k).tvd for name, side in measured.items()}

    return distance


def _model_accuracy(made: Made) -> dict[str, float]:
    if not isinstance(made.model, Sequential) or made.test is None:
        return {}
    return accuracies(made.model.network(), made.real, made.test, made.seed)


def _nist_range(made: Made) -> dict[str, float]:
    """Ranges of columns with an order, sets of values of all others, as the challenge has it."""
    return {"nist_range": evaluate.nist_range(made.real, made.synth, ordered=made.ordered)}


def _gini(made: Made) -> dict[str, float]:
    if not {acs.AREA, acs.GENDER, acs.WAGE} <= set(made.real.domain):
        return {}
    found = evaluate.gini_gap(
        made.real, made.synth, income=acs.WAGE, group=acs.AREA, gender=acs.GENDER, values=acs.WAGE_VALUES
    )
    return {"gini_score": found.gini, "gap_score": found.gap}


PASS_K = (10, 25, 50, 100)
PASS_KEPT = (2, 4, 6)


def _pass_rate(made: Made) -> dict[str, float]:
    """Share of candidates that pass test 2 with epsilon0 = 1: every row is a seed, and keeps its first attributes.

    Seeds are plausible if they share the kept attributes, so the model says nothing but their order.
    """
    if not isinstance(made.model, BayesNet):
        return {}
    order, rates = made.model.order, dict[str, float]()
    most = min(max(PASS_KEPT), len(order) - 1)
    for k in PASS_K:
        levels = Acceptance(k, 1.0).levels
        by_kept = [1.0]  # a record that keeps nothing has every row for a seed
        for kept in range(1, most + 1):
            (cell,) = number_cells([made.real], tuple(order[:kept]))
            counts = np.unique(cell, return_counts=True)[1]
            passing = levels[np.minimum(counts, len(levels) - 1)] / UNIT
            by_kept.append(float((counts * passing).sum() / counts.sum()))
        rates |= {f"pass_kept_{kept}_k_{k}": by_kept[kept] for kept in PASS_KEPT if kept <= most}
        if most == max(PASS_KEPT):
            rates[f"pass_kept_0_to_{most}_k_{k}"] = float(np.mean(by_kept))
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
    "nist_range": _nist_range,
    "gini": _gini,
    "other_1": _other(1),
    "other_2": _other(2),
    "model_accuracy": _model_accuracy,
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
    "gini_score": "score of Gini indices",
    "gap_score": "score of ranks by pay gap",
    "other_1": "distance of single attributes from other real rows",
    "other_2": "distance of pairs from other real rows",
    "model_accuracy": "values known from all others, mean over attributes",
    "relative_error": "mean relative error of the scores",
    "crossing": "marginals",
}

TRAINED_ON_REAL = "trained on real rows"
REFERENCES = {"_nonpriv": TRAINED_ON_REAL, "_majority": "most frequent label", "_uniform": "guessing"}
"""Endings of figures that do not depend on the method, and what they are."""
_LARGER = ("accuracy", "agreement", "score", "nist_density", "nist_range")


def larger_is_better(measure: str) -> bool:
    """Whether a larger figure is a better one.

    >>> larger_is_better("tree_accuracy"), larger_is_better("tvd_3"), larger_is_better("pass_kept_2_k_10")
    (True, False, True)
    """
    return measure.endswith(_LARGER) or measure.startswith("pass_")


def title(measure: str) -> str:
    """Say what a figure is.

    >>> title("svm"), title("svm_majority"), title("tree_accuracy")
    ('SVM misclassification', 'SVM misclassification, most frequent label', 'tree accuracy')
    """
    for ending, meaning in REFERENCES.items():
        if measure.endswith(ending):
            return f"{title(measure.removesuffix(ending))}, {meaning}"
    if found := re.fullmatch(r"pass_kept_(\w+)_k_(\d+)", measure):
        return f"candidates that pass, {found[1].replace('_', ' ')} attributes kept, k = {found[2]}"
    if found := re.fullmatch(r"ratio_(\d+)", measure):
        return f"noise over range, {int(found[1]):,} values"
    return _TITLES.get(measure, measure.replace("_", " "))
