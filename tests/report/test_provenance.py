"""Which tables a report may call a release of a model."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from weft.errors import DataError, WeftError
from weft.evaluation.report import private_report, releasable_report
from weft.evaluation.report.editions import check_release
from weft.release.publish import Files, publish
from weft.synthesis import model_file as modelfile
from weft.synthesis.synthesizer import Synthesizer


@pytest.fixture
def released(tmp_path, fitted, codec, synth) -> Path:
    files = Files.of(tmp_path / "synth.parquet")
    publish(fitted, [codec.decode(synth, np.random.default_rng(0))], files)
    return files.data


def change_card(released: Path, change) -> None:
    card = released.with_suffix(".card.json")
    facts = json.loads(card.read_text())
    change(facts)
    card.write_text(json.dumps(facts))


def test_a_release_is_known_by_the_model_in_memory_and_on_disk(released, fitted, tmp_path):
    check_release(released, fitted)
    modelfile.save_model(fitted, tmp_path / "m.weft")
    check_release(released, modelfile.load_model(tmp_path / "m.weft"))


def test_one_changed_byte_is_enough(released, fitted):
    content = bytearray(released.read_bytes())
    content[len(content) // 2] ^= 1
    released.write_bytes(content)
    with pytest.raises(WeftError, match="or was modified"):
        check_release(released, fitted)


@pytest.mark.parametrize("changed", [{"epsilon": 2.001}, {"delta": 2e-5}, {"rare": 3.5}, {"method": "mst"}], ids=str)
def test_another_budget_method_or_option_is_another_model(released, table, fitted, changed):
    other = Synthesizer(**({"epsilon": 2.0, "method": "privsyn", "seed": 1} | changed)).fit(table, fitted.schema)
    with pytest.raises(WeftError, match="another model"):
        check_release(released, other.fitted_)


@pytest.mark.parametrize(
    "change",
    [
        lambda facts: facts.clear(),
        lambda facts: facts["ledger"].pop("budget"),
        lambda facts: facts.update(method="privsyn"),
        lambda facts: facts.update(table=None),
    ],
)
def test_a_damaged_card_shows_nothing(released, fitted, change):
    change_card(released, change)
    with pytest.raises(WeftError, match="shows that this model generated"):
        check_release(released, fitted)
    released.with_suffix(".card.json").write_text("no card")
    with pytest.raises(WeftError, match="shows that this model generated"):
        check_release(released, fitted)


def test_a_card_without_a_fingerprint_fits_no_table(released, fitted):
    change_card(released, lambda facts: facts["table"].update(sha256=None))
    with pytest.raises(WeftError, match="does not match"):
        check_release(released, fitted)


def test_both_editions_from_files(released, fitted, table, tmp_path):
    pyarrow.parquet.write_table(table, tmp_path / "real.parquet")
    assert releasable_report(fitted, released).edition == "releasable"
    private = private_report(tmp_path / "real.parquet", released, fitted=fitted)
    assert private.edition == "private" and private.guarantee is not None
    assert private_report(tmp_path / "real.parquet", released, fitted.schema).guarantee is None
    with pytest.raises(WeftError, match="shows that this model generated"):
        releasable_report(fitted, tmp_path / "real.parquet")
    with pytest.raises(WeftError, match="shows that this model generated"):
        private_report(released, tmp_path / "real.parquet", fitted=fitted)
    with pytest.raises(DataError, match="no such file"):
        releasable_report(fitted, tmp_path / "gone.parquet")
    with pytest.raises(WeftError, match="a schema is needed"):
        private_report(tmp_path / "real.parquet", released)


def test_without_a_file_the_rows_are_the_models_own(fitted):
    report = releasable_report(fitted)
    assert report.edition == "releasable" and report.rows == round(fitted.model.total)
    assert report.to_dict() == releasable_report(fitted).to_dict()
