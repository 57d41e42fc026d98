"""Heat maps of pairs of columns: shares of groups of codes, in tables and in models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.marginals.domain import clique
from weft.marginals.records import Records
from weft.models.recoded import RecodedModel
from weft.release.modelfile import Fitted
from weft.report.figures import Grid, PairFigures
from weft.report.grouping import Floats, Grouping, shares_of
from weft.report.view import View

MOST_GRIDS = 200
"""Pairs that carry their two heat maps; the others only their figures."""


def worst(pairs: Sequence[PairFigures]) -> list[PairFigures]:
    """Return the pairs that are farthest off, as many as carry their heat maps."""

    def score(pair: PairFigures) -> float:
        return max(pair.distance or 0.0, abs(pair.association_synth - (pair.association or 0.0)))

    return sorted(pairs, key=score, reverse=True)[:MOST_GRIDS]


def counted(table: Records, names: tuple[str, str], groups: dict[str, Grouping]) -> Floats:
    """Return the shares of a pair's groups in a table."""
    a, b = (groups[name].groups[table.column(name)] for name in names)
    shape = tuple(len(groups[name].labels) for name in names)
    cells = np.bincount(a * shape[1] + b, minlength=shape[0] * shape[1])
    return shares_of(cells.reshape(shape))


def modelled(fitted: Fitted, view: View, names: tuple[str, str], groups: dict[str, Grouping]) -> Floats:
    """Return the shares of a pair's groups in a model."""
    model = fitted.model
    table = (model.inner if isinstance(model, RecodedModel) else model).marginal(names)
    table = table if clique(names) == names else table.T
    spreads = [_spread(fitted, view, name, groups[name]) for name in names]
    return shares_of(spreads[0].T @ table @ spreads[1])


def _spread(fitted: Fitted, view: View, name: str, grouping: Grouping) -> Floats:
    """Share of each of the model's codes that belongs to each group of a chart."""
    model = fitted.model
    size = fitted.codec.domain.size(name)
    codes, shares = np.arange(size), np.ones(size)
    if isinstance(model, RecodedModel) and name in model.maps:
        codes, shares, size = model.maps[name].codes, model.maps[name].shares(), model.maps[name].size
    made = np.zeros((size, len(grouping.labels)))
    shown = grouping.groups[view.groups[name]] if name in view.groups else grouping.groups
    np.add.at(made, (codes, shown), shares)
    return made


def grid(names: tuple[str, str], groups: dict[str, Grouping], reference: Floats, synth: Floats) -> Grid:
    """Return both heat maps of a pair."""
    rows, across = (tuple(str(label) for label in groups[name].labels) for name in names)
    rest = [tuple(i for i, label in enumerate(groups[name].labels) if label.sort == "rest") for name in names]
    return Grid(names, rows, across, _nested(reference), _nested(synth), (rest[0], rest[1]))


def _nested(table: Floats) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in table.tolist())
