"""Rules from a schema to a release: every method keeps them, a saved model remembers them, refusals cost nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

from weft import Schema, Synthesizer, load
from weft.encoding import Codec, count_broken_rows
from weft.errors import DataError
from weft.io.text_to_types import csv_arrow_schema

from .rules import SCHEMA, drawn, expected_faults

ROWS = 2_000


@pytest.fixture(scope="module")
def schema() -> Schema:
    return Schema.from_toml(SCHEMA)


@pytest.fixture(scope="module")
def table(schema) -> pa.Table:
    """Rows of which a part breaks every rule, as real tables do."""
    kept = Codec(schema, csv_arrow_schema(schema))
    plain = Codec(Schema(schema.columns), csv_arrow_schema(schema))
    rng = np.random.default_rng(5)
    good = kept.decode(drawn(kept.domain, ROWS - 300, 1), rng)
    return pa.concat_tables([good, plain.decode(drawn(plain.domain, 300, 2), rng)])


@pytest.mark.parametrize("method", ["independent", "privsyn", "mst", "weave"])
def test_no_method_breaks_a_rule(schema, table, method):
    made = Synthesizer(2.0, method=method, noise_seed=1, seed=1, journal=None).fit(table, schema)
    released = made.sample(3_000, seed=3)
    assert released.schema == made.fitted_.codec.arrow_schema
    assert set(count_broken_rows(released, schema).values()) == {0}
    assert set(expected_faults(released).values()) == {0}


def test_what_is_possible_is_learned_from_rows_that_keep_the_rules(schema, table):
    made = Synthesizer(20.0, method="independent", noise_seed=1, seed=1, journal=None).fit(table, schema)
    released = made.sample(20_000, seed=3)
    for name in ("status", "city", "size", "shift"):
        share = released.column(name).to_pylist().count(table.column(name)[0].as_py()) / len(released)
        real = table.column(name).to_pylist().count(table.column(name)[0].as_py()) / len(table)
        assert abs(share - real) < 0.1


def test_a_saved_model_keeps_its_rules(schema, table, tmp_path):
    made = Synthesizer(2.0, method="independent", noise_seed=1, journal=None).fit(table, schema)
    made.save(tmp_path / "rows.weft")
    back = load(tmp_path / "rows.weft")
    assert back.fitted_.schema == schema and back.fitted_.codec.forms == made.fitted_.codec.forms
    assert back.sample(500, seed=2).equals(made.sample(500, seed=2))
    assert set(count_broken_rows(back.sample(500, seed=2), schema).values()) == {0}


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_a_refused_row_comes_before_any_charge(table, tmp_path, engine):
    strict = Schema.from_toml(SCHEMA.replace('is = "guests"', 'is = "guests"\npolicy = "refuse"'))
    path, journal = tmp_path / "rows.csv", tmp_path / "journal.jsonl"
    pacsv.write_csv(table, path)
    with pytest.raises(DataError, match=r"rule 8 \(guests = adults \+ children\): a row breaks it. Correct the rows"):
        Synthesizer(2.0, method="independent", engine=engine, journal=journal).fit(path, strict)
    assert not journal.exists()
    good = table.slice(0, ROWS - 300)
    pacsv.write_csv(good, path)
    made = Synthesizer(2.0, method="independent", engine=engine, journal=journal).fit(path, strict)
    assert set(count_broken_rows(made.sample(200), strict).values()) == {0}


def test_frames_come_back_as_frames(schema, table):
    pandas = pytest.importorskip("pandas")
    frame = table.to_pandas()
    made = Synthesizer(2.0, method="independent", noise_seed=1, journal=None).fit(frame, schema)
    released = made.sample(400, seed=1)
    assert isinstance(released, pandas.DataFrame)
    numbers = ["age", "adults", "children", "guests", "room", "floor"]
    assert list(released.dtypes[numbers]) == list(frame.dtypes[numbers])
    assert (released["adults"] + released["children"] == released["guests"]).all()


def test_memory_and_stream_count_alike(schema, table, tmp_path):
    path = tmp_path / "rows.csv"
    pacsv.write_csv(table, path)
    made = [
        Synthesizer(2.0, method="independent", engine=engine, noise_seed=4, seed=1, journal=None)
        .fit(path, schema)
        .sample(300, seed=1)
        for engine in ("memory", "stream")
    ]
    assert made[0].equals(made[1])
