"""The summary in plain words: headline figures with what they mean, and what to be careful with."""

from __future__ import annotations

from collections.abc import Sequence

from weft.evaluate import Coverage
from weft.report.figures import (
    Caution,
    ColumnFigures,
    Headline,
    MarginalFigures,
    PairFigures,
    Prediction,
    Questions,
)

FAR = 0.05
"""Columns farther apart than this are named in the summary."""
FAR_PAIR = 0.10
"""Pairs farther apart than this are."""
CHANGED = 0.10
"""And pairs whose association changed by more than this."""
MOST = 6


def percent(share: float) -> str:
    """Write a share as a percentage of three digits at most.

    >>> percent(0.99871), percent(0.05), percent(0.00042)
    ('99.9%', '5.0%', '0.042%')
    """
    if share == 0 or share >= 0.01:
        return f"{share:.1%}" if share < 0.9995 or share == 1 else f"{share:.2%}"
    return f"{100 * share:.2g}%"


def against_real(
    columns: Sequence[ColumnFigures],
    pairs: Sequence[PairFigures],
    questions: Questions,
    rare: Coverage,
    predictions: Sequence[Prediction],
) -> tuple[Headline, ...]:
    """Five figures of the curator's edition."""
    one = _mean([column.distance for column in columns])
    two = _mean([pair.distance for pair in pairs if pair.distance is not None])
    found, all_rare = int(rare.found.sum()), int(rare.rare.sum())
    return (
        Headline(
            "Single columns",
            f"{percent(1 - one)} alike",
            1 - one,
            f"On average {percent(one)} of the rows would have to take another value in a column for its distribution "
            "to be exactly the private one.",
        ),
        Headline(
            "Pairs of columns",
            f"{percent(1 - two)} alike",
            1 - two,
            f"The same for two columns together: {percent(two)} of the rows would have to move. This is where broken "
            "relations show.",
        ),
        Headline(
            "Counting questions",
            f"off by {percent(questions.error)}",
            questions.error,
            f"Asked {questions.count:,} times how many rows lie in random ranges of three columns, the synthetic "
            f"table is off by {percent(questions.error)} of all rows on average, {percent(questions.worst)} at worst.",
        ),
        Headline(
            "Rare values",
            f"{percent(rare.share)} kept",
            rare.share,
            f"{found:,} of the {all_rare:,} values that at most one private row in a hundred has still occur. Rare "
            "values are what noise blurs first."
            if all_rare
            else "No value of the private table is rarer than one row in a hundred.",
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
    )


def _changed_relations(pairs: Sequence[PairFigures]) -> Headline:
    change = _mean([abs(pair.association_synth - (pair.association or 0.0)) for pair in pairs])
    return Headline(
        "Relations",
        f"{change:.3f} changed",
        change,
        "Cramer's V, from 0 (two columns have nothing to do with each other) to 1, changed by this much on "
        "average over all pairs.",
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
        ),
        Headline(
            "Noise in a marginal",
            percent(_mean([m.noise for m in joint])),
            _mean([m.noise for m in joint]),
            f"The same for the {len(joint):,} tables over several columns that were measured."
            if any(len(m.columns) > 1 for m in marginals)
            else "Only single columns were measured.",
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
        ),
        Headline(
            "Values lost in noise",
            f"{drowned:,} of {values:,}",
            drowned / values if values else 0.0,
            "Values and bins so rare that the noise could have made their counts. Whether they occur, and how often, "
            "says nothing.",
        ),
    )


def cautions_against_real(columns: Sequence[ColumnFigures], pairs: Sequence[PairFigures]) -> tuple[Caution, ...]:
    """Name the columns and pairs whose figures are far off, worst first."""
    far = sorted((c for c in columns if c.distance > FAR), key=lambda c: -c.distance)[:MOST]
    made = [Caution((c.name,), f"{percent(c.distance)} of the rows are misplaced{_cause(c)}") for c in far]
    changed = sorted(pairs, key=lambda p: -abs(_change(p)))[:MOST]
    made += [Caution(p.columns, _relation(p)) for p in changed if abs(_change(p)) > CHANGED]
    told = {caution.columns for caution in made}
    # A pair with a column that is off by itself is off too: that is told already.
    off = {c.name for c in columns if c.distance > FAR}
    wide = sorted(
        (p for p in pairs if (p.distance or 0) > FAR_PAIR and not off & set(p.columns)),
        key=lambda p: -(p.distance or 0),
    )
    made += [
        Caution(p.columns, f"{percent(p.distance or 0)} of the rows are misplaced")
        for p in wide[:MOST]
        if p.columns not in told
    ]
    return tuple(made)


def cautions_against_model(columns: Sequence[ColumnFigures], pairs: Sequence[PairFigures]) -> tuple[Caution, ...]:
    """Name the columns that noise blurs, and those whose relations nobody asked about."""
    noisy = sorted((c for c in columns if (c.noise or 0) > FAR), key=lambda c: -(c.noise or 0))[:MOST]
    made = [
        Caution((c.name,), f"noise alone is expected to misplace {percent(c.noise or 0)} of its rows") for c in noisy
    ]
    related = {name for pair in pairs if pair.measured for name in pair.columns}
    alone = tuple(column.name for column in columns if column.name not in related)
    if alone and len(columns) > 1:
        made.append(Caution(alone, "no relation to any other column was measured: do not cross-tabulate"))
    return tuple(made)


def _cause(column: ColumnFigures) -> str:
    if column.noise is None:
        return ""
    within = column.distance <= 1.5 * column.noise
    return f"; noise alone explains {percent(column.noise)}" + ("" if within else ", the model the rest")


def _change(pair: PairFigures) -> float:
    return pair.association_synth - (pair.association or 0.0)


def _relation(pair: PairFigures) -> str:
    way = "weaker" if _change(pair) < 0 else "stronger"
    return f"their relation is {way}: {pair.association or 0:.2f} became {pair.association_synth:.2f} (Cramer's V)"


def _mean(figures: Sequence[float]) -> float:
    return sum(figures) / len(figures) if figures else 0.0
