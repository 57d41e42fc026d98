"""MWEM (Hardt, Ligett, McSherry; NeurIPS 2012): multiplicative weights, and the exponential mechanism; a baseline.

Rounds of choose, measure, update. A round chooses the marginal of the workload that the distribution gets most wrong,
measures it, and moves the distribution towards the answer by multiplicative weights. There are the two versions that
DPSyn's section 6.2 tells apart: the one with a theorem of utility makes one update a round and averages over all
rounds; the one that works goes 100 times over all answers so far, and takes the last distribution.

Where the defaults differ from the paper (`preset="paper"`):
- `accounting` zcdp, published pure: geometric noise and a delta of 0.
- `share_columns` 0.1, published 0.01: by default the columns are measured alone, and the first distribution has them
  right; in the paper it is uniform, and only the number of rows is paid for, which it takes as known.
- `rare` 3.0, published 0.0: no value is merged.

With the preset as well:
- Added query, number of rows: the paper takes it as known.
- Queries are the cells of marginals, chosen and measured by whole tables: a row is in one cell of each, so that all its
  cells cost no more than one. The score of a table is its distance in counts, not that of its worst cell.
- The distribution is kept in independent parts, of the columns that measured marginals connect; a marginal that would
  make a part larger than `max_cells` is not offered. The average over rounds is taken within each part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Annotated, ClassVar, Literal

import numpy as np

from weft.bounds import Bounds, Deviations, Share
from weft.curator import Curator
from weft.errors import MethodError
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Array, Marginal, NoisyMarginal
from weft.marginals.pooling import common_total
from weft.marginals.simplex import project_to_simplex
from weft.methods.common.budget_checks import check_noise, check_shares
from weft.methods.common.discretisation import measure_columns
from weft.methods.common.options import Published, get_published_settings, only_with, option
from weft.models import Model
from weft.models.conditional import compute_log_weights
from weft.models.mrf import MAX_TOTAL, MrfModel, junction_tree
from weft.privacy import AccountingName
from weft.progress import Listener, ignore_event, report_stage
from weft_lab.methods.comparison_steps import all_subsets, check_candidates
from weft_lab.methods.privbayes import check_choices
from weft_lab.queries.selection_queries import SelectionQueries

# Multiplicative weights over a joint distribution that is kept in independent parts.

Parts = tuple[Marginal, ...]
"""A distribution: tables that each sum to one, over columns that they do not share."""


def cells_joined(domain: Domain, parts: Parts, c: Clique) -> int:
    """Return the cells of the table that holds a clique: of all parts that have a column of it, together."""
    return domain.cells({name for part in parts for name in part.clique if set(part.clique) & set(c)})


def joined(domain: Domain, parts: Parts, c: Clique) -> Parts:
    """Return the same distribution with the columns of a clique in one part, without the cells that no row may have."""
    touched = [part for part in parts if set(part.clique) & set(c)]
    if len(touched) == 1:
        return parts
    whole = product(touched)
    empty = domain.empty_cells(whole.clique)
    table = whole.table if empty is None or empty.all() else np.where(empty, 0.0, whole.table)
    rest = [part for part in parts if not set(part.clique) & set(c)]
    return (*rest, Marginal(whole.clique, table / table.sum()))


def expected(parts: Parts, c: Clique) -> Array:
    """Return the distribution of the columns of a clique."""
    return product([part.project(set(part.clique) & set(c)) for part in parts if set(part.clique) & set(c)]).table


def product(parts: Iterable[Marginal]) -> Marginal:
    """Return the distribution of independent parts together, axes in clique order."""

    def beside(one: Marginal, other: Marginal) -> Marginal:
        names = (*one.clique, *other.clique)
        both = make_clique(names)
        return Marginal(both, np.multiply.outer(one.table, other.table).transpose([names.index(name) for name in both]))

    return reduce(beside, parts, Marginal((), np.ones(())))


def updated(parts: Parts, measured: NoisyMarginal, total: float) -> Parts:
    """Return a distribution after one step towards a measured table: p(x) exp((m(x) - n p(x)) / 2n), scaled.

    Noisy counts are held between 0 and n, so that no step is longer than half a logarithm.
    """
    wanted = np.clip(measured.table / total, 0.0, 1.0)
    made = []
    for part in parts:
        if set(measured.clique) <= set(part.clique):
            step = np.exp((wanted - part.project(measured.clique).table) / 2)
            summed = [axis for axis, name in enumerate(part.clique) if name not in measured.clique]
            table = part.table * np.expand_dims(step, tuple(summed))
            part = Marginal(part.clique, table / table.sum())
        made.append(part)
    return tuple(made)


def averaged(history: Sequence[Parts]) -> Parts:
    """Return the mean of distributions over time, in the parts of the last one, which hold those of all others."""
    return tuple(
        Marginal(part.clique, np.mean([expected(parts, part.clique) for parts in history], axis=0))
        for part in history[-1]
    )


@dataclass(frozen=True)
class Mwem:
    """Choose the marginal that is most wrong, measure it, and move towards it by multiplicative weights."""

    completes_seeds: ClassVar[bool] = True
    paper: ClassVar[Published | None] = get_published_settings(
        accounting="pure", version="replayed", passes=100, share_columns=0.01, rare=0.0, part_scores=0.5
    )

    accounting: AccountingName = option("zcdp", '"zcdp"; or "pure" for geometric noise and delta 0.')
    version: Literal["replayed", "averaged"] = option(
        "replayed",
        "The version that works, which goes again and again over all answers and takes the last distribution; or the "
        "one with a theorem, of one update a round and the average of all rounds.",
    )
    passes: Annotated[int, Bounds(1, 10_000)] = option(
        100, "How often a round goes over all answers so far.", only_with("version", "replayed")
    )
    ways: Annotated[int, Bounds(1, 6)] = option(2, "The workload: all marginals of up to this many columns.")
    rounds: Annotated[int | None, Bounds(1, 200)] = option(
        None, "Rounds, each with as much of the budget. None: as many as there are columns."
    )
    share_columns: Share = option(
        0.1, "Share of the budget for one-way marginals; for the number of rows, where no value is merged."
    )
    rare: Deviations = option(
        3.0,
        "Values whose noisy count is below this many standard deviations are merged; 0: none, only the rows are "
        "counted, and the first distribution is uniform.",
    )
    part_scores: Share = option(0.5, "Part of a round's budget for choosing; the rest measures.")
    max_cells: Annotated[int, Bounds(2, 1 << 20)] = option(
        1 << 16, "Cells of the largest table of columns that measured marginals connect."
    )

    def check(self, domain: Domain) -> None:
        """Refuse shares that leave nothing, accounting that cannot pay for choices, and columns that do not fit."""
        check_shares(share_columns=self.share_columns)
        check_shares(part_scores=self.part_scores)
        check_choices(self.accounting)
        check_candidates(domain, self.ways)
        for name in domain:
            if domain.size(name) > self.max_cells:
                raise MethodError(
                    f"option max_cells: column {name!r} alone has {domain.size(name):,} values, above "
                    f"{self.max_cells:,}: choose coarser bins for it in the schema, or raise max_cells."
                )

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = ignore_event) -> Model:
        """The columns or the rows, then rounds."""
        d = len(curator.domain)
        each = (1 - self.share_columns) * (1 - self.part_scores) / (self.rounds or d)
        check_noise(curator, share_columns=(self.share_columns, d), part_scores=(each, 1))
        if self.rare <= 0:
            with report_stage(listener, "count"):
                total = max(float(curator.total(self.share_columns).table), 1.0)
            sizes = {name: curator.domain.size(name) for name in curator.domain}
            flat = tuple(Marginal((name,), np.full(size, 1 / size)) for name, size in sizes.items())
            return self._rounds(curator, flat, [], total, listener)
        columns = measure_columns(curator, self.share_columns, self.rare, listener)
        total = max(common_total(columns.tables)[0], 1.0)
        alone = tuple(Marginal(m.clique, project_to_simplex(m.table, total) / total) for m in columns.tables)
        return columns.unfold(self._rounds(columns.curator, alone, columns.tables, total, listener))

    def _rounds(
        self, curator: Curator, parts: Parts, answers: list[NoisyMarginal], total: float, listener: Listener
    ) -> MrfModel:
        domain, answers, history = curator.domain, list(answers), [parts]
        workload: list[Clique] = [(name,) for name in domain]
        workload += all_subsets(domain, min(self.ways, len(domain)), self.max_cells)
        rounds = self.rounds or len(domain)
        with report_stage(listener, "refine", rounds) as work:
            for left in range(rounds, 0, -1):
                offered = [c for c in workload if cells_joined(domain, parts, c) <= self.max_cells]
                guesses = [Marginal(c, total * expected(parts, c)) for c in offered]
                chosen = offered[
                    SelectionQueries.of(curator).choose_gap(guesses, self.part_scores * curator.left / left)
                ]
                spent = (1 - self.part_scores) / (left - self.part_scores)  # of what the choice has left
                answers += curator.measure([chosen], share=curator.left * spent)
                parts = self._moved(joined(domain, parts, chosen), answers, total)
                history.append(parts)
                work.advance()
        return self._model(domain, averaged(history) if self.version == "averaged" else parts, total)

    def _moved(self, parts: Parts, answers: list[NoisyMarginal], total: float) -> Parts:
        """Return the distribution after this round's updates."""
        if self.version == "averaged":
            return updated(parts, answers[-1], total)
        for _ in range(self.passes):
            for answer in reversed(answers):
                parts = updated(parts, answer, total)
        return parts

    def _model(self, domain: Domain, parts: Parts, total: float) -> MrfModel:
        limit = self.max_cells * len(domain)
        tree = junction_tree(
            domain, [p.clique for p in parts], max_cells=self.max_cells, max_total=max(limit, MAX_TOTAL)
        )
        return MrfModel(tree, total, {part.clique: compute_log_weights(part.table) for part in parts})
