"""What a plan of marginals may ask for: one class for each section of its file.

An item says what somebody knows of the data: which columns belong together, which follow from others, which are
missing together. `above` and `below` make it part of the plan for some budgets only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from itertools import combinations
from typing import Any, ClassVar, Literal, get_args

from weft.errors import MethodError

Mechanism = Literal["auto", "gaussian", "geometric"]


class PlanError(MethodError):
    """A plan of marginals is malformed, contradicts itself, or does not fit the table; nothing has been spent."""


@dataclass(frozen=True)
class Place:
    """Where an item stands, for messages."""

    section: str = ""
    index: int = 0
    source: str = ""
    text: str = field(default="", repr=False)

    def fault(self, text: str, key: str | None = None) -> PlanError:
        """Return the error for this item, with the file and the line where there is one."""
        from weft.schema.toml import line_of, line_of_item

        where = f"{self.section} {self.index + 1}" if self.section else "the plan"
        if not self.text:
            return PlanError(f"plan of marginals, {where}: {text}")
        own = self.section, self.index, key
        line = line_of_item(self.text, *own) if self.section else line_of(self.text, (), key)
        return PlanError(f"{self.source}, line {line}: {where}: {text}")


@dataclass(frozen=True, kw_only=True)
class Item:
    """What every item has."""

    above: float = 0.0
    """Least epsilon for which it holds."""
    below: float = float("inf")
    """Epsilon from which on it does not."""
    place: Place = field(default_factory=Place, compare=False, repr=False)

    section: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for key in ("above", "below"):
            if not _number(getattr(self, key)):
                raise self.place.fault(f"{key} is an epsilon, such as 1.0", key)
        if not self.above < self.below:
            raise self.place.fault("above must be less than below, or it holds for no budget", "above")
        weight = getattr(self, "weight", 1.0)
        if not _number(weight) or not 1e-6 <= weight <= 1e6:
            raise self.place.fault("weight must be a number from 1e-6 to 1e6; 1 is usual", "weight")
        mechanism = getattr(self, "mechanism", "auto")
        if mechanism not in get_args(Mechanism):
            raise self.place.fault(f"mechanism must be one of {', '.join(get_args(Mechanism))}", "mechanism")

    def holds(self, epsilon: float) -> bool:
        """Whether it is part of the plan for this budget."""
        return self.above <= epsilon < self.below

    @property
    def named(self) -> set[str]:
        """Columns that it names, but for lists of sets of them."""
        several = [getattr(self, key, ()) for key in ("columns", "pairs_of")]
        single = [getattr(self, key, "") for key in ("column", "source", "of", "gives")]
        return {name for names in several for name in names} | {name for name in single if name}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values in the shape of its TOML table: what differs from the defaults."""
        made = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name != "place" and value != each.default:
                made[_SPELLED.get(each.name, each.name)] = _plain(value)
        return made

    def _columns(self, key: str, least: int) -> None:
        names = getattr(self, key)
        if not _names(names) or len(names) < least or len(set(names)) < len(names):
            some = "a list of columns" if least == 1 else f"a list of at least {least} columns"
            raise self.place.fault(f'{key} must be {some}, each named once, such as ["age", "ward"]', key)

    def _column(self, key: str) -> None:
        if not isinstance(getattr(self, key), str) or not getattr(self, key):
            spelled = _SPELLED.get(key, key)
            raise self.place.fault(f'{spelled} must name a column, such as "age"', spelled)


@dataclass(frozen=True, kw_only=True)
class Given(Item):
    """Marginals to measure: one over `columns`, several `sets`, or all `pairs_of` some columns."""

    section: ClassVar[str] = "marginals"
    columns: tuple[str, ...] = ()
    sets: tuple[tuple[str, ...], ...] = ()
    pairs_of: tuple[str, ...] = ()
    weight: float = 1.0
    """How much more of the budget each gets than its size suggests; in `weave`, which divides the budget itself, how
    much more an error in it weighs."""
    exact: bool = False
    """Whether records match it to the last one, whatever that does to others."""
    mechanism: Mechanism = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [key for key in ("columns", "sets", "pairs_of") if getattr(self, key)]
        if len(given) != 1:
            raise self.place.fault('give one of columns = ["a", "b"], sets = [["a", "b"]] and pairs_of = ["a", "b"]')
        if self.sets and not (isinstance(self.sets, tuple) and all(_set(names) for names in self.sets)):
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
    """Columns that are recoded into one attribute: a group of the schema, compressed by its noisy counts."""

    section: ClassVar[str] = "groups"
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self._columns("columns", 2)


