from collections.abc import Callable, Sequence

import numpy as np
import pytest

from weft.marginals.domain import Domain
from weft.marginals.records import Records

Make = Callable[..., Records]


@pytest.fixture
def table() -> Make:
    """Records of rows, columns called a, b, c, ..."""

    def make(sizes: Sequence[int], rows: Sequence[Sequence[int]]) -> Records:
        domain = Domain(tuple("abcdefghij"[: len(sizes)]), tuple(sizes))
        return Records.of(domain, np.array(rows, np.int64).reshape(-1, len(sizes)).T)

    return make


@pytest.fixture
def random_table() -> Make:
    """Records in which a hidden number drives every column; the higher `tilt`, the lower the codes."""

    def make(sizes: Sequence[int], rows: int, seed: int, tilt: float = 1.0, noise: float = 0.5) -> Records:
        rng = np.random.default_rng(seed)
        hidden = rng.random(rows)
        mixed = [((1 - noise) * hidden + noise * rng.random(rows)) ** tilt for _ in sizes]
        domain = Domain(tuple(f"c{i:02d}" for i in range(len(sizes))), tuple(sizes))
        return Records.of(domain, [np.floor(m * size) for m, size in zip(mixed, sizes, strict=True)])

    return make
