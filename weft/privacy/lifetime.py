"""The lifetime budget of a table: one file that every run on the table draws from.

A run has a ledger; a table outlives its runs. This file says what may be spent on the table in all, takes down every
charge of every run before the rows are asked, and refuses what would overspend, across processes, crashes and
restarts. Its guarantee is that of a privacy filter (`weft.privacy.filters`); how it is kept on the disk,
`weft.privacy.hash_chain` tells.
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

# Which process began a run, told so that no other one is taken for it.


def describe_owner() -> dict[str, Any]:
    """Return what tells this process from all others."""
    pid = os.getpid()
    return {
        "host": socket.gethostname(),
        "boot": _read_boot(),
        "namespace": _read_namespace(),
        "pid": pid,
        "started": _read_start(pid),
    }


def is_gone(owner: Mapping[str, Any]) -> bool:
    """Whether a process is certainly over; False wherever that cannot be seen from here."""
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
    """Return what tells this boot of this machine from others; nothing where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        # There are no namespaces on macOS, and a process does not outlive a boot: the machine is enough.
        return f"node {uuid.getnode():012x}" if sys.platform == "darwin" else ""


def _read_namespace() -> str:
    """Return the namespace of process numbers; nothing where the system has no such thing."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return "" if sys.platform == "darwin" else "unknown " + uuid.uuid4().hex  # equal to no other


def _read_start(pid: int) -> str:
    """Return when a process was started, in ticks since the boot; nothing where the system does not say."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except (OSError, ValueError, IndexError):
        return ""


_VERSION = 1
_ROUNDING = 1e-10  # as in the ledger; every capacity keeps back ten times as much


@dataclass
class LifetimeRun:
    """One run as a lifetime budget knows it."""

    run: str
    """Random id."""
    facts: Mapping[str, Any]
    """Method, budget and unit of the run, and which process began it."""
    costs: dict[str, float] = field(default_factory=dict)
    """What was charged for each part of the rows, "" for all rows."""
    slack: float = 0.0
    charges: int = 0
    ended: bool = False

    @property
    def spent(self) -> float:
        """What the run cost any one unit: a unit is in one part of the rows at most (`Ledger._branches`)."""
        return self.costs.get("", 0.0) + max((cost for part, cost in self.costs.items() if part), default=0.0)

    @property
    def held(self) -> float:
        """What the run may still spend, while its process is there to do so."""
        return (
            0.0
            if self.ended or is_gone(self.facts["process"])
            else max(0.0, float(self.facts["reserved"]) - self.spent)
        )


@dataclass(frozen=True)
class State:
    """A lifetime budget as its entries tell it."""

    facts: Mapping[str, Any]
    """What was said when the file was made."""
    runs: Mapping[str, LifetimeRun]
    hashes: tuple[str, ...]
    """Hashes of all entries, oldest first."""

    @property
    def budget(self) -> Budget:
        """What may be spent in all."""
        return Budget(epsilon=self.facts["epsilon"], delta=self.facts["delta"])

    @property
    def filter(self) -> Filter:
        """How costs add up."""
        kind: Filter = self.facts["accounting"]
        return kind

    @property
    def capacity(self) -> float:
        """What may be spent, in mu^2/2, rho or epsilon."""
        return compute_capacity(self.budget, self.filter)

    @property
    def slack(self) -> float:
        """Total-variation distance that was paid."""
        return math.fsum(run.slack for run in self.runs.values())

    @property
    def spent(self) -> float:
        """What was spent on any one unit by all runs."""
        return math.fsum(run.spent for run in self.runs.values())

    @property
    def held(self) -> float:
        """What runs that are under way may still spend."""
        return math.fsum(run.held for run in self.runs.values())

    @property
    def left(self) -> float:
        """What a new run may spend."""
        return max(0.0, self.capacity - self.spent - self.held)

    @property
    def protects(self) -> str | None:
        """The privacy unit of all runs: a column's name, or "row"; None before the first run."""
        return next((str(run.facts["unit"]) for run in self.runs.values()), None)


