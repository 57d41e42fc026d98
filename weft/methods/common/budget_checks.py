"""Validation of a method's options against budget and domain, before anything is charged."""

from collections.abc import Iterable, Sequence

from weft.curator import Curator
from weft.display import format_count
from weft.errors import MethodError
from weft.marginals.domain import Domain
from weft.privacy.noise import MAX_NOISE_SCALE


def check_shares(**shares: float) -> None:
    """Refuse shares of the budget that are not positive, or leave nothing for the marginals."""
    for name, share in shares.items():
        if not 0 < share < 1:
            raise MethodError(f"option {name}: expected a share of the budget between 0 and 1, not {share}.")
    if sum(shares.values()) > 0.99:
        listed = ", ".join(shares)
        raise MethodError(f"options {listed} take the whole budget. Leave at least 1% for the marginals.")


def check_noise(curator: Curator, *, sensitivity: float = 8.0, **asked: tuple[float, int]) -> None:
    """Refuse shares so small that the noise could not be drawn, before anything is charged.

    `asked` has, for each option, its share and the number of measurements that divide it; `sensitivity` is an upper
    bound relative to a cell of a marginal (InDif: 4, or 8 for replace-one neighbours).
    """
    for name, (share, answers) in asked.items():
        noise = sensitivity * curator.sigma(share / max(answers, 1))
        if not noise <= MAX_NOISE_SCALE:
            raise MethodError(
                f"option {name}: too small a share of this budget for {format_count(answers, 'answer')}, whose noise "
                f"would be above {MAX_NOISE_SCALE:g}. Raise it, or epsilon."
            )


def check_marginals(domain: Domain, marginals: Iterable[Sequence[str]]) -> None:
    """Refuse required marginals that are empty or have unknown columns."""
    for names in marginals:
        if not names:
            raise MethodError("a marginal needs at least one column. Leave empty ones out.")
        unknown = [name for name in names if name not in domain]
        if unknown:
            raise MethodError(f"a marginal has an unknown column {unknown[0]!r}. Check its spelling.")
