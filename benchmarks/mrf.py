"""Markov random fields: convergence of the fit against mirror descent, and time by size of the tree.

Needs the coded tables beside the project for the Adult figures; trees of other sizes are made up.
"""

import itertools
import json
from pathlib import Path
from time import perf_counter

import numpy as np

from weft.marginals.domain import Domain, clique
from weft.marginals.marginal import NoisyMarginal
from weft.models.mrf import MrfModel, fit, fits, junction_tree
from weft.models.mrf.tape import plan

DATA = Path(__file__).parents[2] / "shared" / "data"
SIGMA = 27.0
"""About what PrivMRF adds to Adult's marginals at epsilon 0.8."""


def load(name: str) -> tuple[Domain, dict[str, np.ndarray]]:
    """Return a coded table's domain and its columns."""
    import pyarrow.parquet as pq

    sizes = json.loads((DATA / f"{name}.domain.json").read_text())
    table = pq.read_table(DATA / f"{name}.parquet")
    return Domain.of({k: v["domain"] for k, v in sizes.items()}), {k: table[k].to_numpy() for k in sizes}


def histogram(domain: Domain, columns: dict[str, np.ndarray], c: tuple[str, ...]) -> np.ndarray:
    """Exact counts of a clique."""
    flat = np.ravel_multi_index([columns[name] for name in c], domain.sizes(c))
    return np.bincount(flat, minlength=domain.cells(c)).reshape(domain.sizes(c))


def dependence(domain: Domain, columns: dict[str, np.ndarray], c: tuple[str, ...]) -> float:
    """Distance of a pair from independence."""
    table = histogram(domain, columns, c)
    return float(np.abs(table - np.outer(table.sum(1), table.sum(0)) / table.sum()).sum())


