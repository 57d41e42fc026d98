"""DualQuery (Gaboardi, Gallego Arias, Hsu, Roth, Wu; ICML 2014): a game between queries and records; a baseline.

One player keeps a distribution over queries, the cells of marginals and their negations, by multiplicative weights: a
query grows likely where the private rows satisfy it more often than the records made so far. Each round draws queries
of it, which is all that is asked of the private rows, and the other player adds the record that satisfies most of them.
The privacy budget, the step and the draws decide how many records there are: few.

Privacy (`SelectionQueries.draw_cells`). A draw in round t is one of the exponential mechanism, of
2 (t - 1) step / n for n rows; epsilons add up to the paper's step T (T - 1) draws / n. In zCDP, which counts a
choice of epsilon as epsilon^2 / 8, the same draws cost about draws step^2 T^3 / 6 n^2: less than by the paper's
advanced composition.

Where the defaults differ from the paper (`preset="paper"`):
- `ways` 2, published 3.
- `draws` 100, published 1000: fewer draws a round leave more rounds, that is, more records.
- `keep` 0.95, published 1.0: by default a value of a record may be another with a small chance, so that no combination
  is impossible only because there are few records.

With the preset as well:
- Added query, number of rows: the paper takes it as known.
- Neighbours add or remove a row by default. As many rounds are made as the budget
  allows at `step`; what would be left makes the step a little larger.
- The record of a round is searched greedily from many starts, not by a solver of integer programs; on drawn queries
  alone, so that it costs no privacy.
- The workload is all marginals of `ways` attributes. In PrivSyn's comparison, it is the pairs that DenseMarg selects;
  their selection is neither charged nor described there.
- Where the workload is larger than `max_queries` cells, marginals of it are taken at random.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import accumulate
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from weft.bounds import Bounds, Factor, Share
from weft.curator import Curator
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Array, Marginal
from weft.marginals.records import Records
from weft.methods.common.budget_checks import check_noise, check_shares
from weft.methods.common.options import Published, get_published_settings, option
from weft.models import stored_arrays as stored
from weft.models.apportion import apportion_records
from weft.models.conditional import Evidence, ImpossibleEvidenceError, Sampler
from weft.privacy import AccountingName
from weft.progress import Listener, ignore_event, report_stage
from weft_lab.methods.comparison_steps import all_subsets, check_candidates
from weft_lab.methods.privbayes import check_choices
from weft_lab.queries.selection_queries import SelectionQueries

# A record that matches many weighted cells of marginals: a search on public numbers.

SWEEPS = 20
"""Most rounds over all columns; a search ends before, where no column can be changed for the better."""


def best_record(domain: Domain, weights: Sequence[Marginal], starts: int, rng: np.random.Generator) -> Array:
    """Return codes of a record whose cells weigh much in these tables: the best of several greedy searches.

    Each begins anywhere and gives one column after another the code that is best beside the others, until nothing
    changes: a local optimum. To find the very best is NP-hard, and DualQuery's authors leave it to a solver of integer
    programs. All searches go on at once.

    >>> table = Marginal(("a", "b"), np.array([[0, 1], [3, 0]]))
    >>> best_record(Domain(("a", "b"), (2, 2)), [table], 4, np.random.default_rng(0)).tolist()
    [1, 0]
    """
    codes = np.stack([rng.integers(0, size, starts) for size in domain.shape], axis=1)
    around = {name: [table for table in weights if name in table.clique] for name in domain}
    for _ in range(SWEEPS):
        before = codes.copy()
        for i, name in enumerate(domain):
            gains = np.zeros((starts, domain.size(name)))
            for table in around[name]:
                turned = np.moveaxis(table.table, table.clique.index(name), -1)
                gains += turned[tuple(codes[:, domain.index(other)] for other in table.clique if other != name)]
            best = gains.argmax(axis=1)
            at = np.arange(starts)
            better = gains[at, best] > gains[at, codes[:, i]]  # a tie changes nothing, so that the search ends
            codes[:, i] = np.where(better, best, codes[:, i])
        if np.array_equal(codes, before):
            break
    worth = sum(t.table[tuple(codes[:, domain.index(name)] for name in t.clique)] for t in weights)
    return np.asarray(codes[int(np.argmax(worth))])


# Few records, each of which stands for many: a distribution on atoms, spread a little over other values.

MOST_ATOMS = 1 << 20
"""Records that a model file may hold."""


@dataclass(frozen=True)
class AtomsModel:
    """Records that are equally likely, each spread over other values.

    >>> model = AtomsModel(Domain(("a",), (2,)), 100.0, np.array([[0], [0], [1]]), keep=0.8)
    >>> model.marginal(["a"]).round(1).tolist()
    [63.3, 36.7]
    """

    kind: ClassVar[str] = "atoms"
    fixed_records: ClassVar[bool] = False
    relates_columns: ClassVar[bool] = True

    domain: Domain
    total: float
    atoms: Array
    """Codes, one line a record, one column an attribute in the domain's order."""
    keep: float = 1.0
    """The chance of a value to stay as it is."""

    def marginal(self, columns: Sequence[str]) -> Array:
        """Return expected counts, exactly: a sum over records of products over columns."""
        names = make_clique(columns)
        spread = [self._spread(name) for name in names]
        first, rest = (self._beside(spread[: len(names) // 2]), self._beside(spread[len(names) // 2 :]))
        return np.asarray((first.T @ rest).reshape(self.domain.sizes(names)) * (self.total / len(self.atoms)))

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = ignore_event) -> Records:
        """Make n records: each atom as often as any other, to the nearest record."""
        return _Drawn(self, np.ones(len(self.atoms))).sample(n, rng, listener)

    def conditioned(self, evidence: Evidence) -> Sampler:
        """Return what draws exactly under evidence: atoms by how likely they are to give it, then their values."""
        weights = np.ones(len(self.atoms))
        for name, wanted in evidence.items():
            weights *= self._spread(name) @ wanted
        if not weights.any():
            raise ImpossibleEvidenceError("no record is possible under these conditions; relax one of them")
        return _Drawn(self, weights, evidence)

    def _spread(self, name: str) -> Array:
        """Return the distribution of an attribute in each atom."""
        size = self.domain.size(name)
        table = np.full((len(self.atoms), size), (1 - self.keep) / size)
        table[np.arange(len(self.atoms)), self.atoms[:, self.domain.index(name)]] += self.keep
        return table

    def _beside(self, spread: Sequence[Array]) -> Array:
        """Return the distribution of several attributes in each atom, the last varies fastest."""
        start = np.ones((len(self.atoms), 1))
        return reduce(lambda one, other: (one[:, :, None] * other[:, None, :]).reshape(len(one), -1), spread, start)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what a model file keeps."""
        columns = {f"column-{i}": column.astype(np.int64) for i, column in enumerate(self.atoms.T)}
        return {"total": self.total, "keep": self.keep, "atoms": len(self.atoms)}, columns

    @classmethod
    def from_arrays(cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Rebuild the model."""
        many = stored.read_whole_number(meta, "atoms", 1, MOST_ATOMS)
        columns = [stored.read_codes(arrays, f"column-{i}", many, size) for i, size in enumerate(domain.shape)]
        atoms = np.stack(columns, axis=1) if columns else np.zeros((many, 0), np.int64)
        return cls(domain, stored.read_total(meta), atoms, stored.read_number(meta, "keep", 0.0, 1.0))


@dataclass(frozen=True)
class _Drawn:
    """Draws records of atoms with these weights, under evidence."""

    model: AtomsModel
    weights: Array
    evidence: Evidence = field(default_factory=dict)

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = ignore_event) -> Records:
        """Make n records."""
        model = self.model
        chosen = rng.permutation(np.repeat(np.arange(len(model.atoms)), apportion_records(self.weights, n, rng)))
        columns = []
        for i, (name, size) in enumerate(zip(model.domain.names, model.domain.shape, strict=True)):
            wanted = self.evidence.get(name, np.ones(size))
            codes = model.atoms[chosen, i]
            stays = model.keep * wanted[codes]
            moves = (1 - model.keep) * wanted.mean()
            other = rng.choice(size, n, p=wanted / wanted.sum())
            columns.append(np.where(rng.random(n) * (stays + moves) < stays, codes, other))
        return Records.of(model.domain, columns)


@dataclass(frozen=True)
class DualQuery:
    """A few records, each the best answer to queries drawn where the records before it are wrong."""

    completes_seeds: ClassVar[bool] = False
    paper: ClassVar[Published | None] = get_published_settings(
        accounting="zcdp", ways=3, step=2.0, draws=1000, keep=1.0
    )

    accounting: AccountingName = option("zcdp", '"zcdp"; or "pure", with a delta of 0 and fewer records.')
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

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = ignore_event) -> AtomsModel:
        """The number of rows, then a record a round."""
        check_noise(curator, share_total=(self.share_total, 1))
        with report_stage(listener, "count"):
            total = max(float(curator.total(self.share_total).table), 1.0)
        workload = self._workload(curator.domain, rng)
        rounds = self._records(curator, total)
        power = 1 if curator.accounting.is_pure else 2
        whole, left = curator.left, float(sum(t**power for t in range(1, rounds)))
        sums = [Marginal(c, np.zeros(curator.domain.sizes(c))) for c in workload]
        atoms: list[Array] = []
        with report_stage(listener, "make records", rounds) as work:
            for t in range(rounds):
                if t == 0:  # nothing is known yet: all queries are alike
                    drawn = rng.integers(0, 2 * sum(m.cells for m in sums), self.draws)
                else:
                    share = curator.left if t == rounds - 1 else whole * t**power / left
                    wrong = [Marginal(m.clique, total * m.table) for m in sums]
                    drawn = SelectionQueries.of(curator).draw_cells(wrong, t, self.draws, share)
                found = best_record(curator.domain, _netted(drawn, sums), self.starts, rng)
                atoms.append(found)
                for m in sums:
                    m.table[tuple(found[curator.domain.index(name)] for name in m.clique)] += 1
                work.advance()
        return AtomsModel(curator.domain, total, np.stack(atoms), self.keep)

    def _records(self, curator: Curator, total: float) -> int:
        """Return how many rounds the budget pays for at this step: at least two, of which one asks nothing."""
        each = 2 * self.step / total
        if curator.accounting.is_pure:
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
