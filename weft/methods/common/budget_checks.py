"""Checks of a method's options against the budget and the domain, before anything is charged."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from weft.curator import Curator
from weft.display import format_count
from weft.errors import MethodError
from weft.marginals.counting import MAX_CELLS
from weft.marginals.domain import Domain, make_clique
from weft.privacy import AccountingName, find_accounting
from weft.privacy.noise import MAX_NOISE_SCALE

MAX_CANDIDATES = 20_000_000
"""Sets of columns that are listed, before the smallest of them are kept: some ten seconds."""


def check_shares(**shares: float) -> None:
    """Refuse shares of the budget that are not positive, or leave nothing for the marginals themselves."""
    for name, share in shares.items():
        if not 0 < share < 1:
            raise MethodError(f"option {name} is a share of the budget: it must lie between 0 and 1, not {share}.")
    if sum(shares.values()) > 0.99:
        listed = ", ".join(shares)
        raise MethodError(f"options {listed} take the whole budget: leave at least 1% for the marginals themselves.")


def check_mixed(accounting: AccountingName) -> None:
    """Refuse accounting that cannot pay for choices and Gaussian noise together."""
    if not find_accounting(accounting).pays_for_mixtures:
        raise MethodError(
            'option accounting must be "zcdp" or "paper" where the exponential mechanism chooses: it has no exact '
            "Gaussian price."
        )


def check_noise(curator: Curator, *, sensitivity: float = 8.0, **asked: tuple[float, int]) -> None:
    """Refuse shares so small that the noise on what they buy could not be drawn, before anything is charged.

    `asked` has, of each option, the share it stands for and how many answers divide it; `sensitivity` bounds how much
    more than a cell of a marginal an answer moves (InDif: 4, or 8 where rows are replaced).
    """
    for name, (share, answers) in asked.items():
        noise = sensitivity * curator.sigma(share / max(answers, 1))
        if not noise <= MAX_NOISE_SCALE:
            raise MethodError(
                f"option {name}: too small a share of this budget for {format_count(answers, 'answer')}: their "
                f"noise would "
                f"be above {MAX_NOISE_SCALE:g}. Raise it, or epsilon."
            )


def check_candidates(domain: Domain, ways: int) -> None:
    """Refuse columns so many that the candidates of up to `ways` of them cannot be listed."""
    many = sum(math.comb(len(domain), k) for k in range(2, min(ways, len(domain)) + 1))
    if many > MAX_CANDIDATES:
        raise MethodError(
            f"option ways: {ways} of {len(domain)} columns make {many:,} candidates, above {MAX_CANDIDATES:,}: choose "
            "fewer ways, or method mst."
        )


def check_marginals(domain: Domain, marginals: Iterable[Sequence[str]]) -> None:
    """Refuse marginals that a user names without columns, or with columns that do not exist."""
    for names in marginals:
        if not names:
            raise MethodError("a marginal names at least one column: leave empty ones out.")
        unknown = [name for name in names if name not in domain]
        if unknown:
            raise MethodError(f"there is no column {unknown[0]!r} to be in a marginal. Check its spelling.")


def check_pairs(domain: Domain) -> None:
    """Refuse columns so wide that not all pairs of them can be counted."""
    widest = sorted(domain, key=domain.size)[-2:]
    if domain.cells(make_clique(widest)) > MAX_CELLS:
        raise MethodError(
            f"the table over {' and '.join(widest)} would have {domain.cells(make_clique(widest)):,} cells, above "
            f"{MAX_CELLS:,}: choose coarser bins for them in the schema, or method tree or mst."
        )
