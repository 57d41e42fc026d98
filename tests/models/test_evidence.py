"""Models under evidence, beside the whole distribution written out: every sort of model gives the conditional law."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from weft_lab.methods.bayesnet import BayesNet, Family

from weft.marginals.domain import Domain, make_clique
from weft.marginals.marginal import Marginal
from weft.marginals.value_groups import ValueMap
from weft.models.chains.chain_model import ChainsModel
from weft.models.conditional import ImpossibleEvidenceError, condition_model, select_possible_records
from weft.models.gum.gum_model import GumModel
from weft.models.independent_model import IndependentModel
from weft.models.mrf import MrfModel, junction_tree
from weft.models.recoded import RecodedModel

DOMAIN = Domain.of({"a": 3, "b": 4, "c": 2})
CLIQUES = [("a", "b"), ("b", "c"), ("a", "c")]
EVIDENCE = {"b": np.array([1.0, 0.0, 1.0, 0.3]), "c": np.array([0.25, 1.0])}


def potentials(cliques, seed=0):
    rng = np.random.default_rng(seed)
    return {c: rng.normal(size=DOMAIN.sizes(c)) for c in cliques}


def written_out(factors):
    """The whole table, cell by cell."""
    joint = np.zeros(DOMAIN.shape)
    for cell in itertools.product(*map(range, DOMAIN.shape)):
        at = dict(zip(DOMAIN.names, cell, strict=True))
        joint[cell] = sum(table[tuple(at[name] for name in c)] for c, table in factors.items())
    joint = np.exp(joint)
    return joint / joint.sum()


def under(joint, evidence):
    for name, weights in evidence.items():
        shape = [1] * joint.ndim
        shape[DOMAIN.index(name)] = -1
        joint = joint * np.asarray(weights).reshape(shape)
    return joint / joint.sum()


def mrf():
    made = potentials(CLIQUES)
    return MrfModel(junction_tree(DOMAIN, CLIQUES), 100.0, made), written_out(made)


def chains():
    made = potentials(CLIQUES)
    joint = written_out(made)
    targets = [joint.sum(axis=tuple(i for i, name in enumerate(DOMAIN) if name not in c)) for c in CLIQUES]
    return ChainsModel(DOMAIN, 100.0, tuple(CLIQUES), tuple(made.values()), tuple(targets), sweeps=25), joint


def independent():
    tables = tuple(np.random.default_rng(3).uniform(1, 9, size) for size in DOMAIN.shape)
    tables = tuple(table / table.sum() * 100 for table in tables)
    return IndependentModel(DOMAIN, 100.0, tables), written_out(
        {(name,): np.log(table) for name, table in zip(DOMAIN, tables, strict=True)}
    )


def bayesnet(buckets=False):
    rng = np.random.default_rng(4)
    seen = np.array([0, 0, 1, 1])
    width = 2 if buckets else 4
    tables = [rng.dirichlet(np.ones(4), 1), rng.dirichlet(np.ones(3), width), rng.dirichlet(np.ones(2), 3 * width)]
    families = (Family("b", (), tables[0]), Family("a", ("b",), tables[1]), Family("c", ("a", "b"), tables[2]))
    net = BayesNet(DOMAIN, 100.0, families, {"b": seen} if buckets else {})
    b = seen if buckets else np.arange(4)
    of_c = tables[2].reshape(3, width, 2)[:, b, :]
    factors = {("b",): tables[0][0], ("a", "b"): tables[1][b].T, ("a", "b", "c"): of_c}
    return net, written_out({c: np.log(table) for c, table in factors.items()})


def recoded():
    inside = Domain.of({"a": 3, "b": 2, "c": 2})
    rng = np.random.default_rng(5)
    table = rng.uniform(1, 9, (3, 2, 2))
    net = BayesNet.of(inside, 100.0, [Marginal(("a", "b", "c"), table)])
    groups = np.array([0, 1, 0, 0])
    model = RecodedModel(DOMAIN, net, {"b": ValueMap(groups, 2, np.array([5.0, 3.0, 2.0, 3.0]))})
    joint = table[:, groups, :] * np.array([0.5, 1.0, 0.2, 0.3])[:, None]
    return model, joint / joint.sum()


CASES = {
    "mrf": mrf,
    "chains": chains,
    "independent": independent,
    "bayesnet": bayesnet,
    "bayesnet with buckets": lambda: bayesnet(True),
    "recoded": recoded,
}


@pytest.mark.parametrize("case", CASES)
def test_records_follow_the_conditional_distribution(case):
    model, joint = CASES[case]()
    n = 60_000
    records = condition_model(model, EVIDENCE).sample(n, np.random.default_rng(0))
    seen = np.zeros(DOMAIN.shape)
    np.add.at(seen, tuple(records.column(name) for name in DOMAIN), 1)
    wanted = under(joint, EVIDENCE)
    assert seen[wanted == 0].sum() == 0
    assert np.abs(seen / n - wanted).sum() / 2 < 0.012
    assert np.abs(joint - wanted).sum() / 2 > 0.1  # the evidence says something


@pytest.mark.parametrize("case", CASES)
def test_the_same_seed_makes_the_same_records(case):
    model, _ = CASES[case]()
    one, two = (condition_model(model, EVIDENCE).sample(500, np.random.default_rng(7)) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(one.columns, two.columns, strict=True))


def test_no_mass_is_said_and_not_looked_for():
    table = np.array([[4.0, 0.0], [3.0, 3.0]])
    domain = Domain.of({"a": 2, "b": 2})
    evidence = {"a": np.array([1.0, 0.0]), "b": np.array([0.0, 1.0])}
    with np.errstate(divide="ignore"):
        field = MrfModel(junction_tree(domain, [("a", "b")]), 10.0, {("a", "b"): np.log(table)})
        woven = ChainsModel(domain, 10.0, (("a", "b"),), (np.log(table),), (table / 10,))
    net = BayesNet.of(domain, 10.0, [Marginal(("a", "b"), table)])
    alone = IndependentModel(domain, 10.0, (np.array([0.0, 10.0]), np.array([7.0, 3.0])))
    for model in (field, woven, net, alone):
        with pytest.raises(ImpossibleEvidenceError):
            condition_model(model, evidence)


def test_a_model_without_evidence_says_so_and_its_records_are_picked():
    pair = Marginal(("a", "b"), np.array([[40.0, 10.0], [0.0, 50.0]]))
    model = GumModel(Domain.of({"a": 2, "b": 2}), 100.0, (pair,))
    evidence = {"a": np.array([0.0, 1.0])}
    assert condition_model(model, evidence) is None
    records = model.sample(1000, np.random.default_rng(0))
    assert np.array_equal(select_possible_records(records, evidence), records.column("a") == 1)


def test_a_network_too_large_for_a_tree_is_left_to_picking():
    domain = Domain.of({"a": 3000, "b": 3000})
    net = BayesNet.of(domain, 10.0, [])
    wide = BayesNet(domain, 10.0, (net.families[0], Family("b", ("a",), np.full((3000, 3000), 1 / 3000))))
    assert wide.conditioned({"a": np.ones(3000)}) is None
    assert make_clique(wide.order) == ("a", "b")
