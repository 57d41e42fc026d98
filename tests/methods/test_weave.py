"""Weave's automatic choices, and what it makes of small tables."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import by_turns
from recipes import CHAIN, LINKS, chained, run

import weft
from weft.curator import Curator
from weft.encoding import Codec
from weft.errors import MethodError
from weft.evaluation.metrics import k_way
from weft.marginals.domain import Domain
from weft.marginals.marginal import Marginal, NoisyMarginal
from weft.marginals.noise_error import compute_projected_error, group_cells_by_size
from weft.marginals.pooling import pool_measurements
from weft.marginals.records import Records
from weft.marginals.simplex import project_to_simplex
from weft.methods import AUTO, BEST, resolve_method_name
from weft.methods.common.options import options_of
from weft.methods.weave.batch_selection import Batches, choose_budgets
from weft.methods.weave.dense_model import DenseField, sampling_error
from weft.methods.weave.fine_marginals import find_lowest_unmeasured_order
from weft.methods.weave.tuning import WeaveTuning
from weft.methods.weave.weave import Weave
from weft.schema import Schema

BY_COLUMN = [np.array([0.2, 0.8]), np.array([0.5, 0.4, 0.1]), np.array([0.7, 0.3])]


def binary_table(n=4000, seed=0):
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    hidden = rng.random(n) < 0.4
    return pa.table({f"c{i}": np.where(rng.random(n) < 0.15, ~hidden, hidden).astype(np.int8) for i in range(8)})


def offers(order=6):
    return Batches(order, 200_000, WeaveTuning())


def compare(method, table, schema, epsilon, orders, **options):
    codec = Codec(schema, table.schema)
    real = codec.encode(table)
    made = weft.Synthesizer(epsilon, method=method, seed=1, **options).fit(table, schema).sample(seed=2)
    return [k_way(real, codec.encode(made), k).tvd for k in orders]


def test_the_budget_is_for_rows_columns_and_batches():
    """Every batch asks first, with a twentieth of its share; half of what the columns left is for the pairs."""
    made = run(Weave(), chained(), epsilon=4.0)
    (first, columns), rest = made.trace[:2], made.trace[2:]
    assert [first, columns] == [("total", pytest.approx(0.02)), ("marginals", pytest.approx(0.18))]
    at = [purpose for purpose, _ in rest].index("choice")  # one draw before the second batch, which finds nothing
    assert rest[at : at + 2] == [("choice", pytest.approx(0.01 / 3)), ("scores", pytest.approx(0.005 / 3))]
    del rest[at : at + 2]
    starts = [i for i, (purpose, _) in enumerate(rest) if purpose == "scores"]
    assert len(starts) > 1 and starts[0] == 0  # columns were not measured again
    batches = [rest[i:j] for i, j in zip(starts, [*starts[1:], len(rest)], strict=True)]
    shares = [sum(share for _, share in batch) for batch in batches]
    whole = [0.4, *[0.4 / (len(batches) - 1)] * (len(batches) - 1)]
    assert shares == pytest.approx([whole[0], whole[1] - 0.005, *whole[2:]])
    for batch, share in zip(batches, whole, strict=True):
        assert [purpose for purpose, _ in batch[1:]] == ["marginals"] * len(batch[1:])
        assert batch[0][1] == pytest.approx(0.05 * share)


def test_dependent_pairs_are_measured_and_others_are_not():
    made = run(Weave(order=2), chained(), epsilon=0.5, exact=True)
    pairs = {c for c in made.measured if len(c) == 2}
    assert pairs >= LINKS and not any("d" in pair for pair in pairs)


def fitted(table, sizes, epsilon=1.0, **options):
    return weft.Synthesizer(epsilon, method="weave", journal=None, **options).fit(table, Schema.from_domain(sizes))


def test_given_marginals_are_measured_whatever_they_are_worth():
    """The last column has nothing to do with the others: nobody would ask for it, unless told to."""
    for marginals in ([["a", "d"]], [["a", "c", "d"]]):
        made = run(Weave(order=2, marginals=marginals), chained(), epsilon=0.5, exact=True)
        assert tuple(marginals[0]) in made.measured and {c for c in made.measured if len(c) == 2} >= LINKS


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_given_marginals_get_at_least_their_part_of_the_pairs(part):
    sizes, pair = {f"c{i}": 2 for i in range(8)}, ("c0", "c1")
    made = fitted(binary_table(), sizes, 0.5, marginals=[pair], order=2, tuning={"part_marginals": part})
    pairs = [m for m in made.fitted_.measured if len(m.clique) == 2]
    (given,) = (m for m in pairs if m.clique == pair)
    # Interactions of pairs of binary columns: the noise of each goes with one over the root of its price.
    assert given.sigma**-2 >= 0.999 * part * sum(m.sigma**-2 for m in pairs)


def test_emphasis_buys_precision():
    sigmas = []
    for factor in (1.0, 30.0):
        made = fitted(binary_table(), {f"c{i}": 2 for i in range(8)}, 0.5, marginals=[("c0", "c1")], emphasis=[factor])
        sigmas += [m.sigma for m in made.fitted_.measured if m.clique == ("c0", "c1")]
    assert sigmas[1] < 0.7 * sigmas[0]


def test_a_given_triple_is_not_measured_again_as_an_interaction():
    """A whole table and what goes beyond pairs have other sums: their mean would be neither."""
    import pyarrow as pa

    rng = np.random.default_rng(0)
    names = "abcdef"
    hidden = rng.integers(0, 3, 20_000)
    table = pa.table({name: np.where(rng.random(20_000) < 0.5, hidden, rng.integers(0, 3, 20_000)) for name in names})
    made = fitted(
        table, dict.fromkeys(names, 3), 4.0, order=3, marginals=[list("abc"), list("def")], emphasis=[0.01, 1.0]
    )
    orders = {}
    for m in made.fitted_.measured:
        orders.setdefault(m.clique, set()).add(m.order)
    assert all(len(found) == 1 for found in orders.values()) and ("a", "b", "c") in orders
    with pytest.raises(ValueError, match="do not add up"):
        pool_measurements(NoisyMarginal(("a",), np.ones(2), 1.0), NoisyMarginal(("a",), np.ones(2), 1.0, order=1))


def test_given_marginals_are_measured_where_columns_would_take_all_or_pairs_are_too_large():
    import pyarrow as pa

    rng = np.random.default_rng(0)
    few = pa.table({name: rng.integers(0, 30, 30) for name in "abc"})
    made = fitted(few, dict.fromkeys("abc", 30), 0.1, marginals=[["a", "b"]])
    assert ("a", "b") in {m.clique for m in made.fitted_.measured}
    wide = pa.table({name: rng.integers(0, 500, 5000) for name in "ab"})
    made = fitted(wide, dict.fromkeys("ab", 500), 10.0, marginals=[["a", "b"]])
    assert ("a", "b") in {m.clique for m in made.fitted_.measured}


@pytest.mark.parametrize(
    ("sizes", "epsilon", "options", "told"),
    [
        (20, 1.0, {"marginals": [["a", "b"], ["b", "c"]], "emphasis": [1e-6, 1e6]}, "emphasis"),
        (20, 0.1, {"marginals": [["a"], ["b", "c"]], "emphasis": [1e6, 1e-6]}, "emphasis"),
        (700, 1.0, {"marginals": [["a", "b", "c"]]}, "cells"),
    ],
)
def test_given_marginals_that_cannot_be_measured_are_refused_before_a_charge(sizes, epsilon, options, told, tmp_path):
    import pyarrow as pa

    rng = np.random.default_rng(0)
    table = pa.table({name: rng.integers(0, sizes, 500) for name in "abc"})
    journal = tmp_path / "run.jsonl"
    with pytest.raises(weft.errors.WeftError, match=told):
        weft.Synthesizer(epsilon, method="weave", journal=journal, **options).fit(
            table, Schema.from_domain(dict.fromkeys("abc", sizes))
        )
    assert not journal.exists() or "charge" not in journal.read_text()


def test_of_many_candidates_what_noise_may_have_made_is_not_believed():
    """Columns without any relation: of all that noise makes look wrong, few are measured."""
    rng = np.random.default_rng(0)
    records = Records.of(CHAIN, [rng.integers(0, size, 6000) for size in CHAIN.shape])
    made = [run(Weave(order=2), records, epsilon=0.3, seed=seed).measured for seed in range(12)]
    assert sum(len(c) == 2 for each in made for c in each) < 12 * 6 / 4


def test_where_no_pair_is_worth_it_triples_still_may_be():
    """Columns in which each third follows from two, and no pair tells anything: what pairs did not take is theirs."""
    rng = np.random.default_rng(0)
    first, second, other = rng.integers(0, 2, (3, 20_000))
    columns = [first, second, first ^ second, other, other ^ (rng.random(20_000) < 0.3)]
    records = Records.of(Domain(tuple("abcde"), (2,) * 5), [column.astype(np.uint8) for column in columns])
    alone = Records.of(Domain(tuple("abc"), (2,) * 3), list(records.columns[:3]))
    for table in (records, alone):
        made = [run(Weave(), table, epsilon=1.0, seed=seed) for seed in range(4)]
        assert all(any({"a", "b", "c"} <= set(c) for c in each.measured) for each in made)
        assert all(sum(share for _, share in each.trace) == pytest.approx(1.0) for each in made)


def test_noise_is_foretold_as_it_is_drawn_under_both_relations():
    """Columns without any relation look no more related where a row may be replaced: all noise is larger, and known."""
    rng = np.random.default_rng(0)
    records = Records.of(Domain(tuple("abcdefgh"), (3,) * 8), [rng.integers(0, 3, 6000) for _ in range(8)])
    bought = {}
    for relation, epsilon in (("add-remove", 0.3), ("replace-one", 0.6)):  # distances have the same noise
        made = [run(Weave(order=2), records, epsilon, seed=seed, neighbours=relation).measured for seed in range(10)]
        bought[relation] = sum(len(c) == 2 for each in made for c in each)
    assert bought["replace-one"] < 1.5 * bought["add-remove"] + 10


def test_the_automatic_choice_is_weave():
    table, schema = binary_table(200), Schema.from_domain({f"c{i}": 2 for i in range(8)})
    assert (
        weft.Synthesizer(2.0, journal=None).fit(table, schema).fitted_.method
        == resolve_method_name(AUTO)
        == BEST
        == "weave"
    )


def test_it_beats_independent_columns_on_dependent_ones():
    table, schema = binary_table(), Schema.from_domain({f"c{i}": 2 for i in range(8)})
    ours = compare("weave", table, schema, 1.0, (2, 3, 5))
    theirs = compare("independent", table, schema, 1.0, (2, 3, 5))
    assert all(a < b / 3 for a, b in zip(ours, theirs, strict=True))


def test_it_is_no_worse_than_independent_columns_where_nothing_can_be_learned():
    import pyarrow as pa

    rng = np.random.default_rng(0)
    sizes = {f"c{i}": 40 for i in range(6)}
    table = pa.table({name: rng.geometric(0.1, 1500).clip(1, 40).astype(np.int16) - 1 for name in sizes})
    schema = Schema.from_domain(sizes)
    ours, theirs = (
        np.mean([compare(method, table, schema, 0.3, (1, 2, 3)) for _ in range(4)], axis=0)
        for method in ("weave", "independent")
    )
    assert np.all(ours < 1.1 * theirs)


def test_a_tree_takes_the_place_of_chains_where_it_holds_all_tables_and_is_no_worse():
    """Without the search for high orders, which finds more where the model is worse."""
    table, schema = binary_table(), Schema.from_domain({f"c{i}": 2 for i in range(8)})
    kinds = {
        cells: type(
            weft.Synthesizer(1.0, method="weave", tuning={"max_tree": cells}, seed=1).fit(table, schema).fitted_.model
        )
        for cells in (0, 1 << 21)
    }
    assert [kind.__name__ for kind in kinds.values()] == ["ChainsModel", "MrfModel"]
    exact, chains = (
        np.mean(
            [
                compare(
                    "weave", table, schema, 1.0, (2, 3, 5), tuning={"max_tree": cells, "searches": 0}, noise_seed=seed
                )
                for seed in range(6)
            ],
            axis=0,
        )
        for cells in (1 << 21, 0)
    )
    assert np.all(exact < 1.2 * chains)


def test_before_any_pair_the_model_is_the_product_of_its_columns():
    domain = Domain(("a", "b", "c"), (2, 3, 2))
    columns = [Marginal((name,), 10 * table) for name, table in zip(domain, BY_COLUMN, strict=True)]
    woven = DenseField(domain, 10.0, chains=100, rounds=1, max_cells=100, gaussian=True, rng=np.random.default_rng(0))
    woven.take(columns, [NoisyMarginal(m.clique, m.table, 1.0) for m in columns])
    (pair, triple), errors = woven.expected([("a", "c"), ("a", "b", "c")])
    assert np.allclose(pair, 10 * np.outer(BY_COLUMN[0], BY_COLUMN[2]))
    assert np.allclose(triple, 10 * np.einsum("i,j,k", *BY_COLUMN))
    assert not errors.any()


def test_exact_and_woven_tables_agree_up_to_the_error_that_is_stated():
    domain = Domain(("a", "b", "c"), (2, 3, 2))
    rng = np.random.default_rng(0)
    joint = Marginal(("a", "b", "c"), 1e4 * rng.dirichlet(np.ones(12)).reshape(2, 3, 2))
    pairs = [Marginal(c, joint.table.sum(axis=axis)) for c, axis in ((("a", "b"), 2), (("b", "c"), 0))]
    seen = {}
    for cells in (0, 10_000):
        woven = DenseField(domain, 1e4, chains=50_000, rounds=12, max_cells=cells, gaussian=True, rng=rng)
        woven.take(pairs, [NoisyMarginal(m.clique, m.table, 1.0) for m in pairs])
        (seen[cells],), (error,) = woven.expected([("a", "c")])
        assert (error > 0) == (cells == 0)
        if cells == 0:
            sampled = error
    assert np.abs(seen[0] - seen[10_000]).sum() < 3 * sampled


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((2,) * 5, {}),
        ((2, 3, 2, 3, 4), {"tuning": {"batches": 3}}),
        ((5, 4), {"max_cells": 10}),
        ((2, 2, 2), {"tuning": {"max_tree": 0}}),
    ],
)
def test_a_batch_without_candidates_is_spent_on_what_is_known(sizes, options):
    import pyarrow as pa

    rng = np.random.default_rng(0)
    names = {f"c{i}": size for i, size in enumerate(sizes)}
    table = pa.table({name: rng.integers(0, size, 50_000) for name, size in names.items()})
    fitted = weft.Synthesizer(3.0, method="weave", **options).fit(table, Schema.from_domain(names))
    assert fitted.ledger_.spent == pytest.approx(fitted.ledger_.capacity, rel=1e-6)


def test_a_candidate_too_large_for_the_tree_is_looked_at_on_chains():
    """Three hubs of 60 values, paired with each other and with leaves: a tree of 219,600 cells, but not of leaves."""
    sizes = {f"h{i}": 60 for i in range(3)} | {f"l{i}{j}": 5 for i in range(3) for j in range(4)}
    domain = Domain(tuple(sizes), tuple(sizes.values()))
    cliques = [("h0", "h1"), ("h0", "h2"), ("h1", "h2"), *((f"h{i}", f"l{i}{j}") for i in range(3) for j in range(4))]
    tables = [Marginal(c, np.full(domain.sizes(c), 100 / domain.cells(c))) for c in cliques]
    woven = DenseField(
        domain, 100.0, chains=100, rounds=1, max_cells=1 << 21, gaussian=True, rng=np.random.default_rng(0)
    )
    woven.take(tables, [NoisyMarginal(m.clique, m.table, 1.0) for m in tables])
    (found,), (error,) = woven.expected([("l00", "l01", "l02", "l03", "l10", "l20")])
    assert found.sum() == pytest.approx(100)
    assert error > 0


def test_pairs_alone_spend_the_same_budget_as_all_orders():
    table, schema = binary_table(), Schema.from_domain({f"c{i}": 2 for i in range(8)})
    for order in (2, 5):
        ledger = (
            weft.Synthesizer(1.0, method="weave", order=order, tuning={"matching_rounds": 2}).fit(table, schema).ledger_
        )
        assert ledger.spent == pytest.approx(ledger.capacity, rel=1e-6)


@pytest.mark.parametrize(
    ("sizes", "total", "orders"), [((2,) * 8, 5e3, [2, 3]), ((2,) * 8, 1e6, [2, 6, 6]), ((2,) * 8, 1e2, [2])]
)
def test_triples_come_before_larger_cliques_where_noise_allows_no_more(sizes, total, orders):
    domain = Domain(tuple(f"c{i}" for i in range(len(sizes))), sizes)
    plan = offers().plan(Public(domain), [], total, 0.01, np.random.default_rng(0))
    assert [max(map(len, offered), default=0) for offered, _ in plan] == orders


def test_triples_are_left_where_records_for_very_many_rows_would_wait_for_them():
    """Columns so wide that few cliques of four are allowed, whatever the rows."""
    domain = Domain(tuple(f"c{i:02}" for i in range(20)), (25,) * 20)
    for rows, orders in ((2.5e6, [2, 3]), (2.8e6, [2])):
        plan = offers().plan(Public(domain), [], rows, 1.0, np.random.default_rng(0))
        assert [max(map(len, offered), default=0) for offered, _ in plan] == orders


def test_cliques_grow_with_the_budget_and_shrink_with_the_columns():
    binary, wide = Domain(tuple("abcdefgh"), (2,) * 8), Domain(tuple("abcdefgh"), (20,) * 8)

    def widest(domain, rho):
        sigma = np.sqrt(WeaveTuning().batch_cliques / (2 * rho))
        found = offers().larger_cliques(domain, 20_000, sigma, np.random.default_rng(0))
        return max(map(len, found), default=0)

    assert [widest(binary, rho) for rho in (1e-6, 0.001, 0.02, 1.0)] == [0, 4, 5, 6]
    assert widest(wide, 1.0) == 0
    mixed = Domain(tuple("abcdef"), (2, 2, 2, 2, 90, 90))
    found = offers().larger_cliques(mixed, 20_000, 35.0, np.random.default_rng(0))
    assert found == [("a", "b", "c", "d")]


class Public(Curator):
    """Knows the price of things and no rows."""

    def __init__(self, domain):
        self._domain = domain

    @property
    def domain(self):
        return self._domain

    def rho(self, share=1.0):
        return share

    def sigma_of(self, rho):
        return 1 / np.sqrt(2 * rho)


@pytest.mark.parametrize("d", [2, 5, 9])
@pytest.mark.parametrize("order", [2, 4, 6])
def test_the_plan_spends_what_the_columns_left(d, order):
    curator = Public(Domain(tuple(f"c{i}" for i in range(d)), (2,) * d))
    batches = list(offers(order).plan(curator, [], 1e5, 0.7, np.random.default_rng(0)))
    assert sum(share for _, share in batches) == pytest.approx(0.7)
    assert len(batches) == (1 if order == 2 or d == 2 else 2 if order == 4 else 3)


def test_wide_columns_are_left_to_pairs():
    curator = Public(Domain(tuple("abcdefgh"), (30,) * 8))
    for aside in (0.0, 0.1):
        plan = list(replace(offers(), aside=aside).plan(curator, [], 1e5, 0.8, np.random.default_rng(0)))
        assert [len(offered) for offered, _ in plan] == [28, 0][: len(plan)]
        assert [share for _, share in plan] == pytest.approx([0.8] if aside == 0 else [0.7, 0.1])


@pytest.mark.parametrize(
    "options",
    [
        {"tuning": {"chains": -5}},
        {"tuning": {"batch_cliques": -1}},
        {"tuning": {"sweeps": "x"}},
        {"max_cells": 1 << 40},
        {"order": 1},
        {"tuning": {"share_total": 1.5}},
    ],
)
def test_options_that_make_no_sense_are_refused_before_anything_is_spent(options, tmp_path):
    table, schema = binary_table(100), Schema.from_domain({f"c{i}": 2 for i in range(8)})
    journal = tmp_path / "journal"
    with pytest.raises(MethodError, match=next(iter(options))):
        weft.Synthesizer(1.0, method="weave", journal=journal, **options).fit(table, schema)
    assert not journal.exists()


def test_a_large_share_for_the_columns_leaves_the_rest_to_pairs():
    import pyarrow as pa

    rng = np.random.default_rng(0)
    sizes = {"a": 5, "b": 4, "c": 3, "d": 6}
    table = pa.table({name: rng.integers(0, size, 300) for name, size in sizes.items()})
    fitted = weft.Synthesizer(
        0.3, method="weave", share_columns=0.54, tuning={"share_total": 0.06, "matching_rounds": 1}
    ).fit(table, Schema.from_domain(sizes))
    assert fitted.ledger_.spent == pytest.approx(fitted.ledger_.capacity)


def test_very_wide_columns_are_measured_whole_at_the_smallest_budgets():
    import pyarrow as pa

    rng = np.random.default_rng(0)
    sizes = {"a": 200_000, "b": 3}
    table = pa.table({name: rng.integers(0, size, 50) for name, size in sizes.items()})
    fitted = weft.Synthesizer(1e-3, method="weave", tuning={"matching_rounds": 1}).fit(table, Schema.from_domain(sizes))
    assert fitted.ledger_.spent == pytest.approx(fitted.ledger_.capacity)


def test_only_what_is_not_known_is_asked():
    def asked(domain, c, known):
        return find_lowest_unmeasured_order(domain, c, known, pure=False)

    domain = Domain(("a", "b", "c", "one"), (2, 3, 4, 1))
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    assert [asked(domain, c, pairs) for c in [("a",), ("a", "b"), ("a", "b", "c"), ("a", "one")]] == [1, 2, 3, 0]
    assert asked(domain, ("a", "b", "c"), pairs[:2]) == 0
    assert find_lowest_unmeasured_order(domain, ("a", "b"), [], pure=True) == 0


def test_the_error_of_a_projected_table_is_foretold():
    rng = np.random.default_rng(0)
    for size, sigma in [(30, 30.0), (256, 300.0), (4000, 30.0)]:
        table = rng.dirichlet(np.full(size, 0.2)) * 40_000
        foretold = compute_projected_error(group_cells_by_size([table]), np.array([sigma]))[0, 0]
        seen = np.mean(
            [np.abs(project_to_simplex(table + rng.normal(0, sigma, size), 40_000) - table).sum() for _ in range(30)]
        )
        assert foretold == pytest.approx(seen, rel=0.1)


def test_the_menu_leaves_what_is_not_worth_its_price():
    prices = np.array([1.0, 0.5, 0.25])
    errors = np.array([[10.0, 14.0, 20.0], [10.0, 14.0, 20.0], [500.0, 700.0, 1000.0]])
    spent = choose_budgets(np.array([300.0, 5.0, 400.0]), errors, np.broadcast_to(prices, (3, 3)), 1.0)
    assert spent.tolist() == [1.0, 0.0, 0.0]


def test_the_sampling_error_of_counts_is_foretold():
    rng = np.random.default_rng(0)
    for mean in (0.1, 3.0, 50.0):
        expected = np.full(2000, mean)
        seen = np.abs(rng.poisson(expected) - expected).sum()
        assert sampling_error(expected) == pytest.approx(seen, rel=0.1)


@pytest.mark.parametrize(("neighbours", "delta"), by_turns(["add-remove", "replace-one"], [1e-6, 0.0], 2))
@pytest.mark.parametrize(
    ("sizes", "rows", "options", "kinds"),
    [
        ([5], 2000, {}, {"IndependentModel"}),
        ([5, 4], 0, {}, {"IndependentModel", "RecodedModel", "MrfModel"}),
        ([1, 4], 2000, {}, {"IndependentModel", "MrfModel"}),
        ([3, 2, 4], 4000, {}, {"MrfModel"}),
        ([2] * 8, 4000, {"order": 2}, {"MrfModel"}),
        ([2] * 8, 4000, {"order": 4, "tuning": {"batches": 1, "max_tree": 0, "chains": 300}}, {"ChainsModel"}),
        (
            [60, 4, 3],
            4000,
            {"rare": 1e6, "tuning": {"columns_only_error": 9.0, "column_error": 9.0}},
            {"IndependentModel", "RecodedModel"},
        ),
    ],
)
def test_every_way_spends_the_budget_and_outlives_a_file(sizes, rows, options, kinds, delta, neighbours, tmp_path):
    import pyarrow as pa

    rng = np.random.default_rng(0)
    hidden = rng.random(rows)
    columns = [np.where(rng.random(rows) < 0.8, hidden, rng.random(rows)) * size // 1 for size in sizes]
    table = pa.table({f"c{i}": column.astype(np.int16) for i, column in enumerate(columns)})
    schema = Schema.from_domain({f"c{i}": size for i, size in enumerate(sizes)})
    made = weft.Synthesizer(3.0, delta, method="weave", neighbours=neighbours, **options).fit(table, schema)
    assert type(made.model_).__name__ in kinds
    assert made.ledger_.used == pytest.approx(1.0, abs=1e-12)
    made.save(tmp_path / "model.weft")
    assert weft.load(tmp_path / "model.weft").sample(100, seed=1).equals(made.sample(100, seed=1))


def test_what_a_user_sets_is_little():
    assert len(options_of(Weave)) <= 9
