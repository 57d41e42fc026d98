"""Seed queries: prefixes of private rows that begin synthetic records (proofs: `weft.privacy.deniability`)."""

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
from weft.privacy.deniability import MAX_DENIABLE_ROWS, UNIT, Acceptance, PlausibleTest
from weft_lab.queries.plausible_seeds import lower_bound, plausible_seeds
from weft_lab.queries.seeded_price import charge_seeded

_PAIRS = 1 << 23
"""Pairs of a record and a row evaluated in one batch."""


class Kernel(Protocol):
    """Generates a record from a row with a known probability; depends on released answers only."""

    @property
    def domain(self) -> Domain:
        """The attributes, in the column order of rows and records."""
        ...

    def grow(self, seeds: Array, rng: np.random.Generator) -> Array:
        """Return a record for each seed, drawn independently."""
        ...

    def log_likelihood(self, records: Array, seeds: Array) -> Array:
        """Return the log-probability of each record (lines) given each seed (columns)."""
        ...


class SeedQueries(QueryBase):
    """Seed queries, over the rows of a curator (`QueryBase.of`)."""

    def check_seeds(self) -> None:
        """Refuse seeds if the proof of `seeded_release` does not apply; call it before anything is spent.

        The last check uses the number of rows without noise, the only one here that does: at `MAX_DENIABLE_ROWS` rows
        or more the integers of the test would overflow, and nothing is released at all (docs/decisions/008).
        """
        if self._adjacency != Adjacency() or not self.accounting.pays_for_seeds:
            raise BudgetError(
                "records can be generated from seeds only if neighbours add or remove one row, with a delta: choose "
                "add-remove neighbours without a unit column, and gaussian or zcdp accounting; or draw every column"
            )
        budget = self._ledger.budget
        if budget.epsilon is None or budget.epsilon > MAX_EPSILON:
            # Slack is paid from the delta of an (epsilon, delta) budget, by a factor of 1 + e^epsilon.
            raise BudgetError(
                f"records can be generated from seeds only with a budget in epsilon of at most {MAX_EPSILON:g} and a "
                "delta: state the budget in this form, or draw every column"
            )
        self._check_rows()

    def check_deniable(self) -> None:
        """Refuse deniable records if k rows may belong to one person, and tables of `MAX_DENIABLE_ROWS` rows."""
        if self._adjacency.rows_per_unit != 1:
            raise BudgetError(
                "plausible deniability counts rows that could be a record's seed, but several rows may belong to one "
                "person: use one row per privacy unit (rows_per_unit = 1), or draw every column"
            )
        self._check_rows()

    def seeded_release(
        self, kept: Sequence[str], test: Acceptance, records: int, *, look: float, share: float, slack: float
    ) -> Records | None:
        """Release the kept attributes of `records` rows that passed the privacy test; None if this is not affordable.

        First the sum S of passing weights is measured with a share `look`; a lower bound on it determines the cost of
        the release. If that exceeds `share`, no further query is made: the decision depends on a noisy answer. `slack`
        is the allowed total-variation distance, half of it for the lower bound to be wrong. Exactly `records` records
        are released, drawn from the distribution of accepted records itself, so there are no attempts to count.

        Privacy (`weft.privacy.deniability`): if S is at least its lower bound on both tables, the release is mu-GDP up
        to slack/2, for one row added or removed. The bound is wrong with probability at most slack/2; the release is
        therefore within `slack` of a mechanism that is mu-GDP after every answer S.
        """
        self.check_seeds()
        prefixes, counts, passing = self._passing(kept, test, look, slack / 2)
        if passing <= 0:
            return None
        question = f"{format_count(records, 'record')} generated from seeds, {test}"
        charge = charge_seeded(question, test=test, records=records, passing=passing, slack=slack)
        if not charge.rho <= share * self._capacity:
            return None
        (drawn,) = self._release(self._enter(charge), [prefixes, counts])
        return Records.of(self.domain.project(kept), list(drawn.T))

    def deniable_release(self, kept: Sequence[str], test: PlausibleTest, records: int) -> Records | None:
        """Release the kept attributes of `records` rows that passed the test individually; None if none passes.

        Privacy (`weft.privacy.deniability`): under Test 1, each of these records shares its kept attributes with at
        least k rows, all equally likely to be its seed. This is plausible deniability of each record and *not*
        differential privacy: the charge has no price, and stamps everything released from this run.
        """
        self.check_deniable()
        question = f"{format_count(records, 'deniable record')} generated from seeds, {test}"
        charge = self._enter(Charge.deniable(question, test=test, records=records))
        (drawn,) = self._release(charge, list(self._engine.groups(kept)))
        return Records.of(self.domain.project(kept), list(drawn.T)) if len(drawn) else None

    def plausible_release(self, kernel: Kernel, test: PlausibleTest, attempts: int) -> Records | None:
        """Make `attempts` attempts to generate a record from a row; release those that pass the test; None if none.

        Mechanism 1 of the paper: draw a row uniformly, generate a record by the kernel, count its plausible seeds among
        all rows by the kernel's likelihood class, apply the test. Both draws and the noise of the test use the
        operating system's entropy: a known sampling seed would reveal the row.

        Privacy (`weft.privacy.deniability`): the kernel depends on released answers only. Under Test 1, each released
        record has k plausible seeds within a factor gamma; under Test 2, one attempt satisfies Theorem 1. This is *not*
        differential privacy of the whole release: the charge has no price, and stamps the run's releases.
        """
        if test.max_check_plausible is not None:
            raise BudgetError("the test by classes counts seeds among all rows: remove max_check_plausible")
        self.check_deniable()
        question = f"{format_count(attempts, 'attempt')} to generate a deniable record, {test}"
        charge = self._enter(Charge.deniable(question, test=test, records=attempts, buckets=True))
        rows, counts = self._engine.groups(kernel.domain.names)
        # The mechanisms' own noise source, so that a noise_seed is reproducible; else fresh entropy.
        noise = getattr(self._release, "noise", None) or Noise()
        candidates, plausible = _attempt_records(kernel, rows, counts, test.gamma, attempts, noise)
        (passed,) = self._release(charge, [candidates, plausible])
        return Records.of(kernel.domain, list(passed.T)) if len(passed) else None

    def _check_rows(self) -> None:
        (rows,) = self._engine.count([()])
        if int(rows) >= MAX_DENIABLE_ROWS:
            raise DataError(
                f"records from seeds are limited to tables below {MAX_DENIABLE_ROWS:,} rows: draw every column instead"
            )

    def _passing(self, kept: Sequence[str], test: Acceptance, share: float, beta: float) -> tuple[Array, Array, float]:
        """Return the exact prefixes of the rows with their counts, and a lower bound on the sum of weights, in seeds.

        Privacy: a row changes the count c of one prefix by one and floor(S) by at most `test.sensitivity`
        (`lower_bound`).
        """
        scale, _ = self._noise(share, test.sensitivity)
        charge = self._charge("seeds", "number of seeds that pass the privacy test", test.sensitivity, [scale], draws=1)
        prefixes, counts = self._engine.groups(kept)
        weights = test.weights(counts)
        # Below MAX_DENIABLE_ROWS rows (`check_seeds`), cumulative sums are below 2**62 and increase, as sampling needs.
        ends = np.cumsum(weights, dtype=np.int64)
        assert (np.diff(ends, prepend=0) >= 0).all()
        assert not len(ends) or ends[-1] <= MAX_DENIABLE_ROWS * UNIT
        (released,) = self._release(charge, [np.array([int(weights.sum()) // UNIT])])
        return prefixes, counts, lower_bound(float(released[0]), scale, test, beta)


def _attempt_records(
    kernel: Kernel, rows: Array, counts: Array, gamma: float, attempts: int, noise: Noise
) -> tuple[Array, Array]:
    """Return the records of all attempts and their numbers of plausible seeds; both are exact and secret."""
    if not len(rows):
        return np.zeros((0, rows.shape[1]), np.int64), np.zeros(0, np.int64)
    # 256 bits of the operating system's entropy: the drawn rows cannot be reproduced.
    rng = np.random.Generator(np.random.PCG64(noise.bits(256)))
    chosen = np.searchsorted(np.cumsum(counts), rng.integers(0, int(counts.sum()), attempts), side="right")
    candidates = kernel.grow(rows[chosen], rng)
    plausible = [np.zeros(0, np.int64)]
    for part in np.array_split(np.arange(attempts), 1 + attempts * len(rows) // _PAIRS):
        likelihood = kernel.log_likelihood(candidates[part], rows)
        own = likelihood[np.arange(len(part)), chosen[part]]
        plausible.append(plausible_seeds(own, likelihood, counts, gamma))
    return candidates, np.concatenate(plausible)
