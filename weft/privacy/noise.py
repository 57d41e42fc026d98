"""Integer noise: rounded Gaussian and two-sided geometric, from the operating system's entropy.

Counts are integers, and for an integer x, round(x + Z) = x + round(Z): adding rounded Gaussian noise is
post-processing of the ideal Gaussian mechanism, so Gaussian-DP accounting holds and no floating-point number
is ever added to a count.

A draw is a sign bit and a tail number p, uniform on (0, 1/2), of which 127 bits are drawn at once. The
magnitude is the largest k with p < P(K >= k), 0 if there is none. It is found by inverting the tail in
floating point:

    Gaussian   x = sigma * z + 1/2,  z = -ndtri(p),    k = floor(x)
    geometric  x = scale * (L - log1p(a)),  L = -ln p,  k = floor(x)

which is certain unless x lies within a *margin* of an integer. The rare draws that do are decided by
integer arithmetic on 320 bits of p (`exact`). Error of x, in units of the scale: p carries a relative error
of at most 2**-51 (two conversions, one sum; the undrawn bits weigh less than 2**-63 since p >= 2**-64),
which moves z by at most 2**-51 * Q(z)/phi(z) < 2**-50 and L by 2**-51; ndtri and log are accurate to a few
units of 2**-52 relative; the product and the sum round at 2**-53 relative each. All of this is below 2**-49
(1 + z). The margin 2**-42 (1 + z), resp. (1 + L), is a hundred times wider, and the tests measure both
factors.

Every draw costs the same work but for those decided exactly: a share of about 5e-13 * scale, i.e. one in
10**11 draws at scale 10 and one in 10**5 at scale 10**7, so the time taken tells next to nothing of the
noise.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from weft.errors import BudgetError
from weft.privacy import exact

LAW_ERROR = 2.0**-240
"""Bound on the total-variation distance of one draw from its ideal law; the ledger adds it to delta.

