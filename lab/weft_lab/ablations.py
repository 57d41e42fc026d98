"""What each part of weave is worth, at epsilon 0.8 and delta 1e-5.

Two comparisons. *Models*: the same noisy columns and pairs given to chains (with and without reconciliation, herding
and the forest they start from), to GUM, and to an exact model of as many of them as a junction tree holds. Noise and
choice of pairs are simulated here, so this is no private run. *Parts*: weave as users get it, with one of its settings
changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from time import perf_counter

import numpy as np

from weft.marginals.counting import count_marginals
from weft.marginals.domain import make_clique
from weft.marginals.marginal import Marginal, NoisyMarginal
from weft.marginals.reconciliation import reconcile
from weft.marginals.records import Records
from weft.marginals.simplex import project_to_simplex
from weft.models.chains.chain_fit import GibbsChains
from weft.models.chains.chain_model import ChainsModel
from weft.models.gum.gum_model import GumModel
from weft.models.mrf import fit_mrf
from weft.privacy import Budget
from weft.progress import Listener, ignore_event, report_stage
from weft_lab.methods.tree_growth import grow_tree
from weft_lab.settings import WEAVE_BATCHES, WEAVE_CHAINS, WEAVE_PARTS
from weft_lab.sheet import Sheet
from weft_lab.tables import BenchTable
from weft_lab.trial import errors, repeated, trial

PAIRS = 40
"""Pairs that all models are given."""
TABLES = ("adult", "nltcs")
EPSILON, DELTA = 0.8, 1e-5
ORDERS = (2, 3, 4, 5)
HEADS = ("", *(f"{k}-way" for k in ORDERS), "seconds")

Comparison = Callable[[BenchTable, int, Listener], Sheet]


def noisy_tables(real: Records, rng: np.random.Generator) -> list[NoisyMarginal]:
    """Return all columns and the most dependent pairs, with the noise of an even share of the budget."""
    pairs = [make_clique(pair) for pair in combinations(real.domain.names, 2)]
    tables = count_marginals(real, pairs)
    apart = [np.abs(t - np.outer(t.sum(1), t.sum(0)) / t.sum()).sum() for t in tables]
    chosen = [*((name,) for name in real.domain), *(pairs[i] for i in np.argsort(apart)[::-1][:PAIRS])]
    sigma = float(np.sqrt(len(chosen) / (2 * Budget(epsilon=EPSILON, delta=DELTA).capacity("gaussian"))))
    return [
        NoisyMarginal(c, np.rint(t + rng.normal(0, sigma, t.shape)), sigma)
        for c, t in zip(chosen, count_marginals(real, chosen), strict=True)
    ]


def makers(
    real: Records, noisy: Sequence[NoisyMarginal], rng: np.random.Generator
) -> Mapping[str, Callable[[], Records]]:
    """Return each model's way from the same tables to records."""
    agreed = reconcile(noisy)
    sigmas = [m.sigma for m in noisy]

    def chains(tables: Sequence[Marginal], sweeps: int, herding: int) -> Records:
        chains_ = GibbsChains(real.domain, 30_000, rng)
        chains_.set_targets(tables, sigmas)
        chains_.match(25, 2.0)
        chains_.match(25, 1.0)
        return chains_.model(sweeps, herding).sample(len(real), rng)

    def raw() -> list[Marginal]:
        return [Marginal(m.clique, project_to_simplex(m.table, agreed.total)) for m in noisy]

    def tree() -> Records:
        grown = grow_tree(real.domain, [m.clique for m in noisy], max_cells=1 << 18, max_total=1 << 20)
        held = [m for m in noisy if grown.home(m.clique) is not None]
        return fit_mrf(real.domain, held, tree=grown, probe=rng).sample(len(real), rng)

    return {
        "chains": lambda: chains(agreed.tables, 12, 2),
        "chains, not herded": lambda: chains(agreed.tables, 12, 0),
        "chains, not reconciled": lambda: chains(raw(), 12, 2),
        "chains, 2 sweeps": lambda: chains(agreed.tables, 2, 2),
        "the forest alone": lambda: chains(agreed.tables, 0, 0),
        "GUM": lambda: GumModel(real.domain, agreed.total, tuple(agreed.tables)).sample(len(real), rng),
        "junction tree, what fits": tree,
    }


def models(table: BenchTable, runs: int = 1, listener: Listener = ignore_event) -> Sheet:
    """Give the same tables to each model; once, for they are the same."""
    rng = np.random.default_rng(0)
    noisy = noisy_tables(table.records, rng)
    tried = makers(table.records, noisy, rng)
    rows = []
    with report_stage(listener, f"{table.name}: models", len(tried)) as work:
        for label, make in tried.items():
            begin = perf_counter()
            made = make()
            seconds = perf_counter() - begin
            ways = [f"{error:.4f}" for error in errors(table.records, made, ORDERS)]
            rows.append([label, *ways, f"{seconds:.1f}"])
            work.advance(note=label)
    return Sheet(f"{table.name}: models of the same {len(noisy)} noisy tables, mean total variation", HEADS, rows)


def parts(table: BenchTable, runs: int = 3, listener: Listener = ignore_event) -> Sheet:
    """Run weave with one setting changed; what would change nothing on this table is left out."""
    idle = without_effect(table)
    rows = []
    with report_stage(listener, f"{table.name}: parts", len(WEAVE_PARTS) - len(idle)) as work:
        for label, options in WEAVE_PARTS.items():
            if label not in idle:
                rows.append([label, *repeated(table, "weave", EPSILON, runs, options).shown(ORDERS)])
                work.advance(note=label)
    notes = [f"Left out, for here they are weave as it is: {'; '.join(idle)}."] if idle else []
    return Sheet(f"{table.name}: weave, mean total variation, mean of {runs} runs", HEADS, rows, notes)


def without_effect(table: BenchTable) -> list[str]:
    """Return the lines that ask for what weave does on this table by itself."""
    made = trial(table, "weave", EPSILON)
    larger = sum(entry.purpose == "scores" for entry in made.ledger.entries) - 1  # every batch asks once, pairs first
    chains = isinstance(getattr(made.model, "inner", made.model), ChainsModel)
    few = [label for label, batches in WEAVE_BATCHES.items() if batches >= larger]
    return [WEAVE_CHAINS, *few] if chains else few


COMPARISONS: Mapping[str, Comparison] = {"models": models, "parts": parts}


def ablations(
    tables: Sequence[BenchTable], only: str | None = None, runs: int = 3, listener: Listener = ignore_event
) -> Iterator[Sheet]:
    """Yield the comparisons, or one of them, table by table."""
    for table in tables:
        for name, compare in COMPARISONS.items():
            if only in (None, name):
                yield compare(table, runs, listener)
