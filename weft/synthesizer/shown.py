"""What a synthesizer says of itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from weft.release.modelfile import Fitted
from weft.words import counted


def as_text(settings: Mapping[str, Any], constructor: Callable[..., None], fitted: Fitted | None) -> str:
    """Return what a synthesizer says of itself: the settings that are not the usual ones, and what it has learned."""
    usual = inspect.signature(constructor).parameters
    changed = [
        f"{name}={value!r}" for name, value in settings.items() if name not in usual or value != usual[name].default
    ]
    made = f"Synthesizer({', '.join(changed)})"
    if fitted is None:
        return made
    columns = counted(len(fitted.schema.columns), "column")
    return f"{made}, fitted by {fitted.method} to {columns}; {fitted.ledger.spend_statement()}"
