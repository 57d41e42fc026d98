"""Item sets: the sensitivity of every question, the same sets from every form, and nothing but released answers."""

import itertools
import math

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from weft_lab.baskets.basket_queries import BasketForm
from weft_lab.baskets.basket_rows import open_baskets
from weft_lab.itemsets import exact_top, market
from weft_lab.privbasis import MAX_BASIS_ITEMS, choose_bases, find_itemsets, form_of, maximal_cliques

from weft.errors import BudgetError, MethodError
from weft.privacy import Adjacency, Budget, Lifetime
from weft.privacy.mechanisms import Mechanisms
from weft.privacy.noise import Noise

LISTS = [["a", "b"], ["a", "b", "c"], ["b", "c", "c"], [], ["a", " b "], None, ["c", ""], list("abcdefgh")]


def lists(rows):
    return pa.table({"basket": pa.array(rows, pa.list_(pa.string()))})


def baskets(rows):
    return open_baskets(lists(rows), BasketForm(lists="basket"), 1000)


def test_items_of_a_basket_count_once_and_blank_ones_not():
    held = baskets(LISTS)
    assert held.baskets == len(LISTS)
    assert held.counts(["a", "b", "c", "x"], 10).tolist() == [4, 5, 4, 0]
    assert held.pairs(["a", "b", "c"], 10).tolist() == [[0, 4, 2], [0, 0, 3], [0, 0, 0]]
    table = held.table(["a", "b", "c"])
    assert table.sum() == len(LISTS)
    assert table[1, 1].sum() == 4 and table[1, 1, 1] == 2 and table[0, 0, 0] == 2


@pytest.mark.parametrize("added", [["a"], list("abcdefgh"), ["new", "other"], []])
@pytest.mark.parametrize("most", [2, 3, 20])
def test_a_basket_moves_no_answer_further_than_its_sensitivity(added, most):
    before, after = baskets(LISTS[:5]), baskets([*LISTS[:5], added])  # no basket here is cut
    items, adjacency = list("abcdefgh"), Adjacency()
    most_of_it = min(most, 8)

    def moved(one, other):
        return float(np.linalg.norm((other - one).astype(float)))

    if most >= 3:
        assert moved(before.counts(items, most), after.counts(items, most)) <= adjacency.items_l2(most_of_it) + 1e-9
        assert moved(before.pairs(items, most), after.pairs(items, most)) <= adjacency.pairs_l2(most_of_it) + 1e-9
    alone = baskets([added])
    assert np.linalg.norm(alone.counts(items, most)) <= adjacency.items_l2(most_of_it) + 1e-9
    assert np.linalg.norm(alone.pairs(items, most)) <= adjacency.pairs_l2(most_of_it) + 1e-9
    assert np.linalg.norm(alone.listed(most)[0]) <= adjacency.items_l2(most) + 1e-9
    assert moved(before.table(items[:3]), after.table(items[:3])) == 1.0


def test_replaced_baskets_move_twice_as_many_counts():
    replaced = Adjacency("replace-one")
    assert replaced.items_l2(8) == pytest.approx(math.sqrt(16))
    assert replaced.pairs_l2(4) == pytest.approx(math.sqrt(12))


class Exact:
    private = True

    def __call__(self, charge, exact):
        return list(exact)


def test_every_form_gives_the_same_sets(tmp_path):
    table = market(400, 30, planted=3)
    rows = table["basket"].to_pylist()
    named = sorted({item for row in rows for item in row})
    pa.parquet.write_table(table, tmp_path / "lists.parquet")
    lines = [(f"o{i}", item) for i, row in enumerate(rows) for item in row]
    long = pa.table({"order": [a for a, _ in lines], "product": [b for _, b in lines]})
    pa.csv.write_csv(long, tmp_path / "lines.csv")
    wide = pa.table({name: pa.array([int(name in row) for row in rows]) for name in named})
    pa.csv.write_csv(wide, tmp_path / "wide.csv")
    found = []
    for path, words in [
        ("lists.parquet", {}),
        ("lines.csv", {"basket": "order", "item": "product"}),
        ("wide.csv", {"columns": ["all"]}),
    ]:
        source = str(tmp_path / path)
        items = None if path == "wide.csv" else named
        made = find_itemsets(source, form_of(source, **words), top=20, items=items, release=Exact())
        found.append({(tuple(sorted(one.items)), round(one.count)) for one in made})
    assert found[0] == found[1] == found[2]
    exact = exact_top(table, 15)
    assert set(exact.items()) <= found[0]


def test_planted_sets_are_found_privately():
    table = market(20_000, 100, planted=4)
    exact = exact_top(table, 30)
    found = find_itemsets(table, form_of(table), 2.0, 1e-6, top=30, release=Mechanisms(Noise.seeded(1)))
    made = {tuple(sorted(one.items)): one for one in found}
    assert sum(key in made for key in exact) >= 26
    inside = [abs(made[key].count - n) < 3 * made[key].standard_error for key, n in exact.items() if key in made]
    assert np.mean(inside) > 0.9
    assert found.ledger.spent_epsilon() <= 2.0
    assert found.ledger.stamps


class Recorded:
    """Answers of the first run are given again to the second."""

    private = True

    def __init__(self):
        self.noise, self.answers, self.again = Mechanisms(Noise.seeded(3)), [], None

    def __call__(self, charge, exact):
        if self.again is not None:
            return next(self.again)
        self.answers.append(self.noise(charge, exact))
        return self.answers[-1]


