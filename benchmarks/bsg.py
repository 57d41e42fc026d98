"""Records of a Bayesian network on an ACS-like table, and what seeds cost for a whole table.

The table has the cardinalities of table 1 of the plausible-deniability paper.
"""

import math
import resource
from time import perf_counter

import numpy as np

from weft.curator import Curator
from weft.domain import Domain
from weft.engines import MemoryEngine
from weft.methods.bsg import Bsg
from weft.models.bayesnet import BayesNet, Family
from weft.privacy import Adjacency, Budget, Ledger, gdp_epsilon
from weft.privacy.deniability import UNIT, Acceptance, release_mu, theorem_one
from weft.privacy.mechanisms import Mechanisms
from weft.progress import silence
from weft.records import Records

SIZES = {
    "age": 80, "workclass": 8, "education": 24, "marital": 5, "occupation": 25, "relationship": 18, "race": 5, "sex": 2,
    "hours": 100, "birthplace": 8, "income": 2,
}  # fmt: skip
SEEDS = 700_000


def acs_like(n: int) -> Records:
    """Make rows in which every attribute follows two before it, with skewed distributions."""
    rng = np.random.default_rng(0)
    domain = Domain(tuple(SIZES), tuple(SIZES.values()))
    families = []
    for i, name in enumerate(domain.names):
        parents = domain.names[max(0, i - 2) : i]
        families.append(Family(name, parents, rng.dirichlet(np.full(domain.size(name), 0.3), domain.cells(parents))))
    return BayesNet(domain, float(n), tuple(families)).sample(n, rng)


def fit(table: Records, **options: object) -> tuple[object, Ledger, float]:
    """Fit BSG at epsilon 1, delta 1e-6; return the model, the ledger and the seconds taken."""
    ledger = Ledger(Budget(epsilon=1.0, delta=1e-6), "gaussian", Adjacency())
    recipe = Bsg(buckets={"age": 10, "hours": 15}, **options)
    begin = perf_counter()
    model = recipe.fit(Curator(MemoryEngine(table), ledger, Mechanisms()), np.random.default_rng(1), silence)
    return model, ledger, perf_counter() - begin


def figures() -> list[tuple[str, str]]:
    """Measure."""
    fit(acs_like(1000), omega=9, records=10)  # compile
    records = acs_like(SEEDS)
    begin = perf_counter()
    model, _, _ = fit(records)
    made = model.sample(1_000_000, np.random.default_rng(2))
    seconds = perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    rows = [
        (f"{len(made):,} records without seeds, with the model, from {SEEDS:,} x {len(SIZES)}", f"{seconds:.1f} s"),
        ("  peak memory", f"{peak:.2f} GiB (target under 2)"),
        (
            "one record alone, k 50, epsilon0 1: Theorem 1 at delta 2^-30",
            f"epsilon {theorem_one(50, 1.0, 4.0, 2.0**-30):.2f} (paper 1.13)",
        ),
    ]
    for omega in (10, 9, 8, 6):
        _, counts = MemoryEngine(records).groups(model.order[: len(SIZES) - omega])
        rates = [Acceptance(k, 1.0).weights(counts).sum() / UNIT / SEEDS for k in (10, 50, 100, 250)]
        rows.append((f"pass rate at omega {omega}, k 10, 50, 100, 250", ", ".join(f"{rate:.0%}" for rate in rates)))
    _, counts = MemoryEngine(records).groups(model.order[:2])
    for k, epsilon0, n in ((50, 1.0, 1000), (50, 1.0, 100_000), (1000, 0.05, 10_000), (1000, 0.05, 100_000)):
        test = Acceptance(k, epsilon0)
        begin = perf_counter()
        mu = release_mu(test, n, float(test.weights(counts).sum()) / UNIT, 1e-8)
        price = "none finite" if math.isinf(mu) else f"epsilon {gdp_epsilon(mu, 1e-6):.2f}"
        rows.append(
            (f"{n:,} records together, k {k}, epsilon0 {epsilon0}", f"{price}, in {perf_counter() - begin:.1f} s")
        )
    made, ledger, seconds = fit(records, omega=9, records=10_000)
    seeds = [entry for entry in ledger.entries if entry.mechanism == "seeded"]
    told = seeds[0].question if seeds else "no test fits: all columns drawn"
    rows.append(("10,000 records, all within epsilon 1, delta 1e-6", f"{told}; {seconds:.1f} s"))
    return rows
