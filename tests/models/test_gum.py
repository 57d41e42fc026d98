"""GUM: the paper's figures, the invariants of an update, the kernels against plain twins, and the model."""

from __future__ import annotations

import json
import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.marginals.counting import count_marginals
from weft.marginals.domain import Domain
from weft.marginals.marginal import Marginal
from weft.marginals.records import Records
from weft.models import model_class
from weft.models.gum.gum_kernels import CHUNK, UNIT_BITS, compute_moves, round_to_records, sweep_rows, update_rows
from weft.models.gum.gum_model import GumModel, GumOptions
from weft.models.gum.gum_plan import (
    GumPlan,
    KernelLayout,
    group_connected_names,
    peel_attributes,
    select_maximal_tables,
)

UNIT = 1 << UNIT_BITS
MASK = (1 << 64) - 1


def stream(seed):
    return np.array([seed], np.uint64)


def counts_of(rows, columns, shape):
    codes = np.ravel_multi_index([rows[:, c] for c in columns], shape)
    return np.bincount(codes, minlength=math.prod(shape))


def strides(shape):
    return np.array([math.prod(shape[k + 1 :]) for k in range(len(shape))], np.int32)


# The paper's figures


def test_figure_2_min_cost_flow_moves_a_tenth_from_adult_and_a_tenth_from_elderly_to_teenager():
    age = np.repeat([0, 1, 2], [3, 3, 4])
    rows = np.stack([age, np.arange(10)], axis=1).astype(np.uint8)
    before = rows.copy()
    one = np.array([0], np.int32), np.array([1], np.int32)
    assert update_rows(rows, *one, np.array([5, 2, 3]), math.inf, 0.0, stream(1)) == 2
    assert np.bincount(rows[:, 0]).tolist() == [5, 2, 3]
    changed = np.flatnonzero((rows != before).any(axis=1))
    assert sorted(before[changed, 0].tolist()) == [1, 2]
    assert (rows[:, 1] == before[:, 1]).all()


@pytest.mark.parametrize("seed", range(5))
def test_figure_3_alpha_2_gives_beta_a_half_one_replace_and_one_duplicate(seed):
    # income (low, high), gender (male, female), age (teenager, adult, elderly)
    rows = np.array([[1, 0, 0], [1, 0, 1], [1, 0, 1], [1, 0, 0], [1, 1, 2]], np.uint8)
    before = rows.copy()
    moved = update_rows(
        rows, np.array([0, 1], np.int32), np.array([2, 1], np.int32), np.array([0, 0, 1, 4]), 2.0, 0.5, stream(seed)
    )
    assert moved == 2
    assert (counts_of(rows, (0, 1), (2, 2)) / 5).tolist() == [0.0, 0.0, 0.4, 0.6]
    changed = np.flatnonzero((rows != before).any(axis=1))
    assert len(changed) == 2
    ages = [(int(before[i, 2]), int(rows[i, 2])) for i in changed]
    assert sum(new == 2 for _, new in ages) == 1  # the duplicate is v5, whole
    assert sum(old == new for old, new in ages) == 1  # the replace keeps its age


# One update


@st.composite
def situations(draw):
    """Rows, two columns of them, an integer target of the same total, alpha, share and seed."""
    shape = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    n = draw(st.integers(1, 60))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    rows = np.stack([rng.integers(0, k, n) for k in (3, *shape)], axis=1).astype(np.uint8)
    skew = rng.dirichlet(np.full(math.prod(shape), draw(st.sampled_from([0.1, 1.0, 5.0]))))
    target = rng.multinomial(n, skew)
    alpha = draw(st.sampled_from([0.01, 0.1, 0.5, 1.0, 3.0, math.inf]))
    return rows, shape, target, alpha, draw(st.sampled_from([0.0, 0.5, 0.8, 1.0])), draw(st.integers(0, MASK))


