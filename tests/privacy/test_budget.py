import math

import pytest

from weft.errors import BudgetError
from weft.privacy import Budget, gdp_mu, zcdp_rho, zcdp_rho_closed_form
from weft.privacy.budget import MIN_BUDGET, MIN_DELTA


def test_capacity_in_each_currency():
    budget = Budget(epsilon=1.0, delta=1e-6)
    assert budget.capacity("gaussian") == pytest.approx(gdp_mu(1.0, 1e-6) ** 2 / 2, rel=1e-8)
    assert budget.capacity("zcdp") == pytest.approx(zcdp_rho(1.0, 1e-6), rel=1e-8)
    assert budget.capacity("paper") == pytest.approx(zcdp_rho_closed_form(1.0, 1e-6), rel=1e-8)
    assert budget.capacity("pure") == pytest.approx(1.0, rel=1e-8)
    assert budget.capacity("pure") < 1.0 and budget.capacity("paper") < budget.capacity("zcdp")
    assert budget.capacity("zcdp") < budget.capacity("gaussian")
    assert Budget(rho=0.1).capacity("gaussian") == Budget(rho=0.1).capacity("zcdp") == pytest.approx(0.1)
    assert Budget(mu=0.5).capacity("gaussian") == pytest.approx(0.125)


@pytest.mark.parametrize(
    ("given", "accounting"),
    [
        ({"mu": 0.5}, "zcdp"),
        ({"mu": 0.5}, "pure"),
        ({"rho": 0.5}, "pure"),
        ({"epsilon": 1.0, "delta": 0.0}, "gaussian"),
        ({"epsilon": 1.0, "delta": 0.0}, "zcdp"),
        ({"epsilon": 1.0}, "renyi"),
    ],
)
def test_currencies_that_do_not_exchange(given, accounting):
    with pytest.raises(BudgetError):
        Budget(**given).capacity(accounting)


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"epsilon": 1.0, "rho": 1.0},
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": math.nan},
        {"epsilon": 1.0, "delta": 0.2},
        {"epsilon": 1.0, "delta": -1e-9},
        {"epsilon": 1.0, "delta": math.nan},
        {"rho": 1.0, "delta": 0.0},
        {"epsilon": 21.0},
        {"epsilon": math.inf},
        {"rho": math.inf},
        {"mu": 9.0},
    ],
)
def test_budgets_that_make_no_sense_are_refused(bad):
    with pytest.raises(BudgetError):
        Budget(**bad)


def test_an_insecure_budget_has_to_be_asked_for_by_name():
    assert Budget(epsilon=50.0, insecure=True).capacity("pure") == pytest.approx(50.0)
    unlimited = Budget(epsilon=math.inf, insecure=True)
    assert math.isfinite(unlimited.capacity("gaussian")) and unlimited.capacity("gaussian") > 1e5
    with pytest.raises(BudgetError):
        Budget(epsilon=math.inf)


@pytest.mark.parametrize(
    "budget",
    [Budget(epsilon=1.0), Budget(rho=0.2, delta=1e-9), Budget(mu=1.0), Budget(epsilon=math.inf, insecure=True)],
)
def test_round_trip(budget):
    assert Budget.from_dict(budget.to_dict()) == budget


def test_words():
    assert str(Budget(epsilon=2.0, delta=0.0)) == "epsilon = 2 (pure)"
    assert "INSECURE" in str(Budget(epsilon=99.0, insecure=True))


@pytest.mark.parametrize("unit", ["epsilon", "rho", "mu"])
def test_a_budget_that_buys_nothing_is_refused(unit):
    least = MIN_BUDGET[unit]
    assert Budget(**{unit: least}).capacity("gaussian") > 0
    for amount in (least * 0.99, 1e-20, 1e-300, 5e-324):
        with pytest.raises(BudgetError, match="Choose at least"):
            Budget(**{unit: amount}, insecure=True)


def test_the_least_budgets_are_about_the_same():
    buys = [Budget(**{unit: least}).capacity("gaussian") for unit, least in MIN_BUDGET.items()]
    assert max(buys) < 1.3 * min(buys)


@pytest.mark.parametrize("accounting", ["gaussian", "zcdp", "paper"])
def test_the_least_delta_has_a_capacity(accounting):
    assert Budget(epsilon=MIN_BUDGET["epsilon"], delta=MIN_DELTA).capacity(accounting) > 0
    with pytest.raises(BudgetError):
        Budget(epsilon=1.0, delta=1e-320)
