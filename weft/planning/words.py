"""A plan in sentences, for whoever decides about a budget and has read no paper."""

from __future__ import annotations

from weft.planning.plan import Plan
from weft.words import counted, percent

NOT_READ = "Nothing was read but the schema: the recipe was tried on made-up rows of the same columns."

ERRORS = (
    "An error is the share of rows that would have to change for a column (or a pair of columns) to be as in the "
    "private table; numbers and dates of many values are compared in 32 ranges. Tables differ: of single columns this "
    "is a guide, right within a half more or less; of pairs it is on the cautious side."
)


def sentences(plan: Plan) -> list[str]:
    """Say what to expect."""
    rows, here = counted(plan.rows, "row"), plan.here
    made = [f"With {rows} at epsilon {plan.epsilon:g}, {_band(plan)}"]
    if plan.target is not None:
        made.insert(0, f"Epsilon {plan.epsilon:g} is about what an error of {percent(plan.target)} in columns takes.")
    worst = max(here.columns, key=lambda name: here.columns[name])
    made.append(
        f"Of single columns, {percent(here.mean)} of the rows would be off on average; most of {worst}, "
        f"{percent(here.columns[worst])}."
    )
    if here.pair_noise:
        made.append(f"Of pairs of columns, {percent(here.pairs)} would be off on average.")
        made.append(_pairs(plan))
    return made


def _band(plan: Plan) -> str:
    low, high = plan.share_band
    if not high - low < 0.6:
        return "the noise would drown the shares of a column: raise epsilon, or take fewer columns."
    return f"a share of 30% of a column would come out between {percent(low)} and {percent(high)}."


def _pairs(plan: Plan) -> str:
    pairs, told = len(plan.here.pair_noise), len(plan.told)
    size = "a relation that moves one row in ten would stand out"
    if told == pairs:
        return f"All {counted(pairs, 'pair')} of columns can be told from noise: {size}."
    if told:
        return f"Of {counted(pairs, 'pair')} of columns, {told:,} can be told from noise: {size}."
    return (
        f"Of {counted(pairs, 'pair')} of columns, none can be told from noise: expect good single columns and little "
        "of what relates them. Fewer columns, coarser bins or a larger epsilon help."
    )


def effort(plan: Plan) -> str:
    """Say what a run would take."""
    memory = max(plan.memory / 2**20, 1)
    seconds = f"{plan.seconds:.0f} seconds" if plan.seconds >= 2 else "a second or two"
    return (
        f"{counted(len(plan.codes), 'attribute')} with {sum(plan.codes.values()):,} values or bins; about "
        f"{plan.here.cells:,} cells would be measured. About {seconds} and {memory:,.0f} MiB beside the program; with "
        f"--memory {-(-plan.least_memory // 2**20)}MiB or more it keeps to that."
    )
