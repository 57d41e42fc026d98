"""What records cost: weave from table to table, a record of a dense model, and rows a second into a file.

Each figure stands beside its target as a ratio; at most 1 is kept to. Targets are for two idle cores: where others work
too, processor seconds tell more than those of the clock.
"""

from __future__ import annotations

import tempfile
from itertools import combinations
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from weft.marginals.counting import compile_kernels, count_marginals
from weft.marginals.domain import make_clique
from weft.marginals.marginal import Marginal
from weft.marginals.records import Records
from weft.models.chains.chain_fit import GibbsChains
from weft.release.publish import Files, publish
from weft.schema import Schema
from weft.synthesis.synthesizer import Synthesizer
from weft_lab.datasets import locate
from weft_lab.fetch import as_table
from weft_lab.generated import latent_class
from weft_lab.tables import BenchTable, open_table
from weft_lab.timings import Figures
from weft_lab.timings.stopwatch import peak
from weft_lab.trial import trial

EPSILON = 0.8
TABLES = {"fire": 10.0, "acs_pums2018_west": 25.0, "cps_tax": 40.0}
"""Most seconds of weave, from table to table."""
CENSUS = (300_000, 42, 30.0)
"""Rows, columns, and most seconds of processor, for a generated table of census kind."""
DENSE = (40, 300, 40e-6)
"""Columns, tables, and most seconds of processor for a record."""
MADE, LARGE, COLUMNS = 1_000_000, 50_000_000, 20
SPEEDS = {"independent": 300_000, "weave": 50_000}
"""Fewest rows a second of that many columns, into a Parquet file."""


def figures(large: bool = False) -> Figures:
    """Measure all of it; the generated census and the longest file with `large` only."""
    compile_kernels()
    rows = [dense()]
    rows += [row for method in SPEEDS for row in speed(method, LARGE if large else MADE)]
    rows += [row for name in TABLES if locate(name) is not None for row in whole(open_table(name), TABLES[name])]
    rows += census() if large else []
    return [*rows, ("peak memory", f"{peak() / 2**20:.0f} MiB")]


def dense() -> tuple[str, str]:
    """Time a record of chains with the settings that weave has for so many columns, on exact pairs."""
    columns, tables, most = DENSE
    records = latent_class(50_000, columns, np.random.default_rng(4), sizes=(2, 20))
    pairs = [make_clique(pair) for pair in combinations(records.domain.names, 2)]
    chosen = np.random.default_rng(5).choice(len(pairs), tables, replace=False)
    cliques = [*((name,) for name in records.domain), *(pairs[i] for i in chosen)]
    chains = GibbsChains(records.domain, 10_000, np.random.default_rng(6))
    found = zip(cliques, count_marginals(records, cliques), strict=True)
    chains.set_targets([Marginal(c, table.astype(np.float64)) for c, table in found], [10.0] * len(cliques))
    chains.match(6, 2.0)
    model = chains.model(12, 2, 0.02)
    model.sample(10_000, np.random.default_rng(7))  # compiles
    begin, n = process_time(), 300_000
    model.sample(n, np.random.default_rng(8))
    each = (process_time() - begin) / n
    told = f"{each * 1e6:.1f} microseconds of processor ({each / most:.2f} of the target)"
    return f"a record of {columns} columns and {tables} tables, chains", told


def speed(method: str, rows: int) -> Figures:
    """Time a model's rows into a Parquet file, as `weft sample` writes them."""
    records = latent_class(50_000, COLUMNS, np.random.default_rng(9), sizes=(2, 20))
    table, schema = as_table(records), _schema(records)
    fitted = Synthesizer(EPSILON, 1e-5, method=method, journal=None, seed=1).fit(table, schema)
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        files = Files.of(Path(folder) / "made.parquet")
        begin, busy = perf_counter(), process_time()
        publish(fitted.fitted_, fitted.tables(rows, seed=2), files)
        taken, busy = perf_counter() - begin, process_time() - busy
    rate, least = rows / taken, SPEEDS[method]
    told = f"{rate:,.0f} rows a second ({least / rate:.2f} of the target's time; {busy / taken:.1f} cores busy)"
    return [(f"{rows:,} rows x {COLUMNS} into Parquet, {method}", told)]


def whole(table: BenchTable, most: float) -> Figures:
    """Time weave from table to table, beside a target in seconds."""
    busy = process_time()
    made = trial(table, "weave", EPSILON)
    busy = process_time() - busy
    told = f"{made.seconds:.1f} s ({made.seconds / most:.2f} of the target), {busy:.1f} s of processor"
    return [(f"weave, {table.name} ({len(table.records):,} x {len(table.records.domain)})", told)]


def census() -> Figures:
    """Time weave on a generated table, beside a target in seconds of processor."""
    rows, columns, most = CENSUS
    records = latent_class(rows, columns, np.random.default_rng(10), weakest=100.0, sizes=(2, 30))
    table = BenchTable.of("generated", as_table(records), _schema(records))
    busy = process_time()
    made = trial(table, "weave", EPSILON)
    busy = process_time() - busy
    told = f"{busy:.1f} s of processor ({busy / most:.2f} of the target), {made.seconds:.1f} s"
    return [(f"weave, generated ({rows:,} x {columns})", told)]


def _schema(records: Records) -> Schema:
    return Schema.from_domain(dict(zip(records.domain.names, records.domain.shape, strict=True)))
