"""Where an exact answer meets noise: the last step before it may leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from weft.marginals.marginal import Array
from weft.privacy.noise import Noise

if TYPE_CHECKING:
    from weft.privacy.charge import Charge


class Release(Protocol):
    """Turns exact integer answers into what may be seen. The audit puts a recording one in its place."""

    private: bool
    """False when the noise is predictable, as with a seed; everything released is then stamped."""

    def __call__(self, charge: Charge, exact: Sequence[Array]) -> list[Array]:
        """Return one released array for each exact one, by the mechanism that the charge names."""
        ...


class Mechanisms:
    """Integer noise as the charge says, from the operating system's entropy unless seeded for a test."""

    def __init__(self, noise: Noise | None = None) -> None:
        self.noise = self._noise = noise or Noise()
        self.private = self._noise.private

    def __call__(self, charge: Charge, exact: Sequence[Array]) -> list[Array]:
        """Release the answers to a question that has been paid for.

        Answers must be integers: rounded noise on an integer is post-processing of the ideal real-valued
        mechanism, which is what the accounting is exact for.
        """
        if any(answer.dtype.kind not in "iu" for answer in exact):
            raise TypeError("only integer answers may be released")
        return charge.definition.release(charge, exact, self._noise)
