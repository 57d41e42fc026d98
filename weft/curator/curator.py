"""The only door to private rows: every question one may ask of them, each with its sensitivity and its proof.

A question is charged to the ledger first, then asked, and leaves with integer noise on it. Whoever holds a
curator can learn nothing of the rows but what the ledger shows. Neighbouring tables differ in one privacy unit,
added, removed or replaced (`Adjacency`); by parallel reading of the text below, "a row" means the at most
`rows_per_unit` rows of a unit, and every sensitivity comes from `weft.privacy.sensitivity`, where it is scaled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.curator.gradient_queries import GradientQuestions
from weft.curator.marginal_queries import MarginalQuestions
from weft.curator.score_queries import ChoiceQuestions, ScoreQuestions
from weft.curator.seed_queries import SeedQuestions
from weft.curator.value_queries import UnitQuestions
from weft.engines import Engine, Joined
from weft.marginals.counting import Counts
from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array
from weft.privacy import Charge, Ledger
from weft.privacy.mechanisms import Release

if TYPE_CHECKING:
    from weft.engines import Engine


class Curator(MarginalQuestions, ScoreQuestions, ChoiceQuestions, GradientQuestions, SeedQuestions, UnitQuestions):
    """Answers questions about private rows, for a price: a share of the whole budget (`Door`)."""

    def recode(self, maps: Mapping[str, tuple[Array, int]]) -> Curator:
        """Return a curator over the same rows with some attributes' codes merged; same ledger, same noise.

        `maps[name]` is (new code of each old code, number of new codes). It must come from released answers. The
        map acts on values, one row at a time, so a row still adds one to one cell of each marginal and every
        sensitivity stays what it was.
        """
        public = None if self._public is None else self._public.recode(maps)
        merged = self._beside(self._engine.recode(maps), self._part, public=public)
        coding = dict(self._coding)
        for name, (codes, _) in maps.items():
            coding[name] = codes[coding[name]] if name in coding else codes
        merged._coding = coding  # noqa: SLF001 (of its own kind)
        return merged

    def arrange(self, joined: Joined, kept: Sequence[str]) -> Curator:
        """Return a curator over some attributes of the same rows, and over new ones that join others; same ledger.

        `joined[name]` says, of each attribute that `name` joins, the new code of each old code and how many there are:
        public facts. A row has one combination of such codes, by itself alone, so that it still adds one to one cell
        of each marginal and every sensitivity stays what it was. What is left out is merely not asked for.
        """
        public = None if self._public is None else self._public.arrange(joined, kept)
        return self._beside(self._engine.arrange(joined, kept), self._part, public=public)

    def rest(self) -> Curator:
        """Return a curator of the same rows whose shares are of what is left of the budget, not of the whole."""
        return self._beside(self._engine, self._part, self._whole * self.left)

    def split(self, chances: Mapping[str, float]) -> dict[str, Curator]:
        """Divide the rows by secret coins; return a curator for each part, each with the whole of what is left.

        Theorem. One coin a privacy unit, from the operating system's entropy and never released, puts the unit's rows
        into a part with the given chance, or in none. Neighbouring tables then have neighbouring tables in one part and
        equal ones in all others (`weft.engines.recoding`), so that costs do not add up over parts: the ledger counts
        the part that cost most (`Ledger._branches`). A run divides its rows once. Nothing is released.
        """
        self._engine.check_order()  # before anything is entered
        told = ", ".join(f"{part} {chance:.3g}" for part, chance in chances.items())
        charge = self._enter(Charge.coins(f"secret random partition of the rows: {told}", chances=chances))
        views = self._engine.split(list(chances.values()), lambda names: self._release(charge, [names])[0])
        return {part: self._beside(view, part) for part, view in zip(chances, views, strict=True)}

    def _beside(self, engine: Engine, part: str, whole: float | None = None, public: Engine | None = None) -> Curator:
        """Return a curator over other rows or codes of the same table, with the same ledger and noise.

        `public` are the public rows in the same codes; None: as they are.
        """
        left = self._whole if whole is None else whole
        public = self._public if public is None else public
        curator = Curator(engine, self._ledger, self._release, left, self._cells, public)
        if part == self._part:  # counts of a part of the rows are not those of the table
            curator._released = self._released
        curator._part, curator._coding = part, self._coding
        return curator


# A rehearsal: a recipe goes as far as its first question, so that whatever it refuses is refused before any charge.


class DryRunError(Exception):
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
            raise DryRunError
        return self.engine.count(cliques)


class DryRunCurator(Curator):
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
        raise DryRunError

    def _beside(self, engine: Engine, part: str, whole: float | None = None, public: Engine | None = None) -> Curator:
        """Whoever goes on without asking would go on with real rows: this is as far as a rehearsal goes."""
        raise DryRunError
