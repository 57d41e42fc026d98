"""What rules say is impossible reaches the tables and the models, whichever method learns them."""

import numpy as np
import pyarrow as pa
import pytest

from weft import Schema, Synthesizer
from weft.marginals.domain import Domain, StructuralZeros
from weft.marginals.marginal import NoisyMarginal
from weft.marginals.reconciliation import reconcile

COLUMNS = """
[columns.age]
kind = "integer"
range = [0, 99]
[columns.marital]
kind = "category"
values = ["single", "married", "widowed", "divorced"]
"""
CHILDREN = '[[rules]]\nwhen = {age = {max = 15}}\nthen = {marital = "single"}\n'


def people(n=4000):
    rng = np.random.default_rng(0)
    age = rng.integers(0, 100, n)
    marital = np.where((age > 15) & (rng.random(n) < 0.7), rng.integers(1, 4, n), 0)
    return pa.table({"age": age, "marital": np.array(["single", "married", "widowed", "divorced"])[marital]})


def impossible_draws(method, rules, **options):
    """Count, before any repair, the records of a model in which a child is married."""
    synthesizer = Synthesizer(2.0, method=method, noise_seed=1, seed=1, **options)
    model = synthesizer.fit(people(), Schema.from_toml(COLUMNS + rules)).fitted_.model
    records = model.sample(4000, np.random.default_rng(2))
    age, marital = (records.columns[records.domain.index(name)] for name in ("age", "marital"))
    return int(((age <= 15) & (marital > 0)).sum())


@pytest.mark.parametrize("method", ["weave", "privsyn", "mst", "pgm", "privbayes"])
def test_models_do_not_draw_what_no_row_may_be(method):
    assert impossible_draws(method, CHILDREN) == 0


def test_without_the_rule_noise_would_marry_children():
    assert impossible_draws("mst", "") > 0


def test_groups_are_impossible_where_all_their_codes_are():
    cells = np.zeros((4, 3), bool)
    cells[:2, 1:] = True
    known = StructuralZeros(("a", "b"), cells)
    assert known.breaks("a").tolist() == [2] and known.breaks("b").tolist() == [1]
    merged = known.grouped({"a": np.array([0, 0, 0, 1])}, {"a": 2})
    assert not merged.cells.any(), "code 2 is possible beside everything"
    merged = known.grouped({"a": np.array([0, 0, 1, 1]), "b": np.array([0, 1, 1])}, {"a": 2, "b": 2})
    assert merged.cells.tolist() == [[False, True], [False, False]]


def test_a_wider_table_has_the_same_empty_cells():
    domain = Domain(("b", "a", "c"), (2, 3, 4), impossible=(StructuralZeros(("a", "b"), np.eye(3, 2, dtype=bool)),))
    assert domain.empty_cells(("a",)) is None
    found = domain.empty_cells(("a", "b", "c"))
    assert found.shape == (3, 2, 4) and np.array_equal(found, np.repeat(np.eye(3, 2)[:, :, None] > 0, 4, axis=2))
    assert domain.project(("a", "c")).impossible == () and len(domain.project(("a", "b")).impossible) == 1


def test_reconciled_tables_keep_their_empty_cells():
    empty = np.array([[True, False], [False, False]])
    rng = np.random.default_rng(0)
    pair = NoisyMarginal(("a", "b"), np.where(empty, 0, rng.normal(25, 9, (2, 2))), 9.0, empty=empty)
    other = NoisyMarginal(("a", "c"), rng.normal(25, 9, (2, 2)), 9.0)
    done = reconcile([pair, other])
    assert done.tables[0].table[0, 0] == 0 and (done.tables[0].table >= 0).all()
    assert [table.table.sum() for table in done.tables] == pytest.approx([done.total] * 2)
    assert done.converged and np.allclose(done.tables[0].table.sum(1), done.tables[1].table.sum(1), atol=1e-3)
