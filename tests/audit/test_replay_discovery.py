"""Record and replay of private discovery: nothing that is found takes another road than a mechanism."""

import numpy as np
import pyarrow as pa
import pytest
from conftest import by_turns, make_table
from weft_lab.replay import find_reused_randomness, replay

from weft import Synthesizer
from weft.errors import DataError
from weft.privacy.mechanisms import Mechanisms
from weft.schema import Schema

from .programs import (
    SOURCES,
    seeded,
    synthesise,
    visits,
    with_last_person_replaced,
    with_row_replaced,
    without_last,
    without_last_person,
)

EPSILON = 20.0
"""So that in a few hundred rows something is found at all."""

RELATIONS = {"add-remove": without_last, "replace-one": with_row_replaced}
PEOPLE = {"add-remove": without_last_person, "replace-one": with_last_person_replaced}


NAMED = [source for source in SOURCES if source != "json lines"]  # whose columns have names before their rows
CROSS = by_turns(NAMED, RELATIONS, 2)


@pytest.mark.parametrize(("source", "relation"), CROSS)
def test_what_is_found_comes_from_noisy_answers_alone(source, relation):
    table = make_table(300)
    program = synthesise("independent", source=source, unit=False, neighbours=relation, epsilon=EPSILON)
    assert replay(program, table, RELATIONS[relation](table), seeded()) == []


@pytest.mark.parametrize(("source", "relation"), by_turns(["arrow", "csv", "duckdb", "parquet, streamed"], PEOPLE, 2))
def test_what_is_found_of_people_does_too(source, relation):
    table = visits(last=12)  # more than are used of anybody
    program = synthesise("independent", source=source, unit="person", neighbours=relation, epsilon=EPSILON)
    assert replay(program, table, PEOPLE[relation](table), seeded()) == []


def odd(**last):
    """A table whose last row alone holds something."""
    table = make_table(200)
    for name, value in last.items():
        values = [*table[name].to_pylist()[:-1], value]
        table = table.set_column(table.column_names.index(name), name, pa.array(list(map(_text, values))))
    return table


def _text(value):
    """Write a value as a file would: a cost of 32 bits with its two decimals, and not with those of 64 bits."""
    if isinstance(value, float):
        return f"{value:.2f}"
    return None if value is None else str(value)


BEYOND_FLOATS = odd(cost="1e300")
ODD_TABLES = [
    odd(ward="a disease that nobody else has"),
    odd(age=10**15),
    odd(age="words"),
    odd(cost="2024-02-30"),
    odd(sex=None),
    odd(sex="", ward="", age="", cost=""),
    odd(cost="$1,234.56"),
    BEYOND_FLOATS,
    odd(ward="x" * 5000),
    odd(ward="\U0001f600"),
]


def _name_of(table):
    return "|".join(_text(v) or "-" for v in table.slice(199).to_pylist()[0].values())[:40]


@pytest.mark.parametrize("table", ODD_TABLES, ids=_name_of)
def test_what_the_last_row_alone_has_is_not_found(table):
    program = synthesise("independent", source="csv", unit=False, epsilon=EPSILON)
    assert replay(program, table, without_last(table), seeded()) == []


@pytest.mark.slow
@pytest.mark.parametrize("table", [each for each in ODD_TABLES if each is not BEYOND_FLOATS], ids=_name_of)
def test_what_the_last_row_of_a_frame_alone_has_is_not_found(table):
    program = synthesise("independent", source="pandas", unit=False, epsilon=EPSILON)
    assert replay(program, table, without_last(table), seeded()) == []


def test_a_frame_with_a_number_beyond_whole_floats_is_refused_before_a_charge(tmp_path):
    """Readers leave different texts of it (decision 022); the refusal is PRIVATE, and nothing is spent."""
    journal = tmp_path / "run.ledger.jsonl"
    with pytest.raises(DataError, match='column "cost"') as raised:
        Synthesizer(EPSILON, method="independent", journal=journal).fit(BEYOND_FLOATS.to_pandas(), unit=False)
    assert raised.value.private and not journal.exists()


def test_a_table_of_one_row_is_found_like_one_of_none():
    table = make_table(1)
    program = synthesise("independent", unit=False, epsilon=EPSILON)
    assert replay(program, table, without_last(table), seeded()) == []


def test_noise_is_fresh_in_every_run():
    assert (
        find_reused_randomness(synthesise("independent", unit=False, epsilon=EPSILON), make_table(200), Mechanisms)
        == []
    )


def test_rows_of_a_person_that_stay_are_chosen_afresh():
    program = synthesise("independent", unit="person", epsilon=EPSILON, paired=False)
    table = visits(last=60)  # of whom five are kept: two runs keep the same ones once in five million
    assert find_reused_randomness(program, table, Mechanisms, truncated=True) == []


def test_a_long_list_of_texts_is_replayed():
    rng = np.random.default_rng(1)
    table = make_table(300).append_column("note", pa.array([f"text {i}" for i in rng.integers(0, 10**6, 300)]))
    program = synthesise("independent", unit=False, epsilon=EPSILON)
    assert replay(program, table, without_last(table), seeded()) == []


@pytest.mark.parametrize("source", ["parquet", "pandas"])
@pytest.mark.parametrize("last", [90_000 * 86_400 * 10**6, 1, None])
def test_one_length_of_time_leads_nowhere_else(source, last):
    spans = pa.array([*(n * 6 * 10**7 for n in range(199)), last], pa.duration("us"))
    table = make_table(200).append_column("stay", spans)
    stated = Schema.from_toml('extra_columns = "discover"\n[columns.stay]\nkind = "duration"\n')
    program = synthesise("independent", stated, source=source, epsilon=EPSILON)
    assert replay(program, table, without_last(table), seeded()) == []
