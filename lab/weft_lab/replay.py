"""Record and replay: run a program on two neighbouring tables with every mechanism's output frozen.

A differentially private program is a deterministic function of its mechanisms' outputs, its public inputs and its
sampling seed. The audit records what each mechanism released on a table, runs the program on a neighbouring table with
the recorded answers, and compares all outputs. Any difference bypassed the mechanisms: a leak. In addition, each
query's exact answers on the two tables must lie within its declared sensitivity, or its noise was too small.

Tests on one run, or on two runs on the same table, find noise that is too small or missing (`find_weak_noise`),
depends on what it is added to (`wrong_law`), or repeats itself (`find_reused_randomness`); replay finds the rest.

The idea is that of Cebere et al., "Re:cord-play" (PoPETs 2026).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import gammainc, gammaincc, log_softmax
from scipy.stats import kstest

from weft.marginals.marginal import Array
from weft.privacy import Budget, Charge
from weft.privacy.deniability import Acceptance
from weft.privacy.ledger import DENIABILITY
from weft.privacy.mechanisms import MECHANISMS, CountNoise, Release
from weft.privacy.mechanisms.gaussian import Gaussian
from weft.privacy.mechanisms.geometric import Geometric
from weft.privacy.partitions import ARRAYS, unpack_value_counts
from weft_lab.queries.plausible_seeds import lower_bound
from weft_lab.queries.seeded_price import charge_seeded

Artefacts = Mapping[str, Any]
"""All outputs of a run by name: files, printed text, warnings, events, the ledger, ..."""

Program = Callable[[Any, Release], Artefacts]
"""A run of the whole program on a table with the given release step."""

MIN_COMPARED_COINS = 30
"""Rows whose coins must differ between two runs; fair coins agree by chance less than once in 10^9."""

MAX_COMPARED_CELLS = 256
"""Leading cells of two tables whose noise is compared."""

TINY = 1e-300
"""Lower bound on probabilities before taking logarithms."""

ACCIDENT = 1e-9
"""Significance level: an observation below this probability is a finding."""

SIZES = {"nothing": (0, 0), "1 to 9": (1, 9), "10 or more": (10, math.inf)}
"""Groups of cells by count, between which the noise must not differ."""


@dataclass(frozen=True)
class Answer:
    """One recorded query: its charge, its exact answers and its released answers."""

    charge: Charge
    exact: tuple[Array, ...]
    released: tuple[Array, ...]


class Recorder:
    """Releases through real mechanisms and records every answer."""

    def __init__(self, mechanisms: Release) -> None:
        self._mechanisms = mechanisms
        self.private = mechanisms.private
        self.tape: list[Answer] = []
        self.findings: list[str] = []

    def __call__(self, charge: Charge, exact: Sequence[Array]) -> list[Array]:
        """Release and record the answers."""
        released = self._mechanisms(charge, exact)
        if any(answer.dtype.kind not in "iu" for answer in released):
            self.findings.append(f"{charge.question}: the released answers are not integers")
        self.tape.append(Answer(charge, tuple(a.copy() for a in exact), tuple(a.copy() for a in released)))
        return released


def find_weak_noise(tape: Sequence[Answer]) -> list[str]:
    """Return a finding if the noise is significantly smaller in total than the charges declare.

    The total size of the noise of each mechanism is tested, without scales below 1: rounding dominates them.
    """
    findings = []
    for mechanism in (each for each in MECHANISMS.values() if isinstance(each, CountNoise)):
        drawn = [
            (released - exact, scale)
            for answer in tape
            if answer.charge.definition is mechanism
            for exact, released, scale in zip(answer.exact, answer.released, answer.charge.scales, strict=True)
            if scale >= 1
        ]
        if drawn:
            chance, size = _test_size(mechanism, drawn)
            if chance < ACCIDENT:
                findings.append(f"the {mechanism.name} noise is smaller than declared ({size:.2g} of it)")
    return findings


def _test_size(mechanism: CountNoise, drawn: Sequence[tuple[Array, float]]) -> tuple[float, float]:
    """Return the p-value of noise at most this small, and its size relative to the declared one.

    `drawn` has noise arrays with their scales. Gaussian noise: the chi-square distribution of summed squares. Geometric
    noise: a gamma distribution, which the summed sizes nearly follow. Both allow for rounding by at most 1/2. Others:
    Fisher's method. u, drawn uniformly between P(|K| < |k|) and P(|K| <= |k|), is uniform on (0, 1), so the sum of
    -ln u has a gamma law, and is large for small noise.
    """
    rounded = np.concatenate([((np.abs(noise) + 0.5) / scale).ravel() for noise, scale in drawn])
    if isinstance(mechanism, Gaussian):
        squares = rounded**2
        return float(gammainc(squares.size / 2, squares.sum() / 2)), float(squares.mean())
    if isinstance(mechanism, Geometric):
        return float(gammainc(rounded.size, rounded.sum())), float(rounded.mean())
    rng = np.random.default_rng(0)  # makes the test reproducible; never used in a release
    parts, logs = [], []
    for noise, scale in drawn:
        size = np.abs(np.ravel(noise)).astype(np.float64)
        upto = mechanism.cdf(size, scale) - mechanism.cdf(-size - 1, scale)
        below = np.where(size > 0, mechanism.cdf(size - 1, scale) - mechanism.cdf(-size, scale), 0.0)
        logs.append(-np.log(upto - (upto - below) * rng.random(size.size)))
        parts.append(size**2 / mechanism.variance(scale))
    together = np.concatenate(parts)
    return float(gammaincc(together.size, np.concatenate(logs).sum())), float(together.mean())


def wrong_law(tape: Sequence[Answer]) -> list[str]:
    """Return a finding for each group of cells whose noise does not follow its declared distribution.

    A value k with distribution function F on the integers, placed at random between F(k - 1) and F(k), is uniform on
    (0, 1) for every distribution and scale: so the cells of all tables can be tested together, by the
    Kolmogorov-Smirnov test. Noise that is not added to empty cells, or is rounded away from full ones, shows in the
    cells of that group, of one table or of all.
    """
    findings = []
    rng = np.random.default_rng(0)  # makes the test reproducible; never used in a release
    tables = [
        (answer.charge.question, np.abs(answer.exact[i]).ravel(), _transform_noise(answer, i, mechanism, rng))
        for answer in tape
        if isinstance(mechanism := answer.charge.definition, CountNoise)
        for i in range(len(answer.exact))
    ]
    for sort, (low, high) in SIZES.items():
        chosen_of = [(question, uniform[(low <= sizes) & (sizes <= high)]) for question, sizes, uniform in tables]
        chosen_of.append(("all questions", np.concatenate([np.empty(0), *(chosen for _, chosen in chosen_of)])))
        for question, chosen in chosen_of:
            if chosen.size and kstest(chosen, "uniform", method="asymp").pvalue < ACCIDENT:
                findings.append(f"{question}: the noise on cells that hold {sort} does not follow its distribution")
    return findings


def _transform_noise(answer: Answer, i: int, mechanism: CountNoise, rng: np.random.Generator) -> Array:
    """Return the randomised probability integral transform of the noise on each cell of a table."""
    noise = (answer.released[i] - answer.exact[i]).ravel().astype(np.float64)
    scale = answer.charge.scales[i]
    below, upto = mechanism.cdf(noise - 1, scale), mechanism.cdf(noise, scale)
    return np.asarray(below + (upto - below) * rng.random(noise.size))


def find_reused_randomness(
    program: Program, table: Any, mechanisms: Callable[[], Release], *, truncated: bool = False
) -> list[str]:
    """Return findings of reused randomness: equal in two runs, or equal noise on two tables of one run.

    `truncated`: some units of this table have more rows than are kept. The choice of kept rows is random and secret too
    (`weft.engines.privacy_units`): two runs, even with the same `seed`, must not count the same rows.
    """
    runs = [Recorder(mechanisms()), Recorder(mechanisms())]
    for recorder in runs:
        program(table, recorder)
    findings = []
    for one, other in zip(*([a for a in r.tape if a.charge.definition.divides_rows] for r in runs), strict=False):
        if len(one.released[0]) >= MIN_COMPARED_COINS and np.array_equal(one.released[0], other.released[0]):
            findings.append("two runs drew the same coins")
    drawn = [[part for answer in recorder.tape for part in _extract_random_parts(answer)] for recorder in runs]
    equal = len(drawn[0]) == len(drawn[1]) and all(
        np.array_equal(one.values, other.values) for one, other in zip(*drawn, strict=True)
    )
    if equal and math.fsum(part.log_chances.sum() for part in drawn[0]) < math.log(ACCIDENT):
        findings.append("two runs drew the same noise")
    counted = [[exact for answer in recorder.tape for exact in answer.exact] for recorder in runs]
    if truncated and all(map(np.array_equal, *counted)):
        findings.append("two runs kept the same rows of every unit")
    for answer in (answer for answer in runs[0].tape if isinstance(answer.charge.definition, CountNoise)):
        if _share_noise(_extract_random_parts(answer)):
            findings.append(f"{answer.charge.question}: two tables got the same noise")
    return findings


@dataclass(frozen=True)
class RandomPart:
    """The random part of an answer: the noise on one table, or the selection of an exponential mechanism.

    `log_chances` has the log-probability of each value under the declared distribution. Their sum is the
    log-probability that an independent run repeats the values, so a repetition is evidence only if it falls below
    `ACCIDENT`: noise of a small scale, or on few cells, often repeats by chance.
    """

    values: Array
    log_chances: Array


def _extract_random_parts(answer: Answer) -> list[RandomPart]:
    """Return the random part of each table of counts, or of each selection; empty for any other answer."""
    mechanism = answer.charge.definition
    if isinstance(mechanism, CountNoise):
        noises = [(r - e).ravel() for e, r in zip(answer.exact, answer.released, strict=True)]
        return [
            RandomPart(noise, np.log(np.maximum(mechanism.cdf(noise, s) - mechanism.cdf(noise - 1, s), TINY)))
            for noise, s in zip(noises, answer.charge.scales, strict=True)
        ]
    if answer.charge.norm == "linf":
        chosen = np.ravel(answer.released[0])
        weights = answer.exact[0] * (answer.charge.epsilon / answer.charge.draws / 2 / answer.charge.sensitivities[0])
        return [RandomPart(chosen, log_softmax(weights.ravel())[chosen])]
    return []


def _share_noise(parts: Sequence[RandomPart]) -> bool:
    """Return whether two tables begin with the same noise over enough cells; sorting makes such tables adjacent."""
    for one, other in pairwise(sorted(parts, key=lambda part: part.values[:MAX_COMPARED_CELLS].tolist())):
        m = min(one.values.size, other.values.size, MAX_COMPARED_CELLS)
        chance = max(one.log_chances[:m].sum(), other.log_chances[:m].sum())
        if chance < math.log(ACCIDENT) and np.array_equal(one.values[:m], other.values[:m]):
            return True
    return False


TOLERANCE = 1e-9
"""Relative tolerance for rounding when distances are compared with declared sensitivities."""


class Player:
    """Returns recorded answers, and reports where queries or exact answers deviate from the recording."""

    def __init__(self, tape: Sequence[Answer], private: bool) -> None:
        self._tape = tape
        self._next = 0
        self._parts_moved: set[str] = set()
        self.private = private
        self.findings: list[str] = []

    def __call__(self, charge: Charge, exact: Sequence[Array]) -> list[Array]:
        """Return the recorded answer to the same query, regardless of the current rows."""
        if self._next >= len(self._tape):
            raise StrayedError(f"the second run made an additional query: {charge.question}")
        answer = self._tape[self._next]
        self._next += 1
        if _drop_time(charge) != _drop_time(answer.charge):
            raise StrayedError(
                f"the second run made another query: {charge.question!r}, not {answer.charge.question!r}"
            )
        if charge.definition.divides_rows:
            return [couple_coins(exact[0], answer.exact[0], answer.released[0])]
        if charge.part and not all(map(np.array_equal, exact, answer.exact)):
            self._parts_moved.add(charge.part)
        self._check_distance(answer, exact)
        return [a.copy() for a in answer.released]

    def finish(self) -> None:
        """Report recorded queries that were not repeated, and changes in several parts of the rows."""
        if len(self._parts_moved) > 1:  # the price covers one part only
            self.findings.append(f"answers of several parts changed: {', '.join(sorted(self._parts_moved))}")
        for answer in self._tape[self._next :]:
            self.findings.append(f"the second run omitted a query: {answer.charge.question}")

    def _check_distance(self, answer: Answer, exact: Sequence[Array]) -> None:
        charge = answer.charge
        if charge.norm == "rows":
            changed = count_moved_rows(exact, answer.exact)
            if changed > charge.sensitivities[0]:
                self.findings.append(f"{charge.question}: {changed} rows changed, declared {charge.sensitivities[0]:g}")
            return
        if charge.norm == "none":  # no sensitivity is claimed
            return
        if charge.norm == "values":
            exact, before = align_value_counts(exact, answer.exact)
            answer = replace(answer, exact=tuple(before))
        if [a.shape for a in exact] != [a.shape for a in answer.exact]:
            self.findings.append(f"{charge.question}: the answer's shape depends on the rows")
            return
        for now, then, declared in zip(exact, answer.exact, charge.sensitivities, strict=True):
            moved = measure_answer_distance(now, then, "l2" if charge.norm == "values" else charge.norm)
            if moved > declared * (1 + TOLERANCE):
                self.findings.append(
                    f"{charge.question}: answers changed by {moved:g} ({charge.norm}), declared {declared:g}"
                )


class StrayedError(Exception):
    """The second run deviated from the first: control flow depends on the rows."""


def measure_answer_distance(a: Array, b: Array, norm: str) -> float:
    """Return the distance of two integer answers in the norm of a charge."""
    difference = np.abs(a.astype(np.int64) - b.astype(np.int64)).astype(np.float64).ravel()
    if not difference.size:
        return 0.0
    if norm == "l1":
        return float(difference.sum())
    return float(difference.max()) if norm == "linf" else math.sqrt(float((difference**2).sum()))


def align_value_counts(now: Sequence[Array], then: Sequence[Array]) -> tuple[list[Array], list[Array]]:
    """Return the counts of each column's values in two answers, over all values of either."""
    first, second = [], []
    for i in range(0, len(now), ARRAYS):
        a, b = unpack_value_counts(now[i : i + ARRAYS]), unpack_value_counts(then[i : i + ARRAYS])
        values = sorted({*a, *b})
        first.append(np.array([a.get(value, 0) for value in values], np.int64))
        second.append(np.array([b.get(value, 0) for value in values], np.int64))
    return first, second


