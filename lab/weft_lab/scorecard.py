"""Headline figures of a synthetic table in experiments, and the L1 distances of all pairs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from weft.evaluation.metrics import distances, k_way, range_queries, svm_misclassification
from weft.evaluation.metrics.aligned_tables import Floats, validate_shared_domain
from weft.marginals.records import Records
from weft_lab.nist_scores import nist_range


def scorecard(
    real: Records,
    synth: Records,
    seed: int = 0,
    *,
    ways: Sequence[int] = (1, 2, 3, 4, 5),
    max_pairs: int = 2000,
    svm: bool = False,
    test: Records | None = None,
    threads: int | None = None,
    ordered: Collection[str] | None = None,
) -> dict[str, float]:
    """Return the figures by name; lower is better, except for the NIST scores, where 1 is perfect.

    `tvd_k` and `l1_k`: mean distance of k-way marginals (at most `max_pairs` with one or two attributes, 300 with more;
    omitted if k exceeds the number of attributes). `range_err`: mean error of 1,000 range queries. `nist_density` and
    `nist_range`. With `svm`: `svm_misclass` and its lower bound `svm_misclass_real`, over all targets.
    `ordered` names the attributes that NIST's ranges ask for intervals; the others are asked for sets of values.
    """
    domain = validate_shared_domain(real, synth)
    figures: dict[str, float] = {"n_real": len(real), "n_synth": len(synth), "n_attrs": len(domain)}
    for k in ways:
        if k <= len(domain):
            limit = max_pairs if k <= 2 else 300
            distance = k_way(real, synth, k, limit=limit, seed=seed, threads=threads)
            figures |= {f"tvd_{k}": distance.tvd, f"l1_{k}": distance.l1}
    figures["range_err"] = range_queries(real, synth, seed=seed, threads=threads).error
    if "tvd_3" in figures:
        figures["nist_density"] = 1 - figures["tvd_3"]
    figures["nist_range"] = nist_range(real, synth, seed=seed, threads=threads, ordered=ordered)
    if svm:
        rates = svm_misclassification(real, synth, seed=seed, test=test)
        figures["svm_misclass"] = rates.synth
        figures["svm_misclass_real"] = rates.real
    return figures


@dataclass(frozen=True)
class PairwiseL1:
    """L1 distance of every 2-way marginal (PrivSyn's first task), in [0, 2]."""

    names: tuple[str, ...]
    matrix: Floats
    """Symmetric; the diagonal contains the 1-way distances, which are those of the marginal of (a, a)."""

    @property
    def mean(self) -> float:
        """Mean over all pairs of different attributes (the 1-way distance if there is only one attribute)."""
        upper = self.matrix[np.triu_indices(len(self.names), min(1, len(self.names) - 1))]
        return float(np.mean(upper))


def pairwise_l1(real: Records, synth: Records, *, threads: int | None = None) -> PairwiseL1:
    """Compare all 2-way and 1-way marginals."""
    domain = validate_shared_domain(real, synth)
    d = len(domain)
    rows, columns = np.triu_indices(d)
    cliques = [
        (domain.names[i],) if i == j else (domain.names[i], domain.names[j])
        for i, j in zip(rows.tolist(), columns.tolist(), strict=True)
    ]
    matrix = np.zeros((d, d))
    matrix[rows, columns] = matrix[columns, rows] = 2 * distances(real, synth, cliques, threads)
    return PairwiseL1(domain.names, matrix)
