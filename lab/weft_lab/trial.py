"""One run as a user would have it: real noise, from a table of values to a table of values, timed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import pyarrow as pa

from weft.encoding import Codec
from weft.evaluation.metrics import k_way
from weft.marginals.records import Records
from weft.models import Model
from weft.models.chains.chain_model import ChainsModel
from weft.privacy import Ledger
from weft.progress import Listener, ignore_event
from weft.synthesis.synthesizer import Synthesizer
from weft_lab.charts import Spread
from weft_lab.tables import BenchTable

DELTA = 1e-5
ORDERS = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Trial:
    """What one run made."""

    synth: Records
    seconds: float
    """To fit and to sample."""
    model: Model
    ledger: Ledger
    """What was asked of the rows."""


def trial(
    table: BenchTable,
    method: str,
    epsilon: float,
    options: Mapping[str, Any] | None = None,
    rows: pa.Table = None,
    listener: Listener = ignore_event,
) -> Trial:
    """Fit and sample once; `rows` stands for fewer rows of the table."""
    begin = perf_counter()
    fitted = Synthesizer(
        epsilon,
        DELTA,
        journal=None,  # an experiment on a public table
        method=method,
        trust_data_for_schema=True,
        **(options or {}),
    ).fit(table.rows if rows is None else rows, table.schema, listener=listener)
    made = fitted.sample()
    seconds = perf_counter() - begin
    return Trial(Codec(table.schema, table.rows.schema).encode(made), seconds, fitted.model_, fitted.ledger_)


def errors(real: Records, synth: Records, orders: Sequence[int] = ORDERS) -> list[float]:
    """Return mean total variation distances of marginals of some orders."""
    return [k_way(real, synth, k).tvd for k in orders if k <= len(real.domain)]


@dataclass(frozen=True)
class Repeated:
    """Several runs of one method on one table."""

    errors: dict[int, Spread]
    """By order."""
    seconds: float
    mixing: float | None = None
    """Of chains: how far those that start anew are from the measured tables, in units of those that learned them."""

    def shown(self, orders: Sequence[int] = ORDERS) -> list[str]:
        """Return the mean errors of some orders, and the seconds, as words."""
        return [*(f"{self.errors[k].mean:.4f}" for k in orders if k in self.errors), f"{self.seconds:.1f}"]


def repeated(
    table: BenchTable,
    method: str,
    epsilon: float,
    runs: int,
    options: Mapping[str, Any] | None = None,
    rows: pa.Table = None,
    orders: Sequence[int] = ORDERS,
) -> Repeated:
    """Run a method several times, with noise of its own each time."""
    made = [trial(table, method, epsilon, options, rows) for _ in range(runs)]
    each = zip(*(errors(table.records, one.synth, orders) for one in made), strict=True)
    spreads = {k: Spread.of(values) for k, values in zip(orders, each, strict=False)}
    mixing = [ratio for one in made if (ratio := _mixing(one.model)) is not None]
    return Repeated(spreads, sum(one.seconds for one in made) / runs, sum(mixing) / len(mixing) if mixing else None)


def _mixing(model: Model) -> float | None:
    inner = getattr(model, "inner", model)
    return inner.restarted / inner.distance if isinstance(inner, ChainsModel) and inner.distance > 0 else None
