"""Secret coins: each privacy unit is assigned at random to one part of the rows or none; nothing is released.

The scale is 1, or a smaller probability that a unit is in a part that is queried: amplification by sampling is spent
then (`Ledger._capacity`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.errors import BudgetError
from weft.marginals.marginal import Array
from weft.privacy.mechanisms.mechanism import Unpriced
from weft.privacy.noise import Noise

if TYPE_CHECKING:
    from weft.privacy.charge import Charge


class SecretCoins(Unpriced):
    """Uniform 64-bit words, one per unit."""

    name = "coins"
    divides_rows = True
    audited_by = "nothing leaves"

    def release(self, charge: Charge, exact: Sequence[Array], noise: Noise) -> list[Array]:
        """Draw a word per name; the coins do not depend on the names, which are passed for the audit only."""
        (names,) = exact
        return [noise.words(len(names))]

    def check(self, charge: Charge) -> None:
        """Require that the scale, the probability of a queried part if amplification is spent, is one."""
        if not max(charge.scales) <= 1:
            raise BudgetError("the probability that a unit is in a queried part must be at most 1")

    def describe(self, charge: Charge) -> str:
        """Return "secret" instead of a noise scale."""
        return "secret"
