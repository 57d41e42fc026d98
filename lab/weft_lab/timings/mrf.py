"""Markov random fields: convergence of the fit against mirror descent, and time by size of the tree.

Needs Adult, coded, for its figures; trees of other sizes are made up.
"""

from __future__ import annotations

import itertools
from time import perf_counter

import numpy as np

from weft.marginals.counting import count_marginals
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import NoisyMarginal
from weft.marginals.records import Records
from weft.models.mrf import MrfModel, fit_mrf, junction_tree
from weft.models.mrf.message_passing import plan_calibration
from weft.privacy import Budget
from weft.privacy.conversions import gdp_delta
from weft_lab.datasets import locate
from weft_lab.methods.tree_growth import fits_with_clique
from weft_lab.tables import open_table
from weft_lab.timings import Figures
from weft_lab.timings.stopwatch import shortest

SIGMA = 27.0
"""About what PrivMRF adds to Adult's marginals at epsilon 0.8."""


def dependence(records: Records, c: Clique) -> float:
    """Distance of a pair from independence."""
    table = count_marginals(records, [c])[0]
    return float(np.abs(table - np.outer(table.sum(1), table.sum(0)) / table.sum()).sum())


def spanning(pairs: list[Clique]) -> list[Clique]:
    """The first pairs, in order, that close no cycle."""
    part = {name: {name} for pair in pairs for name in pair}
    kept: list[Clique] = []
    for a, b in pairs:
        if part[a] is not part[b]:
            part[a] |= part[b]
            for name in part[b]:
                part[name] = part[a]
            kept.append((a, b))
    return kept


