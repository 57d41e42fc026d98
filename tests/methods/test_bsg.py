"""BSG: its model, its seeds, and what is said of them."""

import math

import numpy as np
import pyarrow as pa
import pytest
from audit.programs import seeded, synthesise, with_row_replaced, without_last
from conftest import SCHEMA, make_table
from weft_lab.methods.bayesnet import BayesNet, Family
from weft_lab.replay import find_reused_randomness, replay

import weft
from weft.engines import MemoryEngine
from weft.errors import BudgetError, DataError, MethodError
from weft.marginals.domain import Domain
from weft.marginals.records import Records
from weft.privacy import Budget
from weft.privacy.deniability import MAX_DENIABLE_ROWS
from weft.privacy.mechanisms import Mechanisms
from weft.release.card import NOBODY, SEEDED, card_markdown
from weft.schema import Schema

SEEDS = {"omega": 2, "rows": 50, "epsilon": 4.0}


def fit(table, release=None, **settings):
    synthesizer = weft.Synthesizer(**({"method": "bsg", "seed": 1} | settings))
    return synthesizer.fit(table, Schema.from_toml(SCHEMA), release=release)


class Untouched(Mechanisms):
    """Remembers what was released: nothing, where a run is refused in time."""

    def __init__(self):
        super().__init__()
        self.questions = []

    def __call__(self, charge, exact):
        self.questions.append(charge.question)
        return super().__call__(charge, exact)


def without_first(table):
    return table.slice(1)


def test_buckets_are_what_children_see():
    model = fit(make_table(3000), epsilon=20.0, buckets={"age": 3, "ward": [0, 0, 1, 1, 1]}).model_
    assert model.width("age") == 4
    assert model.width("ward") == 2
    for family in model.families:
        assert len(family.table) == np.prod([model.width(name) for name in family.parents], initial=1)


def test_a_posterior_may_be_drawn():
    assert fit(make_table(300), parameters="draw").sample(10).num_rows == 10


def test_dependence_is_found():
    table = make_table(5000)
    made = fit(table, epsilon=10.0).model_.marginal(["age", "ward"])
    alone = np.multiply.outer(made.sum(axis=1), made.sum(axis=0)) / made.sum()
    assert np.abs(made - alone).sum() / made.sum() > 0.5


@pytest.mark.parametrize(
    "options",
    [
        {"omega": 5, "rows": 10},
        {"omega": 0, "rows": 10},
        {"omega": "3-2", "rows": 10},
        {"omega": "some", "rows": 10},
        {"omega": [1, 2, 3], "rows": 10},
        {"omega": 2.5, "rows": 10},
        {"omega": True, "rows": 10},
        {"omega": 2},
        {"omega": 2, "rows": 2_000_000},
        {"omega": 2, "rows": 10.5},
        {"omega": 2, "rows": 10, "k": 5},
        {"omega": 2, "rows": 10, "share_seeds": 0.0},
        {"omega": 2, "rows": 10, "share_seeds": 1.0},
        {"omega": 2, "rows": 10, "share_seeds": math.nan},
        {"share_total": 0.0},
        {"share_structure": 0.0},
        {"share_total": 0.5, "share_structure": 0.5},
        {"split": [0.4, 0.3, 0.3]},
        {"split": [0.0, 0.6, 0.6]},
        {"split": [0.0, 0.5]},
        {"split": [0.0, 0.0, 0.5]},
        {"split": [0.0, math.nan, 0.5]},
        {"omega": 2, "rows": 10, "split": [0.0, 0.5, 0.5]},
        {"guarantee": "record"},
        {"guarantee": "deniability"},
        {"guarantee": "deniability", "omega": 4, "rows": 10, "k": 5},
        {"guarantee": "deniability", "omega": 2, "rows": 10},
        {"guarantee": "deniability", "omega": 2, "k": 5},
        {"omega": 2, "rows": 10, "max_plausible": 100},
        {"omega": 2, "rows": 10, "max_check_plausible": 100},
        {"model": "mst"},
        {"model": "mst", "omega": 2, "rows": 10},
        {"model": "privbayes", "omega": 2, "rows": 10, "k": 5, "guarantee": "deniability"},
        {"model": "nothing", "omega": 2, "rows": 10, "k": 5, "guarantee": "deniability"},
        {"model_options": {"share_scores": 0.2}},
        {"omega": 2, "rows": 10, "accounting": "pure"},
        {"buckets": {"nobody": 2}},
        {"buckets": {"age": 0}},
        {"buckets": {"ward": [0, 2, 0, 0, 0]}},
        {"buckets": {"age": 1.5}},
        {"buckets": "{age=10}"},
        {"model_options": "{look=0.2}"},
        {"split": 0.5},
        {"split": "half"},
        {"share_structure": "much"},
        {"theta": 0},
        {"prior": -1},
        {"parameters": "median"},
        {"omega": 2, "rows": 10, "k": 5, "epsilon0": "one"},
    ],
)
def test_options_that_make_no_sense_are_refused_before_anything_is_spent(options):
    asked = Untouched()
    with pytest.raises(MethodError, match=r"option|no method"):
        fit(make_table(50), asked, **options)
    assert not asked.questions


