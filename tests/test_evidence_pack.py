"""Evidence packs say what the release says, warnings first; whatever was changed is refused or found wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import SCHEMA, make_table
from test_related import SCHEMA as RELATED
from test_related import town
from typer.testing import CliRunner

import weft
from weft import Synthesizer
from weft.cli import app
from weft.errors import WeftError
from weft.privacy import Budget, Lifetime
from weft.release.database_release import publish_database
from weft.release.evidence import OPEN, build_registry_record, render_page, select_audit, write_evidence
from weft.release.publish import Files, publish
from weft.release.verification import read_verified_card, verify
from weft.schema import Schema

pytest.importorskip("dp_accounting")

REGISTRY = Path(__file__).parents[2] / "shared/data/registry/deployments-schema.yaml"


def released(folder: Path, name: str = "out.csv", **settings: Any) -> Path:
    schema = Schema.from_toml(str(settings.pop("schema", SCHEMA)))
    made = Synthesizer(1.0, method=settings.pop("method", "independent"), journal=None, seed=1, **settings)
    made.fit(make_table(300), schema, unit=False)
    folder.mkdir(exist_ok=True)
    publish(made.fitted_, made.tables(50, seed=2), Files.of(folder / name))
    made.save(folder / "model.weft")
    return folder


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return released(tmp_path_factory.mktemp("plain"))


def pack(place: Path, folder: Path, **given: Any) -> dict[str, Any]:
    write_evidence(read_verified_card(place), folder, **given)
    stored: dict[str, Any] = json.loads((folder / "evidence.json").read_text())
    return stored


def test_the_pack_of_a_release_states_its_guarantee_and_verifies(plain: Path, tmp_path: Path) -> None:
    made = pack(plain / "out.csv", tmp_path)
    statement = {item["what"]: item for section in made["statement"] for item in section["items"]}
    assert len(made["statement"]) == 4
    assert statement["Guarantee"]["value"] == "(1, 1e-05)-differential privacy"
    assert all(item["open"] == (item["value"] == OPEN) for item in statement.values())
    assert sum(item["open"] for item in statement.values()) == 5
    assert made["accountants"][0]["agrees"] and made["audit"] == [] == made["warnings"]
    found = verify(tmp_path)
    assert not found.wrong and [check.what for check in found.skipped] == ["statements of the curator"]
    assert not verify(tmp_path / "evidence.json").wrong
    for place in (plain, plain / "out.card.json", plain / "out.card.md"):
        assert read_verified_card(place) == made["card"]


def test_risks_grow_with_epsilon_and_never_fall_below_the_success_without_the_data(plain: Path, tmp_path: Path) -> None:
    strong, weak = (
        pack(released(tmp_path / f"r{e}", budget=Budget(epsilon=e)), tmp_path / f"e{e}") for e in (0.5, 4.0)
    )
    for low, high in zip(strong["meaning"]["games"], weak["meaning"]["games"], strict=True):
        assert low["success_without"] < low["success_at_most"] < high["success_at_most"] < 1
    assert {game["risk"] for game in strong["meaning"]["games"]} == {"singling out", "linkage", "inference"}


def test_a_page_loads_nothing_and_escapes_names(plain: Path, tmp_path: Path) -> None:
    made = pack(plain, tmp_path)
    made["card"]["table"]["file"] = made["release"] = "<script>x</script>.csv"
    page = render_page(made)
    assert "<script" not in page and "&lt;script&gt;" in page
    assert not re.findall(r"(?:src|href)=\"(?!data:)", page) and "url(" not in page and "@import" not in page
    assert "prefers-color-scheme:dark" in page and "@media print" in page


def test_facts_read_from_the_data_are_the_first_thing_said(tmp_path: Path) -> None:
    made = pack(
        released(tmp_path / "r", schema=SCHEMA + 'from_data = ["range"]\n', trust_data_for_schema=True), tmp_path
    )
    (stamp,) = made["warnings"]
    assert "cost" in stamp and made["not_protected"][0]["item"] == stamp
    page, statement = (tmp_path / "evidence.html").read_text(), (tmp_path / "statement.md").read_text()
    assert page.index("NOT PRIVATE IN FULL") < page.index("<h1>") and "WARNING" in page[: page.index("<style>")]
    assert statement.index("NOT PRIVATE IN FULL") < statement.index("## ")
    assert (
        "NOT PRIVATE IN FULL"
        in json.loads((tmp_path / "registry.yaml").read_text())["deployment"]["administrative"]["notes"]
    )
    assert not verify(tmp_path).wrong


def test_a_lifetime_budget_is_stated(tmp_path: Path) -> None:
    budget = tmp_path / "table.budget"
    Lifetime.create(budget, Budget(epsilon=3.0))
    made = pack(released(tmp_path / "r", budget_file=budget), tmp_path / "e")
    told = {item["what"]: item["value"] for section in made["statement"] for item in section["items"]}
    assert "all runs together" in told["Other releases of the same data"]
    assert not any("Other releases" in each["item"] for each in made["not_protected"])


@pytest.mark.parametrize("edit", ["table", "card", "guarantee"])
def test_a_release_that_was_changed_gets_no_evidence(tmp_path: Path, edit: str) -> None:
    folder = released(tmp_path / "r")
    card = folder / "out.card.json"
    facts = json.loads(card.read_text())
    if edit == "table":
        (folder / "out.csv").write_text((folder / "out.csv").read_text() + "1,f,a,0\n")
    elif edit == "card":
        card.write_text(json.dumps(facts | {"stamps": ["x"]}))
    else:
        facts["privacy"]["epsilon"] = 0.1
        card.write_text(json.dumps(facts))
    done = CliRunner().invoke(app, ["evidence", str(folder / "out.csv"), "-o", str(tmp_path / "e")])
    assert done.exit_code == 1 and "fails verification" in done.output and not (tmp_path / "e").exists()


CHANGES = {
    "evidence.json": lambda text: text.replace('"success_at_most": 0.', '"success_at_most": 0.0'),
    "evidence.html": lambda text: text.replace("epsilon = 1", "epsilon = 0.1"),
    "statement.md": lambda text: text.replace("one row", "one person"),
    "registry.yaml": lambda text: text.replace('"epsilon": 1.0', '"epsilon": 0.5'),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_pack_that_was_changed_fails(plain: Path, tmp_path: Path, name: str) -> None:
    pack(plain, tmp_path)
    before = (tmp_path / name).read_text()
    (tmp_path / name).write_text(CHANGES[name](before))
    assert (tmp_path / name).read_text() != before
    assert name in {check.file for check in verify(tmp_path).wrong}


def test_a_pack_whose_ledger_was_changed_consistently_on_the_surface_fails(plain: Path, tmp_path: Path) -> None:
    made = pack(plain, tmp_path)
    made["card"]["privacy"]["epsilon"] = 0.5
    (tmp_path / "evidence.json").write_text(json.dumps(made))
    assert "guarantee of the card" in {check.what for check in verify(tmp_path).wrong}
    (tmp_path / "evidence.json").write_text("{}")
    assert verify(tmp_path).wrong


def test_the_curator_completes_the_registry_record(plain: Path, tmp_path: Path) -> None:
    pack(plain, tmp_path)
    path = tmp_path / "registry.yaml"
    path.write_text(path.read_text().replace(OPEN, "said"))
    assert not verify(tmp_path).wrong and not verify(tmp_path).skipped


def schema_of_registry() -> Any:
    if not REGISTRY.is_file():
        pytest.skip("the schema of the registry is not beside the project (../shared/data/registry)")
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load(REGISTRY.read_text())


@pytest.mark.parametrize("settings", [{}, {"budget": Budget(epsilon=2.0, delta=0.0)}, {"neighbours": "replace-one"}])
def test_the_registry_record_is_valid(tmp_path: Path, settings: dict[str, Any]) -> None:
    schema, jsonschema = schema_of_registry(), pytest.importorskip("jsonschema")
    yaml = pytest.importorskip("yaml")
    made = pack(released(tmp_path / "r", **settings), tmp_path / "e")
    record = yaml.safe_load((tmp_path / "e/registry.yaml").read_text())
    jsonschema.validate(record, schema, format_checker=jsonschema.FormatChecker())
    assert record["tier"] == 3 and record["deployment"]["privacy_loss"]["privacy_parameters"]["epsilon"] > 0
    composition = record["deployment"]["accounting"]["composition"]
    assert all(entry["question"] in composition for entry in made["card"]["ledger"]["entries"])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(build_registry_record(made, "2026-01-01") | {"tier": 4}, schema)


def test_a_model_alone_and_related_tables_have_evidence(plain: Path, tmp_path: Path) -> None:
    made = pack(plain / "model.weft", tmp_path / "m")
    assert made["release"] == "model.weft" and not verify(tmp_path / "m").wrong
    fitted = weft.Synthesizer(2.0, journal=None, seed=0).fit(town(200), weft.Database.from_toml(RELATED))
    publish_database(fitted.related_, fitted.sample_tables(50, seed=1), tmp_path / "d")
    made = pack(tmp_path / "d", tmp_path / "de")
    assert "persons.csv" in made["release"] and not verify(tmp_path / "de").wrong
    assert any("jobs" in each["item"] for each in made["not_protected"])
    made["card"]["privacy"]["epsilon"] = 0.5
    (tmp_path / "de/evidence.json").write_text(json.dumps(made))
    assert verify(tmp_path / "de").wrong


def test_records_without_a_guarantee_have_no_evidence(tmp_path: Path) -> None:
    settings = {"method": "bsg", "omega": 1, "rows": 50, "guarantee": "deniability", "k": 5}
    folder = released(tmp_path / "r", **settings)
    with pytest.raises(WeftError, match="plausibly deniable"):
        pack(folder / "out.csv", tmp_path / "e")


FINDING = {
    "method": "independent", "neighbours": "add-remove", "table": "narrow", "from": "model", "trials": 80,
    "accuracy": 0.6, "confidence": 0.95, "mu_at_least": 0.2,
}  # fmt: skip


def test_only_attacks_on_this_method_and_budget_are_included(plain: Path, tmp_path: Path) -> None:
    card = read_verified_card(plain)
    audit = {"epsilon": 1.0, "delta": 1e-5, "findings": [FINDING, FINDING | {"method": "weave"}]}
    (kept,) = select_audit(audit, card)
    assert 0 < kept["advantage_at_least"] < 0.1
    stored = pack(plain, tmp_path, audit=[kept])
    assert "Attacks that were tried.</b> <code>" in (tmp_path / "evidence.html").read_text()
    assert stored["audit"] == [kept] and "observed attacks" in {check.what for check in verify(tmp_path).skipped}
    for other in (audit | {"epsilon": 2.0}, audit | {"findings": []}, [1]):
        with pytest.raises(WeftError, match="weft audit -m independent -e 1"):
            select_audit(other, card)


def test_the_second_accountant_fails_on_disagreement(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = CliRunner().invoke
    done = run(app, ["verify", str(plain / "out.csv"), "--second-accountant"])
    assert done.exit_code == 0 and "second accountant agrees" in done.output
    monkeypatch.setattr("weft.privacy.second_accountant.TOLERANCE", -0.5)
    done = run(app, ["verify", str(plain), "--second-accountant"])
    assert done.exit_code == 1 and "dp-accounting finds epsilon" in done.output


def test_the_command_writes_a_pack_and_keeps_an_earlier_one(plain: Path, tmp_path: Path) -> None:
    command = ["evidence", str(plain), "-o", str(tmp_path / "e"), "--json"]
    run = CliRunner().invoke
    done = run(app, command)
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert [Path(file).name for file in told["files"]] == [
        "registry.yaml",
        "statement.md",
        "evidence.html",
        "evidence.json",
    ]
    assert len(told["to_be_completed"]) == 5
    again = run(app, command)
    assert again.exit_code == 2 and "--overwrite" in again.output
    assert run(app, [*command, "--overwrite"]).exit_code == 0
    assert run(app, ["evidence", str(tmp_path / "none")]).exit_code == 4
    assert run(app, [*command, "--overwrite", "--audit", str(tmp_path / "none")]).exit_code == 2
