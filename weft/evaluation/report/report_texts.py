"""Texts of the report's summary: formatted figures, and headlines with their explanations."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache, partial
from importlib.resources import files
from statistics import median
from typing import Any

from weft.display import format_count
from weft.evaluation.metrics import Coverage
from weft.evaluation.report.report_figures import (
    ColumnFigures,
    Headline,
    MarginalFigures,
    PairFigures,
    Prediction,
    Questions,
)

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)

Figures = Mapping[tuple[str, ...], float]
Spread = tuple[float | None, float | None, tuple[str, ...], str]
"""Median, worst figure, the attributes with the worst figure, and a text: the last fields of a headline."""


def format_share(share: float) -> str:
    """Format a share as a percentage with at most three digits.

    >>> format_share(0.99871), format_share(0.05), format_share(0.00042)
    ('99.9%', '5.0%', '0.042%')
    """
    if share == 0 or share >= 0.01:
        return f"{share:.1%}" if share < 0.9995 or share == 1 else f"{share:.2%}"
    return f"{100 * share:.2g}%"


def format_figure(value: float) -> str:
    """Format a number with four significant digits, or as an integer if it is larger.

    >>> format_figure(1234567.8), format_figure(12.3456), format_figure(0.5)
    ('1,234,568', '12.35', '0.5')
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def name_round_numbers(grain: float) -> str:
    """Describe the multiples of a grain.

    >>> name_round_numbers(1.0), name_round_numbers(1000.0)
    ('whole numbers', 'multiples of 1,000')
    """
    return "whole numbers" if grain == 1 else f"multiples of {format_figure(grain)}"


def format_day(seconds: float) -> str:
    """Format a time, in seconds since 1970, as its date.

    >>> format_day(1704067200.0)
    '2024-01-01'
    """
    try:
        return (datetime(1970, 1, 1) + timedelta(seconds=seconds)).date().isoformat()
    except OverflowError:
        return format_figure(seconds)


def against_real(
    columns: Sequence[ColumnFigures],
    pairs: Sequence[PairFigures],
    questions: Questions,
    values: tuple[Coverage, Mapping[str, tuple[int, int]]],
    predictions: Sequence[Prediction],
) -> tuple[Headline, ...]:
    """Return the five headlines of the private edition."""
    write = partial(_write_headline, "private")
    single: Figures = {(column.name,): column.distance for column in columns}
    joint: Figures = {pair.columns: pair.distance for pair in pairs if pair.distance is not None}
    rare, gone = values  # values that share a code are counted by themselves
    each = {c: (f, r + gone.get(c[0], (0, 0))[1]) for c, r, f in zip(rare.cliques, rare.rare, rare.found, strict=True)}
    kept = {c: 1 - f / r for c, (f, r) in each.items() if r}
    one, two = _compute_mean(list(single.values())), _compute_mean(list(joint.values()))
    found, every = (int(sum(counts)) for counts in zip(*each.values(), strict=True))
    share, off = found / every if every else 1.0, format_share(questions.error)
    said, warned = _summarise_agreement(single), _warn_constant_columns(columns)
    return (
        write("columns", f"{format_share(1 - one)} alike", 1 - one, said, share=format_share(one), constant=warned),
        write("pairs", f"{format_share(1 - two)} alike", 1 - two, _summarise_agreement(joint), share=format_share(two)),
        write("questions", f"off by {off}", questions.error, _summarise_range_queries(questions), share=off,
              count=questions.count),
        write("rare" if every else "common", f"{format_share(share)} kept", share, _summarise_agreement(kept, "kept"),
              found=found, rare=every),
        _summarise_predictions(predictions) if predictions else _summarise_relations(pairs),
    )  # fmt: skip


def _write_headline(edition: str, key: str, figure: str, value: float, spread: Spread | None, **told: Any) -> Headline:
    """Return a headline with its explanation, which names the figures `told`."""
    texts = _read_texts()[edition][key]
    return Headline(texts["name"], figure, value, texts["meaning"].format(**told), *(spread or ()))


@lru_cache
def _read_texts() -> dict[str, dict[str, dict[str, str]]]:
    return tomllib.loads((files(__package__) / "headlines.toml").read_text(encoding="utf-8"))


