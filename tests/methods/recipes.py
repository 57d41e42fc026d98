"""What the tests of single recipes share: small tables, and runs of which every question and answer is kept."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from weft.curator import Curator
from weft.engines import MemoryEngine
from weft.marginals.domain import Domain
from weft.marginals.records import Records
from weft.privacy import Adjacency, Budget, Ledger, Noise
from weft.privacy.mechanisms import Mechanisms
from weft.progress import ignore_event

CHAIN = Domain(("a", "b", "c", "d"), (3, 4, 3, 2))
LINKS = {("a", "b"), ("b", "c")}
"""The pairs of `chained` that depend on each other directly."""


def chained(n=6000, seed=0):
    """Return rows in which b follows a, c follows b, and d follows nothing."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, n)
    b = np.where(rng.random(n) < 0.8, a, rng.integers(0, 4, n))
    c = np.where(rng.random(n) < 0.8, b % 3, rng.integers(0, 3, n))
    return Records.of(CHAIN, [a, b, c, rng.integers(0, 2, n)])


def random_rows(seed, n=800):
    """Return rows over four or five small columns, each of which follows some earlier ones a little."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 5, int(rng.integers(4, 6))).tolist()
    columns = [rng.integers(0, sizes[0], n)]
    for size in sizes[1:]:
        followed = columns[int(rng.integers(len(columns)))]
        columns.append(np.where(rng.random(n) < rng.random(), followed % size, rng.integers(0, size, n)))
    return Records.of(Domain(tuple("vwxyz"[: len(sizes)]), tuple(sizes)), columns)


@dataclass
class Answer:
    """A question, and what was answered without noise and with it."""

    charge: Any
    exact: list[Any]
    released: list[Any]


@dataclass
class Run:
    """A fit, and all that passed between the recipe and the rows."""

    model: Any
    ledger: Ledger
    tape: list[Answer]
    measured: list[tuple[str, ...]]
    """Cliques of all tables that were asked for, in order."""
    sigmas: list[float]

    @property
    def trace(self):
        """What was asked, in order: its purpose, and its share of the budget."""
        return [(entry.purpose, entry.cost / self.ledger.capacity) for entry in self.ledger.entries]

    def answers(self, purpose):
        """The questions of one purpose."""
        return [answer for answer in self.tape if answer.charge.purpose == purpose]


class Taped:
    """Mechanisms that are kept on a tape; exact ones add no noise and choose the best."""

    private = False

    def __init__(self, seed, exact):
        self.tape, self._mechanisms = [], None if exact else Mechanisms(Noise.seeded(seed))

    def __call__(self, charge, exact):
        if self._mechanisms is not None:
            released = self._mechanisms(charge, exact)
        elif charge.purpose == "choice":
            released = [np.array(int(np.argmax(exact[0])))]
        else:
            released = [answer.copy() for answer in exact]
        self.tape.append(Answer(charge, [a.copy() for a in exact], [a.copy() for a in released]))
        return released


def run(recipe, records, epsilon=2.0, delta=1e-6, seed=0, exact=False, neighbours="add-remove"):
    """Check and fit a recipe; `exact` leaves out the noise that was paid for."""
    recipe.check(records.domain)
    ledger = Ledger(Budget(epsilon=epsilon, delta=delta), recipe.accounting, Adjacency(neighbours))
    release = Taped(seed, exact)
    curator = Curator(MemoryEngine(records), ledger, release)
    model = recipe.fit(curator, np.random.default_rng(seed), ignore_event)
    asked = curator.measured
    return Run(model, ledger, release.tape, [m.clique for m in asked], [m.sigma for m in asked])


def assert_trace(made, expected):
    """The ledger has these purposes and shares, in this order, and they are the whole budget."""
    assert [purpose for purpose, _ in made.trace] == [purpose for purpose, _ in expected]
    assert [share for _, share in made.trace] == pytest.approx([share for _, share in expected], rel=1e-6)
    assert sum(share for _, share in made.trace) == pytest.approx(1.0, rel=1e-6)


def pairs_of(domain):
    """All pairs, each in order."""
    return list(itertools.combinations(sorted(domain), 2))


def counts(records, names):
    """Count the rows of every cell of a table, one row after another."""
    table = np.zeros(records.domain.sizes(names), np.int64)
    for row in zip(*(records.column(name) for name in names), strict=True):
        table[tuple(map(int, row))] += 1
    return table


def literal_indif(records, a, b):
    """Sum |n_ij - n_i n_j / n| over all cells, as PrivSyn writes it: in counts."""
    both = Counter(zip(records.column(a).tolist(), records.column(b).tolist(), strict=True))
    one, other = Counter(records.column(a).tolist()), Counter(records.column(b).tolist())
    cells = itertools.product(range(records.domain.size(a)), range(records.domain.size(b)))
    return sum(abs(both[i, j] - one[i] * other[j] / len(records)) for i, j in cells)


def assert_weighted_by_size(made, domain, first):
    """Tables measured last have the least summed error for their share: one part is worth as much as any other.

    With Gaussian noise variances then go with cells^(-2/3), with geometric noise with 1 / cells.
    """
    power = 1 if made.ledger.accounting.is_pure else 2 / 3
    asked = list(zip(made.measured, made.sigmas, strict=True))[first:]
    assert len({domain.cells(c) for c, _ in asked}) > 1
    worth = [1 / sigma**2 / domain.cells(c) ** power for c, sigma in asked]
    assert worth == pytest.approx([worth[0]] * len(worth), rel=1e-6)
