"""Formulas over columns: + - * /, parentheses, numbers, names, and pieces of dates. They are never executed as code.

Names that are not identifiers are put in double quotes. Dates are numbers of days, so that the difference of two dates
is the number of days between them.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.schema.kinds.datetime import Datetime
from weft.schema.kinds.difference import bounds_of
from weft.schema.kinds.kind import Column, ColumnError, suggest_known_word
from weft.schema.kinds.numeric_bins import BinnedColumn, small_decimal
from weft.schema.kinds.real import Real
from weft.values.arithmetic import UNKNOWN, Interval, NumberArray
from weft.values.storage import Carrier, Decimals, Integers, floats_of, missing_of
from weft.values.text_columns import TextIntegers
from weft.values.text_numbers import is_text, read_floats
from weft.values.timestamps import DAY, UNIT, moment_unit

MAX_FORMULA_LENGTH = 2000

PIECES = ("year", "quarter", "month", "week", "day", "weekday", "hour", "monthname")
"""Functions of a date: weeks are ISO weeks, weekdays start with Monday = 1, monthname is in English."""


@dataclass(frozen=True)
class Name:
    """A column, or one piece of its dates."""

    column: str
    piece: str | None = None


@dataclass(frozen=True)
class Operation:
    """Two formulas and the operator between them."""

    sign: str
    left: Node
    right: Node


Node = Name | Fraction | Operation


T = TypeVar("T", NumberArray, Interval)

_SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


def parse_formula(text: str) -> Node:
    """Parse a formula; raise ValueError if it is invalid.

    >>> parse_formula('nights + "week nights"')
    Operation(sign='+', left=Name(column='nights', piece=None), right=Name(column='week nights', piece=None))
    """
    if len(text) > MAX_FORMULA_LENGTH:
        raise ValueError(f"it is longer than {MAX_FORMULA_LENGTH:,} characters")
    try:
        return _convert_node(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, MemoryError, RecursionError):
        raise ValueError("invalid syntax; put column names that are not plain words in double quotes") from None


def _convert_node(node: ast.expr) -> Node:
    if isinstance(node, ast.Name):
        return Name(node.id)
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return Name(node.value)
        if isinstance(node.value, int | float) and not isinstance(node.value, bool) and math.isfinite(node.value):
            number = Fraction(repr(node.value))
            if max(abs(number.numerator), number.denominator) >= 2**62:
                raise ValueError("a number in it is too large or has too many digits")
            return number
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        inner = _convert_node(node.operand)
        if isinstance(node.op, ast.UAdd):
            return inner
        return -inner if isinstance(inner, Fraction) else Operation("-", Fraction(0), inner)
    if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
        made = Operation(_SIGNS[type(node.op)], _convert_node(node.left), _convert_node(node.right))
        if made.sign == "/" and made.right == 0:
            raise ValueError("it divides by zero")
        return made
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords and len(node.args) == 1:
        inner = _convert_node(node.args[0])
        if node.func.id in PIECES and isinstance(inner, Name) and inner.piece is None:
            return Name(inner.column, node.func.id)
    raise ValueError(
        f"invalid syntax; expected + - * /, parentheses, numbers, column names, and {', '.join(PIECES)} of a date, "
        "as in year(arrival)"
    )


def list_formula_names(node: Node) -> tuple[Name, ...]:
    """Return the different names in a formula."""
    if isinstance(node, Name):
        return (node,)
    if isinstance(node, Fraction):
        return ()
    return tuple(dict.fromkeys((*list_formula_names(node.left), *list_formula_names(node.right))))


def evaluate_formula(node: Node, named: Callable[[Name], T], constant: Callable[[Fraction], T]) -> T:
    """Compute a formula, given the values of its names and constants."""
    if isinstance(node, Name):
        return named(node)
    if isinstance(node, Fraction):
        return constant(node)
    left, right = evaluate_formula(node.left, named, constant), evaluate_formula(node.right, named, constant)
    made: T = _OPERATORS[node.sign](left, right)
    return made


Reader = Callable[[pa.Array], NumberArray]

_FIRST_HALF = ("January", "February", "March", "April", "May", "June")
MONTHS = (*_FIRST_HALF, "July", "August", "September", "October", "November", "December")

_PIECES: dict[str, Callable[[pa.Array], pa.Array]] = {
    "year": pc.year,
    "quarter": pc.quarter,
    "month": pc.month,
    "monthname": pc.month,
    "week": pc.iso_week,
    "day": pc.day,
    "weekday": lambda moments: pc.day_of_week(moments, count_from_zero=False, week_start=1),
    "hour": pc.hour,
}
_ENDS = {"quarter": (1, 4), "month": (1, 12), "monthname": (1, 12), "week": (1, 53), "day": (1, 31)} | {
    "weekday": (1, 7),
    "hour": (0, 23),
}


def plain_type(field: pa.Field) -> pa.DataType:
    """Return the type of a field's values."""
    return field.type.value_type if pa.types.is_dictionary(field.type) else field.type


