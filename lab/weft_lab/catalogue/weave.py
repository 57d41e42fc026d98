"""Weft's own comparison, beside those of the papers."""

from __future__ import annotations

from weft_lab.experiment import Experiment, Variant

EXPERIMENTS = (
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
)
