"""Numbers counted fine alone and coarse together: grids, smoothing, groups, and what comes back."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft import Schema, Synthesizer
from weft.errors import WeftError
from weft.marginals.domain import Domain, FineGrid, Order
from weft.marginals.marginal import NoisyMarginal
from weft.marginals.smoothing import CellGrid, smooth_counts
from weft.marginals.value_groups import ValueMap, coarse_groups
from weft.methods import METHODS
from weft.methods.common.discretisation import MAX_GROUPS, _reconcile_levels, _smooth_codes, coarse_domain, is_wide
from weft.values.bins import EACH_CELL, MAX_BIN_CELLS, measure_roundness, public_cuts


@settings(max_examples=200, deadline=None)
@given(st.integers(-(10**15), 10**15), st.integers(0, 10**15), st.sampled_from([1, 1, 5, 7]))
def test_cuts_cover_the_range_once_and_are_not_too_many(low, extent, step):
    high = low + extent
    cuts = public_cuts(low, high, step)
    assert cuts[0] == low and cuts[-1] == high + 1
    assert all(a < b for a, b in itertools.pairwise(cuts))
    assert len(cuts) <= max(MAX_BIN_CELLS, EACH_CELL + 2)


def test_a_range_does_not_change_its_meaning_at_a_threshold():
    for high in (99, 100, 101, EACH_CELL - 1, EACH_CELL, 2 * EACH_CELL):
        cuts = public_cuts(0, high)
        assert cuts[:100] == list(range(100))  # small numbers are told apart, however wide the range


def test_round_numbers_of_a_wide_range_have_cells_of_their_own():
    cuts = np.array(public_cuts(0, 10**6))
    for value in (1500, 20_000, 75_000, 500_000):
        at = int(np.searchsorted(cuts, value))
        assert cuts[at] == value and cuts[at + 1] == value + 1
    mirrored = public_cuts(-(10**6), 0)
    assert {-75_000, -74_999} <= set(mirrored)
    assert measure_roundness([7, 35, 70, 100], [1, 1, 1, 5]).tolist() == [0, 1, 2, 0]


def test_codes_of_years_differ_in_their_last_digits():
    assert len(public_cuts(190_000, 210_000)) > 1000


def flat(n):
    return CellGrid(np.ones(n), np.zeros(n, np.int64))


def test_smoothing_leaves_a_table_without_noise_as_it_is():
    counts = np.random.default_rng(1).poisson(50, 60).astype(float)
    assert smooth_counts(counts, 1e-9, flat(60)) == pytest.approx(counts, abs=1e-3)


def test_smoothing_finds_heaps_steps_and_the_end_of_the_range():
    rng = np.random.default_rng(2)
    true = np.concatenate([np.full(200, 40.0), np.full(200, 5.0), np.zeros(600)])
    true[100] = 900
    errors = []
    for _ in range(20):
        noisy = true + rng.normal(0, 20, 1000)
        made = smooth_counts(noisy, 20, flat(1000))
        assert made.min() >= 0
        assert made[100] > 700
        assert made[700:].sum() < 0.15 * true.sum()
        errors.append([np.abs(made - true).sum(), np.abs(np.maximum(noisy, 0) - true).sum()])
    mine, cut = np.mean(errors, axis=0)
    assert mine < cut / 3


def test_smoothing_keeps_the_share_of_round_numbers():
    rng = np.random.default_rng(3)
    values = np.arange(1000)
    true = np.where(values % 10 == 0, 60.0, 4.0)
    grid = CellGrid(np.ones(1000), measure_roundness(values, np.ones(1000)))
    made = smooth_counts(true + rng.normal(0, 10, 1000), 10, grid)
    assert made[values % 10 == 0].sum() / made.sum() == pytest.approx(
        true[values % 10 == 0].sum() / true.sum(), abs=0.05
    )


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(0, 100), min_size=2, max_size=60), st.integers(1, 20), st.integers(0, 2))
def test_groups_are_neighbours_and_leave_alone_what_stands_apart(counts, groups, apart):
    counts = np.array(counts)
    codes = range(len(counts))
    alone = set(list(codes)[len(counts) - min(apart, len(counts) - 1) :])
    found = coarse_groups(counts, alone, groups)
    assert (np.diff(found) >= 0).all() and set(np.diff(found)) <= {0, 1}
    for code in alone:
        assert (found == found[code]).sum() == 1
    assert found.max() + 1 <= 3 * groups + 3 + len(alone)


def test_groups_hold_about_equal_counts_and_heaps_are_alone():
    counts = np.full(1000, 10.0)
    counts[500] = 4000
    found = coarse_groups(counts, (), 20)
    sums = np.bincount(found, weights=counts)
    assert (found == found[500]).sum() == 1
    assert sums[np.arange(len(sums)) != found[500]].max() < 3 * np.median(sums)


def test_maps_after_maps_divide_as_both_say():
    fine = ValueMap(np.array([0, 0, 1, 1]), 2, np.array([1.0, 3.0, 2.0, 2.0]))
    both = fine.then(ValueMap(np.array([0, 0]), 1, np.array([30.0, 10.0])))
    assert both.codes.tolist() == [0, 0, 0, 0]
    assert both.shares() == pytest.approx([0.75 * 0.25, 0.75 * 0.75, 0.125, 0.125])


def test_grids_are_joined_where_noise_allows_few_cells():
    grid = FineGrid(np.arange(11), np.zeros(11, np.int64), np.append(np.ones(10), 1.0))
    joined = grid.coarser(4, apart=1)
    assert joined.cells.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 4]
    assert joined.widths.tolist() == [3, 3, 3, 1, 1]
    assert grid.coarser(10, apart=1) is grid


def test_only_many_ordered_codes_are_counted_twice():
    domain = Domain(("a", "b", "c"), (1000, 1000, 20), (Order(True), Order(), Order(True)))
    assert [is_wide(domain, name) for name in domain] == [True, False, False]
    assert coarse_domain(domain).shape == (2 * MAX_GROUPS, 1000, 20)


SCHEMA = Schema.from_toml("""
[columns.amount]
kind = "integer"
range = [0, 99999]
[columns.price]
kind = "real"
range = [0.0, 5000.0]
decimals = 2
[columns.day]
kind = "datetime"
range = ["2023-01-01", "2024-12-31"]
[columns.group]
kind = "category"
values = ["x", "y"]
""")


def table(rows, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.random(rows) < 0.4
    amount = np.where(rng.random(rows) < 0.6, 0, rng.choice([7298, 15024, 5000], rows))
    price = np.where(rng.random(rows) < 0.5, rng.integers(20, 200, rows), rng.lognormal(4, 0.6, rows).round(2))
    days = np.arange("2023-01-01", "2025-01-01", dtype="datetime64[D]")
    weekend = (days.astype(int) + 3) % 7 >= 5
    day = rng.choice(days, rows, p=np.where(weekend, 3.0, 1.0) / np.where(weekend, 3.0, 1.0).sum())
    return pa.table(
        {
            "amount": amount,
            "price": np.clip(price.astype(float), 0, 5000) + np.where(group, 100, 0),
            "day": pa.array(day),
            "group": np.where(group, "x", "y"),
        }
    )


@pytest.mark.parametrize("method", ["independent", "mst", "weave"])
def test_shapes_of_numbers_and_dates_survive(method):
    real = table(20_000)
    made = Synthesizer(8.0, method=method, journal=None, noise_seed=1, seed=1).fit(real, SCHEMA).sample(20_000, seed=1)
    assert made.schema.equals(real.schema)
    for name in ("amount", "price"):
        a, b = (np.asarray(t.column(name), float) for t in (real, made))
        assert b.mean() == pytest.approx(a.mean(), rel=0.05)
        assert b.std() == pytest.approx(a.std(), rel=0.1)
    amounts = np.asarray(made.column("amount"))
    assert np.isin(amounts, [0, 5000, 7298, 15024]).mean() > 0.95
    prices = np.asarray(made.column("price"))
    assert (prices % 1 == 0).mean() == pytest.approx((np.asarray(real.column("price")) % 1 == 0).mean(), abs=0.05)
    weekday = [(np.asarray(t.column("day")).astype("datetime64[D]").astype(int) + 3) % 7 for t in (real, made)]
    shares = [np.bincount(w, minlength=7) / 20_000 for w in weekday]
    assert np.abs(shares[0] - shares[1]).max() < 0.02
    if method != "independent":
        price, group = prices, np.asarray(made.column("group"))
        assert price[group == "x"].mean() - price[group == "y"].mean() == pytest.approx(100, rel=0.2)


def test_every_recipe_takes_wide_columns_and_spends_no_more_than_its_budget():
    real = table(3000)
    for method in sorted(set(METHODS) - {"marginals"}):
        options = {"delta": 0.0} if method in ("privbayes", "pb-pgm") else {}
        made = Synthesizer(4.0, method=method, journal=None, noise_seed=1, **options).fit(real, SCHEMA)
        assert made.ledger_.used <= 1 + 1e-9
        assert made.sample(50, seed=1).schema.equals(real.schema)


def test_what_a_recipe_refuses_is_refused_before_anything_is_charged(tmp_path):
    journal = tmp_path / "journal.jsonl"
    refused = [
        ("bsg", {"omega": 1, "rows": 10}, 'unit = "id"\nrows_per_unit = 3\n'),
        ("aim", {"share_scores": 1e-6, "epsilon": 5e-4}, ""),
    ]
    for method, options, unit in refused:
        text = unit + SCHEMA.to_toml() + ('[columns.id]\nkind = "id"\n' if unit else "")
        rows = table(200)
        rows = rows.append_column("id", pa.array([f"{i}" for i in range(200)])) if unit else rows
        with pytest.raises(WeftError):
            Synthesizer(method=method, journal=journal, **options).fit(rows, Schema.from_toml(text))
        assert not journal.exists() or "question" not in journal.read_text()


def test_blocks_hold_what_many_noisy_cells_would_misplace():
    """Ten thousand amounts of a skewed law: ranges of many cells are known from blocks, not from sums of cells."""
    rng = np.random.default_rng(0)
    amounts = np.minimum(rng.gamma(2.0, 800.0, 20_000), 9_999).astype(int)
    schema = Schema.from_toml('[columns.amount]\nkind = "integer"\nrange = [0, 9999]\n')
    edges = np.quantile(amounts, np.linspace(0, 1, 11))

    def misplaced(seed):
        made = Synthesizer(0.3, method="independent", journal=None, noise_seed=seed).fit(
            pa.table({"amount": amounts}), schema
        )
        drawn = np.asarray(made.sample(20_000, seed=1).column("amount"))
        shares = [np.histogram(np.clip(v, edges[0], edges[-1]), edges)[0] / len(v) for v in (amounts, drawn)]
        return np.abs(shares[0] - shares[1]).sum() / 2

    with_blocks = np.mean([misplaced(seed) for seed in range(4)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("weft.methods.common.discretisation.MIN_CELLS_PER_BLOCK", np.inf)
        without = np.mean([misplaced(seed) for seed in range(4)])
    assert with_blocks < 0.6 * without


def test_a_last_block_of_one_cell_is_smoothed_as_any_other():
    """461 codes in blocks of 20: the last one has a single cell, which is no value that stands apart."""
    rng = np.random.default_rng(0)
    order, truth = Order(True), np.zeros(461)
    truth[:138] = 20_000 / 138
    cells = order.fine_grid(461)
    blocks = cells.coarser(24, 0)
    found = []
    for _ in range(60):
        fine = NoisyMarginal(("a",), truth + rng.normal(0, 100, 461), 100.0)
        wide = NoisyMarginal(("a",), np.bincount(blocks.cells, truth) + rng.normal(0, 150, blocks.size), 150.0)
        smoothed = _smooth_codes(fine, cells, order)
        found.append(_reconcile_levels(smoothed, (fine, cells), (wide, blocks), order)[-1])
    assert np.bincount(blocks.cells)[-1] == 1 and np.mean(found) < 10


def test_one_frequent_value_does_not_take_the_rows_of_its_neighbours():
    """Noise hides the other values of its cell when single values are measured: they keep what is left of the cell."""
    rng = np.random.default_rng(0)
    amounts = np.minimum(rng.lognormal(9.5, 0.8, 20_000), 99_999).astype(int)
    amounts[:700] = 12_000
    schema = Schema.from_toml('[columns.amount]\nkind = "integer"\nrange = [0, 99999]\n')
    found = []
    for seed in range(8):
        made = Synthesizer(0.2, method="independent", journal=None, noise_seed=seed)
        drawn = made.fit(pa.table({"amount": amounts}), schema).sample(20_000, seed=1)
        found.append(int((np.asarray(drawn.column("amount")) == 12_000).sum()))
    assert 0.75 * 700 < np.mean(found) < 1.15 * 700  # 1.3 times 700 where the cell was scaled up as a whole
