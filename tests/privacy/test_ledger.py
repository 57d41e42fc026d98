import json
import math
import threading
from dataclasses import replace

import pytest

from weft.errors import BudgetError, ModelFileError
from weft.privacy import LAW_ERROR, Adjacency, Budget, Charge, Ledger, gdp_delta, rho_of_gaussian, sigma_for


def gaussian(rho, question="marginals: 3 1-way", sensitivity=1.0, draws=10):
    return Charge.gaussian(question, sensitivity=sensitivity, scale=sigma_for(rho, sensitivity), draws=draws)


def ledger(accounting="gaussian", **budget):
    return Ledger(Budget(**(budget or {"rho": 1.0})), accounting, Adjacency())


def test_prices_by_hand():
    assert rho_of_gaussian(2.0, 4.0) == 0.125 and sigma_for(0.125, 2.0) == 4.0
    assert Charge.gaussian("q", sensitivity=1.0, scale=(1.0, 2.0), draws=4).rho == 0.5 + 0.125
    assert Charge.geometric("q", sensitivity=2.0, scale=(4.0, 8.0), draws=4).epsilon == 0.75
    assert Charge.geometric("q", sensitivity=2.0, scale=(4.0, 8.0), draws=4).rho == 0.125 + 0.03125
    assert Charge.exponential("q", sensitivity=3.0, epsilon=0.4).rho == pytest.approx(0.02)
    assert Charge.exponential("q", sensitivity=3.0, epsilon=0.4).epsilon == pytest.approx(0.4)


def test_choices_are_never_priced_above_what_was_meant():
    """Scales are rounded up, so the price of a share of the budget never exceeds the share."""
    for i in range(1, 200):
        assert Charge.exponential("q", sensitivity=7, epsilon=i / 37).epsilon <= i / 37


def test_spending_adds_up_and_stops_at_the_budget():
    book = ledger()
    for _ in range(10):
        book.charge(gaussian(book.capacity / 10))
    assert book.spent == pytest.approx(book.capacity) and book.left == pytest.approx(0, abs=1e-9)
    before = book.entries
    with pytest.raises(BudgetError, match=r"would cost 1\.00% of the budget, but only 0\.00% is left"):
        book.charge(gaussian(book.capacity / 100))
    assert book.entries == before


def test_a_charge_that_is_too_big_leaves_no_trace():
    book = ledger()
    with pytest.raises(BudgetError, match=r"'all pairs' would cost 150\.00% of the budget, but only 100"):
        book.charge(gaussian(1.5, "all pairs"))
    assert book.spent == 0 and not book.entries
    book.charge(gaussian(0.5))


def test_the_price_is_the_ledgers_not_the_callers():
    """F11: a charge that claims to be cheap is priced by its noise all the same."""
    cheap = Charge("q", "gaussian", "l2", 1.0, 1.0, 5, cost=1e-9)
    book = ledger()
    assert book.charge(cheap).cost == book.spent == 0.5


def test_mechanisms_that_an_accounting_cannot_pay_for():
    """F12: right mechanism, wrong theorem."""
    choice = Charge.exponential("choice", sensitivity=1, epsilon=0.1)
    counts = Charge.geometric("counts", sensitivity=1, scale=10.0, draws=3)
    assert ledger().charge(choice).cost == choice.gdp > choice.rho
    with pytest.raises(BudgetError, match="zcdp"):
        ledger().charge(counts)
    for charge in (choice, counts):
        assert ledger("zcdp").charge(charge).cost == charge.rho
        assert ledger("pure", epsilon=1.0).charge(charge).cost == charge.epsilon
    with pytest.raises(BudgetError, match="geometric"):
        ledger("pure", epsilon=1.0).charge(gaussian(0.01))


@pytest.mark.parametrize(
    "bad",
    [
        {"norm": "l1"},
        {"sensitivity": 0.0},
        {"sensitivity": -1.0},
        {"sensitivity": math.nan},
        {"scale": 0.0},
        {"scale": (1.0, math.inf)},
        {"scale": ()},
        {"draws": 0},
        {"draws": math.nan},
        {"question": 7},
        {"mechanism": "laplace"},
    ],
)
def test_charges_that_make_no_sense_are_refused(bad):
    """F4 and F5: no zero sensitivity, no missing noise, no sensitivity in the wrong norm."""
    good = {"question": "q", "mechanism": "gaussian", "norm": "l2", "sensitivity": 1.0, "scale": 1.0, "draws": 1}
    Charge(**good)
    with pytest.raises(BudgetError):
        Charge(**(good | bad))


def test_adjacency_decides_the_price_of_the_same_noise():
    """F14: one table, one sigma; replace-one costs twice the rho of add-remove."""
    add, replace = (Adjacency(r).marginal_l2() for r in ("add-remove", "replace-one"))
    assert rho_of_gaussian(replace, 10.0) == pytest.approx(2 * rho_of_gaussian(add, 10.0))


