"""The first step that most recipes share: look at each column alone, and merge values that noise would drown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from weft.counting import MAX_CELLS
from weft.curator import Curator
from weft.domain import Domain, clique
from weft.errors import MethodError
from weft.marginal import NoisyMarginal
from weft.models import Model
from weft.models.recoded import RecodedModel
from weft.progress import Listener, silence, stage
from weft.recode import ValueMap, merge_rare


def check_shares(**shares: float) -> None:
    """Refuse shares of the budget that are not positive, or leave nothing for the marginals themselves."""
    for name, share in shares.items():
        if not 0 < share < 1:
            raise MethodError(f"option {name} is a share of the budget: it must lie between 0 and 1, not {share}.")
    if sum(shares.values()) > 0.99:
        listed = ", ".join(shares)
        raise MethodError(f"options {listed} take the whole budget: leave at least 1% for the marginals themselves.")


def check_positive(**options: float) -> None:
    """Refuse options that must be above zero and are not."""
    for name, value in options.items():
        if not value > 0:
            raise MethodError(f"option {name} must be above 0, not {value}.")


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
    if domain.cells(clique(widest)) > MAX_CELLS:
        raise MethodError(
            f"the table over {' and '.join(widest)} would have {domain.cells(clique(widest)):,} cells, above "
            f"{MAX_CELLS:,}: choose coarser bins for them in the schema, or method tree or mst."
        )


@dataclass(frozen=True)
class Columns:
    """What the first step leaves to the others."""

    domain: Domain
    """The attributes with all their values."""
    curator: Curator
    """The curator of the rows in merged values: what every later question goes to."""
    tables: list[NoisyMarginal]
    """The noisy one-way marginals, folded into merged values: paid for once, used again by consistency."""
    maps: Mapping[str, ValueMap]

    def unfold(self, model: Model) -> RecodedModel:
        """Return a model over merged values as one over all values."""
        return RecodedModel(self.domain, model, self.maps)


def look_at_columns(curator: Curator, share: float, rare: float, listener: Listener = silence) -> Columns:
    """Measure all one-way marginals and merge values whose noisy count is below `rare` standard deviations."""
    with stage(listener, "measure columns"):
        noisy = curator.measure([(name,) for name in curator.domain], share=share)
    maps = {m.clique[0]: merge_rare(m, rare * m.sigma) for m in noisy}
    merged = curator.recode({name: (m.codes, m.size) for name, m in maps.items()})
    return Columns(curator.domain, merged, [maps[m.clique[0]].fold(m) for m in noisy], maps)
