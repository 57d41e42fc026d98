"""Weave on many kinds of tables, in two halves: settings are chosen on one, and the other is only reported.

Which table is in which half was fixed before anything was tried: public tables by turns in the order of their names,
and every kind of generated table once in each half, from another seed and of another size.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

from weft.bench.fetch import as_table
from weft.bench.settings import WEAVE_SUITE
from weft.bench.sheet import Sheet
from weft.bench.structures import KINDS
from weft.bench.tables import BenchTable, open_table
from weft.bench.trial import Repeated, repeated
from weft.bench.weave_parts import schema_of
from weft.errors import DataError
from weft.progress import Listener, silence, stage

Half = Literal["chosen", "reported"]
HALVES: tuple[Half, ...] = ("chosen", "reported")
PUBLIC = ("acs", "actg175", "adult", "br2000", "fire", "nltcs", "penguins", "randhie")
"""Public tables, of which every other one is in the half on which settings are chosen."""
SCALE: Mapping[Half, float] = {"chosen": 1.0, "reported": 1.25}
MOST_ROWS = 50_000
EPSILON = 0.8
ORDERS = (1, 2, 3)
RIVALS = ("independent", "mst", "privsyn")
"""Our other methods, none of which weave should lose to."""


@dataclass(frozen=True)
class Suite:
    """One half of the tables."""

    half: Half
    folder: str | None = None
    most: int | None = None
    """Tables at most; for trying."""

    def names(self) -> list[str]:
        """Return the tables of this half."""
        public = list(PUBLIC[HALVES.index(self.half) :: 2])
        return [*public, *KINDS][: self.most]

    def tables(self) -> Iterator[BenchTable]:
        """Open them one after the other; a public table that is not here is left out."""
        for name in self.names():
            try:
                yield (
                    generated(name, self.half)
                    if name in KINDS
                    else open_table(name, rows=MOST_ROWS, folder=self.folder)
                )
            except DataError:
                continue

    def left_out(self) -> list[str]:
        """Return the public tables that are not here."""
        found = [table.name.partition(",")[0] for table in self.tables()]
        return [name for name in self.names() if name not in found]


@cache
def generated(kind: str, half: Half) -> BenchTable:
    """Make a table of a kind; the same one every time."""
    rng = np.random.default_rng([zlib.crc32(kind.encode()), HALVES.index(half)])
    records = KINDS[kind](rng, SCALE[half])
    return BenchTable.of(kind, as_table(records), schema_of(records))


def results(suite: Suite, runs: int, listener: Listener = silence) -> Sheet:
    """Weave on each table of a half, beside our other methods."""
    rows, lost = [], []
    with stage(listener, f"{suite.half} half", len(suite.names())) as work:
        for table in suite.tables():
            ours = repeated(table, "weave", EPSILON, runs)
            others = {name: repeated(table, name, EPSILON, 1) for name in RIVALS}
            best = {k: min(others, key=lambda name, k=k: others[name].errors[k].mean) for k in ORDERS}  # type: ignore[misc]
            shown = [f"{others[best[k]].errors[k].mean:.4f} {best[k]}" for k in ORDERS]
            rows.append([table.name, *ours.shown(ORDERS), *shown])
            lost += [f"{table.name}, {k}-way: {best[k]}" for k in ORDERS if _loses(ours, others[best[k]], k)]
            work.advance(note=table.name)
    heads = ("table", *(f"{k}-way" for k in ORDERS), "seconds", *(f"best other, {k}-way" for k in ORDERS))
    notes = [f"Lost by more than its spread: {'; '.join(lost) or 'nowhere'}."]
    if left := suite.left_out():
        notes.append(f"Not here, and left out: {', '.join(left)} (weft bench data).")
    return Sheet(f"{suite.half} half, epsilon {EPSILON:g}, {runs} runs", heads, rows, notes)


def _loses(ours: Repeated, other: Repeated, order: int) -> bool:
    spread = ours.errors[order]
    return other.errors[order].mean < spread.mean - 2 * max(spread.sd, 0.01 * spread.mean)


def ablation(suites: Sequence[Suite], runs: int, listener: Listener = silence) -> Sheet:
    """Weave with one setting changed, as the geometric mean over tables of its error in units of weave's own."""
    rows = []
    with stage(listener, "settings", len(WEAVE_SUITE) * len(suites)) as work:
        base = {suite.half: _errors(suite, {}, runs) for suite in suites}
        for label, options in WEAVE_SUITE.items():
            row = [label]
            for suite in suites:
                changed = _errors(suite, options, runs)
                for k in ORDERS:
                    ratios = [changed[name].errors[k].mean / base[suite.half][name].errors[k].mean for name in changed]
                    row.append(f"{math.exp(float(np.mean(np.log(ratios)))):.3f}")
                work.advance(note=f"{label}, {suite.half}")
            rows.append(row)
    heads = ("setting", *(f"{suite.half}, {k}-way" for suite in suites for k in ORDERS))
    return Sheet(f"Weave with one setting changed: error in units of its own, epsilon {EPSILON:g}", heads, rows)


def _errors(suite: Suite, options: Mapping[str, Any], runs: int) -> dict[str, Repeated]:
    return {table.name: repeated(table, "weave", EPSILON, runs, options) for table in suite.tables()}
