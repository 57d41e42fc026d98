"""Records under conditions: what a model can do about evidence on its attributes.

Evidence is a weight from 0 to 1 for each code of some attributes: a record is wanted in proportion to the product of
the weights of its codes. Weights of 0 and 1 say which codes are possible; those between arise where merged values are
only partly so (`RecodedModel`). A model that can draw such records exactly, or by chains that are held to them, has
`condition_model`. Of any other, records are drawn as they come, and those that fit are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np

from weft.errors import WeftError
from weft.marginals.marginal import Array
from weft.marginals.records import Records
from weft.models import Model
from weft.progress import Listener, ignore_event

Evidence = Mapping[str, Array]
"""Weights of the codes of some attributes."""


class ImpossibleEvidenceError(WeftError):
    """Structural zeros, or what a sample is conditioned on, leave no record that the model could make."""


class Sampler(Protocol):
    """Something that makes records."""

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = ignore_event) -> Records:
        """Make n records."""
        ...


@runtime_checkable
class Conditional(Protocol):
    """A model that can be held to evidence."""

    def conditioned(self, evidence: Evidence) -> Sampler | None:
        """Return what draws records under evidence; None if that would be too large, Impossible if there are none."""
        ...


def condition_model(model: Model, evidence: Evidence) -> Sampler | None:
    """Return what draws a model's records under evidence; None where they have to be picked from all records."""
    return model.conditioned(evidence) if isinstance(model, Conditional) else None


def select_possible_records(records: Records, evidence: Evidence) -> Array:
    """Say which records have no code that the evidence rules out."""
    fits = np.ones(len(records), np.bool_)
    for name, weights in evidence.items():
        fits &= (weights > 0)[records.column(name)]
    return fits


def compute_log_weights(weights: Array) -> Array:
    """Return the logarithm of each weight, -inf for what is ruled out."""
    return np.log(weights, where=weights > 0, out=np.full(weights.shape, -np.inf))