def count_moved_rows(now: Sequence[Array], then: Sequence[Array]) -> int:
    """Return the number of rows by which the counts of all prefixes differ between two answers."""
    first, second = (
        Counter(dict(zip(map(tuple, prefixes.tolist()), counts.tolist(), strict=True)))
        for prefixes, counts in (now, then)
    )
    return sum(((first - second) + (second - first)).values())


def couple_coins(names: Array, before: Array, words: Array) -> Array:
    """Reassign recorded coins: each unit gets its previous coin, and new units get the unused ones.

    Units are identified by their names; units of equal rows are exchangeable. This is the coupling of runs in the proof
    of `weft.engines.recoding`: a replaced unit takes the coin of its predecessor, an added one any coin. Further coins
    are drawn with a seed from the recorded ones, so that each part gets its share of added units, reproducibly.
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


def check_amplification(tape: Sequence[Answer], ledger: Mapping[str, Any], rate: float) -> list[str]:
    """Return where the amplification by sampling is spent, but does not hold (`Ledger.can_amplify`)."""
    (coins,) = (answer.charge for answer in tape if answer.charge.definition.divides_rows)
    private = [a.charge for a in tape if a.charge.definition.is_private and not a.charge.definition.divides_rows]
    asked = {charge.part for charge in private}
    if "" in asked or math.fsum(coins.terms[part] for part in asked if part) > rate * (1 + TOLERANCE):
        return ["amplification was spent, but queries were made to all rows or to more of them than it covers"]
    if ledger["adjacency"]["relation"] != "add-remove" or ledger["lifetime"] is not None:
        return ["amplification was spent, but holds only for units that are added or removed, and for one run"]
    return []


def check_ledger(tape: Sequence[Answer], ledger: Mapping[str, Any]) -> list[str]:
    """Return the differences between a run's answers and its ledger (from `Ledger.to_dict`).

    Every answer must be charged in order, at the price of its sensitivity and noise, and the sum must fit the budget.
    """
    findings = []
    entries = [Charge.from_dict(entry) for entry in ledger["entries"]]
    if [_drop_time(answer.charge) for answer in tape] != [_drop_time(entry) for entry in entries]:
        findings.append("the answers do not match the charges in the ledger")
    prices = [answer.charge.price(ledger["accounting"]) for answer in tape]
    for answer, price in zip(tape, prices, strict=True):
        if price > answer.charge.cost * (1 + TOLERANCE):
            findings.append(f"{answer.charge.question}: the noise costs {price:g}, charged {answer.charge.cost:g}")
    findings += check_seed_prices(tape)
    # A unit is in one part of the rows; its cost is that of the queries to that part and to all rows.
    parts = {answer.charge.part for answer in tape} - {""}
    if parts and sum(answer.charge.definition.divides_rows for answer in tape) != 1:
        findings.append("parts of the rows were queried without exactly one partition by coins")
    for part in ("", *sorted(parts)):
        asked = [i for i, answer in enumerate(tape) if answer.charge.part in ("", part)]
        cost = math.fsum(prices[i] for i in asked)
        budget = Budget.from_dict(ledger["budget"])
        rate = min((a.charge.scales[0] for a in tape if a.charge.definition.divides_rows), default=1.0)
        findings += check_amplification(tape, ledger, rate) if rate < 1 else []
        if slack := math.fsum(tape[i].charge.slack for i in asked):
            budget = replace(budget, delta=budget.delta - slack * (1 + math.exp(budget.epsilon or 700.0)))
        if rate < 1:
            epsilon = math.log(1 + (math.exp(budget.epsilon or 700.0) - 1) / rate)
            budget = replace(budget, epsilon=epsilon, delta=budget.delta / rate)
        allowed = budget.capacity(ledger["accounting"])
        if cost > allowed * (1 + TOLERANCE):
            findings.append(f"the answers cost {cost:g}, the budget allows {allowed:g}")
    if any(not answer.charge.definition.is_private for answer in tape) and DENIABILITY not in ledger["stamps"]:
        findings.append("deniable records were released without the required stamp")
    return findings


def check_seed_prices(tape: Sequence[Answer]) -> list[str]:
    """Return findings for records from seeds that cost more than was charged.

    Prices are recomputed from the charge's terms, and its bound on passing seeds from the preceding noisy answer.
    """
    findings = ["the first query releases seeds"] if tape and tape[0].charge.definition.grows_private_records else []
    for before, answer in pairwise(tape):
        charge = answer.charge
        if not charge.definition.grows_private_records:
            continue
        test, passing = Acceptance.of(charge.terms), charge.terms["passing"]
        known = lower_bound(float(before.released[0][0]), before.charge.scales[0], test, charge.slack / 2)
        if before.charge.sensitivities != (float(test.sensitivity),) or passing > known:
            findings.append(f"{charge.question}: {passing:g} passing seeds are claimed, {known:g} are certified")
        due = charge_seeded(charge.question, test=test, records=charge.draws, passing=passing, slack=charge.slack)
        if due.rho > charge.rho * (1 + TOLERANCE):
            findings.append(f"{charge.question}: costs {due.rho:g}, charged {charge.rho:g}")
    return findings


def replay(program: Program, table: Any, neighbour: Any, mechanisms: Release) -> list[str]:
    """Return differences of the program between neighbours, and errors of its artefact "ledger" (`Ledger.to_dict`)."""
    recorder = Recorder(mechanisms)
    first = _run_program(program, table, recorder)
    player = Player(recorder.tape, recorder.private)
    try:
        second = _run_program(program, neighbour, player)
    except StrayedError as strayed:
        return [*recorder.findings, *player.findings, str(strayed)]
    player.finish()
    kept = check_ledger(recorder.tape, first["ledger"]) if "ledger" in first else []
    findings = [*recorder.findings, *find_weak_noise(recorder.tape), *wrong_law(recorder.tape), *kept, *player.findings]
    if "failure" in first and first == second:
        findings.append(f"nothing was compared, because the program fails on both tables: {first['failure']}")
    return [*findings, *_list_differences(first, second)]


def _run_program(program: Program, table: Any, release: Release) -> Artefacts:
    """Run the program; a failure is an outcome too, with the message that a user would see."""
    try:
        return program(table, release)
    except StrayedError:
        raise
    except Exception as error:  # noqa: BLE001 -- a failure on one table only is a finding
        return {"failure": f"{type(error).__name__}: {error}"}


def _list_differences(first: Artefacts, second: Artefacts) -> list[str]:
    names = sorted(set(first) | set(second))
    return [f"{name} differs" for name in names if not _are_identical(first.get(name), second.get(name))]


def _are_identical(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return set(a) == set(b) and all(_are_identical(a[key], b[key]) for key in a)
    return bool(type(a) is type(b) and a == b)


def _drop_time(charge: Charge) -> Charge:
    return replace(charge, time="")
