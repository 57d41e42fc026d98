"""PrivBayes (Zhang, Cormode, Procopiuc, Srivastava, Xiao; SIGMOD 2014, TODS 2017): a Bayesian network, pure epsilon.

Starting from a random attribute, the exponential mechanism adds one attribute after another with its parents; then the
marginal of every family is measured, and records are sampled in this order.

Where the defaults differ from the paper (`preset="paper"`):
- `share_columns` 0.4, published 0.0: every one-way marginal is measured too, so that its noise is not summed over
  the values of the parents.
- `share_structure` 0.15, published 0.3: the selection is about as good down to a share of 0.1.
- `theta` 3.0, published 4.0.
- `max_candidates` 2000, published 100000: the paper has no limit; if there are too many maximal parent sets, sets get
  fewer parents.
- `allocation` weighted, published equal: by default, the budget is divided by cells^(1/2), which minimises the summed
  error of geometric noise; for Gaussian noise, by cells^(2/3).
- `tables` agreed, published cut: by default, noisy marginals are made consistent and the network is fitted to them
  (`fit_network`); in the paper, each is clipped at zero and normalised separately.

With the preset as well:
- Added query, number of rows: the paper takes it as known, in its test of theta-usefulness. Neighbours add or remove
  a row by default.
- The score is the R-score in counts, for all domains; its sensitivity under add/remove is 2 (as in PrivMRF).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from weft.bounds import Bounds, Factor, Share
from weft.curator import Curator
from weft.errors import MethodError
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Array, Marginal, NoisyMarginal
from weft.marginals.reconciliation import reconcile
from weft.methods.common.allocation import by_size
from weft.methods.common.budget_checks import check_noise, check_shares
from weft.methods.common.indif_network import useful_cells
from weft.methods.common.options import Published, get_published_settings, option
from weft.models.apportion import apportion_groups
from weft.privacy import AccountingName, find_accounting
from weft.progress import Listener, ignore_event, report_stage
from weft_lab.methods.bayesnet import BayesNet, normalise_rows
from weft_lab.methods.comparison_steps import parent_sets
from weft_lab.queries.selection_queries import SelectionQueries


@dataclass(frozen=True)
class PrivBayes:
    """A Bayesian network selected by the exponential mechanism, with pure epsilon."""

    completes_seeds: ClassVar[bool] = True
    paper: ClassVar[Published | None] = get_published_settings(
        accounting="pure",
        share_columns=0.0,
        share_structure=0.3,
        theta=4.0,
        max_candidates=100_000,
        allocation="equal",
        tables="cut",
    )

    accounting: AccountingName = option("pure", '"pure", geometric noise, delta 0; or "zcdp", smaller Gaussian noise.')
    share_total: Share = option(0.01, "Share of the budget for the number of rows.")
    share_columns: Annotated[float, Bounds(0.0, 0.99)] = option(0.4, "Share for one-way marginals; 0: none.")
    share_structure: Share = option(0.15, "Share for the structure; the rest is for the marginals of families.")
    theta: Factor = option(3.0, "Minimum ratio of the average count of a table to the scale of its noise.")
    max_candidates: Annotated[int, Bounds(1, 100_000)] = option(2000, "Maximum candidate families of a selection.")
    allocation: Literal["weighted", "equal"] = option(
        "weighted", "Divide the budget by cells^(1/2), with zcdp by cells^(2/3); or evenly."
    )
    tables: Literal["agreed", "cut"] = option("agreed", "Noisy tables: made consistent, or clipped and normalised.")

    def check(self, domain: Domain) -> None:
        """Validate the budget shares and the accounting."""
        alone = {"share_columns": self.share_columns} if self.share_columns else {}
        check_shares(share_total=self.share_total, **alone, share_structure=self.share_structure)
        check_choices(self.accounting)

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = ignore_event) -> BayesNet:
        """Select a network, measure its families, and estimate the conditional distributions."""
        alone: list[NoisyMarginal] = []
        check_noise(curator, share_total=(self.share_total, 1))
        if self.share_columns:
            check_noise(curator, share_columns=(self.share_columns, len(curator.domain)))
            with report_stage(listener, "measure columns"):
                alone = self._measure(curator, [(name,) for name in curator.domain], self.share_columns)
        rows, families = self.choose(curator, rng, listener)
        with report_stage(listener, "measure families"):
            larger = [family for family in families if len(family) > 1 or not alone]
            noisy = self._measure(curator, larger or families, curator.left)
        if self.tables == "cut":
            first = {m.clique: Marginal(m.clique, np.maximum(m.table, 0.0)) for m in [*alone, *noisy]}
            return BayesNet.of(curator.domain, max(float(rows.table), 1.0), [first[family] for family in families])
        with report_stage(listener, "reconcile"):
            made = reconcile([*noisy, *alone, rows])
            tables = {table.clique: table for table in made.tables}
        return fit_network(curator.domain, made.total, [tables[family] for family in families], rng)

    def choose(
        self, curator: Curator, rng: np.random.Generator, listener: Listener
    ) -> tuple[NoisyMarginal, list[Clique]]:
        """Return the noisy number of rows and the families of a network; the rest of the budget is left."""
        d = len(curator.domain)
        with report_stage(listener, "count"):
            rows = curator.total(self.share_total)
        rest = curator.left - (self.share_structure if d > 1 else 0.0)
        # In units of the geometric scale: the standard deviation is larger by a factor of sqrt(2).
        cells = useful_cells(float(rows.table), curator.sigma(rest / d) / math.sqrt(2), self.theta)
        with report_stage(listener, "choose families", d - 1) as work:
            placed = [str(rng.choice(curator.domain.names))]
            families: list[Clique] = [(placed[0],)]
            while len(placed) < d:
                offered = self._offer(curator.domain, placed, cells)
                child, parents = offered[
                    SelectionQueries.of(curator).choose_family(offered, self.share_structure / (d - 1))
                ]
                families.append(make_clique([child, *parents]))
                placed.append(child)
                work.advance()
        return rows, families

    def _measure(self, curator: Curator, cliques: list[Clique], share: float) -> list[NoisyMarginal]:
        """Measure marginals with equal parts, or with parts that minimise the summed error."""
        sized = by_size([curator.domain.cells(c) for c in cliques], curator.accounting)
        return curator.measure(cliques, share, None if self.allocation == "equal" else sized)

    def _offer(self, domain: Domain, placed: list[str], cells: float) -> list[tuple[str, Clique]]:
        """Return every unplaced attribute with each of its maximal useful parent sets."""
        waiting = [name for name in domain if name not in placed]
        limit = max(1, self.max_candidates // len(waiting))
        return [
            (name, parents)
            for name in waiting
            for parents in parent_sets(domain, placed, cells / domain.size(name), limit)
        ]


def check_choices(accounting: AccountingName) -> None:
    """Refuse accounting that does not cover the exponential mechanism."""
    rules = find_accounting(accounting)
    if rules.is_exact_gaussian or rules.uses_closed_form:
        raise MethodError('option accounting must be "pure" or "zcdp", which cover the exponential mechanism.')


WORKED = 1 << 18  # number of sampled records from which the joint distribution of parents is estimated
ROUNDS = 20  # rounds of raking; the remaining error is far below any noise


def fit_network(domain: Domain, total: float, tables: Sequence[Marginal], rng: np.random.Generator) -> BayesNet:
    """Create a network like `BayesNet.of`, after raking each table to the parent distribution of the preceding ones.

    If no earlier family contains all parents, the network's joint distribution of them differs from the table's, and
    with plain conditionals the child would lose its measured marginal and its pairs with each parent. Raking (iterative
    proportional fitting) to the network's parents and the table's own pairs keeps them: by induction, attributes and
    pairs of child and parent are distributed as measured, and higher interactions are the table's. No privacy cost.
    """
    columns: dict[str, Array] = {}
    fitted = []
    for table in tables:
        old = tuple(name for name in table.clique if name in columns)
        new = tuple(name for name in table.clique if name not in columns)
        group = np.zeros(WORKED, np.int64)
        for name in old:
            group = group * domain.size(name) + columns[name]
        order = [table.clique.index(name) for name in (*old, *new)]
        counts = np.transpose(table.table, order).reshape(*domain.sizes(old), domain.cells(new))
        if len(old) > 1 and counts.sum() > 0:
            met = np.bincount(group, minlength=domain.cells(old)).reshape(domain.sizes(old))
            counts = rake_to_parents(counts / counts.sum(), met / WORKED)
        cells = apportion_groups(normalise_rows(counts.reshape(-1, domain.cells(new))), group, rng)
        columns |= dict(zip(new, np.unravel_index(cells, domain.sizes(new)), strict=True)) if new else {}
        back = np.transpose(counts.reshape(domain.sizes((*old, *new))), np.argsort(order))
        fitted.append(Marginal(table.clique, back))
    return BayesNet.of(domain, total, fitted)


def rake_to_parents(table: Array, parents: Array) -> Array:
    """Rake a table, child last, to a distribution of its parents and to its own (parent, child) marginals."""
    others = [tuple(k for k in range(parents.ndim) if k != i) for i in range(parents.ndim)]
    pairs = [table.sum(axis=axes, keepdims=True) for axes in others]
    for _ in range(ROUNDS):
        for axes, pair in zip(others, pairs, strict=True):
            table = table * _divide_where_found(pair, table.sum(axis=axes, keepdims=True))
        table = table * _divide_where_found(parents[..., None], table.sum(axis=-1, keepdims=True))
    return table


def _divide_where_found(wanted: Array, found: Array) -> Array:
    """Return wanted / found, or 0 where found is 0 and cannot be scaled."""
    return np.divide(wanted, found, out=np.zeros_like(found), where=found > 0)
