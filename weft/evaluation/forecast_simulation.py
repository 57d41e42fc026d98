"""A recipe run on a made-up table: what it asks, what that costs, and how far its records are from the table.

The recipe, the curator and the noise are the real ones; only the rows are made up. Few rows with less noise stand for
many: all counts and the noise on them shrink together, so that every decision of the recipe stays the same. That ends
where the noise would fall below one row, so the made-up table is at least an eighth of what it stands for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from time import perf_counter
from typing import Any

import numpy as np

from weft.encoding import Codec
from weft.evaluation.metrics import k_way
from weft.io.text_to_types import csv_arrow_schema
from weft.marginals.domain import Domain
from weft.marginals.marginal import Array, Measured
from weft.marginals.noise_error import compute_expected_noise
from weft.marginals.pooling import compute_pooled_sigma
from weft.marginals.records import Records, code_dtype
from weft.marginals.value_groups import coarse_groups
from weft.methods import AUTO, resolve_method_name
from weft.methods.common.discretisation import Arrangement, Learned, is_wide
from weft.models import Model
from weft.models.arranged import find_measured_sources, unwrap_arrangement
from weft.privacy import AccountingName, Budget, find_accounting
from weft.progress import Listener, ignore_event
from weft.schema import Schema
from weft.synthesis.fit_plan import MethodPlan
from weft.synthesis.marginal_plan.plan_file import Compress, Item
from weft.synthesis.synthesizer import Synthesizer

# A made-up table of a schema: rows that nobody has, for seeing what a recipe does with tables of this shape.

CLASSES = 6
"""Hidden classes of rows."""

TIE = 0.6
"""How much of a column's spread is its class's own: 0 would make all columns independent."""

SHUFFLED = 4
"""Places by which a class may move the most common values."""

APART = 0.1
"""Share of the rows whose value stands apart: missing, special."""


def draw_made_up_records(domain: Domain, rows: int, rng: np.random.Generator) -> Records:
    """Draw the records of a made-up table."""
    sizes = 1 / np.arange(1.0, CLASSES + 1)
    hidden = rng.choice(CLASSES, rows, p=sizes / sizes.sum())
    columns = []
    for name in domain:
        cumulative = np.cumsum(_draw_distributions(domain, name, rng), axis=1)
        points = rng.random(rows)
        # One running sum over all classes: class c lies between c and c + 1.
        steps = (cumulative / cumulative[:, -1:] + np.arange(CLASSES)[:, None]).ravel()
        found = np.searchsorted(steps, points + hidden, side="right") - hidden * domain.size(name)
        columns.append(np.clip(found, 0, domain.size(name) - 1))
    return Records.of(domain, columns)


def _draw_distributions(domain: Domain, name: str, rng: np.random.Generator) -> Array:
    """Return the distribution of an attribute in each class."""
    order, size = domain.order(name), domain.size(name)
    inside = np.setdiff1d(np.arange(size), list(order.apart))
    made = np.zeros((CLASSES, size))
    if len(inside):
        common, own = _draw_humps(len(inside), rng) if order.ordered else _draw_falling_shares(len(inside), rng)
        shares = (1 - TIE) * common / common.sum() + TIE * own / own.sum(axis=1, keepdims=True)
        made[:, inside] = shares
    if order.apart:
        made *= 1 - APART
        made[:, list(order.apart)] = APART / len(order.apart)
    return made


def _draw_humps(codes: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return a hump for all rows, and one for each class."""
    at = (np.arange(codes) + 0.5) / codes
    middles = rng.uniform(0.1, 0.6, (CLASSES, 1))
    return np.exp(-0.5 * ((at - 0.35) / 0.2) ** 2), np.exp(-0.5 * ((at - middles) / 0.12) ** 2)


