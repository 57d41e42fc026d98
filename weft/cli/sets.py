"""Sets of options: a dataclass whose fields are options, which a command takes as one parameter.

    @spread
    def report(output: Page, text: TextFile, screen: Screen) -> None: ...

Commands that share options then share them whole, with what is made of them, and a person sees every one as if it
stood in the command itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints

Flat = dict[str, inspect.Parameter]


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the options of its sets in the place of the sets."""
    hints = get_type_hints(command, include_extras=True)
    flat: Flat = {}
    for name, parameter in inspect.signature(command).parameters.items():
        own = {name: _option(name, hints[name], parameter.default)}
        _add(flat, _spread_out(hints[name]) if is_dataclass(hints[name]) else own)

    @wraps(command)
    def run(**values: Any) -> None:
        command(**{name: _gathered(name, hints[name], values) for name in hints if name != "return"})

    run.__signature__ = inspect.Signature(list(flat.values()))  # type: ignore[attr-defined]
    run.__annotations__ = {name: parameter.annotation for name, parameter in flat.items()}
    return run


def _spread_out(options: Any) -> Flat:
    hints = get_type_hints(options, include_extras=True)
    flat: Flat = {}
    for field in fields(options):
        hint = hints[field.name]
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        _add(flat, _spread_out(hint) if is_dataclass(hint) else {field.name: _option(field.name, hint, default)})
    return flat


def _option(name: str, hint: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hint, default=default)


def _add(flat: Flat, more: Flat) -> None:
    assert not flat.keys() & more.keys(), "two sets of a command have an option of the same name"
    flat.update(more)


def _gathered(name: str, hint: Any, values: Mapping[str, Any]) -> Any:
    if not is_dataclass(hint):
        return values[name]
    hints = get_type_hints(hint, include_extras=True)
    made: Any = hint
    return made(**{field.name: _gathered(field.name, hints[field.name], values) for field in fields(hint)})
