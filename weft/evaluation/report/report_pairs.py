"""Distances and associations of all attribute pairs of two tables, heat maps of pairs, and measured marginals.

Figures of pairs equal those of `weft.evaluation.metrics.distances` and `associations`, computed in one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from weft.evaluation.metrics import associations, cramers_v, distances
from weft.evaluation.metrics.marginal_distances import large_pairs, pair_batches
from weft.evaluation.report.report_codes import Floats, Grouping, View, shares_of
from weft.evaluation.report.report_figures import STRONG, MarginalFigures, PairFigures, PairGrid
from weft.marginals.counting import count_marginals
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Array, Measured
from weft.marginals.noise_error import compute_expected_noise
from weft.marginals.records import Records
from weft.models.arranged import unwrap_arrangement
from weft.models.recoded import RecodedModel
from weft.synthesis.fitted import Fitted
from weft.synthesis.verdicts import by_column, compute_combined_sigma, compute_expected_tvd


@dataclass(frozen=True)
class PairMatrices:
    """Symmetric matrices of total variation distances, and of Cramer's V in both tables; diagonals are not filled."""

    distance: Floats
    real: Floats
    synth: Floats
    rests_on: Floats
    """`rests_on` of the table where the relation is stronger; NaN: not computed."""


def compare_pairs(real: Records, synth: Records) -> PairMatrices:
    """Compare every pair in both tables, with dense counts if they are small enough."""
    figures = np.zeros((4, len(real.domain), len(real.domain)))
    for batch in pair_batches(real.domain):
        for pair, a, b in zip(batch, count_marginals(real, batch), count_marginals(synth, batch), strict=True):
            gap = float(np.abs(a / len(real) - b / len(synth)).sum()) / 2
            before, after = cramers_v(a), cramers_v(b)
            stronger = a if before >= after else b
            told = rests_on(stronger) if max(before, after) >= STRONG else float("nan")
            _set_pair_figures(figures, real.domain, pair, gap, before, after, told)
    for pair in large_pairs(real.domain):
        ours, theirs = select_columns(real, pair), select_columns(synth, pair)
        gap = float(distances(ours, theirs, [pair])[0])
        both = (associations(table)[0, 1] for table in (ours, theirs))
        _set_pair_figures(figures, real.domain, pair, gap, *both, float("nan"))
    return PairMatrices(*figures)


def rests_on(table: Array) -> float:
    """Return the share of the rows in the fewest cells that account for half of chi-square.

    A cell with fewer rows than expected under independence counts with its expected number of rows.

    >>> rests_on(np.array([[500, 0], [0, 500]])), rests_on(np.array([[995, 0], [0, 5]]))
    (0.75, 0.005)
    """
    counts = np.asarray(table, np.float64)
    expected = counts.sum(1, keepdims=True) * counts.sum(0, keepdims=True) / max(counts.sum(), 1.0)
    parts = np.divide((counts - expected) ** 2, expected, out=np.zeros_like(counts), where=expected > 0).ravel()
    order = np.argsort(-parts, kind="stable")
    reached = int(np.searchsorted(np.cumsum(parts[order]), parts.sum() * (0.5 - 1e-9))) + 1
    held = np.maximum(counts, expected).ravel()[order[:reached]].sum()
    return min(float(held / max(counts.sum(), 1.0)), 1.0)


def _set_pair_figures(figures: Floats, domain: Domain, pair: Clique, *values: float) -> None:
    i, j = (domain.index(name) for name in pair)
    figures[:, i, j] = figures[:, j, i] = values


def select_columns(table: Records, names: Sequence[str]) -> Records:
    """Return the records of some attributes."""
    return Records(table.domain.project(names), tuple(table.column(name) for name in names))


MAX_GRIDS = 200


def select_worst_pairs(pairs: Sequence[PairFigures]) -> list[PairFigures]:
    """Return the pairs that differ most, at most `MAX_GRIDS`."""

    def score(pair: PairFigures) -> float:
        return max(pair.distance or 0.0, abs(pair.association_synth - (pair.association or 0.0)))

    return sorted(pairs, key=score, reverse=True)[:MAX_GRIDS]


def count_pair_shares(table: Records, names: tuple[str, str], groups: dict[str, Grouping]) -> Floats:
    """Compute the shares of a pair's groups in a table."""
    a, b = (groups[name].groups[table.column(name)] for name in names)
    shape = tuple(len(groups[name].labels) for name in names)
    cells = np.bincount(a * shape[1] + b, minlength=shape[0] * shape[1])
    return shares_of(cells.reshape(shape))


def compute_model_shares(fitted: Fitted, view: View, names: tuple[str, str], groups: dict[str, Grouping]) -> Floats:
    """Compute the expected shares of a pair's groups in a model."""
    model = fitted.model
    table = (model.inner if isinstance(model, RecodedModel) else model).marginal(names)
    table = table if make_clique(names) == names else table.T
    spreads = [_map_codes_to_groups(fitted, view, name, groups[name]) for name in names]
    return shares_of(spreads[0].T @ table @ spreads[1])


