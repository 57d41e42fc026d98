"""Questions about seeds: private rows whose first attributes may leave as the beginning of a synthetic record.

A part of the curator, and like it to be read as a list of theorems; see `weft.privacy.deniability` for the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy.special import ndtri

from weft.domain import Domain
from weft.errors import BudgetError, DataError
from weft.marginal import Array
from weft.privacy import Accounting, Adjacency, Charge, Ledger, uniform
from weft.privacy.budget import LARGEST_EPSILON
from weft.privacy.deniability import MOST_ROWS, UNIT, Acceptance, release_mu
from weft.privacy.mechanisms import Release
from weft.records import Records

if TYPE_CHECKING:
    from weft.engines import Engine


class Asking(Protocol):
    """What these questions need of the curator that they belong to."""

    _engine: Engine
    _ledger: Ledger
    _release: Release

    @property
    def domain(self) -> Domain: ...  # noqa: D102
    @property
    def accounting(self) -> Accounting: ...  # noqa: D102
    @property
    def _adjacency(self) -> Adjacency: ...
    def _noise(self, share: float, sensitivity: float | None = None) -> tuple[float, float]: ...
    def _charge(self, question: str, sensitivity: float, scales: Sequence[float], draws: int) -> Charge: ...
    def _enter(self, charge: Charge) -> Charge: ...
    def check_seeds(self) -> None: ...  # noqa: D102


class SeedQuestions:
    """The curator's questions about seeds."""

    def check_seeds(self: Asking) -> None:
        """Refuse seeds where the theorems below do not hold: before anything is spent, if asked in time.

        The last refusal looks at the number of rows without noise, the one thing here that does: at `MOST_ROWS` rows or
        more the integers of the test would overflow, and there is no release at all. docs/decisions/008 says so.
        """
        if self._adjacency != Adjacency() or self.accounting not in ("gaussian", "zcdp"):
            raise BudgetError(
                "records can be grown from seeds only where neighbours add or remove one row, with a delta: choose "
                "add-remove neighbours without a unit column, and gaussian or zcdp accounting; or draw every column"
            )
        budget = self._ledger.budget
        if budget.epsilon is None or budget.epsilon > LARGEST_EPSILON:
            # Slack is paid from the delta of an (epsilon, delta) budget, by a factor of 1 + e^epsilon.
            raise BudgetError(
                f"records can be grown from seeds only with a budget in epsilon, of at most {LARGEST_EPSILON:g}, and a "
                "delta: state the budget so, or draw every column"
            )
        (rows,) = self._engine.count([()])
        if int(rows) >= MOST_ROWS:
            raise DataError(
                f"records can be grown from seeds only in tables below {MOST_ROWS:,} rows: draw every column instead"
            )

    def seeded_release(
        self: Asking, kept: Sequence[str], test: Acceptance, records: int, *, look: float, share: float, slack: float
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
        prefixes, weights, passing = _passing(self, kept, test, look, slack / 2)
        # The draws themselves keep to their law only so far; what that takes of the slack is next to nothing.
        mu = release_mu(test, records, passing, slack / 2 - records * uniform.LAW_ERROR)
        if not mu**2 / 2 <= share * self._ledger.capacity:
            return None
        question = f"{records} records grown from seeds by {test}"
        charge = self._enter(Charge.seeded(question, records=records, mu=mu, slack=slack))
        (drawn,) = self._release(charge, [prefixes, weights])
        return Records.of(self.domain.project(kept), list(drawn.T))


def _passing(
    asking: Asking, kept: Sequence[str], test: Acceptance, share: float, beta: float
) -> tuple[Array, Array, float]:
    """Return prefixes and weights of the rows, exact, and a lower bound of the sum of weights, in seeds.

    Theorem. A row moves the count c of one prefix by one and floor(S) by at most `test.sensitivity`. With noise
    below its quantile at beta, the answer less that quantile is below S; less the sensitivity once more, it is below
    the S of every neighbour too.
    """
    scale, _ = asking._noise(share, test.sensitivity)
    charge = asking._charge("seeds that would pass the privacy test", test.sensitivity, [scale], draws=1)
    prefixes, counts = asking._engine.groups(kept)
    weights = test.weights(counts)
    # Fewer than MOST_ROWS rows (`check_seeds`), so running sums are below 2**62 and rise: what the sampler relies on.
    ends = np.cumsum(weights, dtype=np.int64)
    assert (np.diff(ends, prepend=0) >= 0).all()
    assert not len(ends) or ends[-1] <= MOST_ROWS * UNIT
    (released,) = asking._release(charge, [np.array([int(weights.sum()) // UNIT])])
    margin = math.ceil(-scale * float(ndtri(beta))) + 1
    return prefixes, weights, float(released[0]) - margin - test.sensitivity
