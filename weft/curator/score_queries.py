"""Questions for scores of marginals: how far from independence, how uncertain, how far from a model."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from weft.curator.query_base import QueryBase
from weft.display import format_count
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Array, Marginal
from weft.marginals.value_groups import sum_by_codes
from weft.privacy import Charge
from weft.privacy.charge import Purpose
from weft.privacy.selection import floor_to_grid

MAX_TABLE_SUM = 1 << 44
"""Sum of absolute cells, or penalty, past which a given table is refused: sums of such numbers stay far inside 64-bit
integers."""

ENTROPY_STEPS = 1000
"""Steps in which the sensitivity of an entropy is cut, for the integer grid on which entropies are released."""


class ScoreQuestions(QueryBase):
    """The curator's questions for scores."""

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
            "dependence",
            f"dependence ({'InDif' if halves == 1 else 'R-score'}) of {format_count(len(pairs), 'attribute pair')}",
            pairs,
            each,
            share,
            lambda table, _: dependence_of(table, halves),
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
                table = sum_by_codes(table, codes, int(codes.max()) + 1, cliques[i].index(name))
            n = int(table.sum())
            return int(floor_to_grid([_compute_entropy(table, n) * min(1.0, n / rows)], each, ENTROPY_STEPS)[0])

        released = self._scores(
            "scores", f"entropies of {format_count(len(cliques), 'marginal')}", cliques, ENTROPY_STEPS, share, score
        )
        return np.asarray(released * (each / ENTROPY_STEPS))

    def gaps(self, tables: Sequence[Marginal], share: float) -> Array:
        """Release the L1 distance, in counts, between each given table and the rows' own marginal of that clique.

        Theorem. The given tables were made from released answers and public rows only and are rounded to integers, so
        they are constants here; a clique may come twice. A row more or less moves one cell of the marginal by one and
        the distance by at most one; a replaced row by at most two (`gap`). A vector of m distances has L2 sensitivity
        sqrt(m) times that.
        """
        if not tables:
            return np.zeros(0)
        fixed = validate_constant_tables(self.domain, tables)
        return self._scores(
            "scores",
            f"L1 distance between model and data on {format_count(len({t.clique for t in tables}), 'marginal')}",
            [table.clique for table in tables],
            self._adjacency.gap(),
            share,
            lambda counted, i: int(np.abs(counted - fixed[i]).sum()),
        )

    def gap_sigma(self, m: int, share: float) -> float:
        """Return the noise standard deviation of each of m distances that `gaps` releases for this share."""
        return self._noise(share, self._joint(self._adjacency.gap(), m))[1]

    def _joint(self, each: float, m: int) -> float:
        """Return the sensitivity of a vector of m scores."""
        return self.accounting.counts.join_sensitivity(each, m)

    def _scores(
        self, purpose: Purpose, question: str, cliques: Sequence[Clique], each: float, share: float, score: _Score
    ) -> Array:
        """Release one integer score a clique, each of sensitivity `each`, as one vector."""
        self._check(cliques)
        m = len(cliques)
        joint = self._joint(each, m)
        scale, _ = self._noise(share, joint)
        charge = self._charge(purpose, question, joint, [scale], draws=m)
        exact: list[int] = []
        for batch in self._passes(cliques):
            exact += [score(table, len(exact) + i) for i, table in enumerate(self._engine.count(batch))]
        (released,) = self._release(charge, [np.array(exact, np.int64)])
        return released.astype(np.float64)


class _Score(Protocol):
    def __call__(self, table: Array, position: int, /) -> int: ...


def validate_constant_tables(domain: Domain, tables: Sequence[Marginal]) -> list[Array]:
    """Return given tables as whole numbers, refused before any charge unless each is of its clique's shape.

    A table of another shape would be broadcast against the counts, so that a row moves the distance more than
    once; a cell that is no number, or too large, would wrap around. Neither may be decided by the rows.
    """
    for given in tables:
        if given.table.shape != domain.sizes(given.clique):
            raise ValueError(f"the table over {given.clique} does not have its attributes' shape")
        if not np.abs(given.table).sum() < MAX_TABLE_SUM:
            raise ValueError(f"the table over {given.clique} has cells that are no numbers, or too large")
    return [np.rint(given.table).astype(np.int64) for given in tables]


def dependence_of(table: Array, halves: int) -> int:
    """Return floor(sum |n n_ij - n_i n_j| / (halves n)), exactly; 0 for no rows."""
    n = int(table.sum())
    if n == 0:
        return 0
    if n >= 1 << 30:  # the sum may reach 2 n^2: past 64-bit integers
        table = table.astype(object)
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    distance = int(np.abs(n * table - np.multiply.outer(rows, columns)).sum())
    return distance // (halves * n)


def _compute_entropy(table: Array, n: int) -> float:
    """Return the entropy in bits; 0 for no rows."""
    share = table[table > 0] / max(n, 1)
    return float(-(share * np.log2(share)).sum()) if share.size else 0.0


# Questions that are answered by a choice: the exponential mechanism.

MAX_SCORE_WEIGHT = 1 << 16
"""Weight past which a candidate is refused: a weighted distance stays inside 64-bit integers."""