Float-decided draws are right for every value of the undrawn bits, so only the last resort errs: the 320-bit
prefix of p must equal the prefix of a threshold, or that threshold's neighbour as computed (probability at
most 3 * 2**-319 each). At most 223 * 10**9 < 2**38 thresholds are not zero, hence below 2**-279."""

LARGEST_SCALE = 1e9
"""Largest sigma or geometric scale; there the margin is still below 0.02 of a count."""

_CHUNK = 1 << 13
"""Draws made at a time: small enough for the arrays to stay in cache."""

_MARGIN = 2.0**-42
_SIGN = np.uint64(63)
_TAIL = np.uint64((1 << 63) - 1)

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Law(ABC):
    """A symmetric integer law of a given scale, known by its upper tail."""

    scale: float

    def __post_init__(self) -> None:
        if not 0 < self.scale <= LARGEST_SCALE:
            raise BudgetError(
                f"noise of scale {self.scale:g} cannot be drawn (above 0, at most {LARGEST_SCALE:g}): "
                "raise the budget, or ask fewer questions"
            )

    @abstractmethod
    def invert(self, p: Floats) -> tuple[Floats, Floats]:
        """Return x with floor(x) = k wherever x is further from an integer than the margin, also returned."""

    @abstractmethod
    def tail(self, k: int) -> int:
        """P(K >= k) for k >= 1 as an integer of `exact.BITS` bits."""

    def magnitude(self, prefix: int, low: int, high: int) -> int:
        """Largest k with prefix < tail(k), given that low fits (0 always does) and high does not."""
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if prefix < self.tail(middle) else (low, middle)
        return low


class GaussianLaw(Law):
    """round(Z), Z ~ N(0, scale**2)."""

    def invert(self, p: Floats) -> tuple[Floats, Floats]:
        """See `Law.invert`."""
        z = ndtri(p)
        np.negative(z, out=z)
        return self.scale * z + 0.5, _margin(self.scale, z)

    def tail(self, k: int) -> int:
        """See `Law.tail`."""
        return exact.gaussian_tail(k, self.scale)


class GeometricLaw(Law):
    """P(K = k) proportional to exp(-|k| / scale)."""

    def invert(self, p: Floats) -> tuple[Floats, Floats]:
        """See `Law.invert`."""
        log = np.log(p)
        np.negative(log, out=log)
        return self.scale * (log - math.log1p(math.exp(-1 / self.scale))), _margin(self.scale, log)

    def tail(self, k: int) -> int:
        """See `Law.tail`."""
        return exact.geometric_tail(k, self.scale)


def _margin(scale: float, z: Floats) -> Floats:
    z += 1.0
    z *= scale * _MARGIN
    return z


class Noise:
    """A source of privacy noise; `Noise()` reads the operating system's entropy, and nothing can seed it.

    There is no state to share or to repeat: threads and forked processes draw independently.

    >>> noise = Noise.seeded(1)
    >>> noise.gaussian(10.0, 4).dtype, noise.private
    (dtype('int64'), False)
    """

    def __init__(self) -> None:
        self._bytes: Callable[[int], bytes] = os.urandom
        self.private = True
        """Whether what is released with this noise may be called private."""

    @classmethod
    def seeded(cls, seed: int) -> Self:
        """Return a reproducible source, for tests only: what is made with it is NOT PRIVATE."""
        noise = cls()
        noise._bytes = np.random.Generator(np.random.Philox(seed)).bytes
        noise.private = False
        return noise

    def gaussian(self, sigma: float, size: int | tuple[int, ...]) -> Integers:
        """Draw round(Z), Z ~ N(0, sigma**2): integers."""
        return self._draw(GaussianLaw(float(sigma)), size)

    def geometric(self, scale: float, size: int | tuple[int, ...]) -> Integers:
        """Draw integers with P(k) proportional to exp(-|k| / scale): epsilon = sensitivity / scale."""
        return self._draw(GeometricLaw(float(scale)), size)

    def bits(self, count: int) -> int:
        """Draw an integer uniform on 0 to 2**count - 1."""
        whole = (count + 7) // 8
        return int.from_bytes(self._bytes(whole), "little") >> (8 * whole - count)

    def _draw(self, law: Law, size: int | tuple[int, ...]) -> Integers:
        values = np.empty(size, np.int64)
        flat = values.reshape(-1)
        for start in range(0, len(flat), _CHUNK):
            self._fill(law, flat[start : start + _CHUNK])
        return values

    def _fill(self, law: Law, out: Integers) -> None:
        words = np.frombuffer(self._bytes(16 * len(out)), "<u8").reshape(2, -1)
        high, low = words[0] & _TAIL, words[1]
        p = high * 2.0**-64
        p += low * 2.0**-128
        np.maximum(p, 2.0**-64, out=p)  # keeps x finite where high is 0; such draws are decided exactly
        x, margin = law.invert(p)
        away = np.abs(x - np.rint(x))
        np.floor(x, out=x)
        doubtful = (away <= margin) | (high == 0)
        if doubtful.any():
            self._decide(law, high, low, x, doubtful)
        negative = (words[0] >> _SIGN).view(np.int64)
        np.copyto(out, x, casting="unsafe")
        out ^= -negative  # two's complement: the sign without a branch
        out += negative

    def _decide(self, law: Law, high: NDArray[Any], low: NDArray[Any], x: Floats, doubtful: NDArray[Any]) -> None:
        for i in np.flatnonzero(doubtful):
            drawn = int(high[i]) << 64 | int(low[i])
            prefix = drawn << (exact.BITS - 128) | self.bits(exact.BITS - 128)
            if high[i] == 0:
                x[i] = law.magnitude(prefix, 0, math.ceil(224 * law.scale) + 2)
            else:  # the margin was counted around the nearest integer, which floor has moved by at most one
                x[i] = law.magnitude(prefix, max(int(x[i]) - 1, 0), int(x[i]) + 2)
