import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, Literal, get_type_hints

import numpy as np
import pytest

from weft.bounds import bounds_of
from weft.errors import MethodError
from weft.marginals.domain import Domain
from weft.methods import METHODS, make_method
from weft.methods.common.options import check_fields, convert_to_plain, describe_kind, matches_kind, options_of
from weft.synthesis.synthesizer import Synthesizer

EVERY = [(name, field.name) for name in METHODS for field in fields(make_method(name))]


@pytest.mark.parametrize(("name", "option"), EVERY)
def test_every_option_is_of_its_own_kind_and_can_be_described(name, option):
    made = make_method(name)
    assert make_method(name, **{option: getattr(made, option)}) == made
    with pytest.raises(MethodError) as refused:
        make_method(name, **{option: object()})
    kind = describe_kind(get_type_hints(type(made))[option])
    assert str(refused.value).startswith(f"option {option}: expected {kind}, not ")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (np.int64(3), int),
        (np.uint8(3), int | None),
        (3, float),
        (np.float32(3), float),
        (np.int16(3), float),
        (Fraction(1, 3), float),
        (None, int | None),
        ([1, 2.5], tuple[float, ...]),
        ((), tuple[float, ...]),
        (np.array([1.0, 2.0]), Sequence[float]),
        (np.array([["a", "b"]]), Sequence[Sequence[str]]),
        ([["a"], ("b", "c")], Sequence[Sequence[str]]),
        (range(3), Sequence[int]),
        ({"a": 2, "b": [0, 1]}, Mapping[str, int | Sequence[int]]),
        ({"a": object()}, Mapping[str, Any]),
        ("x", Literal["x", "y"]),
    ],
)
def test_what_fits(value, kind):
    assert matches_kind(convert_to_plain(value), kind)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, int),
        (True, float),
        (1, bool),
        (3.0, int),
        (np.float64(3), int),
        ("3", int),
        (1j, float),
        (float("nan"), float),
        (np.float64("inf"), float),
        (None, int),
        ("ab", Sequence[str]),
        (["ab"], Sequence[Sequence[str]]),
        ([1.0, float("nan")], Sequence[float]),
        ([1.0, None], Sequence[float]),
        ({1.0, 2.0}, Sequence[float]),
        (np.ones((2, 2)), Sequence[float]),
        ({1: 2}, Mapping[str, int]),
        ({"a": "b"}, Mapping[str, int | Sequence[int]]),
        ([("a", 1)], Mapping[str, int]),
        ("z", Literal["x", "y"]),
        (["x"], Literal["x", "y"]),
    ],
)
def test_what_does_not_fit(value, kind):
    assert not matches_kind(value, kind)


def test_examples_are_of_the_kind_they_explain():
    kinds = {get_type_hints(type(make_method(name)))[option] for name, option in EVERY}
    shown = [(kind, re.findall("as JSON: '(.*?)'", describe_kind(kind))) for kind in kinds]
    assert sum(map(len, (found for _, found in shown))) >= 5
    for kind, found in shown:
        assert all(matches_kind(json.loads(example), kind) for example in found)


@pytest.mark.parametrize("name", METHODS)
def test_every_option_has_a_meaning(name):
    made = make_method(name)
    found = options_of(type(made))
    assert [option.name for option in found] == [field.name for field in fields(made)]
    for option in found:
        assert option.meaning.endswith(".") and option.meaning == " ".join(option.meaning.split())
        assert option.default == convert_to_plain(getattr(made, option.name))


def test_an_option_without_a_meaning_is_no_option():
    with pytest.raises(KeyError):
        options_of(Behind)


