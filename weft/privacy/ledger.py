"""What was asked of the private rows and what it cost: append-only, written before any row is read."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

from weft.display import render_table_html
from weft.errors import BudgetError, ModelFileError, WeftError
from weft.privacy import conversions as convert
from weft.privacy.accounting import Accounting, AccountingLike, find_accounting
from weft.privacy.budget import Budget
from weft.privacy.charge import Charge
from weft.privacy.journal import Journal, fingerprint_table
from weft.privacy.lifetime import Lifetime, LifetimeAccount, lifetime_statement
from weft.privacy.noise import LAW_ERROR
from weft.privacy.sensitivity import Adjacency

# The guarantee of a run: the conversion of its charges to an epsilon at a delta, and the statement of a release.

DENIABILITY = (
    "PLAUSIBLE DENIABILITY, NOT DIFFERENTIAL PRIVACY: records may have been grown from private rows, behind a test "
    "that other rows could have been their seeds; no epsilon holds for them"
)
"""Stamp of a run that releases deniable records without differential privacy. Model files and cards contain it."""


@dataclass(frozen=True)
class Statement:
    """The guarantee of a finished run."""

    epsilon: float
    """Epsilon of the budget at its delta, an upper bound of what was spent. Infinite if no guarantee holds."""
    delta: float
    """The budget's delta (0 when pure) plus `law_error`."""
    law_error: float
    """Contribution to delta of the distance between the noise draws and their ideal distributions."""
    unit: str
    """The neighbouring relation in words, which defines the privacy unit."""
    stamps: tuple[str, ...]
    """Warnings that qualify the guarantee, such as NOT PRIVATE."""

    def __str__(self) -> str:
        if DENIABILITY in self.stamps:
            return " | ".join(self.stamps)
        bound = f"({convert.at_most(self.epsilon)}, {convert.at_most(self.delta, 3)})"
        return " | ".join([*self.stamps, f"{bound}-differential privacy, neighbours: {self.unit}"])


def mixture_epsilon(
    branches: Mapping[str, tuple[float, float]],
    parts: Mapping[str, float],
    accounting: Accounting,
    adjacency: Adjacency,
    delta: float,
) -> float:
    """Return the epsilon of a unit whose part of the rows is secret; `branches` are cost and slack of each part.

    Not every part costs the same. Pure: add a unit. It is in part a with chance p_a, and then no outcome is likelier
    than before by more than e^(epsilon_a): ln sum p_a e^(epsilon_a) bounds the mixture, and in the other direction
    1 / sum p_a e^(-epsilon_a), which is less. A replaced unit has no such common ground: the largest epsilon_a holds.
    Gaussian: the hockey-stick divergence is jointly convex, so delta(epsilon) is at most the mean of the parts' own,
    and so is the slack. zCDP: the largest epsilon of a part.
    """
    chances = {"": max(0.0, 1 - math.fsum(parts.values()))} | dict(parts)
    if accounting.is_pure and adjacency.relation == "add-remove":
        top = max(cost for cost, _ in branches.values())  # taken out of the sum, so that it cannot overflow
        mixed = math.fsum(chances[part] * math.exp(cost - top) for part, (cost, _) in branches.items())
        return max(0.0, min(top, top + math.log(mixed)))
    if accounting.is_exact_gaussian and parts:
        slack = math.fsum(chances[part] * slack for part, (_, slack) in branches.items())
        mus = [(chances[part], math.sqrt(2 * cost)) for part, (cost, _) in branches.items()]
        return _with_slack(lambda left: _mixed_epsilon(mus, left), delta, slack)
    return max(
        _with_slack(lambda left, cost=cost: accounting.find_epsilon(cost, left), delta, slack)  # type: ignore[misc]
        for cost, slack in branches.values()
    )


def _with_slack(epsilon_at: Callable[[float], float], delta: float, slack: float) -> float:
    """Return the epsilon that holds at a delta of which slack t takes (1 + e^epsilon) t (`Ledger.spend_statement`).

    It is the least solution of epsilon = epsilon_at(delta - (1 + e^epsilon) t), found from below, where the right side
    grows, and then checked a little above; infinity if there is none.
    """
    epsilon = epsilon_at(delta)
    for _ in range(200 if slack else 0):
        beyond = epsilon * (1 + 1e-9) + 1e-12
        left = delta - (1 + math.exp(min(beyond, 700.0))) * slack
        if left <= 0:
            return math.inf
        epsilon = epsilon_at(left)
        if epsilon <= beyond:
            return beyond
    return math.inf if slack else epsilon


