"""Divide a budget among marginals, and validate the marginals that a user requires.

A Gaussian measurement with share rho_i has noise of standard deviation 1 / sqrt(2 rho_i) on each of c_i cells, so its
expected L1 error is c_i / sqrt(pi rho_i) counts. For a given sum of the rho_i, the total error is smallest when rho_i
is proportional to c_i^(2/3) (PrivSyn, equation 1), and is then (sum c_i^(2/3))^1.5 / sqrt(pi rho).
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from weft.curator import Curator
from weft.errors import MethodError
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Array
from weft.methods.common.budget_checks import check_marginals, check_noise
from weft.privacy import AccountingLike, find_accounting


def allocate(cells: Sequence[int] | Array, rho: float, exponent: float = 2 / 3) -> Array:
    """Return each marginal's share of `rho`, proportional to its cells to the power `exponent`.

    >>> allocate([8, 27, 64], 29.0)
    array([ 4.,  9., 16.])
    """
    power = np.asarray(cells, dtype=np.float64) ** exponent
    return np.asarray(rho * power / power.sum())


def by_size(cells: Sequence[int], accounting: AccountingLike) -> list[float]:
    """Return the budget parts that minimise the summed expected error of tables with these numbers of cells.

    The error of a table of c cells measured with part p is proportional to c / sqrt(p) for Gaussian noise and to c / p
    for geometric noise, so the optimal p is proportional to c^(2/3) or c^(1/2) (`CountNoise.allocation_exponent`).

    >>> [round(part, 2) for part in by_size([1, 64], "gaussian")], [round(part, 2) for part in by_size([1, 64], "pure")]
    ([0.06, 0.94], [0.11, 0.89])
    """
    exponent = find_accounting(accounting).counts.allocation_exponent
    return [float(part) for part in allocate(cells, 1.0, exponent)]


MAX_REQUIRED_CELLS = 1 << 28
"""Maximum cells of a required marginal before rare values are merged, so that it fits in memory."""


def check_given(domain: Domain, marginals: Sequence[Sequence[str]], emphasis: Sequence[float]) -> None:
    """Validate required marginals and their emphasis: known columns, table sizes, one factor for each."""
    check_marginals(domain, marginals)
    for names in marginals:
        cells = domain.cells(make_clique(names))
        if cells > MAX_REQUIRED_CELLS:
            raise MethodError(
                f"the marginal over {', '.join(names)} has {cells:,} cells, above the limit of {MAX_REQUIRED_CELLS:,}. "
                "Leave a column out."
            )
    if emphasis and len(emphasis) != len(marginals):
        raise MethodError("option emphasis: expected one positive number for each of the marginals.")


def allocate_to_required(
    domain: Domain,
    marginals: Sequence[Sequence[str]],
    emphasis: Sequence[float],
    accounting: AccountingLike,
    *,
    even: bool = False,
) -> dict[Clique, float]:
    """Return the budget part of each distinct required marginal: by size (unless `even`), times its emphasis."""
    factors: dict[Clique, float] = {}
    for names, factor in zip(marginals, emphasis or [1.0] * len(marginals), strict=True):
        factors[make_clique(names)] = max(factor, factors.get(make_clique(names), 0.0))
    parts = [1.0] * len(factors) if even else by_size([domain.cells(c) for c in factors], accounting)
    return {c: part * factor for (c, factor), part in zip(factors.items(), parts, strict=True)}


def check_emphasis(
    curator: Curator,
    marginals: Sequence[Sequence[str]],
    emphasis: Sequence[float],
    share: float,
    scale: Callable[[Clique], float] = lambda c: 1.0,
) -> None:
    """Refuse budget parts too small for the noise to be drawn; `scale` is the multiplier of a marginal's query."""
    prices = allocate_to_required(curator.domain, marginals, emphasis, curator.accounting)
    whole = math.fsum(prices.values())
    for c, price in prices.items():
        asked = {"emphasis" if emphasis else "marginals": (share * price / whole, 1)}
        check_noise(curator, sensitivity=max(scale(c), 8.0), **asked)
