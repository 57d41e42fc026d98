"""Declared sensitivities against all neighbours of thousands of small tables."""

import itertools
import math

import numpy as np
import pytest

from weft.errors import BudgetError
from weft.marginals.marginal import compute_interaction, compute_interaction_norm
from weft.privacy import Adjacency

SHAPE = (2, 3)
ROWS = list(itertools.product(*map(range, SHAPE)))


def count(rows):
    table = np.zeros(SHAPE, np.int64)
    for row in rows:
        table[row] += 1
    return table


def dependence(table, halves):
    n = int(table.sum())
    if n == 0:
        return 0
    spread = np.abs(n * table - np.multiply.outer(table.sum(1), table.sum(0))).sum()
    return int(spread) // (halves * n)


TARGET = np.array([[3, 0, 2], [1, 4, 0]])


def l1(a, b):
    return float(np.abs(a - b).sum())


def l2(a, b):
    return math.sqrt(((a - b) ** 2).sum())


def parity(table, signs):
    """Rows with an even number of ones among some bits minus rows with an odd one, as signs of the cells."""
    return int((table * signs).sum())


def parity_move(a, b):
    """The largest change of any parity sum's distance from a fixed number, over all signs that bits may give."""
    signs = [np.multiply.outer(x, y) for x in ([1, 1], [1, -1]) for y in ([1, 1, 1], [1, 1, -1], [1, -1, 1])]
    return max(abs(abs(parity(a, s) - 2) - abs(parity(b, s) - 2)) for s in signs)


MOVES = {
    "marginal_l1": l1,
    "marginal_l2": l2,
    "total": lambda a, b: abs(int(a.sum()) - int(b.sum())),
    "indif": lambda a, b: abs(dependence(a, 1) - dependence(b, 1)),
    "r_score": lambda a, b: abs(dependence(a, 2) - dependence(b, 2)),
    "parity": parity_move,
    "gap": lambda a, b: abs(int(np.abs(a - TARGET).sum()) - int(np.abs(b - TARGET).sum())),
}


def units(k):
    """Every set of at most k rows that one unit may have, as a table."""
    return [count(rows) for size in range(k + 1) for rows in itertools.combinations_with_replacement(ROWS, size)]


def tables(rng, n):
    """Random small tables, the empty one, one-row ones and steeply uneven ones among them."""
    yield np.zeros(SHAPE, np.int64)
    yield from (count([row]) for row in ROWS)
    for i in range(n):
        mean = rng.choice([0.3, 1, 5, 40], SHAPE) if i % 2 else rng.choice([0.5, 3, 60])
        yield rng.poisson(mean, SHAPE)


def neighbours(base, relation, k):
    """Pairs of tables that share the rows of `base` and differ in one unit."""
    options = units(k)
    if relation == "add-remove":
        return [(base, base + unit) for unit in options]
    return [(base + a, base + b) for a, b in itertools.combinations(options, 2)]


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("k", [1, 2])
def test_brute_force_neighbours_confirm_every_sensitivity(relation, k):
    adjacency = Adjacency(relation, k)
    n = {("add-remove", 1): 1200, ("add-remove", 2): 300, ("replace-one", 1): 350, ("replace-one", 2): 20}
    worst = dict.fromkeys(MOVES, 0.0)
    for base in tables(np.random.default_rng(1), n[relation, k]):
        for a, b in neighbours(base, relation, k):
            for name, move in MOVES.items():
                worst[name] = max(worst[name], move(a, b))
    for name in MOVES:
        assert worst[name] <= getattr(adjacency, name)() + 1e-12, name
    for name in ("marginal_l1", "marginal_l2", "parity", "gap", "total"):
        # Under replace-one, a unit may also have no rows at all here, so the total moves too.
        assert worst[name] == pytest.approx(getattr(adjacency, name)()), f"{name} is not tight"


@pytest.mark.parametrize(("name", "halves", "bound"), [("indif", 1, 4), ("r_score", 2, 2)])
def test_dependence_scores_nearly_attain_their_sensitivity(name, halves, bound):
    # One occupied cell and a new row that shares neither value: the real score moves by 4n/(n+1), resp. half.
    table = np.array([[0, 0], [0, 999]])
    more = table + np.array([[1, 0], [0, 0]])
    n = int(more.sum())
    spread = np.abs(n * more - np.multiply.outer(more.sum(1), more.sum(0))).sum() / (halves * n)
    assert bound * 0.998 < spread < bound == getattr(Adjacency(), name)()
    # The floor can attain the bound itself, between integers.
    reached = 0
    for corner in range(12):
        for size in range(60, 90):
            a = np.array([[corner, 0], [0, size]])
            b = np.array([[corner + 1, 0], [0, size]])
            reached = max(reached, abs(dependence(b, halves) - dependence(a, halves)))
    assert reached == bound


