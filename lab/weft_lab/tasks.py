"""What an experiment measures of a synthetic table, each task a function of what one run made."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from weft.evaluation import metrics as evaluate
from weft.evaluation.metrics.aligned_tables import number_cells
from weft.marginals.records import Records
from weft.models import Model
from weft.privacy.deniability import UNIT, Acceptance
from weft_lab import acs
from weft_lab.classifiers import LINEAR, TREES, classify, distinguishing
from weft_lab.inequality import gini_gap
from weft_lab.likeliest import accuracies
from weft_lab.methods.bayesnet import BayesNet, convert_to_network, has_network
from weft_lab.methods.bsg.seeded_records import RandomOmega
from weft_lab.nist_scores import nist_density, nist_range
from weft_lab.scorecard import pairwise_l1


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
    return {"nist_density": nist_density(made.real, made.synth)} if len(made.real.domain) >= 3 else {}


def _trees(made: Made) -> dict[str, float]:
    found = classify(made.real, made.synth, target=made.target, models=TREES, runs=1, test=made.test, seed=made.seed)
    accuracies = {f"{one.model}_accuracy": one.synth for one in found}
    accuracies |= {f"{one.model}_accuracy_nonpriv": one.real for one in found}
    agreements = {f"{one.model}_agreement": one.agreement for one in found}
    return accuracies | agreements | {f"{one.model}_agreement_nonpriv": one.agreement_real for one in found}


def _linear(made: Made) -> dict[str, float]:
    found = classify(made.real, made.synth, target=made.target, models=LINEAR, runs=1, test=made.test, seed=made.seed)
    accuracies = {f"{one.model}_accuracy": one.synth for one in found}
    return accuracies | {f"{one.model}_accuracy_nonpriv": one.real for one in found}


def _distinguish(made: Made) -> dict[str, float]:
    games = distinguishing(made.real, made.synth, seed=made.seed)
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
    if not has_network(made.model) or made.test is None:
        return {}
    found = accuracies(convert_to_network(made.model), made.real, made.test, made.seed)
    each = {f"model_of_{name}_accuracy": share for name, share in found["model_accuracy"].items()}
    return {line: float(np.mean(list(shares.values()))) for line, shares in found.items()} | each


def _other_each(made: Made) -> dict[str, float]:
    """Distance of each attribute from other real rows (figure 3)."""
    if made.test is None:
        return {}
    names = [(name,) for name in made.real.domain]
    return {
        f"other_1_of_{name}": float(distance)
        for (name,), distance in zip(names, evaluate.distances(made.test, made.synth, names), strict=True)
    }


GAMMAS = (2.0, 4.0, 8.0)
CANDIDATES = 300
"""Candidates of which the likelihoods under all rows are computed, for classes of likelihood."""


def _pass_classes(made: Made) -> dict[str, float]:
    """Share of candidates that pass Mechanism 1: classes of width gamma, 0 to 6 attributes kept, epsilon0 = 1."""
    if not isinstance(made.model, BayesNet):
        return {}
    net, rng = made.model, np.random.default_rng([made.seed, 114])
    m = len(net.order)
    maker = RandomOmega(net, range(max(m - max(PASS_KEPT), 1), m + 1))
    rows = np.column_stack([made.real.column(name) for name in maker.domain]).astype(np.int64)
    chosen = rng.permutation(len(rows))[:CANDIDATES]
    records = maker.grow(rows[chosen], rng)
    logs = maker.log_likelihood(records, rows)
    own = logs[np.arange(len(chosen)), chosen]
    rates = {}
    for gamma in GAMMAS:
        classes = np.floor(np.where(np.isfinite(logs), -logs, -1.0) / np.log(gamma))
        same = np.isfinite(logs) & (classes == np.floor(-own / np.log(gamma))[:, None])
        for k in PASS_K:
            levels = Acceptance(k, 1.0).levels
            passing = levels[np.minimum(same.sum(axis=1), len(levels) - 1)]
            rates[f"pass_gamma_{gamma:g}_k_{k}"] = float(np.mean(passing)) / UNIT
    return rates


def _nist_range(made: Made) -> dict[str, float]:
    """Ranges of columns with an order, sets of values of all others, as the challenge has it."""
    return {"nist_range": nist_range(made.real, made.synth, ordered=made.ordered)}


def _gini(made: Made) -> dict[str, float]:
    if not {acs.AREA, acs.GENDER, acs.WAGE} <= set(made.real.domain):
        return {}
    found = gini_gap(made.real, made.synth, income=acs.WAGE, group=acs.AREA, gender=acs.GENDER, values=acs.WAGE_VALUES)
    return {"gini_score": found.gini, "gap_score": found.gap}


def _nist_mean(made: Made) -> dict[str, float]:
    """The challenge's final score: the mean of density, range and, where there are wages, the third score."""
    thirds = _gini(made)
    found = [*_density(made).values(), *_nist_range(made).values()]
    return {"nist_mean_score": float(np.mean([*found, *([np.mean(list(thirds.values()))] if thirds else [])]))}


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
    "pair_l1": lambda made: {"pair_l1": pairwise_l1(made.real, made.synth).mean},
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
    "pass_classes": _pass_classes,
    "nist_density": _density,
    "nist_range": _nist_range,
    "gini": _gini,
    "nist_mean": _nist_mean,
    "other_1": _other(1),
    "other_2": _other(2),
    "other_each": _other_each,
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
    "nist_mean_score": "mean of NIST scores",
    "gini_score": "score of Gini indices",
    "gap_score": "score of ranks by pay gap",
    "other_1": "distance of single attributes from other real rows",
    "other_2": "distance of pairs from other real rows",
    "model_accuracy": "values known from all others, mean over attributes",
    "relative_error": "mean relative error of the scores",
    "crossing": "marginals",
}

CONVENTIONS: Mapping[str, str] = {
    "svm": "SVM: at most 4,000 rows to train on.",
    "svm_each": "SVM: at most 4,000 rows to train on, each column in turn as the label.",
    "tvd_3": "Total variation is half of the L1 distance, as in the paper.",
    "tvd_5": "Total variation is half of the L1 distance, as in the paper.",
    "pair_l1": "L1 distances are twice the total variation.",
    "other_1": "Distances are total variation, half of the L1 distance.",
    "trees": "Classifiers: at most 10,000 rows to train on (the paper: 100,000).",
    "linear": "Classifiers: at most 10,000 rows to train on (the paper: 100,000).",
    "distinguish": "Classifiers: at most 10,000 rows to train on.",
}
"""How a task measures, where that may differ from a paper."""

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
    if found := re.fullmatch(r"pass_gamma_(\w+)_k_(\d+)", measure):
        return f"candidates that pass, 0 to 6 attributes kept, classes of gamma = {found[1]}, k = {found[2]}"
    if found := re.fullmatch(r"(model|other_1)_of_(\w+?)(_accuracy)?", measure):
        return f"{_TITLES[{'model': 'model_accuracy'}.get(found[1], found[1])]}: {found[2]}"
    if found := re.fullmatch(r"ratio_(\d+)", measure):
        return f"noise over range, {int(found[1]):,} values"
    return _TITLES.get(measure, measure.replace("_", " "))
