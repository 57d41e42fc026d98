"""How often a generative model knows a value from all other values of its row (BSG, section 6.2, figures 1 and 2)."""

from __future__ import annotations

import numpy as np

from weft.evaluation.metrics.aligned_tables import Ints
from weft.evaluation.metrics.classification import stack_codes, train_and_predict
from weft.marginals.records import Records
from weft_lab.classifiers import find_majority_label, make_classifier
from weft_lab.methods.bayesnet import BayesNet, Family

MOST_ROWS = 1000
"""Rows that are asked about: real ones that the model has not seen."""
FOREST_ROWS = 2000
"""Rows that the forest beside it learns from, for each attribute in turn."""


LINES = ("model_accuracy", "model_accuracy_nonpriv", "model_accuracy_majority", "model_accuracy_uniform")
"""The model, a forest, the most frequent value, and guessing."""


def accuracies(net: BayesNet, real: Records, test: Records, seed: int) -> dict[str, dict[str, float]]:
    """Return the accuracy of each line by attribute (figure 2); the mean over attributes is figure 1."""
    domain, rng = net.domain, np.random.default_rng([seed, 106])
    rows = stack_codes(test.take(slice(MOST_ROWS)))
    learned = stack_codes(real.take(rng.permutation(len(real))[:FOREST_ROWS]))
    found: dict[str, dict[str, float]] = {line: {} for line in LINES}
    for i, name in enumerate(domain.names):
        truth = rows[:, i]
        forest = train_and_predict(
            make_classifier("forest", rng), np.delete(learned, i, 1), learned[:, i], np.delete(rows, i, 1)
        )
        answers = (likeliest(net, rows, name), forest, find_majority_label(learned[:, i]))
        shares = [*(float(np.mean(answer == truth)) for answer in answers), 1 / domain.size(name)]
        for line, share in zip(LINES, shares, strict=True):
            found[line][name] = share
    return found


def likeliest(net: BayesNet, rows: Ints, name: str) -> Ints:
    """Return, for each row, the code of one attribute that is most likely given all its other codes.

    Of the product of all families, only the attribute's own and those of its children depend on it.
    """
    size, at = net.domain.size(name), net.domain.index(name)
    tried = np.repeat(rows, size, axis=0)
    tried[:, at] = np.tile(np.arange(size), len(rows))
    logs = np.zeros(len(tried))
    with np.errstate(divide="ignore"):
        for family in net.families:
            if name == family.child or name in family.parents:
                chances = family.table[_configuration(net, family, tried), tried[:, net.domain.index(family.child)]]
                logs += np.log(chances)
    return np.asarray(logs.reshape(len(rows), size).argmax(axis=1))


def _configuration(net: BayesNet, family: Family, rows: Ints) -> Ints:
    group = np.zeros(len(rows), np.int64)
    for name in family.parents:
        codes = rows[:, net.domain.index(name)]
        group = group * net.width(name) + (net.buckets[name][codes] if name in net.buckets else codes)
    return group
