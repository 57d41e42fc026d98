"""The synthesizer as a Python object: settings, what it shows of itself, and frames that are not computed yet."""

import polars as pl
import pyarrow as pa
import pyarrow.csv
import pytest
from conftest import SCHEMA, make_table

import weft
from weft import Schema, Synthesizer
from weft.errors import BudgetError, ConditionError, DataError, MethodError, OutputError, SchemaError, WeftError


def test_settings_that_there_are_not_are_refused_with_a_hint():
    made = Synthesizer(method="mst")
    assert made.set_params(epsilon=2.0, rare=1.0).get_params()["rare"] == 1.0
    with pytest.raises(MethodError, match="epsilom"):
        made.set_params(epsilom=3)
    with pytest.raises(MethodError, match="share_scores"):
        made.set_params(share_score=0.2)
    assert made.set_params(method="weave", order=3).get_params()["order"] == 3


def test_options_are_looked_at_when_they_are_given():
    with pytest.raises(MethodError, match="share_scores must lie from"):
        Synthesizer(method="mst", share_scores=2.0)
    with pytest.raises(MethodError, match="no method 'mts'"):
        Synthesizer(method="mts")
    made = Synthesizer(method="mst", selection="heaviest")
    for refused in ({"epsilon": 3.0, "rare": -1.0}, {"epsilon": 3.0, "method": "weave"}):  # weave has no selection
        with pytest.raises(MethodError):
            made.set_params(**refused)
    assert made.get_params() == Synthesizer(method="mst", selection="heaviest").get_params()  # all or none


def test_a_fitted_synthesizer_shows_what_it_is():
    made = Synthesizer(2.0, method="independent", journal=None, noise_seed=1)
    assert repr(made) == "Synthesizer(epsilon=2.0, method='independent', journal=None, noise_seed=1)"
    assert "<code>" in made._repr_html_()
    made.fit(make_table(200), Schema.from_toml(SCHEMA))
    assert "fitted by independent to 4 columns" in repr(made) and "differential privacy" in repr(made)
    assert "<table>" in made._repr_html_() and "4 one-way marginals" in made._repr_html_()


def test_a_lazy_frame_is_taken_and_a_frame_comes_back():
    lazy = pl.DataFrame(make_table(200)).lazy()
    released = Synthesizer(2.0, method="independent", journal=None).fit(lazy, Schema.from_toml(SCHEMA)).sample(5)
    assert isinstance(released, pl.DataFrame) and released.columns == lazy.collect_schema().names()


