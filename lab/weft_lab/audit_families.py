"""Neighbouring databases for the audit: two related tables with and without one person, who has two rows in the second.

Few columns and two rows a person, so that the person changes every count as much as the contribution bound permits:
each of the person's rows is in the largest cell, as is their pair, and no row is dropped.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from weft.marginals.marginal import Array
from weft.models import Model
from weft.privacy import Relation
from weft.schema.database import Database
from weft.synthesis.database_model import FittedDatabase

RELATED = "related tables"
"""Name of the case."""

PARENTS, CHILDREN = "persons", "visits"
VALUES = ("p", "q", "r", "s")
SIZES = 3
"""Numbers of children, from 0."""

STEEP = 5.0
"""Ratio of the numbers of persons with the most and the least frequent value."""

SCHEMA = Database.from_toml(f"""
root = "{PARENTS}"
[tables.{PARENTS}]
key = "id"
columns.a = {{kind = "category", values = {list(VALUES)}}}
[tables.{CHILDREN}]
foreign_keys = {{person = "{PARENTS}.id"}}
max_children = {SIZES - 1}
columns.b = {{kind = "category", values = {list(VALUES)}}}
""")

Family = tuple[int, tuple[int, ...]]
"""Codes of the value of a person, and of those of its rows."""

CANARY: Family = (0, (0, 0))
REPLACED: Family = (1, (1,))


@dataclass(frozen=True)
class NeighbouringDatabases:
    """Two databases that differ in one person and its rows."""

    relation: Relation
    counts: Array
    """Persons that both share, by their value and the number of their rows."""
    name: str = RELATED
    schema: Database = SCHEMA

    @property
    def replaced(self) -> Family | None:
        """The person of the other database instead of the canary; None: no such person."""
        return REPLACED if self.relation == "replace-one" else None

    @property
    def without(self) -> dict[str, pa.Table]:
        """The database without the canary."""
        return self._tables(self.replaced)

    @property
    def with_canary(self) -> dict[str, pa.Table]:
        """The database with the canary."""
        return self._tables(CANARY)

    def _tables(self, last: Family | None) -> dict[str, pa.Table]:
        cells = np.array(list(np.ndindex(self.counts.shape)))
        persons = np.repeat(cells, self.counts.ravel(), axis=0)
        owner = np.repeat(np.arange(len(persons)), persons[:, 1])
        # Values of rows are close to that of their person, in turn, so that the tables are the same in every run.
        value, values = persons[:, 0], (persons[owner, 0] + np.arange(len(owner)) % 3 // 2) % len(VALUES)
        if last is not None:
            owner = np.concatenate([owner, np.full(len(last[1]), len(persons))])
            value, values = np.append(value, last[0]), np.concatenate([values, last[1]])
        names, number = np.array(VALUES), np.arange(len(value)).astype(str)
        return {
            PARENTS: pa.table({"id": number, "a": names[value]}),
            CHILDREN: pa.table({"person": number[owner], "b": names[values]}),
        }

    def tell(self, released: Any, source: str) -> list[float]:
        """Return the attack's features of a release: counts of the canary, less those of the replaced person."""
        told = count_in_model(released.related_) if source == "model" else count_rows(released.sample())
        return self.subtract(told)

    def subtract(self, told: Mapping[Family, list[float]]) -> list[float]:
        """Return counts of the canary, less those of the person that replaces it."""
        return [
            told[CANARY][i] - (0.0 if self.replaced is None else told[REPLACED][i]) for i in range(len(told[CANARY]))
        ]


def count_in_model(fitted: FittedDatabase) -> dict[Family, list[float]]:
    """Return counts of a model that a family adds to, for each family that differs."""
    sizes = np.asarray(fitted.options["classes"][CHILDREN])
    siblings = fitted.targets[CHILDREN]
    told = {}
    for family in (CANARY, REPLACED):
        a, b, size = family[0], family[1][0], len(family[1])
        codes = {PARENTS: (a, size), CHILDREN: (b, a, int(sizes[size]))}
        places = {name: dict(zip(fitted.models[name].domain, each, strict=True)) for name, each in codes.items()}
        told[family] = [count for name, codes in places.items() for count in _count_cells(fitted.models[name], codes)]
        group = siblings.own["b"][b] if "b" in siblings.own else 0
        told[family].append(sum(float(table[int(group), int(group)]) for _, _, table, _ in siblings.siblings))
    return told


def count_rows(tables: Mapping[str, pa.Table]) -> dict[Family, list[float]]:
    """Return counts of rows that a family adds to, for each family that differs."""
    place = {value: i for i, value in enumerate(VALUES)}
    keys = {key: i for i, key in enumerate(tables[PARENTS]["id"].to_pylist())}
    a = np.array([place[value] for value in tables[PARENTS]["a"].to_pylist()], np.int64)
    owner = np.array([keys[key] for key in tables[CHILDREN]["person"].to_pylist()], np.int64)
    b = np.array([place[value] for value in tables[CHILDREN]["b"].to_pylist()], np.int64)
    size = np.bincount(owner, minlength=len(a))
    told = {}
    for family in (CANARY, REPLACED):
        same, wanted, rows = a == family[0], size == len(family[1]), b == family[1][0]
        all_same = np.bincount(owner, rows, len(a)) == len(family[1])
        persons = [np.ones(len(a), bool), same, wanted, same & wanted, wanted & all_same, same & wanted & all_same]
        told[family] = [float(np.sum(mask)) for mask in (*persons, rows, rows & same[owner], rows & wanted[owner])]
    return told


def _count_cells(model: Model, codes: Mapping[str, int]) -> list[float]:
    """Return the counts of a cell in every marginal of a model's attributes."""
    return [
        float(np.asarray(model.marginal(names))[tuple(codes[name] for name in names)])
        for few in range(len(codes) + 1)
        for names in itertools.combinations(codes, few)
    ]


def make_databases(relation: Relation, few: float) -> NeighbouringDatabases:
    """Return the databases for a neighbouring relation; `few` is the number of persons in the smallest cell."""
    counts = np.multiply.outer(np.geomspace(STEEP, 1, len(VALUES)), np.linspace(1, 2, SIZES)) * few
    return NeighbouringDatabases(relation, np.ceil(counts).astype(np.int64))
