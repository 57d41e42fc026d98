"""Methods: one synthesis algorithm per file. A method is given a curator, never an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any, ClassVar, Protocol, get_type_hints

import numpy as np

from weft.curator import Curator
from weft.errors import MethodError
from weft.marginals.domain import Domain
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
    "aim": ("weft.methods.aim", "Aim"),
    "bsg": ("weft.methods.bsg.bsg", "Bsg"),
    "cover": ("weft.methods.cover", "Cover"),
    "dp-wgan": ("weft.methods.dp_wgan", "DpWgan"),
    "dpsyn": ("weft.methods.dpsyn.dpsyn", "DpSyn"),
    "independent": ("weft.methods.independent", "Independent"),
    "marginals": ("weft.methods.independent", "Independent"),  # the name of this baseline in BSG
    "mst": ("weft.methods.mst", "Mst"),
    "pb-pgm": ("weft.methods.privbayes.pb_pgm", "PbPgm"),
    "pgm": ("weft.methods.pgm", "Pgm"),
    "privbayes": ("weft.methods.privbayes.privbayes", "PrivBayes"),
    "privbayes-indif": ("weft.methods.privbayes.privbayes_indif", "PrivBayesInDif"),
    "priview": ("weft.methods.priview.priview", "PriView"),
    "privmrf": ("weft.methods.privmrf", "PrivMrf"),
    "privsyn": ("weft.methods.privsyn.privsyn", "PrivSyn"),
    "tree": ("weft.methods.tree", "Tree"),
    "weave": ("weft.methods.weave.weave", "Weave"),
}

METHODS = dict(sorted((_OWN | find_added_classes("weft.methods")).items()))
"""Module and class of every method by name: built-in, or from installed distributions such as weft-lab."""

RENAMED: dict[str, dict[str, str]] = {
    "aim": {"one_way": "share_columns", "first": "share_scores", "look": "part_scores", "rounds": "rounds_per_column"},
    "bsg": {"count": "share_total", "structure": "share_structure", "seeds": "share_seeds"},
    "mst": {"one_way": "share_columns", "look": "share_scores", "heaviest": "selection"},
    "pb-pgm": {"structure": "share_structure"},
    "pgm": {"one_way": "share_columns"},
    "privbayes": {"count": "share_total", "columns": "share_columns", "structure": "share_structure"},
    "privbayes-indif": {"count": "share_total", "look": "share_scores"},
    "privmrf": {
        "dependence": "share_scores",
        "count": "share_columns",
        "refine": "share_refine",
    },
    "privsyn": {"one_way": "share_columns", "look": "share_scores"},
    "tree": {"one_way": "share_columns", "look": "share_scores", "outside": "extra_pairs_per_column"},
    "weave": {
        "one_way": "share_columns",
        "count": "tuning.share_total",
        "look": "tuning.part_scores",
        "pairs": "tuning.part_pairs",
        "hopeless": "tuning.columns_only_error",
        "noise": "tuning.clique_error",
        "most": "tuning.batch_cliques",
        "rounds": "tuning.matching_rounds",
        **{
            name: f"tuning.{name}"
            for name in (
                "share_total",
                "part_marginals",
                "batches",
                "column_error",
                "overlap",
                "candidates",
                "max_tree",
                "chains",
                "sweeps",
                "herding",
                "feedback",
            )
        },
    },
}
"""New names of options of version 0.1, for the error message."""

MOVED: dict[str, dict[str, str]] = {
    "privmrf": dict.fromkeys(("selection", "tables", "extra_pairs", "outside"), "cover"),
}
"""Options that moved to another method."""

AUTO, BEST = "auto", "weave"
"""The alias "auto", and its method: the most accurate, or close to it, on nearly all tables measured
(docs/decisions/007)."""


class Method(Protocol):
    """A synthesis algorithm: a frozen dataclass whose fields are its options."""

    completes_seeds: ClassVar[bool]
    """Whether all its models have exact conditional distributions (`weft.models.Sequential`)."""
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


def list_seed_methods() -> list[str]:
    """Return the methods whose models can complete seeds."""
    return [name for name in METHODS if get_method_class(name).completes_seeds]


def resolve_method_name(name: str) -> str:
    """Return the name of an existing method, with "auto" resolved; otherwise raise MethodError."""
    name = BEST if name == AUTO else name
    if name not in METHODS:
        raise MethodError(f"there is no method {name!r}. {suggest_word(name, [AUTO, *METHODS])}")
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
            now, moved = (table.get(resolve_method_name(name), {}).get(option) for table in (RENAMED, MOVED))
            hint = f"It is now called {now}." if now else f"It is now an option of method {moved!r}." if moved else ""
            hint = hint or suggest_word(option, names)
            raise MethodError(f"method {name!r} has no option {option!r}. {hint}")
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
