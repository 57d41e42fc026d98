"""Records from private rows, differentially private or only deniable (proofs: `weft.privacy.deniability`)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

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

    @abstractmethod
    def find_test(self, terms: Mapping[str, float]) -> Acceptance | PlausibleTest:
        """Return the privacy test in the terms of a charge, by which it was priced."""

    @abstractmethod
    def count_without_seeds(self, charge: Charge) -> int:
        """Return the number of all-zero records to release if no row passes the test."""

    def release(self, charge: Charge, exact: Sequence[Array], noise: Noise) -> list[Array]:
        """Draw prefixes exactly in proportion to their weights, without rejection: every draw takes the same work."""
        prefixes, counts = exact
        ends = np.cumsum(self.find_test(charge.terms).weights(counts), dtype=np.int64)
        assert (np.diff(ends, prepend=0) >= 0).all()  # no negative weight, no integer overflow
        if not len(ends) or ends[-1] <= 0:
            return [np.zeros((self.count_without_seeds(charge), prefixes.shape[1]), prefixes.dtype)]
        words = noise.words(2 * charge.draws).reshape(2, -1)
        return [np.asarray(prefixes[np.searchsorted(ends, scale_words_below(int(ends[-1]), words), side="right")])]


class SeededRecords(GaussianPriced, GrownRecords):
    """Records from seeds that passed a test under which the whole release is differentially private."""

    name = "seeded"
    norm = "rows"
    grows_private_records = True

    def find_test(self, terms: Mapping[str, float]) -> Acceptance:
        """Return the acceptance test."""
        return Acceptance.of(terms)

    def count_without_seeds(self, charge: Charge) -> int:
        """Return the number of charged records: slack covers this case."""
        return charge.draws


class DeniableRecords(Unpriced, GrownRecords):
    """Plausibly deniable records from seeds, for which no differential privacy is claimed."""

    name = "deniable"
    is_private = False

    def check(self, charge: Charge) -> None:
        """Validate the parameters of the test."""
        PlausibleTest.of(charge.terms)

    def find_test(self, terms: Mapping[str, float]) -> PlausibleTest:
        """Return the plausibility test."""
        return PlausibleTest.of(terms)

    def count_without_seeds(self, charge: Charge) -> int:
        """Return 0."""
        return 0

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