def _summarise_predictions(predictions: Sequence[Prediction]) -> Headline:
    told = {name: _compute_mean([getattr(p, name) for p in predictions]) for name in ("synth", "real", "majority")}
    spread, accuracy = _summarise_prediction_loss(predictions), told["synth"]
    return _write_headline("private", "predictions", f"{accuracy:.0%} accuracy", accuracy, spread, **told)


def _summarise_relations(pairs: Sequence[PairFigures]) -> Headline:
    changes: Figures = {pair.columns: abs(pair.change) for pair in pairs}
    change, spread = _compute_mean(list(changes.values())), _summarise_distances(changes, "{:.3f}".format)
    return _write_headline("private", "relations", f"{change:.3f} changed", change, spread)


def against_model(
    columns: Sequence[ColumnFigures],
    pairs: Sequence[PairFigures],
    marginals: Sequence[MarginalFigures],
    drowned: int,
    values: int,
) -> tuple[Headline, ...]:
    """Return the five headlines of the releasable edition."""
    write = partial(_write_headline, "releasable")
    asked = sum(pair.measured for pair in pairs)
    alone: Figures = {(column.name,): column.noise for column in columns if column.noise is not None}
    several = [m for m in marginals if len(m.columns) > 1]
    joint: Figures = {m.columns: m.noise for m in several or marginals}
    noise, spread = _compute_mean(list(alone.values())), _summarise_distances(alone, format_share)
    together, follows = _compute_mean(list(joint.values())), _compute_mean([column.distance for column in columns])
    near = _summarise_agreement({(column.name,): column.distance for column in columns})
    return (
        write("columns", format_share(noise), noise, spread, share=format_share(noise)),
        write("marginals" if several else "one_way", format_share(together), together,
              _summarise_distances(joint, format_share), measured=format_count(len(several), "measured marginal")),
        write("pairs", f"{asked:,} of {len(pairs):,}", asked / len(pairs) if pairs else 0.0, None),
        write("rows", f"{format_share(1 - follows)} alike", 1 - follows, near, share=format_share(follows)),
        write("lost", f"{drowned:,} of {values:,}", drowned / values if values else 0.0, None),
    )  # fmt: skip


def _summarise_distances(figures: Figures, write: Callable[[float], str]) -> Spread:
    """Return the median and the worst figure, which is the largest."""
    if len(figures) < 2:
        return None, None, (), ""
    worst = max(figures, key=lambda name: figures[name])
    middle, most = median(figures.values()), figures[worst]
    if most == min(figures.values()):  # all are equal
        return middle, most, (), ""
    name = " \N{MULTIPLICATION SIGN} ".join(worst) or "number of rows"
    return middle, most, worst, f"median {write(middle)}, worst {write(most)} ({name})"


def _summarise_agreement(distances: Figures, word: str = "alike") -> Spread:
    """Return the median and the worst of similarities (1 - distance), which is the smallest."""
    middle, worst, whose, told = _summarise_distances(
        distances, lambda distance: f"{format_share(1 - distance)} {word}"
    )
    return None if middle is None else 1 - middle, None if worst is None else 1 - worst, whose, told


def _summarise_range_queries(questions: Questions) -> Spread:
    middle = median(abs(a - b) for a, b in zip(questions.reference, questions.synth, strict=True))
    return middle, questions.worst, (), f"median {format_share(middle)}, worst {format_share(questions.worst)}"


def _summarise_prediction_loss(predictions: Sequence[Prediction]) -> Spread:
    """Return the median accuracy, and the attribute with the largest loss of accuracy."""
    worst = max(predictions, key=lambda p: p.real - p.synth)
    middle = median(p.synth for p in predictions)
    told = f"median {middle:.0%}; largest loss for {worst.target}: {worst.synth:.0%}, from real rows {worst.real:.0%}"
    return middle, worst.synth, (worst.target,), told


def _warn_constant_columns(columns: Sequence[ColumnFigures]) -> str:
    same = sum(column.constant for column in columns)
    if not same:
        return ""
    verb = "is" if same == 1 else "are"
    return f" {format_count(same, 'column')} {verb} nearly constant, which improves this mean."


def _compute_mean(figures: Sequence[float]) -> float:
    return sum(figures) / len(figures) if figures else 0.0
