"""How far a release is from its export, on the values as they are: nothing is recoded through the found schema."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.values.storage import decode_dictionary

Floats = NDArray[np.float64]

SKEWED = 5.0  # ratio of the 99% quantile to the median above which an amount is skewed
STRONG = 0.4  # absolute rank correlation from which a pair of numeric columns is compared
CELLS = 20  # quantile cells of a numeric column for the total variation


@dataclass
class RawScores:
    """What is wrong in one release; shares and relative shifts by column."""

    outside: dict[str, float] = field(default_factory=dict)
    """Numeric and date columns: share of the real rows outside the found range or list."""
    lost_2: dict[str, float] = field(default_factory=dict)
    """Text columns: share of the values with at least 2% of the rows that do not occur in the release."""
    lost_1: dict[str, float] = field(default_factory=dict)
    means: dict[str, float] = field(default_factory=dict)
    """Skewed amounts: relative shift of the mean."""
    medians: dict[str, float] = field(default_factory=dict)
    tails: dict[str, float] = field(default_factory=dict)
    """Relative shift of the 90% quantile."""
    variation: dict[str, float] = field(default_factory=dict)
    """All columns: total variation."""
    correlations: dict[str, float] = field(default_factory=dict)
    """Strongly correlated pairs: shift of the rank correlation."""
    broken: dict[str, float] = field(default_factory=dict)
    """Dependencies: share of the synthetic rows that contradict the real table."""


def score_release(real: pa.Table, made: pa.Table, schema: Path, dependencies: Mapping[str, str]) -> RawScores:
    """Compare a release with the real rows."""
    found = tomllib.loads(schema.read_text(encoding="utf-8")).get("columns", {})
    scores, ranks = RawScores(), {}
    for name in real.column_names:
        pair = [decode_dictionary(table.column(name).combine_chunks()) for table in (real, made)]
        if found.get(name, {}).get("kind") == "id" or _differs_in_every_row(pair[0]):
            continue
        numbers = [_numbers(array) for array in pair]
        if numbers[0] is None:
            _score_text(scores, name, *pair)
            continue
        scores.outside[name] = _share_outside(numbers[0], found.get(name, {}))
        if numbers[1] is None:
            scores.variation[name] = 1.0
            continue
        _score_numbers(scores, name, numbers[0], numbers[1])
        ranks[name] = (numbers[0], numbers[1])
    for a, b in combinations(ranks, 2):
        wanted, got = (_correlation(ranks[a][i], ranks[b][i]) for i in (0, 1))
        if abs(wanted) >= STRONG:
            scores.correlations[f"{a}, {b}"] = abs(wanted - got)
    for given, target in dependencies.items():
        scores.broken[target] = _share_broken(real, made, given.split(","), target)
    return scores


def _differs_in_every_row(array: pa.Array) -> bool:
    return not pa.types.is_floating(array.type) and len(pc.unique(array)) == len(array)


def _numbers(array: pa.Array) -> Floats | None:
    """Return numbers, days or seconds; None for a text. Missing values are not numbers."""
    kind = array.type
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return None
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        array = array.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return None
    return np.asarray(array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def _share_outside(real: Floats, found: Mapping[str, Any]) -> float:
    present = real[~np.isnan(real)]
    if not len(present):
        return 0.0
    if "range" in found:
        low, high = (_place(end) for end in found["range"])
        special = [float(value) for value in found.get("special", ()) if isinstance(value, int | float)]
        return float(np.mean(((present < low) | (present > high)) & ~np.isin(present, special)))
    if isinstance(found.get("values"), list):
        return float(np.mean(~np.isin(present, [_number(value) for value in found["values"]])))
    return 0.0 if found.get("kind") in ("boolean", "constant") else 1.0


def _number(value: Any) -> float:
    try:
        return float(value)
    except ValueError:  # the word for values that are not listed
        return math.nan


def _place(end: Any) -> float:
    if isinstance(end, int | float):
        return float(end)
    text = str(end)
    moment = np.datetime64(
        text if "T" in text or " " in text else f"{text}T23:59:59" if text.endswith("12-31") else text
    )
    return float(moment.astype("datetime64[s]").astype(np.int64))


def _score_numbers(scores: RawScores, name: str, real: Floats, made: Floats) -> None:
    edges = np.unique(np.nanquantile(real, np.linspace(0, 1, CELLS + 1))) if np.isfinite(real).any() else np.zeros(1)
    cells = [
        np.bincount(np.where(np.isnan(v), 0, 1 + np.searchsorted(edges, v, side="right")), minlength=len(edges) + 2)
        for v in (real, made)
    ]
    scores.variation[name] = float(np.abs(cells[0] / len(real) - cells[1] / max(len(made), 1)).sum() / 2)
    present = [v[~np.isnan(v)] for v in (real, made)]
    if not len(present[0]) or not len(present[1]):
        return
    median, tail, far = np.quantile(present[0], [0.5, 0.9, 0.99])
    if far >= SKEWED * median >= 0 and present[0].mean() > 0:
        scores.means[name] = float(present[1].mean() / present[0].mean() - 1)
    spread = max(float(present[0].std()) / 10, 1e-12)
    for where, wanted, share in ((scores.medians, median, 0.5), (scores.tails, tail, 0.9)):
        got = np.quantile(present[1], share)
        where[name] = float(abs(got - wanted) / max(abs(wanted), spread))


def _score_text(scores: RawScores, name: str, real: pa.Array, made: pa.Array) -> None:
    both = [pc.value_counts(array.cast(pa.string())) for array in (real, made)]
    shares = [
        dict(zip(c.field("values").to_pylist(), (c.field("counts").to_numpy() / len(a)).tolist(), strict=True))
        for c, a in zip(both, (real, made), strict=True)
    ]
    values = shares[0].keys() | shares[1].keys()
    scores.variation[name] = sum(abs(shares[0].get(v, 0.0) - shares[1].get(v, 0.0)) for v in values) / 2
    for least, where in ((0.02, scores.lost_2), (0.01, scores.lost_1)):
        if common := [v for v, share in shares[0].items() if v is not None and share >= least]:
            where[name] = sum(v not in shares[1] for v in common) / len(common)


def _correlation(a: Floats, b: Floats) -> float:
    both = ~(np.isnan(a) | np.isnan(b))
    if both.sum() < 50:
        return 0.0
    ranks = [pc.rank(pa.array(v[both]), tiebreaker="dense").to_numpy().astype(float) for v in (a, b)]
    if min(r.std() for r in ranks) == 0:
        return 0.0
    return float(np.corrcoef(*ranks)[0, 1])


def _share_broken(real: pa.Table, made: pa.Table, given: list[str], target: str) -> float:
    """Return the share of synthetic rows whose target is not that of the real rows with the same given values.

    The sum or product of numeric columns is checked as such, since its values need not occur in the real table.
    """
    numbers = [_numbers(made.column(name).combine_chunks()) for name in (*given, target)]
    if len(given) > 1 and all(number is not None for number in numbers):
        *parts, total = (np.nan_to_num(number) for number in numbers if number is not None)
        wrong = np.minimum(np.abs(np.sum(parts, axis=0) - total), np.abs(np.prod(parts, axis=0) - total))
        return float(np.mean(wrong > 0.011))
    names = [*given, target]
    known = pa.table({n: real.column(n).cast(pa.string()) for n in names}).group_by(names).aggregate([])
    found = (
        pa.table({n: made.column(n).cast(pa.string()) for n in names}).group_by(names).aggregate([([], "count_all")])
    )
    right = found.join(known, keys=names, join_type="left semi")
    return 1 - float(sum(right.column("count_all").to_pylist())) / max(len(made), 1)


def worst(values: Mapping[str, float]) -> float:
    """Return the largest absolute value; not a number if there is none."""
    return max((abs(value) for value in values.values()), default=math.nan)
