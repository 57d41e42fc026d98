"""Ranges of numeric parameters, declared as field annotations: `ways: Annotated[int, Bounds(2, 6)]`.

Ranges are validated first: with an invalid option, a run would fail or never end after its first charge.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints


@dataclass(frozen=True)
class Bounds:
    """A closed range; for a list, the range of each member and the largest number of members."""

    low: float
    high: float
    members: int = 1000

    def holds(self, value: Any) -> bool:
        """Return whether a number, or every number of a list or mapping, is within the range; other values pass."""
        if isinstance(value, Mapping):
            return self.holds(list(value.values()))
        if isinstance(value, list | tuple):
            return len(value) <= self.members and all(self.holds(each) for each in value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return True
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"from {_format_bound(self.low)} to {_format_bound(self.high)}"


def _format_bound(end: float) -> str:
    return f"{end:,}" if isinstance(end, int) else f"{end:g}"


def bounds_of(owner: type[Any]) -> dict[str, Bounds]:
    """Return the bounds declared by the fields of a class."""
    hints = get_type_hints(owner, include_extras=True).items()
    extras = [(name, extra) for name, kind in hints if get_origin(kind) is Annotated for extra in get_args(kind)[1:]]
    return {name: extra for name, extra in extras if isinstance(extra, Bounds)}


Share = Annotated[float, Bounds(1e-6, 0.99)]
"""Share of the budget: not all of it, and not so small that the answer is useless."""

Cells = Annotated[int, Bounds(1, 1 << 28)]
"""Number of cells of a table or of a tree: at most 2 GiB of numbers."""

Deviations = Annotated[float, Bounds(0.0, 1e6)]
"""Threshold in standard deviations of noise."""

Factor = Annotated[float, Bounds(1e-6, 1e9)]
