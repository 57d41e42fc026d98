"""From a raw export to a release, without a schema; who is protected; what was found, as a schema for later runs."""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest

from weft import Schema, Synthesizer
from weft.errors import BudgetError, MethodError, SchemaError
from weft.methods.independent import Independent

from .conftest import Weft

ROWS = 4000


@pytest.fixture(scope="module")
def export():
    """A table as people export them."""
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 700, ROWS), unit="D")
    price = np.round(rng.gamma(2, 900, ROWS), 2)
    return pd.DataFrame(
        {
            "visit": [f"V{i:06d}" for i in range(ROWS)],
            "patient_nbr": rng.integers(1, 1500, ROWS),
            "age": np.where(rng.random(ROWS) < 0.1, np.nan, rng.integers(0, 95, ROWS)),
            "sex": rng.choice(["f", "m", "?"], ROWS, p=[0.5, 0.4, 0.1]),
            "ward": rng.choice(["surgery", "medicine", "maternity"], ROWS),
            "admitted": days.strftime("%d/%m/%Y"),
            "seen": days.strftime("%Y-%m-%d") + " 10:30:00+00:00",
            "price": [f"${value:,.2f}" for value in price],
            "smoker": rng.choice([True, False], ROWS),
            "zip": [f"{code:05d}" for code in rng.integers(1000, 1020, ROWS)],
            "answer": rng.choice([1, 2, 3, -9], ROWS),
            "note": [f"this is what somebody wrote about number {i}" for i in range(ROWS)],
        }
    )


@pytest.fixture
def raw(export, weft: Weft):
    export.to_csv("export.csv", index=False)
    return weft


def test_an_export_becomes_a_release_without_a_schema(raw: Weft, export) -> None:
    words = ("-e", 20, "--unit", "patient_nbr", "-m", "independent", "-o", "out.csv", "-v", "--noise-seed", 1)
    result = raw("synth", "export.csv", *words)  # other noise may add a month to the range
    made = pd.read_csv("out.csv", dtype=str)
    assert list(made.columns) == list(export.columns)
    schema = Schema.load("out.schema.toml")
    kinds = {column.name: column.kind for column in schema.columns}
    assert kinds == {
        "visit": "id",
        "patient_nbr": "id",
        "age": "integer",
        "sex": "category",
        "ward": "category",
        "admitted": "datetime",
        "seen": "datetime",
        "price": "real",
        "smoker": "category",
        "zip": "category",
        "answer": "integer",
        "note": "id",
    }
    assert set(made["ward"]) <= {"surgery", "medicine", "maternity", "other"}
    assert (made["ward"] == "other").mean() < 0.02
    assert set(made["zip"].str.len()) == {5}, "padded codes, and other"
    assert made["price"].str.match(r"^\$[\d,]+\.\d\d$").all()
    assert pd.to_datetime(made["admitted"], format="%d/%m/%Y").dt.year.between(2021, 2022).all()
    assert {"True", "False"} <= set(made["smoker"]) <= {"True", "False", "other"}
    assert -9 in set(made["answer"].astype(float))
    assert "?" in set(made["sex"])
    assert not schema.from_data_facts()
    assert "found privately" in result.stdout
    assert "common values" in result.stdout


@pytest.mark.parametrize("rows", [ROWS, 1])
def test_who_is_protected_must_be_stated_whatever_the_rows_hold(raw: Weft, export, rows) -> None:
    """A refusal that the rows decide would tell whether somebody has a second row."""
    export[:rows].to_csv("export.csv", index=False)
    told = [
        raw(*words, code=2).stderr
        for words in (
            ("synth", "export.csv", "-e", 1, "-o", "out.csv"),
            ("synth", "no-such-file.csv", "-e", 1, "-o", "out.csv"),
            ("fit", "export.csv", "-e", 1, "-o", "out.weft"),
            ("schema", "draft", "export.csv", "--private", "-e", 1, "-o", "found.toml"),
        )
    ]
    assert all("--unit COLUMN" in text and "--one-row-per-person" in text for text in told)
    assert all("patient_nbr" not in text for text in told)
    assert all("Nothing was spent" in text for text in told[:3])


