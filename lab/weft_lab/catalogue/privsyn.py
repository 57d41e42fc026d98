"""PrivSyn's figures 4 to 7, tables 3, 4 and 6, and the appendices on how records are adjusted."""

from __future__ import annotations

from weft.methods.common.options import PAPER
from weft_lab import scores, settings
from weft_lab.experiment import Experiment, Reckoned, Variant

PRIVSYN = "PrivSyn (USENIX Security 2021)"
TENTHS = tuple(round(0.2 * i, 1) for i in range(1, 11))
TINY = 1e-10
"""Of the size of 1 / n^2 for the tables of the papers."""
NOT_PRIVATE = "selection NOT PRIVATE"
TASKS = ("pair_l1", "range", "svm")

EXPERIMENTS = (
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
        tasks=TASKS,
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
        tasks=TASKS,
        epsilons=TENTHS,
        delta=TINY,
        held_out=True,
    ),
    Experiment(
        name="privsyn-figure6",
        paper=f"{PRIVSYN}, figure 6",
        about="noise: weighted Gaussian, equal Gaussian, equal Laplace with naive composition",
        variants={
            "Weighted Gaussian": Variant("privsyn", preset=PAPER),
            "Equal Gaussian": Variant("privsyn", settings.EQUAL_GAUSSIAN, PAPER),
            "Equal Laplace": Variant("privsyn", settings.EQUAL_LAPLACE, PAPER),
        },
        tasks=TASKS,
        epsilons=TENTHS,
        delta=TINY,
        held_out=True,
    ),
    Experiment(
        name="privsyn-figure7",
        paper=f"{PRIVSYN}, figure 7",
        about=f"synthesis ({NOT_PRIVATE}, as published): GUM and MCF on dense marginals, PGM and PrivBayes on sparse",
        variants={
            "GUM, guided": Variant("privsyn", settings.GUIDED, PAPER, exact_scores=True),
            "GUM as published": Variant("privsyn", preset=PAPER, exact_scores=True),
            "MCF": Variant("privsyn", settings.MCF, PAPER, exact_scores=True),
            "PGM": Variant("pgm", preset=PAPER, exact_scores=True),
            "PrivBayes(InDif)": Variant("privbayes-indif", preset=PAPER, exact_scores=True),
        },
        tasks=TASKS,
        epsilons=TENTHS,
        delta=TINY,
        held_out=True,
    ),
    Experiment(
        name="privsyn-table3",
        paper=f"{PRIVSYN}, table 3",
        about="the noise of a score beside its range: InDif, mutual information, entropy (times n = 600,000)",
        reckoned=Reckoned(scores.RATIO_LINES, scores.ratios, anywhere="any 600,000 rows"),
        epsilons=(2.0,),
        delta=TINY,
    ),
    Experiment(
        name="privsyn-table4",
        paper=f"{PRIVSYN}, table 4",
        about="how far noisy scores of all pairs are off, relative to themselves: InDif, mutual information, SUC",
        reckoned=Reckoned(scores.ERROR_LINES, scores.relative_errors),
        epsilons=(2.0,),
        delta=TINY,
    ),
    Experiment(
        name="privsyn-table6",
        paper=f"{PRIVSYN}, table 6",
        about="how long each method takes to fit and sample",
        variants={
            "PrivBayes(InDif)": Variant("privbayes-indif", preset=PAPER),
            "PGM": Variant("pgm", preset=PAPER),
            "PrivSyn": Variant("privsyn", preset=PAPER),
        },
        epsilons=(2.0,),
        delta=TINY,
    ),
    Experiment(
        name="privsyn-appendix-i",
        paper=f"{PRIVSYN}, appendix I",
        about="how records are adjusted: replaced, duplicated, or both by turns",
        variants={label: Variant("privsyn", options, PAPER) for label, options in settings.STRATEGIES.items()},
        tasks=TASKS[:2],
        epsilons=(2.0,),
        delta=TINY,
    ),
    Experiment(
        name="privsyn-appendix-j",
        paper=f"{PRIVSYN}, appendix J",
        about="how alpha falls while records are adjusted",
        variants={label: Variant("privsyn", options, PAPER) for label, options in settings.DECAYS.items()},
        tasks=TASKS[:2],
        epsilons=(2.0,),
        delta=TINY,
    ),
    Experiment(
        name="privsyn-appendix-k",
        paper=f"{PRIVSYN}, appendix K",
        about="how many records are made, as a multiple of the rows",
        variants={f"{times:g} n": Variant("privsyn", preset=PAPER, made=times) for times in (0.1, 0.5, 1.0, 2.0)},
        tasks=TASKS[:2],
        epsilons=(2.0,),
        delta=TINY,
    ),
)
