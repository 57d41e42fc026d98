"""Explore a public sample to prepare a marginal plan: each attribute, and the dependence of each pair.

Privacy: none. Figures are computed from the rows without noise, for public tables only. Attributes with many values are
grouped, since a pair of them would have more cells than rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import combinations
from typing import Any

import numpy as np

from weft.display import px, shorten_text, wrap_svg
from weft.encoding import Codec
from weft.evaluation.report.report_charts import LEVELS, draw_colour_key, pair_map
from weft.evaluation.report.report_codes import Grouping, group_codes, label_codes
from weft.marginals.marginal import Array
from weft.marginals.records import Records

ONLY_PUBLIC = (
    "FOR PUBLIC DATA ONLY. These figures are exact. Unless the rows are public, neither the figures nor any choice "
    "based on them are private."
)

BINS, VALUES = 16, 30
"""Maximum number of bins, and of values, of an attribute."""

_CHANCE = np.sqrt(2 / np.pi)


@dataclass(frozen=True)
class ColumnTable:
    """Shares of the rows by value or bin of an attribute."""

    name: str
    codes: int
    """Number of values or bins in the schema."""
    labels: tuple[str, ...]
    shares: tuple[float, ...]


@dataclass(frozen=True)
class PairDistance:
    """Distance of an attribute pair from independence."""

    columns: tuple[str, str]
    indif: float
    """InDif (PrivSyn) as the share of rows that would have to change: sum of |n_ij - n_i n_j / n| over 2 n."""
    chance: float
    """Approximate expected InDif of independent attributes with the same number of rows."""
    cells: int


@dataclass(frozen=True)
class Exploration:
    """Figures of a public table."""

    rows: int
    columns: tuple[ColumnTable, ...]
    pairs: tuple[PairDistance, ...]
    """Sorted by InDif above chance, largest first."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "warning": ONLY_PUBLIC,
            "rows": self.rows,
            "columns": [
                {"name": c.name, "codes": c.codes, "shares": dict(zip(c.labels, c.shares, strict=True))}
                for c in self.columns
            ],
            "pairs": [
                {"columns": list(p.columns), "indif": p.indif, "chance": p.chance, "cells": p.cells} for p in self.pairs
            ],
        }


def explore_columns(codec: Codec, records: Records) -> Exploration:
    """Compute the shares of every attribute and the InDif of every pair."""
    domain = records.domain
    groupings = {}
    for name in domain:
        counts = np.bincount(records.column(name), minlength=domain.size(name)).astype(np.float64)
        groupings[name] = group_codes(label_codes(codec, name), counts, VALUES, BINS)
    coded = {name: groupings[name].groups[records.column(name)] for name in domain}
    n = max(len(records), 1)
    columns = []
    for name, made in groupings.items():
        shares = np.bincount(coded[name], minlength=len(made.labels)) / n
        columns.append(ColumnTable(name, domain.size(name), tuple(map(str, made.labels)), tuple(shares.tolist())))
    pairs = [_measure_pair((a, b), coded, groupings) for a, b in combinations(domain.names, 2)]
    return Exploration(len(records), tuple(columns), tuple(sorted(pairs, key=lambda pair: -(pair.indif - pair.chance))))


def _measure_pair(names: tuple[str, str], coded: dict[str, Array], groupings: dict[str, Grouping]) -> PairDistance:
    across = len(groupings[names[1]].labels)
    shape = (len(groupings[names[0]].labels), across)
    cell = coded[names[0]] * across + coded[names[1]]
    table = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)
    n = max(table.sum(), 1.0)
    rows, columns = table.sum(axis=1, keepdims=True), table.sum(axis=0, keepdims=True)
    expected = rows @ columns / n
    # Standard deviation of a cell under independence, given the marginal sums.
    spread = np.sqrt(expected * (1 - rows / n) * (1 - columns / n))
    chance = np.minimum(_CHANCE * spread, 2 * expected).sum()
    return PairDistance(names, float(np.abs(table - expected).sum() / (2 * n)), float(chance / (2 * n)), table.size)


