"""Learning tasks: a classifier is trained on synthetic rows and tested on real ones that nobody has synthesised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
import pyarrow as pa

from weft.errors import DataError
from weft.progress import Listener, ignore_event, report_stage
from weft.schema import Schema
from weft.synthesis.synthesizer import Synthesizer
from weft_lab.datasets import locate
from weft_lab.sheet import Sheet
from weft_lab.tables import open_table, read

TABLES = ("adult", "hotel_bookings_raw", "sdnist_national2019", "acs_pums2018_west")
METHODS = ("weave", "privsyn", "tree", "mst")
TRAINED = 0.8
"""Share of the rows that is synthesised; the others are what classifiers are tested on."""
DELTA = 1e-5


@dataclass(frozen=True)
class Task:
    """A column that others are to predict, and how it is told."""

    target: str
    positive: str
    slopes: tuple[str, ...] = ()
    """Numbers whose slopes in a logistic regression are compared."""
    hidden: tuple[str, ...] = ()
    """Columns that give the target away."""
    day: tuple[str, str, str] | None = None
    """Year, name of the month and day of a date that is kept in parts."""


TASKS = {
    "adult_raw": Task("income", ">50K", ("age", "hours-per-week", "education-num")),
    "hotel_bookings_raw": Task(
        "is_canceled",
        "1",
        hidden=("reservation_status", "reservation_status_date"),
        day=("arrival_date_year", "arrival_date_month", "arrival_date_day_of_month"),
    ),
    "sdnist_national2019": Task("OWN_RENT", "1"),
    "adult": Task("14", "1"),
    "acs_pums2018_west": Task("HICOV", "2", hidden=(*(f"HINS{i}" for i in range(1, 8)), "PRIVCOV", "PUBCOV")),
}


def learning(
    tables: Sequence[str] = TABLES,
    methods: Sequence[str] = METHODS,
    epsilon: float = 1.0,
    runs: int = 1,
    *,
    folder: str | None = None,
    listener: Listener = ignore_event,
) -> Iterator[Sheet]:
    """Yield one sheet: the area under the curve that each method's rows lead to, beside the real rows'."""
    lines, behind = [], []
    with report_stage(listener, "run", len(tables) * len(methods) * runs) as work:
        for name in tables:
            if name not in TASKS:
                raise DataError(f"{name}: there is no learning task on it. Known are {', '.join(TASKS)}")
            rows, schema = opened(name, folder)
            found: dict[str, list[float]] = {}
            for seed in range(runs):
                seen, held = parted(rows, seed)
                found.setdefault("real", []).append(_needed(seen, held, TASKS[name]))
                for method in methods:
                    made = Synthesizer(epsilon, DELTA, method=method, journal=None, trust_data_for_schema=True)
                    synthetic = made.fit(seen, schema).sample(len(seen))
                    found.setdefault(method, []).append(_needed(synthetic, held, TASKS[name]))
                    work.advance(note=f"{name}, {method}")
            means = {which: float(np.mean(areas)) for which, areas in found.items()}
            lines.append([name, *(f"{means[which]:.4f}" for which in ("real", *methods))])
            best = max(methods, key=lambda method: means[method])
            behind += [f"{name} (to {best})"] if best != methods[0] else []
    notes = [f"{methods[0]} is {'behind on ' + ', '.join(behind) if behind else 'ahead everywhere'}."]
    title = f"Area under the curve, trained on synthetic rows, epsilon {epsilon:g}, {runs} runs"
    yield Sheet(title, ("table", "real rows", *methods), lines, notes)


def opened(name: str, folder: str | None) -> tuple[pa.Table, Schema]:
    """Return a table and its schema: the laboratory's if it has one, else one drafted from the rows."""
    schema = files("weft_lab") / "schemas" / f"{name}.toml"
    path = locate(name, folder)
    if path is not None and schema.is_file():
        known = Schema.load(str(schema))
        return read(path, known), known
    table = open_table(name, folder=folder)
    return table.rows, table.schema


def parted(rows: pa.Table, seed: int) -> tuple[pa.Table, pa.Table]:
    """Return the rows that are synthesised, and those that are held out."""
    order = np.random.default_rng([seed, 3]).permutation(len(rows))
    cut = int(TRAINED * len(rows))
    return rows.take(order[:cut]), rows.take(order[cut:])


def _needed(made: pa.Table, held: pa.Table, task: Task) -> float:
    found = area(made, held, task)
    if found is None:
        raise DataError("learning tasks need LightGBM: `pip install lightgbm`")
    return found


def slopes(table: pa.Table, task: Task) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the slopes of a logistic regression of the target on standardised numbers, by Newton's method."""
    if not task.slopes:
        return np.zeros(0)
    features = [np.asarray(table.column(name).cast(pa.float64()), np.float64) for name in task.slopes]
    x = np.column_stack([np.ones(len(table)), *((f - f.mean()) / max(f.std(), 1e-9) for f in features)])
    scale = np.array([f.std() for f in features])
    y = np.array([str(value) == task.positive for value in table.column(task.target).to_pylist()], np.float64)
    beta = np.zeros(x.shape[1])
    for _ in range(25):
        p = 1 / (1 + np.exp(-np.clip(x @ beta, -30, 30)))
        weight = np.maximum(p * (1 - p), 1e-9)
        beta += np.linalg.solve(x.T @ (x * weight[:, None]) + 1e-9 * np.eye(len(beta)), x.T @ (y - p))
    return np.asarray(beta[1:] / scale)


def area(made: pa.Table, held: pa.Table, task: Task) -> float | None:
    """Return the area under the curve of LightGBM trained on some rows and tested on others, if it is installed."""
    try:
        import lightgbm
    except ImportError:
        return None
    names = [n for n in held.column_names if n not in (task.target, *task.hidden)]
    kinds = {n: held.schema.field(n).type for n in names}
    known = {
        n: {v: i for i, v in enumerate(sorted(set(held.column(n).drop_null().to_pylist())))}
        for n in names
        if not (pa.types.is_integer(kinds[n]) or pa.types.is_floating(kinds[n]))
    }

    def features(table: pa.Table) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        columns = []
        for n in names:
            values = table.column(n).to_pylist()
            told = (
                [known[n].get(v, np.nan) for v in values]
                if n in known
                else [np.nan if v is None else v for v in values]
            )
            columns.append(np.array(told, np.float64))
        return np.column_stack(columns)

    y, truth = (np.array([str(v) == task.positive for v in t.column(task.target).to_pylist()]) for t in (made, held))
    model = lightgbm.LGBMClassifier(n_estimators=200, learning_rate=0.05, verbose=-1, n_jobs=2)
    model.fit(features(made), y, categorical_feature=[i for i, n in enumerate(names) if n in known])
    scores = model.predict_proba(features(held))[:, 1]
    ranks = np.argsort(np.argsort(scores, kind="stable"), kind="stable") + 1.0
    return float((ranks[truth].sum() - truth.sum() * (truth.sum() + 1) / 2) / (truth.sum() * (~truth).sum()))
