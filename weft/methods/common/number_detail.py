"""Measure how numbers are distributed within their coarse codes, given the category that they depend on most.

Joint marginals have coarse codes of numbers, since noise would dominate finer ones. A category that determines the
scale of a number, such as a product and its price or a laboratory test and its value, would then share its codes with
others of another scale. After the fit, the model shows which category a number depends on most; if this is strong, one
marginal of the two is measured in finer cells.

Privacy: which marginals are measured follows from the model, which is a function of released answers.
"""

import math
from collections.abc import Sequence

import numpy as np

from weft.curator import Curator
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Array, NoisyMarginal
from weft.marginals.smoothing import CellGrid, smooth_counts
from weft.marginals.value_groups import ValueMap, coarse_groups
from weft.methods.common.discretisation import is_wide
from weft.models import Model
from weft.models.conditional_values import GivenCategory, normalise_cells
from weft.models.recoded import RecodedModel
from weft.progress import Listener, report_stage

SHARE_DETAIL = 0.02
"""Share of the budget for the detail of numbers, if a table has numbers and categories."""

MIN_DEPENDENCE = 0.3
"""Minimum distance of a number and a category from independence, as total variation, for which detail is measured."""

MAX_NOISE = 0.3
"""Maximum distance, as total variation, that noise alone would give a marginal of the category and coarse codes."""

CELLS = 32
"""Cells of a number with about equal numbers of rows, and as many of equal width, in addition to its coarse codes."""


def detail_share(domain: Domain) -> float:
    """Return the share of the budget for the detail of numbers."""
    numbers = any(is_wide(domain, name) for name in domain)
    return SHARE_DETAIL if numbers and any(_is_category(domain, name) for name in domain) else 0.0


def _is_category(domain: Domain, name: str) -> bool:
    return not domain.order(name).ordered and domain.size(name) > 1


def measure_detail(curator: Curator, model: Model, listener: Listener) -> Model:
    """Spend what is left on the detail of the numbers that depend on a category; return the model with it."""
    if not isinstance(model, RecodedModel) or not (
        found := find_categories(model, curator.sigma(1.0), [m.clique for m in curator.measured])
    ):
        return model
    cells = {name: _divide(model, name) for name in found}
    codes = {name: (each, int(each.max()) + 1) for name, each in cells.items()}
    codes |= {n: (model.maps[n].codes, model.maps[n].size) for n in set(found.values()) if n in model.maps}
    with report_stage(listener, "measure numbers by category"):
        asked = [make_clique((name, other)) for name, other in found.items()]
        measured = {m.clique: m for m in curator.recode(codes).measure(asked, 1.0)}
    given, maps = {}, dict(model.maps)
    for name, other in found.items():
        maps[name], given[name] = estimate_detail(
            model, (name, other), cells[name], measured[make_clique((name, other))]
        )
    return RecodedModel(model.domain, model.inner, maps, given)


def find_categories(model: RecodedModel, sigma: float, measured: Sequence[Clique]) -> dict[str, str]:
    """Return the category that each wide number depends on most, if it does so strongly; the strongest come first.

    Only pairs that were `measured`, alone or with others, can depend on each other strongly. `sigma` is the noise of
    one marginal that has the whole share. Numbers share it as long as noise permits.
    """
    inside, found = model.inner.domain, list[tuple[float, str, str]]()
    for name in (name for name in model.maps if is_wide(model.domain, name)):
        related = set[str]().union(*(clique for clique in measured if name in clique)) & set(inside)
        others = [other for other in sorted(related) if _is_category(model.domain, other)]
        found += sorted((_measure_dependence(model.inner.marginal((name, other))), name, other) for other in others)[
            -1:
        ]
    kept = dict[str, str]()
    for strength, name, other in sorted(found, reverse=True):
        noise = sigma * math.sqrt(len(kept) + 1) * inside.size(name) * inside.size(other) / (2 * max(model.total, 1.0))
        if strength >= MIN_DEPENDENCE and noise <= MAX_NOISE:
            kept[name] = other
    return kept


def _measure_dependence(table: Array) -> float:
    """Return the total variation distance of a table of two attributes from independence."""
    shares = np.maximum(np.asarray(table, np.float64), 0)
    shares /= max(float(shares.sum()), 1e-300)
    return float(np.abs(shares - np.outer(shares.sum(axis=1), shares.sum(axis=0))).sum() / 2)


def _divide(model: RecodedModel, name: str) -> Array:
    """Return the cell of each code of a number: ranges of about equal counts and of equal widths inside each code."""
    merged, order = model.maps[name], model.domain.order(name)
    even = order.fine_grid(model.domain.size(name)).coarser(CELLS, len(order.apart)).cells
    alike = coarse_groups(merged.counts, order.apart, CELLS)
    parts = np.stack([merged.codes, even, alike])
    return np.asarray(np.cumsum(np.concatenate([[0], (np.diff(parts, axis=1) != 0).any(axis=0)])))


def estimate_detail(
    model: RecodedModel, pair: tuple[str, str], cells: Array, noisy: NoisyMarginal
) -> tuple[ValueMap, GivenCategory]:
    """Estimate the shares of cells given each code of a category from their noisy counts, and the map that they imply.

    Counts are smoothed for each code of the category, and drawn to those of the number alone by one standard deviation.
    """
    (name, other), merged = pair, model.maps[pair[0]]
    table = np.asarray(noisy.table, np.float64)
    table = table if noisy.clique[0] == other else table.T
    size = table.shape[1]
    groups = merged.codes[np.unique(cells, return_index=True)[1]]
    whole = np.bincount(cells, merged.shares(), size)
    grid = CellGrid(np.bincount(cells, minlength=size).astype(np.float64), np.zeros(size, np.int64))
    counts = np.array([smooth_counts(row, noisy.sigma, grid) for row in table])
    shares = normalise_cells(np.maximum(counts, 0) + noisy.sigma * whole, whole, groups, merged.size)
    joint = np.asarray(model.inner.marginal((name, other)), np.float64)
    joint = np.maximum(joint if make_clique((name, other))[0] == other else joint.T, 1e-12)
    implied = np.einsum("xc,xc->c", joint[:, groups], shares) / joint.sum(axis=0)[groups]
    # The number alone was measured more precisely than this marginal in sum, but in other cells: both count equally.
    target = (implied + whole) / 2
    for _ in range(20):
        implied = np.einsum("xc,xc->c", joint[:, groups], shares) / joint.sum(axis=0)[groups]
        shares = normalise_cells(shares * (target / np.maximum(implied, 1e-12)), whole, groups, merged.size)
    scale = np.where(whole > 0, target / np.maximum(whole, 1e-300), 1.0)[cells]
    return ValueMap(merged.codes, merged.size, merged.shares() * scale), GivenCategory(other, cells, shares)
