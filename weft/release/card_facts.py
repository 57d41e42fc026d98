"""What a card says of the facts of a schema: where they come from, and what was merged."""

from __future__ import annotations

from typing import Any

from weft.privacy import at_most
from weft.release.markup import bullets, text
from weft.words import counted

MERGED_SHOWN = 12
"""Merged values that the page names; the JSON names all."""


def provenance(schema: dict[str, Any]) -> str:
    """Say where the facts of a schema come from: public, paid for, or read from the rows."""
    facts, paid, before = (schema[key] for key in ("facts_read_from_the_data", "facts_found_privately", "found_before"))
    told = []
    if facts:
        told.append(
            "These facts of the schema were read from the private rows, outside the guarantee: "
            f"{', '.join(map(text, facts))}."
        )
    if paid and before is None:
        told.append(
            f"{counted(len(paid), 'fact')} of the schema, such as {text(paid[0])}, came from noisy answers that the "
            "budget above has paid for."
        )
    if paid and before is not None:
        told.append(
            f"{counted(len(paid), 'fact')} of the schema, such as {text(paid[0])}, came from noisy answers of an "
            f"earlier run on the same rows, which cost epsilon {at_most(before['epsilon'])} at delta "
            f"{at_most(before['delta'], 3)}. "
            "Both together cost no more than the sum of their epsilons at the sum of their deltas."
        )
    rest = "All others were" if told else "Every value list, range and bin above was"
    told.append(f"{rest} declared public by whoever wrote the schema.")
    if not facts:
        told.append(
            "The guarantee rests on that: Weft cannot tell a fact that somebody knew from one that was read from the "
            "private rows."
        )
    return " ".join(told)


def merging(columns: list[dict[str, Any]]) -> list[str]:
    """Say in a line for each attribute what was merged in joint tables."""
    found = {part["attribute"]: part for column in columns for part in column.get("merged", [])}
    if not found:
        return []
    lines = []
    for part in found.values():
        line = f"{text(part['attribute'])}: {part['codes']:,} values or steps in {counted(part['groups'], 'group')}"
        if part["values"]:
            shown = ", ".join(map(text, part["values"][:MERGED_SHOWN]))
            more = len(part["values"]) - MERGED_SHOWN
            line = f"{text(part['attribute'])}: merged as rare: {shown}{f' and {more:,} more' if more > 0 else ''}"
        lines.append(line)
    return ["In tables over several columns, noisy counts decided that these stood together:", bullets(*lines)]
