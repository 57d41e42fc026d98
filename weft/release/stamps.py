"""What takes the guarantee away, or makes it weaker: refused, or stamped on everything released."""

from __future__ import annotations

from collections.abc import Sequence

from weft.errors import BudgetError, SchemaError
from weft.release.statement import FROM_DATA, NO_PRICE, NOT_PRIVATE
from weft.schema import Schema


def accepted_facts(schema: Schema, trusted: bool) -> list[str]:
    """Return the facts of a schema that were read from the data; refused unless the caller accepts the leak."""
    facts = schema.from_data_facts()
    if facts and not trusted:
        raise SchemaError(
            f"the schema still carries facts read from the data ({_shortened(facts)}). Review them and remove "
            "their from_data marks, or pass trust_data_for_schema (--trust-data-for-schema) to accept the leak."
        )
    return facts


def stamps_of(private: bool, facts: Sequence[str]) -> tuple[str, ...]:
    """Return the stamps of a run whose noise is private or not, and whose schema has these facts of the data."""
    seeded = [] if private else [NOT_PRIVATE]
    return (*seeded, *([FROM_DATA.format(facts=_shortened(facts))] if facts else []))


def check_unbounded(deniable: bool, facts: Sequence[str], private: bool) -> None:
    """Refuse what no lifetime budget can hold for."""
    if deniable:
        raise BudgetError(NO_PRICE)
    if facts:
        raise BudgetError(
            "facts that were read from the data leave outside every guarantee, so no lifetime budget holds "
            f"for them ({_shortened(facts)}): review them and remove their from_data marks"
        )
    if not private:
        raise BudgetError(
            "noise that follows from a seed can be taken away again, so that no lifetime budget holds for it: "
            "leave noise_seed out"
        )


def _shortened(facts: Sequence[str], most: int = 8) -> str:
    """Return facts such as "age: range" as a list that stays readable for wide tables."""
    more = f" and {len(facts) - most} more; `weft schema check` lists them" if len(facts) > most else ""
    return ", ".join(facts[:most]) + more
