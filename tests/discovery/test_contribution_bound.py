"""The contribution bound is chosen from a noisy distribution of rows per person, unless it is stated."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from weft import Budget, Synthesizer
from weft.errors import BudgetError
from weft.privacy import Adjacency, Charge, Ledger
from weft.privacy.journal import read_journal
from weft.synthesis.discovery.discover import choose_contribution_bound, estimate_unit_sizes
from weft.synthesis.model_file import load_model


def make_visits(folder, persons=3000, seed=0):
    """Most persons have one row, some have up to twelve."""
    rng = np.random.default_rng(seed)
    rows = np.where(rng.random(persons) < 0.8, 1, rng.integers(2, 13, persons))
    who = np.repeat(np.arange(persons), rows)
    table = pa.table({"who": who + 5000, "sex": rng.integers(0, 2, persons)[who], "ward": rng.integers(0, 4, len(who))})
    pyarrow.csv.write_csv(table, folder / "visits.csv")
    return table


def test_a_bound_is_chosen_recorded_and_reread(tmp_path):
    real = make_visits(tmp_path)
    journal = tmp_path / "run.ledger.jsonl"
    made = Synthesizer(1.0, method="independent", journal=journal, noise_seed=1, seed=1)
    made.fit(tmp_path / "visits.csv", unit="who")
    bound = made.ledger_.adjacency.rows_per_unit
    assert 1 <= bound <= 4 and made.fitted_.schema.rows_per_unit == bound
    (run,) = read_journal(journal)
    assert run.header["adjacency"]["rows_per_unit"] == bound
    again = Ledger.from_dict({**run.header, "stamps": run.stamps, "entries": run.charges})
    assert again.to_dict()["entries"] == made.ledger_.to_dict()["entries"]
    marginals = [charge for charge in made.ledger_.entries if charge.purpose == "marginals"]
    assert marginals and all(max(charge.sensitivities) == bound for charge in marginals)
    made.save(tmp_path / "model.weft")
    assert load_model(tmp_path / "model.weft").people.sizes.tolist() == made.fitted_.people.sizes.tolist()
    sample = made.sample()
    sizes = np.bincount(np.unique(sample["who"].to_numpy(), return_counts=True)[1])
    assert sizes[1] / sizes.sum() == pytest.approx(0.8, abs=0.1) and len(sizes) > 6  # beyond the bound, too
    assert len(sample) == pytest.approx(len(real), rel=0.25)


def test_a_stated_bound_is_kept(tmp_path):
    make_visits(tmp_path, 500)
    made = Synthesizer(1.0, method="independent", journal=None, noise_seed=1)
    made.fit(tmp_path / "visits.csv", unit="who", rows_per_unit=7)
    assert made.ledger_.adjacency.rows_per_unit == 7


def test_a_bound_can_only_be_lowered():
    ledger = Ledger(Budget(rho=0.1), "gaussian", Adjacency(rows_per_unit=8))
    ledger.charge(Charge.gaussian("rows per unit", sensitivity=1.0, scale=5.0, draws=8))
    ledger.bound_contributions(3)
    assert ledger.adjacency == Adjacency(rows_per_unit=3)
    with pytest.raises(BudgetError, match="lowered"):
        ledger.bound_contributions(4)


def test_more_budget_allows_a_larger_bound():
    sizes = np.array([500.0, 400, 300, 200, 100, 50, 50, 50])
    bounds = [choose_contribution_bound(10 * sizes, 10, rho) for rho in (0.001, 0.1, 10.0)]
    assert bounds == sorted(bounds) and bounds[0] == 1 and bounds[-1] == 8


def test_noise_in_the_tail_does_not_become_rows():
    rng = np.random.default_rng(0)
    exact = np.r_[9000.0, 700, 60, np.zeros(61)]
    rows = np.arange(1, 65)
    found = [estimate_unit_sizes(exact + rng.normal(0, 40, 64), 40.0) @ rows / (exact @ rows) for _ in range(20)]
    assert np.sum(np.abs(np.array(found) - 1) < 0.1) >= 18
    raw = [np.maximum(exact + rng.normal(0, 40, 64), 0) @ rows / (exact @ rows) for _ in range(20)]
    assert np.median(raw) > 2
