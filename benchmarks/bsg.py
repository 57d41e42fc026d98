"""A million records grown from seeds on an ACS-like table, and what seeds cost for a whole table.

The table has the cardinalities of table 1 of the plausible-deniability paper, whose tool made a million records in an
hour on 12 processes. Everything is timed from the rows in memory to the released records, model learning included.
"""

import math
import resource
from time import perf_counter

import numpy as np

from weft.curator import Curator
from weft.engines import MemoryEngine
from weft.marginals.domain import Domain
from weft.marginals.records import Records
from weft.methods.bsg import Bsg
from weft.models import Model
from weft.models.bayesnet.model import BayesNet, Family
from weft.privacy import Adjacency, Budget, Ledger, gdp_epsilon
from weft.privacy.deniability import UNIT, Acceptance, release_mu, theorem_one
from weft.privacy.mechanisms import Mechanisms
from weft.progress import silence

SIZES = {
    "age": 80, "workclass": 8, "education": 24, "marital": 5, "occupation": 25, "relationship": 18, "race": 5, "sex": 2,
    "hours": 100, "birthplace": 8, "income": 2,
}  # fmt: skip
SEEDS = 700_000
RECORDS = 1_000_000
OMEGA, K = 9, 50


def acs_like(n: int) -> Records:
    """Make rows in which every attribute follows two before it, with skewed distributions."""
    rng = np.random.default_rng(0)
    domain = Domain(tuple(SIZES), tuple(SIZES.values()))
    families = []
    for i, name in enumerate(domain.names):
        parents = domain.names[max(0, i - 2) : i]
        families.append(Family(name, parents, rng.dirichlet(np.full(domain.size(name), 0.3), domain.cells(parents))))
    return BayesNet(domain, float(n), tuple(families)).sample(n, rng)


def fit(table: Records, **options: object) -> tuple[Model, Ledger, float]:
    """Fit BSG at epsilon 1, delta 1e-6; return the model, the ledger and the seconds taken."""
    ledger = Ledger(Budget(epsilon=1.0, delta=1e-6), "gaussian", Adjacency())
    recipe = Bsg(buckets={"age": 10, "hours": 15}, **options)
    begin = perf_counter()
    recipe.check(table.domain)
    model = recipe.fit(Curator(MemoryEngine(table), ledger, Mechanisms()), np.random.default_rng(1), silence)
    return model, ledger, perf_counter() - begin


def peak() -> float:
    """Return the most memory that this process has held, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def growing(table: Records) -> list[tuple[str, str]]:
    """Time a million records, from rows to records: with the paper's tests, and without seeds."""
    deniable = {"guarantee": "deniability", "omega": OMEGA, "rows": RECORDS, "k": K}
    rows = []
    for label, options, note in (
        (f"omega {OMEGA}, k {K}, Test 1", deniable, " (target under 60)"),
        (f"omega {OMEGA}, k {K}, Test 2, epsilon0 1", deniable | {"epsilon0": 1.0}, " (target under 60)"),
        ("omega 5-11, k 50, Test 2", deniable | {"omega": "5-11", "epsilon0": 1.0}, ""),
        ("every column drawn, no seeds", {}, ""),
    ):
        model, _, seconds = fit(table, **options)
        begin = perf_counter()
        model.sample(RECORDS, np.random.default_rng(2))
        seconds += perf_counter() - begin
        rows.append((f"{RECORDS:,} records from {SEEDS:,} x {len(SIZES)}, {label}", f"{seconds:.1f} s{note}"))
    return [*rows, ("  peak memory of these", f"{peak():.2f} GiB (target under 2)")]


def prices(table: Records, order: tuple[str, ...]) -> list[tuple[str, str]]:
    """Say how many seeds pass, and what records cost alone and together."""
    rows = [
        (
            "one record alone, k 50, epsilon0 1: Theorem 1 at delta 2^-30",
            f"epsilon {theorem_one(50, 1.0, 4.0, 2.0**-30):.2f} (paper 1.13)",
        )
    ]
    for omega in (10, 9, 8, 6):
        _, counts = MemoryEngine(table).groups(order[: len(SIZES) - omega])
        rates = [Acceptance(k, 1.0).weights(counts).sum() / UNIT / SEEDS for k in (10, 50, 100, 250)]
        rows.append((f"pass rate at omega {omega}, k 10, 50, 100, 250", ", ".join(f"{rate:.0%}" for rate in rates)))
    _, counts = MemoryEngine(table).groups(order[:2])
    for k, epsilon0, n in ((50, 1.0, 1000), (50, 1.0, 100_000), (1000, 0.05, 10_000), (1000, 0.05, 100_000)):
        test = Acceptance(k, epsilon0)
        begin = perf_counter()
        mu = release_mu(test, n, float(test.weights(counts).sum()) / UNIT, 1e-8)
        price = "none finite" if math.isinf(mu) else f"epsilon {gdp_epsilon(mu, 1e-6):.2f}"
        rows.append(
            (f"{n:,} records together, k {k}, epsilon0 {epsilon0}", f"{price}, in {perf_counter() - begin:.1f} s")
        )
    for n in (10_000, 30_000, 100_000, RECORDS):
        _, ledger, seconds = fit(table, omega=OMEGA, rows=n)
        told = [entry.question for entry in ledger.entries if entry.mechanism == "seeded"]
        used = told[0] if told else "no test fits: all columns drawn"
        rows.append((f"{n:,} records, all within epsilon 1, delta 1e-6", f"{used}; {seconds:.1f} s"))
    return rows


def figures() -> list[tuple[str, str]]:
    """Measure."""
    fit(acs_like(1000), omega=9, rows=10, guarantee="deniability", k=2)  # compile
    table = acs_like(SEEDS)
    rows = growing(table)
    return [*rows, *prices(table, fit(table)[0].order)]
