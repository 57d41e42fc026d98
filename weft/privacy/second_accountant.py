"""Recompute the epsilon of a ledger with dp-accounting (extra `evidence`), independently of Weft's own conversions.

Gaussian accounting is recomputed by numerical composition of privacy loss distributions, zCDP by Renyi divergences on a
grid of orders, and pure epsilon by the Renyi divergence of order 1e9. Shared with Weft are only the sensitivities and
scales of the ledger, and the theorem that prices a mechanism that dp-accounting does not know (the exponential
mechanism, records from seeds). The charges were made before any row was read, so both accountants see what
the ledger lists; neither can know of a query that it omits.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from weft.errors import WeftError
from weft.privacy.charge import Charge
from weft.privacy.ledger import Ledger
from weft.privacy.mechanisms.mechanism import GaussianPriced

TOLERANCE = 0.01
"""Relative difference between the accountants that numerical composition explains."""

NEEDS = "the second accountant requires dp-accounting: pip install 'weft[evidence]'"


@dataclass(frozen=True)
class Recount:
    """The epsilon of the charges to one part of the rows, by both accountants."""

    part: str
    """Part of the rows; "" for all."""
    delta: float
    weft: float
    dp_accounting: float
    stated: float
    """Epsilon of the release, which is that of the whole budget."""
    exact: bool
    """Whether Weft's conversion is not loose on purpose, so that both values must be equal."""

    @property
    def agrees(self) -> bool:
        """Whether both accountants find the same epsilon, and neither more than is stated."""
        slack = TOLERANCE * self.weft + 1e-9
        close = abs(self.dp_accounting - self.weft) <= slack or not self.exact
        return close and self.dp_accounting <= self.stated + slack

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self) | {"agrees": self.agrees}


def recount(ledger: Ledger) -> list[Recount]:
    """Recompute the epsilon of each part of the rows; WeftError without dp-accounting, or without a guarantee."""
    if ledger.deniable:
        raise WeftError("no accountant can state an epsilon for a release of deniable records")
    statement, found = ledger.spend_statement(), []
    for part, (cost, slack) in ledger.branches().items():
        delta = ledger.budget.delta - slack * (1 + math.exp(min(statement.epsilon, 700.0)))
        charges = [entry for entry in ledger.entries if entry.part in ("", part) and not entry.definition.divides_rows]
        own = ledger.accounting.find_epsilon(cost, delta) if charges else 0.0
        theirs = _compose(ledger, charges, delta, own) if charges else 0.0
        exact = not ledger.accounting.uses_closed_form
        found.append(Recount(part, delta, own, theirs, statement.epsilon, exact))
    return found


def _compose(ledger: Ledger, charges: Iterable[Charge], delta: float, own: float) -> float:
    """Compose the charges in dp-accounting; return their epsilon at this delta."""
    try:
        import dp_accounting as dp
        from dp_accounting.pld import PLDAccountant
        from dp_accounting.rdp import RdpAccountant
    except ImportError:
        raise WeftError(NEEDS) from None
    accountant: Any
    if ledger.accounting.is_pure:
        accountant, delta = RdpAccountant([1e9]), 1e-300
    elif ledger.accounting.is_exact_gaussian:
        accountant = PLDAccountant(value_discretization_interval=min(1e-4, max(own, 1e-6) / 1e4))
    else:
        accountant = RdpAccountant((1 + np.exp(np.linspace(-3, 10, 3000))).tolist())
    events: Counter[Any] = Counter()
    for charge in charges:
        if ledger.accounting.is_pure:
            events.update(dp.LaplaceDpEvent(1 / epsilon) for epsilon in charge.definition.epsilons(charge))
        elif ledger.accounting.is_exact_gaussian and charge.norm == "linf":
            events.update([dp.GaussianDpEvent(1 / math.sqrt(2 * charge.gdp))])
        elif isinstance(charge.definition, GaussianPriced):
            pairs = zip(charge.scales, charge.sensitivities, strict=True)
            events.update(dp.GaussianDpEvent(scale / moved) for scale, moved in pairs)
        else:
            events.update([dp.ZCDpEvent(charge.rho)])
    for event, times in events.items():
        accountant.compose(event, times)
    return float(accountant.get_epsilon(delta))
