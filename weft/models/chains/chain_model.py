"""Dense Markov random field: potentials over arbitrarily overlapping cliques, sampled by Gibbs chains.

No junction tree limits how cliques overlap. Records are sampled exactly from the maximum spanning forest and updated by
Gibbs sweeps, in which nearly identical attributes change together (`redraw_cluster`). A few final sweeps with feedback
(`sweep_herding`) reduce the error of the measured marginals far below sampling error. Several records are sampled for
each that is kept, so that other marginals follow the model more closely too (`Thinning`).

Blocks of records are generated in *strands*. The first block of a strand starts from the forest; each further block
starts from the state of the previous one, so it needs few sweeps, and compensates the excess of the previous blocks in
each cell, weighted by the precision of the table, so that errors of blocks do not add up. Each strand has its own seed
and the number of strands depends on the number of records only, so a seed gives the same records for any number of
threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from weft.marginals.counting import count_marginals
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Array
from weft.marginals.records import Records
from weft.models import stored_arrays as stored
from weft.models.chains.chain_kernels import draw_from_forest, redraw_cluster, sweep_gibbs, sweep_herding
from weft.models.chains.chain_layout import Forest, TableLayout, Widened, find_spanning_forest, flatten_tables
from weft.models.chains.thinning import Thinning
from weft.models.conditional import Evidence, Sampler, compute_log_weights
from weft.models.mrf.inference import CalibratedTree, calibrate_tree, sample_from_tree
from weft.models.mrf.junction_tree import junction_tree
from weft.progress import Listener, ignore_event, report_stage

BLOCK = 16_384  # number of records in a block, which fits the cache during sweeps and is herded as a whole
STRAND = 8  # maximum number of blocks in a strand; a record is correlated with the same record of the next block
MIXED = 4  # divisor of the number of sweeps for a block that continues another one, which has already mixed
TIED = 0.5  # share of entropy in common with the parent in the forest above which attributes are resampled together
LOOKS = 200  # maximum number of tables per record, on average, that a cluster proposal may read
MAX_SWEEPS = 10_000  # maximum number of sweeps that a model file may contain
FEEDBACK = 0.2  # default decrease of a cell's logit per excess record, for a table with negligible noise
HALF_FEEDBACK_NOISE = 4.0  # noise, as standard deviation in records of a block, that halves the feedback

MIN_FEEDBACK = 1e-3  # minimum feedback; below it, the excess of a cell would be lost to rounding of its logits
MAX_DRAWN_PER_RECORD = 100  # maximum number of sampled records per kept record that a model file may contain
ANSWERS = 1 << 16  # number of sampled records from which marginals are estimated


class Chains:
    """Gibbs sampler that updates blocks of records by the conditional distributions of a set of potentials."""

    def __init__(self, layout: TableLayout, tree: Forest, potentials: Array, threads: int | None = None) -> None:
        self.layout, self.forest = layout, tree
        self.wide = Widened(layout)
        self.potentials = potentials
        self.threads = threads or os.cpu_count() or 1
        touched = [set(members) for members in self.wide.layout.members]
        self.clusters = [
            (cluster, np.array([c for c, members in enumerate(touched) if members & set(cluster.tolist())], np.int64))
            for cluster in (*tree.clusters(TIED), *tree.clusters(-1.0))
        ]

    @property
    def potentials(self) -> Array:
        """Logarithm of the factor of each cell."""
        return self._potentials

    @potentials.setter
    def potentials(self, cells: Array) -> None:
        self._potentials = cells
        wide = self.wide.add_up(cells)
        self._cells = wide.astype(np.float32)
        self._rows = self.wide.layout.rows(wide)
        self._all_rows: Array | None = None

    def start(self, records: Array, seed: np.uint64) -> None:
        """Sample a block from the forest."""
        f = self.forest
        draw_from_forest(records, f.order, f.parent, self.layout.sizes, f.start, f.cumulative, seed)

    def sweep(self, records: Array, seed: np.uint64, free: Array | None = None) -> None:
        """Resample every free attribute of a block once, and every cluster of free attributes."""
        free = np.ones(len(self.layout.domain), np.bool_) if free is None else free
        seeds = np.random.default_rng(int(seed)).integers(0, 1 << 63, 1 + len(self.clusters), dtype=np.uint64)
        sweep_gibbs(records, free, self.layout.widths, *self.wide.layout.sweep, self._rows, seeds[0])
        f = self.forest
        for (cluster, cliques), cluster_seed in zip(self.clusters, seeds[1:], strict=True):
            if not free[cluster].all():
                continue
            # Reading very many tables twice per record would cost more than the sweep: use a part of the records.
            offered = records
            if cliques.size > LOOKS:
                part = max(len(records) * LOOKS // cliques.size, 1)
                at = int(cluster_seed) % (len(records) - part + 1)
                offered = records[at : at + part]
            redraw_cluster(
                offered, cluster, f.parent, self.layout.sizes, f.start, f.cumulative, f.log_given, cliques,
                *self.wide.layout.places, self.wide.layout.cell_start, self._cells, cluster_seed,
            )  # fmt: skip

    def herd(self, records: Array, targets: Array, feedback: Array, sweeps: int, seed: np.uint64, owed: Array) -> Array:
        """Sweep a block with feedback (one strength per table) towards `targets`, the probability of every cell.

        `owed` is the excess of earlier blocks in each cell. Returns it after this block (unused for impossible cells).
        """
        each = feedback[[c for _, c in self.layout.entries]].astype(np.float32)
        gap = np.append(self.count(records, threads=1) - targets * len(records) + owed, 0.0).astype(np.float32)
        if self._all_rows is None:
            self._all_rows = self.layout.rows(self._potentials)
        for herd_seed in np.random.default_rng(int(seed)).integers(0, 1 << 63, sweeps, dtype=np.uint64):
            sweep_herding(
                records, self.layout.widths, *self.layout.sweep, self._all_rows, self.layout.cells, gap,
                each, herd_seed,
            )  # fmt: skip
        return gap[:-1]

    def count(self, records: Array, threads: int | None = None) -> Array:
        """Return the concatenated marginals of the records over all cliques."""
        made = to_records(self.layout.domain, records)
        return flatten_tables(count_marginals(made, self.layout.cliques, threads or self.threads))

    def each_block(
        self, records: Array, task: Callable[[Array, np.uint64], None], rng: np.random.Generator, block: int = BLOCK
    ) -> Iterable[None]:
        """Run a task on every block of records, each with its own seed, on all threads."""
        starts = range(0, len(records), block)
        seeds = rng.integers(0, 1 << 63, len(starts), dtype=np.uint64)
        with ThreadPoolExecutor(self.threads) as pool:
            work = [pool.submit(task, records[at : at + block], seed) for at, seed in zip(starts, seeds, strict=True)]
            for done in work:
                yield done.result()


def strands_of(n: int) -> int:
    """Return the number of strands for n records; for many records a multiple of four, to use all cores.

    >>> [strands_of(n) for n in (100, 10_000, 50_000, 300_000, 1_000_000)]
    [1, 2, 4, 4, 8]
    """
    if n <= 4096:
        return 1
    return min(4 * max(-(-n // (4 * STRAND * BLOCK)), 1), max(-(-n // BLOCK), 2))


def to_records(domain: Domain, rows: Array) -> Records:
    """Return row-major codes as records."""
    return Records.of(domain, list(rows.T))


@dataclass(frozen=True)
class ChainsModel:
    """Potentials and targets over cliques; samples records by restarting chains from the forest of the targets."""

    kind: ClassVar[str] = "chains"
    fixed_records: ClassVar[bool] = False
    relates_columns: ClassVar[bool] = True

    domain: Domain
    total: float
    cliques: tuple[Clique, ...]
    potentials: tuple[Array, ...]
    """Logarithm of the factor of each clique; -inf: impossible."""
    targets: tuple[Array, ...]
    """Target probabilities of each clique; they determine the forest and are matched by herding."""
    sweeps: int = 12
    """Number of Gibbs sweeps from the forest to a record."""
    herding: int = 2
    """Number of final sweeps with feedback; 0: independent records."""
    feedback: float = FEEDBACK
    """Decrease of a cell's logit per excess record, for tables with negligible noise."""
    noise: tuple[float, ...] = ()
    """Standard deviation of the noise per cell of each table, as a probability; empty: all tables are exact."""
    distance: float = 0.0
    """Mean total variation distance from the targets, of the chains on which the potentials were estimated."""
    restarted: float = 0.0
    """The same for chains restarted with `sweeps` sweeps; a value well above `distance` means they have not mixed."""
    drawn: int = 1
    """Number of records sampled for each that is kept, if thinning applies (`Thinning.worth`)."""

    @cached_property
    def _chains(self) -> Chains:
        layout = TableLayout(self.domain, self.cliques)
        return Chains(
            layout, find_spanning_forest(self.domain, self.cliques, self.targets), flatten_tables(self.potentials)
        )

    def feedbacks(self, n: int) -> Array:
        """Return the feedback strength of each table for herding n records together.

        Where the standard error of a table is large compared with a gap, feedback would reproduce its noise.
        """
        return np.maximum(self.feedback * self.trust(n), MIN_FEEDBACK)

    def trust(self, n: int) -> Array:
        """Return the weight of each table for herding n records: 1 without noise, inverse variance for large noise."""
        noise = n * np.asarray(self.noise or [0.0] * len(self.cliques))
        return np.asarray(1 / (1 + (noise / HALF_FEEDBACK_NOISE) ** 2))

    @cached_property
    def _answers(self) -> Records:
        return to_records(self.domain, self._weave(ANSWERS, np.random.default_rng(0)))

    def marginal(self, columns: Sequence[str]) -> Array:
        """Return expected counts over the clique of these attributes, estimated from a fixed set of records."""
        return self.answered(columns)[0]

    def answered(self, columns: Sequence[str]) -> tuple[Array, int]:
        """Return `marginal` and the number of records counted."""
        (table,) = count_marginals(self._answers, [make_clique(columns)])
        return table * (self.total / len(self._answers)), len(self._answers)

    def sample(
        self,
        n: int,
        rng: np.random.Generator,
        listener: Listener = ignore_event,
        given: Mapping[str, int] | None = None,
    ) -> Records:
        """Sample n records; `given` fixes some attributes at a code, and the others are sampled conditionally."""
        thinning = Thinning(self.domain)
        # A large release may be sampled in small parts, so the total counts as well as n.
        if self.drawn == 1 or not self.herding or given or not thinning.worth(max(n, round(self.total))):
            return to_records(self.domain, self._weave(n, rng, listener, given))
        rows = self._weave(n * self.drawn, rng, listener, chosen=True)
        with report_stage(listener, "choose records"):
            return to_records(self.domain, thinning.kept(rows, self.drawn, rng))

    def _weave(
        self,
        n: int,
        rng: np.random.Generator,
        listener: Listener = ignore_event,
        given: Mapping[str, int] | None = None,
        *,
        chosen: bool = False,
    ) -> Array:
        """Sample n rows in strands, herded unless attributes are fixed; blocks of rows to be `chosen` may correlate."""
        chains = self._chains
        free = np.ones(len(self.domain), np.bool_)
        rows = np.zeros((n, len(self.domain)), np.int32)
        held = {self.domain.index(name): code for name, code in (given or {}).items()}
        free[list(held)] = False
        aim = flatten_tables(self.targets)

        def weave(strand: Array, seed: np.uint64) -> None:
            block = -(-len(strand) // max(round(len(strand) / BLOCK), 1))
            owed = np.zeros(len(aim), np.float32)
            for at in range(0, len(strand), block):
                records = strand[at : at + block]
                sweeps = self.sweeps if at == 0 else 0 if chosen else -(-self.sweeps // MIXED)
                seeds = np.random.default_rng([int(seed), at]).integers(0, 1 << 63, sweeps + 2, dtype=np.uint64)
                if at == 0:
                    chains.start(records, seeds[0])
                    for j, code in held.items():
                        records[:, j] = code
                else:
                    records[:] = strand[at - block : at - block + len(records)]
                for sweep_seed in seeds[2:]:
                    chains.sweep(records, sweep_seed, free)
                if self.herding and not held:
                    strength = self.feedbacks(len(records))
                    for table, trust in zip(chains.layout.tables(owed), self.trust(len(records)), strict=True):
                        table *= trust  # in place: a view of `owed`
                    owed = chains.herd(records, aim, strength, self.herding, seeds[1], owed)

        strands = strands_of(n)
        with report_stage(listener, "weave", strands if n else 0) as work:
            for _ in chains.each_block(rows, weave, rng, max(-(-n // strands), 1)):
                work.advance()
        return rows

    def conditioned(self, evidence: Evidence) -> Sampler:
        """Return a sampler whose chains satisfy the evidence."""
        return clamp_chains(self, self._chains, evidence)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return cliques, settings, potentials, targets and noise."""
        meta = {
            "total": self.total,
            "cliques": [list(c) for c in self.cliques],
            "sweeps": self.sweeps,
            "herding": self.herding,
            "feedback": self.feedback,
            "distance": self.distance,
            "restarted": self.restarted,
            "drawn": self.drawn,
        }
        tables = {"potentials": flatten_tables(self.potentials), "targets": flatten_tables(self.targets)}
        return meta, tables | {"noise": np.asarray(self.noise or [0.0] * len(self.cliques), np.float64)}

    @classmethod
    def from_arrays(cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Rebuild the model."""
        cliques = stored.read_cliques(meta, "cliques", domain)
        shapes = [domain.sizes(c) for c in cliques]
        return cls(
            domain,
            stored.read_total(meta),
            tuple(cliques),
            tuple(stored.end_to_end(arrays, "potentials", shapes, -np.inf, stored.STEEPEST)),
            tuple(stored.end_to_end(arrays, "targets", shapes, 0.0)),
            stored.read_whole_number(meta, "sweeps", 0, MAX_SWEEPS),
            stored.read_whole_number(meta, "herding", 0, MAX_SWEEPS),
            stored.read_number(meta, "feedback", MIN_FEEDBACK, 1000.0),
            tuple(stored.read_array(arrays, "noise", (len(cliques),), 0.0).tolist()),
            stored.read_number(meta, "distance", 0.0),
            stored.read_number(meta, "restarted", 0.0),
            stored.read_whole_number(meta, "drawn", 1, MAX_DRAWN_PER_RECORD) if "drawn" in meta else 1,
        )


@dataclass(frozen=True)
class ClampedChains:
    """Chains under evidence: they start from an exact sample of the forest under it and always satisfy it."""

    chains: Chains
    start: CalibratedTree
    sweeps: int

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = ignore_event) -> Records:
        """Sample n records."""
        drawn = sample_from_tree(self.start, n, rng)
        rows = np.ascontiguousarray(np.stack([column.astype(np.int32) for column in drawn.columns], axis=1))

        def weave(records: Array, seed: np.uint64) -> None:
            for sweep in np.random.default_rng(int(seed)).integers(0, 1 << 63, self.sweeps, dtype=np.uint64):
                self.chains.sweep(records, sweep)

        with report_stage(listener, "weave", -(-n // BLOCK)) as work:
            for _ in self.chains.each_block(rows, weave, rng):
                work.advance()
        return to_records(self.chains.layout.domain, rows)


def clamp_chains(model: ChainsModel, chains: Chains, evidence: Evidence) -> ClampedChains:
    """Return a model's chains under evidence; raise ImpossibleEvidenceError if its forest has no matching record."""
    start = _make_start_forest(model.domain, chains.forest, evidence)
    logs = [compute_log_weights(weights) for weights in evidence.values()]
    layout = TableLayout(model.domain, (*model.cliques, *((name,) for name in evidence)))
    return ClampedChains(Chains(layout, chains.forest, flatten_tables([*model.potentials, *logs])), start, model.sweeps)


def _make_start_forest(domain: Domain, tree: Forest, evidence: Evidence) -> CalibratedTree:
    """Return the distribution of the forest under evidence."""
    potentials: dict[Clique, Array] = {(name,): compute_log_weights(weights) for name, weights in evidence.items()}
    for j, name in enumerate(domain):
        size, above = domain.size(name), int(tree.parent[j])
        rows = 1 if above < 0 else domain.size(domain.names[above])
        given = tree.log_given[tree.start[j] : tree.start[j] + rows * size].reshape(rows, size)
        if above < 0:
            potentials[(name,)] = potentials.get((name,), 0.0) + given[0]
        else:
            edge = make_clique((domain.names[above], name))
            potentials[edge] = given if edge[1] == name else given.T
    most = max([domain.cells(c) for c in potentials])
    return calibrate_tree(junction_tree(domain, potentials, max_cells=most, max_total=1 << 28), potentials, 1.0)
