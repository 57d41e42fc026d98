"""Plans of marginals: what somebody who knows the data would measure, checked before anything is spent."""

from __future__ import annotations

from weft.workload.compiled import Compiled, compile_plan
from weft.workload.items import PlanError
from weft.workload.mechanism import Noise, choose_accounting, noise_of
from weft.workload.plan import MarginalPlan
from weft.workload.schema import extended, with_maps

__all__ = [
    "Compiled",
    "MarginalPlan",
    "Noise",
    "PlanError",
    "choose_accounting",
    "compile_plan",
    "extended",
    "noise_of",
    "with_maps",
]
