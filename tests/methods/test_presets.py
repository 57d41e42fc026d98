"""Published settings by one name: what they are, where they differ from the defaults, and who wins."""

import json
import re
import sys
from collections.abc import Mapping
from importlib import import_module

import pytest

import weft
from weft.errors import MethodError
from weft.methods import METHODS, make_method, published_settings
from weft.methods.common.options import PAPER, compare_with_paper, convert_to_plain, options_of

OF_A_PAPER = [
    *(
        "aim",
        "bsg",
        "dp-copula",
        "dp-wgan",
        "dpsyn",
        "dualquery",
        "mst",
        "mwem",
        "pb-pgm",
        "pgm",
        "privbayes",
        "privbayes-indif",
        "priview",
        "privmrf",
        "privsyn",
    ),
]
OURS = ["cover", "independent", "marginals", "tree", "weave"]


def recipe(name):
    module, made = METHODS[name]
    return getattr(import_module(module), made)


def told(value):
    """Return a value as the docstrings of recipes write it."""
    return value if isinstance(value, str) else json.dumps(value)


def test_every_recipe_has_published_settings_or_none():
    assert sorted(METHODS) == sorted([*OF_A_PAPER, *OURS])
    assert {name for name in METHODS if published_settings(name) is not None} == set(OF_A_PAPER)


@pytest.mark.parametrize("name", OF_A_PAPER)
def test_where_the_defaults_differ_is_what_the_docstring_says(name):
    made = recipe(name)
    text = " ".join(sys.modules[made.__module__].__doc__.split())
    (section,) = re.findall(
        r'Where the defaults differ from the paper \(`preset="paper"`\): (.*?) With the preset', text
    )
    items = section.removeprefix("- ").split(" - `")
    listed = {item.strip("`").split("`")[0]: f"`{item.strip('`')}" for item in items}
    expected = compare_with_paper(made, published_settings(name))
    assert sorted(listed) == sorted(expected)
    for option, (usual, paper) in expected.items():
        assert re.match(re.escape(f"`{option}` {told(usual)}, published {told(paper)}") + "[:;.]", listed[option])


@pytest.mark.parametrize("name", OF_A_PAPER)
def test_a_preset_sets_what_it_says_and_nothing_else(name):
    made = make_method(name, preset=PAPER)
    usual = {option.name: option.default for option in options_of(recipe(name))}
    settings = {
        key: convert_to_plain(dict(v) if isinstance(v, Mapping) else v) for key, v in published_settings(name).items()
    }
    assert {key: convert_to_plain(getattr(made, key)) for key in usual} == usual | settings
    with pytest.raises(TypeError):
        published_settings(name)["accounting"] = "gaussian"


def test_what_is_given_wins_over_the_preset():
    made = make_method("privsyn", preset=PAPER, accounting="gaussian", gum={"iterations": 3})
    assert made.accounting == "gaussian"
    assert dict(made.gum) == {"strategy": "half-duplicate", "iterations": 3, "length": 20, "tolerance": 0.0}
    assert made.rare_values == "one"


@pytest.mark.parametrize("name", OURS)
def test_who_follows_no_paper_has_no_preset(name, table, schema, tmp_path):
    with pytest.raises(MethodError, match="follows no paper"):
        weft.Synthesizer(method=name, preset=PAPER, journal=tmp_path / "j").fit(table, schema)
    assert not (tmp_path / "j").exists()


def test_other_presets_are_refused():
    with pytest.raises(MethodError, match='expected "paper"'):
        make_method("privsyn", preset="papers")


def test_a_plain_epsilon_wins_over_the_published_accounting(table, schema):
    made = weft.Synthesizer(1.0, 0.0, method="privsyn", preset=PAPER).fit(table, schema)
    assert made.ledger_.accounting.is_pure


@pytest.mark.parametrize("name", OF_A_PAPER)
def test_every_method_runs_as_published_and_its_model_says_so(name, table, schema, tmp_path):
    fewer = {"passes": 60, "steps": 20}
    options = {key: fewer[key] for key in fewer.keys() & dict(published_settings(name)).keys()}
    made = weft.Synthesizer(2.0, 1e-6, method=name, preset=PAPER, seed=1, **options).fit(table, schema)
    ledger = made.ledger_
    assert ledger.spent == pytest.approx(ledger.capacity, rel=1e-6)
    assert made.sample(50, seed=2).schema.equals(table.schema)
    made.save(tmp_path / "m.weft")
    loaded = weft.load(tmp_path / "m.weft")
    assert loaded.fitted_.options["preset"] == PAPER
    assert loaded.sample(50, seed=2).equals(made.sample(50, seed=2))
