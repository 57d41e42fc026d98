"""Sample records of which some attributes are given record by record, such as children of given parents."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.marginals.marginal import Array
from weft.marginals.records import Records
from weft.models import Model
from weft.models.chains.chain_model import ChainsModel, clamp_chains, to_records
from weft.models.conditional import Evidence, condition_model
from weft.models.mrf.inference import sample_from_tree
from weft.models.recoded import RecodedModel
from weft.progress import Listener, ignore_event, report_stage

MIN_SWEEPS = 8
"""Least number of Gibbs sweeps: chains start without knowledge of the given attributes."""


def sample_given(
    model: Model,
    given: Mapping[str, Array],
    evidence: Evidence,
    rng: np.random.Generator,
    listener: Listener = ignore_event,
) -> Records:
    """Sample one record for each entry of the given attributes, conditional on them; `evidence` holds for all records.

    Gibbs chains keep the given attributes fixed. A model without chains relates no columns here: its records are
    sampled under the evidence, and the given attributes are set.
    """
    n = len(next(iter(given.values())))
    if isinstance(model, RecodedModel):
        return _sample_recoded(model, given, evidence, rng, listener)
    if isinstance(model, ChainsModel):
        return _sample_chains(model, n, given, evidence, rng, listener)
    sampler = (condition_model(model, evidence) if evidence else None) or model
    records = sampler.sample(n, rng, listener)
    columns = [given.get(name, codes) for name, codes in zip(records.domain, records.columns, strict=True)]
    return Records.of(records.domain, columns)


def _sample_recoded(
    model: RecodedModel, given: Mapping[str, Array], evidence: Evidence, rng: np.random.Generator, listener: Listener
) -> Records:
    """Sample merged codes, and split those that are not given."""
    inside, maps = model.merge_evidence(evidence)
    merged = {name: maps[name].codes[codes] if name in maps else codes for name, codes in given.items()}
    records = sample_given(model.inner, merged, inside, rng, listener)
    columns = []
    for name, codes in zip(records.domain, records.columns, strict=True):
        own = maps[name].unfold(codes, rng) if name in maps and name not in given else codes
        columns.append(given.get(name, own))
    return Records.of(model.domain, columns)


def _sample_chains(
    model: ChainsModel,
    n: int,
    given: Mapping[str, Array],
    evidence: Evidence,
    rng: np.random.Generator,
    listener: Listener,
) -> Records:
    """Start from the forest under the evidence, set the given attributes, and update the others by Gibbs sweeps."""
    clamped = clamp_chains(model, model._chains, evidence)  # noqa: SLF001 (the chains of the model)
    free = np.array([name not in given for name in model.domain])
    drawn = sample_from_tree(clamped.start, n, rng)
    columns = [given.get(name, codes) for name, codes in zip(model.domain, drawn.columns, strict=True)]
    rows = np.ascontiguousarray(np.stack([np.asarray(column, np.int32) for column in columns], axis=1))
    sweeps = max(2 * model.sweeps, MIN_SWEEPS)

    def weave(records: Array, seed: np.uint64) -> None:
        for sweep in np.random.default_rng(int(seed)).integers(0, 1 << 63, sweeps, dtype=np.uint64):
            clamped.chains.sweep(records, sweep, free)

    with report_stage(listener, "weave"):
        for _ in clamped.chains.each_block(rows, weave, rng):
            pass
    return to_records(model.domain, rows)
