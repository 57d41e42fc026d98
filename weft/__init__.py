"""Weft: differentially private synthetic tables with an independently verifiable guarantee."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.errors import BudgetError as BudgetError
    from weft.errors import DataError as DataError
    from weft.errors import ModelFileError as ModelFileError
    from weft.errors import OutputError as OutputError
    from weft.errors import SchemaError as SchemaError
    from weft.errors import WeftError as WeftError
    from weft.evaluation.analysis import analyse as analyse
    from weft.io.dialect import Dialect as Dialect
    from weft.privacy import Budget as Budget
    from weft.privacy import Lifetime as Lifetime
    from weft.schema import Schema as Schema
    from weft.schema.database import Database as Database
    from weft.synthesis.marginal_plan import MarginalPlan as MarginalPlan
    from weft.synthesis.synthesizer import Synthesizer as Synthesizer
    from weft.synthesis.synthesizer import load as load

__version__ = "0.2.0"

_MODULES = {"demo": "weft.hospital", "evaluate": "weft.evaluation.metrics"}
"""Public modules by their public names."""

_HOME = {
    "Budget": "weft.privacy",
    "analyse": "weft.evaluation.analysis",
    "Lifetime": "weft.privacy",
    "MarginalPlan": "weft.synthesis.marginal_plan",
    "BudgetError": "weft.errors",
    "DataError": "weft.errors",
    "Database": "weft.schema.database",
    "Dialect": "weft.io.dialect",
    "ModelFileError": "weft.errors",
    "OutputError": "weft.errors",
    "Schema": "weft.schema",
    "SchemaError": "weft.errors",
    "Synthesizer": "weft.synthesis.synthesizer",
    "WeftError": "weft.errors",
    "load": "weft.synthesis.synthesizer",
}

__all__ = ["__version__", *sorted(_HOME), *_MODULES]


def __getattr__(name: str) -> Any:
    # Public names are imported on first use, so that `import weft` and `weft --help` stay fast.
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in _MODULES:
        return import_module(_MODULES[name])
    raise AttributeError(f"module 'weft' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME, *_MODULES])
