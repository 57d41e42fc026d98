"""An experiment is data: which variants of which methods are compared, by which tasks, over which budgets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from weft.errors import MethodError
from weft.marginals.records import Records
from weft.methods import METHODS
from weft_lab.settings import EXACT_SCORES


def _nothing(_: Records) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True)
class Variant:
    """A method with its options, as one line of a figure."""

    method: str
    """Name in the registry; a variant of a method that is not there yet is left out until it is."""
    options: Mapping[str, Any] = field(default_factory=dict)
    preset: str | None = None
    """ "paper" for the method as published; the options win over it."""
    sized: Callable[[Records], Mapping[str, Any]] = _nothing
    """More options, that depend on the table: how many columns or rows it has."""
    exact_scores: bool = False
    """Select on exact dependence scores, free of charge: a baseline of the papers that is NOT PRIVATE."""
    made: float = 1.0
    """How many records are made, as a multiple of the rows."""

    @property
    def exists(self) -> bool:
        """Whether the method is there."""
        return self.method in METHODS

    def settings(self, records: Records) -> dict[str, Any]:
        """Return the method's options for this table."""
        free = EXACT_SCORES if self.exact_scores else {}
        published = {} if self.preset is None else {"preset": self.preset}
        return {**published, **free, **self.options, **self.sized(records)}


Reckoning = Callable[[Records | None, float, float, int], Mapping[str, Mapping[str, float]]]
"""From a table, epsilon, delta and a seed, the figures of each line by measure."""


@dataclass(frozen=True)
class Reckoned:
    """Lines that are no methods: figures reckoned from a table, or from none."""

    lines: tuple[str, ...]
    figures: Reckoning
    anywhere: str = ""
    """What stands in place of a table where no row is looked at."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One published figure or table."""

    name: str
    paper: str
    """Where it was published."""
    about: str
    """What it compares, in one line."""
    variants: Mapping[str, Variant] = field(default_factory=dict)
    """Lines of the figure by label, in its order."""
    reckoned: Reckoned | None = None
    """In place of variants."""
    tasks: tuple[str, ...] = ()
    """What is measured; see `weft_lab.tasks.TASKS`."""
    epsilons: tuple[float, ...]
    delta: float
    """The papers' 1 / n^2 would tell n: delta is a round number of that size instead."""
    held_out: bool = False
    """Whether some rows are kept from the method, to test classifiers on."""
    folds: int | None = None
    """Those rows are one of so many parts of the table, by turns: cross-validation."""

    @property
    def lines(self) -> list[str]:
        """The labels of its lines."""
        return list(self.variants) if self.reckoned is None else list(self.reckoned.lines)

    @property
    def missing(self) -> list[str]:
        """Labels of the variants whose method does not exist yet."""
        return [label for label, variant in self.variants.items() if not variant.exists]

    def ready(self) -> Experiment:
        """Return the experiment with the variants that exist."""
        return replace(self, variants={k: v for k, v in self.variants.items() if v.exists})

    def with_methods(self, names: Sequence[str]) -> Experiment:
        """Return the experiment with these lines only: labels of its own, or any method with its defaults.

        A label may be written in lower case with hyphens: `weighted-gaussian` for "Weighted Gaussian".
        """
        if self.reckoned is not None:
            raise MethodError(f"{self.name} compares no methods: leave --methods out.")
        own = {slug(label): label for label in self.variants}
        chosen: dict[str, Variant] = {}
        for name in names:
            if slug(name) in own:
                chosen[own[slug(name)]] = self.variants[own[slug(name)]]
            elif name in METHODS:
                chosen[name] = Variant(name)
            else:
                there = ", ".join([*own, *(m for m in METHODS if m not in own)])
                raise MethodError(f"{self.name} has no line {name!r}, and there is no such method. There are: {there}.")
        return replace(self, variants=chosen)


def slug(text: str) -> str:
    """Return a name that is easy to type.

    >>> slug("PrivBayes(InDif), NOT PRIVATE")
    'privbayes-indif-not-private'
    """
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")
