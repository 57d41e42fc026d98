"""Thinning: what is kept was drawn, says what all that was drawn says, and is left where it would not pay."""

from itertools import combinations

import numpy as np
import pytest

from weft.marginals.counting import count_marginals
from weft.marginals.domain import Domain
from weft.models.chains import thinning
from weft.models.chains.chain_model import to_records
from weft.models.chains.thinning import MAX_THINNED_ROWS, Thinning

EACH = 4
WIDER = Domain(tuple("abcdef"), (3, 4, 2, 5, 3, 6))


def pool(rng, n=8_000):
    """Rows in which each column follows those before it."""
    rows = rng.integers(0, WIDER.shape, (n, len(WIDER))).astype(np.int32)
    rows[:, 1:] = np.where(rng.random((n, 5)) < 0.6, rows[:, :-1] % WIDER.shape[1:], rows[:, 1:])
    return rows


def distance(some, all_, order):
    """Mean total variation of all tables of some order."""
    cliques = list(combinations(WIDER.names, order))
    pairs = zip(
        count_marginals(to_records(WIDER, some), cliques),
        count_marginals(to_records(WIDER, all_), cliques),
        strict=True,
    )
    return np.mean([np.abs(a / len(some) - b / len(all_)).sum() / 2 for a, b in pairs])


def test_kept_rows_are_of_those_drawn_and_each_at_most_once():
    rows = pool(np.random.default_rng(0), 4_003)
    marked = np.column_stack([rows, np.arange(len(rows), dtype=np.int32)])  # a last column that no table looks at
    kept = Thinning(WIDER).kept(marked, EACH, np.random.default_rng(1))
    assert len(kept) == 1_000 and len(np.unique(kept[:, -1])) == 1_000
    assert (marked[kept[:, -1]] == kept).all()


@pytest.mark.parametrize(("order", "at_most"), [(2, 0.25), (3, 0.4), (4, 0.8)])
def test_kept_rows_are_nearer_to_all_than_as_many_at_random(order, at_most):
    rng = np.random.default_rng(2)
    rows = pool(rng)
    kept, plain = Thinning(WIDER).kept(rows, EACH, rng), rows[::EACH]
    assert distance(kept, rows, order) < at_most * distance(plain, rows, order)


def test_columns_without_room_for_triples_are_kept_by_their_pairs(monkeypatch):
    rng = np.random.default_rng(3)
    rows = pool(rng)
    whole = Thinning(WIDER).kept(rows, EACH, rng)
    monkeypatch.setattr(thinning, "MAX_TABLES", 15)
    pairs = Thinning(WIDER).kept(rows, EACH, rng)
    assert distance(pairs, rows, 2) < 0.25 * distance(rows[::EACH], rows, 2)
    assert distance(pairs, rows, 3) > 1.3 * distance(whole, rows, 3)


def test_it_is_left_where_there_is_one_column_or_too_much():
    assert Thinning(WIDER).worth(MAX_THINNED_ROWS) and not Thinning(WIDER).worth(MAX_THINNED_ROWS + 1)
    assert not Thinning(Domain(("a",), (5,))).worth(100)
    assert not Thinning(Domain(tuple(f"c{i:02}" for i in range(36)), (2,) * 36)).worth(100)
    assert not Thinning(Domain(("a", "b", "c"), (3_000, 3_000, 2))).worth(100)
    assert not Thinning(Domain(tuple(f"c{i:03}" for i in range(300)), (1_000_000,) * 300)).worth(100)
