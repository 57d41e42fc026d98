"""Independent attributes: noisy one-way marginals only.

The "Marginals" baseline of BSG (PVLDB 2017), which every other method should outperform.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.curator import Curator
from weft.marginals.domain import Domain
from weft.marginals.pooling import common_total
from weft.marginals.simplex import project_to_simplex
from weft.methods.common.options import Published, option
from weft.models.independent_model import IndependentModel
from weft.privacy import AccountingName
from weft.progress import Listener, ignore_event, report_stage


@dataclass(frozen=True)
class Independent:
    """One-way marginals with equal parts of the budget; each attribute is sampled independently."""

    completes_seeds: ClassVar[bool] = True
    paper: ClassVar[Published | None] = None

    accounting: AccountingName = option("gaussian", '"gaussian", or "pure" for geometric noise and delta 0.')

    def check(self, domain: Domain) -> None:
        """Accept every domain."""

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = ignore_event) -> IndependentModel:
        """Measure the one-way marginals with the whole budget."""
        with report_stage(listener, "measure"):
            noisy = curator.measure([(name,) for name in curator.domain], share=1.0)
        total = max(common_total(noisy)[0], 1.0)
        return IndependentModel(curator.domain, total, tuple(project_to_simplex(m.table, total) for m in noisy))
