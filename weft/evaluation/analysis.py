"""Estimates from a released table with intervals that cover its total error, from replicates (`weft.synthesis`).

Let T be a statistic, S the released table, D the private one, and P_i and S_i the parent and replicate tables. S_i was
released from P_i as S was from D, so the errors e_i = T(S_i) - T(P_i) estimate the distribution of T(S) - T(D): noise,
selection, the model and sampling together. With mean b and standard deviation s of n errors, the bias-corrected
estimate is T(S) - b, and its interval is a prediction interval for one more error of the same distribution:

    T(S) - b -+ t_(n-1) sqrt(s^2 (1 + 1/n) + (2 b)^2)

The last term is there because b comes from a model that has the bias already: a relation that the release shrinks by a
factor k is shrunk by k again in a replicate, so that b is k times the bias, and the correction leaves (1/k - 1) b of
it, which is at most 2 b for k of at least 1/3. For the population from which the private rows were drawn, the error is
T(S) - T(population), and s is the standard deviation of T(S_i), which includes the drawing of the parents.

Privacy: released tables and replicates are read only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import expit
from scipy.stats import t as student

from weft.encoding import Codec
from weft.errors import DataError, MethodError, WeftError
from weft.marginals.marginal import Array
from weft.release.verification import read_card_beside, reread_release
from weft.schema.rules.conditions import all_hold, read_where
from weft.synthesis.replicates import Replicates, identify_fit
from weft.values.storage import decode_dictionary

Target = Literal["table", "population"]
TARGETS: dict[Target, str] = {
    "table": "the private table (its rows are all that is of interest)",
    "population": "the population from which the rows of the private table were drawn independently",
}

FORM = (
    'write "mean(COLUMN)", "median(COLUMN)", "quantile(COLUMN, 0.9)" or "share(CONDITION)", each with or without '
    '" by COLUMN", or a regression such as "income ~ age + sex"'
)
_CALL = re.compile(r"\s*(mean|median|quantile|share)\s*\((.*)\)\s*(?:by\s+(\S.*?))?\s*")
MAX_LEVELS = 50
BIAS_FACTOR = 2.0
"""Bias that may be left after correction, in multiples of the correction; chosen by `weft bench coverage --choose`."""
ROW_TOLERANCE = 0.2
"""Relative difference in rows between the release and its replicates, above which their sampling errors differ."""


@dataclass(frozen=True)
class Estimate:
    """An estimate with its interval."""

    name: str
    released: float
    """Value in the released table."""
    estimate: float
    """The same, corrected for bias."""
    standard_error: float
    low: float
    high: float


@dataclass(frozen=True)
class Analysis:
    """Estimates of a statistic, what they refer to, and what is wrong with them."""

    statistic: str
    target: Target
    estimates: tuple[Estimate, ...]
    warnings: tuple[str, ...]
    replicates: int
    level: float

    @property
    def meaning(self) -> str:
        """What the intervals refer to."""
        return (
            f"{self.level:.0%} intervals for {TARGETS[self.target]}, from {self.replicates} replicates of the release. "
            "They include privacy noise, selection, model and sampling."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; NaN becomes None."""
        rows = [
            {key: None if value != value else value for key, value in asdict(each).items()} for each in self.estimates
        ]
        return asdict(self) | {"estimates": rows, "meaning": self.meaning}


