"""Questions about seeds: private rows whose first attributes may leave as the beginning of a synthetic record.

A part of the curator, and like it to be read as a list of theorems; see `weft.privacy.deniability` and
`weft.privacy.deniability` for the proofs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from weft.curator.query_base import QueryBase
from weft.display import format_count
from weft.errors import BudgetError, DataError
from weft.marginals.domain import Domain
from weft.marginals.marginal import Array
from weft.marginals.records import Records
from weft.privacy import Adjacency, Charge, Noise
from weft.privacy.budget import MAX_EPSILON
from weft.privacy.deniability import MAX_DENIABLE_ROWS, UNIT, Acceptance, PlausibleTest, lower_bound, plausible_seeds

_PAIRS = 1 << 23
"""Pairs of a record and a row that are looked at in one go."""


class Kernel(Protocol):
    """Makes a record of a row, and knows with what probability; made from released answers only."""

    @property
    def domain(self) -> Domain:
        """The attributes, in the order of the columns of rows and records."""
        ...

    def grow(self, seeds: Array, rng: np.random.Generator) -> Array:
        """Return a record for each seed, drawn independently."""
        ...

    def log_likelihood(self, records: Array, seeds: Array) -> Array:
        """Return the logarithm of each record's chance (lines) to come from each seed (columns)."""
        ...


