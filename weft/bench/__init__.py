"""The papers' experiments, run again: each is data, one runner executes it on any coded table.

What they measure is computed from the real rows, with noise that a seed can repeat: results are PRIVATE unless the
table is public.
"""

from __future__ import annotations

from weft.bench.catalogue import EXPERIMENTS, experiment
from weft.bench.experiment import Experiment, Variant
from weft.bench.figure import figure
from weft.bench.results import Row, Spread, Store, summary
from weft.bench.runner import Outcome, run
from weft.bench.tables import BenchTable, open_table

__all__ = [
    "EXPERIMENTS",
    "BenchTable",
    "Experiment",
    "Outcome",
    "Row",
    "Spread",
    "Store",
    "Variant",
    "experiment",
    "figure",
    "open_table",
    "run",
    "summary",
]
