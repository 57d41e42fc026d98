"""The noise against its exact law, and the law against an independent computation."""

import functools
import math
import multiprocessing
import re
from pathlib import Path

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri

from weft.errors import BudgetError
from weft.privacy import LAW_ERROR, Noise
from weft.privacy import noise as noise_module
from weft.privacy import noise_tails as exact
from weft.privacy.mechanisms.gaussian import GaussianLaw, gaussian_tail
from weft.privacy.mechanisms.geometric import GeometricLaw, geometric_tail

SCALES = (0.1, 0.4, 1.0, 3.3, 10.0, 100.0, 1e3, 1e5, 1e6, 1e7)


def gaussian_sf(k, sigma):
    return stats.norm.sf((k - 0.5) / sigma)


def geometric_sf(k, scale):
    return np.exp(-k / scale) / (1 + math.exp(-1 / scale))


LAWS = {"gaussian": (GaussianLaw, gaussian_sf), "geometric": (GeometricLaw, geometric_sf)}


def chi_square(magnitudes, tail, top):
    """p-value of |draws| against P(|K| >= k) = tail(k), on about 60 cells of which none is expected below 8."""
    cells = np.unique(np.quantile(magnitudes, np.linspace(0, 1, 60)).astype(np.int64))
    edges = np.unique(np.concatenate([[0, 1], cells[cells > 0]]))
    share = np.concatenate([tail(edges[edges > 0].astype(float)), [0.0]])
    share = np.concatenate([[top], share])
    expected = -np.diff(share) / top * len(magnitudes)
    seen = np.histogram(magnitudes, np.concatenate([edges, [np.iinfo(np.int64).max]]))[0]
    while len(expected) > 1 and expected.min() < 8:
        i = int(expected.argmin())
        j = i - 1 if i else 1
        expected[j] += expected[i]
        seen[j] += seen[i]
        expected, seen = np.delete(expected, i), np.delete(seen, i)
    assert len(expected) > 1, "the test has no power"
    return stats.chisquare(seen, expected * seen.sum() / expected.sum()).pvalue


class Scripted(Noise):
    """Noise from words given in advance; further bits come from a seeded stream."""

    def __init__(self, high, low):
        super().__init__()
        self.extra = 0
        words = [np.concatenate([high, low]).astype("<u8").tobytes()]
        rest = np.random.default_rng(5)

        def source(count):
            if words:
                return words.pop()
            self.extra += 1
            return rest.bytes(count)

        self._bytes = source


def test_the_error_bound_is_within_what_was_promised():
    assert LAW_ERROR <= 2.0**-100
    thresholds = 223 * noise_module.MAX_NOISE_SCALE
    assert 3 * thresholds * 2.0 ** (1 - exact.BITS) < LAW_ERROR


@pytest.mark.parametrize("law", ["gaussian", "geometric"])
@pytest.mark.parametrize("scale", SCALES[1:])
def test_draws_follow_the_exact_law(law, scale):
    draws = Noise.seeded(11).draw(LAWS[law][0](scale), 300_000)
    tail = LAWS[law][1]
    assert chi_square(np.abs(draws), lambda k: 2 * tail(k, scale), 1.0) > 1e-3
    signs = np.sign(draws[draws != 0])
    assert abs(signs.sum()) < 4 * math.sqrt(len(signs))


@pytest.mark.parametrize("law", ["gaussian", "geometric"])
@pytest.mark.parametrize("scale", SCALES)
def test_the_far_tail_follows_the_law_too(law, scale):
    # With 20 leading zeros p lies below 2^-21: a draw is conditioned on a tail of 1 in 10^6. (At 0.4 that tail is
    # the value 2 alone; a thinner one has two values again.)
    rng = np.random.default_rng(3)
    n, zeros = 8_000, 28 if scale == 0.4 else 20
    high = rng.integers(0, 1 << (63 - zeros), n, dtype=np.uint64)
    noise = Scripted(high, rng.integers(0, 1 << 64, n, dtype=np.uint64))
    draws = noise.draw(LAWS[law][0](scale), n)
    tail = LAWS[law][1]
    top = 2.0 ** -(zeros + 1)
    assert chi_square(np.abs(draws), lambda k: np.minimum(tail(k, scale), top), top) > 1e-3


