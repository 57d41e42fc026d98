"""Integer noise from any symmetric distribution, using the operating system's entropy.

Counts are integers, and for an integer x, round(x + Z) = x + round(Z): adding rounded Gaussian noise is post-processing
of the ideal Gaussian mechanism, so Gaussian-DP accounting holds and no floating-point number is ever added to a count.

A draw consists of a sign bit and a tail probability p, uniform on (0, 1/2), of which 127 bits are drawn at once. The
magnitude is the largest k with p < P(K >= k), 0 if there is none. Inverting the tail in floating point gives

    Gaussian   x = sigma * z + 1/2,  z = -ndtri(p),    k = floor(x)
    geometric  x = scale * (L - log1p(a)),  L = -ln p,  k = floor(x)

which is certain unless x lies within a *margin* of an integer. The rare draws that do are decided by integer arithmetic
on 320 bits of p (`noise_tails`). Each distribution is a subclass of `Law` in the file of its mechanism
(`weft.privacy.mechanisms`).

Error of x, in units of the scale: p has a relative error of at most 2**-51 (two conversions, one sum; the undrawn bits
contribute less than 2**-63 since p >= 2**-64), which moves z by at most 2**-51 * Q(z)/phi(z) < 2**-50 and L by 2**-51;
ndtri and log are accurate to a few units of 2**-52 relative; the product and the sum round at 2**-53 relative each. The
total is below 2**-49 (1 + z). The margin 2**-42 (1 + z), resp. (1 + L), is a hundred times wider; tests measure both.

Every draw takes the same work except those decided exactly: a fraction of about 5e-13 * scale, i.e. one in 10**11 draws
at scale 10 and one in 10**5 at scale 10**7, so the running time reveals almost nothing about the noise.
"""

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from weft.errors import BudgetError
from weft.kernels import kernel
from weft.marginals.marginal import Array
from weft.privacy import noise_tails as exact

LAW_ERROR = 2.0**-240
"""Bound on the total-variation distance of one draw from its ideal distribution; the ledger adds it to delta.

Draws decided in floating point are right for every value of the undrawn bits, so only the exact decision can err: the
320-bit prefix of p must equal the prefix of a threshold, or that threshold's neighbour as computed (probability at most
3 * 2**-319 each). At most 223 * 10**9 < 2**38 thresholds are not zero, hence the error is below 2**-279."""

MAX_NOISE_SCALE = 1e9
"""Largest sigma or geometric scale; there the margin is still below 0.02 of a count."""

_CHUNK = 1 << 13
"""Draws per batch: small enough for the arrays to stay in cache."""

_MARGIN = 2.0**-42
_SIGN = np.uint64(63)
_TAIL = np.uint64((1 << 63) - 1)

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Law(ABC):
    """A symmetric integer distribution with a scale, defined by its upper tail."""

    scale: float

    def __post_init__(self) -> None:
        if not 0 < self.scale <= MAX_NOISE_SCALE:
            raise BudgetError(
                f"noise of scale {self.scale:g} cannot be drawn (above 0, at most {MAX_NOISE_SCALE:g}): "
                "raise the budget, or make fewer queries"
            )

    @abstractmethod
    def invert(self, p: Floats) -> tuple[Floats, Floats]:
        """Return x and a margin such that floor(x) = k wherever x is further than the margin from an integer."""

    @abstractmethod
    def tail(self, k: int) -> int:
        """Return P(K >= k) for k >= 1 as an integer of `exact.BITS` bits."""

    def reach(self) -> int:
        """Return a k from which on `tail` is 0; `LAW_ERROR` allows up to 2**77."""
        return math.ceil(224 * self.scale) + 2

    def magnitude(self, prefix: int, low: int, high: int) -> int:
        """Return the largest k with prefix < tail(k), given that it holds for low (always for 0) and fails for high."""
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if prefix < self.tail(middle) else (low, middle)
        return low


