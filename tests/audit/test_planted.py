"""The field's published failures, planted one by one in a small program: record and replay must catch each.

F-numbers are those of the field's published failures: F1 domain from data, F3 exact n, F4 sensitivity of a
probability used for a count, F5 sensitivity too small for some settings, F7 a row that counts more than once, F8 float
noise, F10 reused randomness, F11 wrong price, F14 neighbour relations mixed, F15 messages that tell.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from conftest import SCHEMA, make_table
from weft_lab.replay import find_reused_randomness, replay

from weft.curator import Curator
from weft.drafting.draft import draft
from weft.engines import open_engine
from weft.methods.independent import Independent
from weft.privacy import Adjacency, Budget, Charge, Ledger, Noise
from weft.privacy.mechanisms import GAUSSIAN, Mechanisms
from weft.schema import Schema

from .programs import seeded, synthesise, with_row_replaced, without_last


def run(recipe, *, curator=Curator, relation="add-remove", schema=None, ledger=Ledger):
    def program(data, release):
        opened = open_engine(data, schema(data) if schema else Schema.from_toml(SCHEMA))
        book = ledger(Budget(epsilon=1.0, delta=1e-5), "gaussian", Adjacency(relation))
        notes = []
        model = recipe.fit(curator(opened.engine, book, release), np.random.default_rng(0), notes.append)
        return {
            "model": model.to_arrays()[1],
            "total": model.total,
            "notes": [e.note for e in notes],
            "ledger": book.to_dict(),
        }

    return program


def findings(program, table=None, neighbour=None, mechanisms=None):
    table = make_table(60) if table is None else table
    return replay(program, table, without_last(table) if neighbour is None else neighbour, mechanisms or seeded())


def test_the_net_is_clean_without_a_planted_leak():
    assert findings(run(Independent())) == []


def test_f1_a_domain_read_from_the_data_is_caught():
    def from_data(data):
        return Schema.from_toml(draft(data, "planted"))

    table = make_table(60)
    ages = np.append(np.arange(59) % 50, 97)  # the last row alone holds the largest age
    table = table.set_column(0, "age", pa.array(ages, pa.int16()))
    assert findings(run(Independent(), schema=from_data), table)


@dataclass(frozen=True)
class ExactTotal(Independent):
    """Takes the synthetic size from the rows."""

    def fit(self, curator, rng, listener):
        model = super().fit(curator, rng, listener)
        return replace(model, total=float(curator._engine.count([()])[0]))


def test_f3_an_exact_row_count_is_caught():
    assert "total differs" in findings(run(ExactTotal()))


class Probabilities(Curator):
    """Divides a count's sensitivity by n, as for a proportion."""

    def _marginal_sensitivity(self):
        return 1 / 60


def test_f4_a_count_with_the_sensitivity_of_a_proportion_is_caught():
    assert any("declared" in finding for finding in findings(run(Independent(), curator=Probabilities)))


@dataclass(frozen=True)
class AskGaps(Independent):
    """Asks for the distance to an empty table."""

    def fit(self, curator, rng, listener):
        from weft.marginals.marginal import Marginal

        empty = [Marginal((name,), np.zeros(curator.domain.size(name))) for name in curator.domain]
        curator.gaps(empty, share=0.1)
        noisy = curator.measure([(name,) for name in curator.domain], share=0.5)
        from weft.models.independent_model import IndependentModel

        return IndependentModel(curator.domain, 10.0, tuple(np.maximum(m.table, 0) + 1.0 for m in noisy))


@dataclass(frozen=True)
class HalvedAdjacency(Adjacency):
    def gap(self):
        return super().gap() / 2


class HalvedLedger(Ledger):
    def __init__(self, budget, accounting, adjacency, **settings):
        super().__init__(budget, accounting, HalvedAdjacency(adjacency.relation), **settings)


def test_f5_a_halved_sensitivity_is_caught():
    assert findings(run(AskGaps())) == []
    assert any("declared" in finding for finding in findings(run(AskGaps(), ledger=HalvedLedger)))


class CountsMissingTwice(Curator):
    """A row with a missing value lands in two cells."""

    def _count(self, cliques):
        tables = super()._count(cliques)
        for table in tables:
            if table.ndim == 1:
                table[0] += table[-1]
        return tables


def test_f7_a_row_that_counts_twice_is_caught():
    table = make_table(60)
    odd = pa.table({"age": [5], "sex": ["f"], "ward": [None], "cost": [math.nan]}).cast(table.schema)
    with_odd = pa.concat_tables([table, odd])
    assert findings(run(Independent()), with_odd) == []
    assert any("declared" in f for f in findings(run(Independent(), curator=CountsMissingTwice), with_odd))