def spanning(pairs: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The first pairs, in order, that close no cycle."""
    part = {name: {name} for pair in pairs for name in pair}
    kept = []
    for a, b in pairs:
        if part[a] is not part[b]:
            part[a] |= part[b]
            for name in part[b]:
                part[name] = part[a]
            kept.append((a, b))
    return kept


def chosen(domain: Domain, pairs: list[tuple[str, ...]], count: int, max_cells: int) -> list[tuple[str, ...]]:
    """Strong pairs and random triples that fit a tree of limited size."""
    rng = np.random.default_rng(0)
    triples = [c for c in itertools.combinations(sorted(domain.names), 3) if domain.cells(c) <= 1000]
    rng.shuffle(triples)
    tree = junction_tree(domain, [])
    for c in [*pairs[: count // 2], *map(clique, triples)]:
        if len(tree.given) < count and fits(tree, c, max_cells=max_cells):
            tree = junction_tree(domain, [*tree.given, c], max_cells=max_cells)
    return list(tree.given)


def measured(domain: Domain, columns: dict[str, np.ndarray], cliques: list[tuple[str, ...]]) -> list[NoisyMarginal]:
    """Noisy tables for the benchmark only: seeded noise is not private."""
    rng = np.random.default_rng(1)
    exact = ((c, histogram(domain, columns, c)) for c in [*((n,) for n in domain.names), *cliques])
    return [NoisyMarginal(c, t + np.rint(SIGMA * rng.normal(size=t.shape)), SIGMA) for c, t in exact]


def convergence(label: str, domain: Domain, tables: list[NoisyMarginal]) -> tuple[str, str]:
    """Passes until the distance is within 2% of what 10,000 passes of mirror descent reach."""
    best = fit(domain, tables, solver="mirror", iterations=10_000, tolerance=0.0)
    level = 1.02**2 * best.loss
    fast = fit(domain, tables, iterations=10_000, tolerance=0.0, noise_level=level)
    slow = fit(domain, tables, solver="mirror", iterations=10_000, tolerance=0.0, noise_level=level)
    default = fit(domain, tables)
    figure = (
        f"{fast.passes} passes (mirror descent {slow.passes}); distance {np.sqrt(fast.loss / best.loss):.3f} of mirror "
        f"descent's after {best.passes}; default stop at {default.passes}, loss {default.loss:.2f} of noise"
    )
    return f"fit, {label}, passes to within 2% (target 1,000)", figure


def seconds(work, least: float = 0.5) -> float:
    """Shortest time of a call, over half a second of calls."""
    times = []
    while sum(times) < least:
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return min(times)


def pass_time(d: int, count: int, width: int) -> tuple[str, str]:
    """Time of one calibration of a tree over random cliques of binary attributes."""
    rng = np.random.default_rng(d)
    domain = Domain.of({f"v{i:02}": 2 for i in range(d)})
    cliques = list(dict.fromkeys(clique(rng.choice(domain.names, width, replace=False)) for _ in range(count)))
    tree = junction_tree(domain, cliques, max_cells=1 << 24, max_total=1 << 26)
    tape = plan(tree, [tree.in_order(c) for c in cliques])
    work, theta = tape.start(1e5), rng.normal(size=tape.length)
    took = seconds(lambda: tape.run(work, theta))
    label = f"pass, {len(cliques)} {width}-way tables over {d} binary attributes"
    return label, f"{took * 1e3:.2f} ms for {tree.cells:,} cells ({took / tree.cells * 1e9:.0f} ns a cell)"


def wide() -> tuple[str, str]:
    """Time to test one more clique on a wide table."""
    rng = np.random.default_rng(2)
    domain = Domain.of({f"v{i:03}": int(rng.integers(2, 20)) for i in range(129)})
    tree = junction_tree(domain, [(f"v{i:03}", f"v{i + 1:03}") for i in range(128)])
    tests = [clique(rng.choice(domain.names, 3, replace=False)) for _ in range(100)]
    took = seconds(lambda: [fits(tree, c) for c in tests])
    return "size check of one more clique, 129 attributes", f"{took * 10:.2f} ms"


def sampling(model: MrfModel, n: int) -> tuple[str, str]:
    """Time to sample."""
    _ = model.beliefs
    rng = np.random.default_rng(3)
    took = seconds(lambda: model.sample(n, rng))
    return f"sample {n:,} records of {len(model.domain)} attributes", f"{took:.3f} s"


def calibration(epsilon: float) -> tuple[str, str]:
    """Time to turn an extreme budget into noise, and whether the noise gives the budget back."""
    from weft.privacy import Budget
    from weft.privacy.accounting import gdp_delta

    budget = Budget(epsilon=epsilon, delta=1e-5, insecure=True)
    took = seconds(lambda: budget.capacity("gaussian"), 0.05)
    mu = (2 * budget.capacity("gaussian")) ** 0.5
    return (
        f"calibration at epsilon {epsilon:g}",
        f"{took * 1e3:.2f} ms: mu = {mu:.6g}, whose delta is {gdp_delta(mu, epsilon):.3g} (1e-05)",
    )


def probed(domain: Domain, columns: dict[str, np.ndarray], tables: list[NoisyMarginal]) -> tuple[str, str]:
    """Distance to the exact tables where the loss is least, and where the estimated distance is."""

    exact = [histogram(domain, columns, m.clique) for m in tables]

    def away(model: MrfModel) -> float:
        distances = [np.abs(model.marginal(m.clique) - t).sum() / t.sum() for m, t in zip(tables, exact, strict=True)]
        return float(np.mean(distances)) / 2

    plain, kept = fit(domain, tables), fit(domain, tables, probe=np.random.default_rng(0))
    figure = f"{away(kept):.4f} in {kept.passes} passes; without {away(plain):.4f} in {plain.passes}"
    return f"fit, adult, {len(tables)} tables, mean total variation with a probe", figure


def figures() -> list[tuple[str, str]]:
    """Measure."""
    found = [pass_time(16, 60, 3), pass_time(16, 80, 4), pass_time(20, 60, 4), pass_time(20, 100, 5), wide()]
    found += [calibration(epsilon) for epsilon in (0.001, 100.0)]
    if not (DATA / "adult.parquet").exists():
        return [*found, ("fit, adult", "skipped: the shared tables are not here")]
    domain, columns = load("adult")
    pairs = sorted(itertools.combinations(sorted(domain.names), 2), key=lambda c: -dependence(domain, columns, c))
    tree = measured(domain, columns, spanning(pairs))
    dense = measured(domain, columns, chosen(domain, pairs, 40, 100_000))
    start = perf_counter()
    model = fit(domain, tree)
    model.sample(45_222, np.random.default_rng(0))
    found.append(("fit and sample, adult, spanning tree (target 2 s)", f"{perf_counter() - start:.2f} s"))
    start = perf_counter()
    rich = fit(domain, dense)
    took = f"{perf_counter() - start:.2f} s, {rich.passes} passes, {rich.tree.summary()}"
    found.append((f"fit, adult, {len(dense)} tables", took))
    found.append(probed(domain, columns, dense))
    found += [convergence("adult, spanning tree", domain, tree), convergence("adult, 55 tables", domain, dense)]
    return [*found, sampling(model, 45_222), sampling(rich, 1_000_000)]
