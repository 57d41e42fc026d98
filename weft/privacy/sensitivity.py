"""Sensitivities of all queries under both neighbouring relations, with their proofs: the only place that defines them.

Write k for `rows_per_unit`, D and D' for neighbouring tables, n for the number of rows. Add/remove: D' is D with one
unit's rows (at most k) added or removed. Replace-one: one unit's rows (at most k) are exchanged for others (at most k),
which is a removal followed by an addition.

Two facts are used throughout.

- Steps: adding rows one at a time, an answer that changes by at most s per row changes by at most k s per unit.
- Floor: if |x - y| <= c for an integer c, then |floor(x) - floor(y)| <= c; for x <= y + c gives floor(x) <=
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
    """The neighbouring relation and the privacy unit, with the sensitivity of every query.

    >>> Adjacency().indif(), Adjacency("replace-one", rows_per_unit=2).marginal_l1()
    (4, 4)
    """

    relation: Relation = "add-remove"
    """Neighbours differ in one unit's presence (add-remove), or in one unit's rows (replace-one)."""
    rows_per_unit: int = 1
    """Contribution bound: most rows of a unit, enforced by truncation before counting."""
    row: str = "row"
    """What is counted: rows, or baskets of items, each of which is a unit."""

    def __post_init__(self) -> None:
        if self.relation not in get_args(Relation):
            raise BudgetError(f"unknown neighbour relation {self.relation!r}: choose add-remove or replace-one")
        if not isinstance(self.rows_per_unit, int) or self.rows_per_unit < 1:
            raise BudgetError("rows_per_unit must be a whole number of at least 1")
        if self.row not in ("row", "basket") or (self.row == "basket" and self.rows_per_unit > 1):
            raise BudgetError("the privacy unit must be a row, several rows, or one basket")

    def weigh(self, mass: int) -> Adjacency:
        """Return the adjacency of weighted rows: integer weights of at least 0, at most `mass` in sum over a unit.

        Every query here is a function of integer counts. A row of weight w adds w to its cell, as w equal rows of
        weight 1 would: the weighted counts of a table are the counts of the table in which each row occurs w times. In
        that table a unit has at most `mass` rows, and no unit affects the rows of another, so its contribution bound is
        k = `mass`, and every proof below holds for it word by word. `mass` must be public, like k.

        Unit-mass weights: a parent with k children gives each floor(W / k), each ordered pair of them floor(W / (k (k -
        1))), and each pair with one of k' children of another table floor(W / (k k')). The weights of a parent then sum
        to at most W, so a unit that owns one parent has mass W whatever k is, instead of k W with weight W for each
        row. For W = lcm(1..s) and k <= s these are W / k and W / (k (k - 1)) exactly: k and k - 1 are coprime.

        >>> Adjacency("replace-one", 9).weigh(840).marginal_l1()
        1680
        """
        return Adjacency(self.relation, mass, self.row)

    @property
    def _units(self) -> int:
        # Replacing a unit is one removal and one addition.
        return self.rows_per_unit * (2 if self.relation == "replace-one" else 1)

    def marginal_l1(self) -> int:
        """Return the L1 sensitivity of one marginal's counts: k, or 2k.

        A row adds 1 to exactly one cell; at most k rows are added or removed, or k removed and k added (replace-one).
        """
        return self._units

    def marginal_l2(self) -> float:
        """Return the L2 sensitivity of one marginal's counts: k, or sqrt(2) k.

        The L2 norm is largest if a unit's rows share a cell. Add/remove: that cell changes by k. Replace-one: one cell
        loses k and another gains k, sqrt(k^2 + k^2). (Any change is g - l with g, l >= 0 and |g|_1, |l|_1 <= k, and |g
        - l|_2^2 <= |g|_2^2 + |l|_2^2 <= 2 k^2 since the cross term -2 g.l is not positive.)
        """
        return self.rows_per_unit * (math.sqrt(2.0) if self.relation == "replace-one" else 1.0)

    def marginal(self, norm: CountNorm) -> float:
        """Return the sensitivity of one marginal's counts in this norm."""
        return {"l1": self.marginal_l1(), "l2": self.marginal_l2()}[norm]

    def interaction_l2(self, shape: Sequence[int], order: int) -> float:
        """Return the L2 sensitivity of a marginal's interaction terms: k p, or at most k sqrt(sum r_A^2).

        The interaction (`compute_interaction`) is linear and a sum of orthogonal terms, one for each subset A of
        `order` or more axes. Times the number of cells, the term of one row in cell x is an outer product over all
        axes: of the vector v_x with d - 1 at x and -1 elsewhere for each axis of A (d its length), whose squared length
        is (d - 1)^2 + (d - 1) = d (d - 1), and of ones for the others, of squared length d. So the term of a row has
        length p_A, p_A^2 = prod_A d (d - 1) prod_rest d, for every cell, and p^2 = sum p_A^2; k rows have at most k p
        by the triangle inequality. Replacing a row in x by one in y moves the term by 2 p_A^2 - 2 prod v_x . v_y
        prod_rest d, squared. On an axis where they differ v_x . v_y is -d instead of d (d - 1), smaller by the factor
        -1 / (d - 1); so this is at most r_A^2 = p_A^2 (2 + 2 / (m - 1)), m the shortest axis of A. (With an axis of one
        code in A the term is zero.) k replacements, including those with no row on one side, which move it less, move
        it by at most k times that.
        """
        square = 0.0
        for few in range(order, len(shape) + 1):
            for axes in itertools.combinations(shape, few):
                length = math.prod(shape) * math.prod(d - 1 for d in axes)
                exchanged = 2 + 2 / (min(axes) - 1) if few and length else 0  # the total does not change
                square += length * (exchanged if self.relation == "replace-one" else 1)
        return self.rows_per_unit * math.sqrt(square)

    def items_l2(self, most: int) -> float:
        """Return the L2 sensitivity of item counts with at most `most` items counted per unit, once each: sqrt(most).

        An added or removed unit changes at most `most` counts by one. A replaced unit changes at most twice as many:
        those of its old items decrease and those of its new items increase. A unit is one basket: k is 1.
        """
        return math.sqrt(self._units * most)

    def pairs_l2(self, most: int) -> float:
        """Return the L2 sensitivity of counts of item pairs: sqrt(most (most - 1) / 2), or the root of twice that."""
        return math.sqrt(self._units * max(most * (most - 1) // 2, 1))

    def units_l1(self) -> int:
        """Return the L1 sensitivity of the histogram of rows per unit: 1, or 2 if a unit is replaced."""
        return 2 if self.relation == "replace-one" else 1

    def units_l2(self) -> float:
        """Return the L2 sensitivity of the histogram of rows per unit: one cell changes by one, or two cells do."""
        return math.sqrt(2.0) if self.relation == "replace-one" else 1.0

    def units(self, norm: CountNorm) -> float:
        """Return the sensitivity of the histogram of rows per unit in this norm."""
        return {"l1": self.units_l1(), "l2": self.units_l2()}[norm]

    def total(self) -> int:
        """Return the sensitivity of the number of rows: k under both relations.

        A unit has between 0 and k rows before and after, so n changes by at most k. (Under replace-one with exactly one
        row per unit n would not change; k is used because truncation may leave a unit fewer rows.)
        """
        return self.rows_per_unit

    def distinct(self) -> int:
        """Return the sensitivity of the number of distinct values of a column: k under both relations.

        An added row adds at most one value, a removed row removes at most one. So k more rows add at most k, k fewer
        rows remove at most k, and replaced rows do one and then the other.
        """
        return self.rows_per_unit

    def indif(self) -> int:
        """Return the sensitivity of floor(InDif), InDif = sum_ij |alpha_ij - a_i b_j / n| in counts: 4k, or 8k.

        Let D' be D, with n >= 1 rows, plus a row (x, y). Cell (i, j) of alpha - a b / n changes by (n [i=x] - a_i)(n
        [j=y] - b_j) / (n (n + 1)), a product, so the sum of absolute changes is 2 (n - a_x) * 2 (n - b_y) / (n (n + 1))
        <= 4 n / (n + 1) < 4. For n = 0 InDif is defined as 0, and a table of one row has InDif |1 - 1| = 0. Steps
        (additions before removals, so that no intermediate table is smaller than both ends) give 4k and 8k, and Floor
        preserves these integers: floor(sum |n alpha_ij - a_i b_j| / n) is exactly the integer part of InDif.
        """
        return 4 * self._units

    def r_score(self) -> int:
        """Return the sensitivity of floor(R), R = InDif / 2 in counts (PrivMRF's score): 2k, or 4k.

        R changes by less than 2 per row since InDif changes by less than 4; Steps and Floor as for `indif`, with
        floor(sum |n alpha_ij - a_i b_j| / (2 n)), and 0 for n = 0.
        """
        return 2 * self._units

    def entropy(self, rows: int) -> float:
        """Return the sensitivity in bits of H min(1, n / rows), H a marginal's entropy: k h(1/rows), or 2k h(1/rows).

        h is the binary entropy, `rows` a released number of at least 2; if n is at least `rows`, the query is H itself.
        Let g(t) = t log t. One more row in a cell with count c increases n H = g(n) - sum g(c) by g(n+1) - g(n) -
        (g(c+1) - g(c)), which lies between 0 and g(n+1) - g(n) = (n + 1) h(1/(n+1)), since g is convex and c <= n; this
        bound grows with n. So for n < rows, n H / rows changes by at most rows h(1/rows) / rows. For n >= rows, the new
        distribution is (n P + e) / (n + 1), e a unit mass, and n H(P) / (n+1) <= H' <= n H(P) / (n+1) + h(1/(n+1)): an
        increase of at most h(1/(n+1)) <= h(1/rows), a decrease of at most H(P) / (n+1) <= log n / (n+1), which is less.
        Identical rows plus one different row attain h(1/(n+1)). Steps give k and 2k times that: no confidence bound on
        n is needed, and 2 h(1/n) is below the (2 + 1/ln 2 + 2 log n) / n that BSG gives for replaced rows.
        """
        if rows < 2:
            raise BudgetError("the sensitivity of an entropy needs at least 2 rows")
        p = 1 / rows
        return self._units * -(p * math.log2(p) + (1 - p) * math.log1p(-p) / math.log(2))

    def cell(self) -> int:
        """Return the sensitivity of one cell of a marginal: k, the difference of at most k added and k removed rows."""
        return self.rows_per_unit

    def parity(self) -> int:
        """Return the sensitivity of a parity sum, sum over cells x of c_x or -c_x: k, or 2k.

        Each row adds 1 or -1, whatever the others are; so it changes by at most the L1 change of c.
        """
        return self.marginal_l1()

    def gap(self) -> int:
        """Return the sensitivity of sum |t_i - c_i|, the L1 distance of a fixed table t to a marginal c: k, or 2k.

        By the triangle inequality it changes by at most the L1 change of c. The integer table t must depend on the rows
        only through released answers.
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
        """Rebuild from the output of `to_dict`."""
        return cls(values["relation"], values["rows_per_unit"], values.get("row", "row"))
