"""Leaks planted in the whole program, each of a sort that a hurried change might bring; the net must catch every one.

The first two escaped version 0.1's tests, and so did one of `test_leaks_of_noise`: the public seed chose the rows of a
unit that stay, and columns that are constant in the rows were left out of a score, uncharged.
"""

import itertools
import logging
import sys
import warnings
from dataclasses import replace
from importlib import import_module
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from weft_lab.replay import find_reused_randomness

import weft.cli.output_files as releasing
import weft.engines
import weft.release.card
import weft.synthesis.model_file
import weft.synthesis.synthesizer
from weft.curator import Curator
from weft.encoding import Codec
from weft.engines import open_engine
from weft.io.reader import Reader
from weft.methods.independent import Independent
from weft.privacy.journal import Journal
from weft.privacy.mechanisms import Mechanisms
from weft.schema import Schema
from weft.synthesis.synthesizer import Synthesizer

from .programs import ODD, VISITS, commands, leaks, synthesise, visits, without_last_person
from .test_replay import PERSONS


@pytest.fixture
def rows(monkeypatch):
    """A place that knows the exact number of rows, as a careless program may have one."""
    known = {"engines": []}

    def init(self, engine, *settings, was=Curator.__init__):
        was(self, engine, *settings)
        known["engines"].append(engine)
        known["n"] = int(engine.count([()])[0])

    monkeypatch.setattr(Curator, "__init__", init)
    return known


def test_the_net_is_clean_without_a_planted_leak(rows):
    assert leaks() == []
    assert rows["n"] == 59


# Those that escaped.


def test_a_public_seed_that_chooses_the_rows_of_a_unit_is_caught(monkeypatch):
    def opened(source, schema, **settings):
        return open_engine(source, schema, **settings, rng=np.random.default_rng(5))  # the seed of the synthesizer

    program = synthesise("independent", PERSONS, paired=False)
    assert find_reused_randomness(program, visits(), Mechanisms, truncated=True) == []
    monkeypatch.setattr(weft.curator.private_table, "open_engine", opened)
    assert find_reused_randomness(program, visits(), Mechanisms, truncated=True) == [
        "two runs kept the same rows of every unit"
    ]


def test_scores_that_leave_out_constant_columns_are_caught(monkeypatch):
    def dependence(self, share, *, score="indif", pairs=None, was=Curator.dependence):
        pairs = list(itertools.combinations(sorted(self.domain), 2)) if pairs is None else list(pairs)
        varied = {name for name in self.domain if np.count_nonzero(self._count([(name,)])[0]) > 1}
        scores = was(self, share, score=score, pairs=[pair for pair in pairs if varied >= set(pair)])
        return dict.fromkeys(pairs, 0.0) | scores

    program = synthesise("privsyn", epsilon=2.0)
    table = ODD["a column becomes constant"]()
    assert leaks(table, program=program) == []
    monkeypatch.setattr(Curator, "dependence", dependence)
    assert any("query" in finding for finding in leaks(table, program=program))


# Facts about the rows that take another road.


def test_pandas_notes_in_the_model_file_are_caught(monkeypatch):
    """They hold the row labels, and with them the number of rows."""
    program = synthesise("independent", source="arrow with notes of pandas")

    def init(self, schema, arrow_schema, was=Codec.__init__):
        was(self, schema, arrow_schema)
        self.arrow_schema = self.arrow_schema.with_metadata(arrow_schema.metadata)

    def reader(source, schema, batch_rows, dialect, was=weft.engines.open_reader):
        made = was(source, schema, batch_rows, dialect)
        return replace(made, schema=made.schema.with_metadata(source.schema.metadata))

    assert leaks(program=program) == []
    monkeypatch.setattr(Codec, "__init__", init)
    monkeypatch.setattr(weft.engines, "open_reader", reader)
    found = leaks(program=program)
    assert {"file model.weft differs", "file columns.parquet differs"} <= set(found)
    assert "file rows.csv differs" not in found


def test_a_dtype_chosen_by_the_largest_count_is_caught(monkeypatch):
    def fit(self, curator, rng, listener, was=Independent.fit):
        model = was(self, curator, rng, listener)
        few = max(int(table.max()) for table in curator._count([(name,) for name in curator.domain])) < 256
        return replace(model, tables=tuple(t.astype(np.float32 if few else np.float64) for t in model.tables))

    table = ODD["256 rows become 255"]()
    assert leaks(table) == []
    monkeypatch.setattr(Independent, "fit", fit)
    assert "file model.weft differs" in leaks(table)


def test_a_size_of_the_model_file_that_follows_the_rows_is_caught(monkeypatch, rows):
    def save(fitted, path, was=weft.synthesis.model_file.save_model):
        was(fitted, path)
        with path.open("ab") as file:
            file.write(bytes(rows["n"]))  # padding, as an index of rows would be

    monkeypatch.setattr(weft.synthesis.model_file, "save_model", save)
    assert leaks() == ["file model.weft differs"]


def test_a_report_that_counts_real_rows_is_caught(monkeypatch, rows):
    page = import_module("weft.evaluation.report.report_page")  # the package has a function of this name

    def render(report, was=page.render):
        return was(report).replace("</body>", f"<p>Compared with {rows['n']} rows.</p></body>")

    monkeypatch.setattr(page, "render", render)
    assert leaks() == ["file report.html differs"]


