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
from weft.methods.common.options import PAPER, convert_to_plain, options_of

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
    )
]
FEWER = {"passes": 60, "steps": 20}
"""In place of the published numbers, for time."""
OURS = ["cover", "independent", "marginals", "tree", "weave"]


def recipe(name):
    module, made = METHODS[name]
    return getattr(import_module(module), made)


def told(value):
    """Return a value as the docstrings of recipes write it."""
    return value if isinstance(value, str) else json.dumps(value)


def compare_with_paper(recipe, paper):
    """Return default and published value of each option for which they differ."""
    usual = {option.name: option.default for option in options_of(recipe)}
    return {
        name: (usual[name], convert_to_plain(value))
        for name, value in paper.items()
        if usual[name] != convert_to_plain(value)
    }


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
    assert dict(made.gum) == {**published_settings("privsyn")["gum"], "iterations": 3}
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
    options = {key: FEWER[key] for key in FEWER.keys() & dict(published_settings(name)).keys()}
    made = weft.Synthesizer(2.0, 1e-6, method=name, preset=PAPER, seed=1, **options).fit(table, schema)
    ledger = made.ledger_
    assert ledger.spent == pytest.approx(ledger.capacity, rel=1e-6)
    assert made.sample(50, seed=2).schema.equals(table.schema)
    made.save(tmp_path / "m.weft")
    loaded = weft.load(tmp_path / "m.weft")
    assert loaded.fitted_.options["preset"] == PAPER
    assert loaded.sample(50, seed=2).equals(made.sample(50, seed=2))


BINNED = """
[columns.age]
kind = "integer"
range = [0, 99]
bins = "each"

[columns.sex]
kind = "category"
values = ["f", "m"]
"""


@pytest.mark.parametrize("name", OF_A_PAPER)
def test_the_bins_of_the_schema_are_the_discretisation_of_the_preset(name, table):
    """A hundred ordered codes are coarsened by default; with the preset, the paper's algorithm sees all of them."""
    schema = weft.Schema.from_toml(BINNED)
    chosen = []
    for preset, fewer in ((PAPER, FEWER), (None, {})):
        options = {key: fewer[key] for key in fewer.keys() & dict(published_settings(name)).keys()}
        made = weft.Synthesizer(2.0, 1e-6, method=name, seed=1, preset=preset, **options)
        made.fit(table.select(["age", "sex"]), schema)
        # The rows, then the cells of age, then blocks or values of them: the charges of the resolution.
        first = [charge.question for charge in made.ledger_.entries[:3]]
        chosen.append(first == ["number of rows", "1 one-way marginal", "1 one-way marginal"])
    assert chosen == [False, True]


def test_attributes_too_wide_for_pairs_are_coarsened_with_the_preset_as_well(table):
    """A thousand codes are the limit; the methods list it."""
    schema = weft.Schema.from_toml(BINNED.replace("99]", "1999]"))
    made = weft.Synthesizer(2.0, 1e-6, method="privsyn", seed=1, preset=PAPER).fit(table.select(["age", "sex"]), schema)
    assert made.ledger_.entries[0].question == "number of rows"
