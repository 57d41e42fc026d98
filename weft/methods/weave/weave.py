"""Weave, Weft's own method: a dense Markov random field learned in adaptive batches, exact or sampled by Gibbs chains.

PrivSyn's many marginals and PrivMRF's model, without the limits of a junction tree: where none holds all tables, the
model's table of *any* candidate is a count over the records of chains. So every batch can ask how far the model is from
every candidate, and measure what is worth it.

1. Measure the columns alone; merge values that noise drowns.
2. Batch by batch (pairs first, then triples or larger cliques where noise allows them): ask how far the model is from
each candidate, choose what is worth its price, measure what is not known of it, believe of a pair what stands above
its noise (`PairShrinkage`), and reconcile all tables.
3. Records are drawn from the exact field, or from chains that are herded to the reconciled tables (`DenseField`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from weft.bounds import Bounds, Cells, Deviations, Share
from weft.curator import Curator
from weft.errors import MethodError
from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array, NoisyMarginal
from weft.marginals.noise_error import compute_projected_error, group_cells_by_size
from weft.marginals.reconciliation import reconcile
from weft.marginals.simplex import project_to_simplex
from weft.marginals.value_groups import ValueMap
from weft.methods.common.budget_checks import check_noise, check_shares
from weft.methods.common.discretisation import merge_rare_values
from weft.methods.common.options import Published, check_fields, option
from weft.methods.common.required_marginals import allocate_to_required, check_emphasis, check_given
from weft.methods.weave.batch_candidates import MAX_TRIPLES, Batches
from weft.methods.weave.batch_selection import RequiredCliques, choose_cliques
from weft.methods.weave.dense_model import DenseField
from weft.methods.weave.fine_marginals import (
    FineColumns,
    find_lowest_unmeasured_order,
    measure_batch,
    measure_new_interactions,
    remeasure_columns,
)
from weft.methods.weave.pair_shrinkage import PairShrinkage
from weft.methods.weave.public_prior import PublicPrior
from weft.methods.weave.tuning import WeaveTuning
from weft.models import Model
from weft.models.independent_model import IndependentModel
from weft.models.recoded import RecodedModel
from weft.privacy import AccountingName, find_accounting
from weft.progress import Listener, ignore_event, report_stage

MAX_PAIRS = 50_000
"""Pairs of columns that are looked at: those of 316 columns. Twice as many columns would take minutes and gigabytes."""

_LARGER = frozenset({"batches", "batch_cliques", "candidates", "clique_error", "part_pairs"})
"""Settings of batches after the pairs."""


@dataclass(frozen=True)
class Weave:
    """One-way marginals, then batches of what the model gets most wrong; one model fitted to all of it."""

    completes_seeds: ClassVar[bool] = False
    paper: ClassVar[Published | None] = None

    share_columns: Share = option(0.18, "Share of the budget for the first look at every column alone.")
    marginals: Sequence[Sequence[str]] = option(
        (), "Marginals to measure, whatever the model gets wrong; on the command line, a plan (--marginals FILE)."
    )
    emphasis: Annotated[Sequence[float], Bounds(1e-6, 1e6, 100_000)] = option(
        (), "With marginals: how much more an error of each weighs than of others. Empty: all 1."
    )
    public: str = option(
        "", "A table of the same columns that anybody may see, as a guess of how columns are related (--public TABLE)."
    )
    order: Annotated[int, Bounds(2, 100)] = option(6, "Highest order of the measured cliques; 2: pairs only.")
    max_cells: Cells = option(200_000, "Largest table that is measured.")
    rare: Deviations = option(3.0, "Values with a noisy count below this many standard deviations are merged.")
    accounting: AccountingName = option(
        "gaussian", '"gaussian" for (epsilon, delta), "pure" for geometric noise and delta 0.'
    )
    tuning: Mapping[str, Any] = option(
        {}, 'Settings for whoever studies the method, such as {"max_tree": 0}; see `weft.methods.weave.tuning`.'
    )

    @property
    def tuned(self) -> WeaveTuning:
        """The settings of the method's inside."""
        return WeaveTuning(**self.tuning)

    def check(self, domain: Domain) -> None:
        """Refuse shares that leave nothing for the marginals, and settings that there are not."""
        check_given(domain, self.marginals, self.emphasis)
        self._check_effects()
        pairs = len(domain) * (len(domain) - 1) // 2
        if pairs > MAX_PAIRS:
            raise MethodError(
                f"weave looks at every pair of columns, and {len(domain):,} columns have {pairs:,}, above "
                f"{MAX_PAIRS:,}. "
                'Describe those that matter in a schema with extra_columns = "ignore", or take --method independent, '
                "which learns each column alone"
            )
        check_fields("tuning", self.tuning, WeaveTuning)
        check_shares(share_columns=self.share_columns, share_total=self.tuned.share_total)

    def _check_effects(self) -> None:
        """Refuse settings of the inside that the options would leave without effect."""
        if "part_marginals" in self.tuning and not self.marginals:
            raise MethodError(
                "option tuning, part_marginals would have no effect: it counts only if marginals are given. Leave it "
                "out, or name some."
            )
        idle = _LARGER.intersection(self.tuning) if self.order == 2 else set()
        if idle:
            raise MethodError(
                f"option tuning, {min(idle)} would have no effect: with order 2, pairs only are measured. Leave it "
                "out, or raise order."
            )

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = ignore_event) -> Model:
        """Spend the whole budget."""
        domain, tuned = curator.domain, self.tuned
        self._check_noise(curator)
        self._check_given_noise(curator)
        with report_stage(listener, "measure columns"):
            total = max(float(curator.total(tuned.share_total).table), 1.0)
            ones, left = self._columns(curator, total)
        if left < 1e-9:
            return _make_independent_model(domain, ones, total)
        maps = self._merge(domain, ones)
        merged = curator.recode({name: (found.codes, found.size) for name, found in maps.items()})
        fine = FineColumns(curator, total, maps, {m.clique: m for m in ones})
        measured = {m.clique: fine.folded(m.clique) for m in ones}
        dense = self._field(merged.domain, total, rng, listener)
        _update_dense_model(dense, measured)
        wanted = self._wanted(domain)
        batches = Batches(self.order, self.max_cells, tuned)
        kept = 0.0  # what a batch has left because nothing was worth it
        for number, (offered, part) in enumerate(batches.plan(merged, measured, total, left, rng), 1):
            if number == 1:
                offered = wanted.among(offered)
            with report_stage(listener, _name_batch(number)):
                scores = part * tuned.part_scores if offered else 0.0
                share = part + kept - scores
                choice = choose_cliques(
                    merged,
                    dense,
                    measured,
                    offered,
                    scores=scores,
                    share=share,
                    overlap=tuned.overlap,
                    most=tuned.batch_cliques,
                    caution=tuned.caution,
                    wanted=wanted if number == 1 else None,
                    prior=PublicPrior(merged) if merged.has_public and number == 1 else None,
                )
                prices = choice.prices
                if all(len(c) == 1 for c in (*prices, *measured, *choice.taken)) and not self.marginals:
                    kept = share  # no relation is worth it yet: of the next batch one may be
                    continue
                kept = 0.0
                measure_batch(merged, fine, prices, share, measured)
                measured |= choice.taken
                dense.guessed |= set(choice.taken)
                _update_dense_model(dense, measured)
        if kept:  # nor was any in the end: all for the columns
            return _make_independent_model(domain, self._again(curator, ones, kept, total), total)
        with report_stage(listener, "learn the model"):
            _, sweeps, herding = tuned.effort(merged.domain)
            model = dense.model(sweeps, herding, tuned.feedback, tuned.drawn)
        return RecodedModel(domain, model, fine.told_apart()) if maps else model

    def _columns(self, curator: Curator, total: float) -> tuple[list[NoisyMarginal], float]:
        """Measure the columns, and once more where that is worth it; return them, and the share that is left."""
        ones = measure_new_interactions(curator, self.tuned.column_prices(curator.domain), self.share_columns, total)
        more = self.top_up(ones, total)
        return (self._again(curator, ones, more, total) if more > 0 else ones), 1 - self._first - more

    def _again(
        self, curator: Curator, ones: Sequence[NoisyMarginal], share: float, total: float
    ) -> list[NoisyMarginal]:
        """Measure all columns once more."""
        prices = self.tuned.column_prices(curator.domain)
        return list(remeasure_columns(curator, {m.clique: m for m in ones}, prices, share, total).values())

    @property
    def _first(self) -> float:
        return self.share_columns + self.tuned.share_total

    def _check_noise(self, curator: Curator) -> None:
        """Refuse what could not be paid for later. Of a small column, the table is asked times its cells."""
        domain, d, tuned = curator.domain, len(curator.domain), self.tuned
        pure = curator.accounting.is_pure
        most = max(
            domain.size(name) if find_lowest_unmeasured_order(domain, (name,), (), pure) else 1 for name in domain
        )
        batch = min(tuned.part_pairs, 1 - tuned.part_pairs) / max(tuned.batches or 2, 1)
        pairs = math.comb(d, 2) * (2 if curator.has_public else 1)  # of each, two guesses
        asked = max(pairs + len(self.marginals), MAX_TRIPLES, tuned.candidates)
        check_noise(curator, share_total=(tuned.share_total, 1))
        check_noise(curator, part_scores=(tuned.part_scores * (1 - self._first) * batch, asked))
        prices = tuned.column_prices(domain).values()
        cheapest = self.share_columns * min(prices) / math.fsum(prices)
        check_noise(curator, sensitivity=most, share_columns=(cheapest * d, d))

    @property
    def _top_ups(self) -> Array:
        """Shares with which the columns may be measured once more."""
        shares = np.array([0.0, 0.05, 0.1, 0.2, 0.3, 0.45])
        return shares[shares <= 0.9 * (1 - self._first)]

    def _check_given_noise(self, curator: Curator) -> None:
        """Refuse given marginals of which the noise could not be drawn with the least that they may get."""
        left = 1 - self._first - float(self._top_ups[-1])
        least = left * self.tuned.part_pairs * (1 - self.tuned.part_scores) * self.tuned.part_marginals
        sizes = curator.domain.sizes

        def scale(c: Clique) -> float:
            # Interactions are asked times their cells. In the first batch pairs alone have any, if one side of them has
            # fewer than a hundred values, merged ones counted once (`find_lowest_unmeasured_order`);
            # larger cliques are asked whole.
            return 1.0 if curator.accounting.is_pure or len(c) > 2 else float(max(sizes(c)) * min(*sizes(c), 100))

        check_emphasis(curator, self.marginals, self.emphasis, least, scale)

    def top_up(self, ones: Sequence[NoisyMarginal], total: float) -> float:
        """Return the share to measure the columns with once more, so that each is within `column_error` of the rows.

        With few rows or many values that may take all there is: then no pair could be told from noise either. Where
        marginals are given, something is left for them.
        """
        first, tuned = self._first, self.tuned
        shapes = group_cells_by_size([np.maximum(m.table, 0) for m in ones])
        shares = self._top_ups
        rho = np.array([m.precision for m in ones])[:, None] / 2 * (1 + shares / first)
        errors = compute_projected_error(shapes, 1 / np.sqrt(2 * rho)).mean(axis=0) / (2 * total)
        if len(ones) < 2 or (errors[-1] > tuned.columns_only_error and not self.marginals):
            return 1 - first
        enough = errors <= tuned.column_error
        return float(shares[np.argmax(enough)] if enough.any() else shares[-1])

    def _merge(self, domain: Domain, ones: Sequence[NoisyMarginal]) -> dict[str, ValueMap]:
        """Return the maps of columns with rare values."""
        maps = merge_rare_values(domain, ones, self.rare)
        return {name: found for name, found in maps.items() if found.size < found.codes.size}

    def _wanted(self, domain: Domain) -> RequiredCliques:
        """Return the given marginals, with their parts and their importance."""
        parts = allocate_to_required(domain, self.marginals, self.emphasis, self.accounting)
        factors = allocate_to_required(domain, self.marginals, self.emphasis, self.accounting, even=True)
        return RequiredCliques(parts, factors, self.tuned.part_marginals)

    def _field(self, domain: Domain, total: float, rng: np.random.Generator, listener: Listener) -> DenseField:
        tuned = self.tuned
        rounds, *_ = tuned.effort(domain)
        chains, gaussian = tuned.number_of_chains(domain, total), not find_accounting(self.accounting).is_pure
        return DenseField(
            domain, total, chains, rounds, tuned.max_tree, gaussian, rng, listener, beliefs=PairShrinkage(tuned.shrink)
        )


def _name_batch(batch: int) -> str:
    """Return what a batch is called while it runs."""
    again = f" ({batch - 1})" if batch > 2 else ""
    return "measure pairs of columns" if batch == 1 else f"measure larger tables{again}"


def _update_dense_model(dense: DenseField, measured: Mapping[Clique, NoisyMarginal]) -> None:
    agreed = reconcile(dense.beliefs.of(list(measured.values())), total=dense.total, rounds=60, tolerance=1e-4)
    dense.take(agreed.tables, list(measured.values()))


def _make_independent_model(domain: Domain, ones: Sequence[NoisyMarginal], total: float) -> IndependentModel:
    return IndependentModel(domain, total, tuple(project_to_simplex(m.table, total) for m in ones))
