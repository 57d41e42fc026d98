"""The summary in plain words: how figures are written, and the headlines with what they mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median

from weft.evaluate import Coverage
from weft.report.figures import (
    ColumnFigures,
    Headline,
    MarginalFigures,
    PairFigures,
    Prediction,
    Questions,
)
from weft.words import counted

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)

Figures = Mapping[tuple[str, ...], float]
"""A figure for each of some columns, pairs or marginals."""


def percent(share: float) -> str:
    """Write a share as a percentage of three digits at most.

    >>> percent(0.99871), percent(0.05), percent(0.00042)
    ('99.9%', '5.0%', '0.042%')
    """
    if share == 0 or share >= 0.01:
        return f"{share:.1%}" if share < 0.9995 or share == 1 else f"{share:.2%}"
    return f"{100 * share:.2g}%"


def number(value: float) -> str:
    """Write a number to four digits, or to the unit where it is larger.

    >>> number(1234567.8), number(12.3456), number(0.5)
    ('1,234,568', '12.35', '0.5')
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def rounded(grain: float) -> str:
    """Name the numbers that are multiples of a grain.

    >>> rounded(1.0), rounded(1000.0)
    ('whole numbers', 'multiples of 1,000')
    """
    return "whole numbers" if grain == 1 else f"multiples of {number(grain)}"


def moment(seconds: float) -> str:
    """Write the day of a moment.

    >>> moment(1704067200.0)
    '2024-01-01'
    """
    try:
        return (datetime(1970, 1, 1) + timedelta(seconds=seconds)).date().isoformat()
    except OverflowError:
        return number(seconds)


def against_real(
    columns: Sequence[ColumnFigures],
    pairs: Sequence[PairFigures],
    questions: Questions,
    rare: Coverage,
    predictions: Sequence[Prediction],
) -> tuple[Headline, ...]:
    """Five figures of the curator's edition."""
    single: Figures = {(column.name,): column.distance for column in columns}
    joint: Figures = {pair.columns: pair.distance for pair in pairs if pair.distance is not None}
    kept = {c: 1 - f / r for c, r, f in zip(rare.cliques, rare.rare.tolist(), rare.found.tolist(), strict=True) if r}
    one, two = _mean(list(single.values())), _mean(list(joint.values()))
    found, all_rare = int(rare.found.sum()), int(rare.rare.sum())
    return (
        Headline(
            "Single columns",
            f"{percent(1 - one)} alike",
            1 - one,
            f"On average {percent(one)} of the rows would have to take another value in a column for its distribution "
            f"to be exactly the private one.{_flattered(columns)}",
            *_alike(single),
        ),
        Headline(
            "Pairs of columns",
            f"{percent(1 - two)} alike",
            1 - two,
            f"The same for two columns together: {percent(two)} of the rows would have to move. This is where broken "
            "relations show.",
            *_alike(joint),
        ),
        Headline(
            "Counting questions",
            f"off by {percent(questions.error)}",
            questions.error,
            f"Asked {questions.count:,} times how many rows lie in random ranges of three columns, the synthetic "
            f"table is off by {percent(questions.error)} of all rows on average.",
            *_off(questions),
        ),
        Headline(
            "Rare values",
            f"{percent(rare.share)} kept",
            rare.share,
            f"{found:,} of the {all_rare:,} values that at most one private row in a hundred has still occur. Rare "
            "values are what noise blurs first."
            if all_rare
            else "No value of the private table is rarer than one row in a hundred.",
            *_alike(kept, "kept"),
        ),
        _predicted(predictions) if predictions else _changed_relations(pairs),
    )


def _predicted(predictions: Sequence[Prediction]) -> Headline:
    synth, real, majority = (_mean([getattr(p, which) for p in predictions]) for which in ("synth", "real", "majority"))
    return Headline(
        "Predictions",
        f"{synth:.0%} right",
        synth,
        f"Classifiers trained on synthetic rows are right {synth:.0%} of the time about real rows. Trained on "
        f"real rows they reach {real:.0%}; always saying the most frequent value gives {majority:.0%}.",
        *_lost(predictions),
    )


def _changed_relations(pairs: Sequence[PairFigures]) -> Headline:
    changes: Figures = {pair.columns: abs(pair.change) for pair in pairs}
    change = _mean(list(changes.values()))
    return Headline(
        "Relations",
        f"{change:.3f} changed",
        change,
        "Cramer's V, from 0 (two columns have nothing to do with each other) to 1, changed by this much on "
        "average over all pairs.",
        *_spread(changes, "{:.3f}".format),
    )


