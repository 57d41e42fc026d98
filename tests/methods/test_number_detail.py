"""Numbers keep their scale within each category, although their coarse codes are shared."""

import numpy as np
import pyarrow as pa
import pytest

import weft
from weft.marginals.value_groups import ValueMap
from weft.methods.common.number_detail import SHARE_DETAIL
from weft.models.conditional_values import GivenCategory
from weft.schema import Schema
from weft.synthesis.synthesizer import Synthesizer

SCHEMA = Schema.from_toml("""
[columns.test]
kind = "category"
values = ["glucose", "hemoglobin", "potassium", "sodium"]
[columns.value]
kind = "real"
range = [0, 200]
decimals = 2
[columns.ward]
kind = "category"
values = ["a", "b"]
""")
CENTRES = {"glucose": 6.0, "hemoglobin": 13.5, "potassium": 4.2, "sodium": 140.0}


def laboratory(n=6000, seed=0):
    rng = np.random.default_rng(seed)
    test = rng.choice(list(CENTRES), n)
    value = np.array([CENTRES[name] for name in test]) * (1 + 0.05 * rng.standard_normal(n))
    return pa.table({"test": test, "value": np.round(value, 2), "ward": rng.choice(["a", "b"], n)})


@pytest.fixture(scope="module")
def fitted():
    return Synthesizer(1.0, noise_seed=3, seed=1, journal=None).fit(laboratory(), SCHEMA, unit=False)


def test_values_keep_the_scale_of_their_category(fitted):
    made = fitted.sample(seed=2).to_pandas()
    for name, centre in CENTRES.items():
        assert made.loc[made["test"] == name, "value"].median() == pytest.approx(centre, rel=0.15)
    assert set(fitted.model_.given) == {"value"} and fitted.model_.given["value"].other == "test"


def test_marginals_agree_with_each_other_and_with_the_rows(fitted):
    model = fitted.model_
    pair, alone = (np.asarray(model.marginal(names)) for names in (("test", "value"), ("value",)))
    np.testing.assert_allclose(pair.sum(axis=0), alone, rtol=0.02, atol=0.02 * model.total)
    value = model.sample(40_000, np.random.default_rng(0)).column("value")
    shares = np.bincount(value, minlength=len(alone)) / 40_000
    assert np.abs(np.cumsum(shares) - np.cumsum(alone) / alone.sum()).max() < 0.02


def test_detail_survives_the_model_file_and_conditions(fitted, tmp_path):
    fitted.save(tmp_path / "m.weft")
    loaded = weft.load(tmp_path / "m.weft")
    assert loaded.sample(500, seed=4).equals(fitted.sample(500, seed=4))
    few = fitted.sample(200, where={"value": {"min": 100, "max": 150}}, seed=5).to_pandas()
    assert few["value"].between(100, 150).all() and (few["test"] == "sodium").mean() > 0.8


def test_the_detail_is_charged_and_only_spent_where_a_number_depends_on_a_category(fitted):
    ledger = fitted.ledger_
    assert ledger.spent == pytest.approx(ledger.capacity, rel=1e-6)
    rng = np.random.default_rng(1)
    mixed = laboratory().set_column(1, "value", pa.array(np.round(rng.random(6000) * 200, 2)))
    other = Synthesizer(1.0, noise_seed=3, journal=None).fit(mixed, SCHEMA, unit=False)
    assert not other.model_.given
    assert other.ledger_.spent == pytest.approx((1 - SHARE_DETAIL) * other.ledger_.capacity, rel=0.01)


def test_values_are_drawn_from_the_cells_of_their_category():
    merged = ValueMap(np.array([0, 0, 0, 0, 1]), 2, np.array([1.0, 1.0, 2.0, 2.0, 5.0]))
    given = GivenCategory("x", np.array([0, 0, 1, 1, 2]), np.array([[1.0, 0.0, 1.0], [0.25, 0.75, 1.0]]))
    rng = np.random.default_rng(0)
    codes, others = np.zeros(4000, np.uint8), np.repeat([0, 1], 2000).astype(np.uint8)
    drawn = given.unfold(merged, codes, others, rng)
    assert set(drawn[:2000]) == {0, 1}
    assert (drawn[2000:] >= 2).mean() == pytest.approx(0.75, abs=0.01)
    np.testing.assert_allclose(given.weights(merged)[1], [0.125, 0.125, 0.375, 0.375, 1.0])
    only_third = given.given_evidence(merged, merged.shares() * np.array([0, 0, 1, 0, 1]))
    assert only_third.shares[1].tolist() == [0.0, 1.0, 1.0]
