"""Estimate the potentials of Gibbs chains from probability tables by moment matching on persistent chains.

Each round sweeps the chains once, counts every clique on their records, and changes the potential of a cell by the
logarithm of target over current probability, smoothed by the noise of the target. One such step is iterative
proportional fitting. Tables that share attributes push in the same direction, so the step is divided by the crowding of
the clique. It is halved whenever the distance to the targets grows well above its minimum, which keeps hundreds of
overlapping tables from diverging. The result is the average over the last half of the rounds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array, Marginal
from weft.marginals.records import Records
from weft.models.chains.chain_layout import Forest, TableLayout, find_spanning_forest, flatten_tables
from weft.models.chains.chain_model import BLOCK, FEEDBACK, Chains, ChainsModel, to_records
from weft.progress import Listener, Stage, ignore_event, report_stage

_MIN_POTENTIAL = -25.0  # minimum potential during matching; below it a cell is empty in any sample
_TOLERATED = 1.15  # ratio of the distance to its minimum that is still attributed to sampling error


@dataclass
class GibbsChains:
    """Persistent Gibbs chains and the potentials estimated so far."""

    domain: Domain
    size: int
    """Number of chains."""
    rng: np.random.Generator
    threads: int | None = None

    def __post_init__(self) -> None:
        self.rows = np.zeros((self.size, len(self.domain)), np.int32)
        self.known: dict[Clique, Array] = {}

    @property
    def records(self) -> Records:
        """Current records of the chains."""
        return to_records(self.domain, self.rows)

    def set_targets(self, tables: Sequence[Marginal], sigmas: Sequence[float]) -> None:
        """Set new targets (counts of equal total) and their noise; keep the potentials estimated so far."""
        total = float(tables[0].table.sum())
        cliques = tuple(table.clique for table in tables)
        targets = [table.table / total for table in tables]
        self.layout = TableLayout(self.domain, cliques)
        self.targets = flatten_tables(targets)
        self.noise = np.repeat(np.asarray(sigmas) / total, np.diff(self.layout.cell_start))
        grown = find_spanning_forest(self.domain, cliques, targets)
        if all(len(c) == 1 for c in self.known):  # only one-way tables so far: start from the forest
            self.known = _forest_potentials(grown, cliques, targets)
        start = [
            np.where(False if m.empty is None else m.empty, -np.inf, self.known.get(m.clique, np.zeros(m.table.shape)))
            for m in tables
        ]
        self.chains = Chains(self.layout, grown, flatten_tables(start), self.threads)
        self.total = total
        self.restart()

    def restart(self) -> None:
        """Draw new records from the forest."""
        self._each(self.chains.start)

    def sweep(self) -> None:
        """Resample every attribute of every record once."""
        self._each(self.chains.sweep)

    def _each(self, task: Callable[[Array, np.uint64], None]) -> None:
        for _ in self.chains.each_block(self.rows, task, self.rng, min(BLOCK // 8, max(self.size // 8, 1))):
            pass

    def distance(self) -> float:
        """Return the mean total variation distance between the marginals of the records and the targets."""
        return self._distance(self.chains.count(self.rows) / self.size)

    def _distance(self, now: Array) -> float:
        each = np.add.reduceat(np.abs(now - self.targets), self.layout.cell_start[:-1])
        return float(each.mean()) / 2

    def match(self, rounds: int, rate: float, decay: float = 20.0, listener: Listener = ignore_event) -> list[float]:
        """Fit the potentials to the targets and return the distance in each round."""
        with report_stage(listener, "adjust the model", rounds) as work:
            return self._match(rounds, rate, decay, work)

    def _match(self, rounds: int, rate: float, decay: float, work: Stage) -> list[float]:
        step = rate / self.layout.crowding.repeat(np.diff(self.layout.cell_start))
        soft = self.noise + 1 / self.size
        scale, best, seen = 1.0, np.inf, []
        mean, averaged = np.zeros_like(self.targets), 0
        for t in range(rounds):
            self.sweep()
            now = self.chains.count(self.rows) / self.size
            seen.append(self._distance(now))
            work.advance(note=f"distance {seen[-1]:.4f} from the noisy marginals")
            if seen[-1] > _TOLERATED * best:
                scale, best = 0.5 * scale, seen[-1]
            best = min(best, seen[-1])
            move = step * scale / (1 + t / decay) * np.log((self.targets + soft) / (now + soft))
            moved = self.chains.potentials + np.clip(move, -1, 1)
            self.chains.potentials = np.maximum(moved, np.minimum(_MIN_POTENTIAL, self.chains.potentials))
            if t >= rounds // 2:
                mean += self.chains.potentials
                averaged += 1
        if averaged:
            self.chains.potentials = mean / averaged
        self.known = dict(zip(self.layout.cliques, self.layout.tables(self.chains.potentials), strict=True))
        return seen

    def model(self, sweeps: int = 4, herding: int = 2, feedback: float | None = None, drawn: int = 1) -> ChainsModel:
        """Return the fitted model, with the distance of its chains from the targets before and after a restart."""
        distance = self.distance()
        self.restart()
        for _ in range(sweeps):
            self.sweep()
        return ChainsModel(
            self.domain,
            self.total,
            self.layout.cliques,
            tuple(self.layout.tables(self.chains.potentials)),
            tuple(self.layout.tables(self.targets)),
            sweeps,
            herding,
            FEEDBACK if feedback is None else feedback,
            tuple(self.noise[self.layout.cell_start[:-1]].tolist()),
            distance,
            self.distance(),
            drawn,
        )


def _forest_potentials(grown: Forest, cliques: Sequence[Clique], targets: Sequence[Array]) -> dict[Clique, Array]:
    """Return the potentials for which the model equals its forest, as far as the tables contain the forest's pairs."""
    ones = {c[0]: t for c, t in zip(cliques, targets, strict=True) if len(c) == 1}
    found: dict[Clique, Array] = {}
    for c, t in zip(cliques, targets, strict=True):
        if len(c) == 1:
            found[c] = np.maximum(np.log(np.maximum(t, 1e-9)), _MIN_POTENTIAL)
        elif c in grown.edges and all(name in ones for name in c):
            product = np.outer(ones[c[0]], ones[c[1]])
            found[c] = np.log((t + 1e-9) / (product + 1e-9))
    return found
