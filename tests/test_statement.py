"""What is said of a fit is true, whatever the fit was like, and never less than the truth."""

from __future__ import annotations

import json
import math

import pyarrow as pa
import pytest

import weft
from weft import Synthesizer
from weft.display import format_count
from weft.privacy import Adjacency, Budget, Charge, Ledger
from weft.release.card import DENIABLE, SEEDED, card_json, card_markdown
from weft.schema import Schema
from weft.synthesis.fitted import Fitted
from weft.synthesis.statement import (
    APART,
    FAINT,
    VOID,
    describe_joint_cost,
    explain_guarantee,
    is_row_count_faint,
    list_cautions,
)

SCHEMA = Schema.from_domain({"a": 3, "b": 2, "c": 4})
DENY = {"method": "bsg", "omega": 1, "rows": 20, "guarantee": "deniability"}


def data(rows: int = 3000) -> pa.Table:
    columns = {"a": [n % 3 for n in range(rows)], "b": [n % 2 for n in range(rows)], "c": [n % 4 for n in range(rows)]}
    return pa.table(columns)


def fit(epsilon: float = 1.0, size: int = 3000, **settings: object) -> Fitted:
    return Synthesizer(epsilon, **settings).fit(data(size), SCHEMA).fitted_


def ledger(epsilon: float = 1.0, charges: int = 1, **settings: object) -> Ledger:
    made = Ledger(Budget(epsilon=epsilon), "gaussian", Adjacency(**settings))
    for _ in range(charges):
        made.charge(Charge.gaussian("count", sensitivity=1.0, scale=100.0, draws=1))
    return made


@pytest.mark.parametrize("k", [5, 1_000_000])
def test_what_is_said_of_deniable_records_is_true_whether_or_not_a_seed_passes(k: int) -> None:
    fitted = fit(k=k, **DENY)
    said = explain_guarantee(fitted)
    assert said.startswith("Each record that was generated from a seed shares its retained columns with at least")
    assert f"at least {k:,} private rows" in said
    assert "Where no row passes the test, records are drawn entirely" in said
    (entry,) = (entry for entry in fitted.ledger.entries if entry.mechanism == "deniable")
    assert entry.question.endswith(f"with k = {k}, where rows pass it")
    card = card_markdown(fitted, 20, name="out.csv")
    assert DENIABLE in card
    assert "where no row passes the test" in card


def test_whether_a_seed_passed_is_told_nowhere() -> None:
    """The rows decide it without noise: but for k, cards of both runs are the same."""

    def told(k: int) -> tuple[str, str]:
        fitted = fit(k=k, seed=1, **DENY)
        events = []
        Synthesizer(1.0, k=k, seed=1, **DENY).fit(data(), SCHEMA, listener=events.append)
        card = card_json(fitted, 20, name="out.csv")
        notes = str([(event.stage, event.note) for event in events if event.stage == "test seeds"])
        text = json.dumps([card["privacy"]["meaning"], card["method"], card["stamps"], card["limits"]])
        return text.replace(f"{k:,}", "K").replace(str(k), "K"), notes

    assert told(5) == told(1_000_000)


def test_a_card_of_seeds_does_not_say_that_every_record_has_one() -> None:
    assert "Each record" not in SEEDED
    assert "was generated from a seed" in SEEDED


def test_there_are_no_more_records_and_the_remedy_is_named_as_on_the_command_line() -> None:
    synthesizer = Synthesizer(1.0, k=1_000_000, **DENY).fit(data(), SCHEMA)
    with pytest.raises(weft.errors.MethodError, match="--rows") as refused:
        synthesizer.sample(21)
    assert "generated" not in str(refused.value)


@pytest.mark.parametrize(("epsilon", "words"), [(1.0, "in at most 73.2% of cases"), (20.0, "in practically all cases")])
def test_how_often_an_observer_decides_correctly(epsilon: float, words: str) -> None:
    said = explain_guarantee(fit(epsilon, method="independent"))
    assert words in said
    assert "100%" not in said
    below = float(said.split("which is below ")[1].split(", plus")[0].replace(",", ""))
    assert math.exp(epsilon) < below < 1.01 * math.exp(epsilon)


def test_a_promise_under_a_warning_says_so_by_itself() -> None:
    assert explain_guarantee(fit(method="independent", noise_seed=1)).startswith(VOID)
    assert not explain_guarantee(fit(method="independent")).startswith(VOID)
    assert not explain_guarantee(fit(k=5, **DENY)).startswith(VOID)  # what is said there is what holds


@pytest.mark.parametrize("method", ["weave", "privbayes", "independent", "bsg", "privsyn", "mst", "privmrf"])
def test_noise_as_large_as_the_table_is_said(method: str) -> None:
    drowned = fit(1e-4, method=method, noise_seed=3)
    assert is_row_count_faint(drowned)
    assert FAINT in card_markdown(drowned, 5, name="out.csv")
    assert not is_row_count_faint(fit(2.0, method=method, noise_seed=3))


def test_a_table_of_as_many_records_as_were_asked_for_tells_nothing_of_noise() -> None:
    assert not is_row_count_faint(fit(1e-4, k=5, **DENY))


def test_columns_that_were_never_measured_together_are_said_to_be_apart() -> None:
    assert APART in list_cautions(fit(1e-3, size=200, method="weave", noise_seed=1))
    assert APART in list_cautions(fit(method="independent"))
    for related in ({"method": "weave", "epsilon": 4.0}, {"method": "privsyn"}, {"method": "mst"}):
        assert APART not in list_cautions(fit(**related))
    assert APART not in list_cautions(fit(k=5, **DENY))  # seeds keep columns together
    assert APART not in list_cautions(fit(method="bsg", split=[0.0, 0.5, 0.5]))  # tables of parts are not listed


def test_a_column_on_its_own_has_no_relations_to_miss() -> None:
    one = Synthesizer(1.0, method="independent").fit(data().select(["a"]), Schema.from_domain({"a": 3})).fitted_
    assert APART not in list_cautions(one)


def test_runs_add_up_only_where_they_can() -> None:
    assert describe_joint_cost([ledger()]) is None
    assert describe_joint_cost([ledger(), ledger(charges=0)]) is None  # asked nothing
    said = describe_joint_cost([ledger(), ledger(), ledger(charges=0)])
    assert said is not None
    epsilon = 2 * ledger().spend_statement().epsilon  # what each was allowed: what it spent carries no guarantee
    assert said.startswith("2 runs: epsilon ")
    assert epsilon <= float(said.split()[3]) < 1.001 * epsilon
    assert "at delta 2e-05 in total, if all of them used the same table" in said
    assert "no epsilon" in str(describe_joint_cost([ledger(), ledger(relation="replace-one")]))
    assert "no epsilon" in str(describe_joint_cost([ledger(), fit(k=5, **DENY).ledger]))
    warned = ledger()
    warned.stamp("NOT PRIVATE")
    assert "void this total" in str(describe_joint_cost([ledger(), warned]))


def test_numbers_and_nouns_agree() -> None:
    assert format_count(1, "row") == "1 row"
    assert "A synthetic table of 1 row." in card_markdown(fit(method="independent"), 1, name="out.csv")