class ChoiceQuestions(QueryBase):
    """The curator's questions that are answered by a choice."""

    def choose_family(self, families: Sequence[tuple[str, Clique]], share: float) -> int:
        """Choose the (attribute, parents) farthest from independence by the exponential mechanism; its position.

        The score is the R-score of PrivBayes in counts, floor(sum |n n_ij - n_i n_j| / 2n) with i the attribute's
        codes and j the parents' configurations taken together; 0 for no rows.

        Theorem. A set of parents is one attribute whose codes are its configurations, so a row more or less moves
        the score by at most 2 (`r_score`), up or down: the coefficient is epsilon / (2 sensitivity). The families
        offered must come from released answers or chance alone. The choice is epsilon-DP and epsilon^2/8-zCDP.
        """
        cliques = [make_clique([child, *parents]) for child, parents in families]
        self._check(cliques)
        charge = self._exponential(
            f"selection among {format_count(len(families), 'attribute-parent pair')}", self._adjacency.r_score(), share
        )
        exact: list[int] = []
        for batch in self._passes(cliques):
            for table in self._engine.count(batch):
                child = cliques[len(exact)].index(families[len(exact)][0])
                exact.append(dependence_of(np.moveaxis(table, child, 0).reshape(table.shape[child], -1), 2))
        (chosen,) = self._release(charge, [np.array(exact, np.int64)])
        return int(chosen)

    def choose_gap(
        self,
        tables: Sequence[Marginal],
        share: float,
        *,
        weights: Sequence[int] | None = None,
        penalties: Sequence[float] | None = None,
    ) -> int:
        """Choose the given table farthest from the rows' own marginal by the exponential mechanism; its position.

        The score is weight * (L1 distance in counts - penalty), with penalties rounded to whole numbers: what AIM and
        MST choose by. Without weights and penalties it is the distance.

        Theorem. Tables, weights and penalties were made from released answers only, and the tables are rounded to
        integers, so all are constants here. A row more or less moves a distance by at most one, a replaced row by at
        most two (`gap`), and a score by at most the largest weight times that, up or down: the coefficient is epsilon /
        (2 sensitivity). The choice is epsilon-DP and epsilon^2/8-zCDP.
        """
        fixed = validate_constant_tables(self.domain, tables)
        heavy = [1] * len(tables) if weights is None else [operator.index(weight) for weight in weights]
        less = [0.0] * len(tables) if penalties is None else [float(penalty) for penalty in penalties]
        if not len(heavy) == len(less) == len(tables):
            raise ValueError("every table needs its weight and its penalty")
        if any(not 1 <= w <= MAX_SCORE_WEIGHT for w in heavy) or any(not abs(p) < MAX_TABLE_SUM for p in less):
            raise ValueError("weights are whole numbers above 0, penalties numbers, and neither may be too large")
        cliques = [table.clique for table in tables]
        self._check(cliques)
        charge = self._exponential(
            f"selection among {format_count(len(tables), 'candidate marginal')}",
            max(heavy) * self._adjacency.gap(),
            share,
        )
        exact: list[int] = []
        for batch in self._passes(cliques):
            for table in self._engine.count(batch):
                i = len(exact)
                exact.append(heavy[i] * (int(np.abs(table - fixed[i]).sum()) - round(less[i])))
        (chosen,) = self._release(charge, [np.array(exact, np.int64)])
        return int(chosen)

    def draw_cells(self, tables: Sequence[Marginal], times: int, draws: int, share: float) -> Array:
        """Draw cells of marginals, or their negations, where the rows have more (or fewer) than the given tables say.

        A draw is the exponential mechanism over all cells q of all tables and their negations, with the scores times *
        count(q) - given(q) and the negative of that: DualQuery's distribution over queries after so many rounds. The
        answer has positions in the cells of all tables end to end; those past the last cell are negations.

        Theorem. The tables were made from released answers only and are rounded to integers, so they are constants
        here; `times` is public. A row more or less moves a cell by at most one, a replaced row too, and a score by at
        most times that (`cell`), up or down: the coefficient of a draw is epsilon / (2 sensitivity). Each draw is
        epsilon-DP and epsilon^2/8-zCDP, and independent given the scores: epsilons, or rhos, of all draws add up to the
        share.
        """
        fixed = validate_constant_tables(self.domain, tables)
        if not (1 <= operator.index(times) <= MAX_SCORE_WEIGHT and operator.index(draws) >= 1 and tables):
            raise ValueError("cells are drawn from tables, at least once, with a weight of at least one")
        cliques = [table.clique for table in tables]
        self._check(cliques)
        question = f"{format_count(draws, 'draw')} from the cells of {format_count(len(tables), 'marginal')}"
        charge = self._exponential(question, times * self._adjacency.cell(), share, draws)
        exact = [(times * table - given).ravel() for table, given in zip(self._count(cliques), fixed, strict=True)]
        ends = np.concatenate(exact).astype(np.int64)
        (drawn,) = self._release(charge, [np.concatenate([ends, -ends])])
        return np.asarray(drawn).reshape(-1)

    def _exponential(self, question: str, sensitivity: int, share: float, draws: int = 1) -> Charge:
        """Enter choices by the exponential mechanism: its bounded range makes each epsilon^2/8-zCDP."""
        cost = share * self._capacity / draws
        epsilon = self.accounting.find_choice_epsilon(cost)
        charge = Charge.exponential(question, sensitivity=sensitivity, epsilon=epsilon, draws=draws)
        return self._enter(replace(charge, purpose="choice"))
