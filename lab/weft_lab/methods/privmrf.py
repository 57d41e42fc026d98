"""PrivMRF (Cai, Lei, Wei, Xiao; PVLDB 2021), Algorithms 1 to 6.

A graph of strongly dependent attributes, narrow enough for a junction tree, determines which marginals a Markov random
field can represent. Each attribute starts with its best family; then rounds of refinement measure the marginals with
the largest model error. Weft's own variant, which selects all marginals at once, is the method `cover`.

Where the defaults differ from the paper (`preset="paper"`):
- `share_scores` 0.05, published 0.1: the graph is about as good with half the share.
- `share_columns` 0.1, published 0.01: by default, it is spent on the one-way marginals, which estimate the number of
  rows, decide which rare values are merged, and enter the fit; as published, only the number of rows is measured.
- `rare` 3.0, published 0.0: no value is merged in the paper.
- `pairs` positive, published all: a pair with a negative noisy score carries no information and widens the graph.
- `merit` shares, published counts: eq. 8 with scores in [0, 1], the scale that the merit assumes, and without the
  attribute itself in |M|; as published, scores are counts, against which |M| is negligible.
- `pick` net, published plain: by default, the expected noise is subtracted from the distance of a marginal.
- `rounds` 8, published 1000000: one pick per round in the paper, several by default, as in its public code.
- `solver` accelerated, published mirror: mirror descent, at most 3,000 passes, stops once the loss is 1.2 times what
  noise alone gives, in the last fit 0.7 times (as in the public code; the paper has "until it converges"); by default,
  the last fit stops where the estimated distance to the exact marginals is smallest.
- `max_ways` 5, published null: as published, theta alone bounds the candidates; the public code has at most 6
  attributes, which makes theta idle on binary tables.
- `max_cells` 2097152, published 10000000: the paper's tau; seconds on two CPU cores instead of minutes on two GPUs.
- `max_total` 4194304, published 10000000: the paper bounds each clique but not their sum, its public code the sum by
  5 * 10^7; the preset allows the sum what it allows one clique, which takes minutes.

With the preset as well:
- The R-score is noised in counts, with sensitivity 2, and then divided by the noisy total. The public code divides by
  the exact n first, which is not 2/n-sensitive.
- The row count gets 1% of the budget, as in the paper; the public code spends about ten times the whole budget on it.
- Single attributes are always candidates, and the radicand of eq. 8 is at least 1: noise may make it negative.
- Where there would be more than 500,000 candidates, the largest are left out: on ACS at epsilon 3.2, marginals of 8
  attributes and more.
- If no useful candidate is left, the remaining budget repeats earlier measurements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from weft.bounds import Bounds, Cells, Deviations, Factor, Share
from weft.curator import Curator
from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Marginal, NoisyMarginal
from weft.marginals.noise_error import compute_expected_noise
from weft.marginals.pooling import common_total
from weft.methods.common.budget_checks import check_noise, check_shares
from weft.methods.common.discretisation import measure_columns
from weft.methods.common.options import Published, get_published_settings, only_with, option
from weft.models import Model
from weft.models.mrf import JunctionTree, MrfModel, Solver, fit_mrf
from weft.privacy import AccountingName
from weft.progress import Listener, ignore_event, report_stage
from weft_lab.methods.candidates import best_families, useful_limit, useful_subsets
from weft_lab.methods.comparison_steps import check_pairs
from weft_lab.methods.tree_growth import grow_tree

ROUND, LAST = 1.2, 0.7
"""Loss at which mirror descent stops, relative to the expected loss of noise alone: in a round, in the last fit."""

PASSES = 3000
"""Maximum passes of mirror descent."""

_REFINED = only_with("picks")


@dataclass(frozen=True)
class PrivMrf:
    """A dense dependency graph, the best family of each attribute, and rounds that measure the largest model errors."""

    completes_seeds: ClassVar[bool] = True
    paper: ClassVar[Published | None] = get_published_settings(
        accounting="gaussian",
        share_scores=0.1,
        share_columns=0.01,
        share_refine=0.1,
        rare=0.0,
        theta=6.0,
        pairs="all",
        merit="counts",
        candidates=400,
        picks=0.8,
        pick="plain",
        rounds=1_000_000,
        solver="mirror",
        max_ways=None,
        max_cells=10**7,
        max_total=10**7,
    )

    accounting: AccountingName = option("gaussian", '"gaussian", exact as published; or "paper", closed-form zCDP.')
    share_scores: Share = option(0.05, "Share of the budget for the R-scores of all pairs.")
    share_columns: Share = option(0.10, "Share for one-way marginals, or for the row count if rare is 0.")
    rare: Deviations = option(3.0, "Threshold for merging rare values, in standard deviations; 0: only rows counted.")
    theta: Factor = option(6.0, "Minimum ratio of the average cell count of a marginal to its noise.")
    pairs: Literal["positive", "all"] = option("positive", "Pairs for the graph: with positive noisy score, or all.")
    merit: Literal["shares", "counts"] = option("shares", "Scores in eq. 8: shares of the rows, or counts, as printed.")
    share_refine: Share = option(0.10, "Share for the model error of candidates; the rest is for marginals.", _REFINED)
    candidates: Annotated[int, Bounds(1, 1_000_000)] = option(400, "Candidates per round (the paper's k).", _REFINED)
    picks: Annotated[float, Bounds(0.0, 1000.0)] = option(
        0.8, "Marginals added by refinement, per attribute (the paper's t = 0.8 d); 0: none."
    )
    pick: Literal["net", "plain"] = option("net", "Add the largest distance, net of expected noise or not.", _REFINED)
    rounds: Annotated[int, Bounds(1, 1_000_000)] = option(8, "Rounds of refinement.", _REFINED)
    solver: Solver = option("accelerated", '"accelerated", or the published "mirror" descent with early stopping.')
    max_ways: Annotated[int | None, Bounds(1, 8)] = option(
        5, "Maximum attributes of a marginal; None: limited by theta alone."
    )
    max_cells: Cells = option(1 << 21, "Maximum cells of a clique of the junction tree (the paper's tau: 10^7).")
    max_total: Cells = option(1 << 22, "Maximum cells of the whole junction tree.")

    def check(self, domain: Domain) -> None:
        """Validate the budget shares, and check that all pairs can be counted."""
        check_pairs(domain)
        check_shares(share_scores=self.share_scores, share_columns=self.share_columns, share_refine=self.share_refine)

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = ignore_event) -> Model:
        """Measure the one-way marginals or the row count, then follow Algorithm 6."""
        d = len(curator.domain)
        check_noise(curator, share_columns=(self.share_columns, d), share_scores=(self.share_scores, math.comb(d, 2)))
        rounds = min(self.rounds, max(1, math.floor(self.picks * d)))
        check_noise(curator, share_refine=(self.share_refine / rounds, self.candidates))
        if self.rare <= 0:
            total = float(curator.total(share=self.share_columns).table)
            return self._learn(curator, [], max(total, 1.0), rng, listener)
        columns = measure_columns(curator, self.share_columns, self.rare, listener)
        total = max(common_total(columns.tables)[0], 1.0)
        return columns.unfold(self._learn(columns.curator, columns.tables, total, rng, listener))

    def _learn(
        self, curator: Curator, known: list[NoisyMarginal], total: float, rng: np.random.Generator, listener: Listener
    ) -> MrfModel:
        """Measure scores for the graph, then families, then refine."""
        with report_stage(listener, "build the graph"):
            scores = curator.dependence(share=self.share_scores, score="r")  # Algorithm 1
            graph = self._graph(curator.domain, scores)
        d = len(curator.domain)
        picks = math.floor(self.picks * d) if d > 1 else 0
        each = (curator.left - (self.share_refine if picks else 0.0)) / (d + picks)
        limit = useful_limit(total, self.theta, curator.sigma(each))
        useful = useful_subsets(graph.cliques, curator.domain, limit, self.max_ways)  # Algorithm 2
        chosen = self._families(useful, scores, total, curator.domain)  # Algorithm 3
        with report_stage(listener, "measure families"):
            tables = [*known, *curator.measure(chosen, share=each * d)]
        waiting = sorted(set(useful) - set(chosen))
        return self._refine(curator, graph, tables, waiting, total, each, picks, rng, listener)

    def _graph(self, domain: Domain, scores: dict[Clique, float]) -> JunctionTree:
        offered = (pair for pair in scores if self.pairs == "all" or scores[pair] > 0)
        ranked = sorted(offered, key=lambda pair: (-scores[pair], pair))
        return grow_tree(domain, ranked, max_cells=self.max_cells, max_total=self.max_total)

    def _families(
        self, useful: list[Clique], scores: dict[Clique, float], total: float, domain: Domain
    ) -> list[Clique]:
        """Return the best family of each attribute, and attributes in no family as one-way marginals."""
        published = self.merit == "counts"
        shares = {pair: min(max(score / total, 0.0), 1.0) for pair, score in scores.items()}
        chosen = best_families(useful, scores if published else shares, domain, whole=published)
        alone = [(name,) for name in domain if not any(name in c for c in chosen)]
        return [*chosen, *alone[: len(domain) - len(chosen)]]

    def _refine(
        self,
        curator: Curator,
        graph: JunctionTree,
        tables: list[NoisyMarginal],
        waiting: list[Clique],
        total: float,
        each: float,
        picks: int,
        rng: np.random.Generator,
        listener: Listener,
    ) -> MrfModel:
        """Measure the marginals with the largest model error in rounds, and fit all of them (Algorithms 4 and 5)."""
        rounds = min(self.rounds, picks)
        model: MrfModel | None = None
        with report_stage(listener, "refine", total=rounds) as work:
            for r in range(rounds):
                left = picks - sum(_split_evenly(picks, rounds, i) for i in range(r))
                model = self._fitted(curator.domain, tables, total, graph, model, ROUND)
                wanted = _split_evenly(picks, rounds, r) if waiting else 0
                tables += self._round(curator, model, waiting, wanted, each, rounds, rng)
                work.advance(note=f"{len(tables)} marginals, {left} to come")
        if curator.left > 1e-6:  # no useful candidate is left: repeat earlier measurements
            tables += curator.measure(list(dict.fromkeys(m.clique for m in tables)), share=curator.left)
        if self.solver == "mirror":
            return self._fitted(curator.domain, tables, total, graph, model, LAST)
        # If only the rows were counted, that is the total; otherwise all marginals estimate it.
        counted = total if self.rare <= 0 else None
        return fit_mrf(curator.domain, tables, total=counted, tree=graph, probe=rng, listener=listener)

    def _fitted(
        self,
        domain: Domain,
        tables: list[NoisyMarginal],
        total: float,
        graph: JunctionTree,
        warm: MrfModel | None,
        level: float,
    ) -> MrfModel:
        if self.solver == "accelerated":
            return fit_mrf(domain, tables, total=total, tree=graph, warm=warm)
        stop = {"noise_level": level, "tolerance": 0.0, "iterations": PASSES}
        return fit_mrf(domain, tables, total=total, tree=graph, warm=warm, solver="mirror", **stop)  # type: ignore[arg-type]

    def _round(
        self,
        curator: Curator,
        model: MrfModel,
        waiting: list[Clique],
        wanted: int,
        each: float,
        rounds: int,
        rng: np.random.Generator,
    ) -> list[NoisyMarginal]:
        """Measure the model error of some candidates, then the worst of them, which leave `waiting`."""
        if not wanted:
            return []
        some = [waiting[i] for i in sorted(rng.permutation(len(waiting))[: self.candidates])]
        guesses = [Marginal(c, table) for c, table in zip(some, model.many_marginals(some), strict=True)]
        merit = curator.gaps(guesses, share=self.share_refine / rounds)
        if self.pick == "net":
            merit = merit - compute_expected_noise([guess.cells for guess in guesses], curator.sigma(each))
        best = [some[i] for i in np.argsort(-merit)[:wanted]]
        for c in best:
            waiting.remove(c)
        return curator.measure(best, share=each * len(best))


def _split_evenly(whole: int, parts: int, i: int) -> int:
    """Return part i of an integer divided as evenly as possible."""
    return whole * (i + 1) // parts - whole * i // parts
