"""The stages of every fit, in order: open, discover, encode, arrange, choose the resolution, fit, wrap.

A fit starts from a `FitPlan` (`weft.synthesis.fit_plan`) and returns a `Fitted`. Each stage is one function here,
implemented by the package that it calls.
"""

import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from weft.curator import Curator, DryRunCurator, DryRunError
from weft.encoding.persons import People
from weft.engines import Opened
from weft.engines.sources import source_name, table_identity
from weft.marginals.marginal import Array
from weft.methods import Method, get_method_class
from weft.methods.common.discretisation import (
    Arrangement,
    check_resolution,
    choose_resolution,
    coarse_domain,
    refine_model,
    resolution_share,
)
from weft.methods.common.number_detail import detail_share, measure_detail
from weft.methods.common.options import convert_to_plain
from weft.models import Model
from weft.privacy import Ledger
from weft.privacy.ledger import open_run_ledger
from weft.progress import Listener, ignore_event, report_stage
from weft.schema import Schema
from weft.synthesis.discovery import Discovered
from weft.synthesis.fit_plan import FitPlan, open_public
from weft.synthesis.fitted import Fitted
from weft.synthesis.resume import record_answers


@dataclass
class FitState:
    """Intermediate results of a fit, so that what was paid for is kept even if a later stage fails."""

    discovered: Discovered | None = None
    checkpoint: Path | None = None


def run_stages(plan: FitPlan, state: FitState) -> Fitted:
    """Run all stages of a fit, and store intermediate results in `state`."""
    seed = secrets.randbits(64) if plan.request.seed is None else plan.request.seed
    schema, rng = plan.schema, np.random.default_rng(seed)
    opened = None if plan.search is not None else open_table(plan, schema)
    public = None if opened is None else open_public(plan, opened)
    with open_ledger(plan) as ledger:
        plan, state.checkpoint = record_answers(plan, ledger, seed)
        left = 1.0
        if plan.search is not None:
            state.discovered, left = plan.search.run(ledger, plan.release)
            schema = state.discovered.schema
            opened = open_table(plan, schema)
        assert opened is not None
        curator = Curator(opened.engine, ledger, plan.release, left, plan.table.room.cells, public)
        chosen, arrangement = plan.method.compiled(opened.codec)
        coarse = coarse_domain(arrangement.domain(opened.codec.domain), arrangement.bins)
        dry_run = partial(DryRunCurator, opened.engine, ledger, plan.release, coarse, left, public)
        sizes = None if state.discovered is None else state.discovered.unit_sizes
        several = schema.rows_per_unit > 1 and sizes is None
        model, people = learn_model(chosen, curator, several, dry_run, rng, plan.table.listener, arrangement)
        return wrap_model(plan, schema, opened, curator, model, people if sizes is None else sizes, ledger)


def find_schema(plan: FitPlan) -> Discovered:
    """Run only discovery, with the whole budget."""
    assert plan.search is not None
    with open_ledger(plan) as ledger:
        return replace(plan.search, share=1.0).run(ledger, plan.release)[0]


def open_table(plan: FitPlan, schema: Schema) -> Opened:
    """Open and encode the private table; refuse a method or plan that does not fit its attributes."""
    with report_stage(plan.table.listener, "read"):
        opened = plan.table.open(schema)
    plan.method.compiled(opened.codec)
    return opened


def open_ledger(plan: FitPlan, method: str | None = None) -> AbstractContextManager[Ledger]:
    """Open the ledger of the fit, its journal and the lifetime budget that it is charged to."""
    source, public = plan.table.source, plan.request.options.get("public")
    facts = {"source": source_name(source), "identity": table_identity(source), "method": method or plan.method.name}
    return open_run_ledger(
        plan.terms,
        plan.lifetime,
        journal=None if plan.request.journal is None else Path(plan.request.journal),
        stamps=plan.stamps,
        facts=facts | ({"public": source_name(public)} if public else {}),
    )


def wrap_model(
    plan: FitPlan, schema: Schema, opened: Opened, curator: Curator, model: Model, people: Array | None, ledger: Ledger
) -> Fitted:
    """Return the result of a fit: the model with its schema, codec, ledger and released marginals."""
    options = convert_to_plain(plan.request.options) | plan.method.kept
    if plan.request.options.get("public"):
        options["public"] = source_name(plan.request.options["public"])
    # Presence patterns are not attributes of the table: their measurements are only in the ledger.
    domain = opened.codec.domain
    measured = tuple(m for m in curator.measured if all(name in domain for name in m.clique))
    released = tuple(held for held in curator.released if held.fits(domain))
    persons = None if people is None else People.of(people, schema.per_unit)
    return Fitted(plan.method.name, options, schema, opened.codec, model, ledger, measured, persons, released)


SHARE_PEOPLE = 0.02  # share of the budget for the distribution of rows per person, if a person may have several


def learn_model(
    chosen: Method,
    curator: Curator,
    several: bool,
    rehearsal: Callable[[float], DryRunCurator],
    rng: np.random.Generator,
    listener: Listener,
    arrangement: Arrangement,
) -> tuple[Model, Array | None]:
    """Spend the budget; return the model, and the noisy numbers of persons with 1, 2, ... rows if `several`.

    `rehearsal` returns a dry-run curator with a share of the budget, so that anything that the method refuses is
    refused before any charge. The `arrangement` defines the attributes that the method sees.
    """
    domain = curator.domain
    seen, bins, whole = arrangement.domain(domain), arrangement.bins, arrangement.share_resolution
    people_share = SHARE_PEOPLE if several else 0.0
    detail = detail_share(seen) if isinstance(chosen, get_method_class("weave")) and not bins else 0.0
    before = 1 - (1 - people_share) * (1 - arrangement.share_maps) * (1 - resolution_share(seen, bins, whole)) * (
        1 - detail
    )
    check_resolution(curator, seen, bins)
    arrangement.check(curator)
    if before:
        with suppress(DryRunError):
            chosen.fit(rehearsal(1 - before), np.random.default_rng(0), ignore_event)
    people: Array | None = None
    if several:
        with report_stage(listener, "measure rows a person"):
            people = curator.rows_per_unit(SHARE_PEOPLE)
        curator = curator.rest()
    fills = arrangement.learn_maps(curator, listener)
    if arrangement.share_maps:
        curator = curator.rest()
    curator = arrangement.view(curator)
    maps = choose_resolution(curator, listener, bins, whole)
    if not maps:
        return arrangement.whole(domain, chosen.fit(curator, rng, listener), fills), people
    coarse = curator.recode({n: (m.codes, m.size) for n, m in maps.items()}).rest(detail)
    model = refine_model(seen, chosen.fit(coarse, rng, listener), maps)
    model = measure_detail(curator.rest(), model, listener) if detail else model
    return arrangement.whole(domain, model, fills), people