def test_seeds_are_refused_where_the_accounting_does_not_hold():
    with pytest.raises(BudgetError, match="add-remove"):
        fit(make_table(2000), neighbours="replace-one", **SEEDS)


@pytest.mark.parametrize(
    "budget",
    [Budget(rho=0.1), Budget(mu=0.5), Budget(epsilon=math.inf, insecure=True), Budget(epsilon=30.0, insecure=True)],
)
def test_seeds_are_refused_where_no_delta_can_pay_for_them(budget, tmp_path):
    asked, journal = Untouched(), tmp_path / "journal"
    with pytest.raises(BudgetError, match="budget in epsilon"):
        fit(make_table(2000), asked, budget=budget, journal=journal, **{**SEEDS, "epsilon": None})
    assert not asked.questions
    assert not journal.exists()  # which is written with the first charge


def test_a_given_test_that_cannot_be_is_refused_before_anything_is_spent():
    for k, epsilon0 in ((MAX_DENIABLE_ROWS, 1.0), (5.5, 1.0), (5, 0.0)):
        asked = Untouched()
        with pytest.raises((BudgetError, MethodError), match=r"privacy test|whole number|epsilon0 must lie"):
            fit(make_table(50), asked, k=k, epsilon0=epsilon0, **SEEDS)
        assert not asked.questions


def test_tables_whose_weights_would_overflow_are_refused_before_anything_is_spent(monkeypatch):
    count = MemoryEngine.count
    rows = [MAX_DENIABLE_ROWS]
    monkeypatch.setattr(
        MemoryEngine, "count", lambda self, cliques: [np.array(rows[0])] if cliques == [()] else count(self, cliques)
    )
    asked = Untouched()
    with pytest.raises(DataError, match="rows"):
        fit(make_table(50), asked, **SEEDS)
    assert not asked.questions
    rows[0] -= 1
    fit(make_table(50), **SEEDS)


def ledger_of(synthesizer):
    return {entry.mechanism: entry for entry in synthesizer.ledger_.entries}


def test_exactly_the_records_asked_for_leave_and_the_ledger_prices_them():
    synthesizer = fit(make_table(20_000), **SEEDS)
    seeds = ledger_of(synthesizer)["seeded"]
    assert seeds.draws == 50
    assert 0 < seeds.cost < synthesizer.ledger_.capacity / 2
    assert synthesizer.ledger_.spent <= synthesizer.ledger_.capacity
    assert not synthesizer.ledger_.stamps
    assert synthesizer.sample().num_rows == 50
    assert synthesizer.sample(20, seed=1).num_rows == 20
    with pytest.raises(MethodError, match="no more"):
        synthesizer.sample(51)


def test_without_enough_seeds_everything_is_drawn_and_nothing_fails():
    synthesizer = fit(make_table(60), **SEEDS)
    assert "seeded" not in ledger_of(synthesizer)
    assert synthesizer.sample().num_rows == 50
    assert NOBODY in card_markdown(synthesizer.fitted_, 50, name="out.csv")


def test_a_card_says_that_records_begin_with_columns_of_private_rows():
    text = card_markdown(fit(make_table(20_000), **SEEDS).fitted_, 50, name="out.csv")
    assert SEEDED in text
    assert "belongs to a person" not in text


def test_released_records_survive_a_file(tmp_path):
    synthesizer = fit(make_table(20_000), **SEEDS)
    synthesizer.save(tmp_path / "m.weft")
    assert weft.load(tmp_path / "m.weft").sample(50, seed=3).equals(synthesizer.sample(50, seed=3))


@pytest.mark.parametrize("neighbour", [without_first, without_last])
@pytest.mark.parametrize("rows", [0, 1, 300, 20_000])
def test_seeded_runs_are_a_function_of_their_mechanisms(rows, neighbour):
    table = make_table(rows + 1)
    assert replay(synthesise("bsg", **SEEDS), table, neighbour(table), seeded()) == []


