"""Validate arguments of the Python interface."""

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from numbers import Integral, Real
from os import PathLike
from typing import Any

from weft.display import format_count
from weft.errors import DataError, MethodError, SchemaError, WeftError
from weft.schema import Schema
from weft.synthesis.fitted import Fitted


def check_schema(schema: Any) -> None:
    """Refuse an argument that is not a schema, such as the labels for a classifier."""
    if schema is not None and not isinstance(schema, Schema | str | PathLike | dict):
        raise SchemaError(
            "the second argument of fit must be a weft.Schema, the path of a schema file, or a dict of columns and "
            f"their kinds, not a {type(schema).__name__}. The whole table is modelled: add labels to it as a column"
        )


def check_data(data: Any) -> None:
    """Refuse a list of rows or columns: a list must contain paths."""
    if isinstance(data, list | tuple) and not all(isinstance(each, str | PathLike) for each in data):
        raise DataError(
            "cannot read a table from a list of rows: a list must contain paths. Pass a data frame, such as "
            "pandas.DataFrame(rows, columns=[...]) or pyarrow.Table.from_pylist(rows)"
        )


def check_rows(n: Any) -> None:
    """Refuse a number of rows that is not a whole number of at least 0."""
    whole = not isinstance(n, bool) and isinstance(n, Real) and float(n).is_integer()
    if n is not None and not whole:
        raise WeftError(f"the number of rows must be a whole number such as 1000, not {_describe_argument(n)}")
    if n is not None and int(n) < 0:
        raise WeftError(f"cannot make {n} rows: request 0 or more")


def check_seed(name: str, seed: Any) -> None:
    """Refuse a seed that is not a whole number of at least 0."""
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, Integral) or int(seed) < 0):
        raise MethodError(f"{name} must be a whole number from 0, or None; not {_describe_argument(seed)}")


def column_names(columns: tuple[Any, ...]) -> tuple[str, ...]:
    """Return column names given as separate arguments or as one list."""
    if len(columns) == 1 and isinstance(columns[0], list | tuple):
        columns = tuple(columns[0])
    for name in columns:
        if not isinstance(name, str):
            raise MethodError(f'column names must be text, as in query("sex", "age"), not {_describe_argument(name)}')
    return columns


class SklearnChecks:
    """Methods that scikit-learn expects of an estimator, so that `check_is_fitted` works."""

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fitted_") or hasattr(self, "related_")

    def __sklearn_tags__(self) -> Any:
        """Return the default tags. Only scikit-learn calls this, so it is installed."""
        utils = import_module("sklearn.utils")
        return utils.Tags(estimator_type=None, target_tags=utils.TargetTags(required=False))


def _describe_argument(value: Any) -> str:
    """Describe an argument in a message: only by its type, unless it is text or a number."""
    if isinstance(value, str):
        return f"the text {value!r}"
    shown = isinstance(value, bool | int | float)
    return f"{value!r} ({type(value).__name__})" if shown else f"a {type(value).__name__}"


def as_text(settings: Mapping[str, Any], constructor: Callable[..., None], fitted: Fitted | None) -> str:
    """Return the representation of a synthesizer: settings that differ from the defaults, and the fitted model."""
    usual = inspect.signature(constructor).parameters
    changed = [
        f"{name}={value!r}" for name, value in settings.items() if name not in usual or value != usual[name].default
    ]
    made = f"Synthesizer({', '.join(changed)})"
    if fitted is None:
        return made
    columns = format_count(len(fitted.schema.columns), "column")
    return f"{made}, fitted by {fitted.method} to {columns}; {fitted.ledger.spend_statement()}"