def make_number_reader(column: Column, field: pa.Field) -> Reader | None:
    """Return a function that reads a column as numbers (dates as days); None if it is not numeric."""
    arrow_type = plain_type(field)
    exact = pa.types.is_integer(arrow_type) or small_decimal(arrow_type)
    if isinstance(column, Real) and (column.decimals is None or column.special) and not exact:
        return _read_float_array
    if isinstance(column, BinnedColumn):
        if type(column).scale is BinnedColumn.scale:
            return None
        scale = column.scale(arrow_type, nan=not field.nullable)
        return _make_scaled_reader(scale.carrier, scale.unit / DAY if scale.time else scale.unit)
    numbers = column.listed is None or all(not isinstance(value, str) for value in column.listed)
    if is_text(arrow_type):
        whole = column.listed is not None and all(type(value) is int for value in column.listed)
        return _make_scaled_reader(TextIntegers(arrow_type), Fraction(1)) if whole else None
    return _make_type_reader(arrow_type) if numbers else None


def _make_type_reader(arrow_type: pa.DataType) -> Reader | None:
    if pa.types.is_boolean(arrow_type):
        return lambda array: _make_scaled_reader(Integers(pa.int8()), Fraction(1))(array.cast(pa.int8()))
    if pa.types.is_integer(arrow_type):
        return _make_scaled_reader(Integers(arrow_type), Fraction(1))
    if small_decimal(arrow_type):
        return _make_scaled_reader(Decimals(arrow_type), Fraction(1, 10**arrow_type.scale))
    if pa.types.is_float32(arrow_type) or pa.types.is_float64(arrow_type):
        return _read_float_array
    unit = moment_unit(arrow_type)
    return None if unit is None else _make_scaled_reader(Integers(arrow_type), Fraction(unit, DAY))


def _make_scaled_reader(carrier: Carrier, unit: Fraction) -> Reader:
    def read(array: pa.Array) -> NumberArray:
        reading = carrier.read(array)
        whole = reading.values
        if whole.dtype == np.uint64 and (whole > np.uint64(2**63 - 1)).any():
            return NumberArray(whole.astype(np.float64) * float(unit), None, reading.missing)
        return NumberArray(whole.astype(np.int64), unit, reading.missing)

    return read


def _read_float_array(array: pa.Array) -> NumberArray:
    values = read_floats(array)[0] if is_text(array.type) else floats_of(array)
    return NumberArray(np.nan_to_num(values), None, np.isnan(values))


def piece_reader(column: Column, field: pa.Field, piece: str) -> Reader | None:
    """Return a function that reads a piece of a column's dates, in local time; None if it has no dates."""
    arrow_type = plain_type(field)
    dates = moment_unit(arrow_type) is not None
    if not dates and not isinstance(column, Datetime):
        return None
    scale = column.scale(arrow_type) if isinstance(column, Datetime) and not dates else None

    def read(array: pa.Array) -> NumberArray:
        if scale is not None:  # text or integers
            reading = scale.carrier.read(array)
            unit = "ms" if scale.unit < UNIT["s"] else "s"
            values = np.where(reading.missing, 0, reading.values.astype(np.int64)) * int(scale.unit / UNIT[unit])
            array = pa.array(values, mask=reading.missing).cast(pa.timestamp(unit))
        elif pa.types.is_date(array.type):
            array = array.cast(pa.timestamp("ms"))
        found = _PIECES[piece](array).cast(pa.int64())
        return NumberArray(found.fill_null(1).to_numpy(zero_copy_only=False), Fraction(1), missing_of(found))

    return read


def compute_interval(column: Column, columns: Mapping[str, Column]) -> Interval:
    """Compute the interval of possible values of a column from the schema; dates in days."""
    if isinstance(column, BinnedColumn):
        low, high = bounds_of(column, columns)
        time = isinstance(column, Datetime)
        return Interval(low / DAY, high / DAY) if time else Interval(low, high)
    listed = [
        Fraction(str(value)) for value in column.listed or () if isinstance(value, int | float) and value == value
    ]
    return Interval(min(listed), max(listed)) if listed else UNKNOWN


def piece_interval(piece: str, days: Interval) -> Interval:
    """Compute the interval of a piece of dates between these days."""
    if piece in _ENDS:
        return Interval(*map(Fraction, _ENDS[piece]))
    if days.low is None or days.high is None:
        return UNKNOWN
    return Interval(*(Fraction(1970 + round(end / 365 + more)) for end, more in ((days.low, -40), (days.high, 40))))


def sources_of(column: Column, columns: Mapping[str, Column], key: str) -> list[Column]:
    """Return the source columns of a column; raise ColumnError if one is unknown or the dependencies are circular."""
    waiting: list[tuple[str, tuple[str, ...]]] = [(name, (column.name,)) for name in column.made_from]
    while waiting:
        name, path = waiting.pop()
        if name not in columns:
            near = suggest_known_word(name, columns) or " Name a column of the schema."
            raise ColumnError(column.name, f'{key} names "{name}", which is not a column.{near}', key)
        if name in path:
            listed = ", ".join(f'"{each}"' for each in path)
            raise ColumnError(column.name, f"{listed} depend on each other in a circle; remove one from it", key)
        waiting += [(each, (*path, name)) for each in columns[name].made_from]
    return [columns[name] for name in column.made_from]
