"""A lifetime budget that is created after a run includes it, or says that it does not."""

import json
import re

import pytest

from weft.privacy import Lifetime

from .conftest import spend, wait, words


def test_a_lifetime_budget_includes_the_runs_before_it(browser, table, tmp_path):
    wait(browser, spend(browser, table).headers["location"])
    page = browser.get(f"{table}/budget").text
    assert "have spent epsilon 1 at delta 1e-05" in words(page)
    form = page[page.index('id="life"') :]
    assert re.findall(r'name="(?:epsilon|delta)" value="(\S+)"', form)[:2] == ["4", "1.1e-05"]
    refused = browser.post(f"{table}/budget/lifetime", data={"epsilon": "3", "delta": "1e-6"})
    assert refused.status_code == 400 and "have spent epsilon 1 at delta 1e-05" in words(refused.text)
    assert not list((tmp_path / "desk").rglob("lifetime.budget"))
    done = browser.post(f"{table}/budget/lifetime", data={"epsilon": "3", "delta": "1.1e-5"})
    assert done.status_code == 303, done.text
    state = Lifetime(next((tmp_path / "desk").rglob("lifetime.budget"))).state()
    assert (state.facts["epsilon"], state.protects) == (3.0, "row")
    assert state.budget.epsilon == 2.0 and state.budget.delta == pytest.approx(1e-6)
    page = words(browser.get(f"{table}/budget").text)
    assert "The total is epsilon 3. Earlier runs have spent 1 of it" in page and "100% is left" in page
    spent = {"epsilon": "2.5", "delta": "1e-5", "rows": "400", "method": "independent", "then": "run", "ticket": "two"}
    page = words(wait(browser, browser.post(f"{table}/budget", data=spent).headers["location"]))
    assert "lifetime.budget has 100% left, and this run may cost" in page  # more than what is left of the total


def test_earlier_runs_that_do_not_add_up_are_named_before_a_lifetime_budget_is_created(browser, table, tmp_path):
    wait(browser, spend(browser, table).headers["location"])
    (journal,) = (tmp_path / "desk").rglob("*.ledger.jsonl")
    begun, *charges = journal.read_text().splitlines()
    journal.write_text("\n".join([json.dumps(json.loads(begun) | {"unit": None}), *charges, ""]))
    page = words(browser.get(f"{table}/budget").text)
    assert "Earlier releases of at most epsilon 1 are not included" in page
    assert browser.post(f"{table}/budget/lifetime", data={"epsilon": "3", "delta": "1e-6"}).status_code == 303
    assert Lifetime(next((tmp_path / "desk").rglob("lifetime.budget"))).state().budget.epsilon == 3.0
