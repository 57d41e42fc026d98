"""PriView beside direct noise and Fourier coefficients, and beside the methods that choose what they measure.

All answer the same question: random marginals of k columns, of which anybody might ask for any. The two baselines of
the paper (Qardaji, Yang, Li; SIGMOD 2014) pay for that in full:

* Direct: noise on every k-way marginal. A row adds one to a cell of each of the C(d, k) tables: L2 sensitivity
  sqrt(C(d, k)).
* Fourier (Barak et al., PODS 2007), for binary columns: noise on the coefficient sum of (-1)^(x . S) over rows x, for
  every set S of at most k columns. A row adds 1 or -1 to each of these: L2 sensitivity the root of their number. A
  k-way table is the sum of the 2^k coefficients inside it, divided by 2^k.

Both have Gaussian noise under the same accounting as everything else here, and tables are projected to non-negative
counts of the right total, which the published baselines were not. The laboratory draws only the noise of those tables
that are compared: the rest is paid for.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter

import numpy as np
import pyarrow as pa

from weft.marginals.counting import count_marginals
from weft.marginals.domain import Clique
from weft.marginals.marginal import Array
from weft.marginals.simplex import project_to_simplex
from weft.privacy import Budget
from weft.progress import Listener, ignore_event, report_stage
from weft.schema import Schema
from weft.synthesis.synthesizer import Synthesizer
from weft_lab.generated import latent_class
from weft_lab.sheet import Sheet
from weft_lab.tables import BenchTable
from weft_lab.trial import DELTA

EPSILONS = (0.2, 1.0)
ORDERS = (3, 4)
QUERIES = 300
METHODS = ("priview", "privsyn", "privmrf", "weave")
BINARY = "binary_64"


def binary_table(rows: int = 100_000, columns: int = 64) -> BenchTable:
    """Make a table of binary columns that follow hidden classes, some closely and some hardly."""
    records = latent_class(rows, columns, np.random.default_rng(0), sizes=(2, 2), weakest=100.0)
    names = records.domain.names
    schema = Schema.from_toml("".join(f'[columns.{name}]\nkind = "boolean"\n' for name in names))
    table = pa.table({name: pa.array(column.astype(bool)) for name, column in zip(names, records.columns, strict=True)})
    return BenchTable.of(BINARY, table, schema)


def random_cliques(table: BenchTable, k: int, many: int = QUERIES) -> list[Clique]:
    """Choose so many sets of k columns, always the same ones."""
    rng, names = np.random.default_rng([0, k]), np.array(table.records.domain.names, object)
    most = min(many, math.comb(len(names), k))
    found: set[Clique] = set()
    while len(found) < most:
        found.add(tuple(sorted(rng.choice(names, k, replace=False).tolist())))
    return sorted(found)


def direct(table: BenchTable, cliques: Sequence[Clique], epsilon: float, rng: np.random.Generator) -> list[Array]:
    """Answer by noise on every marginal of as many columns."""
    columns = len(table.records.domain)
    sigma = _sigma(epsilon) * math.sqrt(math.comb(columns, len(cliques[0])))
    n = len(table.records)
    return [
        project_to_simplex(exact + rng.normal(0, sigma, exact.shape), n)
        for exact in count_marginals(table.records, cliques)
    ]


def fourier(table: BenchTable, cliques: Sequence[Clique], epsilon: float, rng: np.random.Generator) -> list[Array]:
    """Answer by noise on every Fourier coefficient of as many binary columns; what is used twice is drawn once."""
    k, columns = len(cliques[0]), len(table.records.domain)
    sigma = _sigma(epsilon) * math.sqrt(sum(math.comb(columns, i) for i in range(k + 1)))
    n, made = len(table.records), []
    drawn: dict[Clique, float] = {}
    for names, exact in zip(cliques, count_marginals(table.records, cliques), strict=True):
        found = np.zeros(exact.shape)
        for inside in itertools.chain.from_iterable(itertools.combinations(range(k), i) for i in range(k + 1)):
            signs = np.ones(exact.shape)
            for axis in inside:
                signs = signs * np.array([1.0, -1.0]).reshape([-1 if i == axis else 1 for i in range(k)])
            key = tuple(names[axis] for axis in inside)
            noise = drawn.setdefault(key, rng.normal(0, sigma))
            found += signs * (float((signs * exact).sum()) + noise) / exact.size
        made.append(project_to_simplex(found, n))
    return made


BASELINES: Mapping[str, Callable[[BenchTable, Sequence[Clique], float, np.random.Generator], list[Array]]] = {
    "direct": direct,
    "Fourier": fourier,
}


def _sigma(epsilon: float) -> float:
    """Return the noise of one table that the whole budget buys."""
    return 1 / math.sqrt(2 * Budget(epsilon=epsilon, delta=DELTA).capacity("gaussian"))


def priview(
    tables: Sequence[BenchTable],
    epsilons: Sequence[float] = EPSILONS,
    runs: int = 3,
    methods: Sequence[str] = METHODS,
    listener: Listener = ignore_event,
) -> Iterator[Sheet]:
    """Compare mean total variation distances of random marginals."""
    for table in tables:
        asked = {k: random_cliques(table, k) for k in ORDERS if k <= len(table.records.domain)}
        exact = {k: count_marginals(table.records, cliques) for k, cliques in asked.items()}
        binary = max(table.records.domain.shape) == 2
        for epsilon in epsilons:
            rows = []
            for name in [*methods, *(name for name in BASELINES if binary or name == "direct")]:
                with report_stage(listener, f"{table.name}, epsilon {epsilon:g}: {name}"):
                    rows.append([name, *_line(table, name, epsilon, runs, asked, exact)])
            heads = [f"{k}-way" for k in asked]
            title = f"{table.name}, epsilon {epsilon:g}: mean distance of {QUERIES} random marginals"
            yield Sheet(title, ["method", *heads, "seconds"], rows, ["Total variation distance; less is better."])


def _line(
    table: BenchTable,
    name: str,
    epsilon: float,
    runs: int,
    asked: Mapping[int, Sequence[Clique]],
    exact: Mapping[int, Sequence[Array]],
) -> list[str]:
    errors: dict[int, list[float]] = {k: [] for k in asked}
    begin = perf_counter()
    for run in range(runs):
        if name in BASELINES:
            rng = np.random.default_rng([run, 1])
            found = {k: BASELINES[name](table, cliques, epsilon, rng) for k, cliques in asked.items()}
        else:
            made = Synthesizer(epsilon, DELTA, method=name, journal=None, trust_data_for_schema=True, seed=run)
            model = made.fit(table.rows, table.schema).model_
            found = {k: [model.marginal(c) for c in cliques] for k, cliques in asked.items()}
        for k in asked:
            errors[k].append(float(np.mean([_distance(a, b) for a, b in zip(found[k], exact[k], strict=True)])))
    seconds = (perf_counter() - begin) / runs
    return [*(f"{np.mean(each):.4f}" for each in errors.values()), f"{seconds:.1f}"]


def _distance(found: Array, exact: Array) -> float:
    return float(np.abs(found / found.sum() - exact / exact.sum()).sum()) / 2
