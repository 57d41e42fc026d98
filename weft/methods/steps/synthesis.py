"""GUM as an option of a recipe: which of its settings there are, and which of them count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from weft.errors import MethodError
from weft.methods.steps.effects import Parts, only_with
from weft.methods.steps.options import check_fields
from weft.models.gum.model import Decay, GumOptions, Strategy

_ONE_MARGINAL = only_with("strategy", *(each for each in get_args(Strategy) if each != "guided"))
"""Alpha is of the papers' strategies, which update one marginal at a time."""

GUM = Parts(
    GumOptions,
    {
        "alpha": (_ONE_MARGINAL,),
        "decay": (_ONE_MARGINAL,),
        "rate": (_ONE_MARGINAL, only_with("decay", *(each for each in get_args(Decay) if each != "constant"))),
        "length": (_ONE_MARGINAL, only_with("decay", "step")),
    },
)
"""What a recipe's `gum` takes."""


def check_gum(given: Mapping[str, Any]) -> GumOptions:
    """Return the settings of the synthesis; refuse those that there are not."""
    check_fields("gum", given, GumOptions)
    try:
        return GumOptions(**given)
    except ValueError as error:
        raise MethodError(f"option gum: {error}") from None
