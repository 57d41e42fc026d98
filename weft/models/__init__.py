"""Models: what is learned from noisy tables, and makes records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np

from weft.marginals.domain import Domain
from weft.marginals.marginal import Array
from weft.marginals.records import Records
from weft.progress import Listener, ignore_event

if TYPE_CHECKING:
    from weft.models.bayesnet import BayesNet


class Model(Protocol):
    """A distribution over records, learned from released answers only: no private row is inside."""

    kind: ClassVar[str]
    """Name of the model's type in a model file: for files alone, nothing else is decided by it."""

    @property
    def fixed_records(self) -> bool:
        """Whether it holds records that were released as they are: no more can be had, and `total` is their number."""
        ...

    @property
    def relates_columns(self) -> bool:
        """Whether a column may tell of another: not where each is drawn on its own."""
        ...

    @property
    def domain(self) -> Domain:
        """The attributes that the model covers."""
        ...

    @property
    def total(self) -> float:
        """Noisy number of rows of the table it was learned from."""
        ...

    def marginal(self, columns: Sequence[str]) -> Array:
        """Return expected counts (they sum to `total`) over the clique of these columns, axes in clique order."""
        ...

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = ignore_event) -> Records:
        """Make n records."""
        ...

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what a model file keeps: plain JSON values, and named arrays of numbers."""
        ...

    @classmethod
    def from_arrays(cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Rebuild the model from what `to_arrays` gave."""
        ...


@runtime_checkable
class Sequential(Protocol):
    """A model whose attributes can be drawn one after another, exactly: what a record grown from a seed needs."""

    def network(self) -> BayesNet:
        """Return the same distribution as a Bayesian network; MethodError if it cannot be had exactly."""
        ...


@runtime_checkable
class Answering(Protocol):
    """A model whose expected counts are sometimes counted on records that it makes, and then have a sampling error."""

    def answered(self, columns: Sequence[str]) -> tuple[Array, int]:
        """Return what `marginal` does, and on how many records it was counted; 0: it is exact."""
        ...


def answer_from_model(model: Model, columns: Sequence[str]) -> tuple[Array, int]:
    """Return a model's expected counts, and on how many records they were counted; 0: they are exact."""
    return model.answered(columns) if isinstance(model, Answering) else (model.marginal(columns), 0)


def find_added_classes(group: str) -> dict[str, tuple[str, str]]:
    """Return the classes that installed distributions add by entry points of a group: name to module and class."""
    return {point.name: (point.module, point.attr) for point in entry_points(group=group)}


MODELS = {
    "arranged": ("weft.models.arranged", "ArrangedModel"),
    "bayesnet": ("weft.models.bayesnet", "BayesNet"),
    "chains": ("weft.models.chains.chain_model", "ChainsModel"),
    "generator": ("weft.methods.dp_wgan", "GeneratorModel"),
    "gum": ("weft.models.gum.gum_model", "GumModel"),
    "independent": ("weft.models.independent_model", "IndependentModel"),
    "joined": ("weft.methods.dpsyn.joined_model", "JoinedModel"),
    "mrf": ("weft.models.mrf", "MrfModel"),
    "recoded": ("weft.models.recoded", "RecodedModel"),
    "seeded": ("weft.methods.bsg.seeded_records", "SeededModel"),
    "views": ("weft.methods.priview.view_model", "ViewsModel"),
} | find_added_classes("weft.models")
"""Every type of model by its name in a model file: the module and the class."""


def model_class(kind: str) -> type[Model]:
    """Return the class of a type of model; KeyError if there is no such type."""
    module, name = MODELS[kind]
    found: type[Model] = getattr(import_module(module), name)
    return found
