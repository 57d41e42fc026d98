"""What people met when version 0.1 met their tables: sections 3.3, 3.8 and 3.9 of the field report.

Sections 3.1, 3.2 and 3.4 to 3.7 are in `tests/schema/test_field_report.py` (what files are not, of 3.7, in
`tests/engines/test_formats.py`), 3.11 in `tests/report`.
"""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

import weft
from weft.cli import app
from weft.errors import WeftError
from weft.evaluation.report import private_report

SCHEMA = """
[columns.patient]
kind = "id"
type = "int64"
[columns.admitted]
kind = "datetime"
range = ["2024-01-01", "2024-12-31"]
[columns.age]
kind = "integer"
range = [0, 110]
"""


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    days = pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.integers(0, 366, 500), "D")
    return pd.DataFrame({"patient": np.arange(500) + 10_000, "admitted": days, "age": rng.integers(0, 99, 500)})


@pytest.fixture
def fitted(frame):
    return weft.Synthesizer(1.0, method="independent", noise_seed=1).fit(frame, weft.Schema.from_toml(SCHEMA))


def test_3_3_the_report_sees_means_and_quantiles(frame, fitted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame.to_csv("private.csv", index=False, date_format="%Y-%m-%d")
    made = fitted.sample(seed=1)
    made.assign(age=made["age"] // 4).to_csv("released.csv", index=False, date_format="%Y-%m-%d")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    report = private_report("private.csv", "released.csv", weft.Schema.load("schema.toml"))
    age = next(found for found in report.numbers if found.name == "age")
    assert age.mean == pytest.approx((frame["age"].mean(), (made["age"] // 4).mean()))
    assert len(age.quantiles) and any("age" in str(caution) for caution in report.cautions)


def test_3_8_a_schema_is_read_from_a_path_or_a_text_and_drafted(tmp_path, frame):
    path = tmp_path / "s.toml"
    path.write_text(SCHEMA)
    assert weft.Schema.from_toml(path) == weft.Schema.load(path) == weft.Schema.from_toml(SCHEMA)
    frame.to_csv(tmp_path / "t.csv", index=False)
    for table in (tmp_path / "t.csv", frame, pl.from_pandas(frame)):
        drafted = weft.Schema.from_toml(weft.Schema.draft(table))
        assert [column.name for column in drafted.columns] == list(frame) and drafted.from_data_facts()


@pytest.mark.parametrize("wrong", [{"epsilon": -1}, {"method": "weav"}, {"discover": 2.0}])
def test_3_8_what_is_wrong_is_refused_by_the_constructor(wrong):
    with pytest.raises(WeftError):
        weft.Synthesizer(**wrong)


def test_3_8_a_misspelt_setting_is_refused_with_a_hint():
    with pytest.raises((WeftError, ValueError), match="epsilon"):
        weft.Synthesizer().set_params(epsilom=3)


def test_3_8_a_fitted_synthesizer_tells_what_it_is(fitted, tmp_path):
    assert "fitted" in repr(fitted) or "rows" in repr(fitted)
    assert "<table>" in fitted._repr_html_()
    fitted.save(tmp_path / "m.weft")
    assert len(weft.load(tmp_path / "m.weft").sample(5)) == 5


def test_3_8_a_lazy_frame_is_a_table(frame):
    lazy = pl.from_pandas(frame).lazy()
    made = weft.Synthesizer(1.0, method="independent", noise_seed=1).fit(lazy, weft.Schema.from_toml(SCHEMA)).sample(9)
    assert len(made) == 9


def test_3_9_pandas_dates_have_no_time_of_day_and_ids_keep_their_type(frame, fitted):
    made = fitted.sample(200, seed=2)
    assert (made["admitted"].dt.time == datetime.time(0)).all()
    assert made["patient"].dtype == frame["patient"].dtype


def test_3_9_the_screen_speaks_plainly(frame, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(SCHEMA)
    frame.to_csv("t.csv", index=False, date_format="%Y-%m-%d")
    shown = CliRunner().invoke(app, ["synth", "t.csv", "-s", "s.toml", "-e", "1", "-m", "independent", "-o", "o.csv"])
    assert shown.exit_code == 0, shown.output
    for jargon in ("2-way", "clique", "interaction", "rho", "sigma", "marginal"):
        assert jargon not in shown.stdout
