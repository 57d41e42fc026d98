"""One row that turns a column into bytes, widens a sheet or reorders keys decides nothing about the other rows."""

import io
import json

import pandas as pd
import pyarrow.csv as pacsv
import pytest

from weft import Synthesizer
from weft.engines import open_engine
from weft.errors import DataError, SourceError
from weft.io.dialect import Dialect
from weft.schema import Schema

TEXT = b"age,sex\n" + b"".join(b"%d,%s\n" % (i % 90, b"fm"[i % 2 : i % 2 + 1]) for i in range(400))
ODD = TEXT + b"5,\xe9\n"
SCHEMA = Schema.from_toml(
    '[columns.age]\nkind = "integer"\nrange = [0, 99]\n'
    '[columns.sex]\nkind = "category"\nvalues = ["f", "m"]\nother = "o"\n'
)
WITH_MISSING = Schema.from_toml(
    '[columns.age]\nkind = "integer"\nrange = [0, 99]\n'
    '[columns.sex]\nkind = "category"\nvalues = ["f", "m", "NA", "1", "05", "True"]\nother = "o"\nmissing = true\n'
)
READERS = {
    "pandas": lambda text: pd.read_csv(io.BytesIO(text), engine="pyarrow"),
    "pandas, Arrow types": lambda text: pd.read_csv(io.BytesIO(text), engine="pyarrow", dtype_backend="pyarrow"),
    "arrow": lambda text: pacsv.read_csv(io.BytesIO(text)),
}


def fitted(table, schema, journal, **options):
    unit = {"unit": False} if schema is None else {}
    return Synthesizer(5.0, method="independent", journal=journal, noise_seed=3, **options).fit(table, schema, **unit)


@pytest.mark.parametrize("reader", READERS)
def test_a_cell_that_is_no_text_is_refused_before_a_charge(reader, tmp_path):
    journal = tmp_path / "run.ledger.jsonl"
    with pytest.raises(DataError, match="bytes, not text") as raised:
        fitted(READERS[reader](ODD), None, journal)
    assert raised.value.private and not journal.exists()


@pytest.mark.parametrize("reader", ["pandas, Arrow types", "arrow"])
@pytest.mark.parametrize("cell", [b"\xe9", b""])
def test_a_column_of_bytes_is_refused_with_a_schema_too(reader, cell, tmp_path):
    """An empty cell among bytes would not be missing, as it is among texts."""
    journal = tmp_path / "run.ledger.jsonl"
    with pytest.raises(DataError, match="bytes, not text") as raised:
        fitted(READERS[reader](ODD + b"6," + cell + b"\n"), SCHEMA, journal)
    assert raised.value.private and not journal.exists()


CELLS = ["f", "", "NA", "null", "nan", "None", " f ", "True", "1", "1.50", "05", "#N/A"]


@pytest.mark.parametrize("cell", CELLS)
def test_bytes_objects_have_the_codes_of_their_text(cell):
    text = TEXT + f"7,{cell}\n".encode() * 5
    counts = [
        open_engine(READERS["pandas"](each), WITH_MISSING).engine.count([("sex",)])[0]
        for each in (text, text + b"5,\xe9\n")
    ]
    assert (counts[1] - counts[0]).tolist() == [0, 0, 0, 0, 0, 0, 1, 0]


@pytest.mark.parametrize("extra", [(), ("x",)])
def test_a_sheet_without_a_header_needs_its_columns_stated(extra, tmp_path):
    file = tmp_path / "t.xlsx"
    rows = [(i % 90, "fm"[i % 2], *[None] * len(extra)) for i in range(400)]
    pd.DataFrame([*rows, (5, "f", *extra)]).to_excel(file, header=False, index=False, engine="xlsxwriter")
    with pytest.raises(SourceError, match="needs a schema that lists its columns"):
        fitted(file, None, None, dialect=Dialect(header=False))


def test_keys_in_another_order_are_refused(tmp_path):
    file = tmp_path / "t.jsonl"
    rows = [{"age": i % 90, "sex": "fm"[i % 2]} for i in range(400)]
    for odd in ([{"sex": "f", "age": 5}, *rows], [*rows, {"sex": "f", "age": 5}]):
        file.write_text("".join(json.dumps(row) + "\n" for row in odd))
        with pytest.raises(DataError, match="another order"):
            fitted(file, None, None)
    file.write_text("")
    with pytest.raises(DataError, match="empty") as raised:
        fitted(file, None, None)
    assert raised.value.private
