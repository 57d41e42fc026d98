"""What was asked of the private rows and what it cost: append-only, written before any row is read."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

from weft.errors import BudgetError, ModelFileError
from weft.privacy import accounting as convert
from weft.privacy.budget import Accounting, Budget
from weft.privacy.charge import Charge as Charge
from weft.privacy.journal import Journal
from weft.privacy.noise import LAW_ERROR
from weft.privacy.sensitivity import Adjacency

_ROUNDING = 1e-10
"""Relative slack when costs are summed; the reserve that every capacity keeps back is ten times larger."""

_WIDEST_QUESTION = 56
"""Characters of a question that the printed table shows."""


@dataclass(frozen=True)
class Statement:
    """The guarantee of a run, in the end."""

    epsilon: float
    """What the budget allows, as an epsilon at its delta; what was spent is never more."""
    delta: float
    """The budget's delta (0 when pure) plus `law_error`."""
    law_error: float
    """What the distance of all draws from their ideal laws adds to delta."""
    unit: str
    """Whom it protects: the neighbour relation in words."""
    stamps: tuple[str, ...]
    """What a reader must know before trusting it, such as NOT PRIVATE."""

    def __str__(self) -> str:
        bound = f"({convert.at_most(self.epsilon)}, {convert.at_most(self.delta, 3)})"
        return " | ".join([*self.stamps, f"{bound}-differential privacy, neighbours: {self.unit}"])


