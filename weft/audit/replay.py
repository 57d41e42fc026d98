"""Record and replay: run a program on two neighbouring tables with every mechanism's output frozen.

A differentially private program is a deterministic function of its mechanisms' outputs, its public inputs and
its sampling seed. So record what each mechanism released on a table, run again on a neighbouring table while
handing out the recorded answers, and compare everything that left. Whatever differs took another road than a
mechanism: a leak. And each question's exact answers on the two tables must lie within the sensitivity that it
declared, or its noise was too small.

The idea is that of Cebere et al., "Re:cord-play" (PoPETs 2026).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from weft.audit.recorded import Answer, Artefacts, Program, Recorder, weakness, wrong_law
from weft.marginals.marginal import Array
from weft.privacy import Budget, Charge
from weft.privacy.deniability import Acceptance, lower_bound
from weft.privacy.guarantee import DENIABILITY
from weft.privacy.mechanisms import Release
from weft.privacy.partitions import ARRAYS, unpacked

TOLERANCE = 1e-9
"""Slack for square roots of integers when distances are compared with declared sensitivities."""


class Player:
    """Hands out recorded answers and notes where the questions or the exact answers stray from the tape."""

    def __init__(self, tape: Sequence[Answer], private: bool) -> None:
        self._tape = tape
        self._next = 0
        self._parts_moved: set[str] = set()
        self.private = private
        self.findings: list[str] = []

    def __call__(self, charge: Charge, exact: Sequence[Array]) -> list[Array]:
        """Return the recorded answer to the same question, whatever the rows say now."""
        if self._next >= len(self._tape):
            raise StrayedError(f"a question more was asked: {charge.question}")
        answer = self._tape[self._next]
        self._next += 1
        if _timeless(charge) != _timeless(answer.charge):
            raise StrayedError(f"another question was asked: {charge.question!r}, not {answer.charge.question!r}")
        if charge.mechanism == "coins":
            return [coupled(exact[0], answer.exact[0], answer.released[0])]
        if charge.part and not all(map(np.array_equal, exact, answer.exact)):
            self._parts_moved.add(charge.part)
        self._check_distance(answer, exact)
        return [a.copy() for a in answer.released]

    def finish(self) -> None:
        """Note questions that were recorded but not asked again, and a unit that was in several parts of the rows."""
        if len(self._parts_moved) > 1:  # the price is that of one part
            self.findings.append(f"answers of several parts moved: {', '.join(sorted(self._parts_moved))}")
        for answer in self._tape[self._next :]:
            self.findings.append(f"a question was not asked: {answer.charge.question}")

    def _check_distance(self, answer: Answer, exact: Sequence[Array]) -> None:
        charge = answer.charge
        if charge.norm == "rows":
            changed = rows_moved(exact, answer.exact)
            if changed > charge.sensitivities[0]:
                self.findings.append(f"{charge.question}: {changed} rows moved, declared {charge.sensitivities[0]:g}")
            return
        if charge.norm == "none":  # nothing was promised
            return
        if charge.norm == "values":
            exact, before = aligned(exact, answer.exact)
            answer = replace(answer, exact=tuple(before))
        if [a.shape for a in exact] != [a.shape for a in answer.exact]:
            self.findings.append(f"{charge.question}: the answer's shape depends on the rows")
            return
        for now, then, declared in zip(exact, answer.exact, charge.sensitivities, strict=True):
            moved = distance(now, then, "l2" if charge.norm == "values" else charge.norm)
            if moved > declared * (1 + TOLERANCE):
                self.findings.append(
                    f"{charge.question}: answers moved by {moved:g} ({charge.norm}), declared {declared:g}"
                )


class StrayedError(Exception):
    """The second run left the road of the first: control flow depends on the rows."""


def distance(a: Array, b: Array, norm: str) -> float:
    """Return the distance of two integer answers in the norm that a charge names."""
    difference = np.abs(a.astype(np.int64) - b.astype(np.int64)).astype(np.float64).ravel()
    if not difference.size:
        return 0.0
    if norm == "l1":
        return float(difference.sum())
    return float(difference.max()) if norm == "linf" else math.sqrt(float((difference**2).sum()))


def aligned(now: Sequence[Array], then: Sequence[Array]) -> tuple[list[Array], list[Array]]:
    """Return the counts of each column's values in two answers, over all values that either of them has."""
    first, second = [], []
    for i in range(0, len(now), ARRAYS):
        a, b = unpacked(now[i : i + ARRAYS]), unpacked(then[i : i + ARRAYS])
        values = sorted({*a, *b})
        first.append(np.array([a.get(value, 0) for value in values], np.int64))
        second.append(np.array([b.get(value, 0) for value in values], np.int64))
    return first, second


def rows_moved(now: Sequence[Array], then: Sequence[Array]) -> int:
    """Return by how many rows the counts of all prefixes differ between two answers: a row moves its own by one."""
    first, second = (
        Counter(dict(zip(map(tuple, prefixes.tolist()), counts.tolist(), strict=True)))
        for prefixes, counts in (now, then)
    )
    return sum(((first - second) + (second - first)).values())


