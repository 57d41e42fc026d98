"""Texts of the report's summary: formatted figures, and headlines with their explanations."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median

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
    single: Figures = {(column.name,): column.distance for column in columns}
    joint: Figures = {pair.columns: pair.distance for pair in pairs if pair.distance is not None}
    rare, gone = values  # values that share a code are counted by themselves
    each = {c: (f, r + gone.get(c[0], (0, 0))[1]) for c, r, f in zip(rare.cliques, rare.rare, rare.found, strict=True)}
    kept = {c: 1 - f / r for c, (f, r) in each.items() if r}
    one, two = _compute_mean(list(single.values())), _compute_mean(list(joint.values()))
    found, all_rare = (int(sum(counts)) for counts in zip(*each.values(), strict=True))
    return (
        Headline(
            "Single columns",
            f"{format_share(1 - one)} alike",
            1 - one,
            f"On average, {format_share(one)} of the rows would have to change their value in a column to reproduce "
            f"its private distribution exactly.{_warn_constant_columns(columns)}",
            *_summarise_agreement(single),
        ),
        Headline(
            "Pairs of columns",
            f"{format_share(1 - two)} alike",
            1 - two,
            f"The same for two attributes together: {format_share(two)} of the rows would have to change. Lost "
            "relations increase this share.",
            *_summarise_agreement(joint),
        ),
        Headline(
            "Counting questions",
            f"off by {format_share(questions.error)}",
            questions.error,
            f"Over {questions.count:,} random range queries on three attributes, the count in the synthetic table is "
            f"off by {format_share(questions.error)} of all rows on average.",
            *_summarise_range_queries(questions),
        ),
        Headline(
            "Rare values",
            f"{format_share(found / all_rare if all_rare else 1.0)} kept",
            found / all_rare if all_rare else 1.0,
            f"{found:,} of the {all_rare:,} values that occur in at most 1% of the private rows still occur. Noise "
            "affects rare values first."
            if all_rare
            else "Every value of the private table occurs in more than 1% of its rows.",
            *_summarise_agreement(kept, "kept"),
        ),
        _summarise_predictions(predictions) if predictions else _summarise_relations(pairs),
    )


def _summarise_predictions(predictions: Sequence[Prediction]) -> Headline:
    synth, real, majority = (
        _compute_mean([getattr(p, which) for p in predictions]) for which in ("synth", "real", "majority")
    )
    return Headline(
        "Predictions",
        f"{synth:.0%} accuracy",
        synth,
        f"Classifiers trained on synthetic rows reach an accuracy of {synth:.0%} on real rows. Trained on real rows, "
        f"they reach {real:.0%}; always predicting the most frequent value gives {majority:.0%}.",
        *_summarise_prediction_loss(predictions),
    )


def _summarise_relations(pairs: Sequence[PairFigures]) -> Headline:
    changes: Figures = {pair.columns: abs(pair.change) for pair in pairs}
    change = _compute_mean(list(changes.values()))
    return Headline(
        "Relations",
        f"{change:.3f} changed",
        change,
        "Mean absolute change of Cramer's V over all pairs, from 0 (independent) to 1 (one determines the other).",
        *_summarise_distances(changes, "{:.3f}".format),
    )


def against_model(
    columns: Sequence[ColumnFigures],
    pairs: Sequence[PairFigures],
    marginals: Sequence[MarginalFigures],
    drowned: int,
    values: int,
) -> tuple[Headline, ...]:
    """Return the five headlines of the releasable edition."""
    asked = sum(pair.measured for pair in pairs)
    noise = _compute_mean([column.noise for column in columns if column.noise is not None])
    joint = [m for m in marginals if len(m.columns) > 1] or list(marginals)
    follows = _compute_mean([column.distance for column in columns])
    return (
        Headline(
            "Noise in a column",
            format_share(noise),
            noise,
            f"The privacy noise alone is expected to misplace {format_share(noise)} of the rows of a column, compared "
            "with the private table.",
            *_summarise_distances({(c.name,): c.noise for c in columns if c.noise is not None}, format_share),
        ),
        Headline(
            "Noise in a marginal",
            format_share(_compute_mean([m.noise for m in joint])),
            _compute_mean([m.noise for m in joint]),
            f"The same for the {format_count(len(joint), 'measured marginal')} over several attributes."
            if any(len(m.columns) > 1 for m in marginals)
            else "Only one-way marginals were measured.",
            *_summarise_distances({m.columns: m.noise for m in joint}, format_share),
        ),
        Headline(
            "Pairs measured",
            f"{asked:,} of {len(pairs):,}",
            asked / len(pairs) if pairs else 0.0,
            "Attribute pairs that a measured marginal contains. Relations between other attributes are preserved only "
            "as far as they follow from these.",
        ),
        Headline(
            "Rows and model",
            f"{format_share(1 - follows)} alike",
            1 - follows,
            f"The synthetic rows follow the noisy model: on average, {format_share(follows)} of them would have to "
            "change their value in a column to match it exactly.",
            *_summarise_agreement({(column.name,): column.distance for column in columns}),
        ),
        Headline(
            "Values lost in noise",
            f"{drowned:,} of {values:,}",
            drowned / values if values else 0.0,
            "Values and bins so rare that noise alone can explain their counts. Whether they occur, and how often, "
            "carries no information.",
        ),
    )


Spread = tuple[float | None, float | None, tuple[str, ...], str]
"""Median, worst figure, the attributes with the worst figure, and a text: the last fields of a headline."""


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
