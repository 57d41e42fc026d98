"""Any marginal from views: exact where one has it, of most entropy where none does."""

import numpy as np
import pytest
from weft_lab.methods.priview import ViewsModel, project_views, reconstruct_marginal

from weft.errors import MethodError
from weft.marginals.domain import Domain
from weft.marginals.marginal import Marginal
from weft.models.gum.gum_model import GumModel


def chain():
    """Three columns in which the outer ones are independent given the middle one: the table of most entropy."""
    rng = np.random.default_rng(1)
    a, b, c = rng.dirichlet(np.ones(2), 3), rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(4), 3)
    return 100 * np.einsum("b,ba,bc->abc", b, a, c)


TABLE = chain()
VIEWS = [Marginal(("a", "b"), TABLE.sum(axis=2)), Marginal(("b", "c"), TABLE.sum(axis=0))]


def test_maximum_entropy_joins_views_by_what_they_share():
    assert reconstruct_marginal(("a", "b", "c"), (2, 3, 4), VIEWS, 100.0) == pytest.approx(TABLE, abs=1e-5)
    assert reconstruct_marginal(("a", "b"), (2, 3), VIEWS, 100.0) == pytest.approx(TABLE.sum(axis=2))
    outer = reconstruct_marginal(("a", "c"), (2, 4), VIEWS, 100.0)
    assert outer == pytest.approx(np.outer(TABLE.sum(axis=(1, 2)), TABLE.sum(axis=(0, 1))) / 100)


@pytest.mark.parametrize("solver", ["least-squares", "linear"])
def test_other_solvers_fit_the_views_too(solver):
    made = reconstruct_marginal(("a", "b", "c"), (2, 3, 4), VIEWS, 100.0, solver)
    assert made.min() >= 0
    assert made.sum(axis=2) == pytest.approx(VIEWS[0].table, abs=3.0)
    assert made.sum(axis=0) == pytest.approx(VIEWS[1].table, abs=3.0)
    if solver == "linear":
        assert made.sum(axis=2) == pytest.approx(VIEWS[0].table, abs=1e-6)
    wide = [Marginal(("a",), np.ones(200)), Marginal(("b",), np.ones(200))]
    with pytest.raises(MethodError, match="entropy"):
        reconstruct_marginal(("a", "b"), (200, 200), wide, 200.0, solver)


def test_smaller_projections_are_left_out():
    views = [*VIEWS, Marginal(("b",), TABLE.sum(axis=(0, 2)))]
    assert sorted(m.clique for m in project_views(("a", "b", "c"), views)) == [("a", "b"), ("b", "c")]


def test_the_model_answers_and_makes_records():
    domain = Domain(("a", "b", "c"), (2, 3, 4))
    model = ViewsModel(GumModel(domain, 100.0, tuple(VIEWS)))
    assert model.marginal(("c", "a")) == pytest.approx(reconstruct_marginal(("a", "c"), (2, 4), VIEWS, 100.0))
    assert float(model.marginal(())) == pytest.approx(100.0)
    assert model.answered(("a", "c"))[1] == 0
    meta, arrays = model.to_arrays()
    again = ViewsModel.from_arrays(domain, meta, arrays)
    assert again.marginal(("a", "b", "c")) == pytest.approx(model.marginal(("a", "b", "c")))
    assert len(again.sample(50, np.random.default_rng(0))) == 50
