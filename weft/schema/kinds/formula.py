"""Formulas over columns: + - * /, parentheses, numbers, names, and pieces of dates. They are parsed, never run as code.

A name that is no plain word stands in double quotes. A date counts in days, so that the difference of two dates is the
number of days between them.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, Self, TypeVar

LONGEST = 2000
"""Characters of a formula."""

PIECES = ("year", "quarter", "month", "week", "day", "weekday", "hour", "monthname")
"""What a formula may take of a date: ISO weeks, weekdays from Monday = 1, and the English name of a month."""


@dataclass(frozen=True)
class Name:
    """A column, or a piece of its dates."""

    column: str
    piece: str | None = None


@dataclass(frozen=True)
class Operation:
    """Two formulas and the sign between them."""

    sign: str
    left: Node
    right: Node


Node = Name | Fraction | Operation


class _Arithmetic(Protocol):
    def __add__(self, other: Self, /) -> Self: ...
    def __sub__(self, other: Self, /) -> Self: ...
    def __mul__(self, other: Self, /) -> Self: ...
    def __truediv__(self, other: Self, /) -> Self: ...


T = TypeVar("T", bound=_Arithmetic)

_SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


def parse(text: str) -> Node:
    """Read a formula; ValueError says what is wrong with it.

    >>> parse('nights + "week nights"')
    Operation(sign='+', left=Name(column='nights', piece=None), right=Name(column='week nights', piece=None))
    """
    if len(text) > LONGEST:
        raise ValueError(f"it is longer than {LONGEST:,} characters")
    try:
        return _node(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, MemoryError, RecursionError):
        raise ValueError("it cannot be read; a name that is no plain word stands in double quotes") from None


def _node(node: ast.expr) -> Node:
    if isinstance(node, ast.Name):
        return Name(node.id)
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return Name(node.value)
        if isinstance(node.value, int | float) and not isinstance(node.value, bool) and math.isfinite(node.value):
            return _small(Fraction(repr(node.value)))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        inner = _node(node.operand)
        if isinstance(node.op, ast.UAdd):
            return inner
        return -inner if isinstance(inner, Fraction) else Operation("-", Fraction(0), inner)
    if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
        made = Operation(_SIGNS[type(node.op)], _node(node.left), _node(node.right))
        if made.sign == "/" and made.right == 0:
            raise ValueError("it divides by zero")
        return made
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords and len(node.args) == 1:
        inner = _node(node.args[0])
        if node.func.id in PIECES and isinstance(inner, Name) and inner.piece is None:
            return Name(inner.column, node.func.id)
    raise ValueError(
        f"it may hold + - * /, parentheses, numbers, names of columns, and {', '.join(PIECES)} of a date, as in "
        "year(arrival)"
    )


def _small(value: Fraction) -> Fraction:
    if max(abs(value.numerator), value.denominator) >= 2**62:
        raise ValueError("a number in it is too large, or has too many digits")
    return value


def names(node: Node) -> tuple[Name, ...]:
    """Return what a formula is made from, each once."""
    if isinstance(node, Name):
        return (node,)
    if isinstance(node, Fraction):
        return ()
    return tuple(dict.fromkeys((*names(node.left), *names(node.right))))


def evaluate(node: Node, named: Callable[[Name], T], constant: Callable[[Fraction], T]) -> T:
    """Work a formula out, given what its names and numbers stand for."""
    if isinstance(node, Name):
        return named(node)
    if isinstance(node, Fraction):
        return constant(node)
    left, right = evaluate(node.left, named, constant), evaluate(node.right, named, constant)
    if node.sign == "+":
        return left + right
    if node.sign == "-":
        return left - right
    return left * right if node.sign == "*" else left / right
