"""AIM (McKenna, Mullins, Sheldon, Miklau; PVLDB 2022), in an all-Gaussian form with remembered errors.

Rounds of select, measure, fit. The published method chooses by the exponential mechanism and computes the model's
marginal on every candidate in every round. Here each candidate's error is released once with Gaussian noise against the
first model and remembered; a round asks again about the few that look worst, and takes the best. Every answer is then
Gaussian, so exact Gaussian-DP accounting applies, and a round infers a handful of marginals instead of thousands.

As published: the quality of a candidate weighs how much of the workload it overlaps, and subtracts the expected
noise of measuring it; candidates must keep the junction tree within a size that grows with the budget used; when a
measurement changed the model by no more than its noise, the rounds become more generous (annealing).

Ours: the expected noise of a pair is that of its table after projection, as far as columns and distance tell
(`weft.select.expected_pair`). The published cells times sigma would never measure a pair of wide columns, even if one
copies the other. The last fit starts anew and ends where the estimated distance to the exact tables is least.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from weft.bounds import Bounds, Cells, Deviations, Share
from weft.curator import Curator
from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array, Marginal, NoisyMarginal
from weft.marginals.noise_error import expected_noise, profile, projected_error
from weft.methods.steps.columns import check_candidates, check_noise, check_shares, look_at_columns
from weft.methods.steps.options import option
from weft.models.mrf import JunctionTree, MrfModel, fit, fits, junction_tree
from weft.models.recoded import RecodedModel
from weft.privacy import Accounting
from weft.progress import Listener, Stage, silence, stage
from weft.select import all_subsets
from weft.select.expected_pair import expected_pair

LEAST = 1e-6
"""Share of the budget below which nothing more is asked."""


@dataclass(frozen=True)
class Aim:
    """Measure, again and again, what the model gets most wrong among the marginals that you care about."""

    completes_seeds: ClassVar[bool] = True

    accounting: Accounting = option("gaussian", '"gaussian", or "paper" for zCDP with the closed form.')
    ways: Annotated[int, Bounds(2, 6)] = option(3, "The workload: all marginals of this many columns.")
    share_columns: Share = option(0.1, "Share of the budget for one-way marginals.")
    share_scores: Share = option(0.05, "Share for the first look at every candidate's error.")
    rare: Deviations = option(3.0, "Values whose noisy count is below this many standard deviations are merged.")
    rounds_per_column: Annotated[float, Bounds(0.01, 1000.0)] = option(
        32.0, "Rounds for each column, were the budget divided evenly; annealing makes them fewer."
    )
    anneal: Annotated[float, Bounds(1.0, 100.0)] = option(
        2.0, "Factor by which rounds grow when a measurement showed nothing above its noise."
    )
    part_scores: Share = option(0.1, "Part of a round's budget for asking again; the rest measures.")
    shortlist: Annotated[int, Bounds(1, 10000)] = option(16, "Candidates asked about again in a round.")
    max_candidates: Annotated[int, Bounds(1, 1_000_000)] = option(
        20_000, "Most candidates; of a larger workload, the marginals with the fewest cells."
    )
    max_table: Cells = option(10**5, "Cells of the largest marginal measured.")
    max_cells: Cells = option(10**6, "Cells of the largest clique of the junction tree.")
    max_total: Cells = option(4 * 10**6, "Cells of the whole tree.")

    def check(self, domain: Domain) -> None:
        """Refuse shares that leave nothing for the marginals."""
        check_shares(share_columns=self.share_columns, share_scores=self.share_scores)
        check_shares(part_scores=self.part_scores)
        check_candidates(domain, self.ways)

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = silence) -> RecodedModel:
        """One-way marginals, a look at all candidates, then rounds until the budget is gone."""
        self._check_noise(curator)
        columns = look_at_columns(curator, self.share_columns, self.rare, listener)
        merged = columns.curator
        tables = list(columns.tables)
        model = fit(merged.domain, tables)
        cliques = self._candidates(merged.domain)
        if cliques:
            with stage(listener, "look at candidates"):
                errors = merged.gaps(_guesses(model, cliques), share=self.share_scores)
            rounds = max(1, math.ceil(self.rounds_per_column * len(merged.domain)))
            state = _Rounds(self, merged, cliques, errors, tables, model, merged.left / rounds)
            with stage(listener, "refine") as work:
                state.run(work)
            tables, model = state.tables, state.model
        if merged.left > LEAST:  # a single column, or nothing that fits: measure what is known again
            tables += merged.measure(list(dict.fromkeys(m.clique for m in tables)), share=merged.left)
        return columns.unfold(fit(merged.domain, tables, tree=model.tree, probe=rng, listener=listener))

    def _check_noise(self, curator: Curator) -> None:
        d = len(curator.domain)
        each = (1 - self.share_columns - self.share_scores) / max(1, math.ceil(self.rounds_per_column * d))
        check_noise(
            curator,
            share_columns=(self.share_columns, d),
            share_scores=(self.share_scores, self.max_candidates),
            part_scores=(self.part_scores * each, self.shortlist),
            rounds_per_column=((1 - self.part_scores) * each, 1),
        )

    def _candidates(self, domain: Domain) -> list[Clique]:
        found = all_subsets(domain, min(self.ways, len(domain)), self.max_table)
        return sorted(sorted(found, key=domain.cells)[: self.max_candidates])


class _Rounds:
    """The rounds under way: errors as remembered, tables as measured, the model as fitted."""

    def __init__(
        self,
        options: Aim,
        curator: Curator,
        cliques: list[Clique],
        errors: Array,
        tables: list[NoisyMarginal],
        model: MrfModel,
        share: float,
    ) -> None:
        self.options, self.curator, self.cliques, self.errors = options, curator, cliques, errors
        self.tables, self.model, self.share = tables, model, share
        self.cells = np.array([curator.domain.cells(c) for c in cliques])
        self.weights = _overlap(cliques, options.ways)
        self.pairs = np.array([i for i, c in enumerate(cliques) if len(c) == 2], np.int64)
        alone = {name: model.marginal((name,)) for name in curator.domain}
        self.shapes = profile(
            [expected_pair(alone[cliques[i][0]], alone[cliques[i][1]], errors[i]) for i in self.pairs]
        )
        self.noise: dict[float, Array] = {}
        self.given: list[Clique] = []
        self.tree: JunctionTree = model.tree

    def run(self, work: Stage) -> None:
        """Go on while there is budget; the last round takes what is left."""
        while self.curator.left > LEAST:
            if self.curator.left < 2 * self.share:
                self.share = self.curator.left
            shortlist = self._shortlist()
            if not shortlist:
                return
            guesses = _guesses(self.model, [self.cliques[i] for i in shortlist])
            self.errors[shortlist] = self.curator.gaps(guesses, share=self.options.part_scores * self.share)
            at = int(np.argmax(self._quality()[shortlist]))
            self._measure(shortlist[at], guesses[at].table)
            work.advance(note=f"{len(self.tables)} marginals, {1 - self.curator.left:.0%} of the budget")

    def _sigma(self) -> float:
        return self.curator.sigma((1 - self.options.part_scores) * self.share)

    def _noise(self) -> Array:
        """Return the error that measuring each candidate in this round would leave; rounds of one share are alike."""
        sigma = self._sigma()
        if sigma not in self.noise:
            noise = expected_noise(self.cells, sigma)
            noise[self.pairs] = projected_error(self.shapes, np.array([sigma]))[:, 0]
            self.noise = {sigma: noise}
        return self.noise[sigma]

    def _quality(self) -> Array:
        return np.asarray(self.weights * (self.errors - self._noise()))

    def _shortlist(self) -> list[int]:
        """Return the candidates that look worst and keep the tree small enough for the budget used so far."""
        used = 1 - self.curator.left
        grown = min(1.0, used + self.share)
        limits = [min(limit, max(limit * grown, 1000)) for limit in (self.options.max_cells, self.options.max_total)]
        found: list[int] = []
        for i in np.argsort(-self._quality()):
            if fits(self.tree, self.cliques[i], max_cells=int(limits[0]), max_total=int(limits[1])):
                found.append(int(i))
                if len(found) == self.options.shortlist:
                    break
        return found

    def _measure(self, i: int, before: Array) -> None:
        c, sigma = self.cliques[i], self._sigma()
        share = self.curator.left if self.share >= self.curator.left else (1 - self.options.part_scores) * self.share
        self.tables += self.curator.measure([c], share=min(share, self.curator.left))
        self.given.append(c)
        self.tree = junction_tree(
            self.curator.domain, self.given, max_cells=self.options.max_cells, max_total=self.options.max_total
        )
        self.model = fit(self.curator.domain, self.tables, tree=self.tree, warm=self.model, noise_level=1.0)
        after = self.model.marginal(c)
        self.errors[i] = 0.0  # known now; asked about again only if nothing else looks worse
        if np.abs(after - before).sum() <= expected_noise([after.size], sigma)[0]:
            self.share *= self.options.anneal  # annealing: at this noise there is little left to see


def _guesses(model: MrfModel, cliques: Sequence[Clique]) -> list[Marginal]:
    return [Marginal(c, table) for c, table in zip(cliques, model.many_marginals(cliques), strict=True)]


def _overlap(cliques: Sequence[Clique], ways: int) -> Array:
    """Return how much of the workload of all `ways`-way marginals a candidate overlaps: sum of |c and w| over w.

    Every attribute lies in the same number of workload marginals, so the sum is proportional to the size of c.
    """
    return np.array([len(c) / ways for c in cliques])
