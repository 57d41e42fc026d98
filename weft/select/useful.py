"""Which parent sets are worth their noise: the theta-usefulness of PrivBayes.

A table is theta-useful when its average count is at least theta times the average noise of a cell. With n rows in
all and noise of scale b that means at most n / (theta b) cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.marginals.domain import Clique, Domain, clique


def useful_cells(total: float, scale: float, theta: float) -> float:
    """Return how many cells a table may have to be theta-useful; at least 1."""
    return max(1.0, total / (theta * scale))


def parent_sets(domain: Domain, placed: Sequence[str], cells: float, limit: int) -> list[Clique]:
    """Return the maximal sets of placed attributes whose table has at most `cells` cells: one, if only () fits.

    Where there would be more than `limit`, sets are held to fewer parents, as few as it takes: all sets of up to t
    parents, for the largest t that fits. The choice rests on public sizes only.

    >>> parent_sets(Domain(("a", "b", "c"), (2, 3, 9)), ["a", "b", "c"], 10, limit=100)
    [('a', 'b'), ('c',)]
    """
    names = sorted(placed, key=lambda name: (domain.size(name), name))
    sizes = [domain.size(name) for name in names]
    found: list[Clique] = [()]
    for most in range(1, len(names) + 1):
        longer = []
        for chosen in _fitting(sizes, cells, most):
            longer.append(clique(names[i] for i in chosen))
            if len(longer) > limit:
                return found
        if sorted(longer) == sorted(found):
            return found
        found = longer
    return found


def _fitting(sizes: Sequence[int], cells: float, most: int) -> Iterator[tuple[int, ...]]:
    """Give the sets of at most `most` positions, product of sizes within cells, that no position can join."""

    def grow(chosen: tuple[int, ...], product: int, start: int) -> Iterator[tuple[int, ...]]:
        if len(chosen) < most:
            for i in range(start, len(sizes)):  # sizes ascend: past the first that does not fit, none does
                if product * sizes[i] > cells:
                    break
                yield from grow((*chosen, i), product * sizes[i], i + 1)
        # Maximal: it is full, or the smallest attribute left out does not fit (a larger one then does not either).
        left_out = next((i for i in range(len(sizes)) if i not in chosen), None)
        if len(chosen) == most or left_out is None or product * sizes[left_out] > cells:
            yield chosen

    return grow((), 1, 0)