def test_the_operating_systems_entropy_gives_the_same_law():
    draws = Noise().draw(GaussianLaw(7.0), 200_000)
    assert chi_square(np.abs(draws), lambda k: 2 * gaussian_sf(k, 7.0), 1.0) > 1e-9  # not seeded: rarely wrong


@pytest.mark.parametrize("sigma", [0.05, 0.7, 12.25, 1e3 / 3, 1e9])
def test_exact_gaussian_tail_agrees_with_mpmath(sigma):
    with mpmath.workdps(140):
        for z in (0.0, 0.3, 1.7, 4.0, 9.0, 17.0, 20.9, 23.0):
            k = max(1, round(z * sigma))
            t = (mpmath.mpf(2 * k - 1) / 2) / mpmath.mpf(sigma)
            want = mpmath.erfc(t / mpmath.sqrt(2)) / 2 * mpmath.mpf(2) ** exact.BITS
            assert abs(gaussian_tail(k, sigma) - want) <= 1


@pytest.mark.parametrize("scale", [0.05, 1.0, 12.3, 1e9])
def test_exact_geometric_tail_agrees_with_mpmath(scale):
    with mpmath.workdps(140):
        a = mpmath.exp(-1 / mpmath.mpf(scale))
        for x in (1.0, 3.7, 60.0, 200.0, 230.0):
            k = max(1, round(x * scale))
            want = a**k / (1 + a) * mpmath.mpf(2) ** exact.BITS
            assert abs(geometric_tail(k, scale) - want) <= 1


def test_pi():
    with mpmath.workdps(125):
        assert abs(mpmath.mpf(str(exact.PI)) - mpmath.pi) < mpmath.mpf(10) ** -118


def test_ndtri_is_a_hundred_times_more_accurate_than_the_margin_needs():
    rng = np.random.default_rng(0)
    p = np.concatenate([np.exp2(-rng.uniform(1, 64, 1500)), 0.5 - np.exp2(-rng.uniform(2, 52, 500))])
    worst = 0.0
    with mpmath.workdps(60):
        for tail, value in zip(p.tolist(), (-ndtri(p)).tolist(), strict=True):
            z = mpmath.mpf(value)
            slip = (mpmath.erfc(z / mpmath.sqrt(2)) / 2 - mpmath.mpf(tail)) / mpmath.npdf(z)
            worst = max(worst, float(abs(slip)) / (1 + abs(value)))
    assert worst < 2.0**-42 / 100


@pytest.mark.parametrize("law", [GaussianLaw(1.0), GaussianLaw(1e9), GeometricLaw(0.3), GeometricLaw(1e9)], ids=repr)
def test_the_margin_is_a_hundred_times_the_whole_error(law):
    """From the random words to x, every rounding included."""
    rng = np.random.default_rng(1)
    n = 500
    leading = rng.integers(0, 62, n).astype(np.uint64)
    high = np.maximum(rng.integers(1 << 62, 1 << 63, n, dtype=np.uint64) >> leading, 1)
    low = rng.integers(0, 1 << 64, n, dtype=np.uint64)
    x, margin = law.invert(high * 2.0**-64 + low * 2.0**-128)
    with mpmath.workdps(60):
        scale = mpmath.mpf(law.scale)
        for h, w, value, allowed in zip(high.tolist(), low.tolist(), x.tolist(), margin.tolist(), strict=True):
            p = mpmath.mpf(h << 64 | w) / 2**128
            if isinstance(law, GaussianLaw):
                z = (mpmath.mpf(value) - mpmath.mpf(0.5)) / scale
                error = (mpmath.erfc(z / mpmath.sqrt(2)) / 2 - p) / mpmath.npdf(z) * scale
            else:
                error = mpmath.mpf(value) + scale * (mpmath.log(p) + mpmath.log(1 + mpmath.exp(-1 / scale)))
            assert 100 * abs(error) < allowed


