"""Gradient queries: the gradient of a small network's score, summed over the rows."""

from __future__ import annotations

from weft.curator.query_base import QueryBase
from weft.display import format_count
from weft_lab.network_gradients import STEPS, Critic, Gradient


class GradientQueries(QueryBase):
    """Gradient queries, over the rows of a curator (`QueryBase.of`)."""

    def critic_gradient(self, critic: Critic, share: float) -> Gradient:
        """Return the sum over all rows of a critic's score gradients, each normalised to length 1, with Gaussian noise.

        Privacy: L2 sensitivity STEPS * `marginal_l1`. The critic's weights depend on released answers and independent
        randomness only. A row's contribution is an integer function of the row and the weights, independent of the
        other rows (`Critic.summed`): with its gradient g in steps and an integer L >= |g|, component i is at most |g_i|
        STEPS / L in size, so its L2 norm is at most |g| STEPS / L <= STEPS. One row more or less changes the sum by at
        most STEPS, a replaced row by at most 2 STEPS, k of them by k times that. Gaussian noise t is therefore (that /
        t)-GDP. There is no subsampling: every query uses all rows, and no amplification is claimed.
        """
        self._require_gaussian("gradients are released")
        critic.check(self.domain)
        sensitivity = float(STEPS * self._adjacency.marginal_l1())
        scale, _ = self._noise(share, sensitivity)
        weights = sum(table.size for table in critic.inner) + 2 * len(critic.bias)
        question = f"gradient of the critic network, {format_count(weights, 'weight')}"
        charge = self._charge("scores", question, sensitivity, [scale], draws=weights)
        exact = critic.summed(*self._engine.groups(self.domain.names))
        (released,) = self._release(charge, [exact.end_to_end()])
        return exact.shaped(released)
