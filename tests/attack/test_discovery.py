"""What was found by trying to break private discovery: what it costs, what it may lose, and what it reads."""

from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft.engines.sources import open_reader
from weft.errors import ModelFileError, WeftError
from weft.privacy import Adjacency, Budget, Charge, Ledger, Lifetime
from weft.progress import ignore_event
from weft.schema import Schema
from weft.schema.kinds import Unknown
from weft.synthesis.discovery.probes import shape_look
from weft.synthesis.synthesizer import Synthesizer

ROWS = 3000
SLACK = 0.25 * 1e-5 / (1 + np.e)
"""What discovery sets aside at epsilon 1 and delta 1e-5."""


def numbers(size=80):
    return np.random.default_rng(1).integers(0, size, ROWS)


def colours():
    return np.random.default_rng(2).choice(["red", "green", "blue"], ROWS)


def written(folder, **columns):
    path = folder / "table.csv"
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def fitted(source, schema=None, **settings):
    settings = {"epsilon": 1.0, "delta": 1e-5, "method": "independent", "journal": None, "noise_seed": 3} | settings
    return Synthesizer(**settings).fit(source, schema, unit=False)


# Slack that lists of values may need is out of reach for everything else, also where no list is asked for.


@pytest.mark.parametrize("method", ["independent", "mst", "aim", "privsyn"])
def test_what_was_set_aside_for_lists_of_values_is_never_spent(tmp_path, method):
    ledger = fitted(written(tmp_path, a=numbers(), b=numbers(7)), method=method).ledger_
    assert not any(entry.mechanism == "partitions" for entry in ledger.entries)
    whole = ledger.budget.capacity("gaussian")
    kept = type(ledger.budget)(epsilon=1.0, delta=0.75 * 1e-5).capacity("gaussian")
    assert 0.98 * kept < ledger.spent <= kept * (1 + 1e-9) < whole


def test_seeds_leave_it_alone_too(tmp_path):
    source = written(tmp_path, a=numbers(), b=numbers(7))
    ledger = fitted(source, method="bsg", rows=50, omega=1).ledger_
    assert ledger.spent <= ledger._capacity(ledger.slack + SLACK) * (1 + 1e-9)


# Data frames.


def test_a_data_frame_needs_no_schema():
    made = fitted(pd.DataFrame({"colour": colours(), "n": numbers()})).sample(50)
    assert set(made["colour"]) <= {"red", "green", "blue", "other"}


# What could have been known before is refused before a charge.


def charged(source, schema=None):
    """Return what was charged before a run was refused."""
    asked, charge = [], Ledger.charge
    synthesizer = Synthesizer(journal=None, noise_seed=3, method="independent")
    noted = mock.patch.object(
        Ledger, "charge", lambda ledger, each: asked.append(each.question) or charge(ledger, each)
    )
    with noted, pytest.raises(WeftError):
        synthesizer.fit(source, schema, unit=False)
    return asked


# A lifetime budget sets little of delta aside for slack: discovery keeps to it, and leaves some to later runs.


def test_texts_are_found_within_a_lifetime_budget_again_and_again(tmp_path):
    source, file = written(tmp_path, colour=colours(), n=numbers()), tmp_path / "clinic.budget"
    lifetime = Lifetime.create(file, Budget(epsilon=4.0, delta=1e-5))
    for _ in range(3):
        run = Synthesizer(1.0, 1e-5, method="independent", journal=None, budget_file=file)
        assert run.fit(source, unit=False).discovered_.schema.column("colour").kind == "category"
    assert lifetime.slack_left() > 0


# A frame keeps a column in a type until one row does not fit it: that row must not change how the others look.

KEPT = {"whole": [1, 2], "floats": [1.0, 2.5], "large and small": [1e15, 1e-7]}


@pytest.mark.parametrize("look", [lambda: Unknown("c", missing=True), lambda: shape_look("c")], ids=["text", "shape"])
@pytest.mark.parametrize("kept", KEPT)
def test_an_odd_row_does_not_change_how_the_others_are_written(kept, look):
    values = pd.Series(KEPT[kept])
    odd = pd.concat([values.astype(object), pd.Series(["odd"])], ignore_index=True)
    alone, beside = (words(pd.DataFrame({"c": each}), look()) for each in (values, odd))
    assert alone == beside[:-1]
    assert all(isinstance(each, str) for each in alone)


def words(frame, column):
    schema = Schema((column,), extra_columns="ignore")
    reader = open_reader(frame, schema, 1000)
    read = reader.read(["c"], lambda batch: batch.column("c"), ignore_event, "count")
    return [value for _, array in read for value in array.to_pylist()]


