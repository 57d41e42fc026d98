"""What a range of counts covers, and what it does not, in words."""

from __future__ import annotations

from collections.abc import Sequence

from weft.marginals.domain import Clique
from weft.release.modelfile import Fitted
from weft.words import counted as number

FREE = "These counts may be released: they follow from what was released before, and cost no budget."


def measured(fitted: Fitted) -> str:
    """Say what a range of combined tables means."""
    return (
        "Measured: these columns were counted together, with noise, and every released table that tells of them takes "
        f"part. The range holds the exact count of {_rows(fitted)} in about 95 of 100 cells."
    )


def expected(fitted: Fitted, records: int, missing: Sequence[Clique]) -> str:
    """Say what a range around a model's expectation means."""
    if fitted.model.fixed_records:
        return (
            "These are counts of the records that were released, as many as were asked for: they are not scaled to the "
            "private table, and no range is known for it."
        )
    drawn = f", and of the {number(records, 'synthetic row')} that were counted" if records else ""
    if not fitted.released:
        return (
            "From the model: its file does not keep the tables that were released, so that no range can be given for "
            "the noise in them. Fit the model again with this version."
        )
    single = [name for term in missing if len(term) == 1 for name in term]
    alone = f" Nothing that was measured tells of {', '.join(single)} in this form." if single else ""
    together = max((len(term) for term in missing), default=0) > 1
    what = (
        "these columns were not counted together"
        if together
        else "what is asked lies across the bins in which these columns were counted"
    )
    return (
        f"From the model: {what}. The range covers the noise of what was measured of them{drawn}. It does not cover "
        f"what the model assumes where nothing was measured, so the exact count may well lie outside.{alone}"
    )


def counted(fitted: Fitted, made: int) -> str:
    """Say what a range of counted rows means."""
    if fitted.model.fixed_records:
        return expected(fitted, made, ())
    return (
        f"From {number(made, 'synthetic row')}, counted and scaled to the noisy number of rows: what is asked is not "
        "told by the codes that were measured. The range covers the chance of drawing these rows, and neither the "
        "noise in the model nor what it assumes: the exact count may well lie outside."
    )


def random(columns: Sequence[str]) -> str:
    """Say what counts by columns mean that nothing was asked about."""
    verb = "was" if len(columns) == 1 else "were"
    return (
        f"{', '.join(columns)} {verb} made at random, as the plan of marginals says: these counts tell nothing of the "
        "private table, and the range is as wide as it."
    )


def _rows(fitted: Fitted) -> str:
    """Say of which rows a count is."""
    if fitted.schema.unit is None:
        return "the private table"
    most = number(fitted.schema.rows_per_unit, "row")
    return f'the private rows that were used (at most {most} for each "{fitted.schema.unit}")'