def analyse(
    release: Any,
    statistic: str | Callable[[Any], Any],
    replicates: Replicates | str | PathLike[str],
    *,
    target: Target = "table",
    level: float = 0.95,
) -> Analysis:
    """Estimate a statistic from a released table, with intervals that cover the error of the release.

    Args:
        release: the released table: a file with its card, or a data frame.
        statistic: "mean(age)", "share(sex = F) by ward", "quantile(cost, 0.9)", "income ~ age + sex", or a function of
            a table that returns a number, a mapping of names to numbers, or a pandas Series.
        replicates: `Synthesizer.replicates(n)`, or a folder made by `weft replicates`.
        target: "table" for intervals that cover the private table's value, "population" for that of its population.
        level: probability with which an interval should cover.
    """
    if target not in TARGETS or not 0.5 <= level < 1:
        raise MethodError("target must be table or population, and level at least 0.5 and below 1")
    made = replicates if isinstance(replicates, Replicates) else Replicates.read(Path(replicates))
    table, warnings = _open_release(release, made)
    tables = [table, *(each for pair in made.pairs for each in pair)]
    if callable(statistic):
        compute, label = _wrap(statistic, release), getattr(statistic, "__name__", "statistic")
    else:
        parsed = Question.parse(statistic, made, tables)
        compute, label = parsed.compute, statistic
        warnings += parsed.find_gaps()
    found = [compute(each) for each in tables]
    names = list(found[0])
    values = np.array([[each.get(name, np.nan) for name in names] for each in found], np.float64)
    errors, spread = values[2::2] - values[1::2], values[2::2]
    estimates = tuple(
        estimate_with_interval(
            name, values[0, i], errors[:, i], spread[:, i] if target == "population" else None, level
        )
        for i, name in enumerate(names)
    )
    lost = [each.name for i, each in enumerate(estimates) if np.isnan(errors[:, i]).any() or np.isnan(values[0, i])]
    if lost:
        warnings.append(f"Not defined in every replicate, so that the interval is unreliable: {', '.join(lost[:5])}.")
    return Analysis(label, target, estimates, tuple(warnings), len(made.pairs), level)


def estimate_with_interval(
    name: str, value: float, errors: Array, repeated: Array | None = None, level: float = 0.95
) -> Estimate:
    """Correct a value for bias and give it an interval; `repeated` are the replicates' values, for the population."""
    known = errors[~np.isnan(errors)]
    n = len(known)
    if n < 2:
        return Estimate(name, float(value), *[float("nan")] * 4)
    bias = float(known.mean())
    spread = float((known if repeated is None else repeated[~np.isnan(repeated)]).std(ddof=1))
    error = float(np.sqrt(spread**2 * (1 + 1 / n) + (BIAS_FACTOR * bias) ** 2))
    reach = float(student.ppf((1 + level) / 2, n - 1)) * error
    return Estimate(name, float(value), value - bias, error, value - bias - reach, value - bias + reach)


def _open_release(release: Any, made: Replicates) -> tuple[pa.Table, list[str]]:
    """Return the released table in the types of the replicates, and warnings; refuse another release's table."""
    warnings = list(made.facts["stamps"])
    if isinstance(release, str | PathLike):
        path = Path(release)
        card = read_card_beside(path)
        if card["table"]["conditions"]:
            raise DataError(f"{path}: a conditional sample does not represent the table. Analyse an unconditional one")
        if identify_fit(card["method"]["name"], card["method"]["options"], card["ledger"]) != made.facts["fit"]:
            raise DataError(f"{path}: the replicates are of another release. Make them from the model of this table")
        blocks = reread_release(path, made.codec, card["table"]["formulas"] == "escape")
        table = pa.concat_tables(block for block, _ in blocks)
    else:
        table = release if isinstance(release, pa.Table) else pa.table(release)
    expected = max(float(made.facts["expected_rows"]), 1.0)
    if abs(len(table) / expected - 1) > ROW_TOLERANCE:
        warnings.append(
            f"The table has {len(table):,} rows and a replicate about {expected:,.0f}: the intervals are for a table "
            "of that size. Make replicates with as many rows (--rows)."
        )
    return table, warnings


