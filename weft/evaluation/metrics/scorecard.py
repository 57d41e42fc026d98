"""Compute all headline figures of a synthetic table at once."""

from __future__ import annotations

from collections.abc import Sequence

from weft.evaluation.metrics.aligned_tables import validate_shared_domain
from weft.evaluation.metrics.classification import svm_misclassification
from weft.evaluation.metrics.marginal_distances import k_way
from weft.evaluation.metrics.range_query_error import nist_range, range_queries
from weft.marginals.records import Records


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
) -> dict[str, float]:
    """Return the figures by name; lower is better, except for the NIST scores, where 1 is perfect.

    `tvd_k` and `l1_k`: mean distance of k-way marginals (at most `max_pairs` with one or two attributes, 300 with more;
    omitted if k exceeds the number of attributes). `range_err`: mean error of 1,000 range queries. `nist_density` and
    `nist_range`. With `svm`: `svm_misclass` and its lower bound `svm_misclass_real`, over all targets.
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
    figures["nist_range"] = nist_range(real, synth, seed=seed, threads=threads)
    if svm:
        rates = svm_misclassification(real, synth, seed=seed, test=test)
        figures["svm_misclass"] = rates.synth
        figures["svm_misclass_real"] = rates.real
    return figures
