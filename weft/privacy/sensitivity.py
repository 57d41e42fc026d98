"""How far one privacy unit can move each answer, under either neighbour relation: the one place that says so.

Write k for `rows_per_unit`, D and D' for neighbouring tables, n for the number of rows. Add/remove: D' is D
with one unit's rows (at most k) added or taken away. Replace-one: one unit's rows (at most k) are exchanged
for others (at most k), which is a removal followed by an addition.

Two facts are used throughout.
Steps: adding rows one at a time, an answer that moves by at most s a row moves by at most k s for a unit.
Floor: if |x - y| <= c for an integer c, then |floor(x) - floor(y)| <= c; for x <= y + c gives floor(x) <=
floor(y) + c.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from weft.errors import BudgetError
from weft.privacy.mechanisms.mechanism import CountNorm

Relation = Literal["add-remove", "replace-one"]


@dataclass(frozen=True)
class Adjacency:
    """What "one unit more or less" means, and the sensitivity of every question under it.

    >>> Adjacency().indif(), Adjacency("replace-one", rows_per_unit=2).marginal_l1()
    (4, 4)
    """

    relation: Relation = "add-remove"
    """Neighbours differ by one unit's presence (add-remove), or by one unit's rows (replace-one)."""
    rows_per_unit: int = 1
    """Largest number of rows of a unit; enforced by truncation before anything is counted."""
    row: str = "row"
    """What is counted once: a row, or a basket of items, which is a unit by itself."""

    def __post_init__(self) -> None:
        if self.relation not in get_args(Relation):
            raise BudgetError(f"unknown neighbour relation {self.relation!r}: choose add-remove or replace-one")
        if not isinstance(self.rows_per_unit, int) or self.rows_per_unit < 1:
            raise BudgetError("rows_per_unit must be a whole number, 1 or more")
        if self.row not in ("row", "basket") or (self.row == "basket" and self.rows_per_unit > 1):
            raise BudgetError("a unit is a row, some rows, or one basket")

    @property
    def _units(self) -> int:
        # Replacing a unit is one removal and one addition.
        return self.rows_per_unit * (2 if self.relation == "replace-one" else 1)

    def marginal_l1(self) -> int:
        """L1 sensitivity of one marginal's counts: k, or 2k.

        A row adds 1 to exactly one cell; at most k rows come or go, and under replace-one k go and k come.
        """
        return self._units

    def marginal_l2(self) -> float:
        """L2 sensitivity of one marginal's counts: k, or sqrt(2) k.

        The L2 norm is largest when a unit's rows share a cell. Add/remove: that cell moves by k.
        Replace-one: one cell loses k and another gains k, sqrt(k^2 + k^2). (Any change is g - l with g, l
        >= 0 and |g|_1, |l|_1 <= k, and |g - l|_2^2 <= |g|_2^2 + |l|_2^2 <= 2 k^2 since the cross term -2
        g.l is not positive.)
        """
        return self.rows_per_unit * (math.sqrt(2.0) if self.relation == "replace-one" else 1.0)

    def marginal(self, norm: CountNorm) -> float:
        """Return the sensitivity of one marginal's counts in the norm of their noise."""
        return {"l1": self.marginal_l1(), "l2": self.marginal_l2()}[norm]

    def interaction_l2(self, shape: Sequence[int], order: int) -> float:
        """L2 sensitivity of the `interaction` of a marginal's counts: k p, or at most k sqrt(sum r_A^2).

        The interaction is linear and a sum of orthogonal terms, one for each subset A of `order` or more axes. Times
        the number of cells, the term of one row in cell x is an outer product over all axes: of the vector v_x with
        d - 1 at x and -1 elsewhere for each axis of A (d its length), whose squared length is (d - 1)^2 + (d - 1) =
        d (d - 1), and of ones for the others, of squared length d. So a row has the length p_A, p_A^2 =
        prod_A d (d - 1) prod_rest d, wherever it is, and p^2 = sum p_A^2; k rows have at most k p by the triangle
        inequality. Exchanging a row of x for one of y moves the term by 2 p_A^2 - 2 prod v_x . v_y prod_rest d,
        squared. On an axis where they differ v_x . v_y is -d instead of d (d - 1), smaller by the factor -1 / (d - 1);
        so this is at most r_A^2 = p_A^2 (2 + 2 / (m - 1)), m the shortest axis of A. (With an axis of one code in A
        the term is zero.) k exchanges, some of them with nothing on one side, which moves less, move it at most k
        times that.
        """
        square = 0.0
        for few in range(order, len(shape) + 1):
            for axes in itertools.combinations(shape, few):
                length = math.prod(shape) * math.prod(d - 1 for d in axes)
                exchanged = 2 + 2 / (min(axes) - 1) if few and length else 0  # the total does not move
                square += length * (exchanged if self.relation == "replace-one" else 1)
        return self.rows_per_unit * math.sqrt(square)

    def items_l2(self, most: int) -> float:
        """L2 sensitivity of the counts of items, where at most so many of a unit's count, one each: sqrt(most).

        A unit that comes or goes moves so many counts by one. One that is replaced moves twice as many at most: those
        of its old items down and those of its new ones up. A unit is one basket: k is 1.
        """
        return math.sqrt(self._units * most)

    def pairs_l2(self, most: int) -> float:
        """L2 sensitivity of the counts of pairs of such items: the root of most (most - 1) / 2, or of twice that."""
        return math.sqrt(self._units * max(most * (most - 1) // 2, 1))

    def units_l1(self) -> int:
        """L1 sensitivity of the number of units by their number of rows: 1, or 2 where a unit is replaced."""
        return 2 if self.relation == "replace-one" else 1

    def units_l2(self) -> float:
        """L2 sensitivity of the same: one cell moves by one, or two cells do."""
        return math.sqrt(2.0) if self.relation == "replace-one" else 1.0

    def units(self, norm: CountNorm) -> float:
        """Return the sensitivity of the number of units by their number of rows, in the norm of its noise."""
        return {"l1": self.units_l1(), "l2": self.units_l2()}[norm]

    def total(self) -> int:
        """Sensitivity of the number of rows: k under both relations.

        A unit has between 0 and k rows before and after, so n moves by at most k. (With replace-one and
        exactly one row a unit n would not move; k is kept, because truncation may leave a unit fewer rows.)
        """
        return self.rows_per_unit

    def distinct(self) -> int:
        """Sensitivity of the number of different values of a column: k under both relations.

        A row that comes adds one value or none, one that goes takes one away or none. So k rows more add at most k, k
        rows fewer take at most k away, and rows exchanged for others do one and then the other.
        """
        return self.rows_per_unit

    def indif(self) -> int:
        """Sensitivity of floor(InDif), InDif = sum_ij |alpha_ij - a_i b_j / n| in counts: 4k, or 8k.

        Let D' be D, of n >= 1 rows, and a row (x, y). Cell (i, j) of alpha - a b / n moves by (n [i=x] -
        a_i)(n [j=y] - b_j) / (n (n + 1)), a product, so the sum of absolute moves is 2 (n - a_x) * 2 (n -
        b_y) / (n (n + 1)) <= 4 n / (n + 1) < 4. For n = 0 InDif is defined as 0, and a table of one row has
        InDif |1 - 1| = 0. Steps (additions before removals, so that no table on the way is smaller than
        both ends) give 4k and 8k, and Floor keeps these integers: floor(sum |n alpha_ij - a_i b_j| / n) is
        exactly the integer part of InDif.
        """
        return 4 * self._units

    def r_score(self) -> int:
        """Sensitivity of floor(R), R = InDif / 2 in counts (PrivMRF's score): 2k, or 4k.

        R moves by less than 2 a row since InDif moves by less than 4; Steps and Floor as for `indif`, with
        floor(sum |n alpha_ij - a_i b_j| / (2 n)), and 0 for n = 0.
        """
        return 2 * self._units

    def entropy(self, rows: int) -> float:
        """Sensitivity in bits of H min(1, n / rows), H the entropy of a marginal: k h(1/rows), or 2k h(1/rows).

        h is the binary entropy, `rows` a released number, 2 or more; where n is at least `rows`, this is H itself. Let
        g(t) = t log t. A row more in a cell of c takes n H = g(n) - sum g(c) up by g(n+1) - g(n) - (g(c+1) - g(c)),
        which lies between 0 and g(n+1) - g(n) = (n + 1) h(1/(n+1)), since g is convex and c <= n; this bound
        grows with n. So for n < rows, n H / rows moves by at most rows h(1/rows) / rows. For n >= rows, the new
        distribution is (n P + e) / (n + 1), e a unit mass, and n H(P) / (n+1) <= H' <= n H(P) / (n+1) + h(1/(n+1)):
        up by at most h(1/(n+1)) <= h(1/rows), down by at most H(P) / (n+1) <= log n / (n+1), which is less. Rows that
        are all alike and one that differs attain h(1/(n+1)). Steps give k and 2k times that: no confidence bound on n
        is needed, and 2 h(1/n) is below the (2 + 1/ln 2 + 2 log n) / n that BSG gives for replaced rows.
        """
        if rows < 2:
            raise BudgetError("the sensitivity of an entropy needs a number of rows of 2 or more")
        p = 1 / rows
        return self._units * -(p * math.log2(p) + (1 - p) * math.log1p(-p) / math.log(2))

    def cell(self) -> int:
        """Sensitivity of one cell of a marginal: k, also where a unit is replaced.

        At most k rows come into the cell and at most k leave it, and what is left is the difference.
        """
        return self.rows_per_unit

    def gap(self) -> int:
        """Sensitivity of sum |t_i - c_i|, the distance of a fixed integer table t to a marginal c: k, or 2k.

        By the triangle inequality it moves by at most the L1 move of c. The table t must not depend on the
        rows other than through released answers.
        """
        return self.marginal_l1()

    def __str__(self) -> str:
        unit = f"one {self.row}" if self.rows_per_unit == 1 else f"one unit of up to {self.rows_per_unit} rows"
        return f"{'replace' if self.relation == 'replace-one' else 'add or remove'} {unit}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        named = {} if self.row == "row" else {"row": self.row}
        return {"relation": self.relation, "rows_per_unit": self.rows_per_unit, **named}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Adjacency:
        """Rebuild from what `to_dict` gave."""
        return cls(values["relation"], values["rows_per_unit"], values.get("row", "row"))