@pytest.mark.parametrize("name", METHODS)
def test_every_number_has_bounds_that_hold_its_default(name):
    made = make_method(name)
    kinds, bounds = get_type_hints(type(made)), bounds_of(type(made))
    numbers = [option for option, kind in kinds.items() if re.search(r"\b(int|float)\b", str(kind))]
    assert set(numbers) - {"omega"} == set(bounds)  # omega has the columns for bounds
    for option, each in bounds.items():
        assert each.holds(convert_to_plain(getattr(made, option)))
        assert not each.holds(each.low - 1) and not each.holds(each.high * 2 + 1)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("privsyn", {"share_scores": 1e-6}),
        ("mst", {"share_columns": 1e-6}),
        ("privmrf", {"share_scores": 1e-6}),
        ("privmrf", {"share_refine": 1e-6, "candidates": 10**6}),
        ("privbayes-indif", {"share_total": 1e-6}),
        ("privbayes", {"share_columns": 1e-6, "accounting": "zcdp"}),
        ("tree", {"share_scores": 1e-6}),
        ("aim", {"rounds_per_column": 1000.0, "part_scores": 1e-6}),
        ("weave", {"share_columns": 1e-6}),
        ("weave", {"tuning": {"part_scores": 1e-6}}),
        ("bsg", {"share_structure": 1e-6}),
        ("pgm", {"marginals": [["age", "sex"], ["ward", "sex"]], "weights": [1e-6, 1e6]}),
    ],
)
def test_noise_that_cannot_be_drawn_is_refused_before_the_first_charge(
    name, options, table, schema, tmp_path, monkeypatch
):
    monkeypatch.setattr("weft.methods.common.budget_checks.MAX_NOISE_SCALE", 1e4)  # as if the budget were smaller still
    journal = tmp_path / "j.jsonl"
    with pytest.raises(MethodError, match="Raise it, or epsilon"):
        Synthesizer(1e-2, method=name, journal=journal, **options).fit(table, schema)
    assert not journal.exists()  # which is written with the first charge


@dataclass(frozen=True)
class Behind:
    depth: int = 1
    slope: float = 1.0


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"dept": 2}, "option inner has no setting 'dept'. Did you mean 'depth'?"),
        ({"x": 2}, "option inner has no setting 'x'. There are: depth, slope."),
        ({"depth": "two"}, "option inner, depth: expected a whole number, not 'two'."),
        ({"slope": float("nan")}, "option inner, slope: expected a finite number, not nan."),
    ],
)
def test_what_is_behind_an_option_is_refused_in_our_words(given, told):
    check_fields("inner", {"depth": 2, "slope": float("inf")}, Behind)
    with pytest.raises(MethodError) as refused:
        check_fields("inner", given, Behind)
    assert str(refused.value) == told


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("privbayes", {"theta": -4.0}),
        ("privbayes", {"theta": 0.0}),
        ("privbayes", {"max_candidates": 0}),
        ("bsg", {"k": 50}),
        ("bsg", {"epsilon0": 0.1}),
        ("bsg", {"k": 50, "omega": 3, "rows": 10}),  # of three columns: all are drawn
        ("privbayes-indif", {"max_parents": -1}),
        ("privbayes-indif", {"max_parents": 0}),
        ("privsyn", {"share_scores": 1e-300}),
        ("mst", {"share_scores": 1e-300}),
        ("mst", {"rare": -1.0}),
        ("privmrf", {"share_scores": 1e-300}),
        ("privmrf", {"max_ways": 10**6}),
        ("weave", {"tuning": {"candidates": 10**12}}),
        ("weave", {"tuning": {"matching_rounds": 10**12}}),
        ("aim", {"rounds_per_column": 1e300}),
        ("tree", {"penalties": [0.0] * 1000}),
        ("tree", {"ways": 10**9}),
        ("pgm", {"weights": [1e-300, 1.0], "marginals": [["a"], ["b"]]}),
        ("privsyn", {"gum": {"iterations": 10**12}}),
        ("bsg", {"buckets": {"a": [10**12, 0]}}),
        ("bsg", {"omega": "9" * 5000 + "-" + "9" * 5000, "rows": 3}),
        ("weave", {"tuning": {"clique_error": -0.1}}),
        ("weave", {"rare": -1.0}),
        ("weave", {"tuning": {"feedback": -1.0}}),
    ],
)
def test_options_that_mean_nothing_are_refused(name, options):
    with pytest.raises(MethodError, match=next(iter(options))):
        make_method(name, **options).check(Domain(("a", "b", "c"), (2, 3, 4)))


@pytest.mark.parametrize(("name", "options"), [("tree", {"max_cells": 1}), ("weave", {"order": 99})])
def test_limits_beyond_reason_do_no_harm(name, options, table, schema):
    made = Synthesizer(epsilon=3.0, method=name, seed=1, **options).fit(table, schema)
    assert made.sample(20, seed=1).num_rows == 20
    assert made.ledger_.used == pytest.approx(1, rel=1e-6)
