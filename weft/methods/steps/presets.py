"""Published settings by one name: `preset="paper"` stands for the options that a recipe's paper used.

A recipe holds them as one mapping; what it does not name is as by default. What a user sets besides wins. Privacy is no
setting: where a paper's text or code spends more than it says, the preset does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from weft.errors import MethodError
from weft.methods.steps.options import options_of, plain, shown

PAPER = "paper"
"""The preset that there is."""

Published = Mapping[str, Any]
"""Options of a recipe as its paper has them."""


def published(**settings: Any) -> Published:
    """Return the published settings of a recipe, which nobody can change."""
    return MappingProxyType(settings)


def with_preset(name: str, paper: Published | None, preset: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a method's options with those of a preset where they are not given.

    Of an option that is itself a mapping of names to settings, what is given replaces those of the same name.
    """
    if preset is None:
        return dict(options)
    if preset != PAPER:
        raise MethodError(f'preset: there is "{PAPER}", for the published settings; not {shown(preset)}.')
    if paper is None:
        raise MethodError(
            f'preset: method {name!r} follows no paper, so that there are no published settings. Leave "{PAPER}" out, '
            "or choose a method of a paper; `weft methods` lists them."
        )
    made = {**paper, **options}
    for key, value in paper.items():
        if isinstance(value, Mapping) and isinstance(made[key], Mapping):
            made[key] = {**value, **made[key]}
    return made


def differences(recipe: type[Any], paper: Published) -> dict[str, tuple[Any, Any]]:
    """Return the options in which a recipe's defaults differ from its paper: default and published value of each."""
    usual = {option.name: option.default for option in options_of(recipe)}
    return {name: (usual[name], plain(value)) for name, value in paper.items() if usual[name] != plain(value)}
