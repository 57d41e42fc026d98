"""Rules in their cheapest safe form: one attribute of what is possible, or a repair of the synthetic rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.display import format_count
from weft.encoding.column_groups import ColumnGroup
from weft.errors import SchemaError
from weft.marginals.domain import StructuralZeros, make_clique
from weft.schema.kinds.attributes import AttributePart, Single
from weft.schema.rules import Readers, Rule, RuleError
from weft.schema.rules.clusters import MAX_CLUSTER_CELLS, Cluster, can_enumerate_codes, compile_cluster
from weft.schema.schema import Schema

NARROW = 24
"""An ordered column with more codes than this keeps its order rather than joining a group."""

SMALL = 64
"""Combinations that are always few enough for one attribute."""

LARGE = 512
"""Most combinations of one attribute, unless a column alone has half as many codes."""

MAX_GROUP_CELLS = 4096
MAX_DECLARED_CELLS = 100_000
"""Most combinations of a group that the schema asks for."""

MAX_ZERO_CELLS = 1 << 16
"""Cells of a table in which impossible ones are marked."""


@dataclass(frozen=True)
class CompiledRule:
    """What became of a rule."""

    rule: Rule
    attribute: str | None
    """The attribute that cannot break it; None: synthetic rows are repaired."""
    text: str

    @property
    def policy(self) -> str:
        """What happens to input rows that break it; how many do is never told."""
        if self.rule.policy == "refuse":
            return "refused before anything is spent"
        return "counted as they are" if self.attribute is None else "counted as the nearest that is possible"


@dataclass(frozen=True)
class CompiledParts:
    """Parts of a codec, and what became of each rule."""

    parts: tuple[AttributePart, ...]
    forms: tuple[CompiledRule, ...]
    impossible: tuple[StructuralZeros, ...]
    """Structural zeros, beside what groups leave out."""


def compile_rules(schema: Schema, parts: Sequence[AttributePart], readers: Readers) -> CompiledParts:
    """Give each rule its cheapest safe form.

    Rules over few codes become groups. The others are left to the repair; those that a difference (order) or a derived
    column (sums, maps) could keep by construction would take that form here.
    """
    if not schema.rules and not schema.groups:
        return CompiledParts(tuple(parts), (), ())
    singles = {part.columns[0]: part for part in parts if isinstance(part, Single)}
    clusters = _find_clusters(schema, singles, readers)
    groups = {name: found for found in clusters for name in found.columns}
    made = _place_groups(parts, singles, clusters)
    impossible, forms = [], []
    for index, rule in enumerate(schema.rules):
        grouped = next((found for found in clusters if index in found.rules), None)
        if grouped is not None:
            forms.append(CompiledRule(rule, " & ".join(grouped.columns), _describe_saving(grouped)))
            continue
        zeros = _find_structural_zeros(rule, singles, groups, readers)
        if zeros is not None:
            impossible.append(zeros)
        forms.append(CompiledRule(rule, None, _repair_text(rule, zeros)))
    return CompiledParts(made, tuple(forms), tuple(impossible))


def _find_clusters(schema: Schema, singles: Mapping[str, Single], readers: Readers) -> list[Cluster]:
    sizes = {name: part.domain.shape[0] for name, part in singles.items()}
    made = [_compile_declared_group(group, singles, sizes, readers) for group in schema.groups]
    declared = {name for found in made for name in found.columns}
    for index, rule in enumerate(schema.rules):
        if not rule.combines or not can_enumerate_codes(rule, readers) or not all(n in singles for n in rule.columns):
            continue
        if not all(_is_narrow(singles[name]) or name in declared for name in rule.columns):
            continue
        touching = [found for found in made if set(found.columns) & set(rule.columns)]
        columns = tuple(dict.fromkeys([*(n for found in touching for n in found.columns), *rule.columns]))
        if math.prod(sizes[name] for name in columns) > MAX_CLUSTER_CELLS:
            continue
        members = sorted({index, *(i for found in touching for i in found.rules)})
        joined = compile_cluster(columns, [(i, schema.rules[i]) for i in members], readers, sizes)
        if not joined.size:
            raise RuleError(
                f"no combination of {', '.join(columns)} is left by this rule and those before it; mend one of them",
                None,
                index,
            )
        asked = any(set(found.columns) & declared for found in touching)
        if joined.size <= (MAX_DECLARED_CELLS if asked else _max_combinations([sizes[name] for name in columns])):
            made = [found for found in made if found not in touching] + [joined]
    return made


def _compile_declared_group(
    group: Sequence[str], singles: Mapping[str, Single], sizes: Mapping[str, int], readers: Readers
) -> Cluster:
    for name in group:
        if name not in singles:
            raise SchemaError(f'groups: column "{name}" is not counted in codes of its own; leave it out')
    cells = math.prod(sizes[name] for name in group)
    if cells > MAX_DECLARED_CELLS:
        raise SchemaError(
            f"groups: {', '.join(group)} have {cells:,} combinations, more than {MAX_DECLARED_CELLS:,}; leave one out, "
            "or give it fewer bins or values"
        )
    return compile_cluster(group, [], readers, sizes)


def _is_narrow(part: Single) -> bool:
    order = part.domain.order(part.columns[0])
    return not order.ordered or part.domain.shape[0] - len(order.apart) <= NARROW


def _max_combinations(sizes: Sequence[int]) -> int:
    """Combinations that one attribute may have in place of columns of these sizes."""
    return max(SMALL, min(2 * sum(sizes), max(LARGE, min(2 * max(sizes), MAX_GROUP_CELLS))))


def _place_groups(
    parts: Sequence[AttributePart], singles: Mapping[str, Single], clusters: Sequence[Cluster]
) -> tuple[AttributePart, ...]:
    """Put each group in the place of its first column."""
    made: list[AttributePart] = []
    placed: set[int] = set()
    member = {name: i for i, found in enumerate(clusters) for name in found.columns}
    for part in parts:
        i = member.get(part.columns[0]) if isinstance(part, Single) else None
        if i is None:
            made.append(part)
        elif i not in placed:
            placed.add(i)
            made.append(ColumnGroup([singles[name] for name in clusters[i].columns], clusters[i].possible))
    return tuple(made)


def _find_structural_zeros(
    rule: Rule, singles: Mapping[str, Single], groups: Mapping[str, Cluster], readers: Readers
) -> StructuralZeros | None:
    """Return the cells of the table over a rule's attributes that no row has, where the table is small."""
    if not can_enumerate_codes(rule, readers) or any(n not in singles or n in groups for n in rule.columns):
        return None
    sizes = {name: singles[name].domain.shape[0] for name in rule.columns}
    if math.prod(sizes.values()) > MAX_ZERO_CELLS:
        return None
    found = compile_cluster(make_clique(rule.columns), [(0, rule)], readers, sizes)
    return None if found.possible.all() else StructuralZeros(found.columns, ~found.possible.reshape(found.shape))


def _describe_saving(found: Cluster) -> str:
    instead = " x ".join(f"{size:,}" for size in found.shape)
    return f"one attribute of {format_count(found.size, 'combination')} instead of {instead} codes"


def _repair_text(rule: Rule, zeros: StructuralZeros | None) -> str:
    if not rule.alone:
        return "made to differ after the draw"
    if zeros is None:
        return "repaired after the draw"
    told = f"{int(zeros.cells.sum()):,} of {zeros.cells.size:,} cells are known to be empty"
    return f"{told}, without noise; what is left is repaired after the draw"
