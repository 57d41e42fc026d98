"""Records that are grown from private rows: with differential privacy, or deniable and no more.

The theorems are in `weft.privacy.deniability`.
"""

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
    """Prefixes of private rows, drawn by the weights that a privacy test gives them."""

    audited_by = "records, not counts"

    @abstractmethod
    def find_test(self, terms: Mapping[str, float]) -> Acceptance | PlausibleTest:
        """Return the privacy test that a charge names, and was priced by."""

    @abstractmethod
    def count_without_seeds(self, charge: Charge) -> int:
        """Return how many records of zeros leave where no row passes the test."""

    def release(self, charge: Charge, exact: Sequence[Array], noise: Noise) -> list[Array]:
        """Draw prefixes independently with probability proportional to their weights, exactly.

        This is the law of accepted records itself, so nothing is rejected and every draw takes the same work.
        """
        prefixes, counts = exact
        ends = np.cumsum(self.find_test(charge.terms).weights(counts), dtype=np.int64)
        assert (np.diff(ends, prepend=0) >= 0).all()  # no weight is negative, and no sum wrapped around
        if not len(ends) or ends[-1] <= 0:
            return [np.zeros((self.count_without_seeds(charge), prefixes.shape[1]), prefixes.dtype)]
        words = noise.words(2 * charge.draws).reshape(2, -1)
        return [np.asarray(prefixes[np.searchsorted(ends, scale_words_below(int(ends[-1]), words), side="right")])]


class SeededRecords(GaussianPriced, GrownRecords):
    """Records grown from seeds that passed a test by which the whole release is private."""

    name = "seeded"
    norm = "rows"
    grows_private_records = True

    def find_test(self, terms: Mapping[str, float]) -> Acceptance:
        """Return the test of acceptance."""
        return Acceptance.of(terms)

    def count_without_seeds(self, charge: Charge) -> int:
        """Return as many as were charged: slack pays for it."""
        return charge.draws


class DeniableRecords(Unpriced, GrownRecords):
    """Records grown from seeds, each plausible to deny; no differential privacy is claimed for them."""

    name = "deniable"
    is_private = False

    def check(self, charge: Charge) -> None:
        """Refuse a test that cannot be."""
        PlausibleTest.of(charge.terms)

    def find_test(self, terms: Mapping[str, float]) -> PlausibleTest:
        """Return the test of plausible seeds."""
        return PlausibleTest.of(terms)

    def count_without_seeds(self, charge: Charge) -> int:
        """Return none."""
        return 0

    def release(self, charge: Charge, exact: Sequence[Array], noise: Noise) -> list[Array]:
        """Draw prefixes; or, for a test by classes of likelihood, let candidates pass one by one."""
        if BUCKETS not in charge.terms:
            return super().release(charge, exact, noise)
        candidates, plausible = exact
        chances = PlausibleTest.of(charge.terms).chances(plausible)
        return [candidates[scale_words_below(UNIT, noise.words(2 * len(chances)).reshape(2, -1)) < chances]]

    def describe(self, charge: Charge) -> str:
        """Say that it is none."""
        return "not private"
