"""PrivMRF (Cai, Lei, Wei, Xiao; PVLDB 2021), Algorithms 1 to 6.

A graph of strongly dependent attributes, kept narrow enough for a junction tree, says which marginals a Markov random
field can hold. Each attribute starts with its best family; then rounds of refinement measure what the fitted model
gets most wrong.

Where this differs from the paper, and from its public code:
- The R-score is noised in counts, where its sensitivity is 2, and divided by the noisy total afterwards. The code
  divides by the exact n first, which is not 2/n-sensitive.
- The row count gets 1% of the budget, as the paper says; the code spends about ten times the whole budget on it. By
  default it gets 5%, spent on the one-way marginals: they tell the count and which values are too rare to be told
  apart, and take part in the fit. `PrivMrf.paper()` counts the rows alone.
- Families are scored on R/n in [0, 1], the scale that the merit assumes; candidates have at most `max_ways` attributes.
- Refinement takes several marginals a round (`rounds`, as the code does), each round with its part of both shares;
  `PrivMrf.paper()` takes one a round. The pick weighs the distance against the noise that measuring would add.
- Cliques are capped at 10^6 cells, not 10^7: seconds on two CPU cores instead of minutes on two GPUs.
- Noise is fitted to its level, not for a fixed number of iterations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from weft.curator import Curator
from weft.domain import Clique, Domain
from weft.marginal import Marginal, NoisyMarginal
from weft.methods.columns import check_shares, look_at_columns
from weft.models import Model
from weft.models.mrf import JunctionTree, MrfModel, fit, grow_tree
from weft.privacy import Accounting
from weft.progress import Listener, silence, stage
from weft.reconcile import common_total
from weft.select import best_families, expected_noise, useful_subsets


@dataclass(frozen=True)
class PrivMrf:
    """A dense graph, a junction tree, and refinement where the model is most wrong."""

    accounting: Accounting = "gaussian"
    """"gaussian" is the paper's own exact composition; "paper" is zCDP with the closed form."""
    dependence: float = 0.10
    """Share of the budget for the R-scores of all pairs."""
    count: float = 0.05
    """Share for the one-way marginals, which give the row count too; the paper's 1% is for the row count alone."""
    rare: float = 3.0
    """Values whose noisy count is below this many deviations are merged; 0: none, and only the rows are counted."""
    refine: float = 0.10
    """Share for asking which marginals the model gets wrong; the rest measures."""
    theta: float = 6.0
    """A marginal is useful if its average cell holds at least theta times the noise."""
    candidates: int = 400
    """Marginals asked about in each round (the paper's k)."""
    picks: float = 0.8
    """Marginals added by refinement, for each attribute (the paper's t = 0.8 d)."""
    rounds: int = 8
    """Rounds of refinement; the picks are divided over them."""
    max_ways: int = 6
    """Most attributes of a marginal."""
    max_cells: int = 10**6
    """Cells of the largest clique of the junction tree (the paper's tau: 10^7)."""
    max_total: int = 4 * 10**6
    """Cells of the whole tree."""

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """Return the published settings: only the rows are counted first, no value is merged, one pick a round."""
        published = {"count": 0.01, "rare": 0.0, "rounds": 10**6, "max_cells": 10**7, "max_total": 5 * 10**7}
        return cls(**{**published, **changes})

    def check(self, domain: Domain) -> None:
        """Refuse shares that leave nothing. Every domain will do: the graph stays within the limits."""
        check_shares(dependence=self.dependence, count=self.count, refine=self.refine)

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = silence) -> Model:
        """Look at the columns, then follow the paper on what is left of them."""
        if self.rare <= 0:
            total = float(curator.total(share=self.count).table)
            return self._learn(curator, [], max(total, 1.0), rng, listener)
        columns = look_at_columns(curator, self.count, self.rare, listener)
        total = max(common_total(columns.tables)[0], 1.0)
        return columns.unfold(self._learn(columns.curator, columns.tables, total, rng, listener))

    def _learn(
        self,
        curator: Curator,
        known: list[NoisyMarginal],
        total: float,
        rng: np.random.Generator,
        listener: Listener,
    ) -> MrfModel:
        """Spend 10% on the graph, 10% on asking, and the rest on marginals."""
        d = len(curator.domain)
        with stage(listener, "build the graph"):
            scores = curator.dependence(share=self.dependence, score="r")  # Algorithm 1
            ranked = sorted((pair for pair in scores if scores[pair] > 0), key=lambda pair: (-scores[pair], pair))
            graph = grow_tree(curator.domain, ranked, max_cells=self.max_cells, max_total=self.max_total)
        picks = math.floor(self.picks * d) if d > 1 else 0
        asking = self.refine if picks else 0.0
        each = (curator.left - asking) / (d + picks)
        sigma = curator.sigma(each)

        limit = total / (self.theta * sigma * math.sqrt(2 / math.pi))
        useful = useful_subsets(graph.cliques, curator.domain, limit, self.max_ways)  # Algorithm 2
        related = {pair: min(max(score / total, 0.0), 1.0) for pair, score in scores.items()}
        chosen = best_families(useful, related, curator.domain)  # Algorithm 3
        chosen += [(name,) for name in curator.domain if not any(name in c for c in chosen)][: d - len(chosen)]
        with stage(listener, "measure families"):
            tables = [*known, *curator.measure(chosen, share=each * d)]
        return self._refine(curator, graph, tables, set(useful) - set(chosen), total, each, picks, rng, listener)

    def _refine(
        self,
        curator: Curator,
        graph: JunctionTree,
        tables: list[NoisyMarginal],
        useful: set[Clique],
        total: float,
        each: float,
        picks: int,
        rng: np.random.Generator,
        listener: Listener,
    ) -> MrfModel:
        """Measure what the model gets most wrong, round by round (Algorithms 4 to 6)."""
        waiting = sorted(useful)
        rounds = min(self.rounds, picks)
        model: MrfModel | None = None
        with stage(listener, "refine", total=rounds) as work:
            for r in range(rounds):
                left = picks - sum(_part(picks, rounds, i) for i in range(r))
                model = fit(curator.domain, tables, total=total, tree=graph, warm=model)
                wanted = _part(picks, rounds, r) if waiting else 0
                tables += self._round(curator, model, waiting, wanted, each, rounds, rng)
                work.advance(note=f"{len(tables)} marginals, {left} to come")
        if curator.left > 1e-6:  # nothing useful was left to ask about: measure what is known again
            tables += curator.measure(list(dict.fromkeys(m.clique for m in tables)), share=curator.left)
        return fit(curator.domain, tables, total=total, tree=graph, warm=model, listener=listener)

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
        """Ask how wrong the model is on some candidates, and measure the worst; they leave `waiting`."""
        if not wanted:
            return []
        some = [waiting[i] for i in sorted(rng.permutation(len(waiting))[: self.candidates])]
        guesses = [Marginal(c, table) for c, table in zip(some, model.many_marginals(some), strict=True)]
        gaps = curator.gaps(guesses, share=self.refine / rounds)
        merit = gaps - expected_noise([guess.cells for guess in guesses], curator.sigma(each))
        best = [some[i] for i in np.argsort(-merit)[:wanted]]
        for c in best:
            waiting.remove(c)
        return curator.measure(best, share=each * len(best))


def _part(whole: int, parts: int, i: int) -> int:
    """Return part i of a whole number divided as evenly as can be."""
    return whole * (i + 1) // parts - whole * i // parts