class SeedQuestions(QueryBase):
    """The curator's questions about seeds."""

    def check_seeds(self) -> None:
        """Refuse seeds where the theorem of `seeded_release` does not hold: before anything is spent, if asked in time.

        The last refusal looks at the number of rows without noise, the one thing here that does: at `MAX_DENIABLE_ROWS`
        rows or more the integers of the test would overflow, and there is no release at all. docs/decisions/008 says
        so.
        """
        if self._adjacency != Adjacency() or not self.accounting.pays_for_seeds:
            raise BudgetError(
                "records can be grown from seeds only where neighbours add or remove one row, with a delta: choose "
                "add-remove neighbours without a unit column, and gaussian or zcdp accounting; or draw every column"
            )
        budget = self._ledger.budget
        if budget.epsilon is None or budget.epsilon > MAX_EPSILON:
            # Slack is paid from the delta of an (epsilon, delta) budget, by a factor of 1 + e^epsilon.
            raise BudgetError(
                f"records can be grown from seeds only with a budget in epsilon, of at most {MAX_EPSILON:g}, and a "
                "delta: state the budget so, or draw every column"
            )
        self._check_rows()

    def check_deniable(self) -> None:
        """Refuse deniable records where k rows may be one person's; and tables past `MAX_DENIABLE_ROWS`, as above."""
        if self._adjacency.rows_per_unit != 1:
            raise BudgetError(
                "plausible deniability counts rows that could be a record's seed, and several rows may be one "
                "person's: it needs one row for each privacy unit (rows_per_unit = 1), or draw every column"
            )
        self._check_rows()

    def seeded_release(
        self, kept: Sequence[str], test: Acceptance, records: int, *, look: float, share: float, slack: float
    ) -> Records | None:
        """Release the kept attributes of `records` rows that passed the privacy test; None if this cannot be afforded.

        First the noisy sum S of passing weights is asked with a share `look`; a lower bound of it says what the release
        costs. If that is more than `share`, nothing else is asked: the decision rests on a noisy answer. `slack` is the
        total-variation distance allowed, half of it for the lower bound to be wrong. Exactly `records` leave, drawn
        from the law of accepted records itself: there are no attempts to be counted.

        Theorem (`weft.privacy.deniability`). With S at least its lower bound on both tables, the release is mu-GDP up
        to slack/2, for one row added or removed. The bound is wrong with a probability of at most slack/2; the release
        is therefore within `slack` of a mechanism that is mu-GDP after every answer S.
        """
        self.check_seeds()
        prefixes, counts, passing = self._passing(kept, test, look, slack / 2)
        if passing <= 0:
            return None
        question = f"{format_count(records, 'record')} generated from seeds, {test}"
        charge = Charge.seeded(question, test=test, records=records, passing=passing, slack=slack)
        if not charge.rho <= share * self._capacity:
            return None
        (drawn,) = self._release(self._enter(charge), [prefixes, counts])
        return Records.of(self.domain.project(kept), list(drawn.T))

    def deniable_release(self, kept: Sequence[str], test: PlausibleTest, records: int) -> Records | None:
        """Release the kept attributes of `records` rows that passed the test, record by record; None if none passes.

        Theorem (`weft.privacy.deniability`). Under Test 1, each of these records shares its kept attributes with k rows
        or more, all of them equally likely to be its seed. This is plausible deniability of each record and *not*
        differential privacy: the charge has no price, and stamps everything that is released from this run.
        """
        self.check_deniable()
        question = f"{format_count(records, 'deniable record')} generated from seeds, {test}"
        charge = self._enter(Charge.deniable(question, test=test, records=records))
        (drawn,) = self._release(charge, list(self._engine.groups(kept)))
        return Records.of(self.domain.project(kept), list(drawn.T)) if len(drawn) else None

    def plausible_release(self, kernel: Kernel, test: PlausibleTest, attempts: int) -> Records | None:
        """Try so many times to make a record of a row; release those that passed the test by classes; None if none did.

        Mechanism 1 of the paper: an even draw of a row, a record by the kernel, its plausible seeds counted among all
        rows by the kernel's likelihood, the test. Both draws come from the operating system's entropy, and so does the
        noise of the test: a known seed of sampling would tell which row it was.

        Theorem (`weft.privacy.deniability`). The kernel was made from released answers only. Under Test 1, each record
        that leaves has k plausible seeds within a factor gamma; under Test 2 one attempt keeps to Theorem 1. It is
        *not* differential privacy of the whole: the charge has no price, and stamps all that is released from this run.
        """
        if test.max_check_plausible is not None:
            raise BudgetError("the test by classes counts seeds among all rows: leave out max_check_plausible")
        self.check_deniable()
        question = f"{format_count(attempts, 'attempt')} to generate a deniable record, {test}"
        charge = self._enter(Charge.deniable(question, test=test, records=attempts, buckets=True))
        rows, counts = self._engine.groups(kernel.domain.names)
        # The mechanisms' own source of chance, so that a noise_seed repeats; fresh entropy where they show none.
        noise = getattr(self._release, "noise", None) or Noise()
        candidates, plausible = _attempt_records(kernel, rows, counts, test.gamma, attempts, noise)
        (passed,) = self._release(charge, [candidates, plausible])
        return Records.of(kernel.domain, list(passed.T)) if len(passed) else None

    def _check_rows(self) -> None:
        (rows,) = self._engine.count([()])
        if int(rows) >= MAX_DENIABLE_ROWS:
            raise DataError(
                f"records can be grown from seeds only in tables below {MAX_DENIABLE_ROWS:,} rows: draw every "
                f"column instead"
            )

    def _passing(self, kept: Sequence[str], test: Acceptance, share: float, beta: float) -> tuple[Array, Array, float]:
        """Return prefixes of the rows and the number of each, exact, and a lower bound of the sum of weights, in seeds.

        Theorem. A row moves the count c of one prefix by one and floor(S) by at most `test.sensitivity`; `lower_bound`.
        """
        scale, _ = self._noise(share, test.sensitivity)
        charge = self._charge("seeds", "number of seeds that pass the privacy test", test.sensitivity, [scale], draws=1)
        prefixes, counts = self._engine.groups(kept)
        weights = test.weights(counts)
        # Fewer than MOST_ROWS rows (`check_seeds`), so running sums are below 2**62 and rise: the sampler needs that.
        ends = np.cumsum(weights, dtype=np.int64)
        assert (np.diff(ends, prepend=0) >= 0).all()
        assert not len(ends) or ends[-1] <= MAX_DENIABLE_ROWS * UNIT
        (released,) = self._release(charge, [np.array([int(weights.sum()) // UNIT])])
        return prefixes, counts, lower_bound(float(released[0]), scale, test, beta)


def _attempt_records(
    kernel: Kernel, rows: Array, counts: Array, gamma: float, attempts: int, noise: Noise
) -> tuple[Array, Array]:
    """Return the records of so many attempts, and how many plausible seeds each has; all of it exact, and secret."""
    if not len(rows):
        return np.zeros((0, rows.shape[1]), np.int64), np.zeros(0, np.int64)
    # 256 bits of the operating system's entropy: nobody can say again which row was drawn.
    rng = np.random.Generator(np.random.PCG64(noise.bits(256)))
    chosen = np.searchsorted(np.cumsum(counts), rng.integers(0, int(counts.sum()), attempts), side="right")
    candidates = kernel.grow(rows[chosen], rng)
    plausible = [np.zeros(0, np.int64)]
    for part in np.array_split(np.arange(attempts), 1 + attempts * len(rows) // _PAIRS):
        likelihood = kernel.log_likelihood(candidates[part], rows)
        own = likelihood[np.arange(len(part)), chosen[part]]
        plausible.append(plausible_seeds(own, likelihood, counts, gamma))
    return candidates, np.concatenate(plausible)
