"""The fictional hospital: right types, real correlations, and a schema that knows nothing of its rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from weft import Synthesizer
from weft.encoding import Codec, count_broken_rows
from weft.hospital import DIAGNOSES, hospital, hospital_schema
from weft.release.publish import Files, publish
from weft.release.verification import verify
from weft.schema import Schema


@pytest.fixture(scope="module")
def stays() -> pa.Table:
    return hospital()


def column(stays: pa.Table, name: str) -> np.ndarray:
    return np.array(stays[name].to_pylist())


def test_the_same_seed_gives_the_same_table() -> None:
    assert hospital(500).equals(hospital(500))
    assert not hospital(500).equals(hospital(500, seed=1))


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_few_rows(rows: int) -> None:
    assert hospital(rows).num_rows == rows
    assert hospital(rows).schema == hospital(9).schema


def test_every_row_fits_the_schema(stays: pa.Table) -> None:
    schema = Schema.from_toml(hospital_schema())
    codec = Codec(schema, stays.schema)
    assert len(codec.encode(stays)) == 20_000
    assert [c.name for c in schema.columns] == stays.column_names


def test_other_seeds_fit_the_schema_too() -> None:
    schema = Schema.from_toml(hospital_schema())
    for seed in range(5):
        made = hospital(5_000, seed=seed)
        Codec(schema, made.schema).encode(made)


def test_every_rule_of_the_card_of_its_release_is_checked(stays: pa.Table, tmp_path: Path) -> None:
    schema = Schema.from_toml(hospital_schema())
    made = Synthesizer(1.0, method="independent", journal=None, noise_seed=1).fit(stays, schema)
    files = Files.of(tmp_path / "synthetic.csv")
    publish(made.fitted_, made.tables(2000, seed=1), files)
    found = verify(files.data)
    assert not found.wrong and not found.skipped
    what = " ".join(check.what for check in found.checks)
    assert all(f"rule {place + 1}: {rule}" in what for place, rule in enumerate(schema.rules))
    assert "length_of_stay = discharged - admitted" in what


def test_the_schema_is_public_knowledge() -> None:
    assert Schema.from_toml(hospital_schema()).from_data_facts() == []


def test_columns_are_as_a_register_has_them(stays: pa.Table) -> None:
    assert pc.count_distinct(stays["stay_id"]).as_py() == stays.num_rows
    assert 0.04 < stays["insurance"].null_count / stays.num_rows < 0.10
    assert 0.15 < stays["creatinine"].null_count / stays.num_rows < 0.40
    assert 0.05 < np.mean(column(stays, "cost") == 0) < 0.12
    cents = column(stays, "cost") * 100
    assert np.allclose(cents, np.rint(cents), atol=1e-6)
    assert set(column(stays, "diagnosis")) == {d.code for d in DIAGNOSES}


def test_stays_end_after_they_begin_and_their_length_follows(stays: pa.Table) -> None:
    came, left = (stays[name].combine_chunks().cast("int32").to_numpy() for name in ("admitted", "discharged"))
    assert np.array_equal(left - came, column(stays, "length_of_stay"))
    codec = Codec(Schema.from_toml(hospital_schema()), stays.schema)
    assert "length_of_stay" not in codec.domain
    made = codec.decode(codec.encode(stays), np.random.default_rng(0))
    came, left = (made[name].combine_chunks().cast("int32").to_numpy() for name in ("admitted", "discharged"))
    assert (left >= came).all()
    assert (left - came).max() <= 60
    assert np.array_equal(left - came, column(made, "length_of_stay"))


def test_columns_hang_together(stays: pa.Table) -> None:
    severity, age = column(stays, "severity"), column(stays, "age")
    nights, cost, back = (column(stays, name) for name in ("length_of_stay", "cost", "readmitted"))
    grave, minor = severity == "extreme", severity == "minor"
    assert nights[grave].mean() > 4 * nights[minor].mean()
    assert cost[grave].mean() > 4 * cost[minor].mean()
    assert back[grave].mean() > 3 * back[minor].mean()
    assert back[age > 75].mean() > 1.5 * back[age < 40].mean()
    assert np.corrcoef(nights, cost)[0, 1] > 0.5

    diagnosis, sex, ward = (column(stays, name) for name in ("diagnosis", "sex", "ward"))
    assert set(sex[diagnosis == "O80"]) <= {"female", "other"}
    assert "female" not in set(sex[diagnosis == "C61"])
    assert age[diagnosis == "J21"].mean() < 10 < 60 < age[diagnosis == "I50"].mean()
    assert np.mean(ward[(diagnosis == "I50") & (age > 15)] == "cardiology") > 0.6

    months = pc.month(stays["admitted"]).to_numpy()
    chest = np.char.startswith(diagnosis, "J")
    winter = np.isin(months, [12, 1, 2])
    assert winter[chest].mean() > 1.2 * winter[~chest].mean()


def test_the_schema_shows_an_order_a_formula_and_a_rule_and_no_stay_breaks_it(stays: pa.Table) -> None:
    schema = Schema.from_toml(hospital_schema())
    assert schema.column("discharged").after == "admitted"
    assert schema.column("length_of_stay").formula == "discharged - admitted"
    assert len(schema.rules) == 1 and set(count_broken_rows(stays, schema).values()) == {0}
