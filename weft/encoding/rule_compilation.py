"""Compile each rule to its cheapest safe form: one attribute of possible combinations, or repair of synthetic rows."""

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

NARROW = 24  # an ordered column with more codes than this is not grouped, so that it keeps its order
SMALL = 64  # number of combinations that one attribute may always have
LARGE = 512  # maximum number of combinations of one attribute, unless a single column has more than half as many codes
MAX_GROUP_CELLS = 4096
MAX_DECLARED_CELLS = 100_000  # maximum number of combinations of a group declared in the schema
MAX_ZERO_CELLS = 1 << 16  # maximum number of cells of a marginal with structural zeros


@dataclass(frozen=True)
class CompiledRule:
    """How a rule is enforced."""

    rule: Rule
    attribute: str | None  # attribute whose codes exclude violations; None if synthetic rows are repaired
    text: str

    @property
    def policy(self) -> str:
        """Treatment of input rows that break the rule; their number is never disclosed."""
        if self.rule.policy == "refuse":
            return "refused before anything is spent"
        return "counted as they are" if self.attribute is None else "counted as the nearest that is possible"


@dataclass(frozen=True)
class CompiledParts:
    """Parts of a codec, and how each rule is enforced."""

    parts: tuple[AttributePart, ...]
    forms: tuple[CompiledRule, ...]
    impossible: tuple[StructuralZeros, ...]  # structural zeros of rules that are not compiled into groups


def compile_rules(schema: Schema, parts: Sequence[AttributePart], readers: Readers) -> CompiledParts:
    """Compile each rule into its cheapest safe form.

    Rules over few codes become groups; the others are enforced by repair. A rule that a difference (order) or a derived
    column (sums, maps) could enforce by construction would be compiled to that form here.
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
            instead = " x ".join(f"{size:,}" for size in grouped.shape)
            saving = f"one attribute of {format_count(grouped.size, 'combination')} instead of {instead} codes"
            forms.append(CompiledRule(rule, " & ".join(grouped.columns), saving))
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
                f"this rule and the earlier ones exclude every combination of {', '.join(columns)}; correct one",
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
            raise SchemaError(f'groups: column "{name}" has no attribute of its own; remove it from the group')
    cells = math.prod(sizes[name] for name in group)
    if cells > MAX_DECLARED_CELLS:
        raise SchemaError(
            f"groups: {', '.join(group)} have {cells:,} combinations, more than {MAX_DECLARED_CELLS:,}; remove "
            "a column, or give it fewer bins or values"
        )
    return compile_cluster(group, [], readers, sizes)


def _is_narrow(part: Single) -> bool:
    order = part.domain.order(part.columns[0])
    return not order.ordered or part.domain.shape[0] - len(order.apart) <= NARROW


def _max_combinations(sizes: Sequence[int]) -> int:
    """Return the maximum number of combinations of a group of columns with these numbers of codes."""
    return max(SMALL, min(2 * sum(sizes), max(LARGE, min(2 * max(sizes), MAX_GROUP_CELLS))))


def _place_groups(
    parts: Sequence[AttributePart], singles: Mapping[str, Single], clusters: Sequence[Cluster]
) -> tuple[AttributePart, ...]:
    """Replace the first column of each group by the group, and drop the other columns."""
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
    """Return the cells of a rule's marginal that the rule excludes; None if there are none or the marginal is large."""
    if not can_enumerate_codes(rule, readers) or any(n not in singles or n in groups for n in rule.columns):
        return None
    sizes = {name: singles[name].domain.shape[0] for name in rule.columns}
    if math.prod(sizes.values()) > MAX_ZERO_CELLS:
        return None
    found = compile_cluster(make_clique(rule.columns), [(0, rule)], readers, sizes)
    return None if found.possible.all() else StructuralZeros(found.columns, ~found.possible.reshape(found.shape))


def _repair_text(rule: Rule, zeros: StructuralZeros | None) -> str:
    if not rule.alone:
        return "made to differ after the draw"
    if zeros is None:
        return "repaired after the draw"
    told = f"{int(zeros.cells.sum()):,} of {zeros.cells.size:,} cells are known to be empty"
    return f"{told}, without noise; remaining violations are repaired after the draw"
