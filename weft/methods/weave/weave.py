"""Weave, Weft's own method: a dense Markov random field fitted in adaptive batches, exact or sampled by Gibbs chains.

It combines PrivSyn's many marginals with PrivMRF's model, without the limits of a junction tree: if no tree covers all
tables, the model's marginal of *any* candidate is counted on the records of the chains. Every batch can therefore
measure the distance of the model from every candidate.

1. Measure the one-way marginals; merge values with counts below the noise.
2. In batches (pairs, then triples or larger cliques where the noise allows them): measure the distance of the model
from each candidate, select candidates and prices jointly, measure their interaction terms only, shrink measured pairs
(`PairShrinkage`), and reconcile all tables.
3. Sample records from the exact model, or from chains herded to the reconciled tables (`DenseField`).
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
from weft.methods.common.allocation import allocate_to_required, check_emphasis, check_given
from weft.methods.common.budget_checks import check_noise, check_shares
from weft.methods.common.discretisation import merge_rare_values
from weft.methods.common.options import Published, check_fields, option
from weft.methods.weave.batch_selection import MAX_TRIPLES, Batches, RequiredCliques, choose_cliques
from weft.methods.weave.dense_model import DenseField
from weft.methods.weave.fine_marginals import (
    FineColumns,
    find_lowest_unmeasured_order,
    measure_batch,
    measure_new_interactions,
    remeasure_columns,
)
from weft.methods.weave.pair_shrinkage import PairShrinkage
from weft.methods.weave.parity_search import MAX_RECORDS, MIN_RECORDS, ParitySearch
from weft.methods.weave.public_prior import PublicPrior
from weft.methods.weave.tuning import WeaveTuning
from weft.models import Model
from weft.models.independent_model import IndependentModel
from weft.models.recoded import RecodedModel
from weft.privacy import AccountingName, find_accounting
from weft.progress import Listener, ignore_event, report_stage

MAX_PAIRS = 50_000
"""Maximum scored pairs: those of 316 attributes. Twice as many attributes would take minutes and gigabytes."""

_LARGER = frozenset(
    {"batches", "batch_cliques", "candidates", "clique_error", "part_pairs", "share_search", "share_found", "searches"}
)
"""Settings of batches after the pairs."""


@dataclass(frozen=True)
class Weave:
    """One-way marginals, then batches of the marginals with the largest model error; one model for all of them."""

    completes_seeds: ClassVar[bool] = False
    paper: ClassVar[Published | None] = None

    share_columns: Share = option(0.18, "Share of the budget for the first measurement of the one-way marginals.")
    marginals: Sequence[Sequence[str]] = option((), "Required marginals, always measured (--marginals FILE).")
    emphasis: Annotated[Sequence[float], Bounds(1e-6, 1e6, 100_000)] = option(
        (), "With marginals: weight of the error of each, relative to other tables. Empty: all 1."
    )
    public: str = option("", "A public table of the same columns, as a prior for pairs of attributes (--public TABLE).")
    order: Annotated[int, Bounds(2, 100)] = option(7, "Maximum attributes of a measured clique; 2: pairs only.")
    max_cells: Cells = option(200_000, "Maximum cells of a measured table.")
    rare: Deviations = option(3.0, "Values with a noisy count below this many standard deviations are merged.")
    accounting: AccountingName = option("gaussian", '"gaussian", or "pure" for geometric noise and delta 0.')
    tuning: Mapping[str, Any] = option({}, 'Internal settings, e.g. {"max_tree": 0}; see `weft.methods.weave.tuning`.')

    @property
    def tuned(self) -> WeaveTuning:
        """The internal settings."""
        return WeaveTuning(**self.tuning)

    def check(self, domain: Domain) -> None:
        """Validate marginals, settings, budget shares and the number of pairs."""
        check_given(domain, self.marginals, self.emphasis)
        self._check_effects()
        pairs = len(domain) * (len(domain) - 1) // 2
        if pairs > MAX_PAIRS:
            raise MethodError(
                f"method weave scores every pair of attributes, and {len(domain):,} attributes have {pairs:,} pairs, "
                f"above the limit of {MAX_PAIRS:,}. Describe only the relevant columns in a schema with "
                'extra_columns = "ignore", or choose --method independent, which measures one-way marginals only'
            )
        check_fields("tuning", self.tuning, WeaveTuning)
        check_shares(share_columns=self.share_columns, share_total=self.tuned.share_total)

    def _check_effects(self) -> None:
        """Refuse internal settings that have no effect with these options."""
        if "part_marginals" in self.tuning and not self.marginals:
            raise MethodError("option tuning, part_marginals has no effect unless marginals are given. Leave it out.")
        idle = _LARGER.intersection(self.tuning) if self.order == 2 else set()
        if idle:
            raise MethodError(f"option tuning, {min(idle)} has no effect with order 2. Leave it out, or raise order.")

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = ignore_event) -> Model:
        """Measure one-way marginals and batches with the whole budget, and fit the model."""
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
        aside = self._plan_search(merged, total)[0] * (tuned.share_search + tuned.share_found) * left
        batches = Batches(self.order, self.max_cells, tuned, aside)
        kept = 0.0  # share left by batches in which nothing was worth measuring
        for number, (candidates, part) in enumerate(batches.plan(merged, measured, total, left, rng), 1):
            with report_stage(listener, _name_batch(number)):
                wanted = self._wanted(domain) if number == 1 else RequiredCliques({}, {}, 0.0)
                if number == 2:
                    wanted, spent = self._search(merged, dense, part + kept)
                    kept -= spent
                offered = wanted.among(candidates)
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
                    wanted=wanted,
                    prior=PublicPrior(merged) if merged.has_public and number == 1 else None,
                )
                prices = choice.prices
                if all(len(c) == 1 for c in (*prices, *measured, *choice.taken)) and not self.marginals:
                    kept = share  # no joint marginal is worth measuring yet; in the next batch one may be
                    continue
                kept = 0.0
                measure_batch(merged, fine, prices, share, measured)
                measured |= choice.taken
                dense.guessed |= set(choice.taken)
                _update_dense_model(dense, measured)
        if kept:  # none was in the end: spend all on the one-way marginals
            return _make_independent_model(domain, self._again(curator, ones, kept, total), total)
        with report_stage(listener, "fit the model"):
            _, sweeps, herding = tuned.effort(merged.domain)
            model = dense.model(sweeps, herding, tuned.feedback, tuned.drawn)
        return RecodedModel(domain, model, fine.told_apart()) if maps else model

    def _plan_search(self, curator: Curator, total: float) -> tuple[int, float]:
        """Return the draws of the search for cliques of high order, and the cells of a clique that noise allows.

        There are none where even a sum as large as the rows would be lost in noise, or every clique is too large.
        """
        tuned = self.tuned
        # Noise moves 0.8 deviations of each cell, together at most a quarter of the rows.
        most = min(self.max_cells, 0.6 * total / curator.sigma(tuned.share_found))
        few = sorted(size for size in curator.domain.shape if size > 1)[:3]
        hopeful = len(few) == 3 and math.prod(few) <= most and 20 * curator.sigma(tuned.share_search) < total
        return tuned.searches if hopeful and self.order > 2 else 0, most

    def _search(self, merged: Curator, dense: DenseField, share: float) -> tuple[RequiredCliques, float]:
        """Search for cliques of high order with part of a batch's share; return them, to be measured, and the part."""
        tuned = self.tuned
        draws, most = self._plan_search(merged, dense.total)
        draws = min(draws, int(share / 2 / tuned.share_search))
        found, spent = list[Clique](), 0.0
        if draws:
            columns = {name: dense.tables[name,] for name in merged.domain}
            search = ParitySearch(merged, columns, dense.total, self.order, most, dense.rng)
            found, spent = search.find(dense.records(MIN_RECORDS, MAX_RECORDS), tuned.share_search, draws)
        each = dict.fromkeys(found, 1.0)
        return RequiredCliques(each, each, min(tuned.share_found * len(found) / (share - spent), 0.9)), spent

    def _columns(self, curator: Curator, total: float) -> tuple[list[NoisyMarginal], float]:
        """Measure the one-way marginals, twice if worth it; return them and the remaining share."""
        ones = measure_new_interactions(curator, self.tuned.column_prices(curator.domain), self.share_columns, total)
        more = self.top_up(ones, total)
        return (self._again(curator, ones, more, total) if more > 0 else ones), 1 - self._first - more

    def _again(
        self, curator: Curator, ones: Sequence[NoisyMarginal], share: float, total: float
    ) -> list[NoisyMarginal]:
        """Measure all one-way marginals again."""
        prices = self.tuned.column_prices(curator.domain)
        return list(remeasure_columns(curator, {m.clique: m for m in ones}, prices, share, total).values())

    @property
    def _first(self) -> float:
        return self.share_columns + self.tuned.share_total

    def _check_noise(self, curator: Curator) -> None:
        """Refuse shares too small for the noise. Interaction terms are measured times their cells."""
        domain, d, tuned = curator.domain, len(curator.domain), self.tuned
        pure = curator.accounting.is_pure
        most = max(
            domain.size(name) if find_lowest_unmeasured_order(domain, (name,), (), pure) else 1 for name in domain
        )
        batch = min(tuned.part_pairs, 1 - tuned.part_pairs) / max(tuned.batches or 2, 1)
        pairs = math.comb(d, 2) * (2 if curator.has_public else 1)  # two estimates of each
        asked = max(pairs + len(self.marginals), MAX_TRIPLES, tuned.candidates)
        check_noise(curator, share_total=(tuned.share_total, 1))
        check_noise(curator, part_scores=(tuned.part_scores * (1 - self._first) * batch, asked))
        prices = tuned.column_prices(domain).values()
        cheapest = self.share_columns * min(prices) / math.fsum(prices)
        check_noise(curator, sensitivity=most, share_columns=(cheapest * d, d))

    @property
    def _top_ups(self) -> Array:
        """Possible shares for the second measurement of the one-way marginals."""
        shares = np.array([0.0, 0.05, 0.1, 0.2, 0.3, 0.45])
        return shares[shares <= 0.9 * (1 - self._first)]

    def _check_given_noise(self, curator: Curator) -> None:
        """Refuse required marginals whose noise could not be drawn with their minimum budget."""
        left = 1 - self._first - float(self._top_ups[-1])
        least = left * self.tuned.part_pairs * (1 - self.tuned.part_scores) * self.tuned.part_marginals
        sizes = curator.domain.sizes

        def scale(c: Clique) -> float:
            # Interaction terms are measured times their cells. In the first batch only pairs have any, if one of their
            # attributes has fewer than 100 (merged) values (`find_lowest_unmeasured_order`); larger cliques are whole.
            return 1.0 if curator.accounting.is_pure or len(c) > 2 else float(max(sizes(c)) * min(*sizes(c), 100))

        check_emphasis(curator, self.marginals, self.emphasis, least, scale)

    def top_up(self, ones: Sequence[NoisyMarginal], total: float) -> float:
        """Return the share for a second measurement, for a mean error of one-way marginals of at most `column_error`.

        With few rows or many values this may be all that is left: pairs would not be distinguishable from noise either.
        With required marginals, some budget is left for them.
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
        """Return the maps of attributes with rare values."""
        maps = merge_rare_values(domain, ones, self.rare)
        return {name: found for name, found in maps.items() if found.size < found.codes.size}

    def _wanted(self, domain: Domain) -> RequiredCliques:
        """Return the required marginals with their parts and weights."""
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
    """Return the name of a batch for progress reports."""
    again = f" ({batch - 1})" if batch > 2 else ""
    return "measure attribute pairs" if batch == 1 else f"measure larger tables{again}"


def _update_dense_model(dense: DenseField, measured: Mapping[Clique, NoisyMarginal]) -> None:
    agreed = reconcile(dense.beliefs.of(list(measured.values())), total=dense.total, rounds=60, tolerance=1e-4)
    dense.take(agreed.tables, list(measured.values()))


def _make_independent_model(domain: Domain, ones: Sequence[NoisyMarginal], total: float) -> IndependentModel:
    return IndependentModel(domain, total, tuple(project_to_simplex(m.table, total) for m in ones))
