"""The only door to private rows: every question one may ask of them, each with its sensitivity and its proof.

A question is charged to the ledger first, then asked, and leaves with integer noise on it. Whoever holds a
curator can learn nothing of the rows but what the ledger shows. Neighbouring tables differ in one privacy unit,
added, removed or replaced (`Adjacency`); by parallel reading of the text below, "a row" means the at most
`rows_per_unit` rows of a unit, and every sensitivity comes from `weft.privacy.sensitivity`, where it is scaled.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from weft.counting import MAX_CELLS
from weft.domain import Clique, Domain, clique
from weft.engines import Engine, StreamEngine
from weft.errors import MethodError
from weft.marginal import Array, Marginal, Measured, NoisyMarginal, interaction
from weft.privacy import Accounting, Adjacency, Charge, Ledger
from weft.privacy.mechanisms import Release
from weft.privacy.selection import grid
from weft.seeds import SeedQuestions
from weft.words import counted

CELLS_PER_PASS = 1 << 25
"""Cells counted in one pass over the rows; longer lists of cliques are split, so that memory stays bounded."""

WEIGHT_STEPS = 1 << 16
"""Fineness of the integer grid on which `choose` weighs its candidates."""

LARGEST_TABLE = 1 << 44
"""Sum of absolute cells, or penalty, past which a given table is refused: sums of such numbers, times WEIGHT_STEPS,
stay far inside 64-bit integers."""

ENTROPY_STEPS = 1000
"""Steps in which the sensitivity of an entropy is cut, for the integer grid on which entropies are released."""


class Curator(SeedQuestions):
    """Answers questions about private rows, for a price.

    Prices are given as a `share` of the whole budget. What a share buys depends on the accounting: with
    "gaussian", "zcdp" and "paper" it is that share of rho and the noise is rounded Gaussian; with "pure" it is that
    share of epsilon and the noise is two-sided geometric.
    """

    def __init__(self, engine: Engine, ledger: Ledger, release: Release) -> None:
        self._engine = engine
        self._ledger = ledger
        self._release = release
        self._measured: list[Measured] = []
        self._part = ""

    @property
    def domain(self) -> Domain:
        """Attributes and sizes: public."""
        return self._engine.domain

    @property
    def accounting(self) -> Accounting:
        """How the budget is counted."""
        return self._ledger.accounting

    @property
    def left(self) -> float:
        """Share of the budget not spent yet on these rows."""
        return self.left_with(0.0)

    def slack(self, part: float) -> float:
        """Return the total-variation distance that a part of the budget's delta pays for."""
        return part * self._ledger.budget.delta / (1 + math.exp(self._ledger.budget.epsilon or math.inf))

    def left_with(self, slack: float) -> float:
        """Return the share of the budget, as it is now, that would be left after paying for this slack."""
        return self._ledger.left_with(slack, self._part) / self._ledger.capacity

    @property
    def measured(self) -> tuple[Measured, ...]:
        """Every marginal measured so far, also under a recoding: public, as the questions are."""
        return tuple(self._measured)

    def rho(self, share: float = 1.0) -> float:
        """Return the zCDP parameter of a share: a table measured with it has noise variance sensitivity^2 / (2 rho).

        Under "pure" accounting this is the rho of a Gaussian of the same variance as the geometric noise.
        """
        cost = share * self._ledger.capacity
        return cost**2 / 4 if self.accounting == "pure" else cost

    def sigma(self, share: float) -> float:
        """Return the noise standard deviation of a cell of one marginal measured with this share."""
        return self._noise(share)[1]

    def measure(
        self, cliques: Sequence[Clique], share: float, weights: Sequence[float] | None = None
    ) -> list[NoisyMarginal]:
        """Release the marginals of these cliques with noise; `weights` divide the share among them (default: evenly).

        Theorem. Each row adds one to exactly one cell of each marginal, so a row more or less moves one cell by
        one (`marginal_l2`, `marginal_l1`: sensitivity 1), and a replaced row two cells (sqrt 2, and 2). Gaussian
        noise of deviation sigma_i on marginal i is therefore sensitivity/sigma_i-GDP, and the marginals compose:
        the rho_i = sensitivity^2 / (2 sigma_i^2) add up to the share. Geometric noise of scale
        sensitivity/epsilon_i is epsilon_i-DP, and the epsilon_i add up.
        """
        if not cliques:
            return []
        self._check(cliques)
        parts = _normalised(weights, len(cliques))
        noise = [self._noise(share * part) for part in parts]
        charge = self._charge(
            f"marginals: {_describe(cliques)}",
            self._marginal_sensitivity(),
            [scale for scale, _ in noise],
            draws=sum(self.domain.cells(c) for c in cliques),
        )
        released = self._release(charge, self._count(cliques))
        noisy = [NoisyMarginal(c, table, sigma) for c, table, (_, sigma) in zip(cliques, released, noise, strict=True)]
        self._measured += [marginal.measured for marginal in noisy]
        return noisy

    def interactions(
        self, cliques: Sequence[Clique], order: int, share: float, weights: Sequence[float] | None = None
    ) -> list[NoisyMarginal]:
        """Release of each marginal only what those of fewer than `order` attributes do not tell, with Gaussian noise.

        Where smaller marginals are known, asking for them again is a waste: in a pair of binary attributes, of three
        fourths of the budget. The noise is that of a whole table, of deviation sigma a cell, from which what the
        answer cannot contain has been taken away. `weights` as in `measure`.

        Theorem. `interaction` is an integer function of the rows' marginal, and a unit moves it by at most s_i =
        `interaction_l2` in L2 norm. Gaussian noise of deviation t_i is therefore s_i/t_i-GDP, and the rho_i = s_i^2 /
        (2 t_i^2) add up to the share. What is done to the released table afterwards costs nothing.
        """
        if self.accounting == "pure":
            raise ValueError("interactions are measured with Gaussian noise: pure accounting cannot pay for them")
        if not cliques:
            return []
        self._check(cliques)
        sensitivity = [self._adjacency.interaction_l2(self.domain.sizes(c), order) for c in cliques]
        if order < 1 or not min(sensitivity) > 0:
            raise ValueError(f"cliques of fewer than {order} attributes with codes to choose from do not interact")
        parts = _normalised(weights, len(cliques))
        scales = [self._noise(share * part, s)[0] for part, s in zip(parts, sensitivity, strict=True)]
        cells = [self.domain.cells(c) for c in cliques]
        question = f"interactions (times cells): {_describe(cliques)}"
        charge = self._charge(question, sensitivity, scales, draws=sum(cells))
        released = self._release(charge, [interaction(table, order) for table in self._count(cliques)])
        noisy = [
            NoisyMarginal(c, interaction(table / size, order) / size, scale / size, order)
            for c, table, scale, size in zip(cliques, released, scales, cells, strict=True)
        ]
        self._measured += [marginal.measured for marginal in noisy]
        return noisy

    def total(self, share: float) -> NoisyMarginal:
        """Release the number of rows with noise: the marginal of the empty clique.

        Theorem. A row more or less moves it by one; a replaced row not at all, for which we pay the same.
        """
        scale, sigma = self._noise(share, self._adjacency.total())
        charge = self._charge("number of rows", self._adjacency.total(), [scale], draws=1)
        (released,) = self._release(charge, self._count([()]))
        return NoisyMarginal((), released, sigma)

    def dependence(
        self, share: float, *, score: str = "indif", pairs: Sequence[Clique] | None = None
    ) -> dict[Clique, float]:
        """Release how far each pair of attributes is from independence, in counts; default: every pair.

        InDif (PrivSyn section 4.1) is sum |n_ij - n_i n_j / n|; the R-score (PrivMRF) is half of it. Both are
        computed in integers, as floor(sum |n n_ij - n_i n_j| / n) and floor(sum |...| / 2n), and are 0 for an empty
        table.

        Theorem. A row more or less moves InDif by less than 4 and R by less than 2; the floors move by at most 4
        and 2 (`indif`, `r_score`). A vector of m scores has L2 sensitivity sqrt(m) times that, L1 sensitivity m
        times that, and is released once by the Gaussian (geometric) mechanism.

        The paper's text scales the noise wrongly in one place (N(0, m^2 rho^2)); its Theorem 5 is right and used.
        """
        if score not in ("indif", "r"):
            raise ValueError(f"score must be 'indif' or 'r', not {score!r}")
        pairs = list(itertools.combinations(sorted(self.domain), 2)) if pairs is None else list(pairs)
        if not pairs:
            return {}
        if any(len(pair) != 2 for pair in pairs):
            raise ValueError("dependence is proved for pairs of attributes only")
        halves = 1 if score == "indif" else 2
        each = self._adjacency.indif() if score == "indif" else self._adjacency.r_score()
        released = self._scores(
            f"dependence ({'InDif' if halves == 1 else 'R-score'}) of {counted(len(pairs), 'pair')}",
            pairs,
            each,
            share,
            lambda table, _: _dependence(table, halves),
        )
        return dict(zip(pairs, released.tolist(), strict=True))

    def entropies(
        self, cliques: Sequence[Clique], share: float, rows: int, buckets: Sequence[Mapping[str, Array]] | None = None
    ) -> Array:
        """Release the entropy of each marginal, in bits, times min(1, n / rows): itself, if there are `rows` rows.

        `buckets[i][name]` is the bucket of each code of an attribute of clique i that is to be seen in buckets. They
        and `rows` must be public or come from released answers.

        Theorem. Buckets act on values, so a row is still in one cell. A unit moves each answer by at most s =
        `entropy(rows)` for every table, large or small: below `rows` rows the entropy is scaled down so that this
        holds. Answers are floored to multiples of a thousandth of s (plus 1e-11, far above the error of the sums), so
        each moves by at most 1000 steps, and m of them form one vector of L2 sensitivity 1000 sqrt(m).
        """
        each = self._adjacency.entropy(rows) + 1e-11
        for c, seen in zip(cliques, buckets or [], strict=bool(buckets)):
            if any(len(codes) != self.domain.size(name) or name not in c for name, codes in seen.items()):
                raise ValueError("every code of a bucketed attribute needs its bucket")

        def score(table: Array, i: int) -> int:
            for name, codes in (buckets[i] if buckets else {}).items():
                table = _bucketed(table, cliques[i].index(name), codes)
            n = int(table.sum())
            return int(grid([_entropy(table, n) * min(1.0, n / rows)], each, ENTROPY_STEPS)[0])

        released = self._scores(
            f"entropies of {counted(len(cliques), 'marginal')}", cliques, ENTROPY_STEPS, share, score
        )
        return np.asarray(released * (each / ENTROPY_STEPS))

    def gaps(self, tables: Sequence[Marginal], share: float) -> Array:
        """Release the L1 distance, in counts, between each given table and the rows' own marginal of that clique.

        Theorem. The given tables were made from released answers only and are rounded to integers, so they are
        constants here. A row more or less moves one cell of the marginal by one and the distance by at most one; a
        replaced row by at most two (`gap`). A vector of m distances has L2 sensitivity sqrt(m) times that.
        """
        if not tables:
            return np.zeros(0)
        fixed = self._constants(tables)
        return self._scores(
            f"distance of a model from {counted(len(tables), 'marginal')}",
            [table.clique for table in tables],
            self._adjacency.gap(),
            share,
            lambda counted, i: int(np.abs(counted - fixed[i]).sum()),
        )

    def choose(
        self,
        tables: Sequence[Marginal],
        share: float,
        *,
        weights: Sequence[float] | None = None,
        penalties: Sequence[float] | None = None,
    ) -> int:
        """Choose the table farthest from the rows by the exponential mechanism; return its position.

        The score of candidate c is weight_c * (L1 distance_c - penalty_c), on an integer grid: weights are
        multiples of 1/WEIGHT_STEPS of the largest, penalties whole numbers. Both must not depend on the rows.

        Theorem. A row more or less moves a distance by at most `gap`, hence a score by at most
        WEIGHT_STEPS * gap. Adding a row lowers some scores and raises others, so the coefficient is the general
        epsilon / (2 sensitivity), never the monotone one. The choice is epsilon-DP and, having bounded range
        epsilon, epsilon^2/8-zCDP.
        """
        scale = np.ones(len(tables)) if weights is None else np.asarray(weights, float)
        if len(tables) == 0 or not (scale.min() >= 0 and 0 < scale.max() < math.inf):
            raise ValueError("choose needs candidates with non-negative weights, not all zero")
        steps = np.floor(scale / scale.max() * WEIGHT_STEPS).astype(np.int64)
        penalty = np.zeros(len(tables)) if penalties is None else np.asarray(penalties, float)
        if not np.abs(penalty).max() < LARGEST_TABLE:
            raise ValueError("penalties must be finite, and smaller than the largest table")
        offsets = np.rint(penalty).astype(np.int64)
        fixed = self._constants(tables)
        self._check([table.clique for table in tables])
        charge = self._exponential(
            f"choice among {counted(len(tables), 'marginal')}", WEIGHT_STEPS * self._adjacency.gap(), share
        )
        exact = self._count([table.clique for table in tables])
        distances = np.array([np.abs(c - t).sum() for c, t in zip(exact, fixed, strict=True)], np.int64)
        (chosen,) = self._release(charge, [steps * (distances - offsets)])
        return int(chosen)

    def choose_family(self, families: Sequence[tuple[str, Clique]], share: float) -> int:
        """Choose the (attribute, parents) farthest from independence by the exponential mechanism; its position.

        The score is the R-score of PrivBayes in counts, floor(sum |n n_ij - n_i n_j| / 2n) with i the attribute's
        codes and j the parents' configurations taken together; 0 for no rows.

        Theorem. A set of parents is one attribute whose codes are its configurations, so a row more or less moves
        the score by at most 2 (`r_score`), up or down: the coefficient is epsilon / (2 sensitivity). The families
        offered must come from released answers or chance alone. The choice is epsilon-DP and epsilon^2/8-zCDP.
        """
        cliques = [clique([child, *parents]) for child, parents in families]
        self._check(cliques)
        charge = self._exponential(
            f"choice among {counted(len(families), 'family', 'families')}", self._adjacency.r_score(), share
        )
        exact: list[int] = []
        for batch in self._passes(cliques):
            for table in self._engine.count(batch):
                child = cliques[len(exact)].index(families[len(exact)][0])
                exact.append(_dependence(np.moveaxis(table, child, 0).reshape(table.shape[child], -1), 2))
        (chosen,) = self._release(charge, [np.array(exact, np.int64)])
        return int(chosen)

    def recode(self, maps: Mapping[str, tuple[Array, int]]) -> Curator:
        """Return a curator over the same rows with some attributes' codes merged; same ledger, same noise.

        `maps[name]` is (new code of each old code, number of new codes). It must come from released answers. The
        map acts on values, one row at a time, so a row still adds one to one cell of each marginal and every
        sensitivity stays what it was.
        """
        return self._beside(self._engine.recode(maps), self._part)

    def split(self, chances: Mapping[str, float]) -> dict[str, Curator]:
        """Divide the rows by secret coins; return a curator for each part, each with the whole of what is left.

        Theorem. One coin a privacy unit, from the operating system's entropy and never released, puts the unit's rows
        into a part with the given chance, or in none. Neighbouring tables then have neighbouring tables in one part
        and equal ones in all others (`weft.engines.parts`), so that costs do not add up over parts: the ledger counts
        the part that cost most (`Ledger._branches`). A run divides its rows once. Nothing is released.
        """
        if isinstance(self._engine, StreamEngine):
            self._engine.check_order()  # before anything is entered; rows in memory always have one
        told = ", ".join(f"{part} {chance:.3g}" for part, chance in chances.items())
        charge = self._enter(Charge.coins(f"rows divided by secret coins: {told}", chances=chances))
        views = self._engine.split(list(chances.values()), lambda names: self._release(charge, [names])[0])
        return {part: self._beside(view, part) for part, view in zip(chances, views, strict=True)}

    def _beside(self, engine: Engine, part: str) -> Curator:
        """Return a curator over other rows or codes of the same table, with the same ledger and noise."""
        curator = Curator(engine, self._ledger, self._release)
        if part == self._part:  # counts of a part of the rows are not those of the table
            curator._measured = self._measured
        curator._part = part
        return curator

    @property
    def _adjacency(self) -> Adjacency:
        return self._ledger.adjacency

    def _marginal_sensitivity(self) -> float:
        return self._adjacency.marginal_l1() if self.accounting == "pure" else self._adjacency.marginal_l2()

    def _noise(self, share: float, sensitivity: float | None = None) -> tuple[float, float]:
        """Return the mechanism's scale, and the standard deviation of its noise, for one table at this share."""
        sensitivity = self._marginal_sensitivity() if sensitivity is None else sensitivity
        cost = share * self._ledger.capacity
        if not cost > 0:
            raise ValueError(f"a share of the budget must be above 0, not {share}")
        if self.accounting == "pure":
            scale = sensitivity / cost
            return scale, math.sqrt(2) * scale
        sigma = sensitivity / math.sqrt(2 * cost)
        return sigma, sigma

    def _charge(
        self, question: str, sensitivity: float | Sequence[float], scales: Sequence[float], draws: int
    ) -> Charge:
        """Enter a question in the ledger; only after this returns may a row be touched."""
        noise = Charge.geometric if self.accounting == "pure" else Charge.gaussian
        return self._enter(noise(question, sensitivity=sensitivity, scale=scales, draws=draws))

    def _enter(self, charge: Charge) -> Charge:
        """Enter a question as one to these rows: all, or a part of them."""
        if self._part:
            charge = replace(charge, question=f"{charge.question} (rows for {self._part})", part=self._part)
        return self._ledger.charge(charge)

    def _exponential(self, question: str, sensitivity: int, share: float) -> Charge:
        """Enter a choice by the exponential mechanism: its bounded range makes it epsilon^2/8-zCDP."""
        cost = share * self._ledger.capacity
        epsilon = cost if self.accounting == "pure" else math.sqrt(8 * cost)
        return self._enter(Charge.exponential(question, sensitivity=sensitivity, epsilon=epsilon))

    def _scores(self, question: str, cliques: Sequence[Clique], each: float, share: float, score: _Score) -> Array:
        """Release one integer score a clique, each of sensitivity `each`, as one vector."""
        self._check(cliques)
        m = len(cliques)
        joint = each * (m if self.accounting == "pure" else math.sqrt(m))
        scale, _ = self._noise(share, joint)
        charge = self._charge(question, joint, [scale], draws=m)
        exact: list[int] = []
        for batch in self._passes(cliques):
            exact += [score(table, len(exact) + i) for i, table in enumerate(self._engine.count(batch))]
        (released,) = self._release(charge, [np.array(exact, np.int64)])
        return released.astype(np.float64)

    def _check(self, cliques: Sequence[Clique]) -> None:
        """Refuse what cannot be counted, before it is charged."""
        for c in cliques:
            if list(c) != sorted(set(c)) or any(name not in self.domain for name in c):
                raise ValueError(f"{c} is not a clique of the table's attributes")
            if self.domain.cells(c) > MAX_CELLS:
                raise MethodError(
                    f"the table over {', '.join(c)} has {self.domain.cells(c):,} cells, above {MAX_CELLS:,}: "
                    "choose fewer columns, or coarser bins in the schema"
                )

    def _constants(self, tables: Sequence[Marginal]) -> list[Array]:
        """Return given tables as whole numbers, refused before any charge unless each is of its clique's shape.

        A table of another shape would be broadcast against the counts, so that a row moves the distance more than
        once; a cell that is no number, or too large, would wrap around. Neither may be decided by the rows.
        """
        for given in tables:
            if given.table.shape != self.domain.sizes(given.clique):
                raise ValueError(f"the table over {given.clique} does not have its attributes' shape")
            if not np.abs(given.table).sum() < LARGEST_TABLE:
                raise ValueError(f"the table over {given.clique} has cells that are no numbers, or too large")
        return [np.rint(given.table).astype(np.int64) for given in tables]

    def _count(self, cliques: Sequence[Clique]) -> list[Array]:
        return [table for batch in self._passes(cliques) for table in self._engine.count(batch)]

    def _passes(self, cliques: Sequence[Clique]) -> Iterator[list[Clique]]:
        batch: list[Clique] = []
        cells = 0
        for c in cliques:
            size = self.domain.cells(c)
            if batch and cells + size > CELLS_PER_PASS:
                yield batch
                batch, cells = [], 0
            batch.append(c)
            cells += size
        yield batch


