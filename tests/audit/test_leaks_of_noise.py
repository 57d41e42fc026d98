"""Noise that is not what was paid for, planted in the whole program: missing, repeated, or dependent on the count.

`Sparse` escaped version 0.1's tests.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from conftest import make_table
from weft_lab.replay import Recorder, find_reused_randomness, wrong_law

from weft.privacy import Charge, Noise
from weft.privacy.mechanisms import MECHANISMS, CountNoise, Mechanisms
from weft.schema import Schema

from .programs import leaks, synthesise
from .test_replay import WIDE, wide

CODES = Schema.from_domain({"code": 4000})


class Sparse(Mechanisms):
    """Adds no noise to the empty cells of large tables."""

    def __call__(self, charge, exact):
        released = super().__call__(charge, exact)
        return [np.where((e == 0) & (e.size > 4096), 0, r) for e, r in zip(exact, released, strict=True)]


def test_empty_cells_without_noise_are_caught():
    program = synthesise("independent", WIDE)
    assert leaks(wide(), program=program) == []
    found = leaks(wide(), program=program, mechanisms=Sparse(Noise.seeded(0)))
    assert any("cells that hold nothing" in finding for finding in found)


class Rounding(Mechanisms):
    """Rounds what it releases of large counts: that an answer is round, then tells of the count without its noise."""

    def __call__(self, charge, exact):
        released = super().__call__(charge, exact)
        return [
            np.where(e >= 100, 10 * np.rint(r / 10).astype(np.int64), r) for e, r in zip(exact, released, strict=True)
        ]


class Careful(Mechanisms):
    """Draws less noise for small counts, so that they stay useful."""

    def __call__(self, charge, exact):
        small = super().__call__(replace(charge, scale=tuple(s / 2 for s in charge.scales)), exact)
        return [np.where(e < 10, s, r) for e, s, r in zip(exact, small, super().__call__(charge, exact), strict=True)]


class Positive(Mechanisms):
    """Draws again where a count would become negative: what is left is the law of another, larger noise."""

    def __call__(self, charge, exact):
        released = super().__call__(charge, exact)
        return [np.where(r < 0, e + np.abs(r - e), r) for e, r in zip(exact, released, strict=True)]


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"epsilon": 4.0}, id="gaussian"),
        pytest.param({"epsilon": 1.0, "delta": 0.0}, id="geometric", marks=pytest.mark.slow),
    ],
)
def test_noise_that_depends_on_the_count_is_caught(settings):
    """A column with codes of no rows, of few, and of many."""
    table = pa.table({"code": np.repeat(np.arange(2000), np.repeat([4, 150], [1500, 500]))})
    program = synthesise("independent", CODES, **settings)
    assert leaks(table, program=program) == []
    for mechanisms in (Rounding, Careful, Positive):
        found = leaks(table, program=program, mechanisms=mechanisms(Noise.seeded(0)))
        assert any("does not follow its distribution" in finding for finding in found), mechanisms


def test_the_law_of_the_noise_is_tested_at_every_scale():
    """Rightly drawn noise passes, also below one count; twice the noise does not."""
    for scale in (0.3, 1.0, 40.0):
        for name in ("gaussian", "geometric"):
            for factor in (1.0, 2.0):
                recorder = Recorder(Scaled(Noise.seeded(1), factor))
                charge = getattr(Charge, name)("counts", sensitivity=1.0, scale=scale, draws=4000)
                recorder(charge, [np.arange(4000) % 20])
                assert bool(wrong_law(recorder.tape)) == (factor != 1.0), (name, scale, factor)


class Scaled(Mechanisms):
    def __init__(self, noise, factor):
        super().__init__(noise)
        self.factor = factor

    def __call__(self, charge, exact):
        return super().__call__(replace(charge, scale=tuple(s * self.factor for s in charge.scales)), exact)


class Cached(Mechanisms):
    """Keeps answers by what the rows said, so that nobody pays twice for one table: noise that comes back."""

    kept: dict = {}  # noqa: RUF012

    def __call__(self, charge, exact):
        key = b"".join(answer.tobytes() for answer in exact)
        return self.kept.setdefault(key, super().__call__(charge, exact))


def test_a_cache_of_answers_is_caught():
    assert "two runs drew the same noise" in find_reused_randomness(synthesise("independent"), make_table(60), Cached)


def test_every_mechanism_has_a_law_that_is_audited_or_a_reason_why_not():
    for mechanism in MECHANISMS.values():
        assert isinstance(mechanism, CountNoise) != bool(mechanism.audited_by), mechanism.name
