"""The lifetime budget of a table: one file from which every run on the table draws.

The file states the total that may be spent on the table, records every charge of every run before the rows are queried,
and refuses charges that would overspend it, across processes, crashes and restarts. Its guarantee is that of a privacy
filter (`weft.privacy.filters`); `weft.privacy.hash_chain` defines how it is stored.
"""

from __future__ import annotations

import math
import os
import secrets
import socket
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from weft.errors import BudgetError, DataError
from weft.privacy.accounting import AccountingLike, find_accounting
from weft.privacy.budget import Budget
from weft.privacy.charge import Charge
from weft.privacy.conversions import at_most
from weft.privacy.filters import (
    Filter,
    compute_capacity,
    compute_price,
    compute_slack,
    find_affordable_epsilon,
    may_cost,
    slack_capacity,
)
from weft.privacy.hash_chain import Chain, Entries
from weft.privacy.sensitivity import Adjacency, Relation


def describe_owner() -> dict[str, Any]:
    """Return fields that identify this process uniquely."""
    pid = os.getpid()
    return {
        "host": socket.gethostname(),
        "boot": _read_boot(),
        "namespace": _read_namespace(),
        "pid": pid,
        "started": _read_start(pid),
    }


def is_gone(owner: Mapping[str, Any]) -> bool:
    """Return whether a process has certainly ended; False if that cannot be determined here."""
    boot, namespace = _read_boot(), _read_namespace()
    if os.name != "posix" or not boot or owner.get("host") != socket.gethostname():
        return False
    if (owner.get("boot"), owner.get("namespace")) != (boot, namespace):
        return False
    pid = int(owner["pid"])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    started = _read_start(pid)
    return bool(started and owner["started"]) and started != owner["started"]


def _read_boot() -> str:
    """Return an id of this boot of this machine; "" if the system provides none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        # macOS has no namespaces, and no process survives a reboot: the machine's id is sufficient.
        return f"node {uuid.getnode():012x}" if sys.platform == "darwin" else ""


def _read_namespace() -> str:
    """Return the namespace of process ids; "" if the system has no namespaces."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return "" if sys.platform == "darwin" else "unknown " + uuid.uuid4().hex  # unique


def _read_start(pid: int) -> str:
    """Return the start time of a process in ticks since boot; "" if the system does not provide it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except (OSError, ValueError, IndexError):
        return ""


_VERSION = 2
_ROUNDING = 1e-10  # as in the ledger; the reserve of every capacity is ten times larger


@dataclass
class LifetimeRun:
    """One run as recorded in a lifetime budget."""

    run: str
    facts: Mapping[str, Any]
    """Method, budget and unit of the run, and the process that started it."""
    costs: dict[str, float] = field(default_factory=dict)
    """Costs by part of the rows; "" for all rows."""
    slack: float = 0.0
    charges: int = 0
    ended: bool = False

    @property
    def spent(self) -> float:
        """Cost of the run for any one unit: a unit is in at most one part of the rows (`Ledger.branches`)."""
        return self.costs.get("", 0.0) + max((cost for part, cost in self.costs.items() if part), default=0.0)

    @property
    def held(self) -> float:
        """Amount reserved and not yet spent, while the run's process exists."""
        return (
            0.0
            if self.ended or is_gone(self.facts["process"])
            else max(0.0, float(self.facts["reserved"]) - self.spent)
        )


@dataclass(frozen=True)
class State:
    """State of a lifetime budget, computed from its entries."""

    facts: Mapping[str, Any]
    """First entry, written when the file was created."""
    runs: Mapping[str, LifetimeRun]
    hashes: tuple[str, ...]

    @property
    def budget(self) -> Budget:
        """Budget of all runs that draw from the file: the total without what earlier runs spent."""
        past = self.facts.get("earlier", {"epsilon": 0.0, "delta": 0.0})
        return Budget(epsilon=self.facts["epsilon"] - past["epsilon"], delta=self.facts["delta"] - past["delta"])

    @property
    def filter(self) -> Filter:
        """Composition rule of the costs."""
        kind: Filter = self.facts["accounting"]
        return kind

    @property
    def capacity(self) -> float:
        """Amount that may be spent, in mu^2/2, rho or epsilon."""
        return compute_capacity(self.budget, self.filter)

    @property
    def slack(self) -> float:
        """Total-variation distance spent."""
        return math.fsum(run.slack for run in self.runs.values())

    @property
    def spent(self) -> float:
        """Amount that all runs have spent on any one unit."""
        return math.fsum(run.spent for run in self.runs.values())

    @property
    def held(self) -> float:
        """Amount that active runs may still spend."""
        return math.fsum(run.held for run in self.runs.values())

    @property
    def left(self) -> float:
        """Amount that a new run may spend."""
        return max(0.0, self.capacity - self.spent - self.held)

    @property
    def protects(self) -> str | None:
        """Privacy unit of all runs: the name of a column, or "row"; None before the first run."""
        begun = [self.facts.get("earlier"), *(run.facts for run in self.runs.values())]
        return next((str(facts["unit"]) for facts in begun if facts), None)


