"""Options that the others leave without effect are refused, with what to change."""

import pytest

import weft
from weft.errors import MethodError
from weft.methods import METHODS, make_method
from weft.methods.common.options import options_of

IDLE = [
    ("privsyn", {"marginals": [["age", "sex"]], "selection": "privbayes-indif"}, "marginals is left out"),
    ("privsyn", {"marginals": [["age", "sex"]], "share_scores": 0.2}, "marginals is left out"),
    ("privsyn", {"selection": "privbayes-indif", "max_cells": 100}, "selection is dense"),
    ("privsyn", {"selection": "privbayes-indif", "connect": True}, "selection is dense"),
    ("privsyn", {"gum": {"alpha": 0.5}}, "gum, alpha has no effect unless.*strategy is replace"),
    ("privsyn", {"gum": {"strategy": "half", "decay": "constant", "rate": 0.5}}, "gum, rate.*decay is step"),
    ("privsyn", {"gum": {"strategy": "half", "decay": "linear", "length": 7}}, "gum, length.*decay is step"),
    ("dpsyn", {"marginals": [["age", "sex"]], "views": 7}, "marginals is left out"),
    ("dpsyn", {"gum": {"length": 7}}, "gum, length"),
    ("priview", {"strength": 2, "noise": 0.01}, "strength is left out"),
    ("priview", {"strength": 2, "most_strength": 2}, "strength is left out"),
    ("pgm", {"share_scores": 0.2}, "selection is privbayes-indif"),
    ("pgm", {"passes": 7}, "solver is mirror"),
    ("pb-pgm", {"passes": 7}, "solver is mirror"),
    ("mst", {"passes": 7}, "solver is mirror"),
    ("mwem", {"version": "averaged", "passes": 7}, "version is replayed"),
    ("aim", {"selection": "exponential", "accounting": "zcdp", "shortlist": 3}, "selection is remembered"),
    ("aim", {"selection": "exponential", "accounting": "zcdp", "share_scores": 0.2}, "selection is remembered"),
    ("privmrf", {"picks": 0.0, "candidates": 7}, "picks is given"),
    ("privmrf", {"picks": 0.0, "rounds": 7}, "picks is given"),
    ("bsg", {"share_seeds": 0.2}, "omega is given"),
    ("bsg", {"gamma": 2.0}, "guarantee is deniability"),
    ("bsg", {"max_cost": 50, "theta": 3.0}, "max_cost is left out"),
    ("bsg", {"tables": "cut", "prior": 3.0}, "tables is shrunk"),
    ("bsg", {"split": [0.0, 0.5, 0.5], "share_structure": 0.2}, "split is left out"),
    ("weave", {"tuning": {"part_marginals": 0.3}}, "marginals are given"),
    ("weave", {"order": 2, "tuning": {"batches": 1}}, "no effect with order 2"),
]


@pytest.mark.parametrize(("name", "options", "told"), IDLE)
def test_what_would_have_no_effect_is_refused_before_anything_is_spent(name, options, told, table, schema, tmp_path):
    journal = tmp_path / "j"
    with pytest.raises(MethodError, match=told):
        weft.Synthesizer(method=name, journal=journal, **options).fit(table, schema)
    assert not journal.exists()


def test_every_option_with_a_condition_is_refused_in_some_case():
    """The table above has all recipes that declare conditions."""
    declared = {name for name in METHODS if any(o.needs or o.parts for o in options_of(type(make_method(name))))}
    assert declared <= {name for name, _, _ in IDLE}


def test_a_condition_names_options_that_there_are():
    for name in METHODS:
        options = options_of(type(make_method(name)))
        names = {option.name for option in options}
        for option in options:
            assert {need.option for need in option.needs} <= names - {option.name}


def test_what_is_as_by_default_is_let_through():
    assert make_method("privmrf", picks=0.0, candidates=400).candidates == 400
    assert make_method("privsyn", gum={"alpha": 1.0}).gum == {"alpha": 1.0}


def test_what_a_preset_sets_may_be_idle():
    """Beside a guided synthesis the published length counts for nothing, and nobody asked for it."""
    assert make_method("privsyn", preset="paper", gum={"strategy": "guided"}).gum["length"] == 20
    with pytest.raises(MethodError, match="gum, length"):
        make_method("privsyn", preset="paper", gum={"decay": "constant", "length": 7})
    assert make_method("privmrf", preset="paper", picks=0.0).candidates == 400


def test_a_plan_leaves_options_idle_too(table, schema, tmp_path):
    plan = '[[marginals]]\ncolumns = ["age", "sex"]\n'
    with pytest.raises(MethodError, match="views has no effect"):
        weft.Synthesizer(method="dpsyn", marginals=plan, views=7, journal=tmp_path / "j").fit(table, schema)
    assert not (tmp_path / "j").exists()
