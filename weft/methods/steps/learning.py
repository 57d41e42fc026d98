"""What comes before every recipe, and the recipe: rows of a person, numbers and dates alone, then its own questions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from weft.curator import Curator, Rehearsal, RehearsedError
from weft.marginals.marginal import Array
from weft.methods.steps.arranging import Arrangement
from weft.methods.steps.resolution import check_resolution, choose_resolution, refined, resolution_share
from weft.models import Model
from weft.progress import Listener, silence, stage

if TYPE_CHECKING:
    from weft.methods import Method

PLAIN = Arrangement()
"""The recipe sees every attribute."""

SHARE_PEOPLE = 0.02
"""Share of the budget for how many rows people have, where they may have several."""


def learn(
    chosen: Method,
    curator: Curator,
    several: bool,
    rehearsal: Callable[[float], Rehearsal],
    rng: np.random.Generator,
    listener: Listener = silence,
    arrangement: Arrangement = PLAIN,
) -> tuple[Model, Array | None]:
    """Spend the budget: return the model, and how many people have 1, 2, ... rows, where they may have `several`.

    `rehearsal` makes a stand-in of the curator with a part of the budget: whatever the recipe refuses, it refuses
    before anything is charged. By an `arrangement` the recipe sees other attributes than the rows have.
    """
    domain = curator.domain
    seen, bins = arrangement.domain(domain), arrangement.bins
    before = (
        (1 - (SHARE_PEOPLE if several else 0.0)) * (1 - arrangement.share_maps) * (1 - resolution_share(seen, bins))
    )
    before = 1 - before
    check_resolution(curator, seen, bins)
    arrangement.check(curator)
    if before:
        with suppress(RehearsedError):
            chosen.fit(rehearsal(1 - before), np.random.default_rng(0), silence)
    people: Array | None = None
    if several:
        with stage(listener, "measure rows a person"):
            people = curator.rows_per_unit(SHARE_PEOPLE)
        curator = curator.rest()
    fills = arrangement.learn_maps(curator, listener)
    if arrangement.share_maps:
        curator = curator.rest()
    curator = arrangement.view(curator)
    maps = choose_resolution(curator, listener, bins)
    coarse = curator.recode({n: (m.codes, m.size) for n, m in maps.items()}).rest() if maps else curator
    return arrangement.whole(domain, refined(seen, chosen.fit(coarse, rng, listener), maps), fills), people
