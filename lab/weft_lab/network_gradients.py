"""Gradients of a small network's score with respect to its weights, summed over coded rows.

Privacy: each row contributes a gradient of L2 norm at most `STEPS`, computed in exact integer arithmetic.
Floating-point sums can depend on the other rows in the batch, so one row could change the contribution of others;
integer sums cannot.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.marginals.domain import Domain
from weft.marginals.marginal import Array

STEPS = 1 << 10
"""Integer that represents 1.0 in weights and gradients; also the L2 norm that each row's gradient is scaled to."""

MAX_GRADIENT_WEIGHT = 1 << 14
"""In steps; with the limits below, squares of gradients fit 64-bit integers (`Critic.check`)."""

MAX_GRADIENT_UNITS, MAX_GRADIENT_COLUMNS = 1 << 8, 1 << 11

_ROWS = 1 << 14  # number of distinct rows in one batch


@dataclass(frozen=True)
class Critic:
    """Network with one hidden layer; a row scores sum_h outer_h max(0, bias_h + sum over attributes of inner_h)."""

    inner: tuple[Array, ...]
    """For each attribute, one row of weights per code, in steps."""
    bias: Array
    outer: Array

    def check(self, domain: Domain) -> None:
        """Validate the shapes, types and sizes of the weights.

        The sum of a unit is at most (d + 1) 2^14 < 2^26 steps, its square is below 2^52, and the sum of squares over
        all units is below 2^60; the other squares are smaller.
        """
        units = len(self.bias)
        shapes = [table.shape for table in self.inner]
        if shapes != [(size, units) for size in domain.shape] or self.outer.shape != (units,):
            raise ValueError("the shapes of the weights do not match the domain")
        if not (1 <= units <= MAX_GRADIENT_UNITS and len(shapes) <= MAX_GRADIENT_COLUMNS):
            raise ValueError(f"at most {MAX_GRADIENT_UNITS} hidden units and {MAX_GRADIENT_COLUMNS} attributes")
        every = (*self.inner, self.bias, self.outer)
        if any(w.dtype != np.int64 or np.abs(w).max(initial=0) > MAX_GRADIENT_WEIGHT for w in every):
            raise ValueError("weights must be int64 and at most MAX_GRADIENT_WEIGHT in absolute value")

    def summed(self, rows: Array, counts: Array) -> Gradient:
        """Return the exact sum of all rows' normalized gradients.

        Let s_h be the input of hidden unit h. The derivative of the score with respect to outer_h is max(0, s_h);
        with respect to the bias and to the weight of each of the row's codes it is outer_h where s_h > 0, else 0.

        Privacy: a gradient is multiplied by STEPS / L, where L is its L2 norm rounded up, and each component is
        rounded towards zero, so adding or removing one row changes the sum by at most `STEPS` (L2 sensitivity).
        """
        inner = [np.zeros_like(table) for table in self.inner]
        bias, outer = np.zeros_like(self.bias), np.zeros_like(self.outer)
        for start in range(0, len(rows), _ROWS):
            codes, many = rows[start : start + _ROWS], counts[start : start + _ROWS, None]
            sums = np.broadcast_to(self.bias, (len(codes), len(self.bias))).copy()
            for i, table in enumerate(self.inner):
                sums += table[codes[:, i]]
            below, above = np.where(sums > 0, self.outer, 0), np.maximum(sums, 0)
            square = (len(inner) + 1) * (below * below).sum(axis=1) + (above * above).sum(axis=1)
            length = np.maximum(_ceil_sqrt(square), 1)[:, None]
            below, above = (np.sign(g) * (np.abs(g) * STEPS // length) * many for g in (below, above))
            for i, table in enumerate(inner):
                np.add.at(table, codes[:, i], below)
            bias += below.sum(axis=0)
            outer += above.sum(axis=0)
        return Gradient(tuple(inner), bias, outer)


@dataclass(frozen=True)
class Gradient:
    """One gradient component for each weight of a critic, in steps."""

    inner: tuple[Array, ...]
    bias: Array
    outer: Array

    def end_to_end(self) -> Array:
        """Return all components as one vector."""
        return np.concatenate([*(table.ravel() for table in self.inner), self.bias, self.outer])

    def shaped(self, flat: Array) -> Gradient:
        """Split a flat vector into components of this gradient's shapes."""
        *inner, bias, outer = np.split(flat, np.cumsum([*(table.size for table in self.inner), self.bias.size]))
        tables = tuple(part.reshape(table.shape) for part, table in zip(inner, self.inner, strict=True))
        return Gradient(tables, bias, outer)


def _ceil_sqrt(squares: Array) -> Array:
    """Return the square root rounded up to an integer, exactly, for integers below 2^61.

    >>> _ceil_sqrt(np.array([0, 1, 2, 4, 5, (1 << 60) + 1])).tolist()
    [0, 1, 2, 2, 3, 1073741825]
    """
    found = np.maximum(np.sqrt(squares.astype(np.float64)).astype(np.int64) - 2, 0)
    for _ in range(4):  # the floating-point root is off by less than one
        found = found + (found * found < squares)
    return np.asarray(found)
