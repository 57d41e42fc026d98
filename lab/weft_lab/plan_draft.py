"""Draft a marginal plan from a schema alone, or from noisy dependence scores of column pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from weft.curator import Curator
from weft.encoding import Codec
from weft.errors import MethodError
from weft.io.text_to_types import csv_arrow_schema
from weft.methods.common.budget_checks import check_noise
from weft.methods.common.discretisation import is_wide
from weft.privacy.mechanisms import Release
from weft.progress import Listener, ignore_event, report_stage
from weft.schema import Schema
from weft.schema.schema_file import write_entry
from weft.synthesis.fit_plan import plan_fit
from weft.synthesis.fit_request import FitRequest
from weft.synthesis.marginal_plan.plan_file import Compress, Given, Item, MarginalPlan, Presence
from weft.synthesis.pipeline import open_ledger, open_table
from weft_lab.methods.comparison_steps import check_pairs

MAX_PAIRED_COLUMNS = 6  # maximum number of columns, those with the fewest codes, whose pairs are drafted without scores
HEADER = """\
# Draft of a plan of marginals (docs/marginals.md). Edit it by what you know about the columns without looking at the
# rows: which belong together, which follow from others, which matter most.
"""

UNSCORED = """\
# No row was read: these are all pairs of the columns with the fewest values. Replace them by those that matter.
"""

SCORED = """\
# The most dependent pairs of columns, strongest first, by noisy scores for epsilon {epsilon:g} at delta {delta:g}.
# These are released answers and may be published. The cost of later runs adds to theirs.
"""

HINTS = """
# Further sections of a plan:
#
# [[groups]]                       # related columns are encoded as one attribute
# columns = ["unit", "unit_type"]
#
# [[fills]]                        # a column that follows from another costs one marginal, or none (by = "same")
# column = "county"
# from = "city"
#
# [[maps]]                         # ... or nothing, if a public code book defines it
# of = "icd_code"
# gives = "chapter"
# map = "chapters.csv"
#
# [[bins]]                         # measured in full alone, in bins together with others
# column = "income"
# bins = 16
#
# weight = 2                       # for marginals: twice the budget that the size suggests
# above = 1.0                      # for any item: only if epsilon is 1 or more; below = 1.0: only if it is less
"""


def draft_marginal_plan(schema: Schema, pairs: Sequence[tuple[str, str]] | None = None) -> MarginalPlan:
    """Return a plan for the columns of a schema; `pairs` are those selected by scores."""
    codec = Codec(schema, csv_arrow_schema(schema))
    counted = [c.name for c in schema.columns if c.modelled and codec.part_of(c.name) is not None]
    counted = [name for name in counted if len(codec.part_of(name).domain)]  # type: ignore[union-attr]
    items: list[Item] = [Compress()]
    absent = [name for name in counted if schema.column(name).missing and _is_single_attribute(codec, name)]
    if 2 <= len(absent) <= MAX_PAIRED_COLUMNS:
        items.append(Presence(columns=tuple(absent), name="presence"))
    if pairs is None:
        narrow = sorted(counted, key=lambda name: codec.codes_of(name) or 0)[:MAX_PAIRED_COLUMNS]
        chosen = [name for name in counted if name in narrow]
        items.append(Given(pairs_of=tuple(chosen)) if len(chosen) > 1 else Given(columns=tuple(chosen)))
    elif pairs:
        items.append(Given(sets=tuple(pairs)))
    else:
        items += [Given(columns=(name,)) for name in counted]
    return MarginalPlan(tuple(items))


def write_plan_draft(plan: MarginalPlan, spent: tuple[float, float] | None = None, stamps: Sequence[str] = ()) -> str:
    """Return a draft as commented TOML; `spent` is the epsilon and delta of its scores, `stamps` are its warnings."""
    told = UNSCORED if spent is None else SCORED.format(epsilon=spent[0], delta=spent[1])
    tables = []
    for item in plan.items:
        head = told if isinstance(item, Given) else ""
        body = "".join(write_entry(key, value) for key, value in item.to_dict().items())
        if isinstance(item, Compress):
            body = "deviations = 4.5                 # merge values below this many standard deviations of noise\n"
        tables.append(f"{head}[[{item.section}]]\n{body}")
        told = "" if head else told
    return "".join(f"# {stamp}\n" for stamp in stamps) + HEADER + "\n" + "\n".join(tables) + HINTS


def _is_single_attribute(codec: Codec, name: str) -> bool:
    part = codec.part_of(name)
    return part is not None and part.columns == (name,) and len(part.domain) == 1


BINS = 16  # number of bins of numbers and dates, of equal width in codes: public, at no cost
DEVIATIONS = 3.0  # threshold for the score of a pair, in standard deviations of the noise
SHARE_ROWS = 0.02  # share of the budget for the number of rows, needed for the expected score of independent columns
PAIRS_PER_COLUMN = 3  # maximum pairs per attribute: with more marginals, each one gets more noise


def dependent_pairs(
    request: FitRequest, listener: Listener = ignore_event, release: Release | None = None
) -> list[tuple[str, str]]:
    """Spend the whole budget on InDif scores of all pairs (`Curator.dependence`); return those above the threshold.

    Returns pairs of columns, strongest first. Privacy: the selection uses released answers only.
    """
    plan = plan_fit(request, release, listener)
    if plan.search is not None:
        raise MethodError("the schema must state all columns: `weft schema draft --private` finds the others.")
    opened = open_table(plan, plan.schema)
    domain = opened.codec.domain
    if len(domain) < 2:
        raise MethodError("there are no pairs: a plan needs at least two attributes.")
    bins = {}
    for name in domain:
        if is_wide(domain, name):
            codes = np.arange(domain.size(name)) * BINS // domain.size(name)
            bins[name] = (codes, BINS)
    with open_ledger(plan, "InDif scores") as ledger:
        curator = Curator(opened.engine, ledger, plan.release).recode(bins)
        check_pairs(curator.domain)
        pairs = len(domain) * (len(domain) - 1) // 2
        check_noise(curator, epsilon=(1 - SHARE_ROWS, pairs))
        with report_stage(listener, "score pairs of columns"):
            rows = max(float(curator.total(SHARE_ROWS).table), 1.0)
            scores = curator.dependence(share=curator.left)
            noise = DEVIATIONS * 4 * curator.sigma((1 - SHARE_ROWS) / pairs)
    # Subtract the expected score of independent columns, which is due to chance.
    above = {c: scores[c] - noise - math.sqrt(2 * rows * curator.domain.cells(c) / math.pi) for c in scores}
    kept = sorted((c for c in scores if above[c] > 0), key=lambda c: -above[c])
    column = {name: part.columns[0] for part in opened.codec.parts for name in part.domain}
    named = dict.fromkeys((column[a], column[b]) for a, b in kept if column[a] != column[b])
    return list(named)[: PAIRS_PER_COLUMN * len(domain)]
