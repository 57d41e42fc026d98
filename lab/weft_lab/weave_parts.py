"""Weave on large, wide and awkward tables, and whether more budget, rows and sweeps help."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import pyarrow.parquet as pq

from weft.encoding import Codec
from weft.marginals.counting import count_marginals
from weft.marginals.records import Records
from weft.schema import Schema
from weft.synthesis.synthesizer import Synthesizer
from weft_lab.equal_rho import TABLES as EQUAL
from weft_lab.equal_rho import equal_rho
from weft_lab.fetch import as_table
from weft_lab.generated import FEW, SCATTER, few, sparse, wide_large
from weft_lab.public_prior import TABLES as PUBLIC
from weft_lab.public_prior import public_prior
from weft_lab.settings import WEAVE_SWEEPS
from weft_lab.sheet import Sheet
from weft_lab.structures import near_copies
from weft_lab.tables import BenchTable, open_table
from weft_lab.trial import DELTA, ORDERS, errors, repeated

HEADS = tuple(f"{k}-way" for k in ORDERS)
EPSILONS = (0.2, 0.8, 3.2)

Opener = Callable[[str], BenchTable]


def schema_of(records: Records) -> Schema:
    """Return the schema of coded records."""
    return Schema.from_domain(dict(zip(records.domain.names, records.domain.shape, strict=True)))


def beside(table: BenchTable, epsilons: tuple[float, ...], methods: tuple[str, ...], title: str) -> Sheet:
    """Run each method once."""
    rows = [
        [f"{epsilon:g}", method, *repeated(table, method, epsilon, 1).shown()]
        for epsilon in epsilons
        for method in methods
    ]
    return Sheet(title, ("epsilon", "method", *HEADS, "seconds"), rows)


def large(_: Opener = open_table) -> Iterator[Sheet]:
    """One run on 662,000 x 97: the records' distance to the tables that were measured, and that of plain draws."""
    records = wide_large()
    schema = schema_of(records)
    with TemporaryDirectory(prefix="weft-bench-") as folder:
        source = Path(folder) / "wide.parquet"
        pq.write_table(as_table(records), source)
        begin = perf_counter()
        fitted = Synthesizer(2.0, DELTA, method="weave", journal=None).fit(source, schema)
        learned = perf_counter() - begin
        made = fitted.sample()
        seconds = perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    codes = Codec(schema, made.schema).encode(made)
    near, drawn, tables = _distances(fitted, codes)
    one, two, three = errors(records, codes, (1, 2, 3))
    rows = [
        ["tables measured", f"{tables}"],
        ["seconds to learn, and in all (target 120)", f"{learned:.0f}, {seconds:.0f}"],
        ["peak memory (target 2 GiB)", f"{peak:.2f} GiB"],
        ["mean distance to the measured tables", f"{near:.4f}"],
        ["the same of independent draws", f"{drawn:.4f}"],
        ["1-, 2-, 3-way", f"{one:.4f}, {two:.4f}, {three:.4f}"],
    ]
    yield Sheet("662,000 x 97, epsilon 2", ("", "weave"), rows)


def _distances(fitted: Synthesizer, codes: Records) -> tuple[float, float, int]:
    """Return how far records are from what was measured, how far independent draws would be, and from how many."""
    maps = getattr(fitted.model_, "maps", {})
    model = getattr(fitted.model_, "inner", fitted.model_)
    merged = [maps[name].codes[codes.column(name)] if name in maps else codes.column(name) for name in codes.domain]
    tables = count_marginals(Records.of(model.domain, merged), model.cliques)
    rng = np.random.default_rng(1)
    near = np.mean([np.abs(t / t.sum() - aim).sum() / 2 for t, aim in zip(tables, model.targets, strict=True)])
    drawn = [rng.multinomial(len(codes), aim.ravel()) / len(codes) for aim in model.targets]
    floor = np.mean([np.abs(t - aim.ravel()).sum() / 2 for t, aim in zip(drawn, model.targets, strict=True)])
    return float(near), float(floor), len(model.cliques)


