"""A plan of marginals: what somebody who knows the data would measure, and how (DPSyn, section 5.2)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, get_args

from weft.schema.kinds.base import suggestion
from weft.workload.items import (
    ITEMS,
    Compress,
    Filled,
    Given,
    Item,
    Mechanism,
    Place,
    PlanError,
    field_of,
    keys_of,
)

_I = TypeVar("_I", bound=Item)


@dataclass(frozen=True)
class MarginalPlan:
    """Items in the order of their file.

    >>> plan = MarginalPlan.from_toml('[[marginals]]\\ncolumns = ["age", "ward"]\\nweight = 2')
    >>> plan.of(Given)[0].columns
    ('age', 'ward')
    """

    items: tuple[Item, ...] = ()
    mechanism: Mechanism = "auto"
    """Law of the noise: Gaussian, geometric, or whichever is smaller for so many marginals."""
    source: str = field(default="", compare=False)

    def of(self, sort: type[_I]) -> list[_I]:
        """Return the items of one section."""
        return [item for item in self.items if isinstance(item, sort)]

    def at(self, epsilon: float) -> MarginalPlan:
        """Return the plan for a budget; PlanError if there is none."""
        items = tuple(item for item in self.items if item.holds(epsilon))
        if not items:
            raise PlanError(
                f"{self.source or 'plan of marginals'}: nothing in it holds at epsilon {epsilon:g}: change above and "
                "below, or leave the plan out"
            )
        return replace(self, items=items)

    def wrong_mechanism(self, text: str) -> PlanError:
        """Return the error for the mechanism that is asked for, where it is."""
        asked = (item.place for item in self.items if getattr(item, "mechanism", "auto") == self.mechanism)
        return next(asked, replace(self.items[0].place, section="")).fault(text, "mechanism")

    def without(self, columns: Collection[str]) -> MarginalPlan:
        """Return the plan without what it says of some columns: marginals over them, and items that name them."""
        kept: list[Item] = []
        for item in self.items:
            if isinstance(item, Given) and item.sets:
                left = tuple(names for names in item.sets if not set(names) & set(columns))
                kept += [replace(item, sets=left)] if left else []
            elif not item.named & set(columns):
                kept.append(item)
        return replace(self, items=tuple(kept))

    @property
    def compress(self) -> Compress | None:
        """How rare values are merged, if it says so; the last word counts."""
        return next(reversed(self.of(Compress)), None)

    @property
    def measured(self) -> int:
        """Number of marginals that it asks for."""
        return sum(len(item.cliques()) for item in self.of(Given)) + sum(f.by == "learned" for f in self.of(Filled))

    @classmethod
    def read(cls, given: Any) -> MarginalPlan:
        """Take a plan, the path of one, its TOML text, or what `to_dict` gave."""
        if isinstance(given, MarginalPlan):
            return given
        if isinstance(given, Mapping):
            return cls.from_dict(given)
        if isinstance(given, PathLike) or (isinstance(given, str) and "\n" not in given and "=" not in given):
            return cls.load(given)
        return cls.from_toml(given)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> MarginalPlan:
        """Read a plan from a file."""
        try:
            text = Path(path).read_text(encoding="utf-8-sig")  # some editors begin a file with a mark
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise PlanError(
                f"{path}: cannot read the plan of marginals: {reason}. Name a file of TOML; "
                "`weft marginals draft SCHEMA -o plan.toml` begins one"
            ) from None
        return cls.from_toml(text, str(path))

    @classmethod
    def from_toml(cls, text: str, source: str = "plan of marginals") -> MarginalPlan:
        """Read a plan; a PlanError names the source, the line and the remedy."""
        try:
            document = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            place = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", str(error))
            line = place[1] if place and place[1] else str(text.count("\n") + 1)
            reason = str(error)[: place.start()] if place else str(error)
            twice = (
                " (a map gives each value one answer, not two answers)"
                if "overwrite" in reason or "Duplicate" in reason
                else ""
            )
            raise PlanError(f"{source}, line {line}: not TOML: {reason}{twice}") from None
        except (ValueError, RecursionError):
            raise PlanError(f"{source}: no plan is nested so deep. Check where the file comes from") from None
        return cls.from_dict(document, source, text)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], source: str = "", text: str = "") -> MarginalPlan:
        """Make a plan from what `to_dict` gave."""
        known = ("mechanism", *ITEMS)
        for key in document:
            if key not in known:
                near = suggestion(key, known) or f" Known are {', '.join(known)}."
                raise Place(key, 0, source, text).fault(f'there is no section "{key}".{near}')
        items = [item for section, kind in ITEMS.items() for item in _section(document, section, kind, source, text)]
        mechanism = document.get("mechanism", "auto")
        if mechanism not in get_args(Mechanism):
            told = f"mechanism must be one of {', '.join(get_args(Mechanism))}"
            raise Place("", 0, source, text).fault(told, "mechanism")
        plan = cls(tuple(items), _one_mechanism(items, mechanism), source)
        if not items:
            raise PlanError(f"{source or 'plan of marginals'}: it asks for nothing: add a table such as [[marginals]]")
        return plan

    def to_dict(self) -> dict[str, Any]:
        """Return plain values in the shape of the TOML file."""
        made: dict[str, Any] = {} if self.mechanism == "auto" else {"mechanism": self.mechanism}
        for item in self.items:
            made.setdefault(item.section, []).append(item.to_dict())
        return made

    def to_toml(self) -> str:
        """Write the plan as TOML that `from_toml` reads back to an equal plan."""
        from weft.schema.toml import write_entry

        top = [] if self.mechanism == "auto" else [write_entry("mechanism", self.mechanism)]
        tables = [
            f"[[{item.section}]]\n" + "".join(write_entry(key, value) for key, value in item.to_dict().items())
            for item in self.items
        ]
        return "\n".join(["".join(top), *tables] if top else tables)


def _section(document: Mapping[str, Any], name: str, kind: type[Item], source: str, text: str) -> list[Item]:
    entries = document.get(name, [])
    if isinstance(entries, Mapping):  # a single table, as in [compress]
        entries = [entries]
    if not isinstance(entries, list | tuple) or not all(isinstance(entry, Mapping) for entry in entries):
        raise Place(name, 0, source, text).fault(f"write each as a table under a line [[{name}]]")
    made = []
    for index, entry in enumerate(entries):
        place = Place(name, index, source, text)
        for key in entry:
            if key not in keys_of(kind):
                near = suggestion(key, keys_of(kind)) or f" Known are {', '.join(keys_of(kind))}."
                raise place.fault(f'unknown key "{key}".{near}', key)
        made.append(kind(**{field_of(key): _frozen(value) for key, value in entry.items()}, place=place))
    return made


def _frozen(value: Any) -> Any:
    return tuple(_frozen(each) for each in value) if isinstance(value, list) else value


def _one_mechanism(items: Sequence[Item], mechanism: Mechanism) -> Mechanism:
    """Return the mechanism of a plan: one ledger adds up either Gaussian noise exactly, or geometric, not both."""
    asked = mechanism
    for item in items:
        own: Mechanism = getattr(item, "mechanism", "auto")
        if own != "auto" and asked not in ("auto", own):
            raise item.place.fault(
                f"mechanism {own}, but {asked} elsewhere: one run adds up one sort of noise exactly, and a mixture "
                "would cost more than either. Choose one for the whole plan",
                "mechanism",
            )
        asked = own if own != "auto" else asked
    return asked
