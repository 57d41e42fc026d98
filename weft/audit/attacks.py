"""Run a method on neighbouring tables, many times from end to end, and attack what comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from weft.audit.empirical import Claim, Evidence, attack, claim
from weft.audit.tables import TABLES, NeighbouringTables, worst_cases
from weft.marginals.marginal import Array
from weft.methods import known
from weft.methods import method as recipe
from weft.privacy import Budget, Relation
from weft.progress import Listener, silence, stage
from weft.synthesizer import Synthesizer, load

Source = Literal["model", "rows"]
"""What the attacker holds: the model file, or synthetic rows (as many as the model makes by itself)."""

RELATIONS: tuple[Relation, ...] = ("add-remove", "replace-one")
SOURCES: tuple[Source, ...] = ("model", "rows")


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What is audited, and how closely."""

    method: str
    budget: Budget
    runs: int
    """Fits of each table of each pair."""
    relations: Sequence[Relation] = RELATIONS
    sources: Sequence[Source] = SOURCES
    tables: Sequence[str] = TABLES
    confidence: float = 0.95
    """With at least this probability no bound of the whole audit is too large (each has its part of the error)."""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def claim(self) -> Claim:
        """What the budget says of tests, as this method counts it."""
        pure = {"accounting": "pure"} if self.budget.delta == 0 else {}
        return claim(self.budget, recipe(known(self.method), **(pure | dict(self.options))).accounting)

    def cases(self) -> list[NeighbouringTables]:
        """Return the pairs of tables that are attacked."""
        cases = [case for relation in self.relations for case in worst_cases(relation, self.claim.mu)]
        return [case for case in cases if case.name in self.tables]


@dataclass(frozen=True)
class Finding:
    """What one attack has shown of one method."""

    method: str
    relation: Relation
    table: str
    source: Source
    claim: Claim
    evidence: Evidence

    @property
    def share(self) -> float:
        """The bound as a share of the claim."""
        return self.evidence.mu / self.claim.mu

    @property
    def broken(self) -> bool:
        """Whether more is given away than was claimed."""
        return self.evidence.mu > self.claim.mu


def run(audit: Audit, listener: Listener = silence) -> Iterator[Finding]:
    """Make the attacks, one after another."""
    claimed, cases = audit.claim, audit.cases()
    confidence = 1 - (1 - audit.confidence) / (len(cases) * len(audit.sources))
    for case in cases:
        with stage(listener, f"{audit.method}: {case.relation}, {case.name}", 2 * audit.runs) as work:
            told = [_figures(audit, case, table, work.advance) for table in (case.without, case.with_canary)]
        for source in audit.sources:
            without, canary = (figures[source] for figures in told)
            evidence = attack(without, canary, confidence, every_test=claimed.every_test)
            yield Finding(audit.method, case.relation, case.name, source, claimed, evidence)


def _figures(
    audit: Audit, case: NeighbouringTables, table: pa.Table, advance: Callable[[], None]
) -> dict[Source, Array]:
    """Release a table again and again; return the figures of each release, by what the attacker holds."""
    told: dict[Source, list[list[float]]] = {source: [] for source in audit.sources}
    with TemporaryDirectory(prefix="weft-audit-") as folder:
        file = Path(folder) / "model.weft"
        for _ in range(audit.runs):
            # No seed: everything is as fresh as in a release, the noise and what follows it.
            synthesizer = Synthesizer(
                budget=audit.budget, method=audit.method, neighbours=case.relation, journal=None, **audit.options
            )
            synthesizer.fit(table, case.schema).save(file)
            released = load(file)
            for source in audit.sources:
                marginal = released.model_.marginal if source == "model" else case.count(released.sample())
                told[source].append(case.figures(marginal))
            advance()
    return {source: np.array(figures) for source, figures in told.items()}
