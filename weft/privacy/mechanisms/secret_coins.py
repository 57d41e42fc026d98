"""A secret coin for each privacy unit, which puts it into a part of the rows, or in none; nothing leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.marginals.marginal import Array
from weft.privacy.mechanisms.mechanism import Unpriced
from weft.privacy.noise import Noise

if TYPE_CHECKING:
    from weft.privacy.charge import Charge


class SecretCoins(Unpriced):
    """Uniform 64-bit words, one for each unit."""

    name = "coins"
    divides_rows = True
    audited_by = "nothing leaves"

    def release(self, charge: Charge, exact: Sequence[Array], noise: Noise) -> list[Array]:
        """Draw a word for each name; the names are there for an audit, and no coin depends on them."""
        (names,) = exact
        return [noise.words(len(names))]

    def describe(self, charge: Charge) -> str:
        """Say that they are secret."""
        return "secret"
