"""Maps: a detailed column determines a general one."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from weft.schema.kinds.kind import Scalar
from weft.schema.rules.column_values import ColumnReader, Mask, UnfitValueError, Values
from weft.schema.rules.reference_tables import read_table
from weft.schema.rules.repair_block import Block
from weft.schema.rules.rule import Readers, Rows, Rule, RuleError, require_column, validate_point


@dataclass(frozen=True)
class Mapped(Rule):
    """The value of one column determines that of another; missing maps to missing if that column can be missing."""

    of: str
    gives: str
    map: tuple[tuple[Scalar, Scalar | None], ...]

    key: ClassVar[str] = "map"
    keys: ClassVar[tuple[str, ...]] = ("of", "gives", "map")
    combines: ClassVar[bool] = True

    @classmethod
    def read(cls, entry: Mapping[str, Any], readers: Readers, folder: Path | None) -> Self:
        """Read `of`, `gives`, and `map = {...}` or the name of a CSV file with both columns."""
        of, gives = (require_column(entry.get(key), readers, key) for key in ("of", "gives"))
        given = entry["map"]
        if isinstance(given, str):
            _, rows = read_table(given, folder, readers, "map", (of, gives))
            pairs = [(detail, general) for detail, general in rows if detail is not None]
        elif isinstance(given, Mapping):
            pairs = [
                (_parse_key(readers[of], detail), None if general == {"missing": True} else general)
                for detail, general in given.items()
            ]
        else:
            raise RuleError('map must be a table such as {"1.1" = "1", "1.2" = "1"}, or a CSV file', "map")
        return cls(of, gives, tuple(pairs))

    def entry(self) -> dict[str, Any]:
        """Return the columns and the map, also if it is from a file."""
        spelled = [str(detail).lower() if isinstance(detail, bool) else str(detail) for detail, _ in self.map]
        pairs = {key: {"missing": True} if g is None else g for key, (_, g) in zip(spelled, self.map, strict=True)}
        return {"of": self.of, "gives": self.gives, "map": pairs}

    @property
    def columns(self) -> tuple[str, ...]:
        """The detailed column, then the general one."""
        return self.of, self.gives

    def check(self, readers: Readers) -> None:
        """Validate that the map has exactly one result for each value that the schema lists."""
        self._check_names(readers, "of", [self.of])
        self._check_names(readers, "gives", [self.gives])
        if self.of == self.gives:
            raise RuleError("of and gives must be different columns", "gives")
        if not self.map:
            raise RuleError("map is empty; add a result for each value", "map")
        numbers = [validate_point(readers[self.of], detail, "map") for detail, _ in self.map]
        if len(set(numbers)) != len(numbers):
            raise RuleError(f'map has two results for a value of "{self.of}"; remove one', "map")
        for _, general in self.map:
            if general is not None:
                validate_point(readers[self.gives], general, "map")
            elif not readers[self.gives].column.missing:
                raise RuleError(f'column "{self.gives}" is never missing; map to a value', "map")
        known = readers[self.of].codes
        if known is not None and readers[self.of].column.listed is not None:
            lacking = np.setdiff1d(known.numbers[~known.missing], numbers)
            if len(lacking):
                first = (readers[self.of].column.listed or ())[int(np.flatnonzero(known.numbers == lacking[0])[0])]
                raise RuleError(f'map has no result for "{first}" of column "{self.of}"; add one', "map")

    def holds(self, values: Mapping[str, Values]) -> Mask:
        """Return which rows agree with the map."""
        wanted, blank, free = self._answers(values[self.of], values[self.gives].reader)
        gives = values[self.gives]
        return np.asarray(free | (gives.missing & blank) | (~gives.missing & ~blank & (gives.numbers == wanted)))

    def _answers(self, detail: Values, general: ColumnReader) -> tuple[NDArray[Any], Mask, Mask]:
        """Return for each row the result of the map, whether it is missing, and whether there is none."""
        given = np.array([detail.reader.span(value)[0] for value, _ in self.map])
        blanks = np.array([value is None for _, value in self.map])
        answers = np.array([0 if value is None else general.span(value)[0] for _, value in self.map])
        order = np.argsort(given)
        place = order[np.minimum(np.searchsorted(given[order], detail.numbers), len(given) - 1)]
        known = (given[place] == detail.numbers) & ~detail.missing
        blank = (known & blanks[place]) | (detail.missing & general.column.missing)
        return answers[place], blank, ~known & ~blank

    def mend(self, block: Block, rows: Rows, rng: np.random.Generator) -> None:
        """Set the general column to the result of the map."""
        rows = rows[~self.holds({name: block[name].take(rows) for name in self.columns})]
        if not len(rows):
            return
        wanted, blank, _ = self._answers(block[self.of].take(rows), block.readers[self.gives])
        block.set_numbers(self.gives, rows[~blank], wanted[~blank])
        if blank.any():
            block.blank(self.gives, rows[blank])

    def __str__(self) -> str:
        return f"{self.of} gives {self.gives}"


def _parse_key(reader: ColumnReader, text: Any) -> Scalar:
    try:
        value = reader.typed(str(text))
    except UnfitValueError as fault:
        raise RuleError(f'column "{reader.column.name}": "{text}" {fault}', "map") from None
    if value is None:
        raise RuleError("map must not contain a missing value: missing always maps to missing", "map")
    return value
