"""A question for gradients: how the weights of a small network should change so that the rows score higher."""

from __future__ import annotations

from weft.curator.query_base import QueryBase
from weft.display import format_count
from weft.marginals.network_gradients import STEPS, Critic, Gradient


class GradientQuestions(QueryBase):
    """The curator's question for gradients."""

    def critic_gradient(self, critic: Critic, share: float) -> Gradient:
        """Release the sum of all rows' gradients of a critic's score, each brought to length 1, with Gaussian noise.

        Theorem. The critic's weights were made from released answers and chance alone. What a row adds is a function of
        the row and of them, in whole numbers, whatever the other rows are (`Critic.summed`): with its gradient g in
        steps and L >= |g| a whole number, part i of what it adds is at most |g_i| STEPS / L in size, so that its L2
        norm is at most |g| STEPS / L <= STEPS. A row more or less moves the sum by at most STEPS,
        a replaced one by at most 2 STEPS, k of them by k times that. Gaussian noise t is therefore (that / t)-GDP.
        There is no subsampling: every question looks at all rows, and no amplification is claimed.
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