def _wrap(statistic: Callable[[Any], Any], release: Any) -> Callable[[pa.Table], dict[str, float]]:
    """Return a function of an Arrow table: the statistic is called with a frame of the type of the release."""
    kind = type(release).__module__.partition(".")[0]

    def compute(table: pa.Table) -> dict[str, float]:
        frame = import_module("polars").from_arrow(table) if kind == "polars" else table
        found = statistic(table.to_pandas() if kind == "pandas" else frame)
        pairs = found.items() if hasattr(found, "items") else [("value", found)]
        return {str(name): float(value) for name, value in pairs}

    return compute


@dataclass(frozen=True)
class Question:
    """A statistic that was given as text."""

    call: str
    """mean, quantile, share, ols or logit."""
    outcome: str
    """A column, or a condition of which the share or odds are estimated."""
    columns: tuple[str, ...]
    """Predictors, or the column of the groups."""
    made: Replicates
    codec: Codec
    levels: Mapping[str, Sequence[Any]]
    """Values of groups, predictors and outcome that are not numbers."""
    order: float = 0.5

    @classmethod
    def parse(cls, text: str, made: Replicates, tables: Sequence[pa.Table]) -> Question:
        """Read a statistic; MethodError if it is none, or names a column that the table does not have."""
        known, order = tables[0].column_names, "0.5"
        columns: tuple[str, ...]
        if found := _CALL.fullmatch(text):
            call, outcome, columns = found[1], found[2].strip(), (found[3],) if found[3] else ()
            if call == "quantile":
                outcome, _, order = (part.strip() for part in outcome.rpartition(","))
            call = "quantile" if call == "median" else call
        elif "~" in text:
            outcome, _, right = (part.strip() for part in text.partition("~"))
            columns = tuple(name.strip() for name in right.split("+"))
            call = "logit" if outcome not in known or _is_text(tables[0], outcome) else "ols"
        else:
            raise MethodError(f"{text!r} is not a statistic: {FORM}")
        if not re.fullmatch(r"0?\.\d+", order) or not float(order):
            raise MethodError(f"{text!r}: a quantile needs a share between 0 and 1, such as quantile(age, 0.9)")
        for name in (*columns, *(() if call in ("share", "logit") else (outcome,))):
            if name not in known:
                raise MethodError(f'{text!r}: there is no column "{name}". Columns are {", ".join(known)}')
        coded = [name for name in columns if call not in ("ols", "logit") or _is_text(tables[0], name)]
        coded += [outcome] if call == "logit" and outcome in known else []
        levels = {name: _list_levels(tables, name) for name in coded}
        if len(levels.get(outcome, "01")) != 2:
            raise MethodError(f'"{outcome}" has {len(levels[outcome])} values: name one, as in "{outcome} = VALUE ~"')
        return cls(call, outcome, columns, made, made.codec, levels, float(order))

    def compute(self, table: pa.Table) -> dict[str, float]:
        """Return the statistic by name."""
        outcome = self._find_outcome(table)
        if self.call in ("ols", "logit"):
            return self._regress(outcome, table)
        label = f"{self.call}{f' {self.order:g}' if self.call == 'quantile' else ''} of {self.outcome}"
        if not self.columns:
            return {label: self._summarise(outcome)}
        (group,) = self.columns
        parts = {level: self._summarise(outcome[_equals(table, group, level)]) for level in self.levels[group]}
        (first, base), *others = parts.items()
        found = {f"{label}, {group} = {level}": value for level, value in parts.items()}
        return found | {f"{group} = {level} minus {group} = {first}": value - base for level, value in others}

    def _find_outcome(self, table: pa.Table) -> Array:
        if self.outcome in self.levels:  # one of two values
            return 1.0 * _equals(table, self.outcome, self.levels[self.outcome][1])
        if self.call in ("share", "logit"):
            return 1.0 * all_hold(read_where(self.outcome, self.codec.readers), self.codec.block(table))
        return _numbers(table, self.outcome)

    def _summarise(self, values: Array) -> float:
        kept = values[~np.isnan(values)]
        if not len(kept):
            return float("nan")
        return float(np.quantile(kept, self.order) if self.call == "quantile" else kept.mean())

    def _regress(self, outcome: Array, table: pa.Table) -> dict[str, float]:
        terms: dict[str, Array] = {"intercept": np.ones(len(table))}
        kept = ~np.isnan(outcome)
        for name in self.columns:
            if name in self.levels:
                terms |= {f"{name} = {level}": 1.0 * _equals(table, name, level) for level in self.levels[name][1:]}
                kept &= np.asarray(table.column(name).is_valid().to_numpy())
            else:
                terms[name] = _numbers(table, name)
                kept &= ~np.isnan(terms[name])
        design = np.column_stack(list(terms.values()))[kept]
        used = design.any(axis=0)
        values = np.full(len(terms), np.nan)
        values[used] = (fit_ols if self.call == "ols" else fit_logit)(design[:, used], outcome[kept])
        return dict(zip(terms, values.tolist(), strict=True))

    def find_gaps(self) -> list[str]:
        """Warn of pairs of columns whose relation was never measured."""
        parts, measured = self.made.facts["attributes"], [set(clique) for clique in self.made.facts["measured"]]
        outcome = [self.outcome] if self.outcome in parts else dict(read_where(self.outcome, self.codec.readers))
        gaps = [
            f"{a} and {b}"
            for a, b in combinations(dict.fromkeys((*self.columns, *outcome)), 2)
            if parts[a] and parts[b] and not any(known & set(parts[a]) and known & set(parts[b]) for known in measured)
        ]
        if not gaps:
            return []
        return [
            f"Never measured together: {'; '.join(gaps)}. Their relation in the release follows from other columns, or "
            "from nothing: the intervals do not cover what it misses."
        ]