def wide(_: Opener = open_table) -> Iterator[Sheet]:
    """Few rows and large domains, many columns or hardly any rows: where a dense method drowns in noise."""
    for strength in SCATTER:
        records = sparse(strength)
        pairs = list(combinations(records.domain.names[:10], 2))
        apart = np.mean(
            [np.abs(t - np.outer(t.sum(1), t.sum(0)) / t.sum()).sum() for t in count_marginals(records, pairs)]
        )
        title = (
            f"40,000 rows, 50 columns of 100 values, {strength} dependent (a pair and the product of its columns are "
            f"{apart / 80_000:.2f} apart)"
        )
        table = BenchTable.of(f"sparse_{strength}", as_table(records), schema_of(records))
        yield beside(table, EPSILONS, ("weave", "independent"), title)
    for name, (rows, columns) in FEW.items():
        records = few(name)
        table = BenchTable.of(name, as_table(records), schema_of(records))
        yield beside(table, EPSILONS, ("weave", "independent"), f"{rows:,} rows, {columns} columns")


def floor(opener: Opener = open_table) -> Iterator[Sheet]:
    """Every coded table, beside the floor that no method may fall below."""
    for name in ("nltcs", "acs", "adult", "adult_aim", "br2000", "fire"):
        yield beside(opener(name), EPSILONS, ("weave", "independent"), name)


def stress(opener: Opener = open_table) -> Iterator[Sheet]:
    """Many columns of census and tax tables, with schemas drafted from the rows, as no real user should."""
    for name in ("acs_pums2018_west", "cps_tax"):
        table = opener(name)
        title = f"{name}, {table.rows.num_rows:,} x {table.rows.num_columns}"
        yield beside(table, (1.0,), ("weave", "mst", "independent"), title)


def monotone(opener: Opener = open_table) -> Iterator[Sheet]:
    """More budget, more rows, more sweeps: errors must not rise."""
    table = opener("adult")
    order = np.random.default_rng(0).permutation(table.rows.num_rows)

    rows = [
        [f"epsilon {epsilon:g}", *repeated(table, "weave", epsilon, 3).shown()]
        for epsilon in (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
    ]
    for n in (2_500, 5_000, 10_000, 20_000, len(order)):
        rows.append([f"{n:,} rows", *repeated(table, "weave", 0.8, 3, rows=table.rows.take(order[:n])).shown()])
    for sweeps, options in WEAVE_SWEEPS.items():
        rows.append([f"{sweeps} sweeps, chains", *repeated(table, "weave", 0.8, 3, options).shown()])
    yield Sheet("adult, weave, mean of 3 runs, epsilon 0.8 where none is named", ("", *HEADS, "seconds"), rows)
    copies = near_copies(np.random.default_rng(1), 1.0)
    told = BenchTable.of("near copies", as_table(copies), schema_of(copies))
    rows = [[f"epsilon {epsilon:g}", *repeated(told, "weave", epsilon, 3).shown()] for epsilon in (0.2, 0.8, 3.2, 12.8)]
    yield Sheet("columns that nearly follow from each other, weave, mean of 3 runs", ("", *HEADS, "seconds"), rows)


def same_rho(opener: Opener = open_table) -> Iterator[Sheet]:
    """Beside AIM, with the rho that AIM gets from the same epsilon and delta."""
    return equal_rho([opener(name) for name in EQUAL])


def with_public(opener: Opener = open_table) -> Iterator[Sheet]:
    """With a public table as a guess, a good one and two that mislead."""
    return public_prior([opener(name) for name in PUBLIC])


PARTS: Mapping[str, Callable[[Opener], Iterator[Sheet]]] = {
    "large": large,
    "wide": wide,
    "floor": floor,
    "stress": stress,
    "monotone": monotone,
    "equal-rho": same_rho,
    "public": with_public,
}
"""What `weft bench weave --part` names, beside its targets."""
