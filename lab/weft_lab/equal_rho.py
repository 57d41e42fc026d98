"""Weave beside AIM with the same rho, so that only the methods differ and not how they count their budgets.

AIM is paid in zCDP: of epsilon and delta it gets the rho that the usual conversion allows. Weave's exact accounting of
Gaussian noise allows more for the same epsilon and delta. Here both get AIM's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from weft.privacy import Budget
from weft_lab.rivals import rivals
from weft_lab.sheet import Sheet
from weft_lab.tables import BenchTable
from weft_lab.trial import DELTA, ORDERS, repeated

RIVAL = "aim-fast"
TABLES = ("nltcs", "adult", "br2000")
EPSILONS = (0.2, 0.8, 3.2)
LESS = 0.8
"""Weave's error should be below this part of AIM's, from pairs on."""


def equal_rho(tables: Sequence[BenchTable], runs: int = 3) -> Iterator[Sheet]:
    """Yield one sheet: ratios of weave's error to AIM's, by order."""
    rows, above = [], []
    for table in tables:
        for epsilon in EPSILONS:
            theirs = next((run for run in rivals(table.name, epsilon) if run.rival == RIVAL), None)
            if theirs is None:
                continue
            rho = Budget(epsilon=epsilon, delta=DELTA).capacity("zcdp")
            ours = repeated(table, "weave", epsilon, runs, {"budget": Budget(rho=rho, delta=DELTA)})
            known = [theirs.error(k) or math.nan for k in ORDERS]
            ratios = [ours.errors[k].mean / error for k, error in zip(ORDERS, known, strict=True)]
            rows.append([table.name, f"{epsilon:g}", f"{rho:.5f}", *ours.shown()[:-1], *(f"{r:.2f}" for r in ratios)])
            far = [f"{k}-way" for k, ratio in zip(ORDERS, ratios, strict=True) if k > 1 and ratio > LESS]
            above += [f"{table.name} {epsilon:g} ({', '.join(far)})"] if far else []
    heads = ("table", "epsilon", "rho", *(f"{k}-way" for k in ORDERS), *(f"of AIM's, {k}-way" for k in ORDERS))
    less = f"Less than {1 - LESS:.0%} below AIM from pairs on: {'; '.join(above) or 'nowhere'}."
    yield Sheet(f"weave with AIM's rho, {runs} runs", heads, rows, [less])