def test_proof_of_indif_move():
    """The cellwise move has the product form on which the proof rests."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        table = rng.poisson(3, SHAPE)
        n, (x, y) = int(table.sum()), ROWS[rng.integers(len(ROWS))]
        if n == 0:
            continue
        more = table.copy()
        more[x, y] += 1
        a, b = table.sum(1), table.sum(0)
        move = (more - np.outer(more.sum(1), more.sum(0)) / (n + 1)) - (table - np.outer(a, b) / n)
        left, right = n * (np.arange(SHAPE[0]) == x) - a, n * (np.arange(SHAPE[1]) == y) - b
        assert np.allclose(move, np.outer(left, right) / (n * (n + 1)))
        assert np.abs(move).sum() == pytest.approx(4 * (n - a[x]) * (n - b[y]) / (n * (n + 1)))


def test_the_relation_and_the_rows_of_a_unit_scale_everything():
    """F5 and F14: never zero, never smaller for a wider notion of neighbour."""
    for name in MOVES:
        values = [[getattr(Adjacency(r, k), name)() for k in (1, 2, 7)] for r in ("add-remove", "replace-one")]
        assert all(v > 0 for row in values for v in row)
        assert values[0] == [values[0][0] * k for k in (1, 2, 7)]
        assert all(b >= a for a, b in zip(*values, strict=True))
    assert Adjacency().marginal_l2() == 1 and Adjacency("replace-one").marginal_l2() == math.sqrt(2)


def test_nonsense_is_refused_and_the_rest_survives_a_round_trip():
    for bad in (("swap", 1), ("add-remove", 0), ("add-remove", 1.5)):
        with pytest.raises(BudgetError):
            Adjacency(*bad)
    wide = Adjacency("replace-one", 3)
    assert Adjacency.from_dict(wide.to_dict()) == wide
    assert str(wide) == "replace one unit of up to 3 rows" and str(Adjacency()) == "add or remove one row"


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("shape", [(2,), (5,), (2, 2), (2, 3), (3, 4), (2, 2, 2), (2, 3, 2), (3, 3, 4), (2, 1, 3)])
@pytest.mark.parametrize("k", [1, 2])
def test_no_row_moves_an_interaction_further_than_declared(relation, shape, k):
    # The interaction is linear, so a unit's rows move it by the sum of what each would alone.
    rows = np.eye(math.prod(shape), dtype=np.int64).reshape(-1, *shape)
    for order in range(1, len(shape) + 1):
        alone = np.array([compute_interaction(row, order) for row in rows]).reshape(len(rows), -1)
        units = [sum(chosen) for n in range(k + 1) for chosen in itertools.combinations_with_replacement(alone, n)]
        units = np.array([np.broadcast_to(unit, alone.shape[1:]) for unit in units])
        others = [np.zeros(alone.shape[1])] if relation == "add-remove" else units
        worst = max(math.sqrt(((units - other) ** 2).sum(axis=1).max()) for other in others)
        declared = Adjacency(relation, k).interaction_l2(shape, order)
        assert worst <= declared * (1 + 1e-12)
        if relation == "add-remove" or order == len(shape):
            assert worst == pytest.approx(declared), "not tight"
        if relation == "add-remove" and k == 1:
            assert declared / math.prod(shape) == pytest.approx(math.sqrt(compute_interaction_norm(shape, order)))


def test_a_table_is_the_sum_of_its_interactions():
    table = np.random.default_rng(0).integers(0, 50, (2, 3, 4))
    terms = np.zeros(table.shape)
    for axes in itertools.chain.from_iterable(itertools.combinations(range(3), n) for n in range(4)):
        others = tuple(set(range(3)) - set(axes))
        seen = table.sum(axis=others, keepdims=True)
        top = compute_interaction(seen.squeeze(axis=others), len(axes)).reshape(seen.shape) / seen.size
        terms = terms + top / (table.size / seen.size)
        # and what fewer axes tell is no part of an interaction
        assert np.allclose(compute_interaction(np.broadcast_to(seen, table.shape), len(axes) + 1), 0)
    assert np.allclose(terms, table)
