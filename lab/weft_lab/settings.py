"""Options of methods that the experiments change, all in one place: an option that is renamed is renamed here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.models.gum import gum_model as published

Options = Mapping[str, Any]

_FALLING = {"strategy": "half-duplicate", "iterations": 100, "tolerance": 0.0}

EXACT_SCORES: Options = {"share_scores": 1e-6}
"""Share of the budget that a selection on exact scores is charged: as good as none, for no noise is drawn from it."""

EQUAL_GAUSSIAN: Options = {"allocation": "equal"}
EQUAL_LAPLACE: Options = {"allocation": "equal", "accounting": "pure"}
SPARSE_NETWORK: Options = {"selection": "privbayes-indif"}
GUIDED: Options = {"gum": {"strategy": "guided", "iterations": 40, "tolerance": 0.003, "peel": "repeat"}}
"""Our own way of adjusting records, in place of the published one."""
GUM_PAPER: Options = {"gum": dict(published.PRIVSYN)}
MCF: Options = {"gum": dict(published.MCF)}

THETAS: Mapping[str, Options] = {f"theta = {theta}": {"theta": float(theta)} for theta in (2, 4, 6, 8, 10)}
PICKS: Mapping[str, Options] = {f"t = {picks} d": {"picks": picks} for picks in (0.4, 0.8, 1.2)}
CANDIDATES: Mapping[str, Options] = {f"k = {k}": {"candidates": k} for k in (100, 200, 400, 800)}

DENIABLE: Options = {"guarantee": "deniability", "k": 50}
"""The paper's own test of every record, with its k: not differential privacy."""
DENIABLE_AT_RANDOM: Options = {**DENIABLE, "epsilon0": 1.0}
"""Test 2: the threshold is noisy."""

WEAVE_PARTS: Mapping[str, Options] = {
    "as it is": {},
    "chains, whatever a tree would hold": {"tuning": {"max_tree": 0}},
    "no herding": {"tuning": {"herding": 0}},
    "pairs only": {"order": 2},
    "one batch of larger cliques": {"tuning": {"batches": 1}},
    "columns 6% of the budget": {"share_columns": 0.054, "tuning": {"share_total": 0.006}},
    "columns 40% of the budget": {"share_columns": 0.36, "tuning": {"share_total": 0.04}},
    "5,000 chains": {"tuning": {"max_tree": 0, "chains": 5_000}},
    "3 rounds of matching, chains": {"tuning": {"max_tree": 0, "matching_rounds": 3}},
    "25 rounds of matching, chains": {"tuning": {"max_tree": 0, "matching_rounds": 25}},
    "1 sweep to a record, chains": {"tuning": {"max_tree": 0, "sweeps": 1}},
    "12 sweeps to a record, chains": {"tuning": {"max_tree": 0, "sweeps": 12}},
}
"""Weave with one of its settings changed."""
WEAVE_SUITE: Mapping[str, Options] = {
    "columns 12% of the budget": {"share_columns": 0.12},
    "columns 27% of the budget": {"share_columns": 0.27},
    "columns all alike, whatever their size": {"tuning": {"columns_by_size": 0.0}},
    "columns by the square root of their size": {"tuning": {"columns_by_size": 0.5}},
    "pairs as they were answered": {"tuning": {"shrink": False}},
    "columns accepted at half the error": {"tuning": {"column_error": 0.0125}},
    "columns accepted at twice the error": {"tuning": {"column_error": 0.05}},
    "larger cliques at half the noise": {"tuning": {"clique_error": 0.015}},
    "larger cliques at twice the noise": {"tuning": {"clique_error": 0.06}},
    "20 larger cliques in a batch": {"tuning": {"batch_cliques": 20}},
    "60 larger cliques in a batch": {"tuning": {"batch_cliques": 60}},
    "distances believed by their mean": {"tuning": {"caution": 0.0}},
    "distances believed by a deviation less": {"tuning": {"caution": 1.0}},
    "scores 2.5% of a batch": {"tuning": {"part_scores": 0.025}},
    "scores 10% of a batch": {"tuning": {"part_scores": 0.1}},
    "pairs 35% of what columns leave": {"tuning": {"part_pairs": 0.35}},
    "pairs 65% of what columns leave": {"tuning": {"part_pairs": 0.65}},
    "pairs only": {"order": 2},
    "rare values at 2 deviations": {"rare": 2.0},
    "rare values at 4.5 deviations": {"rare": 4.5},
    "chains, whatever a tree would hold": {"tuning": {"max_tree": 0}},
    "no herding": {"tuning": {"herding": 0}},
    "one sweep with feedback": {"tuning": {"herding": 1}},
    "herding half as strong": {"tuning": {"feedback": 0.1}},
    "herding twice as strong": {"tuning": {"feedback": 0.4}},
    "every record drawn is kept": {"tuning": {"drawn": 1}},
    "one of four records drawn is kept": {"tuning": {"drawn": 4}},
}
"""Every constant of weave that could be another, for both halves of the suite."""
WEAVE_FRONTIER: Mapping[str, Options] = {
    f"columns {share:.0%} of the budget": {"share_columns": share} for share in (0.06, 0.12, 0.27, 0.4, 0.6)
}
"""Points between columns and what goes beyond them; weave's own share is 18%."""
WEAVE_BATCHES: Mapping[str, int] = {"pairs only": 0, "one batch of larger cliques": 1}
"""Of these, lines that allow so many batches of larger cliques: weave as it is, where it makes no more by itself."""
WEAVE_CHAINS = "chains, whatever a tree would hold"
"""Of these, the line that takes chains: weave as it is, where no tree holds what it has measured."""
WEAVE_SWEEPS: Mapping[int, Options] = {
    sweeps: {"tuning": {"max_tree": 0, "sweeps": sweeps}} for sweeps in (1, 3, 6, 12, 24)
}
"""More Gibbs sweeps to a record. Without a tree: where one holds the model, no sweep is made."""

STRATEGIES: Mapping[str, Options] = {
    label: {"gum": {**published.PRIVSYN, "strategy": strategy, "tolerance": 0.0}}
    for label, strategy in {
        "Replaced (S1)": "replace",
        "Duplicated (S2)": "duplicate",
        "Half of each (S3)": "half",
        "By turns (S4)": "alternate",
        "Half replaced, then duplicated (S5)": "half-duplicate",
        "Half replaced, then replaced (S6)": "half-replace",
    }.items()
}
"""Ways of adjusting records (PrivSyn, appendix I); S5 is what the authors' code does."""
DECAYS: Mapping[str, Options] = {
    "Step": {"gum": {**published.PRIVSYN, "tolerance": 0.0}},
    "Exponential": {"gum": {**_FALLING, "decay": "exponential", "rate": 0.008}},
    "Linear": {"gum": {**_FALLING, "decay": "linear", "rate": 0.02}},
    "Square root": {"gum": {**_FALLING, "decay": "sqrt", "rate": 0.12}},
}
"""Ways in which alpha falls (PrivSyn, section 5.3 and appendix J), with the constants of the authors' code."""
