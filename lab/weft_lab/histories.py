"""Histories: transitions, autocorrelations, lengths and constants, beside two ways without order in time.

The others are weave on one row per person with the rows side by side in slots, and weave on the rows with the person as
unit but without a time column.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray

import weft
from weft_lab.sheet import Sheet

MAX_LISTED = 12
"""Distinct values up to which a number is described as whole numbers."""

GROUPS = 6
"""Quantile groups of a number in transition tables."""


@dataclass(frozen=True)
class Panel:
    """A table of histories and what is compared of it."""

    name: str
    rows: pd.DataFrame
    unit: str
    time: str
    constants: tuple[str, ...]
    amounts: tuple[str, ...]
    """Columns whose autocorrelation is compared, of the logarithm of 1 plus the value."""
    most: int
    """Largest number of rows of a person."""

    @property
    def changing(self) -> list[str]:
        """Columns that are neither keys nor constants."""
        return [name for name in self.rows if name not in (self.unit, self.time, *self.constants)]

    def describe(self, **more: Any) -> weft.Schema:
        """Return the schema of the table: it is public here."""
        columns = {name: {"kind": "id"} if name == self.unit else describe(self.rows[name]) for name in self.rows}
        return weft.Schema.from_dict({"unit": self.unit, "rows_per_unit": self.most, "columns": columns, **more})


def describe(values: pd.Series) -> dict[str, Any]:
    """Describe a column by its values or its range."""
    missing = {"missing": True} if values.isna().any() else {}
    if not pd.api.types.is_numeric_dtype(values):
        return {"kind": "category", "values": sorted(values.dropna().unique().tolist())} | missing
    if values.nunique() <= MAX_LISTED:
        ends = [int(values.min()), int(values.max())]
        return {"kind": "integer", "range": ends, "outside": "clip"} | missing
    if pd.api.types.is_integer_dtype(values):
        return {"kind": "integer", "range": [int(values.min()), int(values.max())]} | missing
    low, high = float(np.floor(values.min())), float(np.ceil(values.max()))
    return {"kind": "real", "range": [low, high], "decimals": 3, "outside": "clip"} | missing


def load_health(folder: Path) -> Panel:
    """Return twelve columns of the RAND health insurance experiment, years of persons."""
    rows = pd.read_parquet(folder / "panel" / "rand_hie.parquet")
    constants = ("plan", "site", "female", "educdec", "income")
    changing = ("xage", "num", "mdvis", "notmdvis", "drugdol", "outpdol", "meddol")
    rows = rows[["zper", "year", *constants, *changing]].astype({"plan": int, "site": int})
    return Panel("rand_hie, 14 columns", rows, "zper", "year", constants, ("drugdol", "outpdol", "meddol"), 5)


def make_panel(persons: int = 6000, seed: int = 11) -> Panel:
    """Make a panel with transitions of order 1 (work) and order 2 (health), ages, and wages that persist."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 8, persons)
    owner = np.repeat(np.arange(persons), sizes)
    rank = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    start, sex = rng.integers(2001, 2006, persons), rng.choice(["f", "m"], persons)
    born, level = rng.integers(1940, 1990, persons), rng.normal(9.5, 0.5, persons)
    work, health, wage = np.zeros(len(owner), int), np.zeros(len(owner), int), np.zeros(len(owner))
    stay = np.array([[0.85, 0.1, 0.05], [0.25, 0.65, 0.1], [0.05, 0.1, 0.85]]).cumsum(axis=1)
    for t in range(int(sizes.max())):
        now = np.flatnonzero(rank == t)
        u = rng.random(len(now))
        if t == 0:
            work[now], health[now] = rng.integers(0, 3, len(now)), u < 0.3
            wage[now] = level[owner[now]] + rng.normal(0, 0.3, len(now))
        else:
            work[now] = (u[:, None] > stay[work[now - 1]]).sum(axis=1)
            before = health[now - 1] + (health[now - 2] if t > 1 else health[now - 1])
            health[now] = rng.random(len(now)) < np.array([0.1, 0.4, 0.8])[before]
            wage[now] = 0.8 * wage[now - 1] + 0.2 * level[owner[now]] + rng.normal(0, 0.15, len(now))
    rows = pd.DataFrame(
        {
            "person": owner,
            "year": start[owner] + rank,
            "sex": sex[owner],
            "region": rng.choice(["n", "s", "w"], persons)[owner],
            "age": start[owner] + rank - born[owner],
            "work": np.array(["job", "study", "home"])[work],
            "ill": health,
            "wage": np.exp(wage).round(2),
        }
    )
    return Panel("generated", rows, "person", "year", ("sex", "region"), ("wage",), 7)