def test_replay_catches_a_row_that_is_two_seeds(monkeypatch):
    groups = MemoryEngine.groups

    def doubled(self, names):
        prefixes, counts = groups(self, names)
        return prefixes, counts + (counts.sum() % 2)  # every count tells of every row

    table = make_table(20_000)
    monkeypatch.setattr(MemoryEngine, "groups", doubled)
    found = replay(synthesise("bsg", **SEEDS), table, without_last(table), seeded())
    assert any("changed" in finding for finding in found)


def test_seeded_runs_draw_fresh():
    assert find_reused_randomness(synthesise("bsg", **SEEDS), make_table(20_000), Mechanisms) == []


def test_replace_one_neighbours_with_bucketed_entropies():
    table = make_table(300)
    program = synthesise("bsg", neighbours="replace-one", buckets={"age": 2})
    assert replay(program, table, with_row_replaced(table), seeded()) == []


def test_plausible_seeds_are_those_that_share_the_prefix():
    """The paper's definition, record by record: seeds whose probability of giving y is in y's own class."""
    rng = np.random.default_rng(2)
    domain = Domain(("a", "b", "c"), (2, 3, 2))
    net = BayesNet(
        domain,
        1.0,
        (
            Family("a", (), rng.dirichlet(np.ones(2), 1)),
            Family("b", ("a",), rng.dirichlet(np.ones(3), 2)),
            Family("c", ("a", "b"), rng.dirichlet(np.ones(2), 6)),
        ),
    )
    seeds = np.column_stack([rng.integers(0, size, 40) for size in domain.shape])

    def chance(y, seed, kept):
        """Pr{y = M(seed)}: the kept attributes agree, and the others are drawn given what y has before them."""
        if (y[:kept] != seed[:kept]).any():
            return 0.0
        rows = [0, y[0], y[0] * 3 + y[1]]
        return np.prod([net.families[i].table[rows[i], y[i]] for i in range(kept, 3)])

    for kept in (1, 2):
        prefixes, counts = MemoryEngine(Records.of(domain, seeds.T)).groups(domain.names[:kept])
        for seed in seeds[:10]:
            known = {name: np.array([seed[i]], np.uint8) for i, name in enumerate(domain.names[:kept])}
            y = np.array([column[0] for column in net.complete(known, 1, rng).columns], int)
            for gamma in (1.5, 4.0):
                own = np.floor(-np.log(chance(y, seed, kept)) / np.log(gamma))
                chances = np.array([chance(y, other, kept) for other in seeds])
                with np.errstate(divide="ignore"):
                    plausible = (np.floor(-np.log(chances) / np.log(gamma)) == own).sum()
                assert plausible == counts[(prefixes == y[:kept]).all(axis=1)][0]


def test_grouping_keeps_apart_what_one_number_cannot_hold():
    sizes = (60_000,) * 6
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 60_000, (30, 6))[rng.integers(0, 30, 500)]
    prefixes, counts = MemoryEngine(Records.of(Domain(tuple("abcdef"), sizes), rows.T)).groups("abcdef")
    distinct, expected = np.unique(rows, axis=0, return_counts=True)
    np.testing.assert_array_equal(prefixes, distinct)
    np.testing.assert_array_equal(counts, expected)


def test_a_stream_of_rows_has_the_same_seeds(tmp_path):
    import pyarrow.parquet as pq

    table = make_table(5000)
    pq.write_table(pa.concat_tables([table.slice(0, 1), table.slice(1)]), tmp_path / "t.parquet")
    settings = SEEDS | {"noise_seed": 4}
    streamed = fit(str(tmp_path / "t.parquet"), engine="stream", **settings)
    assert streamed.sample(50, seed=0).equals(fit(table, **settings).sample(50, seed=0))


def test_a_model_that_is_no_method_is_said_to_be_none():
    with pytest.raises(MethodError, match=r"no method 'mts'. Did you mean 'mst'"):
        fit(make_table(60), **SEEDS | {"model": "mts", "k": 5, "guarantee": "deniability"})


def test_seeds_are_grown_beside_wide_columns():
    import pyarrow as pa

    from weft import Schema, Synthesizer

    schema = Schema.from_toml(
        '[columns.a]\nkind = "integer"\nrange = [0, 200]\n[columns.b]\nkind = "category"\nvalues = ["x", "y"]'
    )
    rows = pa.table({"a": [i % 150 for i in range(3000)], "b": ["x", "y"] * 1500})
    made = Synthesizer(2.0, method="bsg", omega=1, rows=50, journal=None, noise_seed=1).fit(rows, schema)
    assert made.ledger_.used <= 1 + 1e-9
    assert len(made.sample(seed=1)) == 50
