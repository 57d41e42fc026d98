"""The curator: the only access to private rows, with the sensitivity and proof of every query (`query_base`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.curator.marginal_queries import MarginalQueries
from weft.curator.score_queries import ChoiceQueries, ScoreQueries
from weft.curator.value_queries import UnitQueries
from weft.engines import Engine, Joined
from weft.marginals.counting import Counts
from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array
from weft.privacy import Charge, Ledger
from weft.privacy.mechanisms import Release


class Curator(MarginalQueries, ScoreQueries, ChoiceQueries, UnitQueries):
    """Answers queries on private rows, each for a share of the whole budget (`QueryBase`)."""

    def recode(self, maps: Mapping[str, tuple[Array, int]]) -> Curator:
        """Return a curator over the same rows with some codes merged; the ledger and noise stay the same.

        Privacy: `maps[name]`, a pair (new code of each old code, number of new codes), must come from released answers.
        A map acts on the values of one row at a time, so a row still adds one to one cell of each marginal and every
        sensitivity is unchanged.
        """
        public = None if self._public is None else self._public.recode(maps)
        merged = self._beside(self._engine.recode(maps), self._part, public=public)
        coding = dict(self._coding)
        for name, (codes, _) in maps.items():
            coding[name] = codes[coding[name]] if name in coding else codes
        merged._coding = coding  # noqa: SLF001 (same class)
        return merged

    def arrange(self, joined: Joined, kept: Sequence[str]) -> Curator:
        """Return a curator over the `kept` attributes of the same rows and new joint attributes; same ledger.

        Privacy: `joined[name]` gives, for each attribute that `name` joins, the new code of each old code and the
        number of new codes: public facts. The joint code of a row depends on that row only, so it still adds one to one
        cell of each marginal and every sensitivity is unchanged. Attributes that are left out are not queried.
        """
        public = None if self._public is None else self._public.arrange(joined, kept)
        return self._beside(self._engine.arrange(joined, kept), self._part, public=public)

    def rest(self, later: float = 0.0) -> Curator:
        """Return a curator over the same rows whose shares refer to the remaining budget, not to the whole.

        It leaves the part `later` of what remains.
        """
        made = self._beside(self._engine, self._part, self._whole * self.left * (1 - later))
        made._kept_back += later * self.left * self._capacity  # noqa: SLF001 (same class)
        return made

    def of_table(self, name: str, later: float) -> Curator:
        """Return a curator whose charges name a table of a database and leave the share `later` of the budget."""
        made = self._beside(self._engine, self._part)
        made._table, made._kept_back = name, later * self._ledger.capacity  # noqa: SLF001 (same class)
        return made

    def split(self, chances: Mapping[str, float], queried: Sequence[str] = ()) -> dict[str, Curator]:
        """Partition the rows by secret coins; return a curator per part, each with the whole remaining budget.

        With `queried`, only these parts are queried with noise, and each has a larger budget: amplification by sampling
        is spent, where it holds for the whole run (`Ledger.can_amplify`).

        Privacy: one coin per privacy unit, from the operating system's entropy and never released, puts the unit's rows
        in a part with the given probability, or in none. Neighbouring tables then yield neighbouring tables in one part
        and equal ones in all others (`weft.engines.recoding`), so costs do not add up over parts: the ledger counts the
        part with the largest cost (`Ledger.branches`). A run partitions its rows once. Nothing is released.
        """
        self._engine.check_order()  # before anything is charged
        told = ", ".join(f"{part} {chance:.3g}" for part, chance in chances.items())
        alone = self._whole == 1 and not self._kept_back and self._ledger.can_amplify
        rate = math.fsum(chances[part] for part in queried) if queried and alone else 1.0
        question = f"secret random partition of the rows: {told}"
        charge = self._enter(Charge.coins(question, chances=chances, queried=min(rate, 1.0)))
        views = self._engine.split(list(chances.values()), lambda names: self._release(charge, [names])[0])
        return {part: self._beside(view, part) for part, view in zip(chances, views, strict=True)}

    def _beside(self, engine: Engine, part: str, whole: float | None = None, public: Engine | None = None) -> Curator:
        """Return a curator over other rows or codes of this table (`public` None: unchanged); same ledger and noise."""
        left = self._whole if whole is None else whole
        public = self._public if public is None else public
        curator = Curator(engine, self._ledger, self._release, left, self._cells, public)
        if part == self._part:  # counts of a part of the rows differ from those of the table
            curator._released = self._released
        curator._part, curator._coding = part, self._coding
        curator._table, curator._kept_back, curator._bound = self._table, self._kept_back, self._bound
        return curator


class DryRunError(Exception):
    """The method made its first query."""


@dataclass(frozen=True)
class _Seats:
    """An engine without rows: it has only the attributes, and whether the rows can be partitioned."""

    domain: Domain
    engine: Engine

    @property
    def mass(self) -> int | None:
        """Maximum total weight of a unit's rows, as in the engine."""
        return getattr(self.engine, "mass", None)

    def check_order(self) -> None:
        self.engine.check_order()

    def count(self, cliques: Sequence[Clique]) -> list[Counts]:
        """Count all rows only, for the one check that depends on their number (decision 008)."""
        if any(cliques):
            raise DryRunError
        return self.engine.count(cliques)


class DryRunCurator(Curator):
    """A curator for dry runs: a method runs up to its first query, so that it raises its errors before any charge."""

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
        """Create the stand-in for a curator over this domain with a part of the current whole."""
        super().__init__(_Seats(domain, engine), ledger, release, whole * part, public=public)  # type: ignore[arg-type]
        self._before = (1 - part) / part

    def left_with(self, slack: float) -> float:
        """Return the share that will be left for the method, minus the slack."""
        return super().left_with(slack) - self._before

    def _enter(self, charge: Charge) -> Charge:
        raise DryRunError

    def _beside(self, engine: Engine, part: str, whole: float | None = None, public: Engine | None = None) -> Curator:
        """End the dry run: a derived curator would hold real rows."""
        raise DryRunError
