"""Conditional sampling: draw records from a model under evidence on its attributes.

Evidence assigns a weight from 0 to 1 to each code of some attributes; the density of a record is multiplied by the
weights of its codes. Weights of 0 and 1 exclude or allow codes; values between arise where only some of the values
merged into a code are allowed (`RecodedModel`). A model that can sample under evidence, exactly or by constrained Gibbs
chains, implements `conditioned`. For any other model, records are sampled unconditionally and filtered.
"""

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
    """Structural zeros or conditions exclude every record of the model."""


class Sampler(Protocol):
    """Source of sampled records."""

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = ignore_event) -> Records:
        """Sample n records."""
        ...


@runtime_checkable
class Conditional(Protocol):
    """Model that can be sampled under evidence."""

    def conditioned(self, evidence: Evidence) -> Sampler | None:
        """Return a sampler under evidence; None if too large. Raises ImpossibleEvidenceError if no record matches."""
        ...


def condition_model(model: Model, evidence: Evidence) -> Sampler | None:
    """Return a sampler of the model under evidence; None if unconditional records must be filtered instead."""
    return model.conditioned(evidence) if isinstance(model, Conditional) else None


def select_possible_records(records: Records, evidence: Evidence) -> Array:
    """Return a mask of the records that the evidence does not exclude."""
    fits = np.ones(len(records), np.bool_)
    for name, weights in evidence.items():
        fits &= (weights > 0)[records.column(name)]
    return fits


def compute_log_weights(weights: Array) -> Array:
    """Return the logarithm of each weight, -inf for weight 0."""
    return np.log(weights, where=weights > 0, out=np.full(weights.shape, -np.inf))
