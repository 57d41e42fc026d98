"""A plan to begin with: from a schema alone, or with the pairs of columns that paid scores call dependent."""

from __future__ import annotations

from collections.abc import Sequence

from weft.codec import Codec
from weft.reading.csv import csv_arrow_schema
from weft.schema import Schema
from weft.schema.toml import write_entry
from weft.workload.items import Compress, Given, Item, Presence
from weft.workload.plan import MarginalPlan

FEW = 6
"""Columns of which a draft without scores takes all pairs: those with the fewest values."""

HEADER = """\
# A plan of marginals to begin with (docs/marginals.md). Change it by what you know of the columns without looking at
# the rows: which belong together, which follow from others, which matter most.
"""

UNSCORED = """\
# No row was looked at: these are all pairs of the columns with the fewest values. Name those that matter instead.
"""

SCORED = """\
# The pairs of columns that tell most of each other, strongest first, by noisy scores for epsilon {epsilon:g} at delta
# {delta:g}: released answers, which may be shown to anybody. What later runs cost adds to that.
"""

HINTS = """
# More that a plan can say:
#
# [[groups]]                       # columns that speak of one thing are counted as one
# columns = ["unit", "unit_type"]
#
# [[fills]]                        # a column that follows from another costs one table, or none (by = "same")
# column = "county"
# from = "city"
#
# [[maps]]                         # ... or nothing, if a public code book says how
# of = "icd_code"
# gives = "chapter"
# map = "chapters.csv"
#
# [[bins]]                         # counted fine alone, in bins together with others
# column = "income"
# bins = 16
#
# weight = 2                       # on marginals: twice the budget that the size suggests
# above = 1.0                      # on anything: only for an epsilon of 1 or more; below = 1.0: for less
"""


def drafted(schema: Schema, pairs: Sequence[tuple[str, str]] | None = None) -> MarginalPlan:
    """Return a plan for the columns of a schema; `pairs` are those that scores chose."""
    codec = Codec(schema, csv_arrow_schema(schema))
    counted = [c.name for c in schema.columns if c.modelled and codec.part_of(c.name) is not None]
    counted = [name for name in counted if len(codec.part_of(name).domain)]  # type: ignore[union-attr]
    items: list[Item] = [Compress()]
    absent = [name for name in counted if schema.column(name).missing and _alone(codec, name)]
    if 2 <= len(absent) <= FEW:
        items.append(Presence(columns=tuple(absent), name="presence"))
    if pairs is None:
        narrow = sorted(counted, key=lambda name: codec.codes_of(name) or 0)[:FEW]
        chosen = [name for name in counted if name in narrow]
        items.append(Given(pairs_of=tuple(chosen)) if len(chosen) > 1 else Given(columns=tuple(chosen)))
    elif pairs:
        items.append(Given(sets=tuple(pairs)))
    else:
        items += [Given(columns=(name,)) for name in counted]
    return MarginalPlan(tuple(items))


def written_draft(plan: MarginalPlan, spent: tuple[float, float] | None = None, stamps: Sequence[str] = ()) -> str:
    """Write a draft as TOML, with what to know about it.

    `spent` is the epsilon and the delta that its scores cost, `stamps` are the warnings that go with them.
    """
    told = UNSCORED if spent is None else SCORED.format(epsilon=spent[0], delta=spent[1])
    tables = []
    for item in plan.items:
        head = told if isinstance(item, Given) else ""
        body = "".join(write_entry(key, value) for key, value in item.to_dict().items())
        if isinstance(item, Compress):
            body = "deviations = 4.5                 # rare values: below so many standard deviations of noise\n"
        tables.append(f"{head}[[{item.section}]]\n{body}")
        told = "" if head else told
    return "".join(f"# {stamp}\n" for stamp in stamps) + HEADER + "\n" + "\n".join(tables) + HINTS


def _alone(codec: Codec, name: str) -> bool:
    part = codec.part_of(name)
    return part is not None and part.columns == (name,) and len(part.domain) == 1