def _mixed_epsilon(mus: Sequence[tuple[float, float]], delta: float) -> float:
    """Return the epsilon at which the mean of the deltas of Gaussian DP, over (chance, mu), is at most delta."""
    low, high = 0.0, convert.gdp_epsilon(max(mu for _, mu in mus), delta)
    for _ in range(100 if math.isfinite(high) else 0):
        middle = (low + high) / 2
        mean = math.fsum(chance * convert.gdp_delta(mu, middle) for chance, mu in mus)
        low, high = (low, middle) if mean <= delta else (middle, high)
    return high


_ROUNDING = 1e-10
"""Relative slack when costs are summed; the reserve that every capacity keeps back is ten times larger."""

_MAX_QUERY_WIDTH = 56
"""Characters of a question that the printed table shows."""


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
        accounting: AccountingLike,
        adjacency: Adjacency,
        *,
        journal: Path | None = None,
        stamps: tuple[str, ...] = (),
        lifetime: LifetimeAccount | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """Open the books of a run.

        Args:
            budget: what may be spent.
            accounting: how costs add up; an accounting, or its name.
            adjacency: who is protected.
            journal: a file to which every charge is appended before the rows are asked.
            stamps: warnings that go on everything released.
            lifetime: the run's hand on the table's lifetime budget, in which every charge is entered too.
            facts: what else the journal tells of the run, such as its source.
        """
        self.budget: Final = budget
        self.accounting: Final[Accounting] = find_accounting(accounting)
        self.adjacency: Final = adjacency
        self._whole = budget.capacity(accounting)
        self._entries: list[Charge] = []
        self._stamps = list(dict.fromkeys((*stamps, *(["INSECURE BUDGET"] if budget.insecure else []))))
        self._lock = threading.Lock()
        self._account = lifetime
        self._closed = False
        self._aside = 0.0
        self.lifetime: Mapping[str, Any] | None = None if lifetime is None else lifetime.statement()
        self._journal: Journal | None = None
        if journal is not None:
            self._journal = Journal.begin(
                Path(journal), self._header() | dict(facts or {}) | {"time": _format_current_time()}
            )
            for text in self._stamps:
                self._journal.write_stamp(text)

    def _header(self) -> dict[str, Any]:
        return {
            "budget": self.budget.to_dict(),
            "accounting": self.accounting.name,
            "adjacency": self.adjacency.to_dict(),
            "capacity": self._whole,
        }

    @property
    def run(self) -> str | None:
        """The id under which the journal has the charges; None without one."""
        return None if self._journal is None else self._journal.run

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
        """What was spent on any one unit, in rho, or in epsilon under pure accounting.

        The sum of the costs; of those on parts of the rows, the largest sum that any part has.
        """
        return max(cost for cost, _ in self._branches().values())

    @property
    def used(self) -> float:
        """Share of the budget that was spent on the unit that paid most, slack included."""
        return max(cost / self._capacity(slack) for cost, slack in self._branches().values())

    @property
    def deniable(self) -> bool:
        """Whether records have left for which no differential privacy is claimed; the costs are those of the model."""
        return any(not entry.definition.is_private for entry in self._entries)

    @property
    def parts(self) -> dict[str, float]:
        """The parts into which coins have divided the rows, with the chance of each; empty if they did not."""
        return next((dict(entry.terms) for entry in self._entries if entry.definition.divides_rows), {})

    def _branches(self) -> dict[str, tuple[float, float]]:
        """Return cost and slack of a unit in each part, and under "" of one in none: what was asked of all rows.

        Parallel composition, also where the questions to one part follow from answers of another. Coins that do not
        depend on the rows put a unit into one part (`weft.engines.recoding`). Fix the coins: tables that differ in a
        unit of part a are equal in every other part, so whatever is asked there is a random function of the answers so
        far, the same on both, and costs nothing. What is left is the composition of the questions to part a and to all
        rows. This holds for each a, and coins have the same law on both tables: the largest sum is a bound whatever
        they are.
        """
        return {
            part: (
                math.fsum(entry.cost for entry in self._entries if entry.part in ("", part)),
                math.fsum(entry.slack for entry in self._entries if entry.part in ("", part)),
            )
            for part in ("", *self.parts)
        }

    @property
    def capacity(self) -> float:
        """What may be spent, in rho, or in epsilon under pure accounting.

        Slack is paid from delta first, so that a charge with slack makes the capacity smaller, and so does slack that
        was set aside for one that may yet come.
        """
        return self._capacity(self.slack + self._aside)

    @property
    def slack(self) -> float:
        """Total-variation distance of the answers from others that have exactly the cost that was charged."""
        return max(slack for _, slack in self._branches().values())

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

    def set_aside(self, slack: float) -> None:
        """Keep slack for a charge that may come, or not, as noisy answers say: no other charge can take it any more.

        To be called before the first of these answers. It is kept to the end of the run if that charge never comes:
        given back, the ways with and without it would together cost more of delta than there is.
        """
        self._capacity(self.slack + self._aside + slack)  # refuses what delta cannot pay
        self._aside += slack

    def left_with(self, slack: float, part: str = "") -> float:
        """Return what would be left for a part of the rows, or for all, if this much slack were paid for too."""
        branches = self._branches()
        asked = [branches[part]] if part else branches.values()
        return max(0.0, min(self._capacity(before + slack + self._aside) - cost for cost, before in asked))

    def charge(self, charge: Charge) -> Charge:
        """Price a question, and record it or refuse it; only after this returns may a row be touched.

        The price comes from the sensitivity and the scale, never from the caller. BudgetError: it would
        overspend, or the noise does not fit the accounting. OutputError: the journal cannot be written.
        Either way nothing is asked. With a journal or a lifetime budget, the entry is on the disk when this returns,
        so a crash cannot lose it.

        A charge with slack makes the capacity smaller. A method that may make one must keep to `left_with` all of its
        slack from before the first noisy answer that decides whether it does: if it spent more on the way without, the
        two ways together would overspend delta. What others may spend later is kept from them by `set_aside`, and the
        slack of discovery is taken from there.
        """
        if not charge.definition.is_private:
            self.stamp(DENIABILITY)
        if self._closed:
            raise BudgetError("this run is over: its lifetime budget has taken back what was left of it")
        with self._lock:
            entry = replace(charge, cost=self._afford(charge), time=_format_current_time())
            if self._account is not None:
                self._account.charge(entry)
            if self._journal is not None:
                self._journal.write(entry.to_dict() | {"time": entry.time})
            self._aside = self._aside_after(entry)
            self._entries.append(entry)
            return entry

    def _aside_after(self, charge: Charge) -> float:
        return max(0.0, self._aside - charge.slack) if charge.purpose == "discovery" else self._aside

    def close(self) -> None:
        """End the run: what a lifetime budget had set aside for it and it did not spend is given back."""
        if self._account is not None:
            self._closed = True
            self._account.end()
            self.lifetime = self._account.statement()

    def _afford(self, charge: Charge) -> float:
        self._check_part(charge)
        charge.definition.check_unit(charge, self.adjacency)
        cost = charge.price(self.accounting)
        branches, needed = self._branches(), charge.slack + self._aside_after(charge)
        for before, slack in [branches[charge.part]] if charge.part else branches.values():
            if not before + cost <= self._capacity(slack + needed) * (1 + _ROUNDING):
                raise BudgetError(
                    f"{charge.question!r} would cost {cost / self.capacity:.2%} of the budget, but only "
                    f"{self.left_with(0.0, charge.part) / self.capacity:.2%} is left: raise the budget, ask less, or "
                    "take more noise"
                )
        return cost

    def _check_part(self, charge: Charge) -> None:
        """Refuse parts that were never divided, and a second division: a part's name means one set of rows."""
        if charge.definition.divides_rows:
            chances = charge.terms.values()
            if self.parts or charge.part:
                raise BudgetError("the rows of a run can be divided into parts only once")
            if not charge.terms or "" in charge.terms or not (min(chances) > 0 and sum(chances) <= 1 + 1e-9):
                raise BudgetError("parts of the rows need names, and chances above 0 of at most 1 together")
        elif charge.part and charge.part not in self.parts:
            raise BudgetError(f"the rows were not divided: there is no part {charge.part!r}")

    def share(self, entry: Charge, digits: int = 2) -> str:
        """Say what part of the budget an entry took."""
        return f"{entry.cost / self._whole:.{digits}%}" if entry.definition.is_private else "unpriced"

    def stamp(self, text: str) -> None:
        """Put a warning on everything released from this run."""
        with self._lock:
            if text not in self._stamps:
                if self._journal is not None:
                    self._journal.write_stamp(text)
                self._stamps.append(text)

    def spent_epsilon(self, delta: float | None = None) -> float:
        """Return the spend as an epsilon at a delta (default: the budget's), slack included; infinity if none holds.

        None holds once deniable records have left, whatever the model cost.
        """
        if self.deniable:
            return math.inf
        whole = delta is None and self.budget.epsilon is not None
        delta = self.budget.delta if delta is None else delta
        spent = mixture_epsilon(self._branches(), self.parts, self.accounting, self.adjacency, delta)
        # What was afforded fits the budget; the conversion back may end a hair above it.
        return min(spent, self.budget.epsilon or spent) if whole else spent

    def spend_statement(self) -> Statement:
        """Return the guarantee of the run, with the error of the noise laws in delta.

        The epsilon is the budget's, fixed before the first answer. What was really spent may depend on noisy answers,
        and a guarantee stated for it afterwards would need an odometer's accounting.

        Let t bound the total-variation distance of all noise from its ideal law (one term a draw). Then
        P(out) <= P_ideal(out) + t <= e^eps P_ideal'(out) + delta + t <= e^eps P'(out) + delta + (1 + e^eps)
        t.
        """
        if self.deniable:
            return Statement(math.inf, 1.0, 0.0, str(self.adjacency), self.stamps)
        given = self.budget.epsilon
        epsilon = given if given is not None else self.accounting.find_epsilon(self.capacity, self.budget.delta)
        draws = sum(entry.draws for entry in self._entries)
        law_error = draws * LAW_ERROR * (1 + math.exp(min(epsilon, 700.0)))
        delta = self.accounting.find_delta(self.budget.delta)
        return Statement(epsilon, min(1.0, delta + law_error), law_error, str(self.adjacency), self.stamps)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values: what a saved model or a release carries."""
        return self._header() | {
            "stamps": list(self._stamps),
            "entries": [entry.to_dict() for entry in self._entries],
            "lifetime": None if self.lifetime is None else dict(self.lifetime),
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
            if ledger.deniable:
                ledger.stamp(DENIABILITY)
            ledger.lifetime = lifetime_statement(values.get("lifetime"))
        except (AttributeError, KeyError, TypeError, ValueError, ArithmeticError, BudgetError) as error:
            why = f": {error}" if isinstance(error, BudgetError) else ""  # other texts quote the file
            raise ModelFileError(f"the ledger in this file is damaged or contradicts itself{why}") from None
        return ledger

    def __str__(self) -> str:
        rows = [("query", "noise", "cost")]
        rows += [(_shorten_query(e.question), e.noise, self.share(e)) for e in self._entries]
        rows += [("spent on the model" if self.deniable else "spent", "", f"{self.used:.2%}")]
        wide = [max(len(row[i]) for row in rows) for i in range(3)]
        lines = [f"{q:<{wide[0]}}  {n:<{wide[1]}}  {c:>{wide[2]}}" for q, n, c in rows]
        rule = "-" * len(lines[0])
        head = f"budget: {self.budget}, {self.accounting} accounting, {self.adjacency}"
        return "\n".join([*self._stamps, head, "", lines[0], rule, *lines[1:-1], rule, lines[-1]])

    def _repr_html_(self) -> str:
        head = ["query", "noise", "share of the budget"]
        rows = [(entry.question, entry.noise, self.share(entry, 1)) for entry in self._entries]
        return render_table_html(f"budget: {self.budget}, {self.adjacency}", head, rows, " ".join(self._stamps))


def _shorten_query(question: str) -> str:
    return question if len(question) <= _MAX_QUERY_WIDTH else question[: _MAX_QUERY_WIDTH - 3] + "..."


def _format_current_time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# The books of one run: its ledger, and its hand on the table's lifetime budget, which is taken back at the end.

Terms = tuple[Adjacency, str, Budget, AccountingLike]
"""Who is protected, what a unit is called, what may be spent, and how it is counted."""


@contextmanager
def open_run_ledger(
    terms: Terms,
    lifetime: Lifetime | None,
    *,
    journal: Path | None,
    stamps: tuple[str, ...],
    facts: Mapping[str, Any],
) -> Iterator[Ledger]:
    """Open a ledger for a run; `facts` are what else its journal tells: the source and the method.

    The identity of the table among them, its whole path or address, is entered as a salted hash.
    """
    told = {name: value for name, value in facts.items() if name != "identity"}
    if journal is not None and facts.get("identity") is not None:
        told |= fingerprint_table(journal, facts["identity"])
    account = None if lifetime is None else lifetime.begin(*terms, method=facts["method"], source=facts["source"])
    adjacency, _, budget, accounting = terms
    try:
        ledger = Ledger(budget, accounting, adjacency, journal=journal, stamps=stamps, lifetime=account, facts=told)
        yield ledger
    finally:
        if account is not None:
            with suppress(WeftError):  # what it held is free once this process ends
                account.end()
    with suppress(WeftError):  # every charge is entered; only the newest hash would be missing
        ledger.close()
