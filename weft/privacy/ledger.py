"""The ledger of a run: every query and its cost, append-only, recorded before any row is read."""

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from weft.display import render_table_html
from weft.errors import BudgetError, ModelFileError, WeftError
from weft.privacy import conversions as convert
from weft.privacy.accounting import Accounting, AccountingLike, find_accounting
from weft.privacy.budget import Budget
from weft.privacy.charge import Charge
from weft.privacy.journal import Journal, Run, fingerprint_table
from weft.privacy.lifetime import Lifetime, LifetimeAccount, get_current_time, lifetime_statement
from weft.privacy.noise import LAW_ERROR
from weft.privacy.sensitivity import Adjacency

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
    """Return the epsilon of a unit whose part of the rows is secret; `branches` gives the cost and slack of each part.

    Privacy: parts may have different costs. Pure DP, add-remove: the added unit is in part a with probability p_a, and
    then no outcome becomes more likely by a factor above e^(epsilon_a): ln sum p_a e^(epsilon_a) bounds the mixture; in
    the other direction the bound is 1 / sum p_a e^(-epsilon_a), which is smaller. For replace-one there is no common
    term: the largest epsilon_a holds. Gaussian: the hockey-stick divergence is jointly convex, so delta(epsilon) is at
    most the mean over the parts, and so is the slack. zCDP: the largest epsilon of a part.
    """
    chances = {"": max(0.0, 1 - math.fsum(parts.values()))} | dict(parts)
    if accounting.is_pure and adjacency.relation == "add-remove":
        top = max(cost for cost, _ in branches.values())  # factored out of the sum to avoid overflow
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
    """Return the epsilon at a delta from which slack t takes (1 + e^epsilon) t (`Ledger.spend_statement`).

    It is the smallest solution of epsilon = epsilon_at(delta - (1 + e^epsilon) t), approached from below, where the
    right side increases, and then verified slightly above; infinity if there is none.
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
    """Return the epsilon at which the mean delta of Gaussian DP over (probability, mu) is at most delta."""
    low, high = 0.0, convert.gdp_epsilon(max(mu for _, mu in mus), delta)
    for _ in range(100 if math.isfinite(high) else 0):
        middle = (low + high) / 2
        mean = math.fsum(chance * convert.gdp_delta(mu, middle) for chance, mu in mus)
        low, high = (low, middle) if mean <= delta else (middle, high)
    return high


_ROUNDING = 1e-10
"""Relative tolerance for sums of costs; the reserve that every capacity keeps back is ten times larger."""

_MAX_QUERY_WIDTH = 56


class Ledger:
    """The charges of one run: each charge is priced here, and refused if the budget does not cover it.

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
        """Open the ledger of a run.

        `journal` and the `lifetime` account record every charge before the rows are queried; `stamps` are warnings for
        everything that is released; `facts` are further fields of the journal's header, such as the source.
        """
        self.budget: Final = budget
        self.accounting: Final[Accounting] = find_accounting(accounting)
        self.adjacency = adjacency
        """The neighbouring relation and the contribution bound, which `bound_contributions` may lower."""
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
                Path(journal), self._header() | dict(facts or {}) | {"time": get_current_time()}
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

    def bound_contributions(self, rows: int) -> None:
        """Lower the contribution bound of all later queries to `rows` per unit.

        Privacy: `rows` must depend on released answers only. Every charge states its own sensitivity, so earlier
        charges stay valid. Later queries read a table that was opened with this bound, hence truncated to it with fresh
        randomness (`weft.engines.privacy_units`), and compose adaptively with the earlier ones.
        """
        if rows > self.adjacency.rows_per_unit:
            raise BudgetError("a contribution bound can only be lowered during a run")
        self.adjacency = replace(self.adjacency, rows_per_unit=rows)
        if self._journal is not None:
            self._journal.write_bound(rows)

    @property
    def run(self) -> str | None:
        """Id of the run in the journal; None without a journal."""
        return None if self._journal is None else self._journal.run

    @property
    def entries(self) -> tuple[Charge, ...]:
        """The charges, in order."""
        return tuple(self._entries)

    @property
    def stamps(self) -> tuple[str, ...]:
        """Warnings for everything that is released."""
        return tuple(self._stamps)

    @property
    def spent(self) -> float:
        """Amount spent on any one unit, in rho or pure epsilon: the sum of costs, of parts only the largest one's."""
        return max(cost for cost, _ in self.branches().values())

    @property
    def used(self) -> float:
        """Share of the budget spent on the unit with the largest cost, including slack."""
        return max(cost / self._capacity(slack) for cost, slack in self.branches().values())

    @property
    def deniable(self) -> bool:
        """Whether records were released without differential privacy; costs then refer to the model only."""
        return any(not entry.definition.is_private for entry in self._entries)

    @property
    def parts(self) -> dict[str, float]:
        """Parts of the rows with their probabilities, if secret coins have partitioned the rows; else empty."""
        return next((dict(entry.terms) for entry in self._entries if entry.definition.divides_rows), {})

    def branches(self) -> dict[str, tuple[float, float]]:
        """Return the cost and slack of a unit in each part; "" is a unit in no part: queries to all rows only.

        Privacy: parallel composition, even if the queries to one part depend on answers from another. Coins independent
        of the rows put a unit in one part (`weft.engines.recoding`). Fix the coins: tables that differ in a unit of
        part a are equal in every other part, so the answers there are a random function of the previous answers, the
        same on both tables, and cost nothing. What remains is the composition of the queries to part a and to all rows.
        This holds for each a, and the coins have the same distribution on both tables: the largest sum is a bound for
        all coins.
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
        """Amount that may be spent, in rho or pure epsilon; slack, charged or set aside, reduces delta first."""
        return self._capacity(self.slack + self._aside)

    @property
    def slack(self) -> float:
        """Total-variation distance between the answers and answers that satisfy their costs exactly."""
        return max(slack for _, slack in self.branches().values())

    def _delta(self, slack: float) -> float:
        # As for the noise laws (`spend_statement`): a distance t adds (1 + e^epsilon) t to delta.
        return self.budget.delta - slack * (1 + math.exp(min(self.budget.epsilon or 0.0, 700.0)))

    @property
    def _queried(self) -> float:
        """Probability that a unit is in a part that is queried, if amplification by sampling is spent; else 1."""
        return next((entry.scales[0] for entry in self._entries if entry.definition.divides_rows), 1.0)

    @property
    def can_amplify(self) -> bool:
        """Whether amplification by sampling can be spent: nothing was charged, and the budget is an epsilon of its own.

        Privacy: a part's queries are (e, d)-DP by parallel composition (`_branches`). If no other query is made, and a
        unit is in a queried part with probability p, the run is (ln(1 + p (exp(e) - 1)), p d)-DP. With M the run
        without the unit and N that with the unit in a queried part, the unit's run is p N + (1 - p) M. As N <= exp(e) M
        + d, it is at most (1 + p (exp(e) - 1)) M + p d. As M <= exp(e) N + d, M - (1 + p x) (p N + (1 - p) M), x =
        exp(e) - 1, is at most p ((1 - (1 - p) x) M - (1 + p x) N); where the factor of M is positive, it is at most 1
        and (1 + p x) / (1 - (1 - p) x) >= exp(e), so this is at most p d. Neighbours must add or remove the unit.
        """
        clean = not any(entry.cost or entry.slack or entry.definition.divides_rows for entry in self._entries)
        own = self.budget.unit == "epsilon" and self._account is None and self._aside == 0
        return clean and own and self.adjacency.relation == "add-remove"

    def _capacity(self, slack: float) -> float:
        queried = self._queried
        if slack == 0 and queried == 1:
            return self._whole
        delta = self.budget.delta if slack == 0 else self._delta(slack)
        if self.budget.epsilon is None or (slack and delta <= 0):
            raise BudgetError("a query with slack needs a budget in epsilon with a delta large enough to cover it")
        epsilon = self.budget.epsilon if queried == 1 else convert.amplify(self.budget.epsilon, 1 / queried)
        return replace(self.budget, epsilon=epsilon, delta=delta / queried).capacity(self.accounting)

    @property
    def left(self) -> float:
        """Remaining capacity, never below 0."""
        return self.left_with(0.0)

    def set_aside(self, slack: float) -> None:
        """Reserve slack for a charge that is made or not depending on noisy answers; no other charge can use it.

        Call it before the first of these answers. The reservation lasts until the end of the run even if the charge is
        never made: if it were returned, the two alternatives together would cost more than delta.
        """
        self._capacity(self.slack + self._aside + slack)  # raises if delta does not cover it
        self._aside += slack

    def left_with(self, slack: float, part: str = "") -> float:
        """Return the remaining capacity for a part of the rows, or for all rows, if this slack were paid too."""
        branches = self.branches()
        asked = [branches[part]] if part else branches.values()
        return max(0.0, min(self._capacity(before + slack + self._aside) - cost for cost, before in asked))

    def charge(self, charge: Charge) -> Charge:
        """Price a query and record it, or refuse it; a row may be read only after this returns.

        The price follows from sensitivity and scale, never from the caller. BudgetError (overspending, or noise that
        the accounting does not support) and OutputError (no journal) are raised before any query. With a journal or a
        lifetime budget, the entry is on disk when this returns, so a crash cannot lose it.

        A charge with slack reduces the capacity. A method that may make one must stay within `left_with` its entire
        slack from before the first noisy answer that decides whether it is made: if the alternative without it spent
        more, the two alternatives together would overspend delta. `set_aside` keeps this slack from later charges of
        others; the slack of discovery is taken from there.
        """
        if not charge.definition.is_private:
            self.stamp(DENIABILITY)
        if self._closed:
            raise BudgetError("this run has ended: its unspent reservation was returned to the lifetime budget")
        with self._lock:
            entry = replace(charge, cost=self._afford(charge), time=get_current_time())
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
        """End the run and return the unspent reservation to the lifetime budget."""
        if self._account is not None:
            self._closed = True
            self._account.end()
            self.lifetime = self._account.statement()

    def _afford(self, charge: Charge) -> float:
        self._check_part(charge)
        charge.definition.check_unit(charge, self.adjacency)
        cost = charge.price(self.accounting)
        branches, needed = self.branches(), charge.slack + self._aside_after(charge)
        for before, slack in [branches[charge.part]] if charge.part else branches.values():
            if not before + cost <= self._capacity(slack + needed) * (1 + _ROUNDING):
                raise BudgetError(
                    f"{charge.question!r} would cost {cost / self.capacity:.2%} of the budget, but only "
                    f"{self.left_with(0.0, charge.part) / self.capacity:.2%} is left: raise the budget, make fewer "
                    "queries, or add more noise"
                )
        return cost

    def _check_part(self, charge: Charge) -> None:
        """Refuse unknown parts and a second partition: the name of a part refers to one set of rows."""
        if charge.definition.divides_rows:
            chances = charge.terms.values()
            if self.parts or charge.part:
                raise BudgetError("the rows of a run can be partitioned only once")
            if not charge.terms or "" in charge.terms or not (min(chances) > 0 and sum(chances) <= 1 + 1e-9):
                raise BudgetError("parts of the rows need names and positive probabilities that sum to at most 1")
            if charge.scales[0] < 1 and not self.can_amplify:
                raise BudgetError("amplification by sampling covers a run only if no query was made to all rows")
        elif charge.part and charge.part not in self.parts:
            raise BudgetError(f"the rows were not partitioned: there is no part {charge.part!r}")
        elif self._queried < 1 and charge.definition.is_private:
            asked = {entry.part for entry in self._entries if entry.cost} | {charge.part}
            rates = {"": math.inf} | self.parts
            if math.fsum(rates[part] for part in asked) > self._queried * (1 + _ROUNDING):
                raise BudgetError("amplification by sampling does not cover a query to all rows, or to other parts")

    def share(self, entry: Charge, digits: int = 2) -> str:
        """Format the share of the budget that an entry cost."""
        return f"{entry.cost / self._capacity(0.0):.{digits}%}" if entry.definition.is_private else "unpriced"

    def stamp(self, text: str) -> None:
        """Add a warning to everything released from this run."""
        with self._lock:
            if text not in self._stamps:
                if self._journal is not None:
                    self._journal.write_stamp(text)
                self._stamps.append(text)

    def spent_epsilon(self, delta: float | None = None) -> float:
        """Return the spending as an epsilon at a delta (default: the budget's), with slack; infinity if none holds.

        None holds once deniable records were released, regardless of the model's cost.
        """
        if self.deniable:
            return math.inf
        whole = delta is None and self.budget.epsilon is not None
        delta = self.budget.delta if delta is None else delta
        if self._queried < 1:
            spent = max(
                _with_slack(partial(self._find_amplified, cost), delta, slack)
                for cost, slack in self.branches().values()
            )
        else:
            spent = mixture_epsilon(self.branches(), self.parts, self.accounting, self.adjacency, delta)
        # Every charge fitted the budget; the conversion back may round slightly above it.
        return min(spent, self.budget.epsilon or spent) if whole else spent

    def _find_amplified(self, cost: float, delta: float) -> float:
        """Return the epsilon of a run whose queried parts cost this much (`can_amplify`)."""
        return convert.amplify(self.accounting.find_epsilon(cost, delta / self._queried), self._queried)

    def spend_statement(self) -> Statement:
        """Return the guarantee of the run, with the error of the noise laws included in delta.

        Privacy: the epsilon is that of the budget, fixed before the first answer. The amount actually spent may depend
        on noisy answers, and a guarantee for it would require a privacy odometer.

        Let t bound the total-variation distance of all noise from its ideal distribution (one term per draw). Then
        P(out) <= P_ideal(out) + t <= e^eps P_ideal'(out) + delta + t <= e^eps P'(out) + delta + (1 + e^eps) t.
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
        """Return plain JSON values for model files and releases."""
        return self._header() | {
            "capacity": self._capacity(0.0),
            "stamps": list(self._stamps),
            "entries": [entry.to_dict() for entry in self._entries],
            "lifetime": None if self.lifetime is None else dict(self.lifetime),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Rebuild a ledger from the output of `to_dict`; costs are recomputed, and an overspent ledger is refused."""
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
            why = f": {error}" if isinstance(error, BudgetError) else ""  # other messages may quote the file
            raise ModelFileError(f"the ledger in this file is damaged or inconsistent{why}") from None
        return ledger

    @classmethod
    def of_run(cls, run: Run) -> Self:
        """Rebuild the ledger of a run from its journal."""
        return cls.from_dict({**run.header, "stamps": run.stamps, "entries": run.charges})

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


def sum_earlier_runs(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the joint cost of runs for a lifetime budget that includes them; BudgetError if costs do not add up.

    Privacy: basic composition of their budgets, not of what they spent, which may depend on noisy answers. An
    interrupted run counts as a whole. The error of the noise laws is covered by the reserve of the file's capacity.
    """
    ledgers = [Ledger.of_run(run) for run in runs]
    kinds = {(run.header.get("unit"), each.adjacency.relation) for run, each in zip(runs, ledgers, strict=True)}
    told = [ledger.spend_statement() for ledger in ledgers]
    epsilon, delta = math.fsum(each.epsilon for each in told), math.fsum(each.delta - each.law_error for each in told)
    (unit, relation), *others = kinds
    if unit is None or others or not math.isfinite(epsilon):
        raise BudgetError("earlier runs protect different units, state none, or have no epsilon: they do not add up")
    return {"runs": len(runs), "epsilon": epsilon, "delta": delta, "unit": unit, "relation": relation}


Terms = tuple[Adjacency, str, Budget, AccountingLike]
"""Neighbouring relation, name of the privacy unit, budget and accounting of a run."""


@contextmanager
def open_run_ledger(
    terms: Terms, lifetime: Lifetime | None, *, journal: Path | None, stamps: tuple[str, ...], facts: Mapping[str, Any]
) -> Iterator[Ledger]:
    """Open the ledger of a run and its account in the lifetime budget, which is closed at the end.

    `facts` are the source, method and identity of the table; its identity (path or address) is stored as a salted hash.
    """
    told = {name: value for name, value in facts.items() if name != "identity"} | {"unit": terms[1]}
    if journal is not None and facts.get("identity") is not None:
        told |= fingerprint_table(journal, facts["identity"])
    account = None if lifetime is None else lifetime.begin(*terms, method=facts["method"], source=facts["source"])
    adjacency, _, budget, accounting = terms
    try:
        ledger = Ledger(budget, accounting, adjacency, journal=journal, stamps=stamps, lifetime=account, facts=told)
        yield ledger
    finally:
        if account is not None:
            with suppress(WeftError):  # its reservation is released when this process ends
                account.end()
    with suppress(WeftError):  # every charge is recorded; only the newest hash would be missing
        ledger.close()