def test_nothing_but_released_answers_decides(tmp_path):
    """Neighbouring tables give the same sets, the same ledger and the same journal but for its times and names."""
    table = market(2_000, 40, planted=2)
    release = Recorded()
    outcomes = []
    for rows in (table, pa.concat_tables([table, lists([[f"item {i:04}" for i in range(40)]])])):
        found = find_itemsets(rows, form_of(rows), 1.0, 1e-6, top=15, most_items=4, release=release)
        outcomes.append((found.to_dict(), found.ledger.to_dict()))
        release.again = iter(release.answers)
    assert outcomes[0] == outcomes[1]


def test_everything_is_charged_before_it_is_asked(monkeypatch):
    table = market(500, 20, planted=1)
    with pytest.raises(BudgetError):
        find_itemsets(table, form_of(table), 1.0, 0.0)  # Gaussian noise needs a delta
    asked = []
    original = Mechanisms.__call__

    def spy(self, charge, exact):
        asked.append(charge.question)
        return original(self, charge, exact)

    monkeypatch.setattr(Mechanisms, "__call__", spy)
    found = find_itemsets(table, form_of(table), 1.0, 1e-6, top=10)
    assert [entry.question for entry in found.ledger.entries] == asked


def test_wrong_forms_are_refused():
    table = lists(LISTS)
    for words in [{"basket": "basket"}, {"column": "x"}, {"columns": ["y"]}, {"column": "basket", "columns": ["all"]}]:
        with pytest.raises(MethodError):
            form_of(table, **words)
    plain = pa.table({"a": ["1"], "b": ["0"]})
    with pytest.raises(MethodError, match="--basket"):
        form_of(plain)
    with pytest.raises(MethodError, match="--column"):
        form_of(plain, column="a")
    with pytest.raises(MethodError, match="most-items"):
        find_itemsets(table, form_of(table), most_items=1)
    with pytest.raises(MethodError, match="list of items"):
        find_itemsets(table, form_of(table), items=[" "])


def test_bases_hold_every_clique():
    rng = np.random.default_rng(0)
    pairs = np.triu(rng.integers(0, 10, (14, 14)), 1).astype(float)
    both = pairs + pairs.T
    found = choose_bases(pairs, 3.0, 1000, rng)
    assert all(3 <= len(basis) <= MAX_BASIS_ITEMS for basis in found)
    for three in itertools.combinations(range(14), 3):
        frequent = all(both[i, j] >= 3 for i, j in itertools.combinations(three, 2))
        assert any(set(three) <= set(basis) for basis in found) == frequent or not frequent
    graph = {i: frozenset(j for j in range(14) if i != j and both[i, j] >= 3) for i in range(14)}
    cliques = maximal_cliques(graph)
    assert all(j in graph[i] for c in cliques for i, j in itertools.combinations(c, 2))
    assert len(choose_bases(pairs, 3.0, 2, rng)) == 2


def test_the_guarantee_names_the_basket(tmp_path):
    """A row of a basket/item file is one item: what is protected is the whole basket."""
    table = pa.table({"order": ["1", "1", "2"], "customer": ["x", "x", "x"], "item": ["a", "b", "a"]})
    file = tmp_path / "life.json"
    Lifetime.create(file, Budget(epsilon=10, delta=1e-3))
    form = form_of(table, basket="order", item="item")
    found = find_itemsets(table, form, 1.0, 1e-6, top=3, items=["a", "b"], budget_file=file)
    assert "add or remove one basket" in str(found.ledger.spend_statement())
    other = form_of(table, basket="customer", item="item")
    with pytest.raises(BudgetError):  # baskets of another sort do not add up with these
        find_itemsets(table, other, 1.0, 1e-6, top=3, items=["a", "b"], budget_file=file)


def test_odd_items_and_hidden_members_are_no_failure():
    odd = pa.table({"b": ["1", "2"], "i": pa.array([b"a", b"\xff\xfe"]).cast(pa.binary()).view(pa.string())})
    assert open_baskets(odd, BasketForm(basket="b", item="i"), 1000).baskets == 2
    offsets, values = pa.array([0, 2, 4], pa.int32()), pa.array(list("abcd"))
    hidden = pa.ListArray.from_arrays(offsets, values, mask=pa.array([True, False]))
    read = open_baskets(pa.table({"basket": hidden}), BasketForm(lists="basket"), 1000)
    assert sorted(read.names.take(pa.array(read.item)).to_pylist()) == ["c", "d"]


def test_a_threshold_keeps_the_sets_above_it():
    table = market(4_000, 30)
    form = form_of(table)
    every = find_itemsets(table, form, 2.0, 1e-6, top=200, noise_seed=3)
    least = 0.3 * every.baskets
    kept = find_itemsets(table, form, 2.0, 1e-6, top=200, threshold=0.3, noise_seed=3)
    assert 0 < len(kept) < len(every) and all(one.count >= least for one in kept)
    assert {one.items for one in every if one.count > 1.2 * least} <= {one.items for one in kept}
    with pytest.raises(MethodError, match="--threshold"):
        find_itemsets(table, form, 2.0, 1e-6, threshold=5.0)