def test_a_schema_that_leaves_columns_open_states_nobody(raw: Weft) -> None:
    Path("part.toml").write_text('extra_columns = "discover"\n[columns.age]\nkind = "integer"\n')
    raw("synth", "export.csv", "-s", "part.toml", "-e", 1, "-o", "out.csv", code=2)
    words = ("-s", "part.toml", "-e", 8, "-m", "independent", "--unit", "patient_nbr", "-o", "out.csv")
    raw("synth", "export.csv", *words)
    assert Schema.load("out.schema.toml").unit == "patient_nbr"


def test_python_warns_once_who_is_protected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.synthesis.fit_plan._WARNED", set())
    run = Synthesizer(3.0, journal=None, method="independent")
    with pytest.warns(FutureWarning, match="every row is assumed to belong to a different person") as caught:
        run.fit(frame())
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.fit(frame())


@pytest.mark.parametrize(
    "options",
    [
        ["--unit", "age", "--one-row-per-person"],
        ["--rows-per-unit", "3"],
        ["--one-row-per-person", "--schema", "s.toml"],
    ],
)
def test_contradictions_are_wrong_usage(raw: Weft, options) -> None:
    Path("s.toml").write_text('[columns.age]\nkind = "integer"\nrange = [0, 99]\n')
    raw("synth", "export.csv", "-e", 1, *options, "-o", "out.csv", code=2)


def test_a_unit_that_is_no_column_is_refused(raw: Weft) -> None:
    result = raw("synth", "export.csv", "-e", 1, "--unit", "nobody", "-o", "out.csv", code=3)
    assert 'no column "nobody"' in result.stderr


def test_discovery_alone_is_paid_once(raw: Weft) -> None:
    raw("budget", "create", "life.budget", "-e", 10, "--delta", 1e-4, "--table", "visits")
    told = ["--unit", "patient_nbr", "--rows-per-unit", 2, "--budget", "life.budget"]
    raw("schema", "draft", "export.csv", "--private", "-e", 6, *told, "-o", "found.toml")
    schema = Schema.load("found.toml")
    assert schema.discovery is not None
    assert 0 < schema.discovery["epsilon"] <= 6
    assert schema.rows_per_unit == 2
    known = ["-s", "found.toml", "--budget", "life.budget"]
    raw("synth", "export.csv", *known, "-e", 2, "-m", "independent", "-o", "o.csv")
    card = json.loads(Path("o.card.json").read_text())
    assert card["schema"]["found_before"]["epsilon"] == schema.discovery["epsilon"]
    assert not any(entry["purpose"] == "discovery" for entry in card["ledger"]["entries"])
    assert "earlier run" in Path("o.card.md").read_text()
    raw("synth", "export.csv", *known, "-e", 9.5, "-m", "independent", "-o", "p.csv", code=5)


def test_private_needs_a_price_and_a_place(raw: Weft) -> None:
    raw("schema", "draft", "export.csv", "--private", "-o", "found.toml", code=2)
    raw("schema", "draft", "export.csv", "--epsilon", 1, "-o", "found.toml", code=2)
    raw("schema", "draft", "export.csv", "--private", "--epsilon", 1, code=2)


def test_what_a_schema_states_is_not_found_again(raw: Weft) -> None:
    Path("part.toml").write_text(
        'unit = "patient_nbr"\nrows_per_unit = 3\nextra_columns = "discover"\n'
        '[columns.patient_nbr]\nkind = "id"\n'
        '[columns.age]\nkind = "integer"\nmissing = true\nrange = [0, 110]\n'
        '[columns.ward]\nkind = "category"\n'
        '[columns.answer]\nkind = "integer"\n'
    )
    raw("synth", "export.csv", "-s", "part.toml", "-e", 8, "-m", "independent", "-o", "out.csv")
    schema = Schema.load("out.schema.toml")
    assert schema.column("age").range == (0, 110)
    assert schema.column("age").paid == ()
    assert "values" in schema.column("ward").paid
    assert "kind" not in schema.column("ward").paid
    assert "range" in schema.column("answer").paid
    assert [column.name for column in schema.columns][-1] == "note"


def frame(rows=3000):
    rng = np.random.default_rng(3)
    return pd.DataFrame({"a": rng.integers(0, 9, rows), "b": rng.choice(["x", "y"], rows)})


def test_python_finds_what_is_not_stated() -> None:
    synthesizer = Synthesizer(3.0, journal=None, method="independent").fit(frame(), unit=False)
    made = synthesizer.sample(50)
    assert list(made.columns) == ["a", "b"]
    assert set(made["b"]) <= {"x", "y", "other"}
    assert made["a"].dtype.kind == "i"
    assert synthesizer.discovered_.found["b"].startswith("2 values")


