"""Planted leaks in private discovery itself: record and replay must catch each (numbers as in `test_planted`)."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
from conftest import make_table
from weft_lab.replay import replay

from weft.curator import Curator
from weft.curator.value_queries import ValueCurator
from weft.marginals.marginal import NoisyMarginal
from weft.schema import Schema
from weft.synthesis.discovery import discover as discovery

from .programs import seeded, synthesise, visits, without_last, without_last_person

EPSILON = 20.0


def with_last(name, value):
    """A table in text whose last row alone holds this value."""
    table = make_table(200)
    values = [*map(str, table[name].to_pylist()[:-1]), value]
    return table.set_column(table.column_names.index(name), name, pa.array(values))


def findings(table, source="csv"):
    program = synthesise("independent", source=source, unit=False, epsilon=EPSILON)
    return replay(program, table, without_last(table), seeded())


def test_the_net_is_clean_without_a_planted_leak():
    assert findings(with_last("ward", "nobody else")) == []
    assert findings(with_last("age", str(10**15))) == []


def test_f1_values_that_were_listed_without_a_threshold_are_caught(monkeypatch):
    def listed(self, columns, share, slack):
        found = self._listing.values(columns)
        return [dict.fromkeys(bytes(found[name][-1]).decode("utf-8", "replace").split(), 50) for name in columns]

    monkeypatch.setattr(ValueCurator, "values", listed)
    assert findings(with_last("ward", "nobody-else"))


def test_f2_ranges_read_from_exact_counts_are_caught(monkeypatch):
    def exact(self, cliques, share, question):
        return [NoisyMarginal(c, table, 1e-9) for c, table in zip(cliques, self._count(cliques), strict=True)]

    def ends(counts, sigma):
        held = np.flatnonzero(counts)
        return int(held[0]), int(held[-1])

    monkeypatch.setattr(Curator, "look", exact)
    monkeypatch.setattr(discovery, "estimate_extent", ends)
    assert findings(with_last("age", str(10**15)))


def test_f3_an_exact_number_of_rows_is_caught(monkeypatch):
    finished = discovery.Discovery._finished

    def telling(self):
        found = finished(self)
        stated = Schema((discovery.shape_look("age"),), extra_columns="ignore")
        (rows,) = self._doors.look(stated)._count([()])
        return replace(found, found={**found.found, "age": f"numbers in {int(np.sum(rows))} rows"})

    monkeypatch.setattr(discovery.Discovery, "_finished", telling)
    assert findings(make_table(200))


def test_f6_a_look_that_does_not_clip_is_caught(monkeypatch):
    look = discovery.grid_look

    def strict(name, entry, arrow_type):
        made = look(name, entry, arrow_type)
        return replace(made, column=replace(made.column, outside="refuse"))

    monkeypatch.setattr(discovery, "grid_look", strict)
    assert findings(with_last("age", "9" * 30))


def test_f20_people_whose_rows_are_all_counted_are_caught(monkeypatch):
    def everybody(self, columns):
        return Schema(tuple(c for c in columns if c.name != self._schema.unit), extra_columns="ignore")

    table = visits(last=12)  # more than are used of anybody
    program = synthesise("independent", source="csv", unit="person", epsilon=EPSILON)
    assert replay(program, table, without_last_person(table), seeded()) == []
    monkeypatch.setattr(discovery.Discovery, "_opened", everybody)
    assert replay(program, table, without_last_person(table), seeded())
