"""Marginal plans: user-specified marginals to measure, validated before anything is spent."""

from weft.synthesis.marginal_plan.compiled_plan import (
    CompiledPlan,
    choose_accounting,
    compile_plan,
    extend_schema,
    with_maps,
)
from weft.synthesis.marginal_plan.plan_file import MarginalPlan, PlanError

__all__ = [
    "CompiledPlan",
    "MarginalPlan",
    "PlanError",
    "choose_accounting",
    "compile_plan",
    "extend_schema",
    "with_maps",
]
