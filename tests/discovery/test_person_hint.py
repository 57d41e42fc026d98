"""The PRIVATE hint who may be a person with several rows: every column is examined, names decide the order."""

import numpy as np
import pyarrow as pa
import pytest

from weft.synthesis.discovery import possible_units


def make_ratings(rows=3000, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "movieId": rng.integers(1000, 1400, rows),
        "userId": rng.integers(5000, 5300, rows),
        "rating": rng.integers(1, 6, rows),
        "seen": np.datetime64("2020-01-01") + rng.integers(0, 500, rows),
    }


def test_a_person_comes_before_a_thing():
    assert possible_units(pa.table(make_ratings()))[:2] == ["userId", "movieId"]


def test_a_column_without_a_telling_name_is_found():
    rng = np.random.default_rng(1)
    who = np.repeat(rng.permutation(90_000)[:600] + 10_000, rng.integers(1, 9, 600))
    assert possible_units(
        pa.table({"nr": np.arange(len(who)), "zper": who, "age": rng.integers(20, 60, len(who))})
    ) == ["zper"]


@pytest.mark.parametrize("name", ["id", "person"])
def test_a_column_without_repeats_is_no_person_with_several_rows(name):
    assert possible_units(pa.table({name: np.arange(1000) + 5000})) == []


def test_dates_and_round_amounts_are_no_persons():
    rng = np.random.default_rng(2)
    amounts = np.where(rng.random(3000) < 0.5, rng.integers(1, 5, 3000) * 10_000, rng.integers(1000, 60_000, 3000))
    assert possible_units(pa.table({"day": make_ratings()["seen"].astype(str), "paid": amounts})) == []
