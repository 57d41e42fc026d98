"""AIM (McKenna, Mullins, Sheldon, Miklau; PVLDB 2022), in an all-Gaussian form with remembered errors.

Each round selects, measures and fits. The published algorithm selects with the exponential mechanism and computes the
model's marginal of every candidate in every round. By default, the error of each candidate is measured once, with
Gaussian noise against the first model; a round measures again only the few largest and takes the best. All noise is
then Gaussian and accounted exactly, and a round infers a handful of marginals instead of thousands.

In both forms, a candidate's score is weighted by its overlap with the workload and reduced by the expected noise of
measuring it; candidates must keep the junction tree within a size that grows with the budget used; when a measurement
changes the model by no more than its noise, later rounds get a larger share (annealing).

Where the defaults differ from the paper (`preset="paper"`):
- `accounting` gaussian, published zcdp: the paper's choices are by the exponential mechanism.
- `selection` remembered, published exponential; there, the expected noise is cells times sigma. By default, the
  expected noise of a pair is that of its projected table, estimated from its one-way marginals and its distance from
  independence: the published rule would never measure a pair of wide attributes, even if one copies the other.
- `share_columns` 0.1, published 0.05625: each attribute gets what a round spends on measuring, 0.9 of 1 / (16 d).
- `rare` 3.0, published 0.0: no value is merged.
- `rounds_per_column` 32.0, published 15.1: a round gets 1 / (16 d) of the whole budget, one-way marginals included.
- `anneal` 2.0, published 4.0: half the sigma, twice the epsilon, is four times the share.
- `solver` accelerated, published mirror: 1,000 passes of mirror descent; by default, the last fit restarts and stops
  where the estimated distance to the exact marginals is smallest.

With the preset as well:
- `max_candidates` and `max_table` limit the workload; the paper limits only the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from weft.bounds import Bounds, Cells, Deviations, Share
from weft.curator import Curator
from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array, Marginal, NoisyMarginal
from weft.marginals.noise_error import compute_expected_noise, compute_projected_error, group_cells_by_size
from weft.methods.common.budget_checks import check_noise, check_shares
from weft.methods.common.discretisation import measure_columns
from weft.methods.common.options import Published, get_published_settings, only_with, option
from weft.models.mrf import JunctionTree, ModelTooLarge, MrfModel, Solver, fit_mrf, junction_tree
from weft.models.recoded import RecodedModel
from weft.privacy import AccountingName
from weft.progress import Listener, Stage, ignore_event, report_stage
from weft_lab.methods.comparison_steps import PASSES, SOLVER, Passes, all_subsets, check_candidates, check_mixed, fit_as
from weft_lab.methods.tree_growth import fits_with_clique
from weft_lab.queries.selection_queries import SelectionQueries


def make_pair_at_distance(one: Array, other: Array, gap: float) -> Array:
    """Return a two-way table at about L1 distance `gap` from independence, with the given margins sorted by count.

    Truncation at zero removes noise mostly from empty cells, so the error of a measurement depends on sparsity: the
    product of the margins fills all cells, attributes that nearly copy each other few. The result mixes the product and
    the coupling of values in order of size, with the weight that gives the measured distance.

    >>> make_pair_at_distance(np.array([6.0, 4.0]), np.array([6.0, 4.0]), gap=9.6)
    array([[6., 0.],
           [0., 4.]])
    """
    rows, columns = np.sort(one)[::-1], np.sort(other)[::-1]
    product = np.outer(rows, columns) / max(rows.sum(), 1e-9)
    away = _couple_values(rows, columns) - product
    farthest = np.abs(away).sum()
    part = min(max(gap / farthest, 0.0), 1.0) if farthest > 0 else 0.0
    return np.asarray(np.maximum(product + part * away, 0.0))


def _couple_values(rows: Array, columns: Array) -> Array:
    """Return the comonotone coupling of two margins: it has at most as many filled cells as there are values."""
    ends = [np.cumsum(rows), np.cumsum(columns)]
    bounds = np.unique(np.concatenate(ends))
    width = np.diff(bounds, prepend=0.0)
    at = [np.minimum(np.searchsorted(end, bounds - width / 2), end.size - 1) for end in ends]
    table = np.zeros((rows.size, columns.size))
    np.add.at(table, tuple(at), width)
    return table


MIN_BUDGET_SHARE = 1e-6
"""Share of the budget below which no further query is made."""

_REMEMBERED = only_with("selection", "remembered")


@dataclass(frozen=True)
class Aim:
    """Rounds that measure the workload marginal with the largest model error and refit the model."""

    completes_seeds: ClassVar[bool] = True
    paper: ClassVar[Published | None] = get_published_settings(
        accounting="zcdp",
        selection="exponential",
        ways=3,
        share_columns=0.05625,
        rare=0.0,
        rounds_per_column=15.1,
        anneal=4.0,
        part_scores=0.1,
        solver="mirror",
        passes=1000,
    )

    accounting: AccountingName = option(
        "gaussian", '"gaussian"; "zcdp"; or "paper", closed-form zCDP. Exponential selection needs one of these two.'
    )
    selection: Literal["remembered", "exponential"] = option(
        "remembered",
        "By remembered noisy errors, with new queries for a few; or by the exponential mechanism, as published.",
    )
    ways: Annotated[int, Bounds(2, 6)] = option(3, "The workload: all marginals of this many attributes.")
    share_columns: Share = option(0.1, "Share of the budget for one-way marginals.")
    share_scores: Share = option(0.05, "Share for measuring the error of every candidate once.", _REMEMBERED)
    rare: Deviations = option(3.0, "Values whose noisy count is below this many standard deviations are merged.")
    rounds_per_column: Annotated[float, Bounds(0.01, 1000.0)] = option(32.0, "Rounds per attribute without annealing.")
    anneal: Annotated[float, Bounds(1.0, 100.0)] = option(2.0, "Factor on a round's share when annealing.")
    part_scores: Share = option(0.1, "Part of a round's budget for selection; the rest is for measurement.")
    shortlist: Annotated[int, Bounds(1, 10000)] = option(16, "Candidates scored again in each round.", _REMEMBERED)
    max_candidates: Annotated[int, Bounds(1, 1_000_000)] = option(20_000, "Maximum candidates; smallest tables first.")
    max_table: Cells = option(10**5, "Maximum cells of a measured marginal.")
    max_cells: Cells = option(10**6, "Maximum cells of a clique of the junction tree.")
    max_total: Cells = option(4 * 10**6, "Maximum cells of the whole junction tree.")
    solver: Solver = option("accelerated", SOLVER)
    passes: Passes = option(1000, PASSES, only_with("solver", "mirror"))

    def check(self, domain: Domain) -> None:
        """Validate the budget shares, the accounting of the selection and the number of candidates."""
        check_shares(share_columns=self.share_columns, share_scores=self.share_scores)
        if self.selection == "exponential":
            check_mixed(self.accounting)
        check_shares(part_scores=self.part_scores)
        check_candidates(domain, self.ways)

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = ignore_event) -> RecodedModel:
        """Measure one-way marginals and the errors of all candidates, then run rounds until the budget is spent."""
        self._check_noise(curator)
        columns = measure_columns(curator, self.share_columns, self.rare, listener)
        merged = columns.curator
        tables = list(columns.tables)
        model = fit_mrf(merged.domain, tables)
        cliques = self._candidates(merged.domain)
        if cliques:
            errors: Array | None = None
            if self.selection == "remembered":
                with report_stage(listener, "score the candidates"):
                    errors = merged.gaps(_estimate_marginals(model, cliques), share=self.share_scores)
            rounds = max(1.0, self.rounds_per_column * len(merged.domain))
            state = _Rounds(self, merged, cliques, errors, tables, model, merged.left / rounds)
            with report_stage(listener, "refine") as work:
                state.run(work)
            tables, model = state.tables, state.model
        if merged.left > MIN_BUDGET_SHARE:  # one attribute, or no candidate fits: repeat earlier measurements
            tables += merged.measure(list(dict.fromkeys(m.clique for m in tables)), share=merged.left)
        how = self.solver, self.passes
        last = fit_as(*how, merged.domain, tables, tree=model.tree, warm=model, probe=rng, listener=listener)
        return columns.unfold(last)

    def _check_noise(self, curator: Curator) -> None:
        d = len(curator.domain)
        asked = self.share_scores if self.selection == "remembered" else 0.0
        each = (1 - self.share_columns - asked) / max(1.0, self.rounds_per_column * d)
        check_noise(
            curator, share_columns=(self.share_columns, d), rounds_per_column=((1 - self.part_scores) * each, 1)
        )
        if asked:
            check_noise(
                curator,
                share_scores=(asked, self.max_candidates),
                part_scores=(self.part_scores * each, self.shortlist),
            )

    def _candidates(self, domain: Domain) -> list[Clique]:
        found = all_subsets(domain, min(self.ways, len(domain)), self.max_table)
        if self.selection == "exponential" and len(domain) > 1:
            found += [(name,) for name in domain]  # the workload's downward closure
        return sorted(sorted(found, key=domain.cells)[: self.max_candidates])


class _Rounds:
    """State of the rounds: remembered errors, measured marginals, fitted model."""

    def __init__(
        self,
        options: Aim,
        curator: Curator,
        cliques: list[Clique],
        errors: Array | None,
        tables: list[NoisyMarginal],
        model: MrfModel,
        share: float,
    ) -> None:
        self.options, self.curator, self.cliques = options, curator, cliques
        self.errors = np.zeros(len(cliques)) if errors is None else errors
        self.tables, self.model, self.share = tables, model, share
        self.cells = np.array([curator.domain.cells(c) for c in cliques])
        self.weights = _compute_overlap(cliques, options.ways)
        self.pairs = np.array([i for i, c in enumerate(cliques) if len(c) == 2 and errors is not None], np.int64)
        alone = {name: model.marginal((name,)) for name in curator.domain}
        self.shapes = group_cells_by_size(
            [make_pair_at_distance(alone[cliques[i][0]], alone[cliques[i][1]], self.errors[i]) for i in self.pairs]
        )
        self.noise: dict[float, Array] = {}
        self.given: list[Clique] = []
        self.tree: JunctionTree = model.tree

    def run(self, work: Stage) -> None:
        """Run rounds while budget remains; the last round takes what is left."""
        while self.curator.left > MIN_BUDGET_SHARE:
            if self.curator.left < 2 * self.share:
                self.share = self.curator.left
            remembered = self.options.selection == "remembered"
            offered = self._offered(self.options.shortlist if remembered else len(self.cliques))
            offered, guesses = self._guessed(offered)
            if not offered:
                return
            at = self._best(offered, guesses) if remembered else self._choose(offered, guesses)
            self._measure(offered[at], guesses[at].table)
            work.advance(note=f"{len(self.tables)} marginals, {1 - self.curator.left:.0%} of the budget")

    def _guessed(self, offered: list[int]) -> tuple[list[int], list[Marginal]]:
        """Return the model's marginals of the candidates, without those too large to infer."""
        with suppress(ModelTooLarge):
            return offered, _estimate_marginals(self.model, [self.cliques[i] for i in offered])
        found: dict[int, Marginal] = {}
        for i in offered:
            with suppress(ModelTooLarge):
                found[i] = Marginal(self.cliques[i], self.model.marginal(self.cliques[i]))
        return list(found), list(found.values())

    def _best(self, offered: list[int], guesses: list[Marginal]) -> int:
        """Measure the errors of these candidates again and return the best."""
        self.errors[offered] = self.curator.gaps(guesses, share=self.options.part_scores * self.share)
        return int(np.argmax(self._quality()[offered]))

    def _choose(self, offered: list[int], guesses: list[Marginal]) -> int:
        """Select with the exponential mechanism, scored by weight * (distance - cells * mean absolute noise)."""
        penalties = self._noise()[offered].tolist()
        weights = [len(self.cliques[i]) for i in offered]
        share = self.options.part_scores * self.share
        return SelectionQueries.of(self.curator).choose_gap(guesses, share, weights=weights, penalties=penalties)

    def _sigma(self) -> float:
        return self.curator.sigma((1 - self.options.part_scores) * self.share)

    def _noise(self) -> Array:
        """Return the expected noise of measuring each candidate in this round, cached by sigma."""
        sigma = self._sigma()
        if sigma not in self.noise:
            noise = compute_expected_noise(self.cells, sigma)
            if len(self.pairs):
                noise[self.pairs] = compute_projected_error(self.shapes, np.array([sigma]))[:, 0]
            self.noise = {sigma: noise}
        return self.noise[sigma]

    def _quality(self) -> Array:
        return np.asarray(self.weights * (self.errors - self._noise()))

    def _offered(self, most: int) -> list[int]:
        """Return the best candidates that keep the tree small enough for the budget used so far."""
        used = 1 - self.curator.left
        grown = min(1.0, used + self.share)
        limits = [min(limit, max(limit * grown, 1000)) for limit in (self.options.max_cells, self.options.max_total)]
        found: list[int] = []
        for i in np.argsort(-self._quality()):
            if fits_with_clique(self.tree, self.cliques[i], max_cells=int(limits[0]), max_total=int(limits[1])):
                found.append(int(i))
                if len(found) == most:
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
        if self.options.solver == "mirror":
            passes = self.options.passes
            self.model = fit_as("mirror", passes, self.curator.domain, self.tables, tree=self.tree, warm=self.model)
        else:
            self.model = fit_mrf(self.curator.domain, self.tables, tree=self.tree, warm=self.model, noise_level=1.0)
        after = self.model.marginal(c)
        self.errors[i] = 0.0  # just measured: queried again only if no candidate has a larger error
        if np.abs(after - before).sum() <= compute_expected_noise([after.size], sigma)[0]:
            self.share *= self.options.anneal  # annealing: less noise is needed


def _estimate_marginals(model: MrfModel, cliques: Sequence[Clique]) -> list[Marginal]:
    return [Marginal(c, table) for c, table in zip(cliques, model.many_marginals(cliques), strict=True)]


def _compute_overlap(cliques: Sequence[Clique], ways: int) -> Array:
    """Return the overlap of each candidate c with the workload of all `ways`-way marginals w: sum over w of |c & w|.

    Every attribute is in the same number of workload marginals, so the sum is proportional to |c|.
    """
    return np.array([len(c) / ways for c in cliques])
