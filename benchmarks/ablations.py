"""What each part of weave is worth: `python -m benchmarks.ablations --tables adult,nltcs --runs 3`.

Two comparisons, at epsilon 0.8 and delta 1e-5. *Models*: the same noisy columns and pairs given to chains (with and
without reconciliation, herding and the forest they start from), to GUM, and to an exact model of as many of them as a
junction tree holds. Noise and choice of pairs are simulated here, so this is no private run. *Parts*: weave as users
get it, with one of its settings changed.
"""

import argparse
from itertools import combinations
from time import perf_counter

import numpy as np

from benchmarks.accuracy import SHARED, load, one_run
from weft.evaluate import k_way
from weft.marginals.counting import count
from weft.marginals.marginal import Marginal, NoisyMarginal
from weft.marginals.records import Records
from weft.models.chains.fit import GibbsChains
from weft.models.gum.model import GumModel
from weft.models.mrf import fit, grow_tree
from weft.privacy import Budget
from weft.reconcile import reconcile, simplex

PAIRS = 40
"""Pairs that all models are given."""

PARTS: dict[str, dict[str, object]] = {
    "as it is": {},
    "chains, whatever a tree would hold": {"tuning": {"max_tree": 0}},
    "no herding": {"tuning": {"herding": 0}},
    "pairs only": {"order": 2},
    "one batch of larger cliques": {"batches": 1},
    "columns 6% of the budget": {"share_columns": 0.054, "share_total": 0.006},
    "columns 40% of the budget": {"share_columns": 0.36, "share_total": 0.04},
    "5,000 chains": {"tuning": {"max_tree": 0, "chains": 5_000}},
    "3 rounds of matching, chains": {"tuning": {"max_tree": 0, "matching_rounds": 3}},
    "25 rounds of matching, chains": {"tuning": {"max_tree": 0, "matching_rounds": 25}},
    "1 sweep to a record, chains": {"tuning": {"max_tree": 0, "sweeps": 1}},
    "12 sweeps to a record, chains": {"tuning": {"max_tree": 0, "sweeps": 12}},
}


def noisy_tables(real: Records, rng: np.random.Generator) -> list[NoisyMarginal]:
    """Return all columns and the most dependent pairs, with the noise of an even share of the budget."""
    pairs = list(combinations(real.domain.names, 2))
    pairs = [tuple(sorted(pair)) for pair in pairs]
    tables = count(real, pairs)
    apart = [np.abs(t - np.outer(t.sum(1), t.sum(0)) / t.sum()).sum() for t in tables]
    chosen = [(name,) for name in real.domain.names] + [pairs[i] for i in np.argsort(apart)[::-1][:PAIRS]]
    sigma = float(np.sqrt(len(chosen) / (2 * Budget(epsilon=0.8, delta=1e-5).capacity("gaussian"))))
    return [
        NoisyMarginal(c, np.rint(t + rng.normal(0, sigma, t.shape)), sigma)
        for c, t in zip(chosen, count(real, chosen), strict=True)
    ]


def models(name: str, real: Records, rng: np.random.Generator) -> None:
    """Print the errors of each model on the same tables."""
    noisy = noisy_tables(real, rng)
    agreed = reconcile(noisy)
    sigmas = [m.sigma for m in noisy]

    def chains(tables: list[Marginal], sweeps: int, herding: int) -> Records:
        chains = GibbsChains(real.domain, 30_000, rng)
        chains.set_targets(tables, sigmas)
        chains.match(25, 2.0)
        chains.match(25, 1.0)
        return chains.model(sweeps, herding).sample(len(real), rng)

    def raw() -> list[Marginal]:
        return [Marginal(m.clique, simplex(m.table, agreed.total)) for m in noisy]

    def tree() -> Records:
        grown = grow_tree(real.domain, [m.clique for m in noisy], max_cells=1 << 18, max_total=1 << 20)
        held = [m for m in noisy if grown.home(m.clique) is not None]
        return fit(real.domain, held, tree=grown, probe=rng).sample(len(real), rng)

    tried = {
        "chains": lambda: chains(agreed.tables, 12, 2),
        "chains, not herded": lambda: chains(agreed.tables, 12, 0),
        "chains, not reconciled": lambda: chains(raw(), 12, 2),
        "chains, 2 sweeps": lambda: chains(agreed.tables, 2, 2),
        "the forest alone": lambda: chains(agreed.tables, 0, 0),
        "GUM": lambda: GumModel(real.domain, agreed.total, tuple(agreed.tables)).sample(len(real), rng),
        "junction tree, what fits": tree,
    }
    print(f"{name}, {len(noisy)} noisy tables, 2- to 5-way")
    for label, make in tried.items():
        begin = perf_counter()
        made = make()
        ways = " ".join(f"{k_way(real, made, k).tvd:.4f}" for k in (2, 3, 4, 5))
        print(f"  {label:<28} {ways}  {perf_counter() - begin:5.1f} s", flush=True)


def parts(name: str, runs: int) -> None:
    """Print weave's errors with one setting changed."""
    loaded = load(name)
    print(f"{name}, weave, 2- to 5-way, mean of {runs}")
    for label, options in PARTS.items():
        made = [one_run("weave", options, name, 0.8, loaded) for _ in range(runs)]
        ways = " ".join(f"{np.mean([run[f'tvd_{k}'] for run in made]):.4f}" for k in (2, 3, 4, 5))
        print(f"  {label:<28} {ways}  {np.mean([run['seconds'] for run in made]):5.1f} s", flush=True)


def main() -> None:
    """Read the command line and print both comparisons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default="adult,nltcs")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=["models", "parts"])
    chosen = parser.parse_args()
    if not SHARED.exists():
        raise SystemExit("the real tables are not beside the project")
    for name in chosen.tables.split(","):
        if chosen.only != "parts":
            models(name, load(name)[3], np.random.default_rng(0))
        if chosen.only != "models":
            parts(name, chosen.runs)


if __name__ == "__main__":
    main()
