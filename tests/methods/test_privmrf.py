"""PrivMRF: what theta and refinement decide, on questions with a known answer."""

import numpy as np

from weft.marginals.domain import Domain
from weft.marginals.marginal import Marginal, NoisyMarginal
from weft.methods.privmrf import PrivMrf
from weft.models.mrf import junction_tree

DOMAIN = Domain(("a", "b", "c"), (4, 4, 4))


class Public:
    """A curator of a table that everybody knows."""

    domain = DOMAIN
    left = 0.5

    def __init__(self, gaps=()):
        self._gaps, self.measured = np.array(gaps), []

    def sigma(self, share):
        return 10.0

    def gaps(self, guesses, share):
        return self._gaps

    def measure(self, cliques, share, weights=None):
        self.measured += cliques
        return [NoisyMarginal(c, np.zeros(DOMAIN.sizes(c)), 1.0) for c in cliques]


class Guess:
    """A model that expects nothing."""

    def many_marginals(self, cliques):
        return [Marginal(c, np.zeros(DOMAIN.sizes(c))).table for c in cliques]


def test_a_marginal_is_useful_if_its_cells_hold_theta_times_the_noise():
    tree = junction_tree(DOMAIN, [("a", "b", "c")])
    noise = 10.0 * np.sqrt(2 / np.pi)
    for theta, widest in ((1.0, 3), (3.9, 2), (15.0, 1)):
        # 64 cells of 64 / theta' times the noise: the average cell of a k-way table holds total / 4^k.
        found = PrivMrf(theta=theta)._useful(Public(), tree, total=64 * noise, each=0.1)
        assert max(map(len, found), default=0) == widest


def test_refinement_measures_what_the_model_gets_most_wrong():
    cliques = [("a", "b"), ("a", "c"), ("b", "c")]
    curator = Public(gaps=[500.0, 9000.0, 700.0])
    waiting = list(cliques)
    PrivMrf()._round(curator, Guess(), waiting, 1, 0.1, 1, np.random.default_rng(0))
    assert curator.measured == [("a", "c")]
    assert waiting == [("a", "b"), ("b", "c")]
