"""What can go wrong, said so that a person can mend it.

Every message names the file or column and the remedy. No message ever quotes a value or a count that was
read from private rows.
"""

from __future__ import annotations

from collections.abc import Sequence


class WeftError(Exception):
    """Base of every error that Weft raises on purpose; `exit_code` is what the command line returns."""

    exit_code = 1
    private = False
    """Whether that it was raised, or its text, may depend on private rows. It then stays with the curator."""


class MemoryLimitError(WeftError):
    """There is less memory than a command needs before it reads anything."""


class MethodError(WeftError):
    """There is no such method or option, or an option does not fit the table's columns."""

    exit_code = 2


class ConditionError(WeftError):
    """Rows were asked for under conditions that are none, that nothing can meet, or that too little meets."""

    exit_code = 2


class SchemaError(WeftError):
    """The schema is malformed, contradicts itself, or does not fit the table's columns and types."""

    exit_code = 3


class DataError(WeftError):
    """The table cannot be read, or a row does not fit the schema. PRIVATE: a refusal is an exact answer about a row."""

    exit_code = 4
    private = True


class SourceError(DataError):
    """No table can be read under the name or with the options that were given, whatever its rows hold."""

    private = False


class BudgetError(WeftError):
    """A question would cost more than what is left, or a budget makes no sense. Raised before any row is read."""

    exit_code = 5


class ModelFileError(WeftError):
    """A model file is damaged, hostile, or of a version this program does not know."""

    exit_code = 6


class OutputError(WeftError):
    """A result could not be written. Nothing half-written is left behind."""

    exit_code = 7


class ManySchemaError(SchemaError):
    """Several faults of a schema, each with its column."""

    def __init__(self, faults: Sequence[SchemaError]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = tuple(faults)


def raise_together(faults: Sequence[SchemaError | DataError]) -> None:
    """Raise faults of several columns as one, so that nobody mends them one by one; nothing if there is none."""
    schema = [fault for fault in faults if isinstance(fault, SchemaError)]
    if len(faults) == 1:
        raise faults[0] from None
    if schema:
        raise ManySchemaError(schema) from None
    if faults:
        raise DataError("\n".join(dict.fromkeys(map(str, faults)))) from None
