"""Fit request: what the user asks for, from the command line, Python or the studio."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from weft.io.dialect import Dialect
    from weft.privacy import Budget, Relation
    from weft.schema import Schema
    from weft.schema.database import Database


@dataclass(frozen=True, kw_only=True)
class FitRequest:
    """A fit as requested, not yet validated (see `weft.synthesis.fit_plan`)."""

    source: Any
    """The private table: a data frame, a path, several paths, or the address of a database table."""
    schema: Schema | Database | str | PathLike[str] | Mapping[str, Any] | None = None
    unit: str | Literal[False] | None = None
    """Column that identifies the person; False if every row is another person's; None if the schema states it."""
    rows_per_unit: int | None = None
    """Contribution bound if `unit` is a column; None for the default."""
    time: str | None = None
    """Column that orders the rows of a person in time, if no schema states it."""
    epsilon: float = 1.0
    delta: float = 1e-5
    budget: Budget | None = None
    """A budget in other units, instead of epsilon and delta."""
    insecure: bool = False
    """Whether the rows are public, so that an epsilon too large to protect anyone is allowed."""
    method: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the method, including a marginal plan and a public table."""
    neighbours: Relation = "add-remove"
    discover: float = 0.1
    """Share of the budget for discovery."""
    trust_data_for_schema: bool = False
    engine: Literal["auto", "memory", "stream"] = "auto"
    memory: str | int | None = None
    dialect: Dialect | None = None
    journal: str | PathLike[str] | None = None
    budget_file: str | PathLike[str] | None = None
    checkpoint: str | PathLike[str] | None = None
    outputs: Mapping[str, Any] = field(default_factory=dict)
    """Outputs of the command, stored in the checkpoint so that `weft resume` can write them."""
    seed: int | None = None
    noise_seed: int | None = None

    def read_schema(self) -> Schema | None:
        """Return the schema, read from its file or built from a mapping of columns to kinds."""
        from weft.schema import Schema
        from weft.synthesis.arguments import check_schema

        check_schema(self.schema)
        if self.schema is None or isinstance(self.schema, Schema):
            return self.schema
        given: Any = self.schema
        return Schema.stating(given) if isinstance(given, Mapping) else Schema.load(Path(given))

    def read_budget(self) -> Budget:
        """Return the budget; raise BudgetError if it is invalid."""
        from weft.privacy import Budget

        return self.budget or Budget(epsilon=self.epsilon, delta=self.delta, insecure=self.insecure)
