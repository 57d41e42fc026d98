"""A public sample as a page: a heat map of all pairs, the list of them, and every column."""

from __future__ import annotations

from html import escape

from weft.report.exploring import ONLY_PUBLIC, ColumnTable, Exploration
from weft.report.maps import LEVELS, key, pair_map
from weft.svg import px, short, svg

STEPS = (0.01, 0.02, 0.04, 0.08, 0.15, 0.30)
"""Where the shades of the heat map change: InDif as a share of the rows."""

MOST_PAIRS = 200
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


def page(found: Exploration, name: str) -> str:
    """Return the page."""
    names = [column.name for column in found.columns]
    at = {column: place for place, column in enumerate(names)}
    values = {(at[p.columns[0]], at[p.columns[1]]): p.indif for p in found.pairs}
    shades = "".join(f".e{level} {{ fill: {_SHADES[level]}; }}" for level in range(LEVELS))
    drawn = ""
    if len(names) > 1:
        drawn = pair_map(names, values, STEPS, {}, (), "e", "InDif of all pairs, darker where two columns depend more")
        drawn += f"<p>{key(STEPS, 'e', '%')}</p>"
    rows = "".join(
        f'<tr><td>{escape(p.columns[0])}</td><td>{escape(p.columns[1])}</td><td class="n">{p.indif:.2%}</td>'
        f'<td class="n">{p.chance:.2%}</td><td class="n">{p.cells:,}</td></tr>'
        for p in found.pairs[:MOST_PAIRS]
    )
    charts = "".join(f"<div><h3>{escape(c.name)}</h3>{_chart(c)}</div>" for c in found.columns)
    title = f"Public sample: {name}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}{shades}</style></head><body><h1>{escape(title)}</h1>"
        f'<p class="public">{escape(ONLY_PUBLIC)}</p><p>{found.rows:,} rows, {len(names)} columns.</p>'
        f"<h2>How far pairs are from independence</h2>{drawn}"
        '<p class="faint">InDif: the share of the rows that would have to move for two columns to be independent. By '
        "chance: about what independent columns would show in as many rows.</p>"
        "<table><tr><th>column</th><th>column</th><th>InDif</th><th>by chance</th><th>cells</th></tr>"
        f'{rows}</table><h2>Columns</h2><div class="columns">{charts}</div></body></html>\n'
    )


def _chart(column: ColumnTable) -> str:
    """Draw a bar for each value or bin."""
    top = max(column.shares, default=0.0) or 1.0
    parts = []
    for place, (label, share) in enumerate(zip(column.labels, column.shares, strict=True)):
        y = place * _LINE
        parts.append(
            f'<text x="{px(_NAME - 6)}" y="{px(y + 12)}" text-anchor="end">{escape(short(label, 24))}</text>'
            f'<rect x="{px(_NAME)}" y="{px(y + 3)}" width="{px(_BAR * share / top)}" height="11" fill="#2f7794">'
            f"<title>{escape(label)}: {share:.2%}</title></rect>"
        )
    return svg(_NAME + _BAR + 10, _LINE * len(column.labels) + 6, f"{column.name}: shares of the rows", "".join(parts))
