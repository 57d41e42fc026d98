"""Marginal plan file: the marginals to measure, chosen with domain knowledge, and how (DPSyn, section 5.2)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar, get_args

from weft.errors import MethodError
from weft.schema.kinds.kind import suggest_known_word

Mechanism = Literal["auto", "gaussian", "geometric"]


class PlanError(MethodError):
    """A marginal plan is invalid, contradictory, or does not fit the table; nothing has been spent."""


@dataclass(frozen=True)
class ItemPlace:
    """Position of an item in a plan file, for messages."""

    section: str = ""
    index: int = 0
    source: str = ""
    text: str = field(default="", repr=False)

    def fault(self, text: str, key: str | None = None) -> PlanError:
        """Return the error for this item, with file and line if known."""
        from weft.schema.schema_file import line_of, line_of_item

        where = f"{self.section} {self.index + 1}" if self.section else "the plan"
        if not self.text:
            return PlanError(f"plan of marginals, {where}: {text}")
        own = self.section, self.index, key
        line = line_of_item(self.text, *own) if self.section else line_of(self.text, (), key)
        return PlanError(f"{self.source}, line {line}: {where}: {text}")


@dataclass(frozen=True, kw_only=True)
class Item:
    """Base class of all items of a plan."""

    above: float = 0.0
    """Minimum epsilon at which the item applies."""
    below: float = float("inf")
    """Epsilon from which on the item no longer applies."""
    place: ItemPlace = field(default_factory=ItemPlace, compare=False, repr=False)

    section: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for key in ("above", "below"):
            if not _is_number(getattr(self, key)):
                raise self.place.fault(f"{key} must be an epsilon, such as 1.0", key)
        if not self.above < self.below:
            raise self.place.fault("above must be less than below, otherwise the item applies to no budget", "above")
        weight = getattr(self, "weight", 1.0)
        if not _is_number(weight) or not 1e-6 <= weight <= 1e6:
            raise self.place.fault("weight must be a number from 1e-6 to 1e6; the default is 1", "weight")
        mechanism = getattr(self, "mechanism", "auto")
        if mechanism not in get_args(Mechanism):
            raise self.place.fault(f"mechanism must be one of {', '.join(get_args(Mechanism))}", "mechanism")

    def holds(self, epsilon: float) -> bool:
        """Return whether the item applies at this epsilon."""
        return self.above <= epsilon < self.below

    @property
    def named(self) -> set[str]:
        """Columns named by the item, except in `sets`."""
        several = [getattr(self, key, ()) for key in ("columns", "pairs_of")]
        single = [getattr(self, key, "") for key in ("column", "source", "of", "gives")]
        return {name for names in several for name in names} | {name for name in single if name}

    def to_dict(self) -> dict[str, Any]:
        """Return the values that differ from the defaults, in the structure of the TOML table."""
        made = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name != "place" and value != each.default:
                made[_SPELLED.get(each.name, each.name)] = _thaw_value(value)
        return made

    def _columns(self, key: str, least: int) -> None:
        names = getattr(self, key)
        if not _is_name_list(names) or len(names) < least or len(set(names)) < len(names):
            some = "a list of columns" if least == 1 else f"a list of at least {least} columns"
            raise self.place.fault(f'{key} must be {some}, each named once, such as ["age", "ward"]', key)

    def _column(self, key: str) -> None:
        if not isinstance(getattr(self, key), str) or not getattr(self, key):
            spelled = _SPELLED.get(key, key)
            raise self.place.fault(f'{spelled} must name a column, such as "age"', spelled)


@dataclass(frozen=True, kw_only=True)
class Given(Item):
    """Required marginals: one over `columns`, several `sets`, or all `pairs_of` some columns."""

    section: ClassVar[str] = "marginals"
    columns: tuple[str, ...] = ()
    sets: tuple[tuple[str, ...], ...] = ()
    pairs_of: tuple[str, ...] = ()
    weight: float = 1.0
    """Factor on the budget that the size suggests; in `weave`, which divides it itself, on the weight of an error."""
    exact: bool = False
    """Whether records match the measurement exactly, at the expense of other marginals."""
    mechanism: Mechanism = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [key for key in ("columns", "sets", "pairs_of") if getattr(self, key)]
        if len(given) != 1:
            raise self.place.fault('set one of columns = ["a", "b"], sets = [["a", "b"]] and pairs_of = ["a", "b"]')
        distinct = (_is_name_list(names) and 0 < len(names) == len(set(names)) for names in self.sets)
        if self.sets and not (isinstance(self.sets, tuple) and all(distinct)):
            raise self.place.fault(
                'sets must be lists of columns, each named once, such as [["age", "ward"], ["age", "sex"]]', "sets"
            )
        if given != ["sets"]:
            self._columns(given[0], 2 if self.pairs_of else 1)
        if not isinstance(self.exact, bool):
            raise self.place.fault("exact must be true or false", "exact")

    def cliques(self) -> list[tuple[str, ...]]:
        """Return the columns of each marginal."""
        return [self.columns] if self.columns else list(self.sets or combinations(self.pairs_of, 2))


@dataclass(frozen=True, kw_only=True)
class Grouped(Item):
    """Columns encoded as one attribute: a group of the schema, compressed by its noisy counts."""

    section: ClassVar[str] = "groups"
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self._columns("columns", 2)


@dataclass(frozen=True, kw_only=True)
class Presence(Item):
    """Columns that may be missing: the pattern of missing ones is measured as one attribute."""

    section: ClassVar[str] = "presence"
    columns: tuple[str, ...] = ()
    name: str = ""
    """Name of the pattern in marginals; default: "presence of" and the columns."""
    missing: Any = None
    """Value that represents a missing one, if the schema declares none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._columns("columns", 1)
        if not isinstance(self.name, str):
            raise self.place.fault('name must be a text, such as "recorded"', "name")
        if not _is_scalar(self.missing):
            raise self.place.fault("missing must be one value, such as 99", "missing")

    @property
    def called(self) -> str:
        """The name of the pattern."""
        return self.name or f"presence of {', '.join(self.columns)}"


