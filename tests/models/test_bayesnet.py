"""The Bayesian network: its marginals against the joint distribution, its sampler against a plain twin."""

import math
from functools import reduce

import numpy as np
import pytest
import weft_lab.methods.bayesnet as bayesnet
from weft_lab.methods.bayesnet import BayesNet, Family, normalise_rows
from weft_lab.methods.privbayes import fit_network, rake_to_parents

from weft.errors import ModelFileError
from weft.marginals.domain import Domain
from weft.marginals.marginal import Marginal
from weft.models.apportion import _divide_groups, apportion_groups

DOMAIN = Domain(("d", "a", "c", "b"), (3, 4, 2, 5))


def rows(rng, shape):
    return rng.dirichlet(np.ones(shape[1]), shape[0])


@pytest.fixture
def net():
    rng = np.random.default_rng(3)
    return BayesNet(
        DOMAIN,
        1000.0,
        (
            Family("a", (), rows(rng, (1, 4))),
            Family("b", ("a",), rows(rng, (2, 5))),
            Family("c", ("b", "a"), rows(rng, (10, 2))),
            Family("d", ("c", "b"), rows(rng, (10, 3))),
        ),
        {"a": np.array([0, 0, 1, 1])},
    )


def joint(net):
    """Every record's probability, by the definition; axes a, b, c, d."""
    table = np.zeros((4, 5, 2, 3))
    fa, fb, fc, fd = (family.table for family in net.families)
    for a, b, c, d in np.ndindex(*table.shape):
        table[a, b, c, d] = fa[0, a] * fb[a // 2, b] * fc[b * 2 + a // 2, c] * fd[c * 5 + b, d]
    return table * net.total


@pytest.mark.parametrize("columns", [["a"], ["d"], ["d", "a"], ["c", "b", "d"], ["a", "b", "c", "d"], []])
def test_marginals_are_those_of_the_joint_distribution(net, columns):
    axes = tuple(i for i, name in enumerate("abcd") if name not in columns)
    np.testing.assert_allclose(net.marginal(columns), joint(net).sum(axis=axes), rtol=1e-12)


def test_marginals_too_large_for_inference_are_counted(net, monkeypatch):
    exact = net.marginal(["a", "d"])
    monkeypatch.setattr(bayesnet, "MAX_CELLS", 10)
    counted = net.marginal(["a", "d"])
    assert counted.sum() == pytest.approx(net.total)
    assert np.abs(counted - exact).sum() < 0.01 * net.total


def test_samples_follow_the_joint_distribution(net):
    records = net.sample(200_000, np.random.default_rng(0))
    cell = reduce(lambda code, name: code * DOMAIN.size(name) + records.column(name), "abcd", 0)
    seen = np.bincount(cell, minlength=120) / 200_000
    assert np.abs(seen - joint(net).ravel() / net.total).sum() / 2 < 0.01


@pytest.mark.parametrize("n", [0, 1, 7])
def test_few_samples(net, n):
    assert len(net.sample(n, np.random.default_rng(0))) == n


def test_completing_keeps_what_is_known(net):
    rng = np.random.default_rng(1)
    known = {"a": rng.integers(0, 4, 50).astype(np.uint8), "b": rng.integers(0, 5, 50).astype(np.uint8)}
    records = net.complete(known, 50, rng)
    assert (records.column("a") == known["a"]).all()
    assert (records.column("b") == known["b"]).all()
    with pytest.raises(ValueError, match="first of the network's order"):
        net.complete({"b": known["b"]}, 50, rng)


def divide_plainly(table, group, shuffled, offsets):
    drawn = np.zeros(len(group), int)
    for g in range(len(table)):
        members = [i for i in shuffled if group[i] == g]
        ends = np.floor(np.cumsum(table[g]) / table[g].sum() * len(members) + offsets[g])
        ends[np.flatnonzero(table[g])[-1] :] = len(members)
        for i, member in enumerate(members):
            drawn[member] = np.searchsorted(ends, i, side="right")
    return drawn


def test_the_kernel_equals_its_plain_twin():
    rng = np.random.default_rng(5)
    table = rows(rng, (6, 4))
    table[2] = [0, 1, 0, 0]
    table[3] *= 7  # need not sum to one
    group = rng.integers(0, 6, 300)
    shuffled, offsets = rng.permutation(300), rng.random(6)
    drawn = np.empty(300, np.uint32)
    _divide_groups(table, group, shuffled, offsets, drawn)
    assert drawn.tolist() == divide_plainly(table, group, shuffled, offsets).tolist()


def test_groups_are_divided_to_the_nearest_record():
    rng = np.random.default_rng(6)
    table = rows(rng, (3, 7))
    group = np.repeat([0, 1, 2], [1000, 1, 500])
    drawn = apportion_groups(table, group, rng)
    for g, m in enumerate([1000, 1, 500]):
        counts = np.bincount(drawn[group == g], minlength=7)
        assert np.abs(counts - m * table[g]).max() < 1 + 1e-9


def test_a_network_of_tables_has_their_marginals():
    rng = np.random.default_rng(7)
    full = rng.random((4, 5, 2))
    full *= 100 / full.sum()
    chain = [Marginal(("a", "b"), full.sum(axis=2)), Marginal(("b", "c"), full.sum(axis=0))]
    net = BayesNet.of(DOMAIN, 100.0, chain)
    assert net.order == ("a", "b", "c", "d")
    for table in chain:
        np.testing.assert_allclose(net.marginal(table.clique), table.table)
    np.testing.assert_allclose(net.marginal(["d"]), 100 / 3)  # in no table: uniform


def disagreeing():
    """Tables that agree on single attributes, but not on how a and b go together: nobody measured that pair."""
    rng = np.random.default_rng(8)
    full = rng.random((4, 5, 2, 3)) ** 3
    full *= 100 / full.sum()
    apart = np.multiply.outer(full.sum(axis=(1, 2, 3)), full.sum(axis=(0, 2, 3))) / 100
    other = full * (apart / full.sum(axis=(2, 3)))[..., None, None]
    return [
        Marginal(("a",), full.sum(axis=(1, 2, 3))),
        Marginal(("b",), full.sum(axis=(0, 2, 3))),
        Marginal(("a", "b", "c"), full.sum(axis=3)),
        Marginal(("a", "b", "c", "d"), other),
    ]


def test_a_fitted_network_keeps_attributes_and_pairs_where_tables_disagree_on_parents():
    tables = disagreeing()
    fitted = fit_network(DOMAIN, 100.0, tables, np.random.default_rng(0))
    plain = BayesNet.of(DOMAIN, 100.0, tables)
    three = tables[2].table
    for columns, wanted in ((["c"], three.sum((0, 1))), (["a", "c"], three.sum(1)), (["b", "c"], three.sum(0))):
        assert np.abs(fitted.marginal(columns) - wanted).sum() / 100 < 0.002
        assert np.abs(plain.marginal(columns) - wanted).sum() / 100 > 0.02


def test_raking_leaves_interactions_and_tables_that_agree_alone():
    rng = np.random.default_rng(9)
    table = rng.dirichlet(np.ones(24)).reshape(3, 4, 2)
    np.testing.assert_allclose(rake_to_parents(table, table.sum(axis=2)), table, rtol=1e-9)
    parents = rng.dirichlet(np.ones(12)).reshape(3, 4)
    raked = rake_to_parents(table, parents)
    np.testing.assert_allclose(raked.sum(axis=2), parents)

    def interaction(t):  # the three-way odds ratio of the first two codes of each
        odds = t[:, :, 0] / t[:, :, 1]
        return odds[0, 0] * odds[1, 1] / odds[0, 1] / odds[1, 0]

    assert interaction(raked) == pytest.approx(interaction(table), rel=1e-9)


def test_a_fitted_network_survives_empty_tables_and_takes_several_new_attributes_at_once():
    tables = [Marginal(("b", "c"), np.arange(10.0).reshape(5, 2)), Marginal(("a", "b", "c"), np.zeros((4, 5, 2)))]
    net = fit_network(DOMAIN, 45.0, tables, np.random.default_rng(0))
    np.testing.assert_allclose(net.marginal(["b", "c"]), tables[0].table)
    np.testing.assert_allclose(net.marginal(["a"]), 45 / 4)


def test_empty_rows_get_the_overall_distribution():
    assert normalise_rows(np.array([[0.0, 0.0], [3.0, 1.0]])).tolist() == [[0.75, 0.25], [0.75, 0.25]]
    assert normalise_rows(np.zeros((1, 4))).tolist() == [[0.25] * 4]


def test_round_trip(net):
    values, arrays = net.to_arrays()
    again = BayesNet.from_arrays(DOMAIN, values, arrays)
    np.testing.assert_array_equal(again.marginal(["a", "d"]), net.marginal(["a", "d"]))


@pytest.mark.parametrize(
    "damage",
    [
        lambda v, a: v.update(total=math.inf),
        lambda v, a: v.update(families=v["families"][::-1]),
        lambda v, a: v.update(families=v["families"][:-1]),
        lambda v, a: a.update({"family-0": np.array([[0.5, 0.5, 0.5, 0.5]])}),
        lambda v, a: a.update({"family-0": np.array([[2.0, -1.0, 0.0, 0.0]])}),
        lambda v, a: a.update({"buckets-0": np.array([0, 1])}),
        lambda v, a: a.pop("family-2"),
    ],
)
def test_damaged_networks_are_refused(net, damage):
    values, arrays = net.to_arrays()
    damage(values, arrays)
    with pytest.raises(ModelFileError):
        BayesNet.from_arrays(DOMAIN, values, arrays)
