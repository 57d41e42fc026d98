"""Columns whose common values are on a public list get the whole list."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from weft import Synthesizer
from weft.synthesis.discovery.entries import find_public_list


@pytest.mark.parametrize(
    ("found", "also"),
    [
        (["CA", "NY", "TX"], "WY"),
        (["DE", "FR", "AT"], "IT"),
        (["Negative"], "Inconclusive"),
        (["January", "MAY", "March"], None),
        (["YES"], "NO"),
        (["EUR", "CHF", "USD"], "SEK"),
        (["CA", "NY"], None),
        (["other"], None),
        ([], None),
    ],
)
def test_a_list_needs_enough_values_that_are_all_on_it(found, also):
    listed = find_public_list(found)
    assert (also in listed and set(found) <= listed) if also else not listed


def test_a_rare_state_is_kept(tmp_path):
    rng = np.random.default_rng(0)
    states = np.array(sorted(find_public_list(["CA", "NY", "TX"])))
    shares = np.r_[np.full(3, 0.25), np.full(len(states) - 3, 0.25 / (len(states) - 3))]
    common = np.concatenate([["CA", "NY", "TX"], states[~np.isin(states, ["CA", "NY", "TX"])]])
    rows = pa.table({"state": rng.choice(common, 6000, p=shares), "x": rng.integers(0, 3, 6000)})
    pyarrow.csv.write_csv(rows, tmp_path / "t.csv")
    made = Synthesizer(1.0, method="independent", journal=None, noise_seed=0, seed=0).fit(
        tmp_path / "t.csv", unit=False
    )
    assert "public list" in made.discovered_.found["state"]
    assert set(states) <= set(made.fitted_.schema.column("state").values)
    assert len(set(made.sample()["state"].to_pylist()) - {"other"}) > 20