def _draw_falling_shares(codes: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return shares that fall off, and for each class some that fall faster, from another of the most common values.

    As fast as the common ones they would tie columns of two values by next to nothing (a correlation of .04), and a
    recipe that finds no pair worth its price spends more on columns than it will on a real table.
    """
    ranks = np.arange(1.0, codes + 1)
    shift = rng.integers(0, min(codes, SHUFFLED), CLASSES)
    return 1 / ranks, np.stack([np.roll(1 / ranks**2, by) for by in shift])


# A plan of marginals on made-up rows: what of it holds at a budget, and rows that are as it says.


def freeze_scaled_plan(recipe: MethodPlan, times: float) -> dict[str, Any]:
    """Return a plan, and its accounting, as the budget has chosen them, where one row stands for so many.

    The run on fewer rows has less noise, and a budget that says so: it must not choose again.
    """
    if recipe.plan is None:
        return {}
    items: list[Item] = []
    for item in recipe.plan.items:
        kept = replace(item, above=0.0, below=math.inf)
        items.append(replace(kept, floor=kept.floor / times) if isinstance(kept, Compress) else kept)
    return {"marginals": replace(recipe.plan, items=tuple(items)), "accounting": recipe.chosen.accounting}


def apply_arrangement(records: Records, arrangement: Arrangement) -> Records:
    """Return records in which the columns that are filled in from others do follow from them."""
    domain = records.domain
    made: dict[str, Array] = dict(zip(domain.names, records.columns, strict=True))
    for fill in arrangement.fills:
        if fill.anchor is None:
            continue
        if isinstance(fill, Learned):
            told = _in_order(domain, fill)[made[fill.anchor]]
            gone = made[fill.name] == (-1 if fill.missing is None else fill.missing)
            made[fill.name] = np.where(gone, made[fill.name], told)
        elif fill.codes is not None:
            made[fill.name] = fill.codes[made[fill.anchor]]
    return Records.of(domain, list(made.values()))


def _in_order(domain: Domain, fill: Learned) -> Array:
    """Return some map to learn: the values of one column in the order of the other's."""
    answers = np.arange(domain.size(fill.name))
    answers = answers[answers != fill.missing] if len(answers) > 1 else answers
    return np.asarray(answers[np.arange(domain.size(fill.anchor)) * len(answers) // domain.size(fill.anchor)])


MIN_SIMULATED_ROWS = 5_000
"""Rows of a made-up table, where the table that it stands for has as many."""
SHRUNK = 8
"""Rows that one made-up row stands for, at most, below the limit."""
MAX_SIMULATED_ROWS = 200_000
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


def simulate_run(
    schema: Schema,
    rows: int,
    budget: Budget,
    settings: Mapping[str, Any],
    *,
    seed: int = 0,
    listener: Listener = ignore_event,
) -> Simulation:
    """Run a recipe on a made-up table that stands for `rows` rows; `settings` are those of a Synthesizer."""
    options = {name: value for name, value in settings.items() if name not in ("method", "neighbours")}
    recipe = MethodPlan.of(resolve_method_name(settings.get("method", AUTO)), options, schema, budget)
    codec = plain_codec(recipe.schema)
    rng = np.random.default_rng(seed)
    n = min(rows, max(MIN_SIMULATED_ROWS, min(rows // SHRUNK, MAX_SIMULATED_ROWS)))
    table = codec.decode(apply_arrangement(draw_made_up_records(codec.domain, n, rng), recipe.compiled(codec)[1]), rng)
    real = codec.encode(table)
    made = Synthesizer(
        budget=_enlarge_budget(budget, rows / n, recipe.chosen.accounting),
        journal=None,
        trust_data_for_schema=True,  # nothing is released
        seed=seed,
        noise_seed=seed,
        **{**settings, **freeze_scaled_plan(recipe, rows / n)},
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
        columns=_measure_errors(real, synth),
        pairs=k_way(real, synth, 2).tvd if len(real.domain) > 1 else 0.0,
        pair_noise=_pair_noise(model, measured, n),
        share_noise=_share_noise(real, measured, n),
        questions=tuple((entry.question, entry.cost / ledger.capacity) for entry in ledger.entries),
        cells=sum(entry.draws for entry in ledger.entries if entry.purpose == "marginals"),
        seconds=seconds,
        model_bytes=sum(array.nbytes for array in model.to_arrays()[1].values()),
    )


def _enlarge_budget(budget: Budget, times: float, accounting: AccountingName) -> Budget:
    """Return the budget under which noise is so many times smaller."""
    if times <= 1:
        return budget
    if find_accounting(accounting).is_pure:
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


def _measure_errors(real: Records, synth: Records) -> dict[str, float]:
    """Return how far apart two tables are in each attribute."""
    return {
        name: float(np.abs(_compute_shares(real, name) - _compute_shares(synth, name)).sum()) / 2
        for name in real.domain
    }


def _compute_shares(records: Records, name: str) -> Array:
    return np.bincount(records.column(name), minlength=records.domain.size(name)) / max(len(records), 1)


def _pair_noise(model: Model, measured: tuple[Measured, ...], rows: int) -> dict[tuple[str, str], float]:
    """Return the noise of a table over each pair, in the codes that the recipe used, as a share of the rows."""
    sigmas = [table.sigma for table in measured if len(table.clique) > 1]
    sigma = float(np.median(sigmas)) if sigmas else math.inf
    held = unwrap_arrangement(model)
    cells = getattr(held, "inner", held).domain.cells
    told_by = find_measured_sources(model)
    noise = {}
    for pair in combinations(model.domain, 2):
        a, b = (told_by[name] for name in pair)
        if a is None or b is None:  # made at random
            noise[pair] = math.inf
        else:
            noise[pair] = 0.0 if a == b else float(compute_expected_noise(cells((a, b)), sigma)) / (2 * rows)
    return noise


def _share_noise(real: Records, measured: tuple[Measured, ...], rows: int) -> float:
    found = [compute_pooled_sigma((name,), measured) for name in real.domain]
    known = [sigma for sigma in found if math.isfinite(sigma)]
    return float(np.median(known)) / rows if known else math.inf
