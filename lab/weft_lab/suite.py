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
from typing import Literal

import numpy as np

from weft.errors import DataError
from weft.progress import Listener, ignore_event, report_stage
from weft_lab.charts import Spread
from weft_lab.fetch import as_table
from weft_lab.settings import Options
from weft_lab.sheet import Sheet
from weft_lab.structures import KINDS
from weft_lab.tables import BenchTable, open_table
from weft_lab.trial import Repeated, repeated
from weft_lab.weave_parts import schema_of

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


def results(suite: Suite, runs: int, listener: Listener = ignore_event) -> Sheet:
    """Weave on each table of a half, beside our other methods."""
    rows, lost = [], []
    with report_stage(listener, f"{suite.half} half", len(suite.names())) as work:
        for table in suite.tables():
            ours = repeated(table, "weave", EPSILON, runs, orders=ORDERS)
            others = {name: repeated(table, name, EPSILON, 1, orders=ORDERS) for name in RIVALS}
            best = {k: min(others, key=lambda name, k=k: others[name].errors[k].mean) for k in ORDERS}  # type: ignore[misc]
            shown = [f"{others[best[k]].errors[k].mean:.4f} {best[k]}" for k in ORDERS]
            mixing = "" if ours.mixing is None else f"{ours.mixing:.2f}"
            rows.append([table.name, *ours.shown(ORDERS), mixing, *shown])
            lost += [f"{table.name}, {k}-way: {best[k]}" for k in ORDERS if _loses(ours, others[best[k]], k)]
            work.advance(note=table.name)
    heads = ("table", *(f"{k}-way" for k in ORDERS), "seconds", "mixing", *(f"best other, {k}-way" for k in ORDERS))
    notes = [
        f"Lost by more than its spread: {'; '.join(lost) or 'nowhere'}.",
        "Mixing: the distance of chains that start anew from the measured tables, in units of the fit's; blank: exact.",
    ]
    if left := suite.left_out():
        notes.append(f"Not here, and left out: {', '.join(left)} (weft bench data).")
    return Sheet(f"{suite.half} half, epsilon {EPSILON:g}, {runs} runs", heads, rows, notes)


def _loses(ours: Repeated, other: Repeated, order: int) -> bool:
    spread = ours.errors[order]
    return other.errors[order].mean < spread.mean - 2 * max(spread.sd, 0.01 * spread.mean)


def ablation(
    suites: Sequence[Suite], runs: int, settings: Mapping[str, Options], listener: Listener = ignore_event
) -> Sheet:
    """Weave with one setting changed, as the geometric mean over tables of its error in units of weave's own.

    The objective by which settings are chosen, on the chosen half, is the geometric mean over the orders too: an error
    of columns counts as much as one of pairs or of triples.
    """
    rows = []
    with report_stage(listener, "settings", len(settings) * len(suites)) as work:
        base = {suite.half: _errors(suite, {}, runs) for suite in suites}
        for label, options in settings.items():
            row = [label]
            for suite in suites:
                changed = _errors(suite, options, runs)
                logs = [
                    float(np.mean([np.log(changed[name][k].mean / base[suite.half][name][k].mean) for name in changed]))
                    for k in ORDERS
                ]
                row += [f"{math.exp(each):.3f}" for each in (*logs, float(np.mean(logs)))]
                work.advance(note=f"{label}, {suite.half}")
            rows.append(row)
    heads = (
        "setting",
        *(f"{suite.half}, {told}" for suite in suites for told in (*map("{}-way".format, ORDERS), "all")),
    )
    return Sheet(f"Weave with one setting changed: error in units of its own, epsilon {EPSILON:g}", heads, rows)


def _errors(suite: Suite, options: Options, runs: int) -> dict[str, dict[int, Spread]]:
    """Return the errors on each table of a half, by order."""
    return {
        table.name: repeated(table, "weave", EPSILON, runs, options, orders=ORDERS).errors for table in suite.tables()
    }
