"""Figures 1 to 6 and tables 3 to 5 of the plausible-deniability paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from weft.marginals.records import Records
from weft.methods.common.options import PAPER
from weft_lab import private_erm, settings
from weft_lab.acs import BUCKETS
from weft_lab.experiment import Experiment, Reckoned, Variant

BSG = "Plausible deniability (PVLDB 2017)"
DELTA = 1e-9
SEEDED_MOST = 100_000
"""Most records grown from seeds: far more than the classifiers of the tables look at."""


def _bucketed(records: Records) -> Mapping[str, Any]:
    """Put values in the paper's buckets while the network is learned, where the table has its columns."""
    found = {name: buckets for name, buckets in BUCKETS.items() if name in records.domain}
    return {"buckets": found} if found else {}


def _keep(least: int, most: int | None = None, rows: int | None = None) -> Callable[[Records], Mapping[str, Any]]:
    """Keep so many attributes of a seed, or from so few to so many, and draw the rest, behind the paper's own test.

    As differentially private tables, so many records pass no test on most tables: all attributes would be drawn, and
    the lines would be one.
    """

    def sized(records: Records) -> Mapping[str, Any]:
        d = len(records.domain)
        omega = d - least if most is None else f"{max(d - most, 1)}-{d - least}"
        drawn = {"omega": omega, "rows": min(len(records), SEEDED_MOST) if rows is None else rows}
        return {**_bucketed(records), **settings.DENIABLE_AT_RANDOM, **drawn}

    return sized


LINES = {
    "Marginals": Variant("independent"),
    "BSG, all drawn": Variant("bsg", preset=PAPER, sized=_bucketed),
    "BSG, all but 1 drawn": Variant("bsg", preset=PAPER, sized=_keep(1)),
    "BSG, all but 2 drawn": Variant("bsg", preset=PAPER, sized=_keep(2)),
    "BSG, all but 0 to 2 drawn": Variant("bsg", preset=PAPER, sized=_keep(0, 2)),
    "BSG, all but 0 to 6 drawn": Variant("bsg", preset=PAPER, sized=_keep(0, 6)),
}
"""The paper's omega is 11, 10, 9, 9 to 11 and 5 to 11, of 11 attributes."""
WITHOUT_NOISE = 20.0

EXPERIMENTS = (
    Experiment(
        name="bsg-figure1",
        paper=f"{BSG}, figures 1 and 2",
        about=f"how often the model knows a value from all others (epsilon {WITHOUT_NOISE:g}: next to no noise)",
        variants={name: LINES[line] for name, line in (("Marginals", "Marginals"), ("BSG", "BSG, all drawn"))},
        tasks=("model_accuracy",),
        epsilons=(0.1, 1.0, WITHOUT_NOISE),
        delta=DELTA,
        held_out=True,
    ),
    Experiment(
        name="bsg-figure3",
        paper=f"{BSG}, figures 3 and 4",
        about="distance from other real rows, of single attributes and of pairs",
        variants=LINES,
        tasks=("other_1", "other_2", "other_each"),
        epsilons=(1.0,),
        delta=DELTA,
        held_out=True,
    ),
    Experiment(
        name="bsg-table3",
        paper=f"{BSG}, table 3",
        about="accuracy and agreement of tree, random forest and AdaBoost",
        variants=LINES,
        tasks=("trees",),
        epsilons=(1.0,),
        delta=DELTA,
        held_out=True,
    ),
    Experiment(
        name="bsg-table4",
        paper=f"{BSG}, table 4",
        about="accuracy of logistic regression and linear SVM",
        variants=LINES,
        tasks=("linear",),
        epsilons=(1.0,),
        delta=DELTA,
        held_out=True,
    ),
    Experiment(
        name="bsg-table4-erm",
        paper=f"{BSG}, table 4",
        about="output and objective perturbation (DP-ERM) with certified minima: an experiment, NOT A RELEASE",
        reckoned=Reckoned(tuple(private_erm.LINES), private_erm.table_4),
        epsilons=(1.0,),
        delta=DELTA,
    ),
    Experiment(
        name="bsg-maxcost",
        paper=f"{BSG}, section 3.3",
        about="maxcost, the most configurations of parents, which the paper leaves open: distance of pairs",
        variants={
            f"maxcost {cost:,}": Variant("bsg", {"max_cost": cost}, preset=PAPER, sized=_bucketed)
            for cost in (30, 100, 300, 1000, 3000)
        },
        tasks=("other_2",),
        epsilons=(1.0,),
        delta=DELTA,
        held_out=True,
    ),
    Experiment(
        name="bsg-table5",
        paper=f"{BSG}, table 5",
        about="the distinguishing game: can a classifier tell synthetic rows from real ones?",
        variants=LINES,
        tasks=("distinguish",),
        epsilons=(1.0,),
        delta=DELTA,
    ),
    Experiment(
        name="bsg-figure5",
        paper=f"{BSG}, figure 5",
        about="how long it takes to learn, and to make so many records with all but two attributes drawn",
        variants={
            f"{rows:,} records": Variant("bsg", preset=PAPER, sized=_keep(2, rows=rows))
            for rows in (5_000, 10_000, 20_000)
        },
        epsilons=(1.0,),
        delta=DELTA,
    ),
    Experiment(
        name="bsg-figure6",
        paper=f"{BSG}, figure 6",
        about="share of candidates that pass the privacy test, by k, by how many attributes are drawn, and by gamma",
        variants={"BSG": Variant("bsg", preset=PAPER, sized=_bucketed)},
        tasks=("pass_rate", "pass_classes"),
        epsilons=(1.0,),
        delta=DELTA,
    ),
)
