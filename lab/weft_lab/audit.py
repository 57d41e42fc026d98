"""Empirical audit: fit a method many times on two neighbouring tables and attack the releases.

The result is a lower confidence bound on mu. A test with error rates a (a release of D taken for one of D') and b (the
reverse) refutes every claim that forbids it:

* mu-GDP (Dong, Roth and Su 2019) is exactly Phi^-1(1 - a) - Phi^-1(b) <= mu for every test. So upper limits on a and b
  give a lower limit on mu (Nasr et al. 2023, "Tight auditing").
* At its best, where a = b: a test is right with probability at most Phi(mu / 2) if both tables are equally likely. One
  limit suffices, and is tighter for nearly Gaussian noise; the first bound finds leaks that are rare but unmistakable.

Both are used, each with half of the allowed error. Nothing is assumed about the features; weights and thresholds are
learned on the first runs and evaluated on the others, which are independent.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from scipy.special import betaincinv, ndtr, ndtri

from weft.marginals.domain import Clique
from weft.marginals.marginal import Array, project_table
from weft.methods import make_method as recipe
from weft.methods import resolve_method_name
from weft.privacy import AccountingLike, Budget, Relation, find_accounting
from weft.privacy.accounting import PURE
from weft.progress import Listener, ignore_event, report_stage
from weft.schema import Schema
from weft.synthesis.synthesizer import Synthesizer, load
from weft_lab.audit_families import RELATED, NeighbouringDatabases, make_databases

Row = tuple[int, ...]

Source = Literal["model", "rows"]
"""What the attacker holds: the model file, or synthetic rows (as many as the model generates by default)."""

TABLES = ("one column", "two columns")

ROWS = 60.0
"""Approximate rows of the smallest cell for mu = 1; the noise of a budget share is a multiple of 1 / mu."""

STEEP = 20.0
"""Ratio of the largest to the smallest cell."""


@dataclass(frozen=True)
class NeighbouringTables:
    """Two integer tables that differ in one row."""

    name: str
    relation: Relation
    shape: Row
    counts: Array
    """Rows in each cell that both tables share."""
    canary: Row
    replaced: Row | None
    """Row of the other table instead of the canary; None: no such row."""

    @property
    def columns(self) -> Clique:
        """The column names."""
        return tuple("abcdefgh"[: len(self.shape)])

    @property
    def schema(self) -> Schema:
        """The public schema: the codes."""
        return Schema.from_domain(dict(zip(self.columns, self.shape, strict=True)))

    @property
    def without(self) -> pa.Table:
        """The table without the canary."""
        return self._table(self.replaced)

    @property
    def with_canary(self) -> pa.Table:
        """The table with the canary."""
        return self._table(self.canary)

    def _table(self, last: Row | None) -> pa.Table:
        cells = np.array(list(np.ndindex(self.shape)))
        rows = np.repeat(cells, self.counts.ravel(), axis=0)
        rows = rows if last is None else np.vstack([rows, last])
        return pa.table(dict(zip(self.columns, rows.T, strict=True)))

    def figures(self, marginal: Callable[[Sequence[str]], Array]) -> list[float]:
        """Return the attack's features of a release: the count of the canary's cell in every marginal.

        The count of the replaced row's cell is subtracted, if there is one. The noisy answers of any method that
        measures marginals, or parts of them, are functions of these tables, and the canary changes each of them along
        these cells; the total is the marginal of no columns.
        """
        told = []
        for few in range(len(self.columns) + 1):
            for axes in itertools.combinations(range(len(self.columns)), few):
                table = marginal([self.columns[i] for i in axes])
                other = 0.0 if self.replaced is None else table[tuple(self.replaced[i] for i in axes)]
                told.append(float(table[tuple(self.canary[i] for i in axes)] - other))
        return told

    def tell(self, released: Synthesizer, source: Source) -> list[float]:
        """Return the attack's features of a release, as far as the attacker holds it."""
        return self.figures(released.model_.marginal if source == "model" else self.count(released.sample()))

    def count(self, rows: pa.Table) -> Callable[[Sequence[str]], Array]:
        """Return the marginals of some rows."""
        table = np.zeros(self.shape)
        np.add.at(table, tuple(rows[name].to_numpy() for name in self.columns), 1)
        return lambda columns: project_table(table, self.columns, columns)


