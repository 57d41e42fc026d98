"""Gradients of a small network, summed over coded rows: how its weights should change so that the rows score higher.

Everything a row adds is worked out in whole numbers. Floating-point sums may come out differently with other rows in
the same batch, so that one row would change what others add; integers do not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.marginals.domain import Domain
from weft.marginals.marginal import Array

STEPS = 1 << 10
"""Weights and gradients are whole numbers of steps; so many are 1, the length that a row's gradient is brought to."""

MAX_GRADIENT_WEIGHT = 1 << 14
"""In steps; with the limits below, squares of gradients stay inside 64-bit integers (`Critic.check`)."""

MAX_GRADIENT_UNITS, MAX_GRADIENT_COLUMNS = 1 << 8, 1 << 11

_ROWS = 1 << 14
"""Distinct rows that are looked at in one go."""


@dataclass(frozen=True)
class Critic:
    """A network of one hidden layer: the score of a row is sum_h outer_h max(0, bias_h + sum over columns inner_h)."""

    inner: tuple[Array, ...]
    """For each attribute, a line of weights for each code, in steps."""
    bias: Array
    outer: Array

    def check(self, domain: Domain) -> None:
        """Refuse weights that do not fit the attributes, are no whole numbers or are too large.

        A unit's sum is at most (d + 1) 2^14 < 2^26 steps, its square below 2^52, that of all units below 2^60; the
        other squares are smaller still.
        """
        units = len(self.bias)
        shapes = [table.shape for table in self.inner]
        if shapes != [(size, units) for size in domain.shape] or self.outer.shape != (units,):
            raise ValueError("the weights do not have the shape of the attributes")
        if not (1 <= units <= MAX_GRADIENT_UNITS and len(shapes) <= MAX_GRADIENT_COLUMNS):
            raise ValueError(f"at most {MAX_GRADIENT_UNITS} hidden units and {MAX_GRADIENT_COLUMNS} columns")
        every = (*self.inner, self.bias, self.outer)
        if any(w.dtype != np.int64 or np.abs(w).max(initial=0) > MAX_GRADIENT_WEIGHT for w in every):
            raise ValueError("weights are whole numbers of steps, and not too large")

    def summed(self, rows: Array, counts: Array) -> Gradient:
        """Return the sum of all rows' gradients, each of one length, exactly.

        With s_h the sum of a hidden unit, the score rises with its outer weight by max(0, s_h), and with its bias and
        the weight of each of the row's codes by outer_h where s_h > 0. A gradient of length L, rounded up, is
        multiplied by STEPS / L, each part rounded towards zero: none is then longer than `STEPS`.
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
    """A change of each weight of a critic, in steps."""

    inner: tuple[Array, ...]
    bias: Array
    outer: Array

    def end_to_end(self) -> Array:
        """Return all parts as one vector."""
        return np.concatenate([*(table.ravel() for table in self.inner), self.bias, self.outer])

    def shaped(self, flat: Array) -> Gradient:
        """Return such a vector as parts of the same shapes."""
        *inner, bias, outer = np.split(flat, np.cumsum([*(table.size for table in self.inner), self.bias.size]))
        tables = tuple(part.reshape(table.shape) for part, table in zip(inner, self.inner, strict=True))
        return Gradient(tables, bias, outer)


def _ceil_sqrt(squares: Array) -> Array:
    """Return the least whole number whose square is no less, of numbers below 2^61.

    >>> _ceil_sqrt(np.array([0, 1, 2, 4, 5, (1 << 60) + 1])).tolist()
    [0, 1, 2, 2, 3, 1073741825]
    """
    found = np.maximum(np.sqrt(squares.astype(np.float64)).astype(np.int64) - 2, 0)
    for _ in range(4):  # the float is off by less than one
        found = found + (found * found < squares)
    return np.asarray(found)
