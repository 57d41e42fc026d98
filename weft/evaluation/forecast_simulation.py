"""Run a method on a simulated table: its queries, their costs, and the error of its records.

Method, curator and noise are the real ones; only the rows are simulated. A small table with less noise represents a
large one: counts and noise are scaled down together, so that every decision of the method stays the same. Noise cannot
be scaled below one row, so each simulated row represents at most `SHRUNK` rows, up to `MAX_SIMULATED_ROWS`.
"""

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

CLASSES = 6
"""Number of latent classes of rows."""

TIE = 0.6
"""Weight of a class's own distribution in each attribute: with 0, all attributes would be independent."""

SHUFFLED = 4
"""Number of different rotations of the most common values, drawn for each class."""

APART = 0.1
"""Share of the rows with a missing or special value."""


def draw_made_up_records(domain: Domain, rows: int, rng: np.random.Generator) -> Records:
    """Draw the records of a simulated table from a latent-class model."""
    sizes = 1 / np.arange(1.0, CLASSES + 1)
    hidden = rng.choice(CLASSES, rows, p=sizes / sizes.sum())
    columns = []
    for name in domain:
        cumulative = np.cumsum(_draw_distributions(domain, name, rng), axis=1)
        points = rng.random(rows)
        # One cumulative sum over all classes: class c occupies the interval from c to c + 1.
        steps = (cumulative / cumulative[:, -1:] + np.arange(CLASSES)[:, None]).ravel()
        found = np.searchsorted(steps, points + hidden, side="right") - hidden * domain.size(name)
        columns.append(np.clip(found, 0, domain.size(name) - 1))
    return Records.of(domain, columns)


def _draw_distributions(domain: Domain, name: str, rng: np.random.Generator) -> Array:
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
    """Return a bell-shaped distribution for all rows, and one for each class."""
    at = (np.arange(codes) + 0.5) / codes
    middles = rng.uniform(0.1, 0.6, (CLASSES, 1))
    return np.exp(-0.5 * ((at - 0.35) / 0.2) ** 2), np.exp(-0.5 * ((at - middles) / 0.12) ** 2)


