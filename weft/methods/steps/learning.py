"""What comes before every recipe, and the recipe: rows of a person, numbers and dates alone, then its own questions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from weft.codec import Codec
from weft.codec.people import People
from weft.curator import Curator
from weft.curator.rehearsal import Rehearsal, RehearsedError
from weft.methods.steps.resolution import check_resolution, choose_resolution, refined, resolution_share
from weft.models import Model
from weft.progress import Listener, silence, stage

if TYPE_CHECKING:
    from weft.methods import Method

SHARE_PEOPLE = 0.02
"""Share of the budget for how many rows people have, where they may have several."""


def learn(
    chosen: Method,
    curator: Curator,
    codec: Codec,
    rehearsal: Callable[[float], Rehearsal],
    rng: np.random.Generator,
    listener: Listener = silence,
) -> tuple[Model, People | None]:
    """Spend the budget: return the model, and how many rows people have.

    `rehearsal` makes a stand-in of the curator with a part of the budget: whatever the recipe refuses, it refuses
    before anything is charged.
    """
    schema, domain = codec.schema, codec.domain
    several = schema.unit is not None and schema.rows_per_unit > 1
    before = 1 - (1 - (SHARE_PEOPLE if several else 0.0)) * (1 - resolution_share(domain))
    check_resolution(curator)
    if before:
        with suppress(RehearsedError):
            chosen.fit(rehearsal(1 - before), np.random.default_rng(0), silence)
    people = None
    if several:
        with stage(listener, "measure rows a person"):
            people = People.of(curator.rows_per_unit(SHARE_PEOPLE), schema.per_unit)
        curator = curator.rest()
    maps = choose_resolution(curator, listener)
    coarse = curator.recode({n: (m.codes, m.size) for n, m in maps.items()}).rest() if maps else curator
    return refined(domain, chosen.fit(coarse, rng, listener), maps), people
