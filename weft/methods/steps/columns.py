"""The first step that most recipes share: look at each column alone, and merge values that noise would drown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from weft.curator import Curator
from weft.errors import MethodError
from weft.marginals.counting import MAX_CELLS
from weft.marginals.domain import Domain, Order, clique
from weft.marginals.marginal import NoisyMarginal
from weft.marginals.recode import ValueMap, merge_rare
from weft.models import Model
from weft.models.recoded import RecodedModel
from weft.privacy import Accounting
from weft.privacy.noise import LARGEST_SCALE
from weft.progress import Listener, silence, stage
from weft.words import counted

MOST_CANDIDATES = 20_000_000
"""Sets of columns that are listed, before the smallest of them are kept: some ten seconds."""


def check_shares(**shares: float) -> None:
    """Refuse shares of the budget that are not positive, or leave nothing for the marginals themselves."""
    for name, share in shares.items():
        if not 0 < share < 1:
            raise MethodError(f"option {name} is a share of the budget: it must lie between 0 and 1, not {share}.")
    if sum(shares.values()) > 0.99:
        listed = ", ".join(shares)
        raise MethodError(f"options {listed} take the whole budget: leave at least 1% for the marginals themselves.")


def check_mixed(accounting: Accounting) -> None:
    """Refuse accounting that cannot pay for choices and Gaussian noise together."""
    if accounting not in ("zcdp", "paper"):
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
        if not noise <= LARGEST_SCALE:
            raise MethodError(
                f"option {name}: too small a share of this budget for {counted(answers, 'answer')}: their noise would "
                f"be above {LARGEST_SCALE:g}. Raise it, or epsilon."
            )


def check_candidates(domain: Domain, ways: int) -> None:
    """Refuse columns so many that the candidates of up to `ways` of them cannot be listed."""
    many = sum(math.comb(len(domain), k) for k in range(2, min(ways, len(domain)) + 1))
    if many > MOST_CANDIDATES:
        raise MethodError(
            f"option ways: {ways} of {len(domain)} columns make {many:,} candidates, above {MOST_CANDIDATES:,}: choose "
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
    dropped: frozenset[str] = frozenset()
    """Columns whose last code, that of all rare values, is rare too and is to stay empty."""

    def emptied(self, tables: Sequence[NoisyMarginal]) -> list[NoisyMarginal]:
        """Return tables in which no record may have a code that is to stay empty."""
        made = []
        for m in tables:
            empty = np.zeros(m.table.shape, bool) if m.empty is None else m.empty.copy()
            for axis, name in enumerate(m.clique):
                if name in self.dropped:
                    empty[(slice(None),) * axis + (-1,)] = True
            made.append(replace(m, table=np.where(empty, 0, m.table), empty=empty) if empty.any() else m)
        return made

    def unfold(self, model: Model) -> RecodedModel:
        """Return a model over merged values as one over all values."""
        return RecodedModel(self.domain, model, self.maps)


def look_at_columns(
    curator: Curator,
    share: float,
    rare: float,
    listener: Listener = silence,
    rare_rows: float = 0.0,
    *,
    one_code: bool = False,
) -> Columns:
    """Measure all one-way marginals; merge values with a count below `rare` standard deviations or `rare_rows`.

    Without either nothing is merged. With `one_code` all rare values of a column share one code, ordered or not, and
    none has a record where their sum is below the threshold too (PrivSyn, section 5.3): the map then still sends every
    row to one cell, and the cells are emptied afterwards, in what was released.
    """
    with stage(listener, "measure columns"):
        noisy = curator.measure([(name,) for name in curator.domain], share=share)
    maps, dropped = {}, set()
    for m in noisy:
        (name,) = m.clique
        threshold = max(rare * m.sigma, rare_rows) or -math.inf
        order = curator.domain.order(name)
        maps[name] = found = merge_rare(m, threshold, Order(apart=order.apart) if one_code else order)
        last = np.flatnonzero(found.codes == found.size - 1)
        if one_code and 1 < len(last) < len(found.codes) and m.table[last].sum() < threshold:
            dropped.add(name)
    merged = curator.recode({name: (m.codes, m.size) for name, m in maps.items()})
    tables = [maps[m.clique[0]].fold(m) for m in noisy]
    columns = Columns(curator.domain, merged, tables, maps, frozenset(dropped))
    return replace(columns, tables=columns.emptied(tables)) if dropped else columns
