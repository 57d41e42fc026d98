"""The step that adds noise to exact answers: the last one before release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from weft.marginals.marginal import Array
from weft.privacy.noise import Noise

if TYPE_CHECKING:
    from weft.privacy.charge import Charge


class Release(Protocol):
    """Turns exact integer answers into released ones. The audit substitutes a recording implementation."""

    private: bool
    """False if the noise is predictable, as with a seed; every release is then stamped."""

    def __call__(self, charge: Charge, exact: Sequence[Array]) -> list[Array]:
        """Return one released array for each exact one, by the mechanism of the charge."""
        ...


class Mechanisms:
    """Integer noise as specified by the charge, from the operating system's entropy unless seeded for a test."""

    def __init__(self, noise: Noise | None = None) -> None:
        self.noise = self._noise = noise or Noise()
        self.private = self._noise.private

    def __call__(self, charge: Charge, exact: Sequence[Array]) -> list[Array]:
        """Release the answers to a charged query; they must be integers, for the accounting to be exact (`Noise`)."""
        if any(answer.dtype.kind not in "iu" for answer in exact):
            raise TypeError("only integer answers may be released")
        return charge.definition.release(charge, exact, self._noise)