def worst_cases(relation: Relation, mu: float) -> list[NeighbouringTables]:
    """Return the tables for a neighbouring relation, with a number of rows suited to the noise for this mu.

    They are worst cases for the canary: few columns, so a method spends its whole budget on one table (one column), or
    must also select the pair (two columns); many rows per cell relative to the noise, so no noisy count is truncated at
    zero and no value merged; cells of very different sizes, because a fit that starts from uniform cells stops early on
    uniform ones. The canary is in the largest cell; a replaced row differs in every column, so two cells change.
    """
    few = ROWS / min(mu, 1.0)
    one = np.geomspace(STEEP, 1, 8)
    # Dependent columns with uneven marginals: close codes occur together, and small codes are more frequent.
    a, b = np.indices((4, 4))
    two = np.geomspace(STEEP, 1, 4)[np.abs(a - b)] * (1 - 0.15 * a)
    return [_make_neighbours(name, relation, counts * few) for name, counts in zip(TABLES, (one, two), strict=True)]


def _make_neighbours(name: str, relation: Relation, counts: Array) -> NeighbouringTables:
    canary = (0,) * counts.ndim
    replaced = (1,) * counts.ndim if relation == "replace-one" else None
    return NeighbouringTables(name, relation, counts.shape, np.ceil(counts).astype(np.int64), canary, replaced)


TRAINING = 4
"""One run in this many is used to train the test, the others to evaluate it."""

FLAT = 1e-3
"""Directions in which standardised features vary less than this, relative to the widest, are rounding and ignored."""


@dataclass(frozen=True)
class Claim:
    """The guarantee of a budget, as a bound on every test between neighbouring tables."""

    mu: float
    """The most accurate test is right with probability at most Phi(mu / 2)."""
    every_test: bool
    """Whether mu-GDP follows, that is Phi^-1(1 - a) - Phi^-1(b) <= mu for the error rates a and b of every test."""

    @property
    def accuracy(self) -> float:
        """Largest accuracy of a test if both tables are equally likely."""
        return float(ndtr(self.mu / 2))


def compute_claim(budget: Budget, accounting: AccountingLike) -> Claim:
    """Return the guarantee of a budget against tests, in units of mu.

    Gaussian: the capacity is rho = mu^2 / 2, and the claim is mu-GDP.

    Pure: with odds of at most e^epsilon no test is right with probability above e^epsilon / (1 + e^epsilon), which is
    Phi(mu / 2) for the returned mu. And mu-GDP follows: its trade-off function is convex, starts at (0, 1) and passes
    through the corner of that of epsilon-DP, which is linear on either side, and so lies below all of it.

    zCDP: mu-GDP does not follow, but the Kullback-Leibler divergence is at most rho (orders above 1, in the limit). A
    test's advantage is at most the total-variation distance, at most sqrt(rho / 2) by Pinsker's inequality and sqrt(1 -
    e^-rho) by that of Bretagnolle and Huber. It is right with probability (1 + advantage) / 2.

    >>> round(compute_claim(Budget(mu=1.0), "gaussian").mu, 6)
    1.0
    >>> round(compute_claim(Budget(epsilon=4.0, delta=0.0), "pure").mu, 3)
    4.194
    """
    capacity, rules = budget.capacity(accounting), find_accounting(accounting)
    if rules.is_exact_gaussian:
        return Claim(math.sqrt(2 * capacity), every_test=True)
    if rules.is_pure:
        return Claim(-2 * float(ndtri(1 / (1 + math.exp(capacity)))), every_test=True)
    advantage = min(math.sqrt(capacity / 2), math.sqrt(-math.expm1(-capacity)))
    return Claim(-2 * float(ndtri((1 - advantage) / 2)), every_test=False)


