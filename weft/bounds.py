"""Least and greatest values of numbers that people may set, as a field declares: `ways: Annotated[int, Bounds(2, 6)]`.

An option that is taken but makes no sense costs a budget: the run fails, or never ends, after its first charge. So
every number has a range, and it is looked at before anything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints


@dataclass(frozen=True)
class Bounds:
    """A range, both ends of which may be taken; of a list, the range of each member and the most members."""

    low: float
    high: float
    members: int = 1000

    def holds(self, value: Any) -> bool:
        """Whether a number, or every number of a list or mapping, is within the range; what is no number may pass."""
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
    """Return the bounds that the fields of a class declare."""
    hints = get_type_hints(owner, include_extras=True).items()
    extras = [(name, extra) for name, kind in hints if get_origin(kind) is Annotated for extra in get_args(kind)[1:]]
    return {name: extra for name, extra in extras if isinstance(extra, Bounds)}


Share = Annotated[float, Bounds(1e-6, 0.99)]
"""A share of the budget: not all of it, and not so little that nothing is learned."""

Cells = Annotated[int, Bounds(1, 1 << 28)]
"""Cells of a table or of a tree: at most 2 GiB of numbers."""

Deviations = Annotated[float, Bounds(0.0, 1e6)]
"""A threshold in standard deviations of noise."""

Factor = Annotated[float, Bounds(1e-6, 1e9)]
"""A factor that must be above 0."""
