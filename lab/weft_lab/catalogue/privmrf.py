"""PrivMRF's figures 1 to 6."""

from __future__ import annotations

from weft.methods.common.options import PAPER
from weft_lab import settings
from weft_lab.experiment import Experiment, Variant

PRIVMRF = "PrivMRF (PVLDB 2021)"
DOUBLING = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
DELTA = 1e-5
FOLDS = 5
"""Section 5.1: 80% to learn from and 20% to test on, by cross-validation."""

RIVALS = {
    "PrivMRF": Variant("privmrf", preset=PAPER),
    "PB-PGM": Variant("pb-pgm", preset=PAPER),
    "PrivBayes": Variant("privbayes", preset=PAPER),
    "BSG": Variant("bsg", preset=PAPER),
    "DP-Copula": Variant("dp-copula", preset=PAPER),
    "DP-WGAN": Variant("dp-wgan", preset=PAPER),
}

_TUNED = {
    "privmrf-figure1": ("theta: how much a useful marginal's cells must hold", settings.THETAS),
    "privmrf-figure2": ("t: how many marginals refinement adds", settings.PICKS),
    "privmrf-figure3": ("k: how many marginals are asked about in each round", settings.CANDIDATES),
}

EXPERIMENTS = (
    *(
        Experiment(
            name=name,
            paper=f"{PRIVMRF}, {name.removeprefix('privmrf-').replace('figure', 'figure ')}",
            about=f"PrivMRF's {about}",
            variants={label: Variant("privmrf", options, PAPER) for label, options in lines.items()},
            tasks=("tvd_5", "svm_each"),
            epsilons=DOUBLING,
            delta=DELTA,
            held_out=True,
            folds=FOLDS,
        )
        for name, (about, lines) in _TUNED.items()
    ),
    Experiment(
        name="privmrf-figure4",
        paper=f"{PRIVMRF}, figure 4",
        about="whole methods on 3-, 4- and 5-way marginals",
        variants=RIVALS,
        tasks=("tvd_3", "tvd_4", "tvd_5"),
        epsilons=DOUBLING,
        delta=DELTA,
    ),
    Experiment(
        name="privmrf-figure5",
        paper=f"{PRIVMRF}, figure 5",
        about="whole methods on SVM, each column as the label in turn",
        variants=RIVALS,
        tasks=("svm_each",),
        epsilons=DOUBLING,
        delta=DELTA,
        held_out=True,
        folds=FOLDS,
    ),
    Experiment(
        name="privmrf-figure6",
        paper=f"{PRIVMRF}, figure 6",
        about="how long PrivMRF takes to fit and sample",
        variants={"PrivMRF": Variant("privmrf", preset=PAPER)},
        epsilons=DOUBLING,
        delta=DELTA,
    ),
)
