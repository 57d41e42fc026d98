"""Small tables that the project makes itself, shared by the suites."""

import os

import hypothesis
import numpy as np
import pyarrow as pa
import pytest

from weft.schema import Schema

hypothesis.settings.register_profile("weft", deadline=None)  # no test depends on how busy a machine is
hypothesis.settings.load_profile("weft")

SCHEMA = """
[columns.age]
kind = "integer"
range = [0, 99]
bins = 10

[columns.sex]
kind = "category"
values = ["f", "m"]

[columns.ward]
kind = "category"
values = ["a", "b", "c", "d"]
missing = true

[columns.cost]
kind = "real"
range = [0.0, 1000.0]
bins = 5
decimals = 2
special = [0.0]
missing = true
outside = "clip"
"""


def by_turns(first, second, every):
    """Return all pairs of two lists; one of `every` is in the default suite, in a pattern that leaves none out, the
    rest is slow."""
    return [
        pytest.param(one, other, marks=[pytest.mark.slow] if (i + j) % every else [], id=f"{one}-{other}")
        for i, one in enumerate(first)
        for j, other in enumerate(second)
    ]


@pytest.fixture(autouse=True, scope="session")
def working_directory(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Run in a folder of the suite's own: fits keep their journal in the working directory."""
    os.chdir(tmp_path_factory.mktemp("work"))


def make_table(n: int, seed: int = 0) -> pa.Table:
    """Correlated columns: ward follows age, cost follows ward."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, n)
    ward = np.minimum(age // 25, 3)
    ward = np.where(rng.random(n) < 0.2, rng.integers(0, 4, n), ward)
    cost = np.where(rng.random(n) < 0.3, 0.0, np.round(rng.random(n) * 250 * (ward + 1), 2))
    return pa.table(
        {
            "age": pa.array(age, pa.int16()),
            "sex": np.array(["f", "m"])[rng.integers(0, 2, n)],
            "ward": pa.array(
                [None if r < 0.05 else "abcd"[w] for w, r in zip(ward, rng.random(n), strict=True)], pa.string()
            ),
            "cost": pa.array(cost, pa.float32()),
        }
    )


@pytest.fixture(scope="session")
def schema() -> Schema:
    return Schema.from_toml(SCHEMA)


@pytest.fixture(scope="session")
def table() -> pa.Table:
    return make_table(400)