STEPS = (0.01, 0.02, 0.04, 0.08, 0.15, 0.30)
"""Thresholds between the shades of the heat map: InDif as a share of the rows."""

MAX_SHOWN_PAIRS = 200
_BAR, _NAME, _LINE = 220.0, 150.0, 16.0
_SHADES = ("#f3f1ec", "#dfe8ec", "#bcd5df", "#8fbccd", "#5b9bb4", "#2f7794", "#12495f")

_STYLE = """
body { font: 16px/1.5 system-ui, Helvetica, Arial, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
.public { color: #b00020; font-weight: bold; border: 2px solid #b00020; padding: .6rem 1rem; }
table { border-collapse: collapse; } td, th { padding: .1rem .9rem .1rem 0; text-align: left; }
td.n { text-align: right; font-variant-numeric: tabular-nums; } .faint { color: #666; font-size: .9rem; }
.columns { display: flex; flex-wrap: wrap; gap: 1rem; } svg { font: 11px system-ui, sans-serif; max-width: 100%; }
.mesh { stroke: #fff; stroke-width: .6; fill: none; } .h { fill: transparent; }
"""


def render_exploration_page(found: Exploration, name: str) -> str:
    """Render the HTML page: a heat map and a list of all pairs, and a chart of every attribute."""
    names = [column.name for column in found.columns]
    at = {column: place for place, column in enumerate(names)}
    values = {(at[p.columns[0]], at[p.columns[1]]): p.indif for p in found.pairs}
    shades = "".join(f".e{level} {{ fill: {_SHADES[level]}; }}" for level in range(LEVELS))
    drawn = ""
    if len(names) > 1:
        drawn = pair_map(names, values, STEPS, {}, (), "e", "InDif of all pairs, darker for more dependent pairs")
        drawn += f"<p>{draw_colour_key(STEPS, 'e', '%')}</p>"
    rows = "".join(
        f'<tr><td>{escape(p.columns[0])}</td><td>{escape(p.columns[1])}</td><td class="n">{p.indif:.2%}</td>'
        f'<td class="n">{p.chance:.2%}</td><td class="n">{p.cells:,}</td></tr>'
        for p in found.pairs[:MAX_SHOWN_PAIRS]
    )
    charts = "".join(f"<div><h3>{escape(c.name)}</h3>{_draw_column(c)}</div>" for c in found.columns)
    title = f"Public sample: {name}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}{shades}</style></head><body><h1>{escape(title)}</h1>"
        f'<p class="public">{escape(ONLY_PUBLIC)}</p><p>{found.rows:,} rows, {len(names)} attributes.</p>'
        f"<h2>Dependence of attribute pairs</h2>{drawn}"
        '<p class="faint">InDif: the share of the rows that would have to change for two attributes to be independent. '
        "By chance: the approximate InDif of independent attributes with the same number of rows.</p>"
        "<table><tr><th>attribute</th><th>attribute</th><th>InDif</th><th>by chance</th><th>cells</th></tr>"
        f'{rows}</table><h2>Attributes</h2><div class="columns">{charts}</div></body></html>\n'
    )


def _draw_column(column: ColumnTable) -> str:
    top = max(column.shares, default=0.0) or 1.0
    parts = []
    for place, (label, share) in enumerate(zip(column.labels, column.shares, strict=True)):
        y = place * _LINE
        parts.append(
            f'<text x="{px(_NAME - 6)}" y="{px(y + 12)}" text-anchor="end">{escape(shorten_text(label, 24))}</text>'
            f'<rect x="{px(_NAME)}" y="{px(y + 3)}" width="{px(_BAR * share / top)}" height="11" fill="#2f7794">'
            f"<title>{escape(label)}: {share:.2%}</title></rect>"
        )
    return wrap_svg(
        _NAME + _BAR + 10, _LINE * len(column.labels) + 6, f"{column.name}: shares of the rows", "".join(parts)
    )