def fit_ols(design: Array, outcome: Array) -> Array:
    """Return the coefficients of least squares."""
    return np.asarray(np.linalg.lstsq(design, outcome, rcond=None)[0])


def fit_logit(design: Array, outcome: Array) -> Array:
    """Return the coefficients of logistic regression, by Newton's method; NaN if it does not converge (separation)."""
    scale = np.maximum(np.abs(design).max(axis=0), 1e-300)
    scaled, values = design / scale, np.zeros(design.shape[1])
    for _ in range(50):
        chance = expit(scaled @ values)
        weights = np.maximum(chance * (1 - chance), 1e-12)
        step = np.linalg.lstsq((scaled * weights[:, None]).T @ scaled, scaled.T @ (outcome - chance), rcond=None)[0]
        values = values + step
        if np.abs(step).max() < 1e-9:
            return np.asarray(values / scale)
    return np.full(len(values), np.nan)


def _plain(table: pa.Table, name: str) -> pa.Array:
    return decode_dictionary(table.column(name).combine_chunks())


def _is_text(table: pa.Table, name: str) -> bool:
    kind = _plain(table.slice(0, 1), name).type
    return not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _numbers(table: pa.Table, name: str) -> Array:
    if _is_text(table, name):
        raise WeftError(f'column "{name}" has no numbers: use share(CONDITION) or another column')
    values = _plain(table, name).cast(pa.float64(), safe=False).fill_null(float("nan"))
    return np.asarray(values.to_numpy(zero_copy_only=False), np.float64)


def _list_levels(tables: Sequence[pa.Table], name: str) -> list[Any]:
    """Return the values of a column in all tables, in order."""
    found = {value for table in tables for value in pc.unique(_plain(table, name)).to_pylist() if value is not None}
    if len(found) > MAX_LEVELS:
        raise MethodError(f'column "{name}" has {len(found)} values, too many for groups: choose another column')
    return sorted(found)


def _equals(table: pa.Table, name: str, level: Any) -> Array:
    values = _plain(table, name)
    same = pc.equal(values, pa.scalar(level, values.type)).fill_null(False)
    return np.asarray(same.to_numpy(zero_copy_only=False), bool)
