"""Records from private rows, differentially private or only deniable (proofs: `weft.privacy.deniability`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from weft.marginals.marginal import Array
from weft.privacy.deniability import BUCKETS, UNIT, Acceptance, PlausibleTest
from weft.privacy.mechanisms.mechanism import GaussianPriced, Mechanism, Unpriced
from weft.privacy.noise import Noise, scale_words_below

if TYPE_CHECKING:
    from weft.privacy.charge import Charge


class GrownRecords(Mechanism):
    """Prefixes of private rows, drawn with the weights of a privacy test."""

    audited_by = "records, not counts"
    test: ClassVar[type[Acceptance] | type[PlausibleTest]]
    """The privacy test in the terms of a charge, by which it was priced."""

    def release(self, charge: Charge, exact: Sequence[Array], noise: Noise) -> list[Array]:
        """Draw prefixes exactly in proportion to their weights, without rejection: every draw takes the same work."""
        prefixes, counts = exact
        ends = np.cumsum(self.test.of(charge.terms).weights(counts), dtype=np.int64)
        assert (np.diff(ends, prepend=0) >= 0).all()  # no negative weight, no integer overflow
        if not len(ends) or ends[-1] <= 0:
            rows = charge.draws if self.is_private else 0  # all-zero records, for a case that slack covers
            return [np.zeros((rows, prefixes.shape[1]), prefixes.dtype)]
        words = noise.words(2 * charge.draws).reshape(2, -1)
        return [np.asarray(prefixes[np.searchsorted(ends, scale_words_below(int(ends[-1]), words), side="right")])]


class SeededRecords(GaussianPriced, GrownRecords):
    """Records from seeds that passed a test under which the whole release is differentially private."""

    name = "seeded"
    norm = "rows"
    test = Acceptance
    grows_private_records = True


class DeniableRecords(Unpriced, GrownRecords):
    """Plausibly deniable records from seeds, for which no differential privacy is claimed."""

    name = "deniable"
    is_private = False
    test = PlausibleTest

    def check(self, charge: Charge) -> None:
        """Validate the parameters of the test."""
        PlausibleTest.of(charge.terms)

    def release(self, charge: Charge, exact: Sequence[Array], noise: Noise) -> list[Array]:
        """Draw prefixes; for the test by likelihood class, accept or reject each candidate."""
        if BUCKETS not in charge.terms:
            return super().release(charge, exact, noise)
        candidates, plausible = exact
        chances = PlausibleTest.of(charge.terms).chances(plausible)
        return [candidates[scale_words_below(UNIT, noise.words(2 * len(chances)).reshape(2, -1)) < chances]]

    def describe(self, charge: Charge) -> str:
        """Return "not private" instead of a noise scale."""
        return "not private"
