"""A plan of marginals on made-up rows: what of it holds at a budget, and rows that are as it says.

Who plans marginals states facts of the columns. Made-up rows of which they are not true would foretell the errors of a
plan that is wrong.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from weft.marginals.domain import Domain
from weft.marginals.marginal import Array
from weft.marginals.records import Records
from weft.methods.steps.arranging import Arrangement, Learned
from weft.synthesizer.run import Recipe
from weft.workload.items import Compress, Item


def settled(recipe: Recipe, times: float) -> dict[str, Any]:
    """Return a plan, and its accounting, as the budget has chosen them, where one row stands for so many.

    The run on fewer rows has less noise, and a budget that says so: it must not choose again.
    """
    if recipe.plan is None:
        return {}
    items: list[Item] = []
    for item in recipe.plan.items:
        kept = replace(item, above=0.0, below=math.inf)
        items.append(replace(kept, floor=kept.floor / times) if isinstance(kept, Compress) else kept)
    return {"marginals": replace(recipe.plan, items=tuple(items)), "accounting": recipe.chosen.accounting}


def following(records: Records, arrangement: Arrangement) -> Records:
    """Return records in which the columns that are filled in from others do follow from them."""
    domain = records.domain
    made: dict[str, Array] = dict(zip(domain.names, records.columns, strict=True))
    for fill in arrangement.fills:
        if fill.anchor is None:
            continue
        if isinstance(fill, Learned):
            told = _in_order(domain, fill)[made[fill.anchor]]
            gone = made[fill.name] == (-1 if fill.missing is None else fill.missing)
            made[fill.name] = np.where(gone, made[fill.name], told)
        elif fill.codes is not None:
            made[fill.name] = fill.codes[made[fill.anchor]]
    return Records.of(domain, list(made.values()))


def _in_order(domain: Domain, fill: Learned) -> Array:
    """Return some map to learn: the values of one column in the order of the other's."""
    answers = np.arange(domain.size(fill.name))
    answers = answers[answers != fill.missing] if len(answers) > 1 else answers
    return np.asarray(answers[np.arange(domain.size(fill.anchor)) * len(answers) // domain.size(fill.anchor)])
