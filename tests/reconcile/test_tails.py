"""Tails of noisy one-way marginals: noise in empty cells must not become rows far from all others."""

import numpy as np
import pytest

from weft.marginals.smoothing import NoisyCells, extrapolate_tails

EDGES = np.concatenate([[0.0], np.geomspace(1, 1e7, 23)])
WIDTHS, CENTRES = np.diff(EDGES), (EDGES[1:] + EDGES[:-1]) / 2


def make_counts(shape, rng):
    if shape == "zero-inflated":
        return np.histogram(np.concatenate([np.zeros(17_000), rng.lognormal(7, 1.3, 3_000)]), EDGES)[0]
    return np.histogram(
        {"log-normal": rng.lognormal(4, 1.5, 20_000), "gamma": rng.gamma(2, 900, 20_000)}[shape], EDGES
    )[0]


@pytest.mark.parametrize("shape", ["zero-inflated", "log-normal", "gamma"])
def test_the_mean_of_a_skewed_amount_survives_the_noise_of_a_wide_range(shape):
    rng = np.random.default_rng(0)
    counts = make_counts(shape, rng)
    wanted = counts @ CENTRES
    ratios, raw = [], []
    for _ in range(20):
        noisy = counts + rng.normal(0, 40, len(counts))
        made = extrapolate_tails(NoisyCells(noisy, np.full(len(counts), 40.0), WIDTHS), np.maximum(noisy, 0))
        assert (made >= 0).all() and np.isfinite(made).all()
        ratios.append(made @ CENTRES / wanted)
        raw.append(np.maximum(noisy, 0) @ CENTRES / wanted)
    assert np.median(np.abs(np.log(ratios))) < 0.3 and max(ratios) < 3
    assert np.median(raw) > 3  # what the noise of empty cells does to the mean otherwise


def test_a_table_without_noise_is_left_as_it_is_where_rows_are():
    counts = np.array([500.0, 300.0, 100.0, 400.0, 900.0, 200.0, 0.0, 0.0, 0.0, 0.0])
    made = extrapolate_tails(NoisyCells(counts, np.full(10, 1.0), np.ones(10)), counts)
    assert np.abs(made - counts).max() < 5


def test_a_range_that_ends_with_full_cells_is_left_as_it_is():
    counts = np.full(20, 250.0) + np.random.default_rng(1).normal(0, 20, 20)
    made = extrapolate_tails(NoisyCells(counts, np.full(20, 20.0), np.ones(20)), counts)
    assert np.array_equal(made, counts)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
def test_any_noise_is_accepted(scale):
    rng = np.random.default_rng(2)
    for _ in range(30):
        cells = NoisyCells(rng.normal(0, scale, 9), np.full(9, scale), 10.0 ** rng.integers(0, 12, 9))
        made = extrapolate_tails(cells, np.maximum(cells.counts, 0))
        assert np.isfinite(made).all() and (made >= 0).all()


def test_cells_of_very_different_widths_keep_their_places():
    """Narrow cells at zero must not vanish beside wide ones, from whichever side they are added up."""
    for widths in (10.0 ** (np.abs(np.arange(41) - 20) - 6), 10.0 ** np.arange(-6, 15), 10.0 ** np.arange(14, -7, -1)):
        cells = NoisyCells(np.random.default_rng(0).normal(50, 40, len(widths)), np.full(len(widths), 40.0), widths)
        places, scaled = cells.places()
        assert (np.diff(places) > 0).all() and (scaled > 1e-6).all()
        assert np.isfinite(extrapolate_tails(cells, np.maximum(cells.counts, 0))).all()
