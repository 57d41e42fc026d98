"""dp-accounting finds the epsilon of every kind of ledger, and notices a fault in Weft's own."""

import numpy as np
import pytest

from weft.errors import WeftError
from weft.privacy import Budget, Charge, Ledger
from weft.privacy.accounting import GaussianAccounting, PureAccounting, ZcdpAccounting
from weft.privacy.second_accountant import recount
from weft.privacy.sensitivity import Adjacency

pytest.importorskip("dp_accounting")


def made(accounting, epsilon=1.0, delta=1e-6):
    """A ledger with several kinds of charges that spends most of its budget."""
    ledger = Ledger(Budget(epsilon=epsilon, delta=delta), accounting, Adjacency())
    rng, whole = np.random.default_rng(3), ledger.capacity
    shares = rng.dirichlet(np.ones(12)) * 0.97
    for i, share in enumerate(shares):
        cost = whole * share
        if accounting == "pure":
            ledger.charge(Charge.geometric(f"q{i}", sensitivity=2.0, scale=2.0 / cost, draws=4))
        elif accounting in ("gaussian", "zcdp") and i % 3 == 0:
            epsilon_of = ledger.accounting.find_choice_epsilon
            ledger.charge(Charge.exponential(f"q{i}", sensitivity=1.0, epsilon=epsilon_of(cost)))
        else:
            scales = [3.0 / (2 * cost / 2) ** 0.5] * 2
            ledger.charge(Charge.gaussian(f"q{i}", sensitivity=3.0, scale=scales, draws=4))
    return ledger


@pytest.mark.parametrize("accounting", ["gaussian", "zcdp", "pure", "paper"])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
def test_both_accountants_find_the_same_epsilon(accounting, epsilon):
    (found,) = recount(made(accounting, epsilon, 0.0 if accounting == "pure" else 1e-6))
    assert found.agrees and 0.9 * epsilon < found.weft <= epsilon
    assert accounting == "paper" or found.dp_accounting == pytest.approx(found.weft, rel=0.01)


@pytest.mark.parametrize(
    ("kind", "name"), [(GaussianAccounting, "gaussian"), (ZcdpAccounting, "zcdp"), (PureAccounting, "pure")]
)
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_conversion_that_is_wrong_by_a_tenth_is_found(monkeypatch, kind, name, factor):
    ledger = made(name, 1.0, 0.0 if name == "pure" else 1e-6)
    right = kind.find_epsilon
    monkeypatch.setattr(kind, "find_epsilon", lambda self, cost, delta: factor * right(self, cost, delta))
    assert not recount(ledger)[0].agrees


def test_parts_of_the_rows_are_recomputed_one_by_one():
    ledger = Ledger(Budget(epsilon=1.0, delta=1e-6), "gaussian", Adjacency())
    ledger.charge(Charge.coins("parts", chances={"a": 0.5, "b": 0.4}))
    for part, scale in (("a", 9.0), ("b", 14.0)):
        ledger.charge(Charge("q", "gaussian", "l2", 1.0, scale, 3, part=part))
    empty, first, second = recount(ledger)
    assert [each.part for each in (empty, first, second)] == ["", "a", "b"]
    assert empty.weft == 0 and first.weft > second.weft and all(each.agrees for each in (empty, first, second))


def test_slack_is_taken_from_delta():
    ledger = Ledger(Budget(epsilon=1.0, delta=1e-5), "gaussian", Adjacency())
    ledger.charge(Charge.partitions("q", sensitivity=1.0, scale=30.0, columns=1, rows=1, slack=1e-6))
    (found,) = recount(ledger)
    assert found.agrees and found.delta < 1e-5 - 3e-6


def test_deniable_records_have_no_epsilon():
    from weft.privacy.deniability import PlausibleTest

    ledger = Ledger(Budget(epsilon=1.0, delta=1e-5), "gaussian", Adjacency())
    ledger.charge(Charge.deniable("records", test=PlausibleTest(k=50), records=10))
    with pytest.raises(WeftError, match="deniable"):
        recount(ledger)
