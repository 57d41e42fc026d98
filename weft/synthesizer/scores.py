"""Which pairs of columns tell most of each other, privately: what a plan of marginals can begin with."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from weft.curator import Curator
from weft.engines import open_engine
from weft.engines.sources import fingerprint, source_name
from weft.errors import MethodError
from weft.methods.steps.columns import check_noise, check_pairs
from weft.methods.steps.resolution import is_wide
from weft.privacy import Noise
from weft.privacy.books import open_books
from weft.privacy.mechanisms import Mechanisms, Release
from weft.progress import Listener, silence, stage
from weft.synthesizer.run import Asked, prepare

if TYPE_CHECKING:
    from weft.synthesizer import Synthesizer

BINS = 16
"""Bins of numbers and dates, of equal width in codes: public, so that they cost nothing."""

DEVIATIONS = 3.0
"""A pair is told from noise if its score is above so many standard deviations."""

SHARE_ROWS = 0.02
"""Share of the budget for the number of rows, which says what chance alone makes of a score."""

PAIRS_PER_COLUMN = 3
"""Most pairs for each column: a plan that measures all of them measures none well."""


def dependent_pairs(
    settings: Synthesizer, asked: Asked, listener: Listener = silence, release: Release | None = None
) -> list[tuple[str, str]]:
    """Spend the whole budget on InDif scores of all pairs (`Curator.dependence`); return those that stand out.

    The pairs are columns, strongest first: chosen by released answers alone.
    """
    if release is None:
        release = Mechanisms(None if settings.noise_seed is None else Noise.seeded(settings.noise_seed))
    run = prepare(settings, asked, release, listener)
    if run.search is not None:
        raise MethodError("the schema must state all columns; `weft schema draft --private` finds what it does not.")
    source = run.table.source
    with stage(listener, "read"):
        opened = open_engine(source, run.schema, engine=settings.engine, listener=listener, dialect=run.table.dialect)
    domain = opened.codec.domain
    if len(domain) < 2:
        raise MethodError("a plan needs at least two columns that are measured: there are no pairs.")
    bins = {}
    for name in domain:
        if is_wide(domain, name):
            codes = np.arange(domain.size(name)) * BINS // domain.size(name)
            bins[name] = (codes, BINS)
    journal = None if settings.journal is None else Path(settings.journal)
    facts = {"source": source_name(source), "fingerprint": fingerprint(source), "method": "InDif scores"}
    with open_books(run.terms, run.lifetime, journal=journal, stamps=run.stamps, facts=facts) as ledger:
        curator = Curator(opened.engine, ledger, run.release).recode(bins)
        check_pairs(curator.domain)
        pairs = len(domain) * (len(domain) - 1) // 2
        check_noise(curator, epsilon=(1 - SHARE_ROWS, pairs))
        with stage(listener, "score pairs of columns"):
            rows = max(float(curator.total(SHARE_ROWS).table), 1.0)
            scores = curator.dependence(share=curator.left)
            noise = DEVIATIONS * 4 * curator.sigma((1 - SHARE_ROWS) / pairs)
    # Of columns that have nothing to do with each other, chance alone makes so much.
    above = {c: scores[c] - noise - math.sqrt(2 * rows * curator.domain.cells(c) / math.pi) for c in scores}
    kept = sorted((c for c in scores if above[c] > 0), key=lambda c: -above[c])
    column = {name: part.columns[0] for part in opened.codec.parts for name in part.domain}
    named = dict.fromkeys((column[a], column[b]) for a, b in kept if column[a] != column[b])
    return list(named)[: PAIRS_PER_COLUMN * len(domain)]
