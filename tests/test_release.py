"""Released files: a table, and cards that tell the truth about it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from weft import Synthesizer
from weft.errors import DataError, OutputError
from weft.io.table_files import write_table
from weft.release.card import card_json, card_markdown
from weft.release.publish import Files, publish
from weft.schema import Schema
from weft.synthesis.fitted import Fitted
from weft.synthesis.statement import APART, VOID, explain_guarantee

SCHEMA = """
[columns.kind]
kind = "category"
values = ["a|b", "c"]

[columns.size]
kind = "integer"
range = [0, 9]
"""
ROWS = 1237


def data() -> pa.Table:
    return pa.table({"size": pa.array([n % 10 for n in range(ROWS)], pa.int8()), "kind": ["a|b"] * (ROWS - 1) + ["c"]})


def fitted(**settings: object) -> Fitted:
    text = settings.pop("schema", SCHEMA)
    return Synthesizer(1.0, **({"method": "independent"} | settings)).fit(data(), Schema.from_toml(str(text))).fitted_


@pytest.fixture(scope="module")
def plain() -> Fitted:
    return fitted()


def test_card_states_the_guarantee(plain: Fitted) -> None:
    card = card_json(plain, 500, name="out.csv", sha256="f" * 64)
    assert card["privacy"]["epsilon"] == pytest.approx(1, rel=1e-6)
    assert card["privacy"]["delta"] == pytest.approx(1e-5)
    assert card["privacy"]["relation"] == "add-remove"
    assert card["privacy"]["budget_used"] == pytest.approx(1)
    assert card["table"] == {"file": "out.csv", "rows": 500, "sha256": "f" * 64, "formulas": None, "conditions": []}
    assert [column["name"] for column in card["columns"]] == ["size", "kind"]
    assert card["columns"][0] | {"codes": 10, "type": "int8"} == card["columns"][0]
    assert APART in card["limits"]
    json.dumps(card, allow_nan=False)


def test_markdown_has_a_head_and_every_part(plain: Fitted) -> None:
    text = card_markdown(plain, 500, name="out.csv", sha256="f" * 64)
    head, body = text.removeprefix("---\n").split("\n---\n", 1)
    assert "tags: [synthetic, tabular, differential-privacy, weft]" in head
    assert "size_categories: [n<1K]" in head
    assert "private: true" in head
    for part in ("# out.csv", "## Privacy guarantee", "## Method", "## Columns", "## Known limitations", "f" * 64):
        assert part in body
    assert "declared public by the author of the schema" in body
    assert "e^1, which is below 2.72" in body
    assert "73.2%" in body


def test_cards_hold_no_exact_count(plain: Fitted) -> None:
    text = card_markdown(plain, 500, name="out.csv") + json.dumps(card_json(plain, 500, name="out.csv"))
    assert str(ROWS) not in text
    assert f"{ROWS:,}" not in text


def test_stamps_come_first() -> None:
    stamped = fitted(noise_seed=1)
    text = card_markdown(stamped, 5, name="out.csv")
    assert "private: false" in text
    assert text.index("NOT PRIVATE") < text.index("## Privacy guarantee")
    assert text.count(VOID) == 1
    assert text.index(VOID) < text.index("-differential privacy:")
    assert "operating system" not in text  # the noise came from the seed
    assert "generated from a seed" in text
    assert card_json(stamped, 5, name="out.csv")["privacy"]["meaning"].startswith(VOID)
    assert card_json(stamped, 5, name="out.csv")["stamps"] == list(stamped.ledger.stamps)


def test_facts_read_from_the_data_are_named() -> None:
    marked = SCHEMA + 'from_data = ["range"]\n'
    trusted = fitted(schema=marked, trust_data_for_schema=True)
    text = card_markdown(trusted, 5, name="out.csv")
    assert "size: range" in text
    assert "took nothing from private rows" not in text
    assert VOID in text
    assert "operating system's entropy" in text
    assert card_json(trusted, 5, name="x.csv")["schema"]["facts_read_from_the_data"] == ["size: range"]


def test_meaning_follows_the_neighbours() -> None:
    assert "whether or not the private table contains a given row" in explain_guarantee(fitted())
    assert "whatever values a given row of the private table has" in explain_guarantee(fitted(neighbours="replace-one"))


def test_pure_privacy_has_no_failure_chance() -> None:
    assert "(delta)" not in explain_guarantee(fitted(delta=0.0, accounting="pure"))


def test_markdown_tables_survive_odd_names() -> None:
    odd = SCHEMA.replace("columns.kind", 'columns."a|b"')
    table = data().rename_columns(["size", "a|b"])
    made = Synthesizer(1.0).fit(table, Schema.from_toml(odd)).fitted_
    assert "| a\\|b | category |" in card_markdown(made, 5, name="out.csv")


def test_publish_writes_all_or_nothing(plain: Fitted, tmp_path: Path) -> None:
    files = Files.of(tmp_path / "out.parquet")

    def broken():
        yield data()
        raise RuntimeError

    with pytest.raises(RuntimeError):
        publish(plain, broken(), files)
    assert list(tmp_path.iterdir()) == []
    card = publish(plain, [data(), data()], files)
    assert {path.name for path in tmp_path.iterdir()} == {"out.parquet", "out.card.md", "out.card.json"}
    assert card == json.loads(files.card_json.read_text())
    assert card["table"]["rows"] == 2 * ROWS
    assert card["table"]["sha256"] == hashlib.sha256(files.data.read_bytes()).hexdigest()


@pytest.mark.parametrize("name", ["out", "out.txt", "out.csv.bz2"])
def test_unknown_formats_are_refused(name: str) -> None:
    with pytest.raises(OutputError, match="format"):
        Files.of(Path(name))


def test_csv_tells_empty_text_from_missing(tmp_path: Path) -> None:
    table = pa.table({"text": ["", None, 'say "x", y\nz'], "n": pa.array([1, None, 3], pa.int64())})
    write_table([table.slice(0, 1), table.slice(1)], tmp_path / "t.csv")
    read = pa.csv.read_csv(
        tmp_path / "t.csv",
        parse_options=pa.csv.ParseOptions(newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False),
    )
    assert read.to_pydict() == table.to_pydict()


def test_many_arrow_types_survive_parquet_and_can_be_written_as_csv(tmp_path: Path) -> None:
    from datetime import UTC, date, datetime, time
    from decimal import Decimal

    moment = datetime(2024, 2, 29, 12, 30, tzinfo=UTC)
    table = pa.table(
        {
            "i8": pa.array([1], pa.int8()),
            "u64": pa.array([2**63], pa.uint64()),
            "f32": pa.array([0.5], pa.float32()),
            "decimal": pa.array([Decimal("1.25")], pa.decimal128(9, 2)),
            "large": pa.array(["x"], pa.large_string()),
            "view": pa.array(["x"], pa.string_view()),
            "words": pa.array(["x"]).dictionary_encode(),
            "date32": pa.array([date(2024, 2, 29)], pa.date32()),
            "time": pa.array([time(1, 2, 3)], pa.time32("ms")),
            "zoned": pa.array([moment], pa.timestamp("us", "Europe/Berlin")),
            "plain": pa.array([moment.replace(tzinfo=None)], pa.timestamp("ms")),
            "nothing": pa.nulls(1),
        }
    )
    write_table([table], tmp_path / "t.parquet", ".parquet")
    assert pa.parquet.read_table(tmp_path / "t.parquet").equals(table)
    write_table([table], tmp_path / "t.csv", ".csv")
    assert pa.csv.read_csv(tmp_path / "t.csv").column_names == table.column_names


def test_blocks_are_written_in_their_order_while_the_next_are_made(tmp_path):
    made = []

    def blocks(upto, fault=None):
        for k in range(upto):
            made.append(k)
            yield pa.table({"k": [k, k]})
        if fault is not None:
            raise fault

    path = tmp_path / "t.csv"
    assert write_table(blocks(5), path) == 10
    assert path.read_text() == '"k"\n' + "".join(f"{k}\n{k}\n" for k in range(5))
    with pytest.raises(DataError, match="the sixth"):
        write_table(blocks(5, DataError("the sixth")), path)
    made.clear()
    with pytest.raises(OSError, match="full"):
        write_table(blocks(50), path, listener=_full)
    assert len(made) <= 3


def _full(event):
    if event.stage == "write" and event.done:
        raise OSError("the disk is full")
