"""Measured marginals: how far the synthetic rows are from each, beside what noise alone explains."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from weft.marginals.counting import count
from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array, Measured
from weft.marginals.noise_error import expected_noise
from weft.marginals.records import Records
from weft.models.arranged import arranged_of
from weft.models.recoded import RecodedModel
from weft.release.modelfile import Fitted
from weft.report.figures import MarginalFigures
from weft.report.grouping import shares_of
from weft.report.noise import by_column, combined_sigma, expected_tvd

_BATCH = 64


@dataclass(frozen=True)
class View:
    """The codes in which marginals were measured: those of the schema, or with rare values merged."""

    fitted: Fitted
    merged: bool

    @cached_property
    def domain(self) -> Domain:
        """The attributes in these codes."""
        plain, model = self.fitted.codec.domain, arranged_of(self.fitted.model)
        if not (self.merged and isinstance(model, RecodedModel)):
            return plain
        sizes = (model.maps[name].size if name in model.maps else plain.size(name) for name in plain)
        return Domain(plain.names, tuple(sizes))

    def records(self, table: Records) -> Records:
        """Put records into these codes."""
        model = arranged_of(self.fitted.model)
        if not (self.merged and isinstance(model, RecodedModel)):
            return table
        columns = [
            model.maps[name].codes[column] if name in model.maps else column
            for name, column in zip(table.domain, table.columns, strict=True)
        ]
        return Records.of(self.domain, columns)

    def model_table(self, columns: Clique) -> Array:
        """Expected counts of the model in these codes."""
        model = arranged_of(self.fitted.model)
        if self.merged and isinstance(model, RecodedModel):
            return model.inner.marginal(columns)
        return self.fitted.model.marginal(columns)


Reference = Callable[[Sequence[Clique]], Iterator[Array]]
"""Gives the tables of some cliques, one after the other."""


def of_records(view: View, table: Records) -> Reference:
    """Take exact counts of records as the reference."""
    records = view.records(table)

    def tables(cliques: Sequence[Clique]) -> Iterator[Array]:
        for start in range(0, len(cliques), _BATCH):
            yield from count(records, cliques[start : start + _BATCH])

    return tables


def of_model(view: View) -> Reference:
    """Take the model's expected counts as the reference."""
    return lambda cliques: (view.model_table(c) for c in cliques)


def marginal_figures(
    fitted: Fitted, measured: Sequence[Measured], synth: Records, reference: Callable[[View], Reference]
) -> tuple[MarginalFigures, ...]:
    """Set the distance of every measured marginal beside what noise alone explains; in the codes it was asked in."""
    figures: dict[int, MarginalFigures] = {}
    index = by_column(measured)
    plain, merged = View(fitted, False), View(fitted, True)
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
            sigma = combined_sigma(asked.clique, index) or asked.sigma
            figures[i] = MarginalFigures(
                asked.clique,
                asked.cells,
                asked.sigma,
                float(expected_noise(asked.cells, asked.sigma)),
                expected_tvd(expected, sigma),
                float(np.abs(shares_of(expected) - shares_of(made)).sum()) / 2,
            )
    return tuple(figures[i] for i in sorted(figures))
