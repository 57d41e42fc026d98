import dataclasses
import json

import numpy as np
import pytest
from weft_lab.scorecard import pairwise_l1

from weft.errors import DataError, ModelFileError, WeftError
from weft.evaluation.metrics import associations, k_way, marginal_distances, svm_misclassification
from weft.evaluation.report.editions import read_coded
from weft.evaluation.report.measure_report import measure_private, measure_releasable
from weft.evaluation.report.report_pairs import compare_pairs
from weft.marginals.domain import Domain
from weft.marginals.marginal import Measured
from weft.marginals.records import Records
from weft.schema import Schema
from weft.synthesis import model_file as modelfile


def test_pairs_agree_with_the_evaluation(real, synth, monkeypatch):
    expected = [associations(table) for table in (real, synth)]
    for dense in (1 << 18, 10):  # the second way counts sparsely
        monkeypatch.setattr(marginal_distances, "_DENSE_CELLS", dense)
        found = compare_pairs(real, synth)
        upper = np.triu_indices(len(real.domain), 1)
        assert np.allclose(found.distance[upper], pairwise_l1(real, synth).matrix[upper] / 2, atol=1e-12)
        assert np.allclose(found.real[upper], expected[0][upper], atol=1e-12)
        assert np.allclose(found.synth[upper], expected[1][upper], atol=1e-12)


def test_columns_agree_with_the_evaluation(private, real, synth):
    one = k_way(real, synth, 1)
    assert [column.distance for column in private.columns] == pytest.approx(one.tvds.tolist())
    assert [column.name for column in private.columns] == list(real.domain.names)
    for column in private.columns:
        assert sum(bar.reference for bar in column.bars) == pytest.approx(1)
        assert column.noise is not None


def test_identical_tables_are_found_identical(real, codec):
    report = measure_private(real, real, codec)
    assert all(column.distance == 0 for column in report.columns)
    assert report.headlines[0].figure == "100.0% alike" and report.questions.error == 0
    assert report.cautions == () and report.marginals == () and report.guarantee is None


def test_broken_columns_and_pairs_are_named(real, codec):
    rng = np.random.default_rng(0)
    broken = Records.of(
        real.domain,
        [
            np.zeros(len(real)) if name == "sex" else rng.permutation(column) if name == "ward" else column
            for name, column in zip(real.domain.names, real.columns, strict=True)
        ],
    )
    report = measure_private(real, broken, codec)
    named = [caution.columns for caution in report.cautions]
    assert ("sex",) in named and ("age", "ward") in named
    assert "weaker" in next(c.reason for c in report.cautions if c.columns == ("age", "ward"))


def test_marginals_carry_what_noise_explains(private, fitted):
    assert len(private.marginals) == len(fitted.measured) > len(fitted.codec.domain)
    for marginal, asked in zip(private.marginals, fitted.measured, strict=True):
        assert marginal.columns == asked.clique and marginal.sigma == asked.sigma
        assert 0 < marginal.noise <= 1 and 0 <= marginal.observed <= 1
        assert marginal.raw_noise == pytest.approx(asked.cells * asked.sigma * np.sqrt(2 / np.pi))


def test_the_releasable_edition_says_nothing_of_real_rows(releasable, synth):
    assert releasable.reference_rows is None and releasable.questions is None and releasable.predictions == ()
    assert releasable.rows == len(synth)
    assert all(pair.association is None for pair in releasable.pairs)
    assert all((pair.distance is None) == (not pair.measured) for pair in releasable.pairs)
    assert {grid.columns for grid in releasable.grids} == {pair.columns for pair in releasable.pairs if pair.measured}


def test_both_editions_have_five_headlines_and_a_json_twin(private, releasable):
    for report in (private, releasable):
        assert len(report.headlines) == 5
        values = json.loads(json.dumps(report.to_dict(), allow_nan=False))
        assert values["edition"] == report.edition and len(values["columns"]) == len(report.columns)


def test_without_scikit_learn_the_predictions_are_left_out(real, synth, codec, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sklearn.svm", None)
    report = measure_private(real, synth, codec)
    assert report.predictions == () and "scikit-learn" in report.prediction_note
    assert report.headlines[-1].name == "Relations"


def test_one_column_alone_has_no_pairs():
    schema = Schema.from_toml('[columns.a]\nkind = "category"\nvalues = ["x", "y"]')
    import pyarrow as pa

    from weft.encoding import Codec

    codec = Codec(schema, pa.schema([("a", pa.string())]))
    rows = Records.of(codec.domain, [[0, 1, 1, 0, 1]])
    report = measure_private(rows, rows, codec)
    assert report.pairs == () and report.grids == ()


def test_a_model_of_other_columns_is_refused(real, synth, codec, fitted):
    other = Records.of(Domain(("a",), (2,)), [[0, 1]])
    with pytest.raises(WeftError, match="differ from those of the model"):
        measure_releasable(fitted, other)
    with pytest.raises(WeftError, match="another schema"):
        measure_private(other, other, codec, fitted)


def test_files_are_read_as_the_schema_says(tmp_path, table, schema, real):
    import pyarrow.csv
    import pyarrow.parquet

    pyarrow.csv.write_csv(table, tmp_path / "t.csv")
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        records = read_coded(tmp_path / name, schema).records
        assert all(np.array_equal(a, b) for a, b in zip(records.columns, real.columns, strict=True))
    with pytest.raises(DataError, match="no such file"):
        read_coded(tmp_path / "none.csv", schema)


def test_the_model_file_keeps_what_was_measured(fitted, tmp_path):
    path = tmp_path / "m.weft"
    modelfile.save_model(fitted, path)
    assert modelfile.load_model(path).measured == fitted.measured
    charged = [scale for entry in fitted.ledger.entries if entry.purpose == "marginals" for scale in entry.scales]
    assert [table.sigma for table in fitted.measured] == pytest.approx(charged)


@pytest.mark.parametrize("entry", [[["age"], [11], 1.0], [["age"], [5], 0.0], [["sex", "age"], [2, 10], 1.0]])
def test_a_list_of_marginals_that_does_not_fit_is_refused(fitted, tmp_path, entry):
    path = tmp_path / "m.weft"
    names, shape, sigma = entry
    planted = Measured(tuple(names), tuple(shape), sigma)
    modelfile.save_model(dataclasses.replace(fitted, measured=(planted,)), path)
    with pytest.raises(ModelFileError, match="measured marginals"):
        modelfile.load_model(path)


def test_a_target_whose_only_other_column_has_many_values_is_guessed():
    rng = np.random.default_rng(0)
    domain = Domain(("age", "sex"), (87, 2))
    real, made = (Records.of(domain, [rng.integers(0, 87, 400), rng.random(400) < 0.3]) for _ in range(2))
    found = svm_misclassification(real, made, target="sex")
    assert 0.2 < found.synth < 0.4  # the share of the rarer value