def test_a_schema_is_read_from_text_or_file_and_drafted(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(SCHEMA)
    assert Schema.from_toml(path) == Schema.from_toml(str(path)) == Schema.from_toml(SCHEMA) == Schema.load(path)
    with pytest.raises(SchemaError, match="cannot read"):
        Schema.from_toml("none.toml")
    pa.csv.write_csv(make_table(50), tmp_path / "rows.csv")
    assert Schema.from_toml(Schema.draft(tmp_path / "rows.csv")).from_data_facts()


def test_rooms_that_are_public_can_be_reached():
    assert weft.evaluate.k_way and weft.demo.hospital and weft.Lifetime
    assert {"evaluate", "demo", "Lifetime", "load"} <= set(dir(weft))


def test_a_journal_is_kept_by_default_and_never_over_the_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pa.csv.write_csv(make_table(50), "rows.csv")
    Synthesizer(method="independent").fit("rows.csv", Schema.from_toml(SCHEMA))
    assert (tmp_path / "weft.ledger.jsonl").is_file()
    before = (tmp_path / "rows.csv").read_bytes()
    with pytest.raises(OutputError, match="is an input"):
        Synthesizer(method="independent", journal="rows.csv").fit("rows.csv", Schema.from_toml(SCHEMA))
    (tmp_path / "other.csv").write_bytes(before)
    with pytest.raises(OutputError, match="holds something else"):
        Synthesizer(method="independent", journal="other.csv").fit("rows.csv", Schema.from_toml(SCHEMA))
    assert (tmp_path / "rows.csv").read_bytes() == (tmp_path / "other.csv").read_bytes() == before
    Synthesizer(method="independent", journal=None).fit("rows.csv", Schema.from_toml(SCHEMA))


def test_an_absurd_number_of_rows_is_not_made_without_being_asked_for(monkeypatch):
    made = Synthesizer(method="independent", journal=None).fit(make_table(50), Schema.from_toml(SCHEMA))
    monkeypatch.setattr("weft.synthesis.statement.MAX_DEFAULT_ROWS", 3)
    with pytest.raises(WeftError, match=r"sample\(n\)"):
        made.sample()
    assert made.sample(5).num_rows == 5


@pytest.mark.parametrize("setting", [{"epsilon": "1"}, {"epsilon": [1]}, {"epsilon": True}, {"delta": "1e-5"}])
def test_budgets_that_are_no_numbers_are_refused(setting):
    with pytest.raises(BudgetError, match="must be a number such as"):
        Synthesizer(**setting)
    with pytest.raises(BudgetError, match="must be a number such as"):
        Synthesizer().set_params(**setting)


def test_a_frame_in_the_place_of_a_budget_is_not_quoted():
    private = pl.DataFrame({"name": ["Ossian"]})
    with pytest.raises(BudgetError) as told:
        Synthesizer(private)
    assert "Ossian" not in str(told.value) and "DataFrame" in str(told.value)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ((make_table(9), [1, 2]), SchemaError, "add labels to it as a column"),
        ((make_table(9), pl.Series([1, 2])), SchemaError, "not a Series"),
        ((make_table(9), {"columns": {}}), SchemaError, 'column "columns": kind must be'),
        (([[1, 2]],), DataError, "pandas.DataFrame"),
        (([{"sex": "f"}],), DataError, "from_pylist"),
    ],
)
def test_what_is_no_table_or_no_schema_is_refused_with_a_remedy(arguments, error, match):
    with pytest.raises(error, match=match):
        Synthesizer(journal=None).fit(*arguments)


def test_questions_take_names_one_by_one_or_as_a_list():
    fitted = Synthesizer(1.0, method="independent", journal=None, noise_seed=1).fit(
        make_table(300), Schema.from_toml(SCHEMA)
    )
    names = [column.name for column in fitted.fitted_.schema.modelled][:2]
    assert fitted.query(names).table.equals(fitted.query(*names).table)
    for wrong, error in (((3,), MethodError), ((None,), MethodError)):
        with pytest.raises(error, match="must be text"):
            fitted.query(*wrong)
    with pytest.raises(ConditionError, match="must be a string"):
        fitted.query(names[0], where=3)
    with pytest.raises(MethodError, match="bins must be an integer"):
        fitted.query(names[0], bins="a")
    assert len(fitted.sample(10.0)) == 10
    for n in ("10", 10.5, True):
        with pytest.raises(WeftError, match="whole number such as 1000"):
            fitted.sample(n)
    with pytest.raises(MethodError, match="seed must be a whole number"):
        fitted.sample(10, seed="x")


def test_scikit_learn_sees_whether_it_is_fitted(tmp_path):
    validation = pytest.importorskip("sklearn.utils.validation")
    exceptions = pytest.importorskip("sklearn.exceptions")
    made = Synthesizer(1.0, method="independent", journal=None, noise_seed=1)
    with pytest.raises(exceptions.NotFittedError):
        validation.check_is_fitted(made)
    validation.check_is_fitted(made.fit(make_table(300), Schema.from_toml(SCHEMA)))
    made.save(tmp_path / "m.weft")
    loaded = weft.load(tmp_path / "m.weft")
    validation.check_is_fitted(loaded)
    assert isinstance(loaded.sample(5), pa.Table)