def chosen(domain: Domain, pairs: list[Clique], most: int, max_cells: int) -> list[Clique]:
    """Strong pairs and random triples that fit a tree of limited size."""
    rng = np.random.default_rng(0)
    triples = [c for c in itertools.combinations(sorted(domain.names), 3) if domain.cells(c) <= 1000]
    rng.shuffle(triples)
    tree = junction_tree(domain, [])
    for c in [*pairs[: most // 2], *map(make_clique, triples)]:
        if len(tree.given) < most and fits_with_clique(tree, c, max_cells=max_cells):
            tree = junction_tree(domain, [*tree.given, c], max_cells=max_cells)
    return list(tree.given)


def measured(records: Records, cliques: list[Clique]) -> list[NoisyMarginal]:
    """Noisy tables for the benchmark only: seeded noise is not private."""
    rng = np.random.default_rng(1)
    asked = [*((name,) for name in records.domain), *cliques]
    exact = zip(asked, count_marginals(records, asked), strict=True)
    return [NoisyMarginal(c, t + np.rint(SIGMA * rng.normal(size=t.shape)), SIGMA) for c, t in exact]


def convergence(label: str, domain: Domain, tables: list[NoisyMarginal]) -> tuple[str, str]:
    """Passes until the distance is within 2% of what 10,000 passes of mirror descent reach."""
    best = fit_mrf(domain, tables, solver="mirror", iterations=10_000, tolerance=0.0)
    level = 1.02**2 * best.loss
    fast = fit_mrf(domain, tables, iterations=10_000, tolerance=0.0, noise_level=level)
    slow = fit_mrf(domain, tables, solver="mirror", iterations=10_000, tolerance=0.0, noise_level=level)
    default = fit_mrf(domain, tables)
    figure = (
        f"{fast.passes} passes (mirror descent {slow.passes}); distance {np.sqrt(fast.loss / best.loss):.3f} of mirror "
        f"descent's after {best.passes}; default stop at {default.passes}, loss {default.loss:.2f} of noise"
    )
    return f"fit, {label}, passes to within 2% (target 1,000)", figure


def pass_time(d: int, most: int, width: int) -> tuple[str, str]:
    """Time of one calibration of a tree over random cliques of binary attributes."""
    rng = np.random.default_rng(d)
    domain = Domain.of({f"v{i:02}": 2 for i in range(d)})
    cliques = list(dict.fromkeys(make_clique(rng.choice(domain.names, width, replace=False)) for _ in range(most)))
    tree = junction_tree(domain, cliques, max_cells=1 << 24, max_total=1 << 26)
    tape = plan_calibration(tree, [tree.in_order(c) for c in cliques])
    work, theta = tape.start(1e5), rng.normal(size=tape.length)
    took = shortest(lambda: tape.run(work, theta))
    label = f"pass, {len(cliques)} {width}-way tables over {d} binary attributes"
    return label, f"{took * 1e3:.2f} ms for {tree.cells:,} cells ({took / tree.cells * 1e9:.0f} ns a cell)"


def wide() -> tuple[str, str]:
    """Time to test one more clique on a wide table."""
    rng = np.random.default_rng(2)
    domain = Domain.of({f"v{i:03}": int(rng.integers(2, 20)) for i in range(129)})
    tree = junction_tree(domain, [(f"v{i:03}", f"v{i + 1:03}") for i in range(128)])
    tests = [make_clique(rng.choice(domain.names, 3, replace=False)) for _ in range(100)]
    took = shortest(lambda: [fits_with_clique(tree, c) for c in tests])
    return "size check of one more clique, 129 attributes", f"{took * 10:.2f} ms"


def sampling(model: MrfModel, n: int) -> tuple[str, str]:
    """Time to sample."""
    _ = model.beliefs
    rng = np.random.default_rng(3)
    took = shortest(lambda: model.sample(n, rng))
    return f"sample {n:,} records of {len(model.domain)} attributes", f"{took:.3f} s"


def calibration(epsilon: float) -> tuple[str, str]:
    """Time to turn an extreme budget into noise, and whether the noise gives the budget back."""
    budget = Budget(epsilon=epsilon, delta=1e-5, insecure=True)
    took = shortest(lambda: budget.capacity("gaussian"), 0.05)
    mu = (2 * budget.capacity("gaussian")) ** 0.5
    return (
        f"calibration at epsilon {epsilon:g}",
        f"{took * 1e3:.2f} ms: mu = {mu:.6g}, whose delta is {gdp_delta(mu, epsilon):.3g} (1e-05)",
    )


def probed(records: Records, tables: list[NoisyMarginal]) -> tuple[str, str]:
    """Distance to the exact tables where the loss is least, and where the estimated distance is."""
    exact = count_marginals(records, [m.clique for m in tables])

    def away(model: MrfModel) -> float:
        distances = [np.abs(model.marginal(m.clique) - t).sum() / t.sum() for m, t in zip(tables, exact, strict=True)]
        return float(np.mean(distances)) / 2

    plain, kept = fit_mrf(records.domain, tables), fit_mrf(records.domain, tables, probe=np.random.default_rng(0))
    figure = f"{away(kept):.4f} in {kept.passes} passes; without {away(plain):.4f} in {plain.passes}"
    return f"fit, adult, {len(tables)} tables, mean total variation with a probe", figure


def adult() -> Figures:
    """Measure fits to Adult's marginals, of a tree and of a denser graph."""
    records = open_table("adult").records
    domain = records.domain
    pairs: list[Clique] = list(itertools.combinations(sorted(domain.names), 2))
    pairs.sort(key=lambda c: -dependence(records, c))
    tree = measured(records, spanning(pairs))
    dense = measured(records, chosen(domain, pairs, 40, 100_000))
    start = perf_counter()
    model = fit_mrf(domain, tree)
    model.sample(45_222, np.random.default_rng(0))
    found = [("fit and sample, adult, spanning tree (target 2 s)", f"{perf_counter() - start:.2f} s")]
    start = perf_counter()
    rich = fit_mrf(domain, dense)
    took = f"{perf_counter() - start:.2f} s, {rich.passes} passes, {rich.tree.summary()}"
    found += [(f"fit, adult, {len(dense)} tables", took), probed(records, dense)]
    found += [convergence("adult, spanning tree", domain, tree), convergence("adult, 55 tables", domain, dense)]
    return [*found, sampling(model, 45_222), sampling(rich, 1_000_000)]


def figures(large: bool = False) -> Figures:
    """Measure."""
    found = [pass_time(16, 60, 3), pass_time(16, 80, 4), pass_time(20, 60, 4), pass_time(20, 100, 5), wide()]
    found += [calibration(epsilon) for epsilon in (0.001, 100.0)]
    if locate("adult") is None:
        return [*found, ("fit, adult", "skipped: the table is not here (weft bench data)")]
    return [*found, *adult()]
