"""DPSyn's figure 2, and the scores of NIST's challenge of 2018."""

from __future__ import annotations

from weft_lab import mechanisms
from weft_lab.experiment import Experiment, Reckoned, Variant

DPSYN = "DPSyn (J. Privacy and Confidentiality 2021)"
TINY = 1e-10
LINES = {
    "DPSyn": Variant("dpsyn"),
    "PrivSyn": Variant("privsyn"),
    "PrivMRF": Variant("privmrf"),
    "MST": Variant("mst"),
    "AIM": Variant("aim"),
    "Independent": Variant("independent"),
}
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)

EXPERIMENTS = (
    Experiment(
        name="dpsyn-figure2",
        paper=f"{DPSYN}, figure 2",
        about="at how many marginals Laplace noise that adds up is as large as Gaussian noise under zCDP",
        reckoned=Reckoned(tuple(mechanisms.CROSSINGS), mechanisms.crossings, anywhere="any table"),
        epsilons=(1.0,),
        delta=TINY,
    ),
    Experiment(
        name="dpsyn-nist",
        paper=f"{DPSYN}, section 5.1",
        about="density and range scores of the NIST 2018 challenge, ranges of sets of values; 1 is perfect",
        variants=LINES,
        tasks=("nist_density", "nist_range"),
        epsilons=EPSILONS,
        delta=TINY,
    ),
    Experiment(
        name="dpsyn-gini",
        paper=f"{DPSYN}, section 5.1",
        about="Gini index and rank by gender pay gap of each area, in the manner of NIST's third score; 1 is perfect",
        variants=LINES,
        tasks=("gini",),
        epsilons=EPSILONS,
        delta=TINY,
    ),
)
