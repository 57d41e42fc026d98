"""The published experiments that `weft bench` knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from weft.bench import settings
from weft.bench.experiment import Experiment, Variant
from weft.errors import MethodError
from weft.marginals.records import Records
from weft.methods.steps.presets import PAPER

PRIVSYN = "PrivSyn (USENIX Security 2021)"
PRIVMRF = "PrivMRF (PVLDB 2021)"
BSG = "Plausible deniability (PVLDB 2017)"
DPSYN = "DPSyn (J. Privacy and Confidentiality 2021)"

TENTHS = tuple(round(0.2 * i, 1) for i in range(1, 11))
DOUBLING = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
TINY = 1e-10
"""Of the size of 1 / n^2 for the tables of the papers."""

NOT_PRIVATE = "selection NOT PRIVATE"
SEEDED_MOST = 100_000
"""Most records grown from seeds: far more than the classifiers of the tables look at."""


def _keep(attributes: int) -> Callable[[Records], Mapping[str, Any]]:
    """Keep so many attributes of a seed, and draw the rest, behind the paper's own test.

    As differentially private tables, so many records pass no test on most tables: all attributes would be drawn, and
    the lines would be one.
    """

    def sized(records: Records) -> Mapping[str, Any]:
        drawn = {"omega": len(records.domain) - attributes, "rows": min(len(records), SEEDED_MOST)}
        return {**settings.DENIABLE_AT_RANDOM, **drawn}

    return sized


_BSG_LINES = {
    "Marginals": Variant("independent"),
    "BSG, all drawn": Variant("bsg", preset=PAPER),
    "BSG, all but 1 drawn": Variant("bsg", preset=PAPER, sized=_keep(1)),
    "BSG, all but 2 drawn": Variant("bsg", preset=PAPER, sized=_keep(2)),
}

_MRF_RIVALS = {
    "PrivMRF": Variant("privmrf", preset=PAPER),
    "PB-PGM": Variant("pb-pgm", preset=PAPER),
    "PrivBayes": Variant("privbayes", preset=PAPER),
    "BSG": Variant("bsg", preset=PAPER),
    "DP-Copula": Variant("dp-copula", preset=PAPER),
    "DP-WGAN": Variant("dp-wgan", preset=PAPER),
}

_PRIVSYN_TASKS = ("pair_l1", "range", "svm")

_ALL = [
    Experiment(
        name="privsyn-figure4",
        paper=f"{PRIVSYN}, figure 4",
        about="whole methods on pair marginals, range queries and SVM",
        variants={
            "PrivSyn": Variant("privsyn", preset=PAPER),
            "PGM": Variant("pgm", preset=PAPER),
            "PrivBayes(InDif)": Variant("privbayes-indif", preset=PAPER),
            "DualQuery": Variant("dualquery", preset=PAPER),
        },
        tasks=_PRIVSYN_TASKS,
        epsilons=TENTHS,
        delta=TINY,
        held_out=True,
    ),
    Experiment(
        name="privsyn-figure5",
        paper=f"{PRIVSYN}, figure 5",
        about="selection of marginals: dense or a sparse network, on noisy or exact scores",
        variants={
            "DenseMarg": Variant("privsyn", preset=PAPER),
            f"DenseMarg, {NOT_PRIVATE}": Variant("privsyn", preset=PAPER, exact_scores=True),
            "PrivBayes(InDif)": Variant("privsyn", settings.SPARSE_NETWORK, PAPER),
            f"PrivBayes(InDif), {NOT_PRIVATE}": Variant("privsyn", settings.SPARSE_NETWORK, PAPER, exact_scores=True),
        },
        tasks=_PRIVSYN_TASKS,
        epsilons=TENTHS,
        delta=TINY,
        held_out=True,
    ),
    Experiment(
        name="privsyn-figure6",
        paper=f"{PRIVSYN}, figure 6",
        about="noise: weighted Gaussian, equal Gaussian, equal Laplace with naive composition",
        variants={
            "Weighted Gaussian": Variant("privsyn"),
            "Equal Gaussian": Variant("privsyn", settings.EQUAL_GAUSSIAN),
            "Equal Laplace": Variant("privsyn", settings.EQUAL_LAPLACE),
        },
        tasks=_PRIVSYN_TASKS,
        epsilons=TENTHS,
        delta=TINY,
        held_out=True,
    ),
    Experiment(
        name="privsyn-figure7",
        paper=f"{PRIVSYN}, figure 7",
        about=f"synthesis from the same marginals ({NOT_PRIVATE}, as published): GUM and MCF",
        variants={
            "GUM, guided": Variant("privsyn", settings.GUIDED, PAPER, exact_scores=True),
            "GUM as published": Variant("privsyn", preset=PAPER, exact_scores=True),
            "MCF": Variant("privsyn", settings.MCF, PAPER, exact_scores=True),
        },
        tasks=_PRIVSYN_TASKS,
        epsilons=TENTHS,
        delta=TINY,
        held_out=True,
    ),
    Experiment(
        name="privmrf-figure1",
        paper=f"{PRIVMRF}, figure 1",
        about="PrivMRF's theta: how much a useful marginal's cells must hold",
        variants={label: Variant("privmrf", options, PAPER) for label, options in settings.THETAS.items()},
        tasks=("tvd_5", "svm_each"),
        epsilons=DOUBLING,
        delta=1e-5,
        held_out=True,
    ),
    Experiment(
        name="privmrf-figure2",
        paper=f"{PRIVMRF}, figure 2",
        about="PrivMRF's t: how many marginals refinement adds",
        variants={label: Variant("privmrf", options, PAPER) for label, options in settings.PICKS.items()},
        tasks=("tvd_5", "svm_each"),
        epsilons=DOUBLING,
        delta=1e-5,
        held_out=True,
    ),
    Experiment(
        name="privmrf-figure3",
        paper=f"{PRIVMRF}, figure 3",
        about="PrivMRF's k: how many marginals are asked about in each round",
        variants={label: Variant("privmrf", options, PAPER) for label, options in settings.CANDIDATES.items()},
        tasks=("tvd_5", "svm_each"),
        epsilons=DOUBLING,
        delta=1e-5,
        held_out=True,
    ),
    Experiment(
        name="privmrf-figure4",
        paper=f"{PRIVMRF}, figure 4",
        about="whole methods on 3-, 4- and 5-way marginals",
        variants=_MRF_RIVALS,
        tasks=("tvd_3", "tvd_4", "tvd_5"),
        epsilons=DOUBLING,
        delta=1e-5,
    ),
    Experiment(
        name="privmrf-figure5",
        paper=f"{PRIVMRF}, figure 5",
        about="whole methods on SVM, each column as the label in turn",
        variants=_MRF_RIVALS,
        tasks=("svm_each",),
        epsilons=DOUBLING,
        delta=1e-5,
        held_out=True,
    ),
    Experiment(
        name="privmrf-figure6",
        paper=f"{PRIVMRF}, figure 6",
        about="how long PrivMRF takes to fit and sample",
        variants={"PrivMRF": Variant("privmrf", preset=PAPER)},
        tasks=(),
        epsilons=DOUBLING,
        delta=1e-5,
    ),
    Experiment(
        name="bsg-table3",
        paper=f"{BSG}, table 3",
        about="accuracy and agreement of tree, random forest and AdaBoost",
        variants=_BSG_LINES,
        tasks=("trees",),
        epsilons=(1.0,),
        delta=1e-9,
        held_out=True,
    ),
    Experiment(
        name="bsg-table4",
        paper=f"{BSG}, table 4",
        about="accuracy of logistic regression and linear SVM",
        variants=_BSG_LINES,
        tasks=("linear",),
        epsilons=(1.0,),
        delta=1e-9,
        held_out=True,
    ),
    Experiment(
        name="bsg-table5",
        paper=f"{BSG}, table 5",
        about="the distinguishing game: can a classifier tell synthetic rows from real ones?",
        variants=_BSG_LINES,
        tasks=("distinguish",),
        epsilons=(1.0,),
        delta=1e-9,
    ),
    Experiment(
        name="bsg-figure6",
        paper=f"{BSG}, figure 6",
        about="share of candidates that pass the privacy test, by k and by how many attributes are drawn",
        variants={"BSG": Variant("bsg")},
        tasks=("pass_rate",),
        epsilons=(1.0,),
        delta=1e-9,
    ),
    Experiment(
        name="weave-methods",
        paper="Weft's own comparison",
        about="weave beside the other methods on 3-, 4- and 5-way marginals",
        variants={
            "weave": Variant("weave"),
            "tree": Variant("tree"),
            "AIM": Variant("aim"),
            "MST": Variant("mst"),
            "PrivSyn": Variant("privsyn"),
            "Independent": Variant("independent"),
        },
        tasks=("tvd_3", "tvd_4", "tvd_5"),
        epsilons=(0.2, 0.8, 3.2),
        delta=1e-5,
    ),
    Experiment(
        name="dpsyn-nist",
        paper=f"{DPSYN}, section 5.1",
        about="density and range scores of the NIST 2018 challenge; 1 is perfect",
        variants={
            "DPSyn": Variant("dpsyn"),
            "PrivSyn": Variant("privsyn"),
            "PrivMRF": Variant("privmrf"),
            "MST": Variant("mst"),
            "AIM": Variant("aim"),
            "Independent": Variant("independent"),
        },
        tasks=("nist_density", "nist_range"),
        epsilons=(0.1, 0.3, 1.0, 3.0, 10.0),
        delta=TINY,
    ),
]

EXPERIMENTS: Mapping[str, Experiment] = {made.name: made for made in _ALL}
"""Every experiment by name."""


def experiment(name: str) -> Experiment:
    """Return an experiment by name."""
    if name not in EXPERIMENTS:
        close = get_close_matches(name, EXPERIMENTS, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else "`weft bench --list` shows them all."
        raise MethodError(f"there is no experiment {name!r}. {hint}")
    return EXPERIMENTS[name]