@dataclass(frozen=True, kw_only=True)
class BinnedItem(Item):
    """A column measured in full alone and in bins with others; records are refined to full values."""

    section: ClassVar[str] = "bins"
    column: str = ""
    bins: int = 0
    """Number of bins with about equal numbers of values, in the order of the schema."""
    into: tuple[tuple[Any, ...], ...] = ()
    """The bins, as lists of values; unlisted values form one more bin."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._column("column")
        if (self.bins == 0) == (not self.into) or isinstance(self.bins, bool) or not isinstance(self.bins, int):
            raise self.place.fault('set bins = 10, or into = [["a", "b"], ["c"]]', "bins" if self.bins else "into")
        into = self.into if isinstance(self.into, tuple) else ({},)
        if not all(
            all(map(_is_scalar, values)) if isinstance(values, tuple) else _is_scalar(values) for values in into
        ):
            raise self.place.fault('into must be lists of values, such as [["a", "b"], ["c"]]', "into")
        if self.bins and self.bins < 2:
            raise self.place.fault("bins must be at least 2", "bins")


@dataclass(frozen=True, kw_only=True)
class PublicMap(Item):
    """A general column computed from a detailed one by a public code book, never measured."""

    section: ClassVar[str] = "maps"
    of: str = ""
    gives: str = ""
    map: Any = None
    """Mapping from detailed to general values, pairs of them, or a CSV file with these two columns."""
    otherwise: Any = None
    """Result for values that the map does not list; `else` in a file."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._column("of")
        self._column("gives")
        if not isinstance(self.map, str | Mapping | tuple):
            raise self.place.fault('map must be a table such as {"1.1" = "1"}, pairs, or a CSV file', "map")
        if not _is_scalar(self.otherwise):
            raise self.place.fault("else must be one value", "else")


@dataclass(frozen=True, kw_only=True)
class Filled(Item):
    """A column excluded from all marginals and filled in afterwards."""

    section: ClassVar[str] = "fills"
    column: str = ""
    source: str = ""
    """Column to fill it in from; `from` in a file."""
    by: Literal["learned", "same", "random"] = "learned"
    """"learned": the most frequent value given the source, from one noisy marginal of both; "same": the value of the
    source, publicly known to be equal; "random": any value, if the column is not worth a measurement."""
    weight: float = 1.0
    mechanism: Mechanism = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._column("column")
        if self.by not in ("learned", "same", "random"):
            raise self.place.fault('by must be "learned", "same" or "random"', "by")
        if (self.by == "random") == bool(self.source):
            raise self.place.fault('set from = "column" with by = "learned" or "same", but not with "random"', "from")
        if self.source:
            self._column("source")
        if self.source == self.column:
            raise self.place.fault(f'"{self.column}" cannot be filled in from itself', "from")


