"""Numbers and dates as a person sees them."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from weft.evaluation.report.report_values import count_round_numbers, measure_wasserstein, number_figures, values_of
from weft.schema import Schema

SCHEMA = Schema.from_toml("""
[columns.price]
kind = "real"
range = [0.0, 100.0]
[columns.day]
kind = "datetime"
range = ["2024-01-01", "2024-12-31"]
[columns.group]
kind = "category"
values = ["a", "b"]
""")


def table(prices, days):
    return pa.table({"price": prices, "day": days, "group": ["a"] * len(prices)})


def test_figures_of_a_column_are_those_of_its_values():
    monday, sunday = dt.date(2024, 1, 1), dt.date(2024, 2, 4)
    price, day = number_figures(
        SCHEMA, table([10.5, 20.5, 31.0, 41.0], [sunday] * 4), table([10.0, 20.0, 30.5, None], [monday] * 4)
    )
    assert price.name == "price" and not price.dates
    assert price.mean == pytest.approx((60.5 / 3, 103 / 4))
    assert price.grain == 5.0 and price.round_share == pytest.approx((2 / 3, 0))
    assert count_round_numbers(np.array([10.5, 20.5, 31.0, 41.0])) == [1 / 2, 0, 0, 0, 0]
    assert day.weekdays[0] == (1.0, 0.0) and day.weekdays[6] == (0.0, 1.0)
    assert day.months[0] == (1.0, 0.0) and day.months[1] == (0.0, 1.0)
    assert day.moved == pytest.approx(34 * 86_400)


def test_the_distance_is_how_far_values_are_moved():
    rng = np.random.default_rng(0)
    values = rng.normal(size=500)
    assert measure_wasserstein(values, values) == 0
    assert measure_wasserstein(values, values + 3) == pytest.approx(3)
    assert measure_wasserstein(np.array([0.0, 1.0]), np.array([0.0, 0.0, 1.0, 1.0])) == 0


def test_text_and_dictionaries_are_read_and_words_are_not():
    assert values_of(pa.chunked_array([pa.array(["3", "4.5", None])])).tolist() == [3, 4.5]
    assert values_of(pa.chunked_array([pa.array([7, 8]).dictionary_encode()])).tolist() == [7, 8]
    assert values_of(pa.chunked_array([pa.array(["01/02/2024"])]), "%d/%m/%Y").tolist() == [1706745600]
    assert values_of(pa.chunked_array([pa.array([True])])) is None


@pytest.mark.parametrize(
    ("entry", "values"),
    [
        ("", pa.array(["2024-01-01", "2024-06-08"])),
        ('format = "%Y%m%d"', pa.array([20240101, 20240608])),
        ('format = "epoch_ms"\nstep = "1s"', pa.array([1704067200000, 1717804800000])),
        ('timezone = "Europe/Berlin"', pa.array([1704063600, 1717797600]).cast(pa.timestamp("s", "Europe/Berlin"))),
    ],
    ids=["text", "digits", "epoch", "zone"],
)
def test_dates_are_read_however_they_are_written(entry, values):
    schema = Schema.from_toml(f'[columns.day]\nkind = "datetime"\nrange = ["2024-01-01", "2024-12-31"]\n{entry}')
    (day,) = number_figures(schema, pa.table({"day": values}))
    assert day.mean == (None, (1704067200 + 1717804800) / 2)
    assert [share for _, share in day.weekdays] == [0.5, 0, 0, 0, 0, 0.5, 0]
    assert day.months[0] == day.months[5] == (None, 0.5)


def test_one_table_is_described_as_two_are_compared():
    prices, days = [10.0, 20.5, None], [dt.date(2024, 1, 1)] * 3
    described = number_figures(SCHEMA, table(prices, days))
    compared = number_figures(SCHEMA, table(prices, days), table([1.0], days[:1]))
    for one, both in zip(described, compared, strict=True):
        assert (one.name, one.mean, one.sd) == (both.name, (None, both.mean[1]), (None, both.sd[1]))
        assert one.quantiles == tuple((None, after) for _, after in both.quantiles)