@dataclass(frozen=True, kw_only=True)
class Presence(Item):
    """Columns of which some may be missing in a row: which ones are is counted as one attribute."""

    section: ClassVar[str] = "presence"
    columns: tuple[str, ...] = ()
    name: str = ""
    """What marginals call the pattern; "presence of" and the columns if not given."""
    missing: Any = None
    """The value that stands for nothing, where the schema calls no value missing."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._columns("columns", 1)
        if not isinstance(self.name, str):
            raise self.place.fault('name must be a text, such as "recorded"', "name")
        if not _scalar(self.missing):
            raise self.place.fault("missing must be one value, such as 99", "missing")

    @property
    def called(self) -> str:
        """The name of the pattern."""
        return self.name or f"presence of {', '.join(self.columns)}"


@dataclass(frozen=True, kw_only=True)
class Binned(Item):
    """A column that is counted fine alone and in bins together with others; records get fine values back."""

    section: ClassVar[str] = "bins"
    column: str = ""
    bins: int = 0
    """Number of bins with about as many values, in the schema's order."""
    into: tuple[tuple[Any, ...], ...] = ()
    """The bins themselves, as lists of values; what stands in none is one more."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._column("column")
        if (self.bins == 0) == (not self.into) or isinstance(self.bins, bool) or not isinstance(self.bins, int):
            raise self.place.fault('give bins = 10, or into = [["a", "b"], ["c"]]', "bins" if self.bins else "into")
        into = self.into if isinstance(self.into, tuple) else ({},)
        if not all(all(map(_scalar, values)) if isinstance(values, tuple) else _scalar(values) for values in into):
            raise self.place.fault('into must be lists of values, such as [["a", "b"], ["c"]]', "into")
        if self.bins and self.bins < 2:
            raise self.place.fault("bins must be at least 2", "bins")


@dataclass(frozen=True, kw_only=True)
class PublicMap(Item):
    """A general column that follows from a detailed one by a public code book: computed, never measured."""

    section: ClassVar[str] = "maps"
    of: str = ""
    gives: str = ""
    map: Any = None
    """A table from detailed to general values, pairs of them, or a CSV file with these two columns."""
    otherwise: Any = None
    """What values have that the map does not list; `else` in a file."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._column("of")
        self._column("gives")
        if not isinstance(self.map, str | Mapping | tuple):
            raise self.place.fault('map must be a table such as {"1.1" = "1"}, pairs, or a CSV file', "map")
        if not _scalar(self.otherwise):
            raise self.place.fault("else must be one value", "else")


@dataclass(frozen=True, kw_only=True)
class Filled(Item):
    """A column that is left out of all tables and filled in afterwards."""

    section: ClassVar[str] = "fills"
    column: str = ""
    source: str = ""
    """The column that it is filled in from; `from` in a file."""
    by: Literal["learned", "same", "random"] = "learned"
    """"learned": the most frequent companion in one noisy table of both; "same": the source's own value, publicly known
    to be the same; "random": any value, where nothing about it is worth its noise."""
    weight: float = 1.0
    mechanism: Mechanism = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._column("column")
        if self.by not in ("learned", "same", "random"):
            raise self.place.fault('by must be "learned", "same" or "random"', "by")
        if (self.by == "random") == bool(self.source):
            raise self.place.fault('give from = "column" with by = "learned" or "same", and none with "random"', "from")
        if self.source:
            self._column("source")
        if self.source == self.column:
            raise self.place.fault(f'"{self.column}" cannot be filled in from itself', "from")


@dataclass(frozen=True, kw_only=True)
class Part(Item):
    """Columns that are synthesised apart from the others, and joined on those that another part has, too."""

    section: ClassVar[str] = "parts"
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self._columns("columns", 1)


@dataclass(frozen=True, kw_only=True)
class Compress(Item):
    """Values that are merged in joint tables: those with a noisy count below both limits' larger one."""

    section: ClassVar[str] = "compress"
    deviations: float = 4.5
    floor: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("deviations", "floor"):
            if not _number(getattr(self, key)) or getattr(self, key) < 0:
                raise self.place.fault(f"{key} must be a number from 0", key)


ITEMS: dict[str, type[Item]] = {
    each.section: each for each in (Given, Grouped, Presence, Binned, PublicMap, Filled, Part, Compress)
}
"""Every section of a plan."""

_SPELLED = {"source": "from", "otherwise": "else"}


def field_of(key: str) -> str:
    """Return the name of the field that a key of a file sets."""
    return {spelled: name for name, spelled in _SPELLED.items()}.get(key, key)


def keys_of(item: type[Item]) -> list[str]:
    """Return the keys that an item takes in a file."""
    return [_SPELLED.get(each.name, each.name) for each in fields(item) if each.name != "place"]


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _names(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(name, str) for name in value)


def _set(value: Any) -> bool:
    return _names(value) and 0 < len(value) == len(set(value))


def _scalar(value: Any) -> bool:
    return not isinstance(value, tuple | list | Mapping)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return dict(value) if isinstance(value, Mapping) else value
