"""Noise draws a second, beside OpenDP's discrete Gaussian in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from weft.privacy import Noise
from weft.privacy.mechanisms import GAUSSIAN, GEOMETRIC
from weft_lab.timings import Figures

DRAWS = 4_000_000
OPENDP_DRAWS = 100_000
SIGMAS = (1.0, 30.0, 1e3, 1e7)


def rate(draw: Callable[[int], object], n: int) -> float:
    """Draws a second: the best of three timings, or the only one when it takes long."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        draw(n)
        best = min(best, time.perf_counter() - start)
        if best > 1.0:
            break
    return n / best


def opendp_rate(sigma: float) -> float | None:
    """OpenDP's discrete Gaussian on a vector of counts; None where it is not installed."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    mechanism = dp.m.make_gaussian(*space, scale=sigma)
    return rate(lambda n: mechanism(np.zeros(n, np.int64)), OPENDP_DRAWS)


def figures(large: bool = False) -> Figures:
    """Name and value of each figure."""
    noise = Noise()
    noise.draw(GAUSSIAN.law(1.0), 1000)
    ours = {sigma: rate(partial(noise.draw, GAUSSIAN.law(sigma)), DRAWS) for sigma in SIGMAS}
    lines = [(f"rounded Gaussian, sigma {sigma:g}", f"{r / 1e6:.1f} M draws/s") for sigma, r in ours.items()]
    geometric = rate(partial(noise.draw, GEOMETRIC.law(30.0)), DRAWS)
    lines.append(("two-sided geometric, scale 30", f"{geometric / 1e6:.1f} M draws/s"))
    theirs = opendp_rate(30.0)
    if theirs is None:
        return [*lines, ("OpenDP discrete Gaussian, sigma 30", "not installed")]
    return [
        *lines,
        ("OpenDP discrete Gaussian, sigma 30", f"{theirs / 1e3:.0f} k draws/s"),
        ("ratio at sigma 30", f"{ours[30.0] / theirs:.0f} x"),
    ]