def fit_history(panel: Panel, epsilon: float, seed: int) -> pd.DataFrame:
    """Release the panel as histories, with constants found privately."""
    made = weft.Synthesizer(epsilon=epsilon, delta=1e-5, journal=None, seed=seed)
    return made.fit(panel.rows, panel.describe(time=panel.time)).sample(seed=seed)


def fit_unit(panel: Panel, epsilon: float, seed: int) -> pd.DataFrame:
    """Release the rows with the person as unit and declared constants, without an order in time."""
    made = weft.Synthesizer(epsilon=epsilon, delta=1e-5, journal=None, seed=seed)
    return made.fit(panel.rows, panel.describe(per_unit=list(panel.constants))).sample(seed=seed)


def fit_slots(panel: Panel, epsilon: float, seed: int) -> pd.DataFrame:
    """Release one row per person with its rows side by side, and take them apart again."""
    rows = panel.rows.sort_values([panel.unit, panel.time], kind="stable")
    slot = rows.groupby(panel.unit).cumcount()
    kept = [panel.time, *panel.changing]
    wide = rows.groupby(panel.unit)[list(panel.constants)].first()
    for place in range(panel.most):
        own = rows[slot == place].set_index(panel.unit)[kept].add_suffix(f"@{place}")
        wide = wide.join(own)
    columns = {
        name: describe(panel.rows[name.partition("@")[0]]) | ({"missing": True} if "@" in name else {}) for name in wide
    }
    schema = weft.Schema.from_dict({"columns": columns})
    made = weft.Synthesizer(epsilon=epsilon, delta=1e-5, journal=None, seed=seed).fit(wide, schema).sample(seed=seed)
    parts = []
    for place in range(panel.most):
        own = made[[f"{name}@{place}" for name in kept]].set_axis(kept, axis=1)
        own = own.assign(**{name: made[name] for name in panel.constants}, **{panel.unit: np.arange(len(made))})
        parts.append(own[own[panel.time].notna()])
    return pd.concat(parts).sort_values([panel.unit, panel.time], kind="stable")


def code(panel: Panel, rows: pd.DataFrame) -> dict[str, NDArray[np.int64]]:
    """Return columns as codes: values, or groups by quantiles of the real table."""
    made = {}
    for name in (*panel.constants, *panel.changing):
        real, values = panel.rows[name], rows[name]
        if not pd.api.types.is_numeric_dtype(real):
            codes = values.map({value: i for i, value in enumerate(sorted(real.unique()))}).fillna(99)
        else:
            edges = np.unique(np.nanquantile(real, np.linspace(0, 1, GROUPS + 1)))[1:-1]
            codes = pd.Series(np.searchsorted(edges, values.astype(float), side="right")).where(
                values.notna().values, 9
            )
        made[name] = codes.to_numpy(np.int64)
    return made


def compare_tables(first: tuple[NDArray[Any], ...], second: tuple[NDArray[Any], ...]) -> float:
    """Return the total variation distance of two tables of coded columns, as shares."""
    cells = [np.ravel_multi_index(codes, (100,) * len(codes)) for codes in (first, second)]
    counts = [np.bincount(each, minlength=100 ** len(first)) / max(len(each), 1) for each in cells]
    return float(np.abs(counts[0] - counts[1]).sum() / 2)