class Lifetime:
    """A lifetime budget file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Set the path; the file is read at first use."""
        self.path = Path(path)
        self._chain = Chain(self.path)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        budget: Budget,
        *,
        table: str = "",
        accounting: Filter | None = None,
        relation: Relation = "add-remove",
        earlier: Mapping[str, Any] | None = None,
    ) -> Lifetime:
        """Create a new file; OutputError if it exists, because its record of spending must be kept.

        Privacy: `earlier` is what runs before the file cost together (`weft.privacy.ledger.sum_earlier_runs`). Epsilons
        and deltas add up, also if they were chosen adaptively (Rogers et al. 2016): the filter gets what they leave of
        the total, which must not depend on their results.
        """
        if budget.unit != "epsilon" or budget.insecure:
            raise BudgetError("a lifetime budget must be stated in epsilon and delta")
        kind: Filter = accounting or ("pure" if budget.delta == 0 else "gaussian")
        if find_accounting(kind).is_pure != (budget.delta == 0):
            raise BudgetError("pure accounting requires delta 0, and all other accountings a positive delta")
        first = {
            "kind": "create",
            "version": 1 if earlier is None else _VERSION,
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "accounting": kind,
            "relation": relation,
            "table": table,
            "time": get_current_time(),
        }
        if earlier is not None:
            first["earlier"] = dict(earlier)
            if earlier["relation"] != relation:
                raise BudgetError(f"earlier runs are for {earlier['relation']} neighbours, not {relation}")
            left = budget.amount - earlier["epsilon"], budget.delta - earlier["delta"]
            if left[0] <= 0 or left[1] < 0 or (left[1] == 0) != (kind == "pure"):
                raise BudgetError(
                    f"earlier runs on this table have spent epsilon {at_most(earlier['epsilon'])} at delta "
                    f"{at_most(earlier['delta'], 3)}, which the total includes: choose more than both"
                )
        compute_capacity(State(first, {}, ()).budget, kind)  # raises if the budget is not defined under it
        lifetime = cls(path)
        lifetime._chain.create(first)
        return lifetime

    def state(self) -> State:
        """Read the file; DataError if it is not a lifetime budget or was tampered with."""
        return self._folded(self._chain.read())

    def slack_left(self) -> float:
        """Return the total-variation distance left for answers that satisfy their cost only up to slack."""
        state = self.state()
        return max(0.0, slack_capacity(state.budget) - state.slack) if state.budget.delta else 0.0

    def check(self, adjacency: Adjacency, unit: str, budget: Budget, accounting: AccountingLike) -> None:
        """Refuse a run that is not affordable or has another privacy unit, without recording anything."""
        self._affordable(self.state(), adjacency, unit, budget, accounting)

    def begin(
        self, adjacency: Adjacency, unit: str, budget: Budget, accounting: AccountingLike, **facts: Any
    ) -> LifetimeAccount:
        """Record a run and reserve the most it may spend, so that another run cannot use it."""
        run = secrets.token_hex(8)
        with self._chain.transaction() as (entries, new):
            state = self._folded(entries)
            reserved = self._affordable(state, adjacency, unit, budget, accounting)
            new.append(
                {
                    **facts,
                    "kind": "begin",
                    "run": run,
                    "unit": unit,
                    "adjacency": adjacency.to_dict(),
                    "budget": budget.to_dict(),
                    "accounting": find_accounting(accounting).name,
                    "reserved": reserved,
                    "process": describe_owner(),
                    "time": get_current_time(),
                }
            )
        return LifetimeAccount(self, run, state.facts)

    def charge(self, run: str, charge: Charge) -> None:
        """Record a charge or refuse it; it is on disk when this returns."""
        with self._chain.transaction() as (entries, new):
            state = self._folded(entries)
            own = state.runs[run]
            cost, distance = compute_price(charge, state.filter), compute_slack(charge)
            own.costs[charge.part] = own.costs.get(charge.part, 0.0) + cost
            others = math.fsum(each.held for each in state.runs.values() if each is not own)
            # Reservations of other runs are not available.
            if not state.spent + others <= state.capacity * (1 + _ROUNDING):
                raise BudgetError(f"{charge.question!r} would overspend the lifetime budget {self.path}")
            if state.budget.delta and state.slack + distance > slack_capacity(state.budget):
                raise BudgetError(
                    f"{charge.question!r} needs more of delta than the lifetime budget {self.path} has left for value "
                    "discovery and records generated from seeds: request fewer, or set a larger delta for the table"
                )
            new.append(
                {
                    "kind": "charge",
                    "run": run,
                    "charge": charge.to_dict(),
                    "part": charge.part,
                    "cost": cost,
                    "slack": distance,
                    "time": get_current_time(),
                }
            )

    def end(self, run: str) -> None:
        """Record the end of a run and return its unspent reservation."""
        with self._chain.transaction() as (entries, new):
            runs = self._folded(entries).runs
            if run not in runs:
                raise DataError(f"{self.path} has no run {run}; `weft budget show {self.path}` lists them")
            if not runs[run].ended:
                new.append({"kind": "end", "run": run, "time": get_current_time()})

    def _folded(self, entries: Entries) -> State:
        first, *later = entries.documents
        runs: dict[str, LifetimeRun] = {}
        try:
            if first["version"] > _VERSION:
                raise DataError(f"{self.path} was written by a newer version of Weft. Update weft to read it")
            for entry in later:
                if entry["kind"] == "begin":
                    runs[entry["run"]] = LifetimeRun(entry["run"], entry)
                    continue
                run = runs[entry["run"]]
                if entry["kind"] == "end":
                    run.ended = True
                    continue
                run.costs[entry["part"]] = run.costs.get(entry["part"], 0.0) + float(entry["cost"])
                run.slack += float(entry["slack"])
                run.charges += 1
        except (ValueError, KeyError, TypeError):
            raise self._chain.damaged() from None
        return State(first, runs, entries.hashes)

    def _affordable(
        self, state: State, adjacency: Adjacency, unit: str, budget: Budget, accounting: AccountingLike
    ) -> float:
        """Return the most a run may cost; BudgetError if its unit, relation or cost does not fit the file."""
        if adjacency.relation != state.facts["relation"]:
            raise BudgetError(
                f"the lifetime budget {self.path} is for {state.facts['relation']} neighbours, not {adjacency.relation}"
            )
        if state.protects not in (None, unit):
            raise BudgetError(
                f"the lifetime budget {self.path} protects one {state.protects}, this run one {unit}: their costs do "
                "not add up"
            )
        reserved = may_cost(budget, accounting, state.filter)
        if reserved <= state.left * (1 + _ROUNDING):
            return reserved
        most = find_affordable_epsilon(state.left, budget, accounting, state.filter)
        remedy = f"Use an epsilon of at most {most:g}." if most >= 1e-3 else "No further query is possible."
        held = (
            f" Active runs have reserved part of it; release the reservation of a run that ended elsewhere with "
            f"`weft budget release {self.path} RUN` (`weft budget show {self.path}` lists runs)."
            if state.held
            else ""
        )
        raise BudgetError(
            f"the lifetime budget {self.path} has {100 * state.left / state.capacity:.3g}% left, and this run may cost "
            f"{100 * reserved / state.capacity:.3g}%.{held} {remedy}"
        )


