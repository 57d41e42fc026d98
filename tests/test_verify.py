"""`verify` finds files of different releases, damage and careless editing."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from conftest import SCHEMA, make_table

from weft import Synthesizer
from weft.errors import DataError, WeftError
from weft.privacy import Budget, Lifetime
from weft.release.card import render_card
from weft.release.publish import Files, publish
from weft.release.verification import verify
from weft.schema import Schema


def released(folder: Path, name: str = "out.csv", **settings: Any) -> Files:
    schema = Schema.from_toml(str(settings.pop("schema", SCHEMA)))
    made = Synthesizer(1.0, method="independent", seed=1, **settings).fit(make_table(300), schema)
    files = Files.of(folder / name)
    publish(made.fitted_, made.tables(50, seed=2), files)
    return files


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    released(folder)
    released(folder, "out2.parquet")
    marked = SCHEMA + 'from_data = ["range"]\n'
    released(folder, "stamped.csv", schema=marked, trust_data_for_schema=True, neighbours="replace-one")
    unit = 'unit = "row"\nrows_per_unit = 2\n' + SCHEMA + '[columns.row]\nkind = "id"\n'
    table = make_table(300).append_column("row", pa.array([str(n % 200) for n in range(300)]))
    fitted = Synthesizer(1.0, method="independent").fit(table, Schema.from_toml(unit)).fitted_
    publish(fitted, [table.select([*table.column_names])], Files.of(folder / "unit.csv"))
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "r")
    return tmp_path / "r"


def wrong(folder: Path) -> set[str]:
    return {check.what.split()[0] for check in verify(folder).wrong}


def test_sound_releases_pass(folder: Path) -> None:
    found = verify(folder)
    assert found.wrong == []
    assert len(found.checks) == 4 * 7
    assert [check.file for check in found.skipped] == ["stamped.card.json"]
    assert not verify(folder / "out.csv").wrong and not verify(folder / "out.card.md").wrong
    (folder / "private.csv").write_text("a\n1\n")
    assert verify(folder).unchecked == ("private.csv",)


def edit(card: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change a card and its page alike, as a careful editor would."""
    facts = json.loads(card.read_text())
    change(facts)
    card.write_text(json.dumps(facts, indent=1) + "\n")
    card.with_suffix(".md").write_text(render_card(facts))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda c: c["privacy"].update(epsilon=0.5), "guarantee"),
        (lambda c: c["privacy"].update(delta=1e-9), "guarantee"),
        (lambda c: c["privacy"].update(meaning="All is well."), "guarantee"),
        (lambda c: c["ledger"]["budget"].update(epsilon=0.5), "ledger,"),
        (lambda c: c["ledger"]["entries"][0].update(cost=0.0), "ledger,"),
        (lambda c: c["ledger"]["entries"].pop(), "ledger,"),
        (lambda c: c["columns"][0].update(name="other"), "columns"),
        (lambda c: c["table"].update(sha256="0" * 64), "table"),
        (lambda c: c["stamps"].append("A warning of nothing"), "warnings"),
    ],
)
def test_a_card_that_contradicts_itself_is_found(folder: Path, change: Any, what: str) -> None:
    edit(folder / "out.card.json", change)
    assert what in wrong(folder)


def test_a_warning_that_was_dropped_is_missed(folder: Path) -> None:
    def drop(card: dict[str, Any]) -> None:
        card["stamps"].clear()
        card["ledger"]["stamps"].clear()

    edit(folder / "stamped.card.json", drop)
    assert "warnings" in wrong(folder)


def test_files_of_different_releases_are_found(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    released(other, "out.csv", delta=1e-6)
    shutil.copy(other / "out.csv", folder / "out.csv")
    assert wrong(folder) == {"table"}
    shutil.copy(other / "out.card.json", folder / "out.card.json")
    assert wrong(folder) == {"page"}


def test_what_is_missing_is_told(folder: Path) -> None:
    (folder / "out.csv").unlink()
    (folder / "stamped.card.md").unlink()
    (folder / "unit.card.json").unlink()
    told = {(check.file, check.what.split()[0]) for check in verify(folder).wrong}
    assert told == {
        ("out.card.json", "table"),
        ("out.card.json", "columns"),
        ("stamped.card.md", "page"),
        ("unit.card.md", "card"),
    }


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"card": 1}', '{"card": 2}', "[" * 100_000, '{"card": ' + "9" * 5000 + "}"]
)
def test_a_damaged_card_is_told(folder: Path, text: str) -> None:
    (folder / "out.card.json").write_text(text)
    assert verify(folder).wrong


def test_a_model_that_does_not_load_is_told(folder: Path) -> None:
    (folder / "m.weft").write_bytes(b"PK nothing")
    assert "model" in wrong(folder)


def test_there_must_be_something_to_check(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        verify(tmp_path / "gone")
    with pytest.raises(WeftError, match="no release"):
        verify(tmp_path)
    (tmp_path / "bare.csv").write_text("a\n")
    with pytest.raises(WeftError, match="no card"):
        verify(tmp_path / "bare.csv")


def test_a_command_to_paste_runs_nothing_that_a_card_says(folder: Path) -> None:
    name = "postgresql://h/d?table=t';touch PWNED;'"
    edit(folder / "out.card.json", lambda card: card["table"].update(file=name))
    told = next(check.wrong for check in verify(folder / "out.card.json").wrong if check.what.startswith("table"))
    assert told is not None
    assert shlex.split(told[told.index("weft verify") :]) == ["weft", "verify", name]


@pytest.mark.parametrize("file", ["postgresql://h/d?table=t", "sqlite:gone.sqlite?table=t", "sqlite:/x.db?table=t"])
def test_columns_of_a_table_that_nobody_opened_are_not_said_to_hold(folder: Path, file: str) -> None:
    edit(folder / "out.card.json", lambda card: card["table"].update(file=file))
    told = {check.what.split()[0]: check.wrong for check in verify(folder / "out.card.json").checks}
    assert "read back" in str(told["table"]) and told["columns"] == "not checked: the table was not read back"


SHAPES: tuple[Any, ...] = ([], "x", 7, None, {"file": []}, {"lifetime": []}, {"lifetime": {"head": [1]}})


@pytest.mark.parametrize("key", ["table", "privacy", "ledger", "columns", "stamps", "schema", "costs"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_card_of_another_shape_is_a_finding(
    folder: Path, key: str, shape: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    card, budget = folder / "out.card.json", folder / "clinic.budget"
    Lifetime.create(budget, Budget(epsilon=1.0))
    card.write_text(json.dumps({**json.loads(card.read_text()), key: shape}))
    assert verify(card, budget).wrong and verify(folder, budget).wrong
    monkeypatch.chdir(folder)
    shutil.copy(card, "t.card.json")
    with pytest.raises(WeftError, match="is for another table"):
        verify("postgresql://h/d?table=t")


def test_a_card_is_for_no_folder_above_it(folder: Path) -> None:
    edit(folder / "out.card.json", lambda card: card["table"].update(file=".."))
    told = {check.what.split()[0]: check.wrong for check in verify(folder / "out.card.json").checks}
    assert told["table"] == "the table .. is not in the card's folder" and told["columns"] is not None
