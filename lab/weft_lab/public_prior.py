"""What a public table is worth to weave: half of a table is private, the other half public, or spoilt in two ways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from weft_lab.sheet import Sheet
from weft_lab.tables import BenchTable
from weft_lab.trial import repeated

TABLES = ("adult", "br2000")
EPSILONS = (0.2, 0.8)
ORDERS = (1, 2, 3)


def public_prior(tables: Sequence[BenchTable], runs: int = 3) -> Iterator[Sheet]:
    """Yield a sheet for each table: weave without a public table, with a good one, and with two that mislead."""
    for table in tables:
        order = np.random.default_rng(0).permutation(table.rows.num_rows)
        private, public = (table.rows.take(part) for part in np.array_split(order, 2))
        half = BenchTable.of(table.name, private, table.schema)
        rows = []
        with TemporaryDirectory(prefix="weft-bench-") as folder:
            kinds = {"no public table": None, **_written(public, Path(folder))}
            for epsilon in EPSILONS:
                for label, path in kinds.items():
                    options = {} if path is None else {"public": str(path)}
                    rows.append(
                        [
                            f"{epsilon:g}",
                            label,
                            *repeated(half, "weave", epsilon, runs, options, orders=ORDERS).shown(ORDERS),
                        ]
                    )
        heads = ("epsilon", "", *(f"{k}-way" for k in ORDERS), "seconds")
        yield Sheet(f"{table.name}, half of its rows private, {runs} runs", heads, rows)


def _written(public: pa.Table, folder: Path) -> dict[str, Path]:
    """Write the public rows as they are, each column shuffled by itself, and each sorted by itself."""
    rng = np.random.default_rng(1)
    columns = {name: public.column(name) for name in public.column_names}
    made = {
        "the other half": public,
        "columns without relation": pa.table(
            {name: column.take(pa.array(rng.permutation(len(public)))) for name, column in columns.items()}
        ),
        "columns that rise together": pa.table(
            {name: column.take(pc.sort_indices(column)) for name, column in columns.items()}
        ),
    }
    for number, table in enumerate(made.values()):
        pq.write_table(table, folder / f"{number}.parquet")
    return {label: folder / f"{number}.parquet" for number, label in enumerate(made)}
