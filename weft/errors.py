"""Exceptions of Weft, with the exit codes of the command line.

Messages name the file or column and the remedy, and never quote a value or a count from private rows.
"""

from collections.abc import Sequence


class WeftError(Exception):
    """Base class of all expected errors; `exit_code` is the exit code of the command line."""

    exit_code = 1
    private = False
    """Whether its occurrence or its text may depend on private rows. It must then be shown to the curator only."""


class MemoryLimitError(WeftError):
    """The memory limit is below what a command needs before it reads anything."""


class MethodError(WeftError):
    """The method or option is unknown, or an option does not fit the table's columns."""

    exit_code = 2


class ConditionError(WeftError):
    """Sampling conditions are invalid, impossible, or met by too few rows."""

    exit_code = 2


class SchemaError(WeftError):
    """The schema is malformed, inconsistent, or does not fit the table's columns and types."""

    exit_code = 3


class DataError(WeftError):
    """The table cannot be read, or a row violates the schema. PRIVATE: a refusal is an exact answer about a row."""

    exit_code = 4
    private = True


class SourceError(DataError):
    """No table can be read from the given source with the given options, independent of its rows."""

    private = False


class BudgetError(WeftError):
    """A query exceeds the remaining budget, or a budget is invalid. Raised before any row is read."""

    exit_code = 5


class ModelFileError(WeftError):
    """A model file is damaged, malicious, or of an unknown version."""

    exit_code = 6


class OutputError(WeftError):
    """A result could not be written. No partial file is left behind."""

    exit_code = 7


class ManySchemaError(SchemaError):
    """Several schema errors, each with its column."""

    def __init__(self, faults: Sequence[SchemaError]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = tuple(faults)


def raise_together(faults: Sequence[SchemaError | DataError]) -> None:
    """Raise the errors of several columns as one exception, so that all can be fixed at once; no-op without errors."""
    schema = [fault for fault in faults if isinstance(fault, SchemaError)]
    if len(faults) == 1:
        raise faults[0] from None
    if schema:
        raise ManySchemaError(schema) from None
    if faults:
        raise DataError("\n".join(dict.fromkeys(map(str, faults)))) from None