class FloatNoise:
    """Adds a real number to a count."""

    private = False

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def __call__(self, charge, exact):
        return [a + self.rng.normal(0, s, a.shape) for a, s in zip(exact, charge.scales, strict=True)]


def test_f8_float_noise_is_caught():
    assert any("not integers" in finding for finding in findings(run(Independent()), mechanisms=FloatNoise()))


def test_f10_reused_randomness_is_caught():
    assert find_reused_randomness(run(Independent()), make_table(60), seeded) != []
    assert find_reused_randomness(run(Independent()), make_table(60), Mechanisms) == []
    assert find_reused_randomness(synthesise("dualquery"), make_table(60), seeded) == ["two runs drew the same noise"]


class SharedNoise(Mechanisms):
    """Draws one noise and adds it to every table."""

    def __call__(self, charge, exact):
        noise = GAUSSIAN.draw(charge.scales[0], max(a.size for a in exact), self._noise)
        return [a + noise[: a.size].reshape(a.shape) for a in exact]


def test_f10_noise_shared_between_tables_is_caught():
    assert any(
        "same noise" in finding for finding in find_reused_randomness(run(Independent()), make_table(60), SharedNoise)
    )


class Undercharging(Ledger):
    """Books every question at half its price."""

    def charge(self, charge):
        return replace(super().charge(charge), cost=charge.rho / 2)


def test_f11_an_underpriced_question_is_caught():
    assert any("charged" in finding for finding in findings(run(Independent(), ledger=Undercharging)))


def test_f14_mixed_neighbour_relations_are_caught():
    """Priced for a row more or less, but run on tables with a row replaced."""
    table = make_table(60)
    neighbour = with_row_replaced(table)
    assert findings(run(Independent(), relation="replace-one"), table, neighbour) == []
    assert any("declared" in finding for finding in findings(run(Independent()), table, neighbour))


@dataclass(frozen=True)
class Chatty(Independent):
    """Tells the largest exact count in a progress note."""

    def fit(self, curator, rng, listener):
        from weft.progress import report_stage

        with report_stage(listener, "chat") as work:
            work.advance(note=f"seen {curator._engine.count([()])[0]}")
        return super().fit(curator, rng, listener)


def test_f15_a_message_that_tells_is_caught():
    assert "notes differs" in findings(run(Chatty()))


@dataclass(frozen=True)
class Nervous(Independent):
    """Fails on some rows, which is itself an answer."""

    def fit(self, curator, rng, listener):
        if curator._engine.count([()])[0] < 60:
            raise ValueError("need at least 60 rows")
        return super().fit(curator, rng, listener)


def test_f15_a_failure_that_depends_on_rows_is_caught():
    assert "failure differs" in findings(run(Nervous()))


class Telling(Curator):
    """Quotes an exact count in an error."""

    def measure(self, cliques, share, weights=None):
        raise ValueError(f"too few rows: {self._engine.count([()])[0]}")


def test_f15_errors_that_quote_counts_are_caught():
    assert "failure differs" in findings(run(Independent(), curator=Telling))


class Weak(Mechanisms):
    """Draws a tenth of the noise that was paid for."""

    def __call__(self, charge, exact):
        return super().__call__(replace(charge, scale=tuple(s / 10 for s in charge.scales)), exact)


def test_noise_smaller_than_declared_is_caught():
    weak = findings(run(Independent()), mechanisms=Weak(Noise.seeded(0)))
    assert any("smaller than declared" in finding for finding in weak)


class OffTheBooks(Curator):
    """Answers one question without entering it."""

    def measure(self, cliques, share, weights=None):
        free = Charge.gaussian("free", sensitivity=1.0, scale=1.0, draws=1)
        self._release(free, self._count([()]))
        return super().measure(cliques, share, weights)


def test_f11_a_question_off_the_books_is_caught():
    assert any("do not match" in finding for finding in findings(run(Independent(), curator=OffTheBooks)))


@dataclass(frozen=True)
class Curious(Independent):
    """Asks another question when the rows look odd."""

    def fit(self, curator, rng, listener):
        if curator._engine.count([()])[0] < 60:
            curator.total(share=0.01)
        return super().fit(curator, rng, listener)


def test_control_flow_that_depends_on_rows_is_caught():
    assert any("query" in finding for finding in findings(run(Curious())))


def test_charges_carry_what_the_player_compares():
    charge = Charge.gaussian("a", sensitivity=1.0, scale=2.0, draws=3)
    assert charge != Charge.gaussian("a", sensitivity=1.0, scale=2.1, draws=3)