def near_thresholds(law, n, rng):
    """Words of tail numbers p that lie within 2^-30 to 2^-110 (relative) of a threshold, on either side."""
    prefixes = []
    farthest = 5.0 if isinstance(law, GaussianLaw) else 20.0
    for k in rng.integers(1, max(2, int(farthest * law.scale)), n):
        threshold = law.tail(int(k)) >> (exact.BITS - 128)
        slip = threshold >> int(rng.integers(30, 110))
        prefixes.append(max(1, min((1 << 127) - 1, threshold + int(rng.choice([-1, 0, 1])) * slip)))
    high = np.array([p >> 64 for p in prefixes], np.uint64)
    return prefixes, high, np.array([p & (1 << 64) - 1 for p in prefixes], np.uint64)


NEAR = [GaussianLaw(s) for s in (0.8, 37.5, 1e3, 1e7)] + [GeometricLaw(s) for s in (2.5, 1e6)]


@pytest.mark.parametrize("law", NEAR, ids=repr)
def test_float_and_exact_arithmetic_agree_next_to_every_threshold(law, monkeypatch):
    n = 1_000 if law.scale > 1e4 else 2_000
    prefixes, high, low = near_thresholds(law, n, np.random.default_rng(8))
    source = Scripted(high, low)
    draws = source.draw(law, n)
    assert source.extra > n / 3  # a good part was too close for floating point
    wrong = 0
    monkeypatch.setattr(noise_module, "_MARGIN", 0.0)
    bold = Scripted(high, low).draw(law, n)
    tail = functools.cache(law.tail)
    for value, guess, prefix in zip(draws.tolist(), bold.tolist(), prefixes, strict=True):
        least = prefix << (exact.BITS - 128)
        most = least | ((1 << (exact.BITS - 128)) - 1)
        # Right for some continuation of the 128 bits if decided exactly, for all of them if not: both have this.
        assert (value == 0 or least < tail(value)) and most >= tail(value + 1)
        wrong += guess != value and not ((guess == 0 or least < tail(guess)) and most >= tail(guess + 1))
    # Without the margin, floating point alone does err here: the test can fail.
    assert wrong > 0 or law.scale < 30


def test_a_tail_number_below_2_to_the_minus_64_is_searched_for_exactly():
    for law in (GaussianLaw(1e4), GeometricLaw(30.0)):
        low = 12345 << 40
        source = Scripted(np.array([0, 1 << 63], np.uint64), np.array([low, low], np.uint64))
        up, down = source.draw(law, 2).tolist()
        prefix = low << (exact.BITS - 128)
        assert law.tail(up + 1) <= prefix + (1 << (exact.BITS - 128)) and prefix < law.tail(up)
        assert down < 0 and abs(down + up) <= 1
    # Even all zeros end somewhere.
    assert GeometricLaw(1.0).magnitude(0, 0, 226) == 221


def test_rounding_is_post_processing_so_supports_coincide():
    """F8: what can be added to 0 and to 1 is the same set of integers, and only integers come out."""
    zero = set((0 + Noise.seeded(1).draw(GaussianLaw(2.0), 1_000_000)).tolist())
    one = set((1 + Noise.seeded(2).draw(GaussianLaw(2.0), 1_000_000)).tolist())
    assert all(isinstance(value, int) for value in zero)
    middle = set(range(-7, 9))
    assert middle <= zero and middle <= one


def test_seeded_noise_repeats_and_says_so():
    assert not Noise.seeded(4).private and Noise().private
    a, b = Noise.seeded(4), Noise.seeded(4)
    assert (a.draw(GaussianLaw(1e7), 50_000) == b.draw(GaussianLaw(1e7), 50_000)).all()
    assert (a.draw(GeometricLaw(3.0), (3, 5)) == b.draw(GeometricLaw(3.0), (3, 5))).all()
    assert (Noise.seeded(5).draw(GaussianLaw(1e7), 9) != Noise.seeded(6).draw(GaussianLaw(1e7), 9)).all()


