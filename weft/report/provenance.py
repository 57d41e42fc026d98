"""Which model made a table: its card tells, and is believed only as far as it can be checked."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from weft.errors import WeftError
from weft.files import beside
from weft.privacy import Ledger
from weft.release.modelfile import Fitted

REMEDY = "`weft sample MODEL -o FILE` makes a table of the model, with its card."


def check_release(table: Path, fitted: Fitted) -> None:
    """Refuse a table unless the card beside it shows that this model made it.

    What a report says of a table is exact: of the private one, given by a slip, it would publish every count. No
    private table has a card, and a card is that of one file, whose SHA-256 it carries. The model is known by its
    method, its options and its ledger, with every question and its noise. Two fits that agree in all of that cannot be
    told apart, but their tables have the same guarantee.
    """
    card = beside(table, ".card.json")
    facts = _facts(card)
    if facts is None:
        raise WeftError(
            f"{table}: nothing shows that this model made it: there is no card ({card.name}) beside it. If it is a "
            f"private table, it has no place here. {REMEDY}"
        )
    with table.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != facts["sha256"]:
            raise WeftError(f"{table}: not the table that {card.name} is for, or changed since it was made. {REMEDY}")
    if facts["conditions"]:
        raise WeftError(
            f"{table}: a conditional sample, as {card.name} shows: a report would compare a part with the whole. "
            f"{REMEDY}"
        )
    if facts["made"] != _made(fitted.method, fitted.options, fitted.ledger):
        raise WeftError(f"{table}: made by another model, as {card.name} shows. {REMEDY}")


def _facts(card: Path) -> dict[str, Any] | None:
    """Return the table's SHA-256 and what made it, as a card has them; None if it is no card."""
    try:
        stored = json.loads(card.read_bytes())
        method, ledger = stored["method"], Ledger.from_dict(stored["ledger"])
        return {
            "sha256": stored["table"]["sha256"],
            "conditions": stored["table"].get("conditions"),
            "made": _made(method["name"], method["options"], ledger),
        }
    except (OSError, ValueError, TypeError, LookupError, RecursionError, WeftError):
        return None


def _made(method: str, options: dict[str, Any], ledger: Ledger) -> Any:
    """Return what tells one fit from another, in values as JSON gives them back."""
    return json.loads(json.dumps([method, options, ledger.to_dict()]))
