"""BSG: its model, its seeds, and what is said of them."""

import numpy as np
import pyarrow as pa
import pytest
from conftest import SCHEMA, make_table
from test_replay import seeded, synthesise, with_row_replaced, without_last

import weft
from weft.audit.replay import fresh, replay
from weft.domain import Domain
from weft.engines import MemoryEngine
from weft.errors import BudgetError, MethodError
from weft.models.bayesnet import BayesNet, Family
from weft.privacy.mechanisms import Mechanisms
from weft.records import Records
from weft.release import meaning
from weft.schema import Schema

SEEDS = {"omega": 2, "records": 50, "epsilon": 4.0}
DENIABLE = {"omega": 2, "records": 50, "guarantee": "none", "k": 5}


def fit(table, **settings):
    return weft.Synthesizer(**({"method": "bsg", "seed": 1} | settings)).fit(table, Schema.from_toml(SCHEMA))


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
        {"omega": 4, "records": 10},
        {"omega": 2},
        {"omega": 2, "records": 2_000_000},
        {"omega": 2, "records": 10, "k": 5},
        {"omega": 2, "records": 10, "guarantee": "none"},
        {"omega": 2, "records": 10, "guarantee": "record", "k": 5},
        {"omega": 2, "records": 10, "accounting": "pure"},
        {"buckets": {"nobody": 2}},
        {"buckets": {"age": 0}},
        {"buckets": {"ward": [0, 2, 0, 0, 0]}},
    ],
)
def test_options_that_make_no_sense_are_refused_before_anything_is_spent(options):
    with pytest.raises(MethodError, match=r"option|guarantee"):
        fit(make_table(50), **options)


def test_seeds_are_refused_where_the_accounting_does_not_hold():
    with pytest.raises(BudgetError, match="add-remove"):
        fit(make_table(2000), neighbours="replace-one", **SEEDS)


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


def test_plausible_deniability_is_never_called_differential_privacy_of_the_table():
    for options in (DENIABLE, DENIABLE | {"guarantee": "record", "epsilon0": 1.0}):
        synthesizer = fit(make_table(2000), **options)
        assert any("PLAUSIBLE DENIABILITY ONLY" in stamp for stamp in synthesizer.ledger_.stamps)
        statement = str(synthesizer.ledger_.spend_statement())
        assert "PLAUSIBLE DENIABILITY ONLY" in statement
        assert "of the model alone" in statement
        assert "NOT differentially private" in meaning(synthesizer.fitted_)


def test_released_records_survive_a_file(tmp_path):
    synthesizer = fit(make_table(20_000), **SEEDS)
    synthesizer.save(tmp_path / "m.weft")
    assert weft.load(tmp_path / "m.weft").sample(50, seed=3).equals(synthesizer.sample(50, seed=3))


@pytest.mark.parametrize("rows", [0, 1, 300, 20_000])
def test_seeded_runs_are_a_function_of_their_mechanisms(rows):
    table = make_table(rows + 1)
    assert replay(synthesise("bsg", **SEEDS), table, without_last(table), seeded()) == []
    program = synthesise("bsg", **DENIABLE)
    assert replay(program, table, without_last(table), seeded()) == []


def test_replay_catches_a_row_that_is_two_seeds(monkeypatch):
    groups = MemoryEngine.groups

    def doubled(self, names):
        prefixes, counts = groups(self, names)
        return prefixes, counts + (counts.sum() % 2)  # every count tells of every row

    table = make_table(20_000)
    monkeypatch.setattr(MemoryEngine, "groups", doubled)
    found = replay(synthesise("bsg", **SEEDS), table, without_last(table), seeded())
    assert any("moved" in finding for finding in found)


def test_seeded_runs_draw_fresh():
    assert fresh(synthesise("bsg", **SEEDS), make_table(20_000), Mechanisms) == []


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


SPLIT = {"split": [0.4, 0.3, 0.3]}


def test_disjoint_parts_each_have_the_whole_budget():
    synthesizer = fit(make_table(20_000), **(SEEDS | SPLIT))
    ledger = synthesizer.ledger_
    costs = {}
    for entry in ledger.entries:
        costs[entry.part] = costs.get(entry.part, 0.0) + entry.cost
    assert set(costs) == {"/1", "/2", "/3"}
    assert ledger.spent == max(costs.values()) <= ledger.capacity * (1 + 1e-9)
    assert sum(costs.values()) > 2 * ledger.capacity
    again = type(ledger).from_dict(ledger.to_dict())
    assert again.spent == ledger.spent


def test_a_split_model_has_the_size_of_the_whole_table():
    assert fit(make_table(20_000), epsilon=5.0, **SPLIT).model_.total == pytest.approx(20_000, rel=0.1)


def test_a_split_is_refused_for_units_of_several_rows():
    schema = Schema.from_toml('unit = "who"\nrows_per_unit = 2\n' + SCHEMA + '\n[columns.who]\nkind = "id"\n')
    table = make_table(100)
    table = table.append_column("who", pa.array(np.arange(100) // 2))
    with pytest.raises(BudgetError, match="split"):
        weft.Synthesizer(method="bsg", **SPLIT).fit(table, schema)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_split_runs_are_a_function_of_their_mechanisms(relation):
    table = make_table(3000)
    neighbour = without_last(table)
    settings = dict(SPLIT, neighbours=relation)
    if relation == "add-remove":
        settings |= SEEDS
    else:  # in place, as the coin stays with the place
        neighbour = pa.concat_tables([make_table(1, seed=99).cast(table.schema), table.slice(1)])
    assert replay(synthesise("bsg", **settings), table, neighbour, seeded()) == []


def test_replay_catches_parts_that_are_not_disjoint(monkeypatch):
    monkeypatch.setattr(MemoryEngine, "split", lambda self, shares, rng: [self] * len(shares))
    table = make_table(3000)
    found = replay(synthesise("bsg", **SPLIT), table, without_last(table), seeded())
    assert any("two parts" in finding for finding in found)
