"""A million records grown from seeds on an ACS-like table, and what seeds cost for a whole table.

The table has the cardinalities of table 1 of the plausible-deniability paper, whose tool made a million records in an
hour on 12 processes. Everything is timed from the rows in memory to the released records, model learning included.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from weft.evaluation.metrics.aligned_tables import number_cells
from weft.marginals.marginal import Array
from weft.marginals.records import Records
from weft.models import Model
from weft.privacy import Ledger, gdp_epsilon
from weft.privacy.deniability import UNIT, Acceptance, theorem_one
from weft.schema import Schema
from weft.synthesis.synthesizer import Synthesizer
from weft_lab.fetch import as_table
from weft_lab.generated import ACS_SIZES, acs_like
from weft_lab.methods.bayesnet import BayesNet
from weft_lab.queries.seeded_price import release_mu
from weft_lab.settings import DENIABLE, DENIABLE_AT_RANDOM
from weft_lab.timings import Figures
from weft_lab.timings.stopwatch import peak

SEEDS = 700_000
RECORDS = 1_000_000
OMEGA = 9


def fit(table: Records, options: Mapping[str, Any] | None = None) -> tuple[Model, Ledger, float]:
    """Fit BSG at epsilon 1, delta 1e-6; return the model, the ledger and the seconds taken."""
    rows, schema = as_table(table), Schema.from_domain(ACS_SIZES)
    buckets = {"age": 10, "hours": 15}
    synthesizer = Synthesizer(1.0, 1e-6, method="bsg", journal=None, seed=1, buckets=buckets, **(options or {}))
    begin = perf_counter()
    fitted = synthesizer.fit(rows, schema).fitted_
    return fitted.model, fitted.ledger, perf_counter() - begin


def alike(table: Records, names: Sequence[str]) -> Array:
    """Return how many rows there are of each kind over some attributes."""
    (cell,) = number_cells([table], tuple(names))
    return np.unique(cell, return_counts=True)[1]


def growing(table: Records) -> Figures:
    """Time a million records, from rows to records: with the paper's tests, and without seeds."""
    size = {"omega": OMEGA, "rows": RECORDS}
    tried: dict[str, tuple[Mapping[str, Any], str]] = {
        f"omega {OMEGA}, k 50, Test 1": ({**DENIABLE, **size}, " (target under 60)"),
        f"omega {OMEGA}, k 50, Test 2, epsilon0 1": ({**DENIABLE_AT_RANDOM, **size}, " (target under 60)"),
        "omega 5-11, k 50, Test 2": ({**DENIABLE_AT_RANDOM, **size, "omega": "5-11"}, ""),
        "every column drawn, no seeds": ({}, ""),
    }
    rows: Figures = []
    for label, (options, note) in tried.items():
        model, _, seconds = fit(table, options)
        begin = perf_counter()
        model.sample(RECORDS, np.random.default_rng(2))
        seconds += perf_counter() - begin
        rows.append((f"{RECORDS:,} records from {SEEDS:,} x {len(ACS_SIZES)}, {label}", f"{seconds:.1f} s{note}"))
    return [*rows, ("  peak memory of these", f"{peak() / 2**30:.2f} GiB (target under 2)")]


def prices(table: Records, order: Sequence[str]) -> Figures:
    """Say how many seeds pass, and what records cost alone and together."""
    rows: Figures = [
        (
            "one record alone, k 50, epsilon0 1: Theorem 1 at delta 2^-30",
            f"epsilon {theorem_one(50, 1.0, 4.0, 2.0**-30):.2f} (paper 1.13)",
        )
    ]
    for omega in (10, 9, 8, 6):
        counts = alike(table, order[: len(ACS_SIZES) - omega])
        rates = [Acceptance(k, 1.0).weights(counts).sum() / UNIT / SEEDS for k in (10, 50, 100, 250)]
        rows.append((f"pass rate at omega {omega}, k 10, 50, 100, 250", ", ".join(f"{rate:.0%}" for rate in rates)))
    counts = alike(table, order[:2])
    for k, epsilon0, n in ((50, 1.0, 1000), (50, 1.0, 100_000), (1000, 0.05, 10_000), (1000, 0.05, 100_000)):
        test = Acceptance(k, epsilon0)
        begin = perf_counter()
        mu = release_mu(test, n, float(test.weights(counts).sum()) / UNIT, 1e-8)
        price = "none finite" if math.isinf(mu) else f"epsilon {gdp_epsilon(mu, 1e-6):.2f}"
        rows.append(
            (f"{n:,} records together, k {k}, epsilon0 {epsilon0}", f"{price}, in {perf_counter() - begin:.1f} s")
        )
    for n in (10_000, 30_000, 100_000, RECORDS):
        _, ledger, seconds = fit(table, {"omega": OMEGA, "rows": n})
        told = [entry.question for entry in ledger.entries if entry.definition.grows_private_records]
        used = told[0] if told else "no test fits: all columns drawn"
        rows.append((f"{n:,} records, all within epsilon 1, delta 1e-6", f"{used}; {seconds:.1f} s"))
    return rows


def figures(large: bool = False) -> Figures:
    """Measure."""
    fit(acs_like(1000), {**DENIABLE, "k": 2, "omega": OMEGA, "rows": 10})  # compiles
    table = acs_like(SEEDS)
    model, _, _ = fit(table)
    assert isinstance(model, BayesNet)
    return [*growing(table), *prices(table, model.order)]
