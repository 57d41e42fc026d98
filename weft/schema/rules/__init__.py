"""Registry of the types of rules."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from weft.schema.kinds.kind import Column, format_alternatives, suggest_known_word
from weft.schema.rules.clusters import check_together
from weft.schema.rules.column_values import ColumnReader as ColumnReader
from weft.schema.rules.column_values import UnfitValueError
from weft.schema.rules.column_values import Values as Values
from weft.schema.rules.combinations import Allowed as Allowed
from weft.schema.rules.combinations import Forbidden as Forbidden
from weft.schema.rules.combinations import Unique as Unique
from weft.schema.rules.conditions import Condition as Condition
from weft.schema.rules.implications import Implication as Implication
from weft.schema.rules.implications import MissingTogether as MissingTogether
from weft.schema.rules.implications import MissingWhen as MissingWhen
from weft.schema.rules.mapping import Mapped as Mapped
from weft.schema.rules.order import Ordered as Ordered
from weft.schema.rules.repair_block import Block as Block
from weft.schema.rules.rule import Readers as Readers
from weft.schema.rules.rule import Rule as Rule
from weft.schema.rules.rule import RuleError as RuleError
from weft.schema.rules.sums import Summed as Summed

RULES: dict[str, type[Rule]] = {
    rule.key: rule
    for rule in (Ordered, Implication, Forbidden, Allowed, Mapped, MissingWhen, MissingTogether, Summed, Unique)
}
"""All types of rules, by the key that identifies them in a schema file."""


def plain_readers(columns: Sequence[Column]) -> dict[str, ColumnReader]:
    """Return readers for the default types of columns."""
    return {column.name: ColumnReader(column, pa.field(column.name, column.arrow_type())) for column in columns}


def rules_from_list(entries: Any, columns: Sequence[Column], folder: Path | None) -> tuple[Rule, ...]:
    """Make rules from the tables of a schema file; a RuleError names the invalid one."""
    if not isinstance(entries, list | tuple):
        raise RuleError("rules must be tables, each with the header [[rules]]")
    readers = plain_readers(columns) if entries else {}
    made = []
    for index, entry in enumerate(entries):
        try:
            made.append(_make_rule(entry, readers, folder))
        except RuleError as error:
            raise error.at(index) from None
        except UnfitValueError as fault:
            raise RuleError(f"the range of one of its columns {fault}", None, index) from None
    return tuple(made)


def _make_rule(entry: Any, readers: Readers, folder: Path | None) -> Rule:
    if not isinstance(entry, Mapping):
        raise RuleError('must be a table such as order = ["arrival", "departure"]')
    sorts = [key for key in RULES if key in entry]
    if len(sorts) != 1:
        wrong = next((key for key in entry if suggest_known_word(key, RULES)), None) if not sorts else None
        near = "" if wrong is None else suggest_known_word(wrong, RULES)
        raise RuleError(
            f"must have one of the keys {format_alternatives(RULES)}.{near}", wrong or next(iter(sorts[1:]), None)
        )
    sort = RULES[sorts[0]]
    for key in entry:
        if key not in (*sort.keys, "policy"):
            near = (
                suggest_known_word(key, (*sort.keys, "policy")) or f" Known keys: {', '.join((*sort.keys, 'policy'))}."
            )
            raise RuleError(f'unknown key "{key}" for a rule with {sort.key}.{near}', key)
    policy = entry.get("policy", "keep")
    if policy not in ("keep", "refuse"):
        raise RuleError('policy must be "keep" or "refuse"', "policy")
    return replace(sort.read(entry, readers, folder), policy=policy)


def check_rules(rules: Sequence[Rule], readers: Readers) -> None:
    """Validate that the columns can satisfy the rules, individually and together."""
    for index, rule in enumerate(rules):
        try:
            for name in rule.columns if rule.policy == "refuse" else ():
                if name in readers and not readers[name].column.read:
                    told = f'"{name}" is computed and never read, so no row can be refused; remove policy'
                    raise RuleError(told, "policy")
            rule.check(readers)
        except RuleError as error:
            raise error.at(index) from None
        except UnfitValueError as fault:
            raise RuleError(f"the range of one of its columns {fault}", None, index) from None
    check_together(rules, readers)
