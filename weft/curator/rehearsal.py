"""A rehearsal: a recipe goes as far as its first question, so that whatever it refuses is refused before any charge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.curator.curator import Curator
from weft.marginals.counting import Counts
from weft.marginals.domain import Clique, Domain
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

    def count(self, cliques: Sequence[Clique]) -> list[Counts]:
        """Count the rows alone, for the one refusal that looks at their number (decision 008)."""
        if any(cliques):
            raise RehearsedError
        return self.engine.count(cliques)


class Rehearsal(Curator):
    """A curator who answers nothing: the first question ends the rehearsal."""

    def __init__(
        self,
        engine: Engine,
        ledger: Ledger,
        release: Release,
        domain: Domain,
        whole: float,
        public: Engine | None,
        part: float,
    ) -> None:
        """Stand in for a curator of this domain who has a part of what is now the whole."""
        super().__init__(_Seats(domain, engine), ledger, release, whole * part, public=public)  # type: ignore[arg-type]
        self._before = (1 - part) / part

    def left_with(self, slack: float) -> float:
        """Return the share that would be left: as much as there will be, less the slack."""
        return super().left_with(slack) - self._before

    def _enter(self, charge: Charge) -> Charge:
        raise RehearsedError

    def _beside(self, engine: Engine, part: str, whole: float | None = None, public: Engine | None = None) -> Curator:
        """Whoever goes on without asking would go on with real rows: this is as far as a rehearsal goes."""
        raise RehearsedError
