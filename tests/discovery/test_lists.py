"""Lists of values: all columns first, and once more those of which rows are left over."""

import numpy as np
import pandas as pd
import pytest

from weft import Schema, Synthesizer


def frame(tail):
    """Eight columns of two values, and one of a common value and a tail of rarer ones."""
    rng = np.random.default_rng(0)
    few = {f"c{i}": rng.choice(["yes", "no"], 20_000) for i in range(8)}
    rare = np.repeat([f"land {i}" for i in range(20)], 120)
    lands = np.concatenate([rare, ["home"] * (20_000 - len(rare))]) if tail else np.repeat("home", 20_000)
    return pd.DataFrame({**few, "land": lands})


def asked(fitted):
    return [c.question for c in fitted.ledger_.entries if "common values" in c.question]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_column_with_rows_left_over_is_listed_once_more(seed):
    fitted = Synthesizer(1.0, 1e-5, method="independent", journal=None, noise_seed=seed).fit(frame(True), unit=False)
    assert asked(fitted) == ["common values of 9 columns", "common values of 1 column"]
    lands = fitted.fitted_.codec.schema.column("land").values
    assert len(lands) > 10 and set(lands) <= {"home", "other", *(f"land {i}" for i in range(20))}
    assert set(fitted.fitted_.codec.schema.column("c0").values) == {"no", "other", "yes"}
    assert fitted.ledger_.used <= 1 + 1e-9


def test_nothing_is_spent_twice_where_nothing_is_left_over():
    fitted = Synthesizer(1.0, 1e-5, method="independent", journal=None, noise_seed=1).fit(frame(False), unit=False)
    assert asked(fitted) == ["common values of 9 columns"]


def test_stated_categories_are_listed_twice_where_nobody_counted_the_rows():
    text = "".join(f'[columns.{name}]\nkind = "category"\n' for name in frame(True).columns)
    run = Synthesizer(1.0, 1e-5, method="independent", journal=None, noise_seed=1)
    fitted = run.fit(frame(True), Schema.from_toml(text), unit=False)
    # Answers of yes and no are a public list, which needs no second query.
    assert asked(fitted) == ["common values of 9 columns", "common values of 1 column"]
    assert "other" in fitted.fitted_.codec.schema.column("land").values
