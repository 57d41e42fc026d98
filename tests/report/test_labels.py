"""The name of a code must hold every value that the codec draws for it."""

from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pytest

from weft.encoding import Codec
from weft.evaluation.report.report_codes import group_codes, label_codes, make_bars
from weft.marginals.records import Records
from weft.schema import Schema

COLUMNS = {
    "each": ('kind = "integer"\nrange = [3, 9]', pa.int64()),
    "binned": ('kind = "integer"\nrange = [0, 120]\nbins = 7', pa.int32()),
    "stepped": ('kind = "integer"\nstep = 10\nedges = [0, 15, 17, 60, 100]', pa.int64()),
    "special": ('kind = "integer"\nrange = [0, 5]\nspecial = [2, 99]\nmissing = true', pa.int64()),
    "real": ('kind = "real"\nrange = [0, 10]\nbins = 4\nspecial = [0]', pa.float64()),
    "digits": ('kind = "real"\nedges = [0, 1, 1.5, 20000]\ndecimals = 1', pa.float32()),
    "day": ('kind = "datetime"\nrange = ["2024-01-01", "2024-12-31"]\nbins = 5', pa.date32()),
    "months": ('kind = "datetime"\nedges = ["2024-01-01", "2024-02-01", "2024-02-29"]', pa.date32()),
    "clock": ('kind = "datetime"\nrange = ["2024-01-01", "2024-01-02"]\nbins = 6\nstep = "1s"', pa.timestamp("s")),
    "word": ('kind = "category"\nvalues = ["x", "y"]\nmissing = true', pa.string()),
    "flag": ('kind = "boolean"', pa.bool_()),
    "void": ('kind = "integer"\nrange = [0, 5]\nmissing = true', pa.null()),
}


def parsed(text, kind):
    if kind == "datetime":
        return datetime.fromisoformat(text)
    return float(text.replace(",", ""))


@pytest.mark.parametrize("name", COLUMNS)
def test_every_drawn_value_lies_inside_its_label(name):
    entry, arrow_type = COLUMNS[name]
    codec = Codec(Schema.from_toml(f"[columns.{name}]\n{entry}"), pa.schema([pa.field(name, arrow_type)]))
    named = label_codes(codec, name)
    size = codec.domain.size(name)
    assert len(named) == size
    kind = codec.schema.column(name).kind
    codes = np.repeat(np.arange(size), 40)
    values = codec.decode(Records.of(codec.domain, [codes]), np.random.default_rng(0)).column(0).to_pylist()
    for code, value in zip(codes.tolist(), values, strict=True):
        label = named[code]
        if label.sort == "missing":
            assert value is None
        elif label.sort == "special":
            assert str(label) == f"= {value:g}"
        elif label.sort == "value":
            assert str(label) == str(value).lower()
        else:
            value = datetime(value.year, value.month, value.day) if type(value) is date else value
            low, high = parsed(label.low, kind), parsed(label.high, kind)
            assert low <= value <= high or value == pytest.approx(high)


def named(n, sort="value"):
    codec = Codec(
        Schema.from_toml(f'[columns.c]\nkind = "category"\nvalues = {[f"v{i}" for i in range(n)]}'),
        pa.schema([pa.field("c", pa.string())]),
    )
    return label_codes(codec, "c")


def test_large_lists_keep_their_largest_values_in_order_and_pool_the_rest():
    shares = np.arange(100) / np.arange(100).sum()
    made = make_bars(named(100), shares, shares[::-1], 0.01)
    assert len(made) == 30 and made[-1].sort == "rest" and made[-1].label == "71 others"
    kept = [bar.label for bar in made[:-1]]
    assert kept == sorted(kept, key=lambda text: int(text[1:]))
    assert sum(bar.reference for bar in made) == pytest.approx(1)
    assert sum(bar.synth for bar in made) == pytest.approx(1)
    assert made[0].noise == pytest.approx(0.01) and made[-1].noise == pytest.approx(0.01 * np.sqrt(71))


def test_bins_are_joined_with_their_neighbours():
    codec = Codec(
        Schema.from_toml('[columns.c]\nkind = "integer"\nrange = [0, 199]\nbins = 200\nmissing = true'),
        pa.schema([pa.field("c", pa.int64())]),
    )
    pooling = group_codes(label_codes(codec, "c"), np.ones(201))
    assert [str(label) for label in pooling.labels[:2]] == ["0 to 3", "4 to 7"]
    assert str(pooling.labels[-1]) == "missing" and len(pooling.labels) == 51
    assert pooling.fold(np.ones(201)).sum() == 201


def test_unlisted_values_have_a_name_of_their_own_beside_a_value_called_other():
    entry = '[columns.sex]\nkind = "category"\nvalues = ["female", "{}"]\noutside = "other"\nother = "{}"'
    for value, other, told in (
        ("other", "(other)", "unlisted values"),
        ("Other", "other", "unlisted values"),
        ("male", "other", "other"),
    ):
        codec = Codec(Schema.from_toml(entry.format(value, other)), pa.schema([pa.field("sex", pa.string())]))
        assert [str(label) for label in label_codes(codec, "sex")] == ["female", value, told]
