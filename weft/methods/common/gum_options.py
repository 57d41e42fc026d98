"""GUM as an option of a method."""

from collections.abc import Mapping
from typing import Any, get_args

from weft.errors import MethodError
from weft.methods.common.options import Parts, check_fields, only_with
from weft.models.gum.gum_model import Decay, GumOptions, Strategy

_ONE_MARGINAL = only_with("strategy", *(each for each in get_args(Strategy) if each != "guided"))
"""Alpha belongs to the published strategies, which update one marginal at a time."""

GUM = Parts(
    GumOptions,
    {
        "alpha": (_ONE_MARGINAL,),
        "decay": (_ONE_MARGINAL,),
        "rate": (_ONE_MARGINAL, only_with("decay", *(each for each in get_args(Decay) if each != "constant"))),
        "length": (_ONE_MARGINAL, only_with("decay", "step")),
        "fill_empty": (_ONE_MARGINAL,),
        "peel": (only_with("append"),),
    },
)
"""Settings of the option `gum`."""


def check_gum(given: Mapping[str, Any]) -> GumOptions:
    """Validate the option `gum` and return its settings."""
    check_fields("gum", given, GumOptions)
    try:
        return GumOptions(**given)
    except ValueError as error:
        raise MethodError(f"option gum: {error}") from None