@settings(max_examples=150, deadline=None)
@given(situations())
def test_an_update_closes_gaps_and_changes_victims_only(situation):
    rows, shape, target, alpha, share, seed = situation
    before, old = rows.copy(), counts_of(rows, (1, 2), shape)
    moved = update_rows(rows, np.array([1, 2], np.int32), strides(shape), target, alpha, share, stream(seed))
    new = counts_of(rows, (1, 2), shape)
    assert new.sum() == old.sum() == target.sum()
    # no cell moves past its target, and none moves away from it
    assert ((np.minimum(old, target) <= new) & (new <= np.maximum(old, target))).all()
    assert np.abs(new - target).sum() == np.abs(old - target).sum() - 2 * moved
    changed = (rows != before).any(axis=1)
    assert changed.sum() == moved  # every victim leaves its cell, and nobody else changes
    cells = np.ravel_multi_index([before[:, 1], before[:, 2]], shape)
    assert (old[cells] > target[cells])[changed].all()
    if share == 0:
        assert (rows[:, 0] == before[:, 0]).all()
    if share == 1 and alpha <= 1 and (old > 0).all():
        assert {tuple(r) for r in rows} <= {tuple(r) for r in before}
    if alpha == math.inf:
        assert (new == target).all()


@settings(max_examples=100, deadline=None)
@given(situations())
def test_empty_cells_stay_empty_in_the_paper(situation):
    """PrivSyn, section 5.2: min(n_t - n_s, alpha n_s) is nothing where n_s = 0."""
    rows, shape, target, alpha, _, seed = situation
    old = counts_of(rows, (1, 2), shape)
    gain, loss = compute_moves(old, target, alpha, False)
    wish = np.where(old > 0, np.minimum(np.maximum(target - old, 0), alpha * np.maximum(old, 1)), 0)
    assert gain.sum() == loss.sum() and np.allclose(gain / UNIT, wish, atol=2 / UNIT)
    update_rows(rows, np.array([1, 2], np.int32), strides(shape), target, alpha, 0.5, stream(seed), False)
    assert (counts_of(rows, (1, 2), shape)[old == 0] == 0).all()


@settings(max_examples=150, deadline=None)
@given(situations())
def test_gains_and_losses_are_the_papers_and_sum_to_the_same_integer(situation):
    rows, shape, target, alpha, _, _ = situation
    old = counts_of(rows, (1, 2), shape)
    gain, loss = compute_moves(old, target, alpha)
    assert gain.sum() == loss.sum()
    wish = np.minimum(np.maximum(target - old, 0), alpha * np.where(old > 0, old, np.maximum(target, 1)))
    assert np.allclose(gain / UNIT, wish, atol=2 / UNIT)
    over = old > target
    assert (loss[~over] == 0).all() and (loss <= np.maximum(old - target, 0) * UNIT).all()
    if over.any():  # one beta explains every loss that is not capped
        rates = (loss[over] / UNIT / old[over])[loss[over] < (old - target)[over] * UNIT]
        assert len(rates) == 0 or np.ptp(rates) < len(old) * 2 / UNIT
        capped = over & (loss == (old - target) * UNIT)
        if len(rates) and capped.any():
            assert ((old - target)[capped] / old[capped]).max() <= rates.max() + len(old) * 2 / UNIT


def test_rounding_is_unbiased_and_two_sides_of_one_sum_agree():
    a, b = np.array([1.3, 0.0, 2.45]), np.array([0.25, 0.25, 3.25])
    fixed = [np.round(x * UNIT).astype(np.int64) for x in (a, b)]
    fixed[1][2] += fixed[0].sum() - fixed[1].sum()
    shifts = np.linspace(0, UNIT, 400, endpoint=False).astype(np.int64)
    rounded = np.array([[round_to_records(x, s) for x in fixed] for s in shifts])
    assert (rounded[:, 0].sum(axis=1) == rounded[:, 1].sum(axis=1)).all()
    assert np.allclose(rounded.mean(axis=0), [a, b], atol=0.006)


