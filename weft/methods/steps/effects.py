"""When an option has an effect: one that the chosen mode would ignore is refused, before anything is spent.

Whoever sets it believes that it does something, and a figure over its values would have the same line again and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from weft.errors import MethodError


@dataclass(frozen=True)
class Needs:
    """What another option must be: one of some values; or, without values, set or not set at all."""

    option: str
    values: tuple[Any, ...] = ()
    given: bool = True

    def met(self, value: Any) -> bool:
        """Whether a value of the other option is such a one; an empty list, 0 and none are not set."""
        if self.values:
            return value in self.values
        return bool(value) == self.given

    def __str__(self) -> str:
        if self.values:
            return f"{self.option} is {' or '.join(map(str, self.values))}"
        return f"{self.option} is {'given' if self.given else 'left out'}"


@dataclass(frozen=True)
class Parts:
    """An option that is a mapping: the dataclass that takes it, and when its members have an effect."""

    taker: type[Any]
    needs: Mapping[str, tuple[Needs, ...]]

    def refuse_idle(self, option: str, given: Mapping[str, Any], whole: Mapping[str, Any]) -> None:
        """Refuse members that were given, other than they are by default, and that nothing would look at."""
        usual = {each.name: each.default for each in fields(self.taker)}
        changed = [name for name, value in given.items() if name in usual and value != usual[name]]
        refuse_idle(changed, self.needs, {**usual, **whole}, f"{option}, ")


def only_with(option: str, *values: Any) -> Needs:
    """Say that an option counts only with another one, of one of these values if there are any."""
    return Needs(option, values)


def only_without(option: str) -> Needs:
    """Say that an option counts only where another one is not set."""
    return Needs(option, given=False)


def refuse_idle(
    given: Iterable[str], needs: Mapping[str, Iterable[Needs]], values: Mapping[str, Any], inside: str = ""
) -> None:
    """Refuse options that were given and that nothing would look at; `values` has all options as they will be."""
    for name in given:
        for need in needs.get(name, ()):
            if not need.met(values[need.option]):
                raise MethodError(
                    f"option {inside}{name} would have no effect: it counts only if {need}. Leave it out, or change "
                    f"{need.option}."
                )