def against_model(
    columns: Sequence[ColumnFigures],
    pairs: Sequence[PairFigures],
    marginals: Sequence[MarginalFigures],
    drowned: int,
    values: int,
) -> tuple[Headline, ...]:
    """Five figures of the releasable edition."""
    asked = sum(pair.measured for pair in pairs)
    noise = _mean([column.noise for column in columns if column.noise is not None])
    joint = [m for m in marginals if len(m.columns) > 1] or list(marginals)
    follows = _mean([column.distance for column in columns])
    return (
        Headline(
            "Noise in a column",
            percent(noise),
            noise,
            f"The privacy noise alone is expected to put {percent(noise)} of the rows of a column into another value "
            "than the private table has.",
            *_spread({(c.name,): c.noise for c in columns if c.noise is not None}, percent),
        ),
        Headline(
            "Noise in a marginal",
            percent(_mean([m.noise for m in joint])),
            _mean([m.noise for m in joint]),
            f"The same for the {len(joint):,} tables over several columns that were measured."
            if any(len(m.columns) > 1 for m in marginals)
            else "Only single columns were measured.",
            *_spread({m.columns: m.noise for m in joint}, percent),
        ),
        Headline(
            "Pairs measured",
            f"{asked:,} of {len(pairs):,}",
            asked / len(pairs) if pairs else 0.0,
            "Pairs of columns that some noisy table holds together. A relation between two others is in the synthetic "
            "table only as far as it follows from these.",
        ),
        Headline(
            "Rows and model",
            f"{percent(1 - follows)} alike",
            1 - follows,
            f"The synthetic rows follow the noisy model: on average {percent(follows)} of them would have to move in a "
            "column to match it exactly.",
            *_alike({(column.name,): column.distance for column in columns}),
        ),
        Headline(
            "Values lost in noise",
            f"{drowned:,} of {values:,}",
            drowned / values if values else 0.0,
            "Values and bins so rare that the noise could have made their counts. Whether they occur, and how often, "
            "says nothing.",
        ),
    )


Spread = tuple[float | None, float | None, tuple[str, ...], str]
"""Median, worst, whose it is, and both in words: the last fields of a headline."""


def _spread(figures: Figures, write: Callable[[float], str]) -> Spread:
    """Return the median and the worst, which is the largest."""
    if len(figures) < 2:
        return None, None, (), ""
    worst = max(figures, key=lambda name: figures[name])
    middle, most = median(figures.values()), figures[worst]
    if most == min(figures.values()):  # nobody is worse than others
        return middle, most, (), ""
    return middle, most, worst, f"median {write(middle)}, worst {write(most)} ({_by(worst)})"


def _alike(distances: Figures, word: str = "alike") -> Spread:
    """Return the same of shares that agree: the worst is the smallest."""
    middle, worst, whose, told = _spread(distances, lambda distance: f"{percent(1 - distance)} {word}")
    return None if middle is None else 1 - middle, None if worst is None else 1 - worst, whose, told


def _off(questions: Questions) -> Spread:
    middle = median(abs(a - b) for a, b in zip(questions.reference, questions.synth, strict=True))
    return middle, questions.worst, (), f"median {percent(middle)}, worst {percent(questions.worst)}"


def _lost(predictions: Sequence[Prediction]) -> Spread:
    """Return the median of what is right, and the column of which least of what can be learned was."""
    worst = max(predictions, key=lambda p: p.real - p.synth)
    middle = median(p.synth for p in predictions)
    told = f"median {middle:.0%}; most is lost for {worst.target}: {worst.synth:.0%}, from real rows {worst.real:.0%}"
    return middle, worst.synth, (worst.target,), told


def _flattered(columns: Sequence[ColumnFigures]) -> str:
    same = sum(column.constant for column in columns)
    if not same:
        return ""
    told = "has" if same == 1 else "have"
    return f" {counted(same, 'column')} {told} nearly one value only, which flatters the mean."


def _by(names: tuple[str, ...]) -> str:
    return " \N{MULTIPLICATION SIGN} ".join(names) or "number of rows"


def _mean(figures: Sequence[float]) -> float:
    return sum(figures) / len(figures) if figures else 0.0
