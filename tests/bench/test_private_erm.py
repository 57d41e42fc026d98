"""DP-ERM: the certificate of a minimum, the distance of neighbours' minima, and the law of the noise."""

import math

import numpy as np
import pytest
from scipy import optimize, sparse
from weft_lab.private_erm import CURVATURE, HUBER, TOLERANCE, differentiate, draw_radial, minimise, perturb, table_4

from weft.errors import DataError
from weft.marginals.domain import Domain
from weft.marginals.records import Records


def signed_rows(n, d, rng):
    rows = rng.normal(size=(n, d))
    return sparse.csr_matrix(rows / np.linalg.norm(rows, axis=1, keepdims=True) * rng.random((n, 1)))


@pytest.mark.parametrize("loss", list(CURVATURE))
def test_losses_are_smooth_and_their_slopes_bounded_as_the_proofs_need(loss):
    margin = np.linspace(-6, 6, 20_001)
    value, slope, curvature = differentiate(loss, margin)
    step = margin[1] - margin[0]
    assert np.allclose(np.gradient(value, step)[1:-1], slope[1:-1], atol=1e-3)
    assert slope.min() >= -1 and slope.max() <= 0
    assert curvature.min() >= 0 and curvature.max() <= CURVATURE[loss] + 1e-12
    if loss == "svm":
        assert (value >= np.maximum(0, 1 - margin) - 1e-12).all() and HUBER > 0


@pytest.mark.parametrize("loss", list(CURVATURE))
@pytest.mark.parametrize("weight", [1e-3, 1e-6])
def test_the_certificate_holds_against_the_exact_minimum(loss, weight):
    """With one feature, the minimum is the root of a monotone function, found by bisection to full precision."""
    rows = np.random.default_rng(3).uniform(-1, 1, (500, 1))
    found = minimise(sparse.csr_matrix(rows), loss, weight)

    def slope(f):
        return math.fsum((differentiate(loss, rows[:, 0] * f)[1] * rows[:, 0]).tolist()) / 500 + weight * f

    exact = optimize.brentq(slope, -1e6, 1e6, xtol=1e-13, rtol=1e-14)
    assert abs(found.point[0] - exact) <= found.distance <= TOLERANCE / weight


@pytest.mark.parametrize("loss", list(CURVATURE))
def test_minima_of_neighbours_are_as_near_as_the_noise_assumes(loss):
    rng = np.random.default_rng(0)
    for _ in range(20):
        n, weight = int(rng.integers(5, 60)), float(10 ** rng.uniform(-3, 0))
        rows = signed_rows(n, 4, rng)
        other = rows.tolil()
        other[0] = -rows[0] if rng.random() < 0.5 else signed_rows(1, 4, rng)
        one, two = (minimise(each, loss, weight).point for each in (rows, other.tocsr()))
        assert np.linalg.norm(one - two) <= 2 / (n * weight) + 2 * TOLERANCE / weight


def test_noise_has_the_density_of_the_proof():
    """A length of gamma distribution with shape d, and a uniform direction."""
    rng = np.random.default_rng(1)
    drawn = np.array([draw_radial(5, 2.0, rng) for _ in range(20_000)])
    lengths = np.linalg.norm(drawn, axis=1)
    assert lengths.mean() == pytest.approx(5 / 2, rel=0.02) and lengths.var() == pytest.approx(5 / 4, rel=0.05)
    assert np.abs(drawn.mean(axis=0)).max() < 0.05


def test_noise_of_output_perturbation_covers_the_certificate():
    rows = signed_rows(200, 3, np.random.default_rng(2))
    exact, weight, epsilon = minimise(rows, "logistic", 1e-2).point, 1e-2, 0.5
    moved = [perturb(rows, "logistic", weight, epsilon, "output", np.random.default_rng(i)) - exact for i in range(800)]
    apart = 2 / (200 * weight) + 2 * TOLERANCE / weight
    assert np.linalg.norm(moved, axis=1).mean() == pytest.approx(3 * apart / epsilon, rel=0.1)


def test_what_the_certificate_does_not_cover_is_refused():
    with pytest.raises(DataError, match="norm 1"):
        minimise(sparse.csr_matrix(np.full((3, 2), 2.0)), "logistic", 0.1)
    with pytest.raises(DataError, match="certified tolerance"):
        minimise(signed_rows(50, 3, np.random.default_rng(0)), "svm", 1e-30)


def test_without_noise_the_lines_learn_and_with_much_of_it_they_do_not():
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 2, (3000, 4))
    label = (codes.sum(axis=1) + rng.random(3000) > 2.5).astype(int)
    columns = [*codes.T, label]
    records = Records.of(Domain(tuple("abcde"), (2,) * 5), columns)
    loud, quiet = (table_4(records, epsilon, 0.0, 0) for epsilon in (1e-3, 1e3))
    for line in ("Output perturbation", "Objective perturbation"):
        exact = quiet["trained on real rows"]["logistic_accuracy"]
        assert abs(quiet[line]["logistic_accuracy"] - exact) < 0.05
        assert loud[line]["logistic_accuracy"] < exact - 0.1