class Ledger:
    """One run's spending: every charge is priced here, and what the budget cannot pay is refused.

    >>> ledger = Ledger(Budget(rho=0.1), "gaussian", Adjacency())
    >>> _ = ledger.charge(Charge.gaussian("count of age", sensitivity=1.0, scale=5.0, draws=9))
    >>> round(ledger.spent, 3), round(ledger.left, 3)
    (0.02, 0.08)
    """

    def __init__(
        self,
        budget: Budget,
        accounting: Accounting,
        adjacency: Adjacency,
        *,
        journal: Path | None = None,
        stamps: tuple[str, ...] = (),
    ) -> None:
        self.budget: Final = budget
        self.accounting: Final[Accounting] = accounting
        self.adjacency: Final = adjacency
        self._whole = budget.capacity(accounting)
        self._entries: list[Charge] = []
        self._stamps = list(dict.fromkeys((*stamps, *(["INSECURE BUDGET"] if budget.insecure else []))))
        self._lock = threading.Lock()
        self._journal: Journal | None = None
        if journal is not None:
            self._journal = Journal.begin(Path(journal), self._header() | {"time": _now()})
            for text in self._stamps:
                self._journal.write({"stamp": text})

    def _header(self) -> dict[str, Any]:
        return {
            "budget": self.budget.to_dict(),
            "accounting": self.accounting,
            "adjacency": self.adjacency.to_dict(),
            "capacity": self._whole,
        }

    @property
    def entries(self) -> tuple[Charge, ...]:
        """What was charged, in order."""
        return tuple(self._entries)

    @property
    def stamps(self) -> tuple[str, ...]:
        """Warnings that go on everything released."""
        return tuple(self._stamps)

    @property
    def spent(self) -> float:
        """Sum of the costs, in rho, or in epsilon under pure accounting."""
        return math.fsum(entry.cost for entry in self._entries)

    @property
    def capacity(self) -> float:
        """What may be spent, in rho, or in epsilon under pure accounting.

        Slack is paid from delta first, so that a charge with slack makes the capacity smaller.
        """
        return self._capacity(self.slack)

    @property
    def slack(self) -> float:
        """Total-variation distance of the answers from others that have exactly the cost that was charged."""
        return math.fsum(entry.slack for entry in self._entries)

    def _delta(self, slack: float) -> float:
        # As for the noise laws (`spend_statement`): a distance t adds (1 + e^epsilon) t to delta.
        return self.budget.delta - slack * (1 + math.exp(min(self.budget.epsilon or 0.0, 700.0)))

    def _capacity(self, slack: float) -> float:
        if slack == 0:
            return self._whole
        if self.budget.unit != "epsilon" or self._delta(slack) <= 0:
            raise BudgetError("an answer with slack needs a budget in epsilon, with a delta that can pay for it")
        return replace(self.budget, delta=self._delta(slack)).capacity(self.accounting)

    @property
    def left(self) -> float:
        """What remains of the capacity, never below 0."""
        return self.left_with(0.0)

    def left_with(self, slack: float) -> float:
        """Return what would be left if this much slack were paid for too."""
        return max(0.0, self._capacity(self.slack + slack) - self.spent)

    def charge(self, charge: Charge) -> Charge:
        """Price a question, and record it or refuse it; only after this returns may a row be touched.

        The price comes from the sensitivity and the scale, never from the caller. BudgetError: it would
        overspend, or the noise does not fit the accounting. OutputError: the journal cannot be written.
        Either way nothing is charged. With a journal, the entry is on the disk when this returns, so a
        crash cannot lose it.
        """
        with self._lock:
            entry = replace(charge, cost=self._afford(charge), time=_now())
            if self._journal is not None:
                self._journal.write(entry.to_dict() | {"time": entry.time})
            self._entries.append(entry)
            return entry

    def _afford(self, charge: Charge) -> float:
        cost = charge.price(self.accounting)
        after = math.fsum([*(entry.cost for entry in self._entries), cost])
        if not after <= self._capacity(self.slack + charge.slack) * (1 + _ROUNDING):
            raise BudgetError(
                f"{charge.question!r} would cost {cost / self.capacity:.2%} of the budget, but only "
                f"{self.left / self.capacity:.2%} is left: raise the budget, ask less, or take more noise"
            )
        return cost

    def stamp(self, text: str) -> None:
        """Put a warning on everything released from this run."""
        with self._lock:
            if text not in self._stamps:
                if self._journal is not None:
                    self._journal.write({"stamp": text})
                self._stamps.append(text)

    def spent_epsilon(self, delta: float | None = None) -> float:
        """Return the spend as an epsilon at a delta (default: the budget's)."""
        return self._epsilon_of(self.spent, self._delta(self.slack) if delta is None else delta)

    def _epsilon_of(self, cost: float, delta: float) -> float:
        if self.accounting == "pure":
            return cost
        if self.accounting == "gaussian":
            return convert.gdp_epsilon(math.sqrt(2 * cost), delta)
        if self.accounting == "zcdp":
            return convert.zcdp_epsilon(cost, delta)
        return convert.zcdp_epsilon_closed_form(cost, delta)

    def spend_statement(self) -> Statement:
        """Return the guarantee of the run, with the error of the noise laws in delta.

        The epsilon is the budget's, fixed before the first answer. What was really spent may depend on noisy answers,
        and a guarantee stated for it afterwards would need an odometer's accounting.

        Let t bound the total-variation distance of all noise from its ideal law (one term a draw). Then
        P(out) <= P_ideal(out) + t <= e^eps P_ideal'(out) + delta + t <= e^eps P'(out) + delta + (1 + e^eps)
        t.
        """
        given = self.budget.epsilon
        epsilon = given if given is not None else self._epsilon_of(self.capacity, self.budget.delta)
        draws = sum(entry.draws for entry in self._entries)
        law_error = draws * LAW_ERROR * (1 + math.exp(min(epsilon, 700.0)))
        delta = 0.0 if self.accounting == "pure" else self.budget.delta
        return Statement(epsilon, min(1.0, delta + law_error), law_error, str(self.adjacency), self.stamps)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values: what a saved model or a release carries."""
        return self._header() | {
            "stamps": list(self._stamps),
            "entries": [entry.to_dict() for entry in self._entries],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Rebuild a ledger from what `to_dict` gave; costs are priced anew, and an overspent one is refused."""
        try:
            budget, adjacency = Budget.from_dict(values["budget"]), Adjacency.from_dict(values["adjacency"])
            ledger = cls(budget, values["accounting"], adjacency, stamps=tuple(map(str, values["stamps"])))
            for entry in values["entries"]:
                charge = Charge.from_dict(entry)
                ledger._entries.append(replace(charge, cost=ledger._afford(charge)))
        except (KeyError, TypeError, ValueError, ArithmeticError, BudgetError) as error:
            raise ModelFileError(f"the ledger in this file is damaged or contradicts itself: {error}") from error
        return ledger

    def __str__(self) -> str:
        rows = [("question", "noise", "cost")]
        rows += [(_short(e.question), e.noise, f"{e.cost / self.capacity:.2%}") for e in self._entries]
        rows += [("spent", "", f"{self.spent / self.capacity:.2%}")]
        wide = [max(len(row[i]) for row in rows) for i in range(3)]
        lines = [f"{q:<{wide[0]}}  {n:<{wide[1]}}  {c:>{wide[2]}}" for q, n, c in rows]
        rule = "-" * len(lines[0])
        head = f"budget: {self.budget}, {self.accounting} accounting, {self.adjacency}"
        return "\n".join([*self._stamps, head, "", lines[0], rule, *lines[1:-1], rule, lines[-1]])


def _short(question: str) -> str:
    return question if len(question) <= _WIDEST_QUESTION else question[: _WIDEST_QUESTION - 3] + "..."


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
