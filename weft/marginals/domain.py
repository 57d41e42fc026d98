"""Names and sizes of the encoded attributes, and the cliques drawn from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

Clique = tuple[str, ...]
"""Attribute names, sorted, without repeats: the address of a marginal."""


def clique(names: Iterable[str]) -> Clique:
    """Return the clique of these attributes.

    >>> clique(["sex", "age"])
    ('age', 'sex')
    """
    return tuple(sorted(set(names)))


@dataclass(frozen=True)
class Domain:
    """Ordered attribute names with the number of codes of each.

    >>> domain = Domain(("age", "sex", "ward"), (10, 2, 5))
    >>> domain.size("age"), domain.cells(("age", "sex"))
    (10, 20)
    >>> domain.project(("sex", "ward")).shape
    (2, 5)
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.names) != len(self.shape):
            raise ValueError("a domain needs one size for each name")
        if len(set(self.names)) != len(self.names):
            raise ValueError("a domain's names must differ")
        if any(size < 1 for size in self.shape):
            raise ValueError("every attribute needs at least one code")

    @classmethod
    def of(cls, sizes: Mapping[str, int]) -> Domain:
        """Make a domain from a mapping of name to size, in the mapping's order."""
        return cls(tuple(sizes), tuple(int(size) for size in sizes.values()))

    @cached_property
    def _position(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._position

    def index(self, name: str) -> int:
        """Position of an attribute."""
        return self._position[name]

    def size(self, name: str) -> int:
        """Number of codes of an attribute."""
        return self.shape[self._position[name]]

    def sizes(self, names: Iterable[str]) -> tuple[int, ...]:
        """Shape of the table over these attributes, in the order given."""
        return tuple(self.size(name) for name in names)

    def cells(self, names: Iterable[str]) -> int:
        """Number of cells of the table over these attributes (1 for none)."""
        return math.prod(self.sizes(names))

    def project(self, names: Iterable[str]) -> Domain:
        """Return the domain of these attributes, in the order given."""
        names = tuple(names)
        return Domain(names, self.sizes(names))

    def log10_size(self) -> float:
        """Decimal logarithm of the number of possible records."""
        return sum(math.log10(size) for size in self.shape)
