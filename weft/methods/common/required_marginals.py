"""Required marginals: validation and budget allocation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from weft.curator import Curator
from weft.errors import MethodError
from weft.marginals.domain import Clique, Domain, make_clique
from weft.methods.common.allocation import by_size
from weft.methods.common.budget_checks import check_marginals, check_noise
from weft.privacy import AccountingLike

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