@pytest.mark.parametrize("values", [[7, 7], [0.5, 1.5]], ids=["numbers", "fractions"])
def test_values_found_in_words_are_read_in_words(values):
    # So few that the kind drowns in the noise, and the values do not.
    frame = pd.DataFrame({"c": values * 75, "d": ["x", "x"] * 75})
    assert len(fitted(frame, noise_seed=3).sample(10)) == 10
    assert len(fitted(pd.concat([frame] * 20), noise_seed=3).sample(10)) == 10


def parquet(folder, **columns):
    path = folder / "table.parquet"
    pq.write_table(pa.table(columns), path)
    return path


UNKNOWN = 'kind = "unknown"'
LATE = {
    "half": (np.zeros(ROWS, np.float16), UNKNOWN),
    "wide": (pa.array(["1.5"] * ROWS).cast(pa.decimal256(50, 30)), UNKNOWN),
    "list": (pa.array([[1]] * ROWS), 'kind = "real"'),
    "category": (numbers(), 'kind = "category"'),
    "refused": (numbers(), 'kind = "integer"\nrange = [0, 50]'),
}


@pytest.mark.parametrize("late", LATE)
def test_what_cannot_be_found_is_refused_before_a_charge(tmp_path, late):
    values, entry = LATE[late]
    schema = Schema.from_toml(f'extra_columns = "discover"\n[columns.c]\n{entry}\n')
    assert charged(parquet(tmp_path, c=values, t=colours()), schema) == []
    assert charged(parquet(tmp_path, c=values, n=numbers()), schema) == []


def test_a_damaged_line_is_seen_before_a_charge(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n" + "x,y\n" * 500 + "x\n")
    schema = Schema.from_toml('[columns.a]\nkind = "category"\n[columns.b]\nkind = "category"\n')
    assert charged(path, schema) == []


def test_decimals_and_bins_are_found(tmp_path):
    values = pa.array(np.round(numbers() / 10, 1).astype(str)).cast(pa.decimal128(5, 1))
    schema = Schema.from_toml('extra_columns = "discover"\n[columns.n]\nkind = "integer"\nbins = 5\nspecial = [-1]\n')
    found = fitted(parquet(tmp_path, c=values, n=numbers()), schema).discovered_.schema
    assert (found.column("c").kind, found.column("n").bins) == ("real", 5)
    assert -1 in found.column("n").special


# What a schema says that it cost.


def test_the_stated_cost_does_not_follow_from_noisy_answers(tmp_path):
    def cost(**columns):
        run = Synthesizer(1.0, 1e-5, method="independent", journal=None, noise_seed=3)
        return run.find_schema(written(tmp_path, **columns), unit=False).discovery

    texts = np.array([f"text {place}" for place in range(ROWS)])
    assert cost(a=texts, b=texts) == cost(a=colours(), b=numbers())


def test_what_an_earlier_run_cost_is_kept(tmp_path):
    source = written(tmp_path, colour=colours(), n=numbers())
    schema = Schema.from_toml(
        '[discovery]\nepsilon = 0.5\ndelta = 1e-6\n[columns.colour]\nkind = "category"\n'
        '[columns.n]\nkind = "integer"\nrange = [0, 99]\npaid = ["range"]\n'
    )
    run = Synthesizer(1.0, 1e-5, method="independent", journal=None, noise_seed=3)
    found = run.find_schema(source, schema)
    assert found.discovery["epsilon"] == pytest.approx(1.5, rel=1e-6)
    assert found.discovery["delta"] == pytest.approx(1.1e-5)


def test_a_cost_is_never_written_smaller_than_it_is(tmp_path):
    from weft.cli.discovered_schema import write_found

    schema = Schema.from_toml('[discovery]\nepsilon = 0.12341\ndelta = 1e-6\n[columns.n]\nkind = "boolean"\n')
    write_found(schema, tmp_path / "found.toml", "a table")
    assert "at a cost of epsilon 0.124 at delta 1e-06" in (tmp_path / "found.toml").read_text()


# A ledger that was edited.


@pytest.mark.parametrize(
    "edited", [{"terms": {"threshold": 559, "rows": 1}}, {"sensitivity": 1.0}, {"slack": 1e-8}], ids=str
)
def test_a_ledger_with_a_lowered_threshold_is_refused(edited):
    ledger = Ledger(Budget(epsilon=1.0, delta=1e-5), "gaussian", Adjacency(rows_per_unit=5))
    ledger.charge(Charge.partitions("values", sensitivity=5.0, scale=100.0, columns=2, rows=5, slack=1e-7))
    told = ledger.to_dict()
    Ledger.from_dict(told)
    with pytest.raises(ModelFileError):
        Ledger.from_dict(told | {"entries": [told["entries"][0] | edited]})
