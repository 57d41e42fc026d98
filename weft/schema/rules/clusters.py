"""Clusters: columns that are connected by rules, and their possible combinations of values.

If every code of the columns represents one value, rules are evaluated on all combinations in advance. The possible ones
become one attribute (`weft/encoding/column_groups.py`), so that no method can violate the rules. If none is possible,
the rules are contradictory.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from weft.schema.rules.column_values import Mask, Values
from weft.schema.rules.implications import ClauseRule
from weft.schema.rules.order import Ordered
from weft.schema.rules.rule import Readers, Rule, RuleError

MAX_CLUSTER_CELLS = 1 << 20
"""Maximum number of combinations that are evaluated."""

Combinations = NDArray[np.int64]
"""Matrix of codes: one row per combination, one column per column of the table."""


@dataclass(frozen=True)
class Cluster:
    """Columns, the rules that connect them (by index in the schema), and the possible combinations of codes."""

    columns: tuple[str, ...]
    shape: tuple[int, ...]
    rules: tuple[int, ...]
    possible: Mask
    """One entry for each cell of the table over the columns, in C order."""

    @property
    def size(self) -> int:
        """Number of possible combinations."""
        return int(self.possible.sum())


def compile_cluster(
    columns: Sequence[str], rules: Sequence[tuple[int, Rule]], readers: Readers, sizes: Mapping[str, int]
) -> Cluster:
    """Compute which combinations of codes of these columns satisfy all rules."""
    shape = tuple(sizes[name] for name in columns)
    possible = np.ones(math.prod(shape), bool)
    for _, rule in rules:
        possible &= rule.holds(expand_cell_values(columns, shape, rule.columns, readers))
    return Cluster(tuple(columns), shape, tuple(index for index, _ in rules), possible)


def expand_cell_values(
    columns: Sequence[str], shape: Sequence[int], wanted: Sequence[str], readers: Readers
) -> dict[str, Values]:
    """Return the values of some columns in every cell of the contingency table, in C order."""
    made = {}
    for name in wanted:
        known = readers[name].codes
        assert known is not None
        axis = list(columns).index(name)
        inner = math.prod(shape[axis + 1 :])
        codes = np.tile(np.repeat(np.arange(shape[axis]), inner), math.prod(shape[:axis]))
        made[name] = known.take(codes)
    return made


def can_enumerate_codes(rule: Rule, readers: Readers) -> bool:
    """Return whether a rule can be evaluated on combinations of codes."""
    return rule.alone and all(readers[name].codes is not None for name in rule.columns)


def check_together(rules: Sequence[Rule], readers: Readers) -> None:
    """Validate that some combination satisfies all rules, and that each rule applies to one of these."""
    tied: list[tuple[set[str], list[tuple[int, Rule]]]] = []
    for index, rule in enumerate(rules):
        if not can_enumerate_codes(rule, readers):
            continue
        columns, members = set(rule.columns), [(index, rule)]
        touching = [part for part in tied if part[0] & columns]
        joined = columns.union(*(part[0] for part in touching))
        if math.prod(len(readers[name].codes or ()) or 1 for name in joined) > MAX_CLUSTER_CELLS:
            continue  # too many to evaluate; repair handles such rules
        tied = [part for part in tied if part not in touching]
        tied.append((joined, [member for part in touching for member in part[1]] + members))
    for joined, members in tied:
        _validate_rules(sorted(joined), members, readers)
    _check_circles([(index, rule) for index, rule in enumerate(rules) if isinstance(rule, Ordered)])


def _check_circles(orders: Sequence[tuple[int, Ordered]]) -> None:
    """Validate that no column would have to be larger than itself."""
    reached: dict[str, dict[str, bool]] = {}  # column -> later column -> whether a strict order is between them
    for index, rule in orders:
        for before, after in pairwise(rule.order):
            ahead = {after: rule.strict} | {n: rule.strict or s for n, s in reached.get(after, {}).items()}
            behind = {before: False} | {n: way[before] for n, way in reached.items() if before in way}
            for name, so_far in behind.items():
                way = reached.setdefault(name, {})
                for later, rest in ahead.items():
                    way[later] = way.get(later, False) or so_far or rest
                if way.get(name):
                    raise RuleError(f'with earlier rules, "{name}" is larger than itself; change one', "order", index)


def _validate_rules(columns: Sequence[str], members: Sequence[tuple[int, Rule]], readers: Readers) -> None:
    sizes = {name: len(readers[name].codes or ()) or 1 for name in columns}
    found = compile_cluster(columns, members, readers, sizes)
    last = members[-1][0]
    listed = " and ".join(str(index + 1) for index, _ in members)
    which = f"rules {listed} contradict each other" if len(members) > 1 else "it contradicts itself"
    if not found.size:
        raise RuleError(f"{which}: no combination of {', '.join(columns)} is possible; change one", None, last)
    for index, rule in members:
        if not isinstance(rule, ClauseRule):
            continue
        clause = rule.clause
        met = clause.applies(expand_cell_values(columns, found.shape, clause.columns, readers))
        if not (met & found.possible).any():
            raise RuleError(f"{which}: no row can meet the when of rule {index + 1}; change one", "when", index)