def upper_limit(successes: int, trials: int, error: float) -> float:
    """Return the Clopper-Pearson upper confidence limit of a probability, which fails in at most `error` of all cases.

    >>> round(upper_limit(0, 100, 0.05), 4), upper_limit(7, 7, 0.05)
    (0.0295, 1.0)
    """
    if successes >= trials:
        return 1.0
    return float(betaincinv(successes + 1, trials - successes, 1 - error))


def accuracy_bound(wrong: int, trials: int, error: float) -> float:
    """Return a lower confidence bound on mu from a test's number of errors; half of the trials are on each table.

    The outcomes are independent, with one error probability on D and another on D'. Their sum is less dispersed than a
    binomial variable of the same mean (Hoeffding 1956), so its limit holds for the mean of the two.
    """
    return max(0.0, -2 * float(ndtri(upper_limit(wrong, trials, error))))


def trade_off_bound(false_positives: int, false_negatives: int, trials: int, error: float) -> float:
    """Return a lower confidence bound on mu from a test's two error rates, with `error` / 2 for each rate."""
    rates = [upper_limit(found, trials, error / 2) for found in (false_positives, false_negatives)]
    return max(0.0, -float(ndtri(rates).sum())) if max(rates) < 1 else 0.0


@dataclass(frozen=True)
class AttackEvidence:
    """Error counts of an attack and the resulting bound on mu."""

    trials: int
    """Evaluated releases of each table."""
    wrong: int
    """Wrong guesses of the test with the best training accuracy, of twice as many trials."""
    rates: tuple[int, int] | None
    """False positives and negatives of the test with the best training trade-off; None: not covered by the claim."""
    confidence: float

    @property
    def mu(self) -> float:
        """Lower bound on mu at the audit's confidence."""
        return self.bound(self.confidence)

    def bound(self, confidence: float) -> float:
        """Return the lower bound on mu at another confidence."""
        if self.rates is None:
            return accuracy_bound(self.wrong, 2 * self.trials, 1 - confidence)
        half = (1 - confidence) / 2
        return max(accuracy_bound(self.wrong, 2 * self.trials, half), trade_off_bound(*self.rates, self.trials, half))

    @property
    def accuracy(self) -> float:
        """Share of correct guesses."""
        return 1 - self.wrong / (2 * self.trials)

    @property
    def estimate(self) -> float:
        """Point estimate of mu: the value at which the best test is as accurate as this one, without confidence."""
        # No wrong guess counts as half an error, to keep the estimate finite.
        return max(0.0, -2 * float(ndtri(max(self.wrong, 0.5) / (2 * self.trials))))


def run_attack(without: Array, canary: Array, confidence: float, *, every_test: bool = True) -> AttackEvidence:
    """Train a test between releases of D and D', and count its errors on the others; `every_test` as in `Claim`."""
    runs = len(without)
    if len(canary) != runs or runs < 2 * TRAINING:
        raise ValueError(f"an attack needs the same number of releases of both tables, at least {2 * TRAINING}")
    few = runs // TRAINING
    weights = fit_discriminant(without[:few], canary[:few])
    negative, positive = without @ weights, canary @ weights
    middle = (negative[:few].mean() + positive[:few].mean()) / 2
    wrong = sum(_count_errors(negative[few:], positive[few:], middle))
    rates = None
    if every_test:
        far = _choose_threshold(negative[:few], positive[:few], (1 - confidence) / 2)
        rates = _count_errors(negative[few:], positive[few:], far)
    return AttackEvidence(runs - few, wrong, rates, confidence)


def _count_errors(negative: Array, positive: Array, threshold: float) -> tuple[int, int]:
    return int((negative >= threshold).sum()), int((positive < threshold).sum())


def fit_discriminant(without: Array, canary: Array) -> Array:
    """Return the weights of Fisher's linear discriminant (1936), by regression of the group on the features."""
    together = np.concatenate([without, canary]).astype(np.float64)
    spread = together.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    group = np.repeat([-0.5, 0.5], [len(without), len(canary)])
    weights = np.linalg.lstsq((together - together.mean(axis=0)) / spread, group, rcond=FLAT)[0]
    return np.asarray(weights / spread)