def test_a_users_seed_has_no_say():
    """F10."""
    draws = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        draws.append(Noise().draw(GaussianLaw(1e6), 20).tolist())
    assert draws[0] != draws[1]


def _child(_):
    return Noise().draw(GaussianLaw(1e7), 8).tolist()


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
def test_forked_workers_draw_differently():
    """F10."""
    with multiprocessing.get_context("fork").Pool(2) as pool:
        drawn = pool.map(_child, range(4), chunksize=1)
    assert len({tuple(values) for values in drawn}) == 4


def test_calls_and_neighbouring_draws_are_uncorrelated():
    noise = Noise.seeded(9)
    n = 100_000
    a, b = noise.draw(GaussianLaw(5.0), n), noise.draw(GaussianLaw(5.0), n)
    bound = 4 / math.sqrt(n)
    assert abs(np.corrcoef(a, b)[0, 1]) < bound
    assert abs(np.corrcoef(a[1:], a[:-1])[0, 1]) < bound
    assert abs(np.corrcoef(np.abs(a[1:]), np.abs(a[:-1]))[0, 1]) < bound


def test_noise_scale_is_recovered_from_draws():
    """F4: the standard deviation is sigma (rounding adds 1/12 to the variance), within 1%."""
    for sigma in (1.0, 25.0, 1e5):
        assert abs(Noise.seeded(2).draw(GaussianLaw(sigma), 100_000).std() / math.sqrt(sigma**2 + 1 / 12) - 1) < 0.01
    a = math.exp(-1 / 8.0)
    assert abs(Noise.seeded(2).draw(GeometricLaw(8.0), 100_000).std() / (math.sqrt(2 * a) / (1 - a)) - 1) < 0.015


def test_opendp_draws_from_the_same_law():
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    n = 20_000
    theirs = np.array(dp.m.make_gaussian(*space, scale=6.0)(np.zeros(n, np.int64)))
    ours = Noise().draw(GaussianLaw(6.0), n)
    edges = [-(10**9), *range(-12, 14, 2), 10**9]
    table = np.array([np.histogram(x, edges)[0] for x in (ours, theirs)])
    assert stats.chi2_contingency(table).pvalue > 1e-7  # fresh entropy on both sides: rarely wrong


def test_sizes_and_bits():
    noise = Noise.seeded(0)
    assert noise.draw(GaussianLaw(1.0), ()).shape == () and noise.draw(GaussianLaw(1.0), 0).shape == (0,)
    assert noise.draw(GeometricLaw(1.0), (2, 3, 4)).shape == (2, 3, 4)
    bits = [noise.bits(3) for _ in range(4_000)]
    assert set(bits) == set(range(8)) and stats.chisquare(np.bincount(bits)).pvalue > 1e-3
    assert noise.bits(320) >> 300


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 2e9])
def test_scales_out_of_reach_are_refused(scale):
    for law in (GaussianLaw, GeometricLaw):
        with pytest.raises(BudgetError, match="cannot be drawn"):
            Noise().draw(law(scale), 3)


def test_no_float_noise_in_the_source():
    """F8: nothing that touches exact answers draws from a floating-point generator."""
    package = Path(noise_module.__file__).parents[1]
    files = [file for room in ("privacy", "curator", "engines") for file in package.glob(f"{room}/**/*.py")]
    assert len(files) > 5
    for file in files:
        assert not re.search(r"\.(standard_)?(normal|laplace|gumbel|exponential)\(\s*[^)\"']*size", file.read_text())
        assert not re.search(r"rng\.(normal|laplace|gumbel)", file.read_text()), file.name


@pytest.mark.slow
@pytest.mark.parametrize("scale", SCALES)
def test_ten_million_draws_follow_the_law(scale):
    draws = Noise().draw(GaussianLaw(scale), 20_000_000 if scale < 0.2 else 5_000_000)
    assert chi_square(np.abs(draws), lambda k: 2 * gaussian_sf(k, scale), 1.0) > 1e-9
