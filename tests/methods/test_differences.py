"""What `weft methods NAME` lists as differences from the papers, beside the queries that the presets make."""

import re

import numpy as np
import pyarrow as pa
import pytest
from test_presets import FEWER, OF_A_PAPER

import weft
from weft.methods import COMMON_DIFFERENCES, list_differences, published_settings
from weft.methods.common.discretisation import MAX_PUBLISHED_CODES
from weft.methods.common.options import PAPER
from weft.synthesis.pipeline import SHARE_PEOPLE

ROWS, COLUMNS, MARGINALS, CHOICE = "number of rows", "one-way marginals", "marginals", "selection"
PUBLISHED = {
    "aim": {COLUMNS: "gaussian", CHOICE: "exponential", MARGINALS: "gaussian"},
    "bsg": {
        "partition": "coins",
        f"{ROWS} (rows for structure)": "laplace",
        "entropies (rows for structure)": "laplace",
        f"{MARGINALS} (rows for parameters)": "laplace",
    },
    "dp-copula": {COLUMNS: "laplace", "Kendall's tau": "laplace"},
    "dp-wgan": {"gradients": "gaussian"},
    "dpsyn": {COLUMNS: "gaussian", MARGINALS: "gaussian"},
    "dualquery": {"cells": "exponential"},
    "mst": {COLUMNS: "gaussian", CHOICE: "exponential", MARGINALS: "gaussian"},
    "mwem": {CHOICE: "exponential", MARGINALS: "laplace"},
    "pb-pgm": {CHOICE: "exponential", MARGINALS: "laplace"},
    "pgm": {"dependence": "gaussian", MARGINALS: "gaussian"},
    "privbayes": {CHOICE: "exponential", MARGINALS: "laplace"},
    "privbayes-indif": {"dependence": "gaussian", MARGINALS: "gaussian"},
    "priview": {MARGINALS: "laplace"},
    "privmrf": {ROWS: "gaussian", "dependence": "gaussian", MARGINALS: "gaussian", "distances": "gaussian"},
    "privsyn": {COLUMNS: "gaussian", "dependence": "gaussian", MARGINALS: "gaussian"},
}
"""The queries on private rows that each paper describes, with their noise: PrivSyn, Algorithm 3, and its comparison,
section 6.2; DPSyn, section 5.3; PrivMRF, Algorithms 1 to 6; BSG, section 3.5; the others' algorithm boxes."""

WORDS = {
    "number of rows": ROWS,
    "secret random partition": "partition",
    "entropies": "entropies",
    "dependence": "dependence",
    "selection among": CHOICE,
    "L1 distance": "distances",
    "gradient": "gradients",
    "draw": "cells",
}


def coded(rows=600):
    rng = np.random.default_rng(0)
    base = rng.random(rows)
    sizes = (2, 3, 2, 2)
    codes = [np.clip((base + 0.25 * rng.normal(size=rows)) * size, 0, size - 1).astype(np.int64) for size in sizes]
    names = [f"c{i}" for i in range(len(sizes))]
    return pa.table(dict(zip(names, codes, strict=True))), weft.Schema.from_domain(dict(zip(names, sizes, strict=True)))


def step_of(charge):
    """Return which step of an algorithm a query is, and its noise as the papers have it."""
    words = charge.question.removesuffix(f" (rows for {charge.part})")
    found = next((step for start, step in WORDS.items() if start in words), None)
    if found is None:
        orders = set(re.findall(r"(\w+)-way", words))
        assert orders, charge.question
        found = COLUMNS if orders == {"one"} else MARGINALS
    noise = {"geometric": "laplace"}.get(charge.mechanism, charge.mechanism)
    return found + (f" (rows for {charge.part})" if charge.part else ""), noise


def listed(name, start):
    """Return what the bullets that begin like this name."""
    return {found[1] for each in list_differences(name) if (found := re.match(rf"{start}, ([^:.]*)", each))}


@pytest.mark.parametrize("name", OF_A_PAPER)
def test_queries_that_differ_from_the_paper_are_listed(name):
    table, schema = coded()
    options = {key: FEWER[key] for key in FEWER.keys() & dict(published_settings(name)).keys()}
    made = weft.Synthesizer(2.0, 1e-6, method=name, preset=PAPER, seed=1, noise_seed=3, journal=None, **options)
    made.fit(table, schema, unit=False)
    asked = dict(step_of(charge) for charge in made.ledger_.entries)
    assert listed(name, "Added query") == asked.keys() - PUBLISHED[name].keys()
    assert listed(name, "Query left out") == PUBLISHED[name].keys() - asked.keys()
    other = {step for step in asked.keys() & PUBLISHED[name].keys() if asked[step] != PUBLISHED[name][step]}
    assert listed(name, "Other noise") == other


def test_the_common_differences_are_what_the_code_does():
    assert f"more than {MAX_PUBLISHED_CODES:,} codes" in COMMON_DIFFERENCES[0]
    assert f"for {SHARE_PEOPLE:.0%} of the budget" in COMMON_DIFFERENCES[1]
    rows = pa.table({"who": ["a", "a", "b", "c"] * 50, "x": [0, 1, 1, 0] * 50})
    columns = '[columns.who]\nkind = "id"\n[columns.x]\nkind = "category"\nvalues = ["0", "1"]\n'
    text = f'unit = "who"\nrows_per_unit = 2\n{columns}'
    made = weft.Synthesizer(2.0, 1e-6, method="privsyn", preset=PAPER, seed=1, journal=None)
    made.fit(rows.set_column(1, "x", rows["x"].cast(pa.string())), weft.Schema.from_toml(text))
    first = made.ledger_.entries[0]
    assert first.purpose == "units" and first.cost / made.ledger_.capacity == pytest.approx(SHARE_PEOPLE)


@pytest.mark.parametrize("name", OF_A_PAPER)
def test_differences_are_shown(name):
    """Every bullet of the docstring is an item, and none is cut."""
    found = list_differences(name)
    assert found[-len(COMMON_DIFFERENCES) :] == list(COMMON_DIFFERENCES)
    assert all(each[0].isupper() or each[0] == "`" for each in found) and all(each.endswith(".") for each in found)
