"""GUM on exact marginals: how close it comes, beside the paper's strategies and min-cost flow, and what it costs.

The large sizes are 10 million records, and that of the largest table of the PrivSyn paper: 662,000 x 97.
"""

from __future__ import annotations

from itertools import combinations
from time import perf_counter, process_time

import numpy as np

from weft.marginals.counting import count_marginals
from weft.marginals.domain import Clique, make_clique
from weft.marginals.marginal import Marginal
from weft.marginals.records import Records
from weft.models.gum.gum_model import GumModel, GumOptions
from weft_lab.datasets import locate
from weft_lab.generated import latent_class
from weft_lab.tables import open_table
from weft_lab.timings import Figures
from weft_lab.timings.stopwatch import peak

SETTINGS = {
    "guided, the default": GumOptions(),
    "the paper's: half-duplicate (S5), 100 passes": GumOptions.paper(),
    "half-duplicate (S5), faster decay, 60 passes": GumOptions(strategy="half-duplicate", iterations=60),
    "min-cost flow, 40 passes": GumOptions.mcf(iterations=40),
}


def strongest_pairs(records: Records, k: int) -> list[Clique]:
    """Return the k pairs of the largest InDif, without privacy."""
    pairs = [make_clique(pair) for pair in combinations(records.domain.names, 2)]
    tables = count_marginals(records, pairs)
    indif = [np.abs(t - np.outer(t.sum(1), t.sum(0)) / len(records)).sum() for t in tables]
    return [pairs[i] for i in np.argsort(indif)[::-1][:k]]


def exact_model(records: Records, cliques: list[Clique], options: GumOptions) -> GumModel:
    """Return the model of the exact tables of these cliques and of all single columns."""
    cliques = [*((name,) for name in records.domain), *cliques]
    tables = [Marginal(c, t.astype(float)) for c, t in zip(cliques, count_marginals(records, cliques), strict=True)]
    return GumModel(records.domain, float(len(records)), tuple(tables), options)


def distance(a: Records, b: Records, cliques: list[Clique]) -> float:
    """Mean total variation distance over cliques."""
    tables = zip(count_marginals(a, cliques), count_marginals(b, cliques), strict=True)
    return float(np.mean([np.abs(x / len(a) - y / len(b)).sum() / 2 for x, y in tables]))


def sample(model: GumModel, n: int) -> tuple[Records, float, float, int]:
    """Make n records; return them, the seconds, the processor seconds and the iterations that it took."""
    errors: list[float] = []
    begin, begin_busy = perf_counter(), process_time()
    made = model.sample(n, np.random.default_rng(1), errors=errors)
    return made, perf_counter() - begin, process_time() - begin_busy, len(errors)


def convergence(name: str, records: Records, cliques: list[Clique], n: int) -> Figures:
    """Compare the settings on exact tables."""
    rng = np.random.default_rng(0)
    triples = [make_clique(rng.choice(records.domain.names, 3, replace=False).tolist()) for _ in range(200)]
    triples = [c for c in triples if records.domain.cells(c) <= 20_000][:100]
    drawn = records.take(rng.integers(0, len(records), n))
    rows = [
        (
            f"{name}, {len(cliques)} exact pairs, {n:,} records",
            "mean total variation on those pairs / on 3-way tables that were not given",
        ),
        (
            "  rows drawn from the table itself",
            f"{distance(drawn, records, cliques):.4f} / {distance(drawn, records, triples):.4f}",
        ),
    ]
    for label, options in SETTINGS.items():
        model = exact_model(records, cliques, options)
        model.sample(1, rng)  # compiles
        made, seconds, busy, passes = sample(model, n)
        figure = f"{distance(made, records, cliques):.4f} / {distance(made, records, triples):.4f}"
        rows.append((f"  {label}", f"{figure}, {passes} iterations, {seconds:.1f} s ({busy:.1f} of processor)"))
    return rows


def cost(sizes: list[int]) -> Figures:
    """Time the default for growing numbers of records and of marginals."""
    records = latent_class(100_000, 30, np.random.default_rng(2))
    rows: Figures = []
    for n, k in [*((n, 100) for n in sizes), (100_000, 50), (100_000, 200)]:
        _, seconds, busy, passes = sample(exact_model(records, strongest_pairs(records, k), GumOptions()), n)
        work = busy / (n * k * passes)
        rows.append(
            (
                f"{n:,} records x 30 columns, {k} pairs",
                f"{seconds:.2f} s, {passes} iterations, {work * 1e9:.1f} ns busy per record, pair, iteration",
            )
        )
    return rows


def largest() -> Figures:
    """Time the size of the paper's largest table."""
    records = latent_class(662_000, 97, np.random.default_rng(3))
    model = exact_model(records, cliques := strongest_pairs(records, 500), GumOptions())
    before = peak()
    made, seconds, busy, passes = sample(model, 662_000)
    extra = (peak() - before) / 2**20
    return [
        (
            "662,000 records x 97 columns, 500 pairs",
            f"{seconds:.0f} s (target under 100; {busy:.0f} of processor), {passes} iterations, mean total variation "
            f"{distance(made, records, cliques):.4f}, {extra:.0f} MB more than before",
        )
    ]


def figures(large: bool = False) -> Figures:
    """Measure, on Adult where it is there."""
    if locate("adult") is not None:
        name, records = "Adult", open_table("adult").records
    else:
        name, records = "generated, 15 columns", latent_class(45_000, 15, np.random.default_rng(0))
    rows = convergence(name, records, strongest_pairs(records, 60), len(records))
    rows += cost([10_000, 100_000, 1_000_000, *([10_000_000] if large else [])])
    return rows + largest() if large else rows