def compute_margin(scale: float, z: Floats) -> Floats:
    """Return the margin 2**-42 (1 + z) in units of the scale; overwrites z."""
    z += 1.0
    z *= scale * _MARGIN
    return z


class Noise:
    """A source of privacy noise; `Noise()` reads the operating system's entropy and cannot be seeded.

    There is no state to share or to repeat: threads and forked processes draw independently.

    >>> noise = Noise.seeded(1)
    >>> noise.words(4).dtype, noise.private
    (dtype('uint64'), False)
    """

    def __init__(self) -> None:
        self._bytes: Callable[[int], bytes] = os.urandom
        self.private = True
        """Whether releases with this noise are private."""

    @classmethod
    def seeded(cls, seed: int) -> Self:
        """Return a reproducible source, for tests only: a release that uses it is NOT PRIVATE."""
        noise = cls()
        noise._bytes = np.random.Generator(np.random.Philox(seed)).bytes
        noise.private = False
        return noise

    def draw(self, law: Law, size: int | tuple[int, ...]) -> Integers:
        """Draw independent integers from a distribution."""
        values = np.empty(size, np.int64)
        flat = values.reshape(-1)
        for start in range(0, len(flat), _CHUNK):
            self._fill(law, flat[start : start + _CHUNK])
        return values

    def bits(self, count: int) -> int:
        """Draw an integer uniform on 0 to 2**count - 1."""
        whole = (count + 7) // 8
        return int.from_bytes(self._bytes(whole), "little") >> (8 * whole - count)

    def words(self, count: int) -> Array:
        """Draw uniform 64-bit words in batches: a single integer of all bits would be held in memory several times."""
        words = np.empty(count, np.uint64)
        for start in range(0, count, _CHUNK):
            piece = words[start : start + _CHUNK]
            piece[:] = np.frombuffer(self.bits(64 * len(piece)).to_bytes(8 * len(piece), "little"), "<u8")
        return words

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
                x[i] = law.magnitude(prefix, 0, law.reach())
            else:  # the margin is around the nearest integer, which differs from floor(x) by at most one
                x[i] = law.magnitude(prefix, max(int(x[i]) - 1, 0), int(x[i]) + 2)


UNIFORM_ERROR = 2.0**-65
"""Bound on the total-variation distance of one number of `scale_words_below` from the uniform distribution."""

_LOW = np.uint64((1 << 32) - 1)
_HALF = np.uint64(32)


def scale_words_below(bound: int, words: Array) -> Array:
    """Return floor(u * bound / 2**128) for each column of two 64-bit words, u = first * 2**64 + second.

    Each value's probability is off by less than 2**-128; the bound must be below 2**63. All draws take equal work.

    >>> scale_words_below(10, np.array([[1 << 63], [0]], np.uint64)).tolist()
    [5]
    """
    if not 0 < bound < 1 << 63:
        raise ValueError("a bound must lie between 1 and 2**63")
    out = np.empty(words.shape[1], np.uint64)
    _scale_words(np.ascontiguousarray(words, np.uint64), np.uint64(bound), out)
    return out.astype(np.int64)


@kernel(cache=True, nogil=True)
def _multiply_words(a: Any, b: Any) -> Any:
    """Return the high and the low word of a * b, by long multiplication in halves of 32 bits."""
    a0, a1, b0, b1 = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    low, cross, other, high = a0 * b0, a1 * b0, a0 * b1, a1 * b1
    middle = (low >> _HALF) + (cross & _LOW) + (other & _LOW)
    return high + (cross >> _HALF) + (other >> _HALF) + (middle >> _HALF), (middle << _HALF) | (low & _LOW)


@kernel(cache=True, nogil=True)
def _scale_words(words: Any, bound: Any, out: Any) -> None:
    for i in range(words.shape[1]):
        carried, _ = _multiply_words(words[1, i], bound)
        high, low = _multiply_words(words[0, i], bound)
        out[i] = high + np.uint64(low + carried < low)
