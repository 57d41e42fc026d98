"""Models as networks: the same distribution, attribute after attribute."""

import itertools

import numpy as np
import pytest
from weft_lab.methods.bayesnet import BayesNet, Family, convert_to_network, has_network
from weft_lab.methods.bsg.seeded_records import SeededModel

from weft.errors import MethodError
from weft.marginals.domain import Domain
from weft.marginals.marginal import NoisyMarginal
from weft.marginals.records import Records
from weft.marginals.value_groups import ValueMap
from weft.models import MODELS, model_class
from weft.models.independent_model import IndependentModel
from weft.models.mrf import fit_mrf
from weft.models.recoded import RecodedModel

DOMAIN = Domain(("a", "b", "c", "d"), (2, 3, 4, 2))


def table(names, rng, domain=DOMAIN):
    return NoisyMarginal(names, rng.integers(0, 50, domain.sizes(names)).astype(float), 1.0)


def mrf(rng, domain=DOMAIN):
    return fit_mrf(domain, [table(names, rng, domain) for names in (("a", "b", "c"), ("c", "d"))])


def independent(rng):
    return IndependentModel(DOMAIN, 100.0, tuple(100 * rng.dirichlet(np.ones(size)) for size in DOMAIN.shape))


def recoded(rng):
    inner = Domain(DOMAIN.names, (2, 3, 2, 2))
    codes = np.array([0, 1, 1, 1])
    return RecodedModel(DOMAIN, mrf(rng, inner), {"c": ValueMap(codes, 2, np.array([9.0, 3.0, 0.0, 2.0]))})


@pytest.mark.parametrize("make", [mrf, independent, recoded])
def test_a_network_has_the_same_distribution(make):
    model = make(np.random.default_rng(3))
    net = convert_to_network(model)
    assert isinstance(net, BayesNet)
    assert net.total == model.total
    for r in range(1, 5):
        for names in itertools.combinations(DOMAIN.names, r):
            np.testing.assert_allclose(net.marginal(names), model.marginal(names), atol=1e-6 * model.total)


def test_seeds_are_completed_by_the_conditional_distribution():
    rng = np.random.default_rng(0)
    model = mrf(rng)
    net = convert_to_network(model)
    first = net.order[0]
    known = np.ones(40_000, np.uint8)
    made = net.complete({first: known}, len(known), rng)
    others = tuple(name for name in DOMAIN.names if name != first)
    joint = model.marginal(DOMAIN.names)
    given = np.take(joint, 1, axis=DOMAIN.index(first)).astype(float)
    cell = np.ravel_multi_index([made.column(name) for name in others], DOMAIN.sizes(others))
    counted = np.bincount(cell, minlength=given.size) / len(known)
    assert np.abs(counted - given.ravel() / given.sum()).sum() / 2 < 0.02


def test_buckets_of_merged_values_are_merged_too():
    rng = np.random.default_rng(0)
    inner = Domain(("a", "b"), (4, 2))
    net = BayesNet(
        inner,
        1.0,
        (Family("a", (), rng.dirichlet(np.ones(4), 1)), Family("b", ("a",), rng.dirichlet(np.ones(2), 2))),
        {"a": np.array([0, 0, 1, 1])},
    )
    model = RecodedModel(
        Domain(("a", "b"), (5, 2)), net, {"a": ValueMap(np.array([0, 1, 2, 3, 3]), 4, np.array([1.0, 1, 1, 1, 3]))}
    )
    np.testing.assert_allclose(convert_to_network(model).marginal(("a", "b")), model.marginal(("a", "b")))


def test_a_model_without_conditionals_is_refused():
    with pytest.raises(MethodError, match="conditional"):
        convert_to_network(SeededModel(Records.empty(DOMAIN)))


def test_merged_values_relate_no_columns_that_the_inner_model_does_not():
    rng = np.random.default_rng(0)
    assert recoded(rng).relates_columns
    assert not RecodedModel(DOMAIN, independent(rng), {}).relates_columns


@pytest.mark.parametrize("kind", MODELS)
def test_every_model_says_what_it_can_do(kind):
    model = model_class(kind)
    assert model.kind == kind
    assert hasattr(model, "fixed_records")
    if kind not in ("recoded", "arranged"):  # these say what the model behind them does
        assert model.fixed_records == (model is SeededModel)
    assert hasattr(model, "relates_columns")


def test_models_with_a_network_are_told_from_others():
    rng = np.random.default_rng(0)
    assert all(has_network(make(rng)) for make in (independent, mrf, recoded))
    assert has_network(convert_to_network(mrf(rng))) and not has_network(SeededModel(Records.empty(DOMAIN)))
