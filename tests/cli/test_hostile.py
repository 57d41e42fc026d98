"""Input that no honest person has: told plainly, with a documented exit code, and never as a bug in Weft."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from .conftest import SCHEMA, Weft, outputs

FIT = ("-s", "visits.toml", "-e", 1, "-m", "independent", "-o", "out.csv")
DIGITS = "9" * 5000


def damaged(packed: bytes) -> dict[str, bytes]:
    return {
        "cut": packed[: len(packed) // 2],
        "flipped": packed[:200] + bytes([packed[200] ^ 255]) + packed[201:],
        "crc": packed[:-8] + bytes(8),
        "head": b"\x1f\x8b" + b"junk" * 20,
    }


@pytest.mark.parametrize("how", ["cut", "flipped", "crc", "head"])
def test_damaged_gzip(weft: Weft, folder: Path, how: str) -> None:
    Path("bad.csv.gz").write_bytes(damaged(gzip.compress(Path("visits.csv").read_bytes()))[how])
    assert "bad.csv.gz" in weft("synth", "bad.csv.gz", *FIT, code=4).stderr
    weft("schema", "draft", "bad.csv.gz", code=4)
    weft("schema", "check", "visits.toml", "bad.csv.gz", code=4)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("deep.toml", "a = " + "[" * 5000 + "]" * 5000),
        ("digits.toml", f"[columns.score]\nkind = 'integer'\nrange = [0, {DIGITS}]\n"),
        ("zone.toml", SCHEMA.replace('"datetime"', '"datetime"\ntype = "timestamp[us, tz=Mars/Base]"')),
        ("deep.json", "[" * 100_000),
        ("deeper.json", '{"a":' * 100_000),
        ("digits.json", f'{{"a": {DIGITS}}}'),
        ("large.json", '{"score": 20000000}'),
        ("larger.json", '{"score": 2147483648}'),
        ("largest.json", '{"score": {"domain": 100000000000000000000}}'),
    ],
)
def test_schemas_beyond_reason(weft: Weft, folder: Path, name: str, text: str) -> None:
    Path(name).write_text(text)
    assert name in weft("schema", "check", name, code=3).stderr
    assert "Nothing was spent" in weft("synth", "visits.csv", "-s", name, *FIT[2:], code=3).stderr


@pytest.mark.parametrize("value", ["[" * 100_000, DIGITS, "1e999", '{"a":' * 100_000])
def test_options_beyond_reason(weft: Weft, folder: Path, value: str) -> None:
    words = ("synth", "visits.csv", "-s", "visits.toml", "-e", 1, "-m", "mst", "-o", "out.csv")
    said = weft(*words, "--option", f"share_columns={value}", code=2).stderr
    assert "Nothing was spent" in said and len(said) < 500
    assert outputs(folder) == set()


def test_numbers_of_thousands_of_digits_in_a_table(weft: Weft) -> None:
    lines = Path("visits.csv").read_text().splitlines()
    first = lines[1].split(",")
    lines[1] = ",".join([first[0], DIGITS, *first[2:]])
    Path("digits.csv").write_text("\n".join(lines) + "\n")
    said = weft("synth", "digits.csv", *FIT, code=4).stderr
    assert "score" in said and DIGITS not in said
    weft("schema", "draft", "digits.csv")


def test_a_zone_that_nobody_knows(weft: Weft) -> None:
    times = pa.array([1, 2, 3], pa.timestamp("us", "Mars/Base"))
    pa.parquet.write_table(pa.table({"t": times, "a": [1, 2, 3]}), "zone.parquet")
    Path("zone.toml").write_text(
        '[columns.t]\nkind = "datetime"\nrange = ["1970-01-01", "1970-01-02"]\n'
        '[columns.a]\nkind = "integer"\nrange = [0, 9]\n'
    )
    for words in (
        ("synth", "zone.parquet", "-s", "zone.toml", "-e", 1, "-o", "out.csv"),
        ("schema", "check", "zone.toml", "zone.parquet"),
    ):
        assert 'column "t"' in weft(*words, code=3).stderr


@pytest.mark.parametrize(
    "kind", ['kind = "category"\nvalues = ["x", "y"]', 'kind = "integer"\nrange = [0, 9]', 'kind = "id"']
)
def test_a_column_of_bytes(weft: Weft, kind: str) -> None:
    from weft import Schema, Synthesizer
    from weft.errors import DataError

    frame = pl.DataFrame({"b": [b"x", b"y"] * 40, "a": [True, False] * 40})
    schema = Schema.from_toml(f'[columns.b]\n{kind}\n[columns.a]\nkind = "boolean"\n')
    with pytest.raises(DataError, match='column "b": it holds bytes'):
        Synthesizer(1.0, method="independent").fit(frame, schema)


def test_rows_that_only_noise_made_are_asked_about(weft: Weft, folder: Path) -> None:
    units = pa.table(
        {"who": [str(n % 500) for n in range(2000)], "a": pa.array([n % 7 for n in range(2000)], pa.int64())}
    )
    pa.csv.write_csv(units, "units.csv")
    Path("units.toml").write_text(
        'unit = "who"\nrows_per_unit = 1000000\n[columns.who]\nkind = "id"\n'
        '[columns.a]\nkind = "integer"\nrange = [0, 6]\n'
    )
    words = ("synth", "units.csv", "-s", "units.toml", "-e", 1, "-m", "independent", "--noise-seed", 3)
    refused = weft(*words, "-o", "out.csv", code=1).stderr
    assert "State the number of synthetic rows with --rows N" in refused and "Recorded as spent" in refused
    (model,) = Path().glob("out-*.weft")
    assert f"weft sample {model} -o FILE" in refused
    assert outputs(folder) - {"units.csv", "units.toml"} == {"out.ledger.jsonl", model.name}
    assert "State the number of synthetic rows" in weft("sample", model, "-o", "out.csv", code=1).stderr
    weft("sample", model, "-n", 10, "-o", "out.csv")
    weft(*words, "-n", 10, "-o", "other.csv")


@pytest.mark.parametrize("name", ["plain", "=head"])
def test_formulas_are_kept_or_escaped(weft: Weft, folder: Path, name: str) -> None:
    values = ["=cmd|' /C calc'!A0", "+1", "-2", "@x", "\ttab", "fine", "it's = fine"]
    table = pa.table({name: values * 60, "n": pa.array([-1, 0, 1, 2, -5, 3, 4] * 60, pa.int64())})
    pa.parquet.write_table(table, "f.parquet")
    listed = json.dumps(values)
    Path("f.toml").write_text(
        f'[columns."{name}"]\nkind = "category"\nvalues = {listed}\n[columns.n]\nkind = "integer"\nrange = [-9, 9]\n'
    )
    words = ("synth", "f.parquet", "-s", "f.toml", "-e", 5, "-n", 200, "-q")
    weft(*words, "-o", "kept.csv")
    kept = pa.csv.read_csv("kept.csv", convert_options=pa.csv.ConvertOptions(column_types={name: pa.string()}))
    assert set(kept[name].to_pylist()) == set(values)
    assert "a spreadsheet may interpret them as formulas" in Path("kept.card.md").read_text()
    weft(*words, "--formulas", "escape", "--model", "f.weft", "-o", "escaped.csv")
    shown = "'=head" if name.startswith("=") else name
    escaped = pa.csv.read_csv("escaped.csv", convert_options=pa.csv.ConvertOptions(column_types={shown: pa.string()}))
    assert set(escaped[shown].to_pylist()) == {f"'{v}" if v[0] in "=+-@\t" else v for v in values}
    assert min(escaped["n"].to_pylist()) < 0  # numbers stay numbers
    assert "are prefixed with an apostrophe" in Path("escaped.card.md").read_text()
    weft("sample", "f.weft", "--formulas", "escape", "-n", 50, "-o", "again.csv")
    weft(*words, "--formulas", "escape", "-o", "same.parquet")
    assert set(pa.parquet.read_table("same.parquet")[name].to_pylist()) == set(values)
    weft("verify", ".")


def test_an_epsilon_that_protects_nobody(weft: Weft, folder: Path) -> None:
    words = ("synth", "visits.csv", "-s", "visits.toml", "-m", "independent", "-o", "out.csv", "-n", 20)
    said = weft(*words, "-e", 50, code=5).stderr
    assert "--insecure" in said and "Nothing was spent" in said
    assert outputs(folder) == set()
    assert "INSECURE BUDGET" in weft(*words, "-e", 50, "--insecure").stdout
    card = json.loads(Path("out.card.json").read_text())
    assert card["stamps"] == ["INSECURE BUDGET"] and card["privacy"]["epsilon"] == 50
    weft("verify", "out.csv")
    weft(*words, "-e", "inf", "--insecure", code=5)
    weft(*words, "-e", 1, "--insecure", "--overwrite")
    assert json.loads(Path("out.card.json").read_text())["stamps"] == ["INSECURE BUDGET"]
    weft("fit", "visits.csv", "-s", "visits.toml", "-e", 1000, "--insecure", "-m", "mst", "-o", "m.weft", "-q")