def test_statement_adds_the_law_error_to_delta():
    book = Ledger(Budget(epsilon=1.0, delta=0.0), "pure", Adjacency("replace-one", 2), stamps=("NOT PRIVATE",))
    book.charge(Charge.geometric("counts", sensitivity=1, scale=2.0, draws=1000))
    said = book.spend_statement()
    assert (said.epsilon, book.spent_epsilon()) == (1.0, 0.5)  # the bound is the budget, fixed beforehand
    assert said.delta == said.law_error == 1000 * LAW_ERROR * (1 + math.exp(1.0))
    assert 0 < said.delta < 1e-60
    assert str(said).startswith("NOT PRIVATE | (1, ") and "up to 2 rows" in str(said)
    gdp = ledger("gaussian", epsilon=1.0, delta=1e-6)
    gdp.charge(gaussian(gdp.capacity))
    said = gdp.spend_statement()
    assert 1 - 1e-6 < said.epsilon <= 1.0 and said.delta == pytest.approx(1e-6)
    # What the capacity keeps back is worth far more than the law error: (1, 1e-6) holds with it included.
    assert gdp_delta(math.sqrt(2 * gdp.spent), 1.0) + said.law_error < 1e-6


def test_spent_epsilon_follows_the_accounting():
    books = {a: ledger(a, epsilon=1.0, delta=1e-6) for a in ("gaussian", "zcdp", "paper")}
    for book in books.values():
        book.charge(gaussian(0.01))
    loose = [books[a].spent_epsilon(1e-6) for a in ("gaussian", "zcdp", "paper")]
    assert loose == sorted(loose) and loose[0] < loose[2]
    assert books["paper"].spent_epsilon(1e-6) == pytest.approx(0.01 + 2 * math.sqrt(0.01 * math.log(1e6)))
    assert ledger().spent_epsilon(1e-6) == 0


def test_round_trip_through_json():
    book = Ledger(Budget(epsilon=1.0), "zcdp", Adjacency("replace-one", 3), stamps=("domain from data",))
    book.charge(Charge.gaussian("two tables", sensitivity=1.5, scale=[40.0, 80.0], draws=7))
    book.charge(Charge.exponential("choice", sensitivity=8, epsilon=0.1))
    again = Ledger.from_dict(json.loads(json.dumps(book.to_dict())))
    timeless = tuple(replace(entry, time="") for entry in book.entries)  # times would tell of the number of rows
    assert again.entries == timeless and again.stamps == book.stamps and str(again) == str(book)
    assert (again.budget, again.adjacency, again.spent) == (book.budget, book.adjacency, book.spent)


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d.pop("budget"),
        lambda d: d["entries"][0].update(sensitivity="much"),
        lambda d: d["entries"][0].update(scale=1e-200),
        lambda d: d["entries"][0].update(scale=0.01),
        lambda d: d["entries"][0].update(surprise=1),
        lambda d: d.update(accounting="trust me"),
        lambda d: d.update(entries=[3]),
        lambda d: d["budget"].clear(),
        lambda d: d["budget"].update(epsilon=1.0),
        lambda d: d["budget"].update(rho="infinite"),
        lambda d: d["adjacency"].update(rows_per_unit="1"),
    ],
)
def test_a_damaged_ledger_is_refused(damage):
    book = ledger()
    book.charge(gaussian(0.1))
    values = book.to_dict()
    damage(values)
    with pytest.raises(ModelFileError):
        Ledger.from_dict(values)


def test_stamps_are_kept_once_and_insecure_budgets_stamp_themselves():
    book = ledger(epsilon=100.0, insecure=True)
    book.stamp("NOT PRIVATE")
    book.stamp("NOT PRIVATE")
    assert book.stamps == ("INSECURE BUDGET", "NOT PRIVATE")


def test_it_prints_as_an_aligned_table():
    book = Ledger(Budget(rho=1.0), "gaussian", Adjacency())
    book.charge(gaussian(0.25))
    book.charge(Charge.gaussian("x" * 90, sensitivity=1.0, scale=[3.0, 4.0], draws=2))
    lines = str(book).splitlines()
    table = [line for line in lines if line.endswith("%") or line.startswith(("---", "query"))]
    assert len({len(line) for line in table}) == 1 and len(table[0]) <= 100
    assert "25.00%" in lines[4] and "gaussian 3 to 4" in str(book) and "add or remove one row" in lines[0]


def test_threads_cannot_overspend_together():
    book = ledger()
    refused = []

    def spend():
        for _ in range(50):
            try:
                book.charge(gaussian(0.01))
            except BudgetError:
                refused.append(1)

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert book.spent <= 1 and len(book.entries) + len(refused) == 400 and len(book.entries) in (99, 100)
