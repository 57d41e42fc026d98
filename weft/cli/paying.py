"""What a draft may cost that is made from noisy answers: the same options for schemas and for plans of marginals."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from weft.cli import options as o
from weft.cli.fitting import Request, journal_beside


@dataclass(frozen=True, kw_only=True)
class Price:
    """Whether the private rows are asked, and what that may cost."""

    private: Annotated[
        bool,
        typer.Option(
            "--private",
            metavar="",
            help="Ask the private table, with noise, for --epsilon.",
            rich_help_panel=o.PRIVACY,
        ),
    ] = False
    epsilon: Annotated[
        float | None,
        typer.Option("--epsilon", "-e", help="With --private: what it may cost.", rich_help_panel=o.PRIVACY),
    ] = None
    delta: o.Delta = 1e-5
    journal: o.Journal = None
    budget: o.LifetimeBudget = None

    def request(self, out: Path | None, **asked: Any) -> Request:
        """Return a request at this price."""
        if not self.private or self.epsilon is None:
            raise o.UsageError("--private and --epsilon go together: what is asked of private rows has a price")
        if out is None:
            raise o.UsageError("--private needs -o FILE: what was paid for must not be lost")
        return Request(
            epsilon=self.epsilon,
            delta=self.delta,
            journal=journal_beside(out, self.journal),
            budget_file=None if self.budget is None else Path(self.budget),
            **asked,
        )
