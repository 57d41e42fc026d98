"""Weave's model during a fit: exact if a junction tree covers all tables, Gibbs chains otherwise.

For few or small attributes the tree is faster than chains and has no sampling error, and the fit stops where the
estimated distance to the exact marginals is smallest. Tables that need too large a tree are fitted by chains, so
overlap is not limited.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np

from weft.marginals.counting import count_marginals
from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array, Marginal, NoisyMarginal
from weft.marginals.noise_error import MEAN_ABS_NORMAL
from weft.marginals.records import Records
from weft.methods.weave.pair_shrinkage import PairShrinkage
from weft.models import Model
from weft.models.chains.chain_fit import GibbsChains
from weft.models.independent_model import IndependentModel
from weft.models.mrf import JunctionTree, ModelTooLarge, MrfModel, fit_mrf, has_tree, junction_tree
from weft.models.mrf.inference import sample_from_tree
from weft.progress import Listener, ignore_event

_LOOK = 8
"""Divisor of the maximum cells for exact models during a fit: larger trees are slower than chains."""


@dataclass
class DenseField:
    """The reconciled measurements so far, and a model of them."""

    domain: Domain
    total: float
    chains: int
    """Number of chains, if chains are used."""
    rounds: int
    """Rounds of moment matching per update of the chains."""
    max_cells: int
    """Maximum cells of a junction tree; 0: chains only."""
    gaussian: bool
    """Whether the noise is Gaussian. The stopping estimate of an exact fit is proved for Gaussian noise and works well
    for tables reconciled from it, but not for other noise."""
    rng: np.random.Generator
    listener: Listener = ignore_event
    beliefs: PairShrinkage = field(default_factory=PairShrinkage)
    """Shrinkage of the measured pairs."""

    def __post_init__(self) -> None:
        self.tables: dict[Clique, Array] = {}
        self._noisy: list[NoisyMarginal] = []
        self._whole: dict[Clique, float] = {}
        self._chains: GibbsChains | None = None
        self._learned: MrfModel | None = None
        self._fitted = self._targeted = False  # whether the chains were matched to, and have, the current tables
        self.guessed: set[Clique] = set()
        """Tables estimated from public rows instead of measured."""

    def take(self, tables: Sequence[Marginal], measured: Sequence[NoisyMarginal]) -> None:
        """Replace all tables, which have one total, and the measurements that they come from."""
        self._fitted = self._fitted and all(m.clique in self.tables for m in tables)  # else targets move too little
        self._targeted, self._learned = False, None
        self.tables = {m.clique: m.table for m in tables}
        self._noisy = [
            NoisyMarginal(t.clique, t.table, m.sigma, empty=t.empty) for t, m in zip(tables, measured, strict=True)
        ]
        self._whole = {m.clique: m.precision for m in measured if not m.order and m.clique not in self.guessed}

    def expected(self, cliques: Sequence[Clique]) -> tuple[list[Array], Array]:
        """Return the model's tables, and the expected L1 sampling error of each."""
        exact = np.zeros(len(cliques))
        if not cliques:
            return [], exact
        if self._has_columns_only:
            shares = {name: self.tables[name,] / self.total for clique in cliques for name in clique}
            start = np.asarray(self.total)
            return [reduce(np.multiply.outer, [shares[name] for name in c], start) for c in cliques], exact
        learned = self._exact()
        if learned is not None:
            with suppress(ModelTooLarge):  # a candidate may need more cells than the tree has
                return learned.many_marginals(cliques), exact
        chains = self._matched()
        scale = self.total / chains.size
        found = [np.asarray(table * scale) for table in count_marginals(chains.records, cliques)]
        return found, np.array([sampling_error(t / scale) * scale for t in found])

    def records(self, least: int, most: int) -> Records:
        """Return records of the model, as many as the rows within these limits; from chains, as many as there are."""
        n = int(min(max(self.total, least), most))
        if self._has_columns_only:
            columns = tuple(self.tables[name,] for name in self.domain)
            return IndependentModel(self.domain, self.total, columns).sample(n, self.rng)
        learned = self._exact()
        return self._matched().records if learned is None else sample_from_tree(learned.beliefs, n, self.rng)

    @property
    def _has_columns_only(self) -> bool:
        """Whether only one-way marginals were measured yet, so that the model is their product."""
        return all(len(c) == 1 for c in self.tables)

    def _exact(self) -> MrfModel | None:
        """Return the exact model, if its tree is small enough to be fitted between batches."""
        tree = None if self._learned or self._targeted else self._tree(self.max_cells // _LOOK)
        if tree is not None:
            self._learned = fit_mrf(self.domain, self._noisy, total=self.total, tree=tree, listener=self.listener)
        return self._learned

    def model(self, sweeps: int, herding: int, feedback: float | None, drawn: int = 1) -> Model:
        """Return the final model; without `herding` records are not adjusted, the other arguments are for chains."""
        tree = self._tree(self.max_cells)
        if tree is not None:
            probe = self.rng if self.gaussian else None
            exact = fit_mrf(self.domain, self._noisy, total=self.total, tree=tree, probe=probe, listener=self.listener)
            # Adjusting records to the model's own marginals removes rounding errors of sampling.
            own = zip(self.tables, exact.many_marginals(list(self.tables)) if herding else [], strict=bool(herding))
            targets = tuple(Marginal(c, table) for c, table in own)
            # Reconciled tables are closer to each other than their noise, so the loss has no meaning; and
            # measurements of interaction terms only have no precision as whole tables.
            return replace(exact, targets=targets, precisions=self._whole, loss=math.nan)
        chains = self._matched()
        chains.match(self.rounds, 1.0, listener=self.listener)
        return chains.model(sweeps, herding, feedback, drawn)

    def _tree(self, most: int) -> JunctionTree | None:
        if most < 1 or not has_tree(self.domain, list(self.tables), max_cells=most, max_total=most):
            return None
        return junction_tree(self.domain, list(self.tables), max_cells=most, max_total=most)

    def _matched(self) -> GibbsChains:
        """Return chains that match the tables, starting from the earlier ones."""
        if self._chains is None:
            self._chains = GibbsChains(self.domain, self.chains, self.rng)
        if not self._targeted:
            self._chains.set_targets(self._noisy, [m.sigma for m in self._noisy])
        if not self._fitted:
            self._chains.match(self.rounds, 2.0, listener=self.listener)
        self._fitted = self._targeted = True
        return self._chains


def sampling_error(expected: Array) -> float:
    """Return the expected L1 distance of Poisson counts from their means."""
    small = 2 * expected * np.exp(-expected)
    return float(np.where(expected < 1, small, MEAN_ABS_NORMAL * np.sqrt(expected)).sum())