class Lifetime:
    """A lifetime budget file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Name the file; it is read when something is asked of it."""
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
    ) -> Lifetime:
        """Make a new file; OutputError if there is one already: what was spent must not be forgotten."""
        if budget.unit != "epsilon" or budget.insecure:
            raise BudgetError("a lifetime budget is stated in epsilon and delta")
        kind: Filter = accounting or ("pure" if budget.delta == 0 else "gaussian")
        if find_accounting(kind).is_pure != (budget.delta == 0):
            raise BudgetError("pure accounting goes with delta 0, and no other does")
        compute_capacity(budget, kind)  # refuses what has no meaning
        lifetime = cls(path)
        lifetime._chain.create(
            {
                "kind": "create",
                "version": _VERSION,
                "epsilon": budget.epsilon,
                "delta": budget.delta,
                "accounting": kind,
                "relation": relation,
                "table": table,
                "time": _get_current_time(),
            }
        )
        return lifetime

    def state(self) -> State:
        """Read the file; DataError if it is no lifetime budget, or its entries were tampered with."""
        return self._folded(self._chain.read())

    def slack_left(self) -> float:
        """Return the total-variation distance that is left for answers which keep to their cost only so far."""
        state = self.state()
        return max(0.0, slack_capacity(state.budget) - state.slack) if state.budget.delta else 0.0

    def check(self, adjacency: Adjacency, unit: str, budget: Budget, accounting: AccountingLike) -> None:
        """Refuse a run that could not be paid for, or that protects something else; nothing is entered yet."""
        self._affordable(self.state(), adjacency, unit, budget, accounting)

    def begin(
        self, adjacency: Adjacency, unit: str, budget: Budget, accounting: AccountingLike, **facts: Any
    ) -> LifetimeAccount:
        """Enter a run, and set aside what it may spend, so that another one cannot take it away half-way."""
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
                    "time": _get_current_time(),
                }
            )
        return LifetimeAccount(self, run, state.facts)

    def charge(self, run: str, charge: Charge) -> None:
        """Enter a charge, or refuse it; it is on the disk when this returns."""
        with self._chain.transaction() as (entries, new):
            state = self._folded(entries)
            own = state.runs[run]
            cost, distance = compute_price(charge, state.filter), compute_slack(charge)
            own.costs[charge.part] = own.costs.get(charge.part, 0.0) + cost
            others = math.fsum(each.held for each in state.runs.values() if each is not own)
            # What others have set aside is not there to be taken.
            if not state.spent + others <= state.capacity * (1 + _ROUNDING):
                raise BudgetError(f"{charge.question!r} would overspend the lifetime budget {self.path}")
            if state.budget.delta and state.slack + distance > slack_capacity(state.budget):
                raise BudgetError(
                    f"{charge.question!r} needs more of delta than the lifetime budget {self.path} has left for lists "
                    "of values and records grown from seeds: ask for fewer, or take a larger delta for the table"
                )
            new.append(
                {
                    "kind": "charge",
                    "run": run,
                    "charge": charge.to_dict(),
                    "part": charge.part,
                    "cost": cost,
                    "slack": distance,
                    "time": _get_current_time(),
                }
            )

    def end(self, run: str) -> None:
        """Enter that a run is over, and give back what it had set aside and not spent."""
        with self._chain.transaction() as (entries, new):
            runs = self._folded(entries).runs
            if run not in runs:
                raise DataError(f"{self.path} has no run {run}; `weft budget show {self.path}` lists them")
            if not runs[run].ended:
                new.append({"kind": "end", "run": run, "time": _get_current_time()})

    def _folded(self, entries: Entries) -> State:
        """Return what the entries add up to."""
        first, *later = entries.documents
        runs: dict[str, LifetimeRun] = {}
        try:
            if first["version"] > _VERSION:
                raise DataError(f"{self.path} was made by a newer Weft. Update weft to read it")
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
        """Return what a run may cost; BudgetError if it does not fit what the file protects, or what is left."""
        if adjacency.relation != state.facts["relation"]:
            raise BudgetError(
                f"the lifetime budget {self.path} is for {state.facts['relation']} neighbours, this run for "
                f"{adjacency.relation}"
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
        remedy = f"Take an epsilon of at most {most:g}." if most >= 1e-3 else "Nothing more can be asked of this table."
        held = (
            f" Part of it is held by runs that are under way; one that has ended elsewhere gives it back by "
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
    """One run's hand on a lifetime budget."""

    lifetime: Lifetime
    run: str
    facts: Mapping[str, Any]

    def charge(self, charge: Charge) -> None:
        """Enter a charge of this run, or refuse it."""
        self.lifetime.charge(self.run, charge)

    def end(self) -> None:
        """Enter that this run is over."""
        self.lifetime.end(self.run)

    def statement(self) -> dict[str, Any]:
        """Return what a card says of the lifetime budget: public figures, the run, and the hash of the last entry."""
        said = {key: self.facts[key] for key in ("table", "epsilon", "delta", "accounting", "relation")}
        return said | {"run": self.run, "head": self.lifetime.state().hashes[-1]}


def lifetime_statement(values: Any) -> dict[str, Any] | None:
    """Return what a released ledger says of a lifetime budget, checked; ValueError if it says something else."""
    if values is None:
        return None
    said = {key: values[key] for key in ("table", "epsilon", "delta", "accounting", "relation", "run", "head")}
    Budget(epsilon=float(said["epsilon"]), delta=float(said["delta"]))
    if not all(isinstance(said[key], str) for key in ("table", "accounting", "relation", "run", "head")):
        raise ValueError("a lifetime budget is told in text")
    return said


def _get_current_time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