def score(panel: Panel, made: pd.DataFrame) -> dict[str, float]:
    """Return the errors of a synthetic panel."""
    real, new = (
        table.sort_values([panel.unit, panel.time], kind="stable").reset_index(drop=True)
        for table in (panel.rows, made)
    )
    a, b = code(panel, real), code(panel, new)
    pairs = [np.flatnonzero((t[panel.unit] == t[panel.unit].shift(-1)).to_numpy()) for t in (real, new)]
    triples = [np.flatnonzero((t[panel.unit] == t[panel.unit].shift(-2)).to_numpy()) for t in (real, new)]
    lengths = [t.groupby(panel.unit).size().clip(upper=panel.most).to_numpy() for t in (real, new)]
    changing, every = panel.changing, [*panel.constants, *panel.changing]

    def move(lag: Sequence[NDArray[Any]], steps: tuple[int, ...]) -> float:
        found = [
            compare_tables(
                tuple(a[name][lag[0] + step] for step in steps), tuple(b[name][lag[1] + step] for step in steps)
            )
            for name in changing
        ]
        return float(np.mean(found))

    def follow(name: str, table: pd.DataFrame, lag: NDArray[Any]) -> float:
        values = np.log1p(table[name].to_numpy(float).clip(min=0))
        known = np.isfinite(values[lag]) & np.isfinite(values[lag + 1])
        return float(np.corrcoef(values[lag][known], values[lag + 1][known])[0, 1])

    apart = [abs(follow(name, real, pairs[0]) - follow(name, new, pairs[1])) for name in panel.amounts]
    constant = [(new.groupby(panel.unit)[name].nunique(dropna=False) > 1).mean() for name in panel.constants]
    return {
        "transitions of order 1: mean TVD": move(pairs, (0, 1)),
        "transitions of order 2: mean TVD": move(triples, (0, 1, 2)),
        "autocorrelation of log amounts: mean error": float(np.mean(apart)),
        "autocorrelation of log amounts: largest error": float(np.max(apart)),
        "persons with a changed constant": float(np.mean(constant)),
        "rows out of order or at an equal time": float((new[panel.time].diff()[pairs[1] + 1] <= 0).mean()),
        "lengths: TVD": compare_tables((lengths[0],), (lengths[1],)),
        "rows, 1-way: mean TVD": float(np.mean([compare_tables((a[n],), (b[n],)) for n in every])),
        "rows, 2-way: mean TVD": float(
            np.mean([compare_tables((a[m], a[n]), (b[m], b[n])) for i, m in enumerate(every) for n in every[:i]])
        ),
    }


WAYS = {"histories": fit_history, "unit without time": fit_unit, "slots side by side": fit_slots}


def history_sheets(folder: str | None, epsilons: Sequence[float], seeds: int) -> Iterator[Sheet]:
    """Release each panel in each way; yield the mean errors over runs."""
    place = Path(folder or os.environ.get("WEFT_DATA", "."))
    panels = [make_panel()]
    if (place / "panel" / "rand_hie.parquet").is_file():
        panels.insert(0, load_health(place))
    for panel in panels:
        for epsilon in epsilons:
            found: dict[str, Mapping[str, list[float]]] = {}
            for way, fit in WAYS.items():
                runs: dict[str, list[float]] = {}
                for seed in range(1, seeds + 1):
                    begin = time.perf_counter()
                    made = fit(panel, epsilon, seed)
                    scores = score(panel, made) | {"seconds": time.perf_counter() - begin}
                    for figure, value in scores.items():
                        runs.setdefault(figure, []).append(value)
                found[way] = runs
            figures = list(next(iter(found.values())))
            rows = [[figure, *(f"{np.mean(found[way][figure]):.4g}" for way in WAYS)] for figure in figures]
            yield Sheet(f"{panel.name}, epsilon {epsilon:g}, {seeds} runs", ["figure", *WAYS], rows)