def test_a_card_that_lists_observed_values_is_caught(monkeypatch, rows):
    def column(fitted, verdict, was=weft.release.card._describe_column_facts):
        facts = was(fitted, verdict)
        if verdict.column in fitted.codec.domain:
            facts["codes"] = int(np.count_nonzero(rows["engines"][-1].count([(verdict.column,)])[0]))
        return facts

    table = ODD["a cell becomes empty"]()
    assert leaks(table) == []
    monkeypatch.setattr(weft.release.card, "_describe_column_facts", column)
    found = leaks(table)
    assert {"file rows.card.md differs", "file rows.card.json differs"} <= set(found)
    assert "file model.weft differs" not in found


def test_rows_drawn_by_a_seed_that_follows_the_rows_are_caught(monkeypatch, rows):
    def tables(self, n=None, *, seed=None, was=Synthesizer.tables, **more):
        return was(self, n, seed=seed + rows["n"], **more)

    monkeypatch.setattr(Synthesizer, "tables", tables)
    found = leaks()
    assert {"file rows.csv differs", "file columns.parquet differs"} <= set(found)
    assert "file model.weft differs" not in found


def test_a_dictionary_of_observed_values_is_caught(monkeypatch, rows):
    """The rows are the same, and so is the CSV: only the Parquet file lists what the private table holds."""

    def tables(self, n=None, *, was=Synthesizer.tables, **more):
        held = rows["engines"][-1].count([("ward",)])[0][:4]
        observed = pa.array([*(w for w, c in zip("abcd", held, strict=True) if c), *"abcd"])
        for table in was(self, n, **more):
            ward = table["ward"].combine_chunks()
            at = table.column_names.index("ward")
            coded = pa.DictionaryArray.from_arrays(pa.compute.index_in(ward, observed).cast(pa.int8()), observed)
            yield table.set_column(at, "ward", coded)

    table = ODD["a cell becomes empty"]()
    monkeypatch.setattr(Synthesizer, "tables", tables)
    found = leaks(table)
    assert "file columns.parquet differs" in found
    assert "file rows.csv differs" not in found


# Words that tell.


def measuring(told):
    """Return a measure that looks at the exact counts first."""

    def measure(self, cliques, share, weights=None, was=Curator.measure):
        told(self._count(cliques))
        return was(self, cliques, share, weights)

    return measure


def test_a_warning_about_a_column_without_values_is_caught(monkeypatch):
    def told(tables):
        if any(np.count_nonzero(table[:-1]) == 0 for table in tables):
            warnings.warn("a column is all missing", stacklevel=1)

    table = ODD["a column becomes all missing"]()
    monkeypatch.setattr(Curator, "measure", measuring(told))
    assert leaks(table) == ["warnings differs"]


def test_a_log_of_how_many_people_there_are_is_caught(monkeypatch):
    program = synthesise("independent", PERSONS)
    table = visits()
    told = measuring(lambda tables: logging.getLogger("weft.engines").debug("%d rows kept", tables[0].sum()))
    monkeypatch.setattr(Curator, "measure", told)
    assert leaks(table, without_last_person(table), program=program) == ["messages differs"]


@pytest.mark.parametrize("road", ["stdout", "stderr"])
def test_a_count_of_rows_on_the_screen_is_caught(monkeypatch, road):
    def read(self, columns, work, listener, name, was=Reader.read):
        rows = 0
        for batch, made in was(self, columns, work, listener, name):
            rows += batch.num_rows
            yield batch, made
        getattr(sys, road).write(f"{rows} rows\n")

    monkeypatch.setattr(Reader, "read", read)
    assert leaks() == [f"{road} differs"]


def test_a_note_while_reading_is_caught(monkeypatch):
    """How far the reading is may show on the curator's screen; a note beside it is compared."""

    def read(self, columns, work, listener, name, was=Reader.read):
        yield from was(self, columns, work, lambda e: listener(replace(e, note=f"of {self.rows}")), name)

    program = synthesise("independent", source="parquet")
    monkeypatch.setattr(Reader, "read", read)
    assert leaks(program=program) == ["events differs"]


def test_a_journal_that_notes_the_rows_is_caught(monkeypatch, rows):
    def write(self, record, was=Journal.write):
        was(self, {**record, "rows": rows["n"]} if "question" in record else record)

    monkeypatch.setattr(Journal, "write", write)
    assert leaks() == ["file run.ledger.jsonl differs"]


def test_a_command_that_warns_of_few_rows_is_caught(monkeypatch, rows):
    def warned(fitted, journal, was=releasing.collect_warnings):
        return [*was(fitted, journal), *(["the table is small"] if rows["n"] < 60 else [])]

    program = commands("independent")
    assert leaks(program=program) == []
    monkeypatch.setattr(releasing, "collect_warnings", warned)
    assert leaks(program=program) == ["weft sample differs", "weft synth differs"]


def test_a_model_file_with_a_clock_is_caught(monkeypatch):
    """How long a fit takes follows the number of rows."""
    hours = itertools.count()
    real = weft.synthesis.model_file._write_member

    def put(file, name, content):
        with mock.patch.object(weft.synthesis.model_file, "_EPOCH", (2026, 1, 1, next(hours) % 24, 0, 0)):
            return real(file, name, content)

    with mock.patch.object(weft.synthesis.model_file, "_write_member", put):
        assert leaks() == ["file model.weft differs"]


def test_the_visits_have_people_who_lose_rows():
    """Otherwise the tests above would see nothing."""
    people, counts = np.unique(visits()["person"].to_numpy(), return_counts=True)
    assert (counts > Schema.from_toml(VISITS).rows_per_unit).sum() > 5
    assert len(people) == 30
