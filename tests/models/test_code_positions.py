"""Values within coarse codes follow the related attributes, and nothing else changes."""

import numpy as np
import pytest

from weft.marginals.domain import Domain, Order
from weft.marginals.records import Records
from weft.marginals.value_groups import ValueMap
from weft.models.code_positions import MIN_FITTED, follow_related

CODES, GROUPS, ROWS = 100, 5, 20_000


def make_records(rows=ROWS, correlation=0.8, missing=0.1):
    """Return two numbers in five coarse codes each, of a joint normal distribution; some of the first are missing."""
    rng = np.random.default_rng(1)
    first = rng.normal(size=rows)
    second = correlation * first + np.sqrt(1 - correlation**2) * rng.normal(size=rows)
    coded = [np.argsort(np.argsort(each)) * GROUPS // rows for each in (first, second)]
    coded[0] = np.where(rng.random(rows) < missing, GROUPS, coded[0])
    groups = np.repeat(np.arange(GROUPS), CODES // GROUPS)
    maps = {
        "x": ValueMap(np.append(groups, GROUPS), GROUPS + 1, np.ones(CODES + 1)),
        "y": ValueMap(groups, GROUPS, np.ones(CODES)),
    }
    domain = Domain(("x", "y"), (CODES + 1, CODES), (Order(True, frozenset({CODES})), Order(True)))
    return domain, maps, Records.of(Domain(("x", "y"), (GROUPS + 1, GROUPS)), coded)


def test_values_follow_within_codes_and_their_numbers_stay():
    domain, maps, records = make_records()
    rng = np.random.default_rng(2)
    before = {name: maps[name].unfold(records.column(name), rng) for name in maps}
    after = follow_related(domain, records, maps, before, rng)
    for name in maps:
        assert np.array_equal(maps[name].codes[after[name]], records.column(name))
        assert np.array_equal(np.bincount(after[name]), np.bincount(before[name]))
    known = records.column("x") < GROUPS
    assert np.array_equal(after["x"][~known], before["x"][~known])
    found = [np.corrcoef(each["x"][known], each["y"][known])[0, 1] for each in (before, after)]
    exact = 6 / np.pi * np.arcsin(0.8 / 2)  # the rank correlation of the normal distribution
    assert exact - found[1] < 0.6 * (exact - found[0])  # what coarse codes lose is regained in good part
    within = records.column("x") == 2
    inside = [np.corrcoef(each["x"][within], each["y"][within])[0, 1] for each in (before, after)]
    assert abs(inside[0]) < 0.05 and inside[1] > 0.1


@pytest.mark.parametrize("rows", [MIN_FITTED - 1, 2_000])
def test_independent_and_few_records_keep_independent_positions(rows):
    domain, maps, records = make_records(rows, correlation=0.0, missing=0.0)
    rng = np.random.default_rng(3)
    before = {name: maps[name].unfold(records.column(name), rng) for name in maps}
    after = follow_related(domain, records, maps, before, rng)
    if rows < MIN_FITTED:
        assert all(np.array_equal(after[name], before[name]) for name in maps)
    within = [after["x"][records.column("x") == code] for code in range(GROUPS)]
    others = [after["y"][records.column("x") == code] for code in range(GROUPS)]
    assert max(abs(np.corrcoef(a, b)[0, 1]) for a, b in zip(within, others, strict=True)) < 4 / np.sqrt(rows / GROUPS)


def test_a_code_that_no_record_has_and_a_constant_column_do_no_harm():
    domain, maps, records = make_records(1_000)
    records = Records.of(records.domain, [np.full(1_000, 3), np.minimum(records.column("y"), 2)])
    rng = np.random.default_rng(4)
    before = {name: maps[name].unfold(records.column(name), rng) for name in maps}
    after = follow_related(domain, records, maps, before, rng)
    assert all(np.array_equal(np.bincount(after[name]), np.bincount(before[name])) for name in maps)
