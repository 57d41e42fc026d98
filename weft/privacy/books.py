"""The books of one run: its ledger, and its hand on the table's lifetime budget, which is taken back at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from weft.errors import WeftError
from weft.privacy.budget import Accounting, Budget
from weft.privacy.ledger import Ledger
from weft.privacy.lifetime import Lifetime
from weft.privacy.sensitivity import Adjacency

Terms = tuple[Adjacency, str, Budget, Accounting]
"""Who is protected, what a unit is called, what may be spent, and how it is counted."""


@contextmanager
def open_books(
    terms: Terms,
    lifetime: Lifetime | None,
    *,
    journal: Path | None,
    stamps: tuple[str, ...],
    facts: Mapping[str, Any],
) -> Iterator[Ledger]:
    """Open a ledger for a run; `facts` say what else its journal tells: the source and the method."""
    account = None if lifetime is None else lifetime.begin(*terms, method=facts["method"], source=facts["source"])
    adjacency, _, budget, accounting = terms
    try:
        ledger = Ledger(
            budget, accounting, adjacency, journal=journal, stamps=stamps, lifetime=account, facts=dict(facts)
        )
        yield ledger
    finally:
        if account is not None:
            with suppress(WeftError):  # what it held is free once this process ends
                account.end()
    with suppress(WeftError):  # every charge is entered; only the newest hash would be missing
        ledger.close()