def test_victims_and_sources_are_uniform_within_their_cell():
    rows = np.stack([np.repeat([0, 1], [10, 10]), np.arange(20)], axis=1).astype(np.uint8)
    struck, copied = np.zeros(20), np.zeros(20)
    for seed in range(2000):
        after = rows.copy()
        args = np.array([0], np.int32), np.array([1], np.int32), np.array([7, 13])
        assert update_rows(after, *args, 1.0, 1.0, stream(seed * 7919)) == 3
        gone = np.flatnonzero((after != rows).any(axis=1))
        struck[gone] += 1
        copied[after[gone, 1]] += 1
    assert struck[10:].sum() == 0 and copied[:10].sum() == 0
    assert np.abs(struck[:10] / 2000 - 0.3).max() < 0.05
    assert np.abs(copied[10:] / 2000 - 0.3).max() < 0.05


def test_a_cell_that_is_empty_grows_by_replacing_only():
    rows = np.zeros((100, 2), np.uint8)
    moved = update_rows(rows, np.array([0], np.int32), np.array([1], np.int32), np.array([60, 40]), 0.5, 1.0, stream(3))
    assert moved == 20 and np.bincount(rows[:, 0]).tolist() == [80, 20]


# Plain twins: the same numbers in the same order, without numba


class Twin:
    """The splitmix64 stream in Python integers."""

    def __init__(self, seed):
        self.state = seed

    def draw(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return (z ^ (z >> 31)) >> 32

    def below(self, bound):
        return (self.draw() * int(bound)) >> 32


def twin_amounts(counts, target, alpha):
    room = np.maximum(counts - target, 0)
    wish = alpha * np.where(counts > 0, counts, np.maximum(target, 1)).astype(float)
    short = np.maximum(target - counts, 0)
    gain = np.where(wish >= short, short, np.minimum(wish, short)) * float(UNIT)
    gain = gain.astype(np.int64)
    over = np.flatnonzero(room)
    order = over[np.argsort(room[over] / counts[over], kind="stable")]
    need, held, beta = gain.sum() / UNIT, float(counts[over].sum()), 1.0
    for c in order:
        if need <= room[c] / counts[c] * held:
            beta = need / held
            break
        need, held = need - room[c], held - counts[c]
    loss = np.where(room > 0, np.minimum(room * UNIT, (beta * counts * UNIT).astype(np.int64)), 0)
    for c in over:
        loss[c] += min(max(gain.sum() - loss.sum(), -loss[c]), room[c] * UNIT - loss[c])
    return gain, loss


def twin_whole(parts, shift):
    return np.diff((shift + np.cumsum([0, *parts])) >> UNIT_BITS)


def twin_update(rows, columns, shape, target, alpha, share, random):
    codes = np.ravel_multi_index([rows[:, c] for c in columns], shape)
    counts = np.bincount(codes, minlength=len(target))
    gain, loss = twin_amounts(counts, target, alpha)
    shift = random.draw() >> (32 - UNIT_BITS)
    gain, loss = twin_whole(gain, shift), twin_whole(loss, shift)
    copies = np.minimum(twin_whole(gain * int(share * UNIT), random.draw() >> (32 - UNIT_BITS)), counts)
    left, need = counts.copy(), loss + copies
    chosen = []
    for i, c in enumerate(codes):
        if need[c] > 0:
            if random.below(left[c]) < need[c]:
                chosen.append(i)
                need[c] -= 1
            left[c] -= 1
    victims = [i for i in chosen if loss[codes[i]] > 0]
    sources = [i for i in chosen if loss[codes[i]] == 0]
    for i in range(len(victims) - 1, 0, -1):
        j = random.below(i + 1)
        victims[i], victims[j] = victims[j], victims[i]
    result = rows.copy()
    result[victims[: len(sources)]] = rows[sources]
    cells = np.repeat(np.arange(len(target)), gain - copies)
    for column, values in zip(columns, np.unravel_index(cells, shape), strict=True):
        result[victims[len(sources) :], column] = values
    return result, len(victims)


@settings(max_examples=150, deadline=None)
@given(situations())
def test_the_update_agrees_with_its_plain_twin(situation):
    rows, shape, target, alpha, share, seed = situation
    expected, moves = twin_update(rows, (1, 2), shape, target, alpha, share, Twin(seed))
    assert update_rows(rows, np.array([1, 2], np.int32), strides(shape), target, alpha, share, stream(seed)) == moves
    assert (rows == expected).all()


def twin_sweep(rows, names, tables, gaps, weights, random):
    """One guided sweep over dictionaries of tables; rows are fewer than a chunk."""
    taken, f32 = 0, np.float32
    for j, name in enumerate(names):
        mine = [m for m in tables if name in m.clique]
        for i in range(len(rows)):
            offer = mine[random.below(len(mine))]
            axis = offer.clique.index(name)
            at = tuple(slice(None) if c == name else rows[i, names.index(c)] for c in offer.clique)
            turned = np.moveaxis(offer.table, axis, -1)
            sums = np.cumsum(turned + 1e-9 * max(turned.max(), 1e-9), axis=-1)
            running = np.moveaxis(sums, -1, axis)[at].astype(f32)
            u = f32(random.draw() * 2.0**-32) * running[-1]
            new = min(int(np.searchsorted(running, u, side="right")), len(running) - 1)
            old = int(rows[i, j])
            if new == old:
                continue
            rise = f32(0)
            cells = []
            for m in mine:
                a, b = (tuple(v if c == name else int(rows[i, names.index(c)]) for c in m.clique) for v in (old, new))
                g, w = gaps[m.clique], weights[m.clique]
                rise = rise + ((g[b] + f32(0.5)) * w[b] - (g[a] - f32(0.5)) * w[a])
                cells.append((g, a, b))
            if rise < 0:
                for g, a, b in cells:
                    g[a] -= 1
                    g[b] += 1
                rows[i, j] = new
                taken += 1
    return taken


@pytest.mark.parametrize("seed", range(6))
def test_the_guided_sweep_agrees_with_its_plain_twin(seed):
    rng = np.random.default_rng(seed)
    names, shape = ("a", "b", "c", "d"), (3, 4, 2, 5)
    domain = Domain(names, shape)
    tables = tuple(
        Marginal(c, rng.dirichlet(np.full(domain.cells(c), 0.4)).reshape(domain.sizes(c)) * 80)
        for c in [("a", "b"), ("b", "c", "d"), ("a", "d"), ("a", "c")]
    )
    layout = KernelLayout.of(names, tables)
    rows = np.stack([rng.integers(0, k, 80) for k in shape], axis=1).astype(np.uint8)
    assert len(rows) < CHUNK
    target = layout.targets(80, rng)
    gap = np.stack([layout.gaps(rows, target), (1.0 + target) ** -0.5], axis=1).astype(np.float32)
    cut = [gap[a:b] for a, b in zip(layout.offset, layout.offset[1:], strict=False)]
    gaps, weights = (
        {m.clique: g[:, k].reshape(m.table.shape).copy() for m, g in zip(tables, cut, strict=True)} for k in (0, 1)
    )
    other = rows.copy()
    taken = twin_sweep(other, names, tables, gaps, weights, Twin(seed))
    assert taken > 20
    error = float((gap[:, 0] ** 2 * gap[:, 1]).sum())
    assert sweep_rows(rows, layout.views, gap, stream(seed)) == taken
    assert (rows == other).all()
    assert (gap[:, 0] == layout.gaps(rows, target)).all()  # kept up to date
    assert float((gap[:, 0] ** 2 * gap[:, 1]).sum()) < error


# The plan


def test_attributes_in_one_table_are_peeled_until_none_is_left():
    ones = np.ones((2, 2))
    loop = [Marginal(c, ones) for c in [("a", "b"), ("b", "c"), ("a", "c")]]
    tail = [Marginal(c, ones) for c in [("c", "d"), ("d", "e")]]
    core, appended = peel_attributes([*loop, *tail])
    assert sorted(m.clique for m in core) == [("a", "b"), ("a", "c"), ("b", "c")]
    assert [(a.name, a.anchors) for a in appended] == [("e", ("d",)), ("d", ("c",))]
    core, appended = peel_attributes([Marginal(("a", "b", "c"), np.ones((2, 2, 2)))])
    assert core == [] and len(appended) == 2


def test_attributes_are_peeled_once_in_the_paper():
    """PrivSyn, section 5.3: nodes of degree 1 are left out of the updating, and no others after them."""
    ones = np.ones((2, 2))
    tables = [Marginal(c, ones) for c in [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("d", "e")]]
    core, appended = peel_attributes(tables, once=True)
    assert sorted(m.clique for m in core) == [("a", "b"), ("a", "c"), ("b", "c"), ("c", "d")]
    assert [(a.name, a.anchors) for a in appended] == [("e", ("d",))]
    model = GumModel(Domain(tuple("abcde"), (2,) * 5), 4.0, tuple(tables), GumOptions.paper())
    assert set(model.sample(500, np.random.default_rng(0)).domain) == set("abcde")


def test_components_and_maximal_tables():
    tables = [
        Marginal(c, np.ones((2,) * len(c))) for c in [("a",), ("a", "d"), ("b", "c"), ("b", "c", "e"), ("b", "c")]
    ]
    kept = select_maximal_tables(tables)
    assert sorted(m.clique for m in kept) == [("a", "d"), ("b", "c", "e")]
    assert group_connected_names(["f", "a", "b", "c", "d", "e"], kept) == [["f"], ["a", "d"], ["b", "c", "e"]]


# The model


def population(n=4000, seed=0, sizes=(2, 3, 4, 5, 3, 2, 6), classes=4):
    """Records of a small latent-class population, and its domain."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, classes, n)
    columns = []
    for size in sizes:
        chance = np.cumsum(rng.dirichlet(np.full(size, 0.5), classes), axis=1)
        columns.append(np.minimum((rng.random(n)[:, None] > chance[kind]).sum(axis=1), size - 1))
    domain = Domain(tuple("abcdefghij"[: len(sizes)]), sizes)
    return Records.of(domain, columns)


def exact(records, cliques, options=None):
    cliques = [*((name,) for name in records.domain), *cliques]
    tables = tuple(
        Marginal(c, t.astype(float)) for c, t in zip(cliques, count_marginals(records, cliques), strict=True)
    )
    return GumModel(records.domain, float(len(records)), tables, options or GumOptions())


def distance(records, model, size=2):
    tables = [m for m in model.tables if len(m.clique) >= size]
    made = count_marginals(records, [m.clique for m in tables])
    return np.mean(
        [np.abs(a / len(records) - m.table / model.total).sum() / 2 for a, m in zip(made, tables, strict=True)]
    )


PAIRS = list(combinations("abcdefg", 2))


def test_guided_is_closer_than_gum_and_gum_than_min_cost_flow():
    records = population()
    guided, gum, flow = (
        distance(exact(records, PAIRS, o).sample(4000, np.random.default_rng(1)), exact(records, PAIRS))
        for o in (GumOptions(), GumOptions.paper(iterations=40), GumOptions.mcf(iterations=40))
    )
    assert guided < 0.004
    assert guided < gum < flow / 1.5


@pytest.mark.parametrize("n", [0, 1, 7, 499, 501, 3000, 40_000])
@pytest.mark.parametrize("options", [GumOptions(), GumOptions.paper(iterations=3)], ids=["guided", "paper"])
def test_any_number_of_records(n, options):
    model = exact(population(2000), PAIRS[:12], options)
    made = model.sample(n, np.random.default_rng(0))
    assert len(made) == n and made.domain == model.domain
    assert all(len(c) == 0 or c.max() < size for c, size in zip(made.columns, made.domain.shape, strict=True))
    if n >= 501 and options.strategy == "guided":
        assert distance(made, model) < 0.02


def test_single_records_vary_and_follow_the_tables():
    model = exact(population(500, sizes=(2, 2, 2)), [("a", "b"), ("b", "c"), ("a", "c")])
    rng = np.random.default_rng(0)
    ones = Records.concatenate([model.sample(1, rng) for _ in range(400)])
    assert distance(ones, model) < 0.06


def test_the_seed_decides_and_threads_do_not(monkeypatch):
    monkeypatch.setattr("weft.models.gum.gum_model._LANE_ROWS", 1000)
    model = exact(population(), PAIRS[:10])
    a, b, other = (
        model.sample(5000, np.random.default_rng(seed), threads=threads) for seed, threads in [(1, 1), (1, 4), (2, 4)]
    )
    assert all((x == y).all() for x, y in zip(a.columns, b.columns, strict=True))
    assert any((x != y).any() for x, y in zip(a.columns, other.columns, strict=True))
    assert distance(a, model) < 0.01


def test_blocks_are_made_apart_and_do_not_repeat():
    model = exact(population(sizes=(9,) * 7), PAIRS[:8], GumOptions(block_rows=1500))
    blocks = list(model.blocks(4000, np.random.default_rng(0)))
    assert [len(b) for b in blocks] == [1333, 1333, 1334]
    first, second = ({tuple(r) for r in zip(*(c.tolist() for c in b.columns), strict=True)} for b in blocks[:2])
    assert len(first & second) < 0.5 * len(first)
    assert distance(model.sample(4000, np.random.default_rng(0)), model) < 0.02


def test_a_part_of_the_records_is_a_random_part():
    model = exact(population(), PAIRS)
    made = model.sample(8000, np.random.default_rng(0))
    noise = distance(population(4000, seed=0).take(np.random.default_rng(5).integers(0, 4000, 1000)), model)
    assert distance(made.take(slice(0, 1000)), model) < 1.5 * noise


def test_a_tree_is_appended_exactly_and_keeps_its_conditional_independence():
    records = population(5000)
    model = exact(records, [("a", "b"), ("b", "c"), ("c", "d")])
    assert GumPlan.of(model.domain, model.tables, True, True).appended
    errors = []
    made = model.sample(50_000, np.random.default_rng(0), errors=errors)
    assert errors == []  # nothing was left to adjust
    assert distance(made, model) < 0.002
    b, ab, bc = (model.marginal(c) for c in (["b"], ["a", "b"], ["b", "c"]))
    chain = np.einsum("ab,bc,b->abc", ab, bc, 1 / b) / model.total
    assert np.abs(count_marginals(made, [("a", "b", "c")])[0] / 50_000 - chain).sum() / 2 < 0.01
    assert np.abs(model.marginal(["c", "a", "b"]) / model.total - chain).sum() / 2 < 0.03


@pytest.mark.parametrize("options", [{}, {"append": False}, {"separate": False}, {"append": False, "separate": False}])
@pytest.mark.parametrize("strategy", ["guided", "half-duplicate"])
def test_appending_and_separating_are_choices(strategy, options):
    cliques = [("a", "b"), ("a", "c"), ("b", "c"), ("c", "d"), ("e", "f")]
    model = exact(population(), cliques, GumOptions(strategy=strategy, **options))
    made = model.sample(4000, np.random.default_rng(0))
    assert distance(made, model) < 0.02
    separate = count_marginals(made, [("a", "e")])[0] / 4000
    assert np.abs(separate - np.outer(separate.sum(1), separate.sum(0))).sum() / 2 < 0.03


@pytest.mark.parametrize("strategy", ["replace", "duplicate", "half", "alternate", "half-duplicate", "half-replace"])
def test_every_strategy_brings_the_tables_closer(strategy):
    records = population()
    model = exact(records, PAIRS[:9], GumOptions(strategy=strategy, iterations=20))
    start = exact(records, [])
    assert distance(model.sample(4000, np.random.default_rng(0)), model) < 0.6 * distance(
        start.sample(4000, np.random.default_rng(0)), model
    )


def test_progress_and_errors_tell_of_every_iteration():
    events, errors = [], []
    model = exact(population(), PAIRS, GumOptions(iterations=30))
    model.sample(4000, np.random.default_rng(0), events.append, errors)
    steps = [e for e in events if e.note]
    assert len(steps) == len(errors) and errors[-1] < errors[0] / 5
    assert events[-1].finished and events[-1].done == events[-1].total == 30
    assert steps[-1].note == f"mean total variation {errors[-1]:.4f}"


def test_marginals_come_from_tables_or_from_records():
    records = population()
    model = exact(records, PAIRS[:8])
    assert (model.marginal(["b", "a"]) == count_marginals(records, [("a", "b")])[0]).all()
    assert model.marginal([]).shape == () and model.marginal([]) == model.total
    far = model.marginal(["f", "g"])
    assert far.shape == (2, 6) and far.sum() == pytest.approx(model.total)
    assert (far == exact(records, PAIRS[:8]).marginal(["f", "g"])).all()


@pytest.mark.parametrize("options", [GumOptions(iterations=7), GumOptions.mcf()])
def test_a_model_survives_its_file(options):
    model = exact(population(), PAIRS[:5], options)
    meta, arrays = model.to_arrays()
    meta = json.loads(json.dumps(meta, allow_nan=False))
    again = model_class(model.kind).from_arrays(model.domain, meta, arrays)
    assert again.options == options and again.total == model.total
    a, b = (m.sample(600, np.random.default_rng(4)) for m in (model, again))
    assert all((x == y).all() for x, y in zip(a.columns, b.columns, strict=True))


def test_odd_tables():
    wide = population(3000, sizes=(300, 1, 5))
    made = exact(wide, [("a", "b"), ("a", "c"), ("b", "c")], GumOptions(append=False)).sample(
        2000, np.random.default_rng(0)
    )
    assert made.column("a").dtype == np.uint16 and (made.column("b") == 0).all()
    nothing = Domain(("a", "b"), (2, 3))
    empty = GumModel(nothing, 0.0, (Marginal(("a", "b"), np.zeros((2, 3))),), GumOptions(append=False))
    assert len(empty.sample(50, np.random.default_rng(0))) == 50
    assert (empty.marginal(["a"]) == 0).all()
    alone = GumModel(Domain(("a",), (3,)), 6.0, (Marginal(("a",), np.array([1.0, 2.0, 3.0])),))
    assert np.bincount(alone.sample(600, np.random.default_rng(0)).column("a")).tolist() == [100, 200, 300]


def test_three_way_tables_are_adjusted_too():
    records = population()
    model = exact(records, [("a", "b", "c"), ("b", "c", "d"), ("a", "d", "e"), ("c", "e")])
    assert distance(model.sample(4000, np.random.default_rng(0)), model, 3) < 0.01


def test_schedules():
    assert [GumOptions(decay="step", alpha=2.0, rate=0.5, length=2).alpha_at(t) for t in range(5)] == [2, 2, 1, 1, 0.5]
    assert GumOptions(decay="exponential", rate=0.1).alpha_at(3) == pytest.approx(math.exp(-0.3))
    assert GumOptions(decay="linear", rate=0.5).alpha_at(2) == 0.5
    assert GumOptions(decay="sqrt", rate=1.0).alpha_at(3) == 0.5
    assert GumOptions.mcf().alpha_at(50) == math.inf


@pytest.mark.parametrize(
    "wrong",
    [{"strategy": "best"}, {"decay": "cosine"}, {"alpha": 0}, {"tolerance": -1}, {"length": 0}, {"least_rows": 0}],
)
def test_options_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match=r"must lie|there is no"):
        GumOptions(**wrong)


def test_tables_that_make_no_model_are_refused():
    domain = Domain(("a", "b"), (2, 2))
    with pytest.raises(ValueError, match="negative"):
        GumModel(domain, 1.0, (Marginal(("a", "b"), np.array([[1.0, -1.0], [1.0, 0.0]])),))
    with pytest.raises(ValueError, match="no table contains the attribute 'b'"):
        GumModel(domain, 1.0, (Marginal(("a",), np.ones(2)),))
    with pytest.raises(ValueError, match="shape"):
        GumModel(domain, 1.0, (Marginal(("a", "b"), np.ones((2, 3))),))


def test_the_published_alpha_is_below_one_and_falls_in_steps_of_twenty_iterations():
    published = GumOptions.paper()
    assert [round(published.alpha_at(t), 4) for t in (0, 19, 20, 39, 40)] == [0.84, 0.84, 0.7056, 0.7056, 0.5927]
