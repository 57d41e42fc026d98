"""Methods: one synthesis algorithm per file. A method is given a curator, never an engine."""

import sys
from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any, ClassVar, Protocol, get_type_hints

import numpy as np

from weft.curator import Curator
from weft.errors import MethodError
from weft.marginals.domain import Domain
from weft.methods.common.discretisation import MAX_PUBLISHED_CODES, SHARE, SHARE_ROWS
from weft.methods.common.options import (
    Published,
    check_bounds,
    check_fields,
    convert_to_plain,
    describe_kind,
    format_option_value,
    matches_kind,
    options_of,
    refuse_idle,
    suggest_word,
    with_preset,
)
from weft.models import Model, find_added_classes
from weft.privacy import AccountingName
from weft.progress import Listener

_OWN = {
    "independent": ("weft.methods.independent", "Independent"),
    "marginals": ("weft.methods.independent", "Independent"),  # the name of this baseline in BSG
    "privsyn": ("weft.methods.privsyn", "PrivSyn"),
    "weave": ("weft.methods.weave.weave", "Weave"),
}

METHODS = dict(sorted((_OWN | find_added_classes("weft.methods")).items()))
"""Module and class of every method by name: built-in, or from installed distributions such as weft-lab."""

AUTO, BEST = "auto", "weave"
"""The alias "auto", and its method: the most accurate, or close to it, on nearly all tables measured
(docs/decisions/007)."""


class Method(Protocol):
    """A synthesis algorithm: a frozen dataclass whose fields are its options."""

    completes_seeds: ClassVar[bool]
    """Whether all its models have exact conditional distributions (a Bayesian network, in some order)."""
    paper: ClassVar[Published | None]
    """The published settings, for `preset="paper"`; None if the method follows no paper."""

    @property
    def accounting(self) -> AccountingName:
        """The accounting of (epsilon, delta) for the mechanisms that the method uses."""
        ...

    def check(self, domain: Domain) -> None:
        """Raise MethodError if the options are invalid for this domain, before anything is charged."""
        ...

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener) -> Model:
        """Fit a model with the curator's budget."""
        ...


def takes_option(name: str, option: str) -> bool:
    """Return whether a method has an option of this name."""
    return any(field.name == option for field in fields(get_method_class(name)))


def published_settings(name: str) -> Published | None:
    """Return the settings of `preset="paper"`, or None if the method follows no paper."""
    found: Published | None = get_method_class(name).paper
    return found


COMMON_DIFFERENCES = (
    f"Ordered attributes of more than {MAX_PUBLISHED_CODES:,} codes are coarsened before the method begins, for up to "
    f"{SHARE + SHARE_ROWS:.1%} of the budget; with fewer codes, the bins of the schema are the paper's discretisation.",
    "Where a person may have several rows, the distribution of rows per person is measured, for 2% of the budget.",
    "Noise is on integers: rounded Gaussian, and two-sided geometric for Laplace.",
)
"""Differences between `preset="paper"` and the papers that all methods have."""


def list_differences(name: str) -> list[str]:
    """Return where a method still differs from its paper with `preset="paper"`: the end of its module's docstring.

    >>> len(list_differences("privsyn")) > len(COMMON_DIFFERENCES)
    True
    """
    text = sys.modules[get_method_class(name).__module__].__doc__ or ""
    _, found, own = " ".join(text.split()).partition("With the preset as well: - ")
    return [*(own.split(" - ") if found else []), *COMMON_DIFFERENCES]


def resolve_method_name(name: str) -> str:
    """Return the name of an existing method, with "auto" resolved; otherwise raise MethodError."""
    name = BEST if name == AUTO else name
    if name not in METHODS:
        more = "" if find_added_classes("weft.methods") else " Further published methods are in weft-lab."
        raise MethodError(f"there is no method {name!r}. {suggest_word(name, [AUTO, *METHODS])}{more}")
    return name


def get_method_class(name: str) -> Any:
    """Return the class of a method."""
    module, made = METHODS[resolve_method_name(name)]
    return getattr(import_module(module), made)


def make_method(name: str, *, preset: str | None = None, **options: Any) -> Method:
    """Create a method by name from validated options; `preset="paper"` starts from the published settings."""
    made = get_method_class(name)
    names = [field.name for field in fields(made)]
    for option in options:
        if option not in names:
            raise MethodError(f"method {name!r} has no option {option!r}. {suggest_word(option, names)}")
    kinds = get_type_hints(made)
    for option, value in options.items():
        if not matches_kind(value, kinds[option]):
            raise MethodError(
                f"option {option}: expected {describe_kind(kinds[option])}, not {format_option_value(value)}."
            )
    check_bounds(made, options)
    recipe_made: Method = made(**with_preset(resolve_method_name(name), made.paper, preset, options))
    check_effects(recipe_made, options)
    return recipe_made


def check_effects(recipe: Method, given: Mapping[str, Any]) -> None:
    """Refuse given options that differ from their default and would have no effect."""
    options = options_of(type(recipe))
    values = {option.name: getattr(recipe, option.name) for option in options}
    changed = {option.name for option in options if convert_to_plain(values[option.name]) != option.default}
    refuse_idle([name for name in given if name in changed], {o.name: o.needs for o in options}, values)
    for option in options:
        if option.parts is not None and option.name in given:
            check_fields(option.name, given[option.name], option.parts.taker)
            option.parts.refuse_idle(option.name, given[option.name], values[option.name])
