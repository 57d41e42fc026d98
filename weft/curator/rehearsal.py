"""A rehearsal: a recipe goes as far as its first question, so that whatever it refuses is refused before any charge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.curator.curator import Curator
from weft.marginals.domain import Domain
from weft.privacy import Charge, Ledger
from weft.privacy.mechanisms import Release

if TYPE_CHECKING:
    from weft.engines import Engine


class RehearsedError(Exception):
    """The recipe asked its first question."""


@dataclass(frozen=True)
class _Seats:
    """An engine of which only the attributes are known, and whether its rows can be divided: no row is in it."""

    domain: Domain
    engine: Engine

    def check_order(self) -> None:
        """Refuse what the real engine refuses."""
        self.engine.check_order()


class Rehearsal(Curator):
    """A curator who answers nothing: the first question ends the rehearsal."""

    def __init__(self, engine: Engine, ledger: Ledger, release: Release, domain: Domain, whole: float) -> None:
        """Stand in for a curator of this domain who has a part of the budget."""
        super().__init__(_Seats(domain, engine), ledger, release)  # type: ignore[arg-type]
        self._whole = whole

    def _enter(self, charge: Charge) -> Charge:
        raise RehearsedError