@dataclass(frozen=True, kw_only=True)
class PartItem(Item):
    """Columns synthesised separately, and joined with other parts on shared columns."""

    section: ClassVar[str] = "parts"
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self._columns("columns", 1)


@dataclass(frozen=True, kw_only=True)
class Compress(Item):
    """Merging of values in joint marginals: those with a noisy count below the larger of both limits."""

    section: ClassVar[str] = "compress"
    deviations: float = 4.5
    floor: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("deviations", "floor"):
            if not _is_number(getattr(self, key)) or getattr(self, key) < 0:
                raise self.place.fault(f"{key} must be a number of at least 0", key)


ITEMS: dict[str, type[Item]] = {
    each.section: each for each in (Given, Grouped, Presence, BinnedItem, PublicMap, Filled, PartItem, Compress)
}
"""Every section of a plan."""

_SPELLED = {"source": "from", "otherwise": "else"}


def field_of(key: str) -> str:
    """Return the field name of a key in a file."""
    return {spelled: name for name, spelled in _SPELLED.items()}.get(key, key)


def keys_of(item: type[Item]) -> list[str]:
    """Return the keys of an item in a file."""
    return [_SPELLED.get(each.name, each.name) for each in fields(item) if each.name != "place"]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _is_name_list(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(name, str) for name in value)


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, tuple | list | Mapping)


def _thaw_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_thaw_value(each) for each in value]
    return dict(value) if isinstance(value, Mapping) else value


_I = TypeVar("_I", bound=Item)


