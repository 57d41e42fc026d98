"""What a separate attempt to break columns, rules and people found: none of it may come back."""

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft import Schema, Synthesizer
from weft.encoding import Codec
from weft.engines import open_engine
from weft.engines.frames import frame_type
from weft.errors import DataError, SchemaError

CLIPPED = """
[columns.a]
kind = "integer"
range = [0, 9]
missing = true
outside = "clip"
[columns.b]
kind = "integer"
range = [0, 9]
missing = true
outside = "clip"
[[rules]]
order = ["a", "b"]
policy = "refuse"
"""


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_a_rule_that_refuses_is_looked_at_before_anything_is_charged(engine, tmp_path):
    path, journal = tmp_path / "rows.parquet", tmp_path / "journal.jsonl"
    pq.write_table(pa.table({"a": [1, 2, 9], "b": [2, 3, 1]}), path)
    with pytest.raises(DataError, match="rule 1"):
        Synthesizer(1.0, method="independent", engine=engine, journal=journal).fit(path, Schema.from_toml(CLIPPED))
    assert not journal.exists() or "question" not in journal.read_text()


def test_the_unit_of_lengths_of_time_is_the_schemas():
    column = Schema.from_toml('[columns.t]\nkind = "duration"\nrange = ["0min", "9h"]\nstep = "1min"').column("t")
    assert {frame_type(column, pa.duration(unit)) for unit in ("s", "ms", "us", "ns")} == {pa.duration("us")}
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"t": pd.to_timedelta(["1h", "2h", "30min"] * 20)})
    odd = pd.concat([frame, pd.DataFrame({"t": pd.to_timedelta(["1ns"])})], ignore_index=True)
    schema = Schema.from_toml(
        '[columns.t]\nkind = "duration"\nrange = ["0min", "9h"]\nstep = "1min"\nmissing = true\noutside = "clip"'
    )
    made = [
        Synthesizer(1.0, method="independent", journal=None, noise_seed=1).fit(f, schema).sample(5, seed=1)
        for f in (frame, odd)
    ]
    assert made[0].dtypes.equals(made[1].dtypes)


def test_the_type_of_times_is_the_schemas():
    column = Schema.from_toml('[columns.t]\nkind = "time"').column("t")
    assert {frame_type(column, t) for t in (pa.time32("s"), pa.time64("us"), pa.string())} == {column.arrow_type()}


def test_no_warning_tells_of_a_row():
    pieces = Schema.from_toml("""
[columns.d]
kind = "datetime"
range = ["2010-01-01", "2012-12-31"]
pieces = {year = "y", month = "m", day = "n"}
missing = true
outside = "clip"
[columns.y]
kind = "integer"
range = [2010, 2012]
missing = true
outside = "clip"
[columns.m]
kind = "integer"
range = [1, 12]
missing = true
outside = "clip"
[columns.n]
kind = "integer"
range = [1, 31]
missing = true
outside = "clip"
""")
    rows = pa.table({"y": [2010.0, np.inf, 1e300, np.nan], "m": [1.0] * 4, "n": [5.0] * 4})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        codes = Codec(pieces, rows.schema).encode(rows).columns[0].tolist()
    assert len(set(codes[1:])) == 1


def test_a_far_moment_is_clipped_and_not_quoted():
    schema = Schema.from_toml(
        '[columns.d]\nkind = "datetime"\nrange = ["2010-01-01", "2010-12-31"]\nmissing = true\noutside = "clip"'
    )
    far = pa.table({"d": pa.array([0, 2**62], pa.timestamp("s"))})
    pd = pytest.importorskip("pandas")
    for source in (far, pd.DataFrame({"d": np.array([0, 2**61], "datetime64[s]")})):
        open_engine(source, schema)


def test_a_computed_column_cannot_refuse_rows():
    text = (
        '[columns.a]\nkind = "integer"\nrange = [0, 9]\n[columns.t]\nkind = "derived"\nformula = "a + 1"\n'
        'type = "int64"\n[columns.b]\nkind = "integer"\nrange = [0, 99]\n[[rules]]\norder = ["t", "b"]\n'
    )
    Schema.from_toml(text)
    with pytest.raises(SchemaError, match="never read"):
        Schema.from_toml(text + 'policy = "refuse"\n')


def test_pieces_keep_the_policies_of_their_columns():
    text = """
[columns.d]
kind = "datetime"
range = ["2010-01-01", "2012-12-31"]
pieces = {year = "y", month = "m", day = "n"}
[columns.y]
kind = "integer"
range = [2010, 2012]
[columns.m]
kind = "integer"
range = [1, 12]
[columns.n]
kind = "integer"
range = [1, 31]
"""
    for row in ((2010, 13, 1), (2010, 1, 77), (2009, 1, 1)):
        rows = pa.table({name: [value] for name, value in zip("ymn", row, strict=True)})
        with pytest.raises(DataError):
            Codec(Schema.from_toml(text), rows.schema).encode(rows)
