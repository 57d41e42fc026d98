"""What the card tells of merged values: names that the schema makes public, chosen by released answers."""

import numpy as np
import pyarrow as pa

from weft import Synthesizer
from weft.release.card import MERGED_SHOWN, card_json, card_markdown
from weft.schema import Schema

RARE = [f"rare {i}" for i in range(20)]
SCHEMA = Schema.from_toml(f"""
[columns.ward]
kind = "category"
values = {["a", "b", *RARE]}
[columns.sex]
kind = "category"
values = ["f", "m"]
[columns.age]
kind = "integer"
range = [0, 999]
""")


def fitted(method):
    rng = np.random.default_rng(0)
    ward = rng.choice(["a", "b"], 3000)
    table = pa.table({"ward": ward, "sex": rng.choice(["f", "m"], 3000), "age": rng.integers(0, 1000, 3000)})
    return Synthesizer(1.0, method=method, noise_seed=1, seed=1).fit(table, SCHEMA).fitted_


def test_merged_values_are_named_and_groups_of_numbers_counted():
    made = fitted("weave")
    ward, sex, age = card_json(made, 5, name="x.csv")["columns"]
    assert sex["merged"] == []
    (values,) = ward["merged"]
    assert values["attribute"] == "ward" and set(values["values"]) <= set(RARE) and len(values["values"]) > MERGED_SHOWN
    assert values["groups"] == values["codes"] - len(values["values"]) + 1
    (groups,) = age["merged"]
    assert groups["values"] == [] and groups["groups"] == made.model.maps["age"].size < 1000
    page = card_markdown(made, 5, name="x.csv")
    assert f"ward: merged as rare: {values['values'][0]}" in page
    assert f"and {len(values['values']) - MERGED_SHOWN} more" in page
    assert f"in {groups['groups']} groups" in page and "drawn evenly" not in page


def test_a_model_without_joint_tables_merges_nothing():
    made = fitted("independent")
    assert all(column["merged"] == [] for column in card_json(made, 5, name="x.csv")["columns"])
    assert "noisy counts decided" not in card_markdown(made, 5, name="x.csv")
