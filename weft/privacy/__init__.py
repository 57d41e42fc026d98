"""Privacy core: budgets, accounting, ledger, integer noise mechanisms, private selection and sensitivities."""

from weft.privacy.accounting import ACCOUNTINGS, Accounting, AccountingLike, AccountingName, find_accounting
from weft.privacy.budget import Budget
from weft.privacy.charge import Charge
from weft.privacy.conversions import (
    at_most,
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    pure_mu,
    zcdp_epsilon,
    zcdp_epsilon_closed_form,
    zcdp_rho,
    zcdp_rho_closed_form,
)
from weft.privacy.filters import FILTERS, Filter
from weft.privacy.journal import Run, read_journal
from weft.privacy.ledger import Ledger, Statement
from weft.privacy.lifetime import Lifetime
from weft.privacy.mechanisms import MECHANISMS, CountNoise, Mechanism, Norm, rho_of_gaussian, sigma_for
from weft.privacy.noise import LAW_ERROR, Noise
from weft.privacy.selection import exponential_mechanism, floor_to_grid, selection_scale
from weft.privacy.sensitivity import Adjacency, Relation

__all__ = [
    "ACCOUNTINGS",
    "FILTERS",
    "LAW_ERROR",
    "MECHANISMS",
    "Accounting",
    "AccountingLike",
    "AccountingName",
    "Adjacency",
    "Budget",
    "Charge",
    "CountNoise",
    "Filter",
    "Ledger",
    "Lifetime",
    "Mechanism",
    "Noise",
    "Norm",
    "Relation",
    "Run",
    "Statement",
    "at_most",
    "exponential_mechanism",
    "find_accounting",
    "floor_to_grid",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_mu",
    "pure_mu",
    "read_journal",
    "rho_of_gaussian",
    "selection_scale",
    "sigma_for",
    "zcdp_epsilon",
    "zcdp_epsilon_closed_form",
    "zcdp_rho",
    "zcdp_rho_closed_form",
]