class _Score(Protocol):
    def __call__(self, table: Array, position: int, /) -> int: ...


def _dependence(table: Array, halves: int) -> int:
    """Return floor(sum |n n_ij - n_i n_j| / (halves n)), exactly; 0 for no rows."""
    n = int(table.sum())
    if n == 0:
        return 0
    if n >= 1 << 30:  # the sum may reach 2 n^2: past 64-bit integers
        table = table.astype(object)
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    distance = int(np.abs(n * table - np.multiply.outer(rows, columns)).sum())
    return distance // (halves * n)


def _entropy(table: Array, n: int) -> float:
    """Return the entropy in bits; 0 for no rows."""
    share = table[table > 0] / max(n, 1)
    return float(-(share * np.log2(share)).sum()) if share.size else 0.0


def _bucketed(table: Array, axis: int, codes: Array) -> Array:
    """Return a table with the codes of one axis summed into buckets."""
    summed = np.zeros((int(codes.max()) + 1, *np.delete(table.shape, axis)), table.dtype)
    np.add.at(summed, codes, np.moveaxis(table, axis, 0))
    return np.moveaxis(summed, 0, axis)


def _normalised(weights: Sequence[float] | None, n: int) -> list[float]:
    if weights is None:
        return [1 / n] * n
    if len(weights) != n or min(weights) <= 0:
        raise ValueError("measure needs one positive weight for each clique")
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def _describe(cliques: Sequence[Clique]) -> str:
    ways = sorted({len(c) for c in cliques})
    return ", ".join(f"{sum(len(c) == k for c in cliques)} {k}-way" for k in ways)
