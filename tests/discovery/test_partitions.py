"""Common values of a column: the threshold against exact probabilities, the questions against brute force."""

import itertools
import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from weft.curator import ValueCurator
from weft.engines.value_listing import open_listing
from weft.errors import BudgetError
from weft.privacy import Adjacency, Budget, Charge, Ledger, Noise, gdp_delta
from weft.privacy.mechanisms import Mechanisms
from weft.privacy.partitions import find_release_threshold, release_chance, unpack_value_counts
from weft.schema import Schema
from weft.schema.kinds import Id, Unknown

SIGMA = 1.5
SLACK = 0.02


def law(z):
    return ndtr((z + 0.5) / SIGMA) - ndtr((z - 0.5) / SIGMA)


def outcomes(rows, threshold, top=40):
    """What may leave of one value that so many rows have: nothing, or a noisy count from the threshold on."""
    if not rows:
        return np.append(1.0, np.zeros(top))
    seen = np.array([law(threshold + i - rows) for i in range(top)])
    return np.append(1 - seen.sum(), seen)


def joint(table, values, threshold):
    made = np.ones(1)
    for value in values:
        made = np.multiply.outer(made, outcomes(table.get(value, 0), threshold)).ravel()
    return made


def excess(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def worst(relation, k, epsilon, threshold):
    """The largest excess over all tables over two values that one unit may change, exactly, whatever may leave."""
    unit = [c for n in range(k + 1) for c in itertools.combinations_with_replacement("ab", n)]
    found = 0.0
    for before in ({}, {"a": 1}, {"a": threshold}, {"a": threshold - 1, "b": threshold + 1}):
        others = unit if relation == "replace-one" else [()]
        for one, other in itertools.product(unit, others):
            tables = [Counter(before) + Counter(rows) for rows in (one, other)]
            p, q = (joint(table, "ab", threshold) for table in tables)
            found = max(found, excess(p, q, epsilon), excess(q, p, epsilon))
    return found


def bound(relation, k, epsilon, slack):
    """What the theorem promises."""
    return gdp_delta(Adjacency(relation, k).marginal_l2() / SIGMA, epsilon) + (1 + math.exp(epsilon)) * slack


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_the_theorem_holds_for_every_pair_of_small_tables(relation, k, epsilon):
    assert (
        0 < worst(relation, k, epsilon, find_release_threshold(SLACK, SIGMA, k)) <= bound(relation, k, epsilon, SLACK)
    )


def alone(k, threshold):
    """The exact chance that something leaves of values that one unit of k rows has alone, all in one or one each."""
    return max(1 - outcomes(k, threshold)[0], 1 - outcomes(1, threshold)[0] ** k)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_planted_mistakes_break_it(relation):
    """As in `tests/audit/test_planted`: what one unit alone has leaves (F1), a person is taken for a row (F20)."""
    k = 4
    sound, planted = find_release_threshold(SLACK, SIGMA, k), find_release_threshold(SLACK, SIGMA, 1)
    assert worst(relation, 1, 3.0, 1) > bound(relation, 1, 3.0, SLACK)  # F1: no threshold
    assert alone(k, sound) <= SLACK < alone(k, planted)  # F20: the threshold of a single row
    assert worst(relation, k, 0.1, sound) > bound(relation, 1, 0.1, SLACK)  # F20: the price of a single row


@given(st.integers(1, 12), st.floats(0.5, 200), st.floats(1e-12, 0.3))
def test_the_threshold_is_the_least_that_keeps_the_chance(rows, sigma, slack):
    threshold = find_release_threshold(slack, sigma, rows)
    assert release_chance(threshold, sigma, rows) <= slack
    assert threshold == rows or release_chance(threshold - 1, sigma, rows) > slack * (1 - 1e-8)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_the_chance_bounds_every_way_to_divide_a_units_rows(k):
    threshold = find_release_threshold(1e-3, SIGMA, k)

    def parts(n, most):
        yield from ([[]] if n == 0 else ([m, *rest] for m in range(min(n, most), 0, -1) for rest in parts(n - m, m)))

    for division in parts(k, k):
        none = np.prod([1 - ndtr(-(threshold - rows - 0.5) / SIGMA) for rows in division])
        assert 1 - none <= release_chance(threshold, SIGMA, k) * (1 + 1e-9)


def test_a_charge_whose_slack_does_not_pay_for_its_threshold_is_refused():
    charge = Charge.partitions("values", sensitivity=1.0, scale=10.0, columns=2, rows=1, slack=1e-6)
    assert charge.rho == pytest.approx(2 / (2 * 10.0**2))
    forged = charge.to_dict() | {"terms": {"threshold": charge.terms["threshold"] - 5, "rows": 1}}
    with pytest.raises(BudgetError, match="does not cover"):
        Charge.from_dict(forged)
    with pytest.raises(BudgetError, match="does not cover"):
        Charge.from_dict(charge.to_dict() | {"slack": 1e-9})
    with pytest.raises(BudgetError, match="pure epsilon"):
        charge.price("pure")


def curator(table, unit=None, k=1, noise=None, budget=None):
    columns = [Unknown(name, missing=True) for name in table.column_names if name != unit]
    schema = Schema(
        tuple([Id(unit), *columns] if unit else columns), unit=unit, rows_per_unit=k, extra_columns="ignore"
    )
    ledger = Ledger(budget or Budget(epsilon=5.0, delta=1e-4), "gaussian", Adjacency("add-remove", k))
    return ValueCurator(open_listing(table, schema, 1000), ledger, Mechanisms(noise or Noise.seeded(1))), ledger


def test_common_values_leave_and_rare_ones_do_not():
    words = ["common"] * 400 + ["often"] * 200 + [f"rare {i}" for i in range(300)] + [None, "", "  "] * 20
    asked, ledger = curator(pa.table({"word": words}))
    (found,) = asked.values(["word"], 0.5, ledger.budget.delta / 1000)
    assert set(found) == {"common", "often"}
    assert abs(found["common"] - 400) < 100
    (different,) = asked.distinct(["word"], 0.1)
    assert abs(different - 302) < 60
    assert [entry.purpose for entry in ledger.entries] == ["discovery", "discovery"]
    assert ledger.slack > 0


def test_a_person_with_many_rows_is_kept_to_their_number():
    words = ["x"] * 500 + ["y"] * 3
    people = ["somebody"] * 500 + ["a", "b", "c"]
    asked, _ = curator(pa.table({"who": people, "word": words}), "who", 2)
    listed = asked._listing.values(["word"])["word"]
    assert unpack_value_counts(listed) == {"x": 2, "y": 3}


@given(st.lists(st.sampled_from(["a", "b", "c", None, ""]), max_size=12), st.sampled_from(["a", "d", None]))
def test_one_row_more_moves_numbers_by_their_sensitivity(words, more):
    table, larger = (pa.table({"word": pa.array(each, pa.string())}) for each in (words, [*words, more]))
    counts = [unpack_value_counts(curator(t)[0]._listing.values(["word"])["word"]) for t in (table, larger)]
    moved = sum((Counter(counts[0]) - Counter(counts[1])).values()) + sum(
        (Counter(counts[1]) - Counter(counts[0])).values()
    )
    assert moved <= Adjacency().marginal_l1()
    assert abs(len(counts[0]) - len(counts[1])) <= Adjacency().distinct()


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@given(data=st.data())
def test_different_values_move_by_at_most_the_rows_of_a_unit(relation, data):
    k = data.draw(st.integers(1, 3))
    rest = data.draw(st.lists(st.sampled_from("abcd"), max_size=6))
    one = data.draw(st.lists(st.sampled_from("abcdefgh"), max_size=k))
    other = data.draw(st.lists(st.sampled_from("abcdefgh"), max_size=k)) if relation == "replace-one" else []
    assert abs(len({*rest, *one}) - len({*rest, *other})) <= Adjacency(relation, k).distinct()


def test_unpaid_questions_are_never_asked():
    asked, _ = curator(pa.table({"word": ["a"] * 50}), budget=Budget(rho=0.5))
    with pytest.raises(BudgetError, match="delta"):
        asked.values(["word"], 0.5, 1e-6)
