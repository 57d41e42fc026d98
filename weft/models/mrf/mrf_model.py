"""Model: Markov random field on a junction tree."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Array, Marginal, Measured
from weft.marginals.pooling import compute_pooled_sigma
from weft.marginals.records import Records
from weft.models import stored_arrays as stored
from weft.models.conditional import Evidence, Sampler, compute_log_weights
from weft.models.gum.gum_plan import adjust_records
from weft.models.mrf.inference import Calibrated, CalibratedTree, calibrate_tree, sample_from_tree
from weft.models.mrf.junction_tree import JunctionTree, junction_tree
from weft.progress import Listener, ignore_event


@dataclass(frozen=True)
class MrfModel:
    """Distribution p(x) proportional to exp(sum over cliques of theta(x)), estimated from released tables only."""

    kind: ClassVar[str] = "mrf"
    fixed_records: ClassVar[bool] = False
    relates_columns: ClassVar[bool] = True

    tree: JunctionTree
    total: float
    potentials: Mapping[Clique, Array]
    """Log-potentials by measured clique, axes in clique order."""
    precisions: Mapping[Clique, float] = field(default_factory=dict)
    """Inverse noise variance per cell of each measured clique."""
    zeros: tuple[Marginal, ...] = ()
    """Boolean tables, true for impossible cells."""
    loss: float = math.nan
    """Squared distance to the measurements in noise variances, divided by the number of cells; 1 at the noise level."""
    passes: int = 0
    """Number of calibrations of the tree during the fit."""
    targets: tuple[Marginal, ...] = ()
    """Non-negative, consistent marginals that sampled records are adjusted to (`adjust_records`)."""

    @property
    def domain(self) -> Domain:
        """Attributes of the model."""
        return self.tree.domain

    @cached_property
    def beliefs(self) -> CalibratedTree:
        """Calibrated tree."""
        return calibrate_tree(self.tree, self.potentials, self.total, self.zeros)

    def marginal(self, columns: Sequence[str]) -> Array:
        """Return expected counts in clique order: projected from a target that covers the attributes, else exact."""
        wanted = make_clique(columns)
        told = next((m for m in self.targets if set(wanted) <= set(m.clique)), None)
        return self.beliefs.marginal(wanted) if told is None else told.project(wanted).table

    def many_marginals(self, cliques: Sequence[Sequence[str]]) -> list[Array]:
        """Return expected counts over many cliques, sharing work between them."""
        return self.beliefs.many([make_clique(c) for c in cliques])

    def standard_error(self, columns: Sequence[str]) -> float:
        """Return the standard error of a cell of `marginal(columns)` due to measurement noise, in counts.

        It is that of the best unbiased estimate from the measured tables that cover the attributes
        (`compute_pooled_sigma`); other tables and non-negativity usually reduce it. If no table covers the attributes,
        the estimate relies on conditional independence, whose error is unknown: returns infinity.
        """
        tables = (Measured(c, self.domain.sizes(c), p**-0.5) for c, p in self.precisions.items() if p > 0)
        return compute_pooled_sigma(columns, tables)

    def given(self, evidence: Mapping[str, int | Sequence[int]]) -> CalibratedTree:
        """Return the calibrated tree of the model, conditioned on attributes having one of the given codes."""
        barred = []
        for name, codes in evidence.items():
            if name not in self.domain:
                raise ValueError(f"cannot condition on {name!r}: the model has no such attribute")
            allowed = np.atleast_1d(np.asarray(codes, dtype=np.int64))
            if allowed.size == 0 or allowed.min() < 0 or allowed.max() >= self.domain.size(name):
                raise ValueError(f"{name!r} must be conditioned on codes from 0 to {self.domain.size(name) - 1}")
            table = np.ones(self.domain.size(name), dtype=np.bool_)
            table[allowed] = False
            barred.append(Marginal((name,), table))
        return calibrate_tree(self.tree, self.potentials, self.total, (*self.zeros, *barred))

    def sample(
        self,
        n: int,
        rng: np.random.Generator,
        listener: Listener = ignore_event,
        given: Mapping[str, int | Sequence[int]] | None = None,
    ) -> Records:
        """Sample n records; with `given`, from the field's exact conditional distribution of the other attributes."""
        if given:
            return sample_from_tree(self.given(given), n, rng, listener)
        return adjust_records(sample_from_tree(self.beliefs, n, rng, listener), self.targets, rng, listener)

    def conditioned(self, evidence: Evidence) -> Sampler:
        """Return a sampler of the field's exact distribution under evidence."""
        potentials = dict(self.potentials)
        for name, weights in evidence.items():
            potentials[(name,)] = potentials.get((name,), 0.0) + compute_log_weights(weights)
        return Calibrated(calibrate_tree(self.tree, potentials, self.total, self.zeros))

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the cliques as JSON and the potentials as arrays."""
        meta = {
            "total": self.total,
            "tree": [list(c) for c in self.tree.cliques],
            "potentials": [list(c) for c in self.potentials],
            "precisions": [[list(c), p] for c, p in self.precisions.items()],
            "zeros": [list(zero.clique) for zero in self.zeros],
            "loss": None if math.isnan(self.loss) else self.loss,
            "passes": self.passes,
            "targets": [list(m.clique) for m in self.targets],
        }
        arrays = {f"potential-{i}": table for i, table in enumerate(self.potentials.values())}
        arrays |= {f"zero-{i}": zero.table for i, zero in enumerate(self.zeros)}
        arrays |= {f"target-{i}": m.table for i, m in enumerate(self.targets)}
        return meta, arrays

    @classmethod
    def from_arrays(cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Rebuild the model from the output of `to_arrays`."""
        # The stored cliques are those of a triangulated graph, which elimination reproduces without fill edges.
        # A file may contain a model fitted with raised limits, but must not request unlimited memory.
        tree = junction_tree(domain, stored.read_cliques(meta, "tree", domain), max_cells=1 << 28, max_total=1 << 28)
        potentials = {
            c: stored.read_array(arrays, f"potential-{i}", domain.sizes(c), -math.inf, stored.STEEPEST)
            for i, c in enumerate(stored.read_cliques(meta, "potentials", domain))
        }
        zeros = tuple(
            Marginal(c, _read_zero_mask(arrays, f"zero-{i}", domain.sizes(c)))
            for i, c in enumerate(stored.read_cliques(meta, "zeros", domain))
        )
        targets = tuple(
            Marginal(c, stored.read_array(arrays, f"target-{i}", domain.sizes(c), 0.0))
            for i, c in enumerate(stored.read_cliques(meta, "targets", domain))
        )
        precisions = {}
        for entry in stored.read_members(meta, "precisions"):
            if not isinstance(entry, list) or len(entry) != 2:
                raise stored.make_damage_error("a precision does not name its table")
            precisions[stored.as_clique(entry[0], domain)] = stored.read_number(
                {"precision": entry[1]}, "precision", 0.0
            )
        loss = math.nan if meta.get("loss") is None else stored.read_number(meta, "loss", 0.0)
        passes = stored.read_whole_number(meta, "passes", 0, 1 << 40)
        model = cls(tree, stored.read_total(meta), potentials, precisions, zeros, loss, passes, targets)
        if any(tree.home(c) is None for c in (*potentials, *(zero.clique for zero in zeros))):
            raise stored.make_damage_error("a table of its Markov random field is not covered by the junction tree")
        if zeros or any(np.isneginf(table).any() for table in potentials.values()):
            model.beliefs  # noqa: B018 (raises if every record is impossible; cached for the first sample)
        return model


def _read_zero_mask(arrays: Mapping[str, Array], name: str, shape: tuple[int, ...]) -> Array:
    array = arrays.get(name)
    if array is None or array.dtype != np.bool_ or array.shape != shape:
        raise stored.make_damage_error(f"{name} is not a boolean table of the expected shape")
    return array
