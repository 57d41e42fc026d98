"""Private selection by integer scores: the exponential mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from weft.marginals.marginal import Array
from weft.privacy.conversions import range_mu
from weft.privacy.mechanisms.mechanism import Mechanism
from weft.privacy.noise import Noise
from weft.privacy.selection import exponential_draws, exponential_mechanism

if TYPE_CHECKING:
    from weft.privacy.charge import Charge

_MANY = 1 << 13  # candidates above which they are grouped by score, which takes no loop over them


class Exponential(Mechanism):
    """The exponential mechanism: each draw costs 2 * sensitivity / scale in epsilon."""

    name = "exponential"
    norm = "linf"
    has_gaussian_price = True
    has_scale_limit = False
    audited_by = "choices: their chances are tested in tests/privacy and by the empirical audit"

    def epsilons(self, charge: Charge) -> list[float]:
        """Return the epsilon of each draw."""
        each = [2.0 * moved / scale for moved, scale in zip(charge.sensitivities, charge.scales, strict=True)]
        return each * charge.draws

    def rho(self, charge: Charge) -> float:
        """Return the sum of epsilon^2 / 8 over the draws, by bounded range (Cesar and Rogers 2021)."""
        return math.fsum(epsilon**2 / 8 for epsilon in self.epsilons(charge))

    def gdp(self, charge: Charge) -> float:
        """Return the sum of mu^2 / 2 over the draws, with mu = `range_mu(epsilon)`, by bounded range."""
        return math.fsum(range_mu(epsilon) ** 2 / 2 for epsilon in self.epsilons(charge))

    def release(self, charge: Charge, exact: Sequence[Array], noise: Noise) -> list[Array]:
        """Draw positions of candidates."""
        (scores,) = exact
        (sensitivity,) = charge.sensitivities
        if sensitivity != int(sensitivity):
            raise TypeError("a selection by integer scores needs an integer sensitivity")
        each = charge.epsilon / charge.draws
        if charge.draws > 1 or scores.size > _MANY:
            drawn = exponential_draws(scores, int(sensitivity), each, charge.draws, noise)
            return [drawn if charge.draws > 1 else drawn.reshape(())]
        return [np.array(exponential_mechanism(scores, int(sensitivity), each, noise))]
