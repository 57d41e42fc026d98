"""Plans beside what really happens: the error of single columns that `weft plan` foretells, and the one measured.

A plan sees the schema, the number of rows and the budget. The table is then synthesised with real noise, several times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from weft.encoding import Codec
from weft.evaluation.forecast import plan
from weft.evaluation.forecast_simulation import in_ranges
from weft.evaluation.metrics import k_way
from weft.progress import Listener, ignore_event, report_stage
from weft.synthesis.synthesizer import Synthesizer
from weft_lab.learning import opened
from weft_lab.sheet import Sheet

TABLES = ("nltcs", "adult", "br2000", "acs", "adult_raw")
EPSILONS = (1.0,)
GOAL = 1.5
"""A plan should be within this factor."""
HEADS = ("table", "epsilon", "foretold", "measured", "ratio", f"within {GOAL:g}", "pairs foretold", "pairs measured")


def plans(
    tables: Sequence[str] = TABLES,
    epsilons: Sequence[float] = EPSILONS,
    runs: int = 3,
    method: str = "weave",
    *,
    folder: str | None = None,
    listener: Listener = ignore_event,
) -> Iterator[Sheet]:
    """Yield one sheet for each table, a line for each budget."""
    with report_stage(listener, "run", len(tables) * len(epsilons) * (runs + 1)) as work:
        for name in tables:
            rows, schema = opened(name, folder)
            real = Codec(schema, rows.schema).encode(rows)
            lines = []
            for epsilon in epsilons:
                told = plan(schema, len(rows), epsilon, method=method)
                work.advance(note=f"{name}, epsilon {epsilon:g}, plan")
                found = []
                for _ in range(runs):
                    made = Synthesizer(epsilon, method=method, journal=None, trust_data_for_schema=True)
                    table = made.fit(rows, schema).sample()
                    pair = in_ranges(real, Codec(schema, table.schema).encode(table))
                    found.append([k_way(*pair, k).tvd for k in (1, 2)])
                    work.advance(note=f"{name}, epsilon {epsilon:g}, run")
                ones, twos = np.mean(found, axis=0)
                ratio = told.here.mean / ones
                near = "yes" if 1 / GOAL <= ratio <= GOAL else "no"
                columns = [f"{told.here.mean:.5f}", f"{ones:.5f}", f"{ratio:.2f}", near]
                lines.append([name, f"{epsilon:g}", *columns, f"{told.here.pairs:.4f}", f"{twos:.4f}"])
            yield Sheet(f"{name}: error of columns, foretold and measured, {method}, {runs} runs", HEADS, lines)