def _map_codes_to_groups(fitted: Fitted, view: View, name: str, grouping: Grouping) -> Floats:
    """Return the share of each of the model's codes that belongs to each group."""
    model = fitted.model
    size = fitted.codec.domain.size(name)
    codes, shares = np.arange(size), np.ones(size)
    if isinstance(model, RecodedModel) and name in model.maps:
        codes, shares, size = model.maps[name].codes, model.maps[name].shares(), model.maps[name].size
    made = np.zeros((size, len(grouping.labels)))
    shown = grouping.groups[view.groups[name]] if name in view.groups else grouping.groups
    np.add.at(made, (codes, shown), shares)
    return made


def make_pair_grid(names: tuple[str, str], groups: dict[str, Grouping], reference: Floats, synth: Floats) -> PairGrid:
    """Return the heat maps of a pair."""
    rows, across = (tuple(str(label) for label in groups[name].labels) for name in names)
    rest = [tuple(i for i, label in enumerate(groups[name].labels) if label.sort == "rest") for name in names]
    return PairGrid(names, rows, across, _nest_tuples(reference), _nest_tuples(synth), (rest[0], rest[1]))


def _nest_tuples(table: Floats) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in table.tolist())


_BATCH = 64


@dataclass(frozen=True)
class MeasuredView:
    """The codes in which marginals were measured: those of the schema, or with rare values merged."""

    fitted: Fitted
    merged: bool

    @cached_property
    def domain(self) -> Domain:
        """The attributes in these codes."""
        plain, model = self.fitted.codec.domain, unwrap_arrangement(self.fitted.model)
        if not (self.merged and isinstance(model, RecodedModel)):
            return plain
        sizes = (model.maps[name].size if name in model.maps else plain.size(name) for name in plain)
        return Domain(plain.names, tuple(sizes))

    def records(self, table: Records) -> Records:
        """Convert records to these codes."""
        model = unwrap_arrangement(self.fitted.model)
        if not (self.merged and isinstance(model, RecodedModel)):
            return table
        columns = [
            model.maps[name].codes[column] if name in model.maps else column
            for name, column in zip(table.domain, table.columns, strict=True)
        ]
        return Records.of(self.domain, columns)

    def model_table(self, columns: Clique) -> Array:
        """Return the model's expected counts in these codes."""
        model = unwrap_arrangement(self.fitted.model)
        if self.merged and isinstance(model, RecodedModel):
            return model.inner.marginal(columns)
        return self.fitted.model.marginal(columns)


Reference = Callable[[Sequence[Clique]], Iterator[Array]]
"""Function that yields the reference tables of some cliques."""


def of_records(view: MeasuredView, table: Records) -> Reference:
    """Return exact counts of records as the reference."""
    records = view.records(table)

    def tables(cliques: Sequence[Clique]) -> Iterator[Array]:
        for start in range(0, len(cliques), _BATCH):
            yield from count_marginals(records, cliques[start : start + _BATCH])

    return tables


def of_model(view: MeasuredView) -> Reference:
    """Return the model's expected counts as the reference."""
    return lambda cliques: (view.model_table(c) for c in cliques)


def marginal_figures(
    fitted: Fitted, measured: Sequence[Measured], synth: Records, reference: Callable[[MeasuredView], Reference]
) -> tuple[MarginalFigures, ...]:
    """Compute the distance and the expected noise of every measured marginal, in the codes of its measurement."""
    figures: dict[int, MarginalFigures] = {}
    index = by_column(measured)
    plain, merged = MeasuredView(fitted, False), MeasuredView(fitted, True)
    fits: dict[bool, list[int]] = {False: [], True: []}
    for i, table in enumerate(measured):
        if table.shape == plain.domain.sizes(table.clique):
            fits[False].append(i)
        elif table.shape == merged.domain.sizes(table.clique):
            fits[True].append(i)
    for view in (plain, merged):
        chosen = fits[view.merged]
        cliques = [measured[i].clique for i in chosen]
        if not chosen:
            continue
        tables = zip(chosen, reference(view)(cliques), of_records(view, synth)(cliques), strict=True)
        for i, expected, made in tables:
            asked = measured[i]
            sigma = compute_combined_sigma(asked.clique, index) or asked.sigma
            figures[i] = MarginalFigures(
                asked.clique,
                asked.cells,
                asked.sigma,
                float(compute_expected_noise(asked.cells, asked.sigma)),
                compute_expected_tvd(expected, sigma),
                float(np.abs(shares_of(expected) - shares_of(made)).sum()) / 2,
            )
    return tuple(figures[i] for i in sorted(figures))
