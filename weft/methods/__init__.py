"""Methods: one short recipe a file. A recipe holds a curator, never an engine."""

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
"""Every method by name, its module and class: Weft's own, and those of installed distributions such as weft-lab."""


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
"""What options of version 0.1 are called now: they are refused with this hint."""

MOVED: dict[str, dict[str, str]] = {
    "privmrf": dict.fromkeys(("selection", "tables", "extra_pairs", "outside"), "cover"),
}
"""Options that another method has now."""

AUTO, BEST = "auto", "weave"
"""The name that stands for the method that is most accurate, or level with the best, on nearly all tables measured
(docs/decisions/007)."""


class Method(Protocol):
    """A recipe: a frozen dataclass whose fields are its options."""

    completes_seeds: ClassVar[bool]
    """Whether every model it makes has exact conditional distributions (`weft.models.Sequential`)."""
    paper: ClassVar[Published | None]
    """The published settings, for `preset="paper"`; None: it follows no paper."""

    @property
    def accounting(self) -> AccountingName:
        """How a budget in (epsilon, delta) is counted for the mechanisms that the recipe uses."""
        ...

    def check(self, domain: Domain) -> None:
        """Refuse what cannot work on this domain, before anything is spent."""
        ...

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener) -> Model:
        """Spend the curator's budget on a model."""
        ...


def takes_option(name: str, option: str) -> bool:
    """Whether a method has an option of this name."""
    return any(field.name == option for field in fields(get_method_class(name)))


def published_settings(name: str) -> Published | None:
    """Return what `preset="paper"` sets, of a method that has a paper."""
    found: Published | None = get_method_class(name).paper
    return found


def list_seed_methods() -> list[str]:
    """Return the methods whose models can complete a seed."""
    return [name for name in METHODS if get_method_class(name).completes_seeds]


def resolve_method_name(name: str) -> str:
    """Return the name of a method, that which "auto" stands for included, if there is such a one."""
    name = BEST if name == AUTO else name
    if name not in METHODS:
        raise MethodError(f"no method {name!r}. {suggest_word(name, [AUTO, *METHODS])}")
    return name


def get_method_class(name: str) -> Any:
    """Return the class of a recipe."""
    module, made = METHODS[resolve_method_name(name)]
    return getattr(import_module(module), made)


def make_method(name: str, *, preset: str | None = None, **options: Any) -> Method:
    """Make a recipe by name, with options that differ from its defaults; `preset="paper"` has the published ones."""
    made = get_method_class(name)
    names = [field.name for field in fields(made)]
    for option in options:
        if option not in names:
            now, moved = (table.get(resolve_method_name(name), {}).get(option) for table in (RENAMED, MOVED))
            hint = f"It is called {now} now." if now else f"It is one of the method {moved!r} now." if moved else ""
            hint = hint or suggest_word(option, names)
            raise MethodError(f"method {name!r} has no option {option!r}. {hint}")
    kinds = get_type_hints(made)
    for option, value in options.items():
        if not matches_kind(value, kinds[option]):
            raise MethodError(f"option {option}: {describe_kind(kinds[option])}; not {format_option_value(value)}.")
    check_bounds(made, options)
    recipe_made: Method = made(**with_preset(resolve_method_name(name), made.paper, preset, options))
    check_effects(recipe_made, options)
    return recipe_made


def check_effects(recipe: Method, given: Mapping[str, Any]) -> None:
    """Refuse options that were given, other than they are by default, and that this recipe would not look at."""
    options = options_of(type(recipe))
    values = {option.name: getattr(recipe, option.name) for option in options}
    changed = {option.name for option in options if convert_to_plain(values[option.name]) != option.default}
    refuse_idle([name for name in given if name in changed], {o.name: o.needs for o in options}, values)
    for option in options:
        if option.parts is not None and option.name in given:
            check_fields(option.name, given[option.name], option.parts.taker)
            option.parts.refuse_idle(option.name, given[option.name], values[option.name])