def _choose_threshold(without: Array, canary: Array, error: float) -> float:
    candidates = np.unique(np.concatenate([without, canary]))
    positives = len(without) - np.searchsorted(np.sort(without), candidates)
    negatives = np.searchsorted(np.sort(canary), candidates)
    shown = [
        trade_off_bound(int(fp), int(fn), len(without), error) for fp, fn in zip(positives, negatives, strict=True)
    ]
    return float(candidates[int(np.argmax(shown))])


RELATIONS: tuple[Relation, ...] = ("add-remove", "replace-one")
SOURCES: tuple[Source, ...] = ("model", "rows")


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Parameters of an empirical audit."""

    method: str
    budget: Budget
    runs: int
    """Fits of each table of each pair."""
    relations: Sequence[Relation] = RELATIONS
    sources: Sequence[Source] = SOURCES
    tables: Sequence[str] = TABLES
    confidence: float = 0.95
    """Probability that no bound of the whole audit is too large (the error is divided among the bounds)."""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def claim(self) -> Claim:
        """Guarantee of the budget under the method's accounting."""
        pure = {"accounting": PURE.name} if self.budget.delta == 0 else {}
        return compute_claim(
            self.budget, recipe(resolve_method_name(self.method), **(pure | dict(self.options))).accounting
        )

    def cases(self) -> list[NeighbouringTables | NeighbouringDatabases]:
        """Return the pairs of tables to attack."""
        made: list[NeighbouringTables | NeighbouringDatabases] = []
        for relation in self.relations:
            made += [case for case in worst_cases(relation, self.claim.mu) if case.name in self.tables]
            if RELATED in self.tables:
                made.append(make_databases(relation, ROWS / min(self.claim.mu, 1.0)))
        return made


@dataclass(frozen=True)
class AttackFinding:
    """Result of one attack on one method."""

    method: str
    relation: Relation
    table: str
    source: Source
    claim: Claim
    evidence: AttackEvidence

    @property
    def share(self) -> float:
        """The bound as a share of the claim."""
        return self.evidence.mu / self.claim.mu

    @property
    def broken(self) -> bool:
        """Whether the bound exceeds the claim."""
        return self.evidence.mu > self.claim.mu


def run_attacks(audit: Audit, listener: Listener = ignore_event) -> Iterator[AttackFinding]:
    """Run the attacks one after another."""
    claimed, cases = audit.claim, audit.cases()
    confidence = 1 - (1 - audit.confidence) / (len(cases) * len(audit.sources))
    for case in cases:
        with report_stage(listener, f"{audit.method}: {case.relation}, {case.name}", 2 * audit.runs) as work:
            told = [_collect_figures(audit, case, table, work.advance) for table in (case.without, case.with_canary)]
        for source in audit.sources:
            without, canary = (figures[source] for figures in told)
            evidence = run_attack(without, canary, confidence, every_test=claimed.every_test)
            yield AttackFinding(audit.method, case.relation, case.name, source, claimed, evidence)


def _collect_figures(
    audit: Audit,
    case: NeighbouringTables | NeighbouringDatabases,
    table: pa.Table | dict[str, pa.Table],
    advance: Callable[[], None],
) -> dict[Source, Array]:
    """Release a table repeatedly; return the features of each release, by what the attacker holds."""
    told: dict[Source, list[list[float]]] = {source: [] for source in audit.sources}
    with TemporaryDirectory(prefix="weft-audit-") as folder:
        file = Path(folder) / "model.weft"
        for _ in range(audit.runs):
            # No seed: noise and sampling are fresh, as in a real release.
            synthesizer = Synthesizer(
                budget=audit.budget, method=audit.method, neighbours=case.relation, journal=None, **audit.options
            )
            synthesizer.fit(table, case.schema).save(file)
            released = load(file)
            for source in audit.sources:
                told[source].append(case.tell(released, source))
            advance()
    return {source: np.array(figures) for source, figures in told.items()}