def coupled(names: Array, before: Array, words: Array) -> Array:
    """Deal recorded coins again: to each unit the one that it had before, to new ones what others left behind.

    Units are known by their names; those of equal rows are exchangeable. This is the pairing of runs in the argument of
    `weft.engines.parts`: a replaced unit takes the coin of the one that it stands for, an added one any. That is drawn
    from the recorded ones, so that each part gets its share of added units and a replay can be repeated.
    """
    order, known = np.argsort(names, kind="stable"), np.argsort(before, kind="stable")
    ordered, recorded = names[order], before[known]
    copy = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
    at = np.searchsorted(recorded, ordered) + copy
    same = at < len(recorded)
    same[same] = recorded[at[same]] == ordered[same]
    dealt = np.random.default_rng([*words[:4].tolist()]).integers(0, 1 << 64, len(names), np.uint64)
    dealt[order[same]] = words[known[at[same]]]
    left = np.delete(words, known[at[same]])
    new = order[~same]
    dealt[new[: len(left)]] = left[: len(new)]
    return dealt


def books(tape: Sequence[Answer], ledger: Mapping[str, Any]) -> list[str]:
    """Return where a run's answers and its ledger (as `Ledger.to_dict` gives it) disagree.

    Every answer must have been entered, in order, at the price that its own sensitivity and noise make, and the sum
    must fit the budget that the ledger names.
    """
    findings = []
    entries = [Charge.from_dict(entry) for entry in ledger["entries"]]
    if [_timeless(answer.charge) for answer in tape] != [_timeless(entry) for entry in entries]:
        findings.append("the answers given are not those entered in the ledger")
    prices = [answer.charge.price(ledger["accounting"]) for answer in tape]
    for answer, price in zip(tape, prices, strict=True):
        if price > answer.charge.cost * (1 + TOLERANCE):
            findings.append(f"{answer.charge.question}: the noise costs {price:g}, charged {answer.charge.cost:g}")
    findings += seeded_prices(tape)
    # A unit is in one part of the rows, and pays for what was asked of that part and of all rows.
    parts = {answer.charge.part for answer in tape} - {""}
    if parts and [answer.charge.mechanism for answer in tape].count("coins") != 1:
        findings.append("parts of the rows were asked that one throw of coins did not make")
    for part in ("", *sorted(parts)):
        asked = [i for i, answer in enumerate(tape) if answer.charge.part in ("", part)]
        cost = math.fsum(prices[i] for i in asked)
        budget = Budget.from_dict(ledger["budget"])
        if slack := math.fsum(tape[i].charge.slack for i in asked):
            budget = replace(budget, delta=budget.delta - slack * (1 + math.exp(budget.epsilon or 700.0)))
        allowed = budget.capacity(ledger["accounting"])
        if cost > allowed * (1 + TOLERANCE):
            findings.append(f"the answers cost {cost:g}, the budget allows {allowed:g}")
    if any(answer.charge.mechanism == "deniable" for answer in tape) and DENIABILITY not in ledger["stamps"]:
        findings.append("deniable records were released without the stamp that says so")
    return findings


def seeded_prices(tape: Sequence[Answer]) -> list[str]:
    """Return where records grown from seeds cost more than was charged for them.

    Their price is computed anew from the test, the number of records and the lower bound of passing seeds that the
    charge names; and that bound from the noisy answer that came before.
    """
    findings = ["seeds were asked first"] if tape and tape[0].charge.mechanism == "seeded" else []
    for before, answer in pairwise(tape):
        charge = answer.charge
        if charge.mechanism != "seeded":
            continue
        test, passing = Acceptance.of(charge.terms), charge.terms["passing"]
        known = lower_bound(float(before.released[0][0]), before.charge.scales[0], test, charge.slack / 2)
        if before.charge.sensitivities != (float(test.sensitivity),) or passing > known:
            findings.append(f"{charge.question}: {passing:g} seeds are said to pass, {known:g} are known to")
        due = Charge.seeded(charge.question, test=test, records=charge.draws, passing=passing, slack=charge.slack)
        if due.rho > charge.rho * (1 + TOLERANCE):
            findings.append(f"{charge.question}: costs {due.rho:g}, charged {charge.rho:g}")
    return findings


def replay(program: Program, table: Any, neighbour: Any, mechanisms: Release) -> list[str]:
    """Return every way in which the program treats neighbouring tables differently, or cheats on its books; want none.

    If an artefact is called "ledger", it must be what `Ledger.to_dict` gives, and is checked against the answers.
    """
    recorder = Recorder(mechanisms)
    first = _outcome(program, table, recorder)
    player = Player(recorder.tape, recorder.private)
    try:
        second = _outcome(program, neighbour, player)
    except StrayedError as strayed:
        return [*recorder.findings, *player.findings, str(strayed)]
    player.finish()
    kept = books(recorder.tape, first["ledger"]) if "ledger" in first else []
    findings = [*recorder.findings, *weakness(recorder.tape), *wrong_law(recorder.tape), *kept, *player.findings]
    if "failure" in first and first == second:
        findings.append(f"nothing was compared, for the program fails on both tables: {first['failure']}")
    return [*findings, *_differences(first, second)]


def _outcome(program: Program, table: Any, release: Release) -> Artefacts:
    """Run the program; a failure is an outcome too, with the text that a person would see."""
    try:
        return program(table, release)
    except StrayedError:
        raise
    except Exception as error:  # noqa: BLE001 -- whatever breaks on one table alone is a finding
        return {"failure": f"{type(error).__name__}: {error}"}


def _differences(first: Artefacts, second: Artefacts) -> list[str]:
    names = sorted(set(first) | set(second))
    return [f"{name} differs" for name in names if not _same(first.get(name), second.get(name))]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return set(a) == set(b) and all(_same(a[key], b[key]) for key in a)
    return bool(type(a) is type(b) and a == b)


def _timeless(charge: Charge) -> Charge:
    return replace(charge, time="")
