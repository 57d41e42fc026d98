"""DualQuery (Gaboardi, Gallego Arias, Hsu, Roth, Wu; ICML 2014): a game between queries and records; a baseline.

One player keeps a distribution over queries, the cells of marginals and their negations, by multiplicative weights: a
query grows likely where the private rows satisfy it more often than the records made so far. Each round draws queries
of it, which is all that is asked of the private rows, and the other player adds the record that satisfies most of them.
The privacy budget, the step and the draws decide how many records there are: few.

Privacy (`Curator.draw_cells`). A draw in round t is one of the exponential mechanism, of 2 (t - 1) step / n for n rows;
epsilons add up to the paper's step T (T - 1) draws / n. In zCDP, which counts a choice of epsilon as epsilon^2 / 8,
the same draws cost about draws step^2 T^3 / 6 n^2: less than the paper's advanced composition of them.

Where the defaults differ from the paper (`preset="paper"`):
- `ways` 2, published 3.
- `draws` 100, published 1000: fewer draws a round leave more rounds, that is, more records.
- `keep` 0.95, published 1.0: by default a value of a record may be another with a small chance, so that no combination
  is impossible only because there are few records.

With the preset, too:
- The number of rows is paid for; neighbours add or remove a row by default. As many rounds are made as the budget
  allows at `step`; what would be left makes the step a little larger.
- The record of a round is searched greedily from many starts, not by a solver of integer programs; on drawn queries
  alone, so that it costs no privacy.
- Where the workload is larger than `max_queries` cells, marginals of it are taken at random.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated, ClassVar

import numpy as np

from weft.bounds import Bounds, Factor, Share
from weft.curator import Curator
from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array, Marginal
from weft.methods.privbayes import check_choices
from weft.methods.steps.columns import check_candidates, check_noise, check_shares
from weft.methods.steps.options import option
from weft.methods.steps.presets import Published, published
from weft.methods.steps.record_search import best_record
from weft.models.atoms import AtomsModel
from weft.privacy import Accounting
from weft.progress import Listener, silence, stage
from weft.select import all_subsets


@dataclass(frozen=True)
class DualQuery:
    """A few records, each the best answer to queries drawn where the records before it are wrong."""

    completes_seeds: ClassVar[bool] = False
    paper: ClassVar[Published | None] = published(accounting="zcdp", ways=3, step=2.0, draws=1000, keep=1.0)

    accounting: Accounting = option("zcdp", '"zcdp"; or "pure", with a delta of 0 and fewer records.')
    ways: Annotated[int, Bounds(1, 6)] = option(2, "The workload: all cells of marginals of this many columns.")
    step: Factor = option(2.0, "Step of the multiplicative weights.")
    draws: Annotated[int, Bounds(1, 100_000)] = option(100, "Queries drawn in each round.")
    share_total: Share = option(0.01, "Share of the budget for the number of rows.")
    keep: Annotated[float, Bounds(0.0, 1.0)] = option(
        0.95, "The chance of a value of a record to stay as it is; else it is drawn evenly."
    )
    max_records: Annotated[int, Bounds(2, 10_000)] = option(300, "Most rounds, and so records.")
    max_queries: Annotated[int, Bounds(1, 1 << 22)] = option(1 << 15, "Most cells of the workload.")
    starts: Annotated[int, Bounds(1, 10_000)] = option(50, "Greedy searches for the record of a round.")

    def check(self, domain: Domain) -> None:
        """Refuse shares that leave nothing, accounting that cannot pay for choices, and workloads without end."""
        check_shares(share_total=self.share_total)
        check_choices(self.accounting)
        check_candidates(domain, self.ways)

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = silence) -> AtomsModel:
        """The number of rows, then a record a round."""
        check_noise(curator, share_total=(self.share_total, 1))
        with stage(listener, "count"):
            total = max(float(curator.total(self.share_total).table), 1.0)
        workload = self._workload(curator.domain, rng)
        rounds = self._records(curator, total)
        power = 1 if curator.accounting == "pure" else 2
        whole, left = curator.left, float(sum(t**power for t in range(1, rounds)))
        sums = [Marginal(c, np.zeros(curator.domain.sizes(c))) for c in workload]
        atoms: list[Array] = []
        with stage(listener, "make records", rounds) as work:
            for t in range(rounds):
                if t == 0:  # nothing is known yet: all queries are alike
                    drawn = rng.integers(0, 2 * sum(m.cells for m in sums), self.draws)
                else:
                    share = curator.left if t == rounds - 1 else whole * t**power / left
                    wrong = [Marginal(m.clique, total * m.table) for m in sums]
                    drawn = curator.draw_cells(wrong, t, self.draws, share)
                found = best_record(curator.domain, _netted(drawn, sums), self.starts, rng)
                atoms.append(found)
                for m in sums:
                    m.table[tuple(found[curator.domain.index(name)] for name in m.clique)] += 1
                work.advance()
        return AtomsModel(curator.domain, total, np.stack(atoms), self.keep)

    def _records(self, curator: Curator, total: float) -> int:
        """Return how many rounds the budget pays for at this step: at least two, of which one asks nothing."""
        each = 2 * self.step / total
        if curator.accounting == "pure":
            paid = 2 * math.sqrt(curator.rho(curator.left)) / (self.draws * each)
            costs = accumulate(range(1, self.max_records))
        else:
            paid = 8 * curator.rho(curator.left) / (self.draws * each**2)
            costs = accumulate(t * t for t in range(1, self.max_records))
        return max(2, 1 + sum(cost <= paid for cost in costs))

    def _workload(self, domain: Domain, rng: np.random.Generator) -> list[Clique]:
        """Return the marginals whose cells are asked about; a column in none of them stands for itself."""
        ways = min(self.ways, len(domain))
        found = [c for c in all_subsets(domain, ways, self.max_queries) if len(c) == ways]
        order = [found[i] for i in rng.permutation(len(found))]
        ends = accumulate(domain.cells(c) for c in order)
        taken = sorted(c for c, end in zip(order, ends, strict=True) if end <= self.max_queries)
        held = {name for c in taken for name in c}
        return [*taken, *((name,) for name in domain if name not in held)]


def _netted(drawn: Array, tables: list[Marginal]) -> list[Marginal]:
    """Return how often each cell was drawn, less how often its negation was."""
    cells = sum(m.cells for m in tables)
    often = np.bincount(drawn, minlength=2 * cells)
    net = often[:cells] - often[cells:]
    parts = np.split(net, np.cumsum([m.cells for m in tables])[:-1])
    return [Marginal(m.clique, part.reshape(m.table.shape)) for m, part in zip(tables, parts, strict=True)]
