"""Independent columns: noisy one-way marginals, and nothing between them.

The "Marginals" baseline of BSG (PVLDB 2017) and the floor that every other method must beat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.curator import Curator
from weft.marginals.domain import Domain
from weft.methods.steps.options import option
from weft.methods.steps.presets import Published
from weft.models.independent import IndependentModel
from weft.privacy import Accounting
from weft.progress import Listener, silence, stage
from weft.reconcile import common_total, simplex


@dataclass(frozen=True)
class Independent:
    """Measure every column alone with an equal part of the budget; sample each on its own."""

    completes_seeds: ClassVar[bool] = True
    paper: ClassVar[Published | None] = None

    accounting: Accounting = option(
        "gaussian", '"gaussian" for (epsilon, delta), "pure" for geometric noise and delta 0.'
    )

    def check(self, domain: Domain) -> None:
        """Every domain will do."""

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = silence) -> IndependentModel:
        """Spend the whole budget on one-way marginals."""
        with stage(listener, "measure"):
            noisy = curator.measure([(name,) for name in curator.domain], share=1.0)
        total = max(common_total(noisy)[0], 1.0)
        return IndependentModel(curator.domain, total, tuple(simplex(m.table, total) for m in noisy))
