"""A recipe run on a made-up table: what it asks, what that costs, and how far its records are from the table.

The recipe, the curator and the noise are the real ones; only the rows are made up. Few rows with less noise stand for
many: all counts and the noise on them shrink together, so that every decision of the recipe stays the same. That ends
where the noise would fall below one row, so the made-up table is at least an eighth of what it stands for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from time import perf_counter
from typing import Any

import numpy as np

from weft.codec import Codec
from weft.evaluate import k_way
from weft.marginals.domain import Domain
from weft.marginals.marginal import Array, Measured
from weft.marginals.noise_error import expected_noise
from weft.marginals.pooling import pooled_sigma
from weft.marginals.recode import coarse_groups
from weft.marginals.records import Records, code_dtype
from weft.methods import AUTO, known
from weft.methods.steps.resolution import is_wide
from weft.models import Model
from weft.models.arranged import arranged_of, sources
from weft.planning.generated import made_up
from weft.planning.given import following, settled
from weft.privacy import Accounting, Budget
from weft.progress import Listener, silence
from weft.reading.csv import csv_arrow_schema
from weft.schema import Schema
from weft.synthesizer import Synthesizer
from weft.synthesizer.run import Recipe

LEAST_ROWS = 5_000
"""Rows of a made-up table, where the table that it stands for has as many."""
SHRUNK = 8
"""Rows that one made-up row stands for, at most, below the limit."""
MOST_ROWS = 200_000
SAMPLED = 20_000
"""Records that are compared with the made-up table."""

RANGES = 32
"""Ranges in which numbers and dates of many values are compared."""

SEEN = 0.1
"""A relation between two columns that moves this share of the rows is one that people care about."""


@dataclass(frozen=True)
class Simulation:
    """What one run on a made-up table showed; errors are total variation distances."""

    epsilon: float
    columns: Mapping[str, float]
    """Error of each attribute."""
    pairs: float
    """Mean error of all pairs of attributes; 0 where there is one attribute."""
    pair_noise: Mapping[tuple[str, str], float]
    """Noise of the table over each pair, as a share of the rows; infinite where no pair is measured."""
    share_noise: float
    """Standard deviation that noise gives a share of a column, for the column in the middle."""
    questions: tuple[tuple[str, float], ...]
    """What was asked, and the share of the budget that it cost."""
    cells: int
    """Cells of all tables that were measured."""
    seconds: float
    model_bytes: int

    @property
    def mean(self) -> float:
        """Mean error of the attributes."""
        return float(np.mean(list(self.columns.values())))

    def told(self, seen: float = SEEN) -> list[tuple[str, str]]:
        """Return the pairs of which a relation of this size stands out from the noise."""
        return [pair for pair, noise in self.pair_noise.items() if noise < seen]


def plain_codec(schema: Schema) -> Codec:
    """Return the codes of a schema in the types that its columns have where a source declares none."""
    return Codec(schema, csv_arrow_schema(schema))


def row_bytes(codec: Codec) -> int:
    """Return the memory that a row takes."""
    return sum(code_dtype(size).itemsize for size in codec.domain.shape)


def simulate(
    schema: Schema,
    rows: int,
    budget: Budget,
    settings: Mapping[str, Any],
    *,
    seed: int = 0,
    listener: Listener = silence,
) -> Simulation:
    """Run a recipe on a made-up table that stands for `rows` rows; `settings` are those of a Synthesizer."""
    options = {name: value for name, value in settings.items() if name not in ("method", "neighbours")}
    recipe = Recipe.of(known(settings.get("method", AUTO)), options, schema, budget)
    codec = plain_codec(recipe.schema)
    rng = np.random.default_rng(seed)
    n = min(rows, max(LEAST_ROWS, min(rows // SHRUNK, MOST_ROWS)))
    table = codec.decode(following(made_up(codec.domain, n, rng), recipe.compiled(codec)[1]), rng)
    real = codec.encode(table)
    made = Synthesizer(
        budget=_shrunk(budget, rows / n, recipe.chosen.accounting),
        journal=None,
        trust_data_for_schema=True,  # nothing is released
        seed=seed,
        noise_seed=seed,
        **{**settings, **settled(recipe, rows / n)},
    )
    begin = perf_counter()
    made.fit(table, schema, listener=listener)
    seconds = perf_counter() - begin
    model, ledger = made.model_, made.ledger_
    synth = model.sample(int(model.total) if model.fixed_records else max(min(rows, SAMPLED), n), rng)
    real, synth = in_ranges(real, synth)
    measured = made.fitted_.measured
    return Simulation(
        epsilon=budget.epsilon or 0.0,
        columns=_errors(real, synth),
        pairs=k_way(real, synth, 2).tvd if len(real.domain) > 1 else 0.0,
        pair_noise=_pair_noise(model, measured, n),
        share_noise=_share_noise(real, measured, n),
        questions=tuple((entry.question, entry.cost / ledger.capacity) for entry in ledger.entries),
        cells=sum(entry.draws for entry in ledger.entries if entry.purpose == "marginals"),
        seconds=seconds,
        model_bytes=sum(array.nbytes for array in model.to_arrays()[1].values()),
    )


def _shrunk(budget: Budget, times: float, accounting: Accounting) -> Budget:
    """Return the budget under which noise is so many times smaller."""
    if times <= 1:
        return budget
    if accounting == "pure":
        return Budget(epsilon=(budget.epsilon or 0.0) * times, delta=budget.delta, insecure=True)
    return Budget(rho=budget.capacity(accounting) * times**2, delta=budget.delta, insecure=True)


def in_ranges(real: Records, synth: Records) -> tuple[Records, Records]:
    """Return two tables with numbers and dates of many values in the same ranges, about equally full in the first.

    Of ten thousand values most occur once or never, and no two tables agree in them; in ranges they can be compared.
    """
    domain = real.domain
    maps = {}
    for name in domain:
        codes = np.arange(domain.size(name))
        if is_wide(domain, name):
            counts = np.bincount(real.column(name), minlength=len(codes))
            codes = coarse_groups(counts, domain.order(name).apart, RANGES)
        maps[name] = codes
    merged = Domain(domain.names, tuple(int(codes.max()) + 1 for codes in maps.values()))
    first, second = (
        Records.of(merged, [maps[name][records.column(name)] for name in domain]) for records in (real, synth)
    )
    return first, second


def _errors(real: Records, synth: Records) -> dict[str, float]:
    """Return how far apart two tables are in each attribute."""
    return {name: float(np.abs(_shares(real, name) - _shares(synth, name)).sum()) / 2 for name in real.domain}


def _shares(records: Records, name: str) -> Array:
    return np.bincount(records.column(name), minlength=records.domain.size(name)) / max(len(records), 1)


def _pair_noise(model: Model, measured: tuple[Measured, ...], rows: int) -> dict[tuple[str, str], float]:
    """Return the noise of a table over each pair, in the codes that the recipe used, as a share of the rows."""
    sigmas = [table.sigma for table in measured if len(table.clique) > 1]
    sigma = float(np.median(sigmas)) if sigmas else math.inf
    held = arranged_of(model)
    cells = getattr(held, "inner", held).domain.cells
    told_by = sources(model)
    noise = {}
    for pair in combinations(model.domain, 2):
        a, b = (told_by[name] for name in pair)
        if a is None or b is None:  # made at random
            noise[pair] = math.inf
        else:
            noise[pair] = 0.0 if a == b else float(expected_noise(cells((a, b)), sigma)) / (2 * rows)
    return noise


def _share_noise(real: Records, measured: tuple[Measured, ...], rows: int) -> float:
    found = [pooled_sigma((name,), measured) for name in real.domain]
    known = [sigma for sigma in found if math.isfinite(sigma)]
    return float(np.median(known)) / rows if known else math.inf
