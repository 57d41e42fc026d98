"""Models: distributions estimated from noisy measurements, from which records are sampled."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np

from weft.marginals.domain import Domain
from weft.marginals.marginal import Array
from weft.marginals.records import Records
from weft.progress import Listener, ignore_event


class Model(Protocol):
    """Distribution over records, estimated from released measurements only; contains no private row."""

    kind: ClassVar[str]
    """Name of the model type; used in model files only."""

    @property
    def fixed_records(self) -> bool:
        """Whether the model holds a fixed set of released records; `total` is then their number."""
        ...

    @property
    def relates_columns(self) -> bool:
        """Whether columns can be dependent; False if each is sampled independently."""
        ...

    @property
    def domain(self) -> Domain:
        """Attributes of the model."""
        ...

    @property
    def total(self) -> float:
        """Noisy number of rows of the private table."""
        ...

    def marginal(self, columns: Sequence[str]) -> Array:
        """Return expected counts (summing to `total`) over the clique of these attributes, axes in clique order."""
        ...

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = ignore_event) -> Records:
        """Sample n records."""
        ...

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the content of the model file: JSON values and named numeric arrays."""
        ...

    @classmethod
    def from_arrays(cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Rebuild the model from the output of `to_arrays`."""
        ...


@runtime_checkable
class Answering(Protocol):
    """Model whose expected counts may be estimated from sampled records and then have a sampling error."""

    def answered(self, columns: Sequence[str]) -> tuple[Array, int]:
        """Return the result of `marginal` and the number of sampled records behind it (0: exact)."""
        ...


def answer_from_model(model: Model, columns: Sequence[str]) -> tuple[Array, int]:
    """Return a model's expected counts and the number of sampled records behind them (0: exact)."""
    return model.answered(columns) if isinstance(model, Answering) else (model.marginal(columns), 0)


def find_added_classes(group: str) -> dict[str, tuple[str, str]]:
    """Return the classes that installed packages register under an entry-point group: name to module and class."""
    return {point.name: (point.module, point.attr) for point in entry_points(group=group)}


MODELS = {
    "arranged": ("weft.models.arranged", "ArrangedModel"),
    "chains": ("weft.models.chains.chain_model", "ChainsModel"),
    "gum": ("weft.models.gum.gum_model", "GumModel"),
    "independent": ("weft.models.independent_model", "IndependentModel"),
    "mrf": ("weft.models.mrf", "MrfModel"),
    "recoded": ("weft.models.recoded", "RecodedModel"),
} | find_added_classes("weft.models")
"""Model types by their name in a model file: module and class."""


def model_class(kind: str) -> type[Model]:
    """Return the class of a model type; raise KeyError if it is unknown."""
    module, name = MODELS[kind]
    found: type[Model] = getattr(import_module(module), name)
    return found
