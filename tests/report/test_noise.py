import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.evaluation.report.measure_report import measure_private
from weft.evaluation.report.report_figures import MarginalFigures
from weft.marginals.marginal import Measured
from weft.marginals.noise_error import compute_expected_noise
from weft.marginals.simplex import project_to_simplex
from weft.schema import Schema
from weft.synthesis.synthesizer import Synthesizer
from weft.synthesis.verdicts import by_column, compute_combined_sigma, compute_expected_tvd, describe_points


@pytest.mark.parametrize("sigma", [3.0, 40.0])
@pytest.mark.parametrize(
    "counts", [np.full(30, 200.0), np.r_[np.full(5, 900.0), np.zeros(300)], np.array([10.0, 0.0, 2000.0, 55.0])]
)
def test_the_expected_distance_is_that_of_simulated_noise(counts, sigma):
    rng = np.random.default_rng(0)
    n = counts.sum()
    noisy = [counts + rng.normal(0, sigma, counts.size) for _ in range(600)]
    drawn = [np.abs(project_to_simplex(table, n) - counts).sum() / (2 * n) for table in noisy]
    assert compute_expected_tvd(counts, sigma) == pytest.approx(np.mean(drawn), rel=0.08)


def test_large_counts_feel_the_raw_noise():
    counts = np.full(200, 1e6)
    assert compute_expected_tvd(counts, 10.0) == pytest.approx(
        compute_expected_noise(200, 10.0) / (2 * counts.sum()), rel=1e-2
    )
    assert compute_expected_noise(4, 10.0) == pytest.approx(4 * 10 * math.sqrt(2 / math.pi))


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=20), st.floats(0.1, 1e4))
def test_it_is_a_distance(counts, sigma):
    assert 0 <= compute_expected_tvd(np.array(counts), sigma) <= 1


def test_more_noise_never_explains_less():
    counts = np.array([500.0, 20.0, 0.0, 80.0])
    distances = [compute_expected_tvd(counts, sigma) for sigma in (1, 5, 25, 125)]
    assert distances == sorted(distances)
    assert compute_expected_tvd(np.zeros(3), 5.0) == 0


def test_tables_that_hold_the_columns_are_weighed_by_precision():
    alone = Measured(("a",), (4,), 6.0)
    pair = Measured(("a", "b"), (4, 9), 2.0)  # summed over b: deviation 2 * sqrt(9) = 6
    assert compute_combined_sigma(("a",), by_column([alone])) == pytest.approx(6.0)
    assert compute_combined_sigma(("a",), by_column([alone, pair])) == pytest.approx(6.0 / math.sqrt(2))
    assert compute_combined_sigma(("a", "b"), by_column([alone, pair])) == pytest.approx(2.0)
    assert compute_combined_sigma(("c",), by_column([alone, pair])) is None
    beyond = Measured(("a", "b"), (4, 9), 2.0, 2)  # what goes beyond columns does not tell of them
    assert compute_combined_sigma(("a",), by_column([alone, beyond])) == pytest.approx(6.0)
    assert compute_combined_sigma(("a", "b"), by_column([alone, beyond])) == pytest.approx(2.0)


@pytest.mark.parametrize("cells", [2, 12, 200])
def test_noise_alone_seldom_passes_its_upper_end(cells):
    rng = np.random.default_rng(1)
    counts = np.full(cells, 500.0)
    n, sigma = counts.sum(), 20.0
    figures = MarginalFigures(
        ("a",), cells, sigma, compute_expected_noise(cells, sigma), compute_expected_tvd(counts, sigma), 0.0
    )
    noisy = (project_to_simplex(counts + rng.normal(0, sigma, cells), n) for _ in range(400))
    drawn = np.array([np.abs(table - counts).sum() / (2 * n) for table in noisy])
    assert np.mean(drawn > figures.upper) < 0.06
    assert figures.upper < 3 * figures.noise


@pytest.mark.parametrize(("method", "most"), [("independent", 0.99), ("weave", 0.99), ("mst", 1.0), ("privsyn", 1.0)])
def test_the_error_bars_of_a_report_hold_the_real_share(method, most):
    """Two standard deviations: 95%, and more where a method knows more than the tables that hold a column."""
    rng, rows, names = np.random.default_rng(0), 3000, [f"c{i}" for i in range(10)]
    schema, held = Schema.from_domain(dict.fromkeys(names, 8)), []
    for seed in range(3):
        hidden = rng.random(rows)
        columns = [np.where(rng.random(rows) < 0.5, hidden, rng.random(rows)) * 8 // 1 for _ in names]
        table = pa.table({name: column.astype(np.int16) for name, column in zip(names, columns, strict=True)})
        fitted = Synthesizer(1.0, method=method, journal=None, noise_seed=seed).fit(table, schema).fitted_
        many = fitted.model.sample(50_000, np.random.default_rng(seed))
        report = measure_private(fitted.codec.encode(table), many, fitted.codec, fitted)
        held += [abs(bar.reference - bar.synth) <= 2 * bar.noise for column in report.columns for bar in column.bars]
    assert 0.92 <= np.mean(held) <= most


def test_attributes_are_counted_and_columns_are_named():
    """A date is one column and two attributes: the day, and the weekday."""
    text = """
    [columns.sex]
    kind = "category"
    values = ["f", "m"]
    [columns.seen]
    kind = "datetime"
    format = "%Y-%m-%d"
    range = ["2024-01-01", "2024-12-31"]
    """
    days = [f"2024-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 28)]
    half = len(days) // 2
    table = pa.table({"sex": ["f"] * half + ["m"] * half, "seen": days})
    alone = Synthesizer(1.0, method="independent").fit(table, Schema.from_toml(text)).fitted_
    assert len(alone.schema.columns) == 2 and len(alone.codec.domain) == 3
    assert alone.ledger.entries[-1].question.startswith("3 one-way marginals")
    assert describe_points(alone).worst[0] == "no attribute pair was measured"
    # A dependence this strong is measured whatever the noise.
    related = Synthesizer(20.0, method="privsyn").fit(table, Schema.from_toml(text)).fitted_
    told = " ".join([*describe_points(related).best, *describe_points(related).worst])
    assert "of 3 attribute pairs were measured" in told
    assert "columns" not in " ".join([told, *(entry.question for entry in related.ledger.entries)])