def test_a_table_that_is_read_once_is_found_too() -> None:
    stream = pa.Table.from_pandas(frame()).to_reader()
    assert len(Synthesizer(3.0, journal=None, method="independent").fit(stream, unit=False).sample(5)) == 5


def test_declared_types_cost_nothing() -> None:
    table = pa.table({"flag": [True, False] * 500, "small": pa.array([1, 2] * 500, pa.int8())})
    synthesizer = Synthesizer(2.0, journal=None, method="independent")
    pa.parquet.write_table(table, "typed.parquet")
    questions = [entry.question for entry in synthesizer.fit("typed.parquet", unit=False).ledger_.entries]
    assert questions[0] == "ranges of 1 column"
    assert synthesizer.fitted_.schema.column("flag").paid == ()


def test_what_cannot_be_paid_is_refused_first() -> None:
    with pytest.raises(BudgetError, match="delta above 0"):
        Synthesizer(1.0, delta=0.0, journal=None, method="independent").fit(frame(), unit=False)
    with pytest.raises(SchemaError, match=r"discover=0\.1"):
        Synthesizer(1.0, journal=None, discover=0.0).fit(frame(), unit=False)
    with pytest.raises(BudgetError, match="share for discovery"):
        Synthesizer(1.0, journal=None, discover=2.0).fit(frame(), unit=False)


def test_frames_come_back_in_their_types() -> None:
    rng = np.random.default_rng(4)
    rows = 3000
    minutes = pd.to_timedelta(rng.integers(0, 300_000, rows), unit="min")
    given = pd.DataFrame(
        {
            "flag": rng.random(rows) < 0.3,
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 300, rows), unit="D"),
            "moment": pd.Timestamp("2020-01-01", tz="Europe/Berlin") + minutes,
            "level": pd.Categorical(rng.choice(["low", "high"], rows)),
            "count": pd.array(rng.integers(0, 5, rows), dtype="Int64"),
        }
    )
    with pytest.raises(SchemaError, match=r'\{"flag": "boolean", "day": "datetime", "moment": "datetime"\}'):
        Synthesizer(10.0, journal=None, method="independent").fit(given, unit=False)
    stated = {"flag": "boolean", "day": "datetime", "moment": {"kind": "datetime", "timezone": "UTC", "date": False}}
    made = Synthesizer(10.0, journal=None, method="independent").fit(given, stated, unit=False).sample(20)
    assert made["flag"].dtype == bool
    assert str(made["count"].dtype) == "Int64"
    assert (made["day"] == made["day"].dt.normalize()).all()
    assert str(made["moment"].dt.tz) == "UTC"
    assert set(made["level"]) <= {"low", "high"}
    with pytest.raises(SchemaError, match='"stay": "duration"'):
        Synthesizer(1.0, journal=None).fit(given.assign(stay=minutes), unit=False)


def test_more_columns_than_there_are_is_refused_before_they_are_found(raw: Weft) -> None:
    options = ["-m", "bsg", "-n", 20, "--one-row-per-person", "--option", "omega=40"]
    assert "Nothing was spent" in raw("synth", "export.csv", "-e", 8, *options, "-o", "out.csv", code=2).stderr


def test_what_was_found_is_kept_where_learning_fails(raw: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self, curator, rng, listener=None):
        raise MethodError("it cannot be learned")

    monkeypatch.setattr(Independent, "fit", fails)
    result = raw("synth", "export.csv", "-e", 8, "-m", "independent", "--one-row-per-person", "-o", "out.csv", code=2)
    assert "schema is saved in" in result.stderr
    (kept,) = Path().glob("out-*.schema.toml")
    assert Schema.load(kept).discovery is not None


def test_more_columns_than_pairs_can_be_looked_at_are_refused_before_a_charge(weft: Weft, folder: Path) -> None:
    names = ",".join(f"q{i}" for i in range(400))
    Path("wide.csv").write_text(names + "\n" + ",".join(["1"] * 400) + "\n")
    said = weft("synth", "wide.csv", "-e", 1, "--one-row-per-person", "--few-rows", "-o", "out.csv", code=2).stderr
    assert "400 attributes have 79,800 pairs, above the limit of 50,000" in said and "--method independent" in said
    assert not Path("out.ledger.jsonl").exists() or "charge" not in Path("out.ledger.jsonl").read_text()