def _draw_falling_shares(codes: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return decreasing shares, and for each class steeper ones that start at another of the most common values.

    Without the steeper shares, binary attributes would be nearly independent (a correlation of .04), and a method that
    finds no pair worth measuring spends more on one-way marginals than it would on a real table.
    """
    ranks = np.arange(1.0, codes + 1)
    shift = rng.integers(0, min(codes, SHUFFLED), CLASSES)
    return 1 / ranks, np.stack([np.roll(1 / ranks**2, by) for by in shift])


def freeze_scaled_plan(recipe: MethodPlan, times: float) -> dict[str, Any]:
    """Return the marginal plan and accounting selected by the budget, for rows that represent `times` rows each.

    The simulation runs with a larger budget, by which the plan must not be selected again.
    """
    if recipe.plan is None:
        return {}
    items: list[Item] = []
    for item in recipe.plan.items:
        kept = replace(item, above=0.0, below=math.inf)
        items.append(replace(kept, floor=kept.floor / times) if isinstance(kept, Compress) else kept)
    return {"marginals": replace(recipe.plan, items=tuple(items)), "accounting": recipe.chosen.accounting}


def apply_arrangement(records: Records, arrangement: Arrangement) -> Records:
    """Return records in which attributes that are filled in from others are determined by them."""
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
    """Return an arbitrary map to learn: the codes of the filled attribute in the order of the anchor's codes."""
    answers = np.arange(domain.size(fill.name))
    answers = answers[answers != fill.missing] if len(answers) > 1 else answers
    return np.asarray(answers[np.arange(domain.size(fill.anchor)) * len(answers) // domain.size(fill.anchor)])


MIN_SIMULATED_ROWS = 5_000
"""Minimum number of simulated rows, unless the table has fewer."""
SHRUNK = 8
"""Maximum number of rows that a simulated row represents, up to `MAX_SIMULATED_ROWS`."""
MAX_SIMULATED_ROWS = 200_000
SAMPLED = 20_000
"""Number of synthetic records that are compared with the simulated table."""

RANGES = 32
"""Number of ranges in which numbers and dates with many values are compared."""

SEEN = 0.1
"""Share of the rows that a relation of practical interest between two attributes moves."""


@dataclass(frozen=True)
class Simulation:
    """Results of one run on a simulated table; errors are total variation distances."""

    epsilon: float
    columns: Mapping[str, float]
    pairs: float
    """Mean error of all attribute pairs; 0 if there is one attribute."""
    pair_noise: Mapping[tuple[str, str], float]
    """Noise of the marginal over each pair, as a share of the rows; infinite if no pair is measured."""
    share_noise: float
    """Standard deviation that noise adds to the share of a value, median over attributes."""
    questions: tuple[tuple[str, float], ...]
    """Queries, with their share of the budget."""
    cells: int
    seconds: float
    model_bytes: int

    @property
    def mean(self) -> float:
        """Mean error of the attributes."""
        return float(np.mean(list(self.columns.values())))

    def told(self, seen: float = SEEN) -> list[tuple[str, str]]:
        """Return the attribute pairs in which a relation of this size exceeds the noise."""
        return [pair for pair, noise in self.pair_noise.items() if noise < seen]


def plain_codec(schema: Schema) -> Codec:
    """Return the codec of a schema with the column types of an untyped source."""
    return Codec(schema, csv_arrow_schema(schema))


def row_bytes(codec: Codec) -> int:
    """Return the number of bytes of an encoded row."""
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
    """Run a method on a simulated table that represents `rows` rows; `settings` are arguments of Synthesizer."""
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
        columns={
            name: float(np.abs(_compute_shares(real, name) - _compute_shares(synth, name)).sum()) / 2
            for name in real.domain
        },
        pairs=k_way(real, synth, 2).tvd if len(real.domain) > 1 else 0.0,
        pair_noise=_pair_noise(model, measured, n),
        share_noise=_share_noise(real, measured, n),
        questions=tuple((entry.question, entry.cost / ledger.capacity) for entry in ledger.entries),
        cells=sum(entry.draws for entry in ledger.entries if entry.purpose == "marginals"),
        seconds=seconds,
        model_bytes=sum(array.nbytes for array in model.to_arrays()[1].values()),
    )


def _enlarge_budget(budget: Budget, times: float, accounting: AccountingName) -> Budget:
    """Return the budget under which noise is smaller by the factor `times`."""
    if times <= 1:
        return budget
    if find_accounting(accounting).is_pure:
        return Budget(epsilon=(budget.epsilon or 0.0) * times, delta=budget.delta, insecure=True)
    return Budget(rho=budget.capacity(accounting) * times**2, delta=budget.delta, insecure=True)


def in_ranges(real: Records, synth: Records) -> tuple[Records, Records]:
    """Bin numbers and dates with many values in both tables, into ranges with about equal counts in the first.

    Most of ten thousand values occur once or never, so two tables never agree on them; ranges can be compared.
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


def _compute_shares(records: Records, name: str) -> Array:
    return np.bincount(records.column(name), minlength=records.domain.size(name)) / max(len(records), 1)


def _pair_noise(model: Model, measured: tuple[Measured, ...], rows: int) -> dict[tuple[str, str], float]:
    """Compute the noise of the marginal over each pair, in the method's codes, as a share of the rows."""
    sigmas = [table.sigma for table in measured if len(table.clique) > 1]
    sigma = float(np.median(sigmas)) if sigmas else math.inf
    held = unwrap_arrangement(model)
    cells = getattr(held, "inner", held).domain.cells
    told_by = find_measured_sources(model)
    noise = {}
    for pair in combinations(model.domain, 2):
        a, b = (told_by[name] for name in pair)
        if a is None or b is None:  # generated at random
            noise[pair] = math.inf
        else:
            noise[pair] = 0.0 if a == b else float(compute_expected_noise(cells((a, b)), sigma)) / (2 * rows)
    return noise


def _share_noise(real: Records, measured: tuple[Measured, ...], rows: int) -> float:
    found = [compute_pooled_sigma((name,), measured) for name in real.domain]
    known = [sigma for sigma in found if math.isfinite(sigma)]
    return float(np.median(known)) / rows if known else math.inf