@dataclass(frozen=True)
class LifetimeAccount:
    """One run's access to a lifetime budget."""

    lifetime: Lifetime
    run: str
    facts: Mapping[str, Any]

    def charge(self, charge: Charge) -> None:
        """Record a charge of this run or refuse it."""
        self.lifetime.charge(self.run, charge)

    def end(self) -> None:
        """Record the end of this run."""
        self.lifetime.end(self.run)

    def statement(self) -> dict[str, Any]:
        """Return the card's entry on the lifetime budget: public figures, the run, and the hash of the last entry."""
        said = {key: self.facts[key] for key in ("table", "epsilon", "delta", "accounting", "relation")}
        return said | {"run": self.run, "head": self.lifetime.state().hashes[-1]}


def lifetime_statement(values: Any) -> dict[str, Any] | None:
    """Validate a released ledger's entry on a lifetime budget; ValueError if it is invalid."""
    if values is None:
        return None
    said = {key: values[key] for key in ("table", "epsilon", "delta", "accounting", "relation", "run", "head")}
    Budget(epsilon=float(said["epsilon"]), delta=float(said["delta"]))
    if not all(isinstance(said[key], str) for key in ("table", "accounting", "relation", "run", "head")):
        raise ValueError("the entry on the lifetime budget has a field that is not text")
    return said


def get_current_time() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