@dataclass(frozen=True)
class MarginalPlan:
    """A marginal plan: items in file order.

    >>> plan = MarginalPlan.from_toml('[[marginals]]\\ncolumns = ["age", "ward"]\\nweight = 2')
    >>> plan.of(Given)[0].columns
    ('age', 'ward')
    """

    items: tuple[Item, ...] = ()
    mechanism: Mechanism = "auto"
    """Noise mechanism: Gaussian, geometric, or the one with less noise for the number of marginals ("auto")."""
    source: str = field(default="", compare=False)

    def of(self, sort: type[_I]) -> list[_I]:
        """Return the items of one section."""
        return [item for item in self.items if isinstance(item, sort)]

    def at(self, epsilon: float) -> MarginalPlan:
        """Return the plan with the items that apply at this epsilon; raise PlanError if there are none."""
        items = tuple(item for item in self.items if item.holds(epsilon))
        if not items:
            raise PlanError(
                f"{self.source or 'plan of marginals'}: no item applies at epsilon {epsilon:g}: change above and "
                "below, or omit the plan"
            )
        return replace(self, items=items)

    def wrong_mechanism(self, text: str) -> PlanError:
        """Return the error for the requested mechanism, with its position."""
        asked = (item.place for item in self.items if getattr(item, "mechanism", "auto") == self.mechanism)
        return next(asked, replace(self.items[0].place, section="")).fault(text, "mechanism")

    def without(self, columns: Collection[str]) -> MarginalPlan:
        """Return the plan without marginals over these columns and items that name them."""
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
        """Merging of rare values, if specified; the last item applies."""
        return next(reversed(self.of(Compress)), None)

    @property
    def measured(self) -> int:
        """Number of marginals to measure, including those of learned fills."""
        return sum(len(item.cliques()) for item in self.of(Given)) + sum(f.by == "learned" for f in self.of(Filled))

    @classmethod
    def read(cls, given: Any) -> MarginalPlan:
        """Return a plan given as a plan, a path, TOML text, or the result of `to_dict`."""
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
            text = Path(path).read_text(encoding="utf-8-sig")  # some editors write a byte order mark
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise PlanError(
                f"{path}: cannot read the plan of marginals: {reason}. Pass a TOML file; "
                "`weft marginals draft SCHEMA -o plan.toml` drafts one"
            ) from None
        return cls.from_toml(text, str(path))

    @classmethod
    def from_toml(cls, text: str, source: str = "plan of marginals") -> MarginalPlan:
        """Parse a plan; a PlanError names the source, the line and the remedy."""
        try:
            document = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            place = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", str(error))
            line = place[1] if place and place[1] else str(text.count("\n") + 1)
            reason = str(error)[: place.start()] if place else str(error)
            twice = " (a map must not list a value twice)" if "overwrite" in reason or "Duplicate" in reason else ""
            raise PlanError(f"{source}, line {line}: not TOML: {reason}{twice}") from None
        except (ValueError, RecursionError):
            raise PlanError(f"{source}: the nesting is too deep for a plan. Check the file") from None
        return cls.from_dict(document, source, text)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], source: str = "", text: str = "") -> MarginalPlan:
        """Build a plan from the result of `to_dict`."""
        known = ("mechanism", *ITEMS)
        for key in document:
            if key not in known:
                near = suggest_known_word(key, known) or f" Known are {', '.join(known)}."
                raise ItemPlace(key, 0, source, text).fault(f'there is no section "{key}".{near}')
        items = [
            item for section, kind in ITEMS.items() for item in _read_section(document, section, kind, source, text)
        ]
        mechanism = document.get("mechanism", "auto")
        if mechanism not in get_args(Mechanism):
            told = f"mechanism must be one of {', '.join(get_args(Mechanism))}"
            raise ItemPlace("", 0, source, text).fault(told, "mechanism")
        plan = cls(tuple(items), _one_mechanism(items, mechanism), source)
        if not items:
            raise PlanError(f"{source or 'plan of marginals'}: it has no items: add a table such as [[marginals]]")
        return plan

    def to_dict(self) -> dict[str, Any]:
        """Return plain values in the structure of the TOML file."""
        made: dict[str, Any] = {} if self.mechanism == "auto" else {"mechanism": self.mechanism}
        for item in self.items:
            made.setdefault(item.section, []).append(item.to_dict())
        return made

    def to_toml(self) -> str:
        """Return TOML that `from_toml` parses to an equal plan."""
        from weft.schema.schema_file import write_entry

        top = [] if self.mechanism == "auto" else [write_entry("mechanism", self.mechanism)]
        tables = [
            f"[[{item.section}]]\n" + "".join(write_entry(key, value) for key, value in item.to_dict().items())
            for item in self.items
        ]
        return "\n".join(["".join(top), *tables] if top else tables)


def _read_section(document: Mapping[str, Any], name: str, kind: type[Item], source: str, text: str) -> list[Item]:
    entries = document.get(name, [])
    if isinstance(entries, Mapping):  # a single table, as in [compress]
        entries = [entries]
    if not isinstance(entries, list | tuple) or not all(isinstance(entry, Mapping) for entry in entries):
        raise ItemPlace(name, 0, source, text).fault(f"write each item as a table under a line [[{name}]]")
    made = []
    for index, entry in enumerate(entries):
        place = ItemPlace(name, index, source, text)
        for key in entry:
            if key not in keys_of(kind):
                near = suggest_known_word(key, keys_of(kind)) or f" Known are {', '.join(keys_of(kind))}."
                raise place.fault(f'unknown key "{key}".{near}', key)
        made.append(kind(**{field_of(key): _freeze_lists(value) for key, value in entry.items()}, place=place))
    return made


def _freeze_lists(value: Any) -> Any:
    return tuple(_freeze_lists(each) for each in value) if isinstance(value, list) else value


def _one_mechanism(items: Sequence[Item], mechanism: Mechanism) -> Mechanism:
    """Return the mechanism of a plan: exact accounting supports either Gaussian or geometric noise, not both."""
    asked = mechanism
    for item in items:
        own: Mechanism = getattr(item, "mechanism", "auto")
        if own != "auto" and asked not in ("auto", own):
            raise item.place.fault(
                f"mechanism {own}, but {asked} elsewhere: accounting is exact for one mechanism per run, and a mixture "
                "would cost more than either. Choose one for the whole plan",
                "mechanism",
            )
        asked = own if own != "auto" else asked
    return asked
