"""Inverse-variance pooling of noisy marginals: estimates of a clique, of the total and of projections."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array, Measured, NoisyMarginal

_EXACT = 1e-6  # sigma assumed for a noise-free table, relative to the smallest positive sigma; keeps weights finite


def compute_precisions(marginals: Sequence[NoisyMarginal]) -> Array:
    """Return the precision (1 / variance) per cell of each table, finite even for tables without noise."""
    sigma = np.array([marginal.sigma for marginal in marginals], dtype=np.float64)
    noisy = sigma[sigma > 0]
    floor = _EXACT * noisy.min() if noisy.size else 1.0
    return np.asarray(1.0 / np.maximum(sigma, floor) ** 2)


def common_total(marginals: Sequence[NoisyMarginal]) -> tuple[float, float]:
    """Return the precision-weighted total of the tables and its standard deviation.

    The sum of a table of c cells has variance c sigma^2 and weight precision / c; the weighted mean then has variance
    1 / sum(precision / c). Tables of interaction terms are ignored.

    >>> one, other = np.array([6, 4]), np.array([7, 9])
    >>> total, sd = common_total([NoisyMarginal(("a",), one, 1.0), NoisyMarginal(("b",), other, 2.0)])
    >>> round(total, 3), round(sd, 3)
    (11.2, 1.265)
    """
    marginals = [marginal for marginal in marginals if not marginal.order]
    if not marginals:
        raise ValueError("cannot estimate the total: at least one whole table is needed, not only interaction terms")
    weights = compute_precisions(marginals) / [marginal.cells for marginal in marginals]
    sums = np.array([marginal.table.sum(dtype=np.float64) for marginal in marginals])
    exact = all(marginal.sigma == 0 for marginal in marginals)
    return float(weights @ sums / weights.sum()), 0.0 if exact else math.sqrt(1.0 / weights.sum())


def pool_measurements(*measurements: NoisyMarginal) -> NoisyMarginal:
    """Pool several measurements of one clique into one.

    >>> one, other = (NoisyMarginal(("a",), np.array([count]), 1.0) for count in (6.0, 9.0))
    >>> pool_measurements(one, other).table
    array([7.5])
    """
    if len(measurements) == 1:
        return measurements[0]
    if len({m.order for m in measurements}) > 1:
        raise ValueError(f"whole tables and interaction terms do not add up: {measurements[0].clique}")
    precision = math.fsum(m.precision for m in measurements)
    table = sum((m.precision / precision * m.table for m in measurements), start=np.zeros(()))
    return replace(measurements[0], table=table, sigma=precision**-0.5)


def pool_by_clique(measurements: Iterable[NoisyMarginal]) -> dict[Clique, NoisyMarginal]:
    """Return one pooled measurement per clique."""
    found: dict[Clique, list[NoisyMarginal]] = {}
    for m in measurements:
        found.setdefault(m.clique, []).append(m)
    return {c: pool_measurements(*several) for c, several in found.items()}


def compute_pooled_sigma(columns: Iterable[str], measured: Iterable[Measured]) -> float:
    """Return the standard deviation per cell of the pooled estimate over `columns`; inf if no table covers them.

    A table of k cells projected onto c cells has k/c times the variance per cell. Tables of interaction terms of an
    order above the number of columns contribute nothing.
    """
    wanted, precision = set(columns), 0.0
    for table in measured:
        if wanted <= set(table.clique) and len(wanted) >= table.order:
            kept = math.prod(size for name, size in zip(table.clique, table.shape, strict=True) if name in wanted)
            precision += kept / (table.cells * table.sigma**2)
    return 1 / math.sqrt(precision) if precision > 0 else math.inf


@dataclass(frozen=True)
class Released:
    """Released noisy marginal and the merged codes that it was measured in."""

    noisy: NoisyMarginal
    coding: Mapping[str, Array] = field(default_factory=dict)
    """For attributes with merged codes: the measured code of each of the schema's codes."""
    completed: bool = False
    """Whether interaction terms of an attribute have an estimate of the total added, so that codes can be summed."""

    @property
    def clique(self) -> Clique:
        """The attributes of the table, sorted."""
        return self.noisy.clique

    def size(self, name: str) -> int:
        """Return the number of codes that an attribute had in the measurement."""
        return int(self.noisy.table.shape[self.clique.index(name)])

    def codes(self, name: str, size: int) -> Array:
        """Return the measured code of each of an attribute's `size` schema codes."""
        return self.coding.get(name, np.arange(size))

    def fits(self, domain: Domain) -> bool:
        """Return whether every attribute is in this domain, with the same number of schema codes."""
        return all(
            name in domain and (len(self.coding[name]) if name in self.coding else self.size(name)) == domain.size(name)
            for name in self.clique
        )

    @property
    def total_variance(self) -> float:
        """Variance of the sum of all cells."""
        return math.prod(self.noisy.table.shape) * self.noisy.sigma**2


def complete_counts(released: Sequence[Released]) -> tuple[Released, ...]:
    """Add the noisy total to interaction terms of single attributes: such counts can be summed to other codes."""
    whole = [held.noisy for held in released if not held.noisy.order]
    total = common_total(whole)[0] if whole else 0.0
    return tuple(
        replace(held, noisy=replace(held.noisy, table=held.noisy.table + total / held.noisy.cells), completed=True)
        if held.noisy.order == len(held.clique) == 1
        else held
        for held in released
    )
