"""Methods: one short recipe a file. A recipe holds a curator, never an engine."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from typing import Any, ClassVar, Protocol, get_type_hints

import numpy as np

from weft.curator import Curator
from weft.errors import MethodError
from weft.marginals.domain import Domain
from weft.methods.steps.options import check_bounds, describe, fits, shown, suggest
from weft.models import Model
from weft.privacy import Accounting
from weft.progress import Listener

METHODS = {
    "aim": ("weft.methods.aim", "Aim"),
    "bsg": ("weft.methods.bsg", "Bsg"),
    "dpsyn": ("weft.methods.dpsyn", "DpSyn"),
    "independent": ("weft.methods.independent", "Independent"),
    "marginals": ("weft.methods.independent", "Independent"),  # the name of this baseline in BSG
    "mst": ("weft.methods.mst", "Mst"),
    "pb-pgm": ("weft.methods.pb_pgm", "PbPgm"),
    "pgm": ("weft.methods.pgm", "Pgm"),
    "privbayes": ("weft.methods.privbayes", "PrivBayes"),
    "privbayes-indif": ("weft.methods.privbayes_indif", "PrivBayesInDif"),
    "priview": ("weft.methods.priview", "PriView"),
    "privmrf": ("weft.methods.privmrf", "PrivMrf"),
    "privsyn": ("weft.methods.privsyn", "PrivSyn"),
    "tree": ("weft.methods.tree", "Tree"),
    "weave": ("weft.methods.weave", "Weave"),
}
"""Every method by name: the module and the class of its recipe."""


RENAMED: dict[str, dict[str, str]] = {
    "aim": {"one_way": "share_columns", "first": "share_scores", "look": "part_scores", "rounds": "rounds_per_column"},
    "bsg": {"count": "share_total", "structure": "share_structure", "seeds": "share_seeds"},
    "mst": {"one_way": "share_columns", "look": "share_scores"},
    "pb-pgm": {"structure": "share_structure"},
    "pgm": {"one_way": "share_columns"},
    "privbayes": {"count": "share_total", "columns": "share_columns", "structure": "share_structure"},
    "privbayes-indif": {"count": "share_total", "look": "share_scores"},
    "privmrf": {
        "dependence": "share_scores",
        "count": "share_columns",
        "refine": "share_refine",
        "outside": "extra_pairs",
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

AUTO, BEST = "auto", "weave"
"""The name that stands for the method that is most accurate, or level with the best, on nearly all tables measured
(docs/decisions/007)."""


class Method(Protocol):
    """A recipe: a frozen dataclass whose fields are its options."""

    completes_seeds: ClassVar[bool]
    """Whether every model it makes has exact conditional distributions (`weft.models.Sequential`)."""

    @property
    def accounting(self) -> Accounting:
        """How a budget in (epsilon, delta) is counted for the mechanisms that the recipe uses."""
        ...

    def check(self, domain: Domain) -> None:
        """Refuse what cannot work on this domain, before anything is spent."""
        ...

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener) -> Model:
        """Spend the curator's budget on a model."""
        ...


def takes(name: str, option: str) -> bool:
    """Whether a method has an option of this name."""
    return any(field.name == option for field in fields(_recipe(name)))


def completing_seeds() -> list[str]:
    """Return the methods whose models can complete a seed."""
    return [name for name in METHODS if _recipe(name).completes_seeds]


def known(name: str) -> str:
    """Return the name of a method, that which "auto" stands for included, if there is such a one."""
    name = BEST if name == AUTO else name
    if name not in METHODS:
        raise MethodError(f"no method {name!r}. {suggest(name, [AUTO, *METHODS])}")
    return name


def _recipe(name: str) -> Any:
    module, recipe = METHODS[known(name)]
    return getattr(import_module(module), recipe)


def method(name: str, **options: Any) -> Method:
    """Make a recipe by name, with options that differ from its defaults."""
    made = _recipe(name)
    names = [field.name for field in fields(made)]
    for option in options:
        if option not in names:
            now = RENAMED.get(known(name), {}).get(option)
            hint = suggest(option, names) if now is None else f"It is called {now} now."
            raise MethodError(f"method {name!r} has no option {option!r}. {hint}")
    kinds = get_type_hints(made)
    for option, value in options.items():
        if not fits(value, kinds[option]):
            raise MethodError(f"option {option}: {describe(kinds[option])}; not {shown(value)}.")
    check_bounds(made, options)
    recipe_made: Method = made(**options)
    return recipe_made
