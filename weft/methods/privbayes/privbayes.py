"""PrivBayes (Zhang, Cormode, Procopiuc, Srivastava, Xiao; SIGMOD 2014, TODS 2017): a Bayesian network, pure epsilon.

Starting from a random attribute, the exponential mechanism adds one attribute after another together with its
parents; then the table of every family is measured, and records are drawn in order.

Where the defaults differ from the paper (`preset="paper"`):
- `share_columns` 0.4, published 0.0: every attribute is measured alone, too, so that noise on a one-way table is not
  added up over its parents' values.
- `share_structure` 0.15, published 0.3: choices are about as good down to a share of 0.1.
- `theta` 3.0, published 4.0.
- `max_candidates` 2000, published 100000: the paper has no limit; where there are very many maximal parent sets, sets
  are held to fewer parents.
- `allocation` weighted, published equal: by default a table's part of the budget goes with the root of its size, which
  makes the summed error of geometric noise least; of Gaussian noise, with its cells^(2/3).
- `tables` agreed, published cut: by default noisy tables are made consistent with each other, and the distributions are
  such that the network keeps to them (`fit_network`); in the paper each is cut at zero and scaled on its own.

With the preset, too:
- n in the test of theta-usefulness is a noisy total, paid for; neighbours add or remove a row by default.
- The score is the R-score in counts, for all domains; its sensitivity under add/remove is 2 (PrivMRF's reading).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from weft.bounds import Bounds, Factor, Share
from weft.curator import Curator
from weft.errors import MethodError
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Marginal, NoisyMarginal
from weft.marginals.reconciliation import reconcile
from weft.methods.common.allocation import by_size
from weft.methods.common.candidates import parent_sets, useful_cells
from weft.methods.common.discretisation import check_noise, check_shares
from weft.methods.common.options import Published, get_published_settings, option
from weft.models.bayesnet import BayesNet, fit_network
from weft.privacy import AccountingName, find_accounting
from weft.progress import Listener, ignore_event, report_stage


@dataclass(frozen=True)
class PrivBayes:
    """A Bayesian network chosen by the exponential mechanism, with pure epsilon."""

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

    accounting: AccountingName = option(
        "pure", '"pure" for geometric noise and delta 0; "zcdp" for Gaussian noise on the tables, which is less.'
    )
    share_total: Share = option(0.01, "Share of the budget for the number of rows.")
    share_columns: Annotated[float, Bounds(0.0, 0.99)] = option(
        0.4, "Share for every attribute alone; 0: none is measured alone."
    )
    share_structure: Share = option(0.15, "Share for the structure; the rest goes to the tables of families.")
    theta: Factor = option(3.0, "A table may be so large that its average count is theta times the scale of its noise.")
    max_candidates: Annotated[int, Bounds(1, 100_000)] = option(
        2000, "Families offered to a choice; beyond it parent sets are held to fewer parents."
    )
    allocation: Literal["weighted", "equal"] = option(
        "weighted", "Divide the budget over tables by the root of their cells, by cells^(2/3) with zcdp; or evenly."
    )
    tables: Literal["agreed", "cut"] = option(
        "agreed", "What becomes of noisy tables: they are made to agree, or each is cut at zero and scaled on its own."
    )

    def check(self, domain: Domain) -> None:
        """Refuse shares that leave nothing, numbers that make no sense, and accounting that cannot pay for choices."""
        alone = {"share_columns": self.share_columns} if self.share_columns else {}
        check_shares(share_total=self.share_total, **alone, share_structure=self.share_structure)
        check_choices(self.accounting)

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = ignore_event) -> BayesNet:
        """Choose a network, measure it, and make distributions of its tables."""
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
        """Return the noisy number of rows and the families of a network; the rest of the budget is for their tables."""
        d = len(curator.domain)
        with report_stage(listener, "count"):
            rows = curator.total(self.share_total)
        rest = curator.left - (self.share_structure if d > 1 else 0.0)
        # In units of a geometric scale, whose standard deviation is the square root of two larger.
        cells = useful_cells(float(rows.table), curator.sigma(rest / d) / math.sqrt(2), self.theta)
        with report_stage(listener, "choose families", d - 1) as work:
            placed = [str(rng.choice(curator.domain.names))]
            families: list[Clique] = [(placed[0],)]
            while len(placed) < d:
                offered = self._offer(curator.domain, placed, cells)
                child, parents = offered[curator.choose_family(offered, self.share_structure / (d - 1))]
                families.append(make_clique([child, *parents]))
                placed.append(child)
                work.advance()
        return rows, families

    def _measure(self, curator: Curator, cliques: list[Clique], share: float) -> list[NoisyMarginal]:
        """Measure tables, evenly or so that their summed error is least."""
        sized = by_size([curator.domain.cells(c) for c in cliques], curator.accounting)
        return curator.measure(cliques, share, None if self.allocation == "equal" else sized)

    def _offer(self, domain: Domain, placed: list[str], cells: float) -> list[tuple[str, Clique]]:
        """Return every attribute not placed yet with each of its maximal useful parent sets."""
        waiting = [name for name in domain if name not in placed]
        limit = max(1, self.max_candidates // len(waiting))
        return [
            (name, parents)
            for name in waiting
            for parents in parent_sets(domain, placed, cells / domain.size(name), limit)
        ]


def check_choices(accounting: AccountingName) -> None:
    """Refuse accounting that cannot pay for the exponential mechanism."""
    rules = find_accounting(accounting)
    if rules.is_exact_gaussian or rules.uses_closed_form:
        raise MethodError('option accounting must be "pure" or "zcdp": choices have no exact Gaussian price.')
