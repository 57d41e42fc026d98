"""Records against the model they come from; conditioning; the model file."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import ModelFileError
from weft.marginals.counting import count_marginals
from weft.marginals.domain import Domain, make_clique
from weft.marginals.marginal import Marginal, NoisyMarginal
from weft.marginals.records import Records
from weft.models import Model
from weft.models.gum.gum_plan import adjust_records
from weft.models.mrf import ImpossibleEvidenceError, MrfModel, fit_mrf, junction_tree


def model(seed=0, total=1000.0, zeros=()):
    rng = np.random.default_rng(seed)
    domain = Domain.of({"f": 2, "a": 4, "b": 3, "c": 5, "d": 2, "e": 300, "g": 1})
    cliques = [("a", "b"), ("b", "c"), ("c", "d", "f"), ("e",)]
    potentials = {c: rng.normal(size=domain.sizes(c)) for c in cliques}
    return MrfModel(junction_tree(domain, cliques), total, potentials, dict.fromkeys(cliques, 0.25), zeros)


def counts(records, c):
    table = np.zeros(records.domain.sizes(c))
    np.add.at(table, tuple(records.column(name) for name in c), 1)
    return table


def test_it_is_a_model():
    m: Model = model()
    assert m.kind == "mrf" and m.total == 1000.0 and m.domain.names[0] == "f"


@pytest.mark.parametrize("n", [1, 7, 1000, 20_000])
def test_clique_counts_are_off_by_rounding_only(n):
    m = model()
    records = m.sample(n, np.random.default_rng(n))
    assert len(records) == n
    for i, c in enumerate(m.tree.cliques):
        expected = m.marginal(c) * (n / m.total)
        found = counts(records, c)
        separator = m.tree.separators[i]
        if not separator:
            assert np.abs(found - expected).max() < 1 + 1e-6
            continue
        # Given how many records have each separator value, every cell is the floor or ceiling of its expectation.
        axes = tuple(k for k, name in enumerate(c) if name not in separator)
        share = expected / expected.sum(axis=axes, keepdims=True)
        assert np.abs(found - share * found.sum(axis=axes, keepdims=True)).max() < 1 + 1e-6


def test_the_mean_over_samples_is_the_model():
    m = model()
    rng = np.random.default_rng(1)
    pairs = [make_clique(p) for p in itertools.combinations("abcdf", 2)]
    runs, n = 300, 60
    sums = {c: np.zeros(m.domain.sizes(c)) for c in pairs}
    for _ in range(runs):
        records = m.sample(n, rng)
        for c in pairs:
            sums[c] += counts(records, c)
    for c in pairs:
        expected = m.marginal(c) * (runs * n / m.total)
        # At most multinomial spread; six standard deviations.
        assert (np.abs(sums[c] - expected) <= 6 * np.sqrt(expected) + 3).all(), c


def test_attributes_are_tied_only_through_separators():
    # a and c are independent given b in the model; ranks inside groups must not tie them in the records.
    domain = Domain.of({"a": 2, "b": 2, "c": 2})
    cliques = [("a", "b"), ("b", "c")]
    m = MrfModel(junction_tree(domain, cliques), 1.0, {c: np.zeros((2, 2)) for c in cliques})
    records = m.sample(40_000, np.random.default_rng(2))
    table = counts(records, ("a", "b", "c"))
    assert np.abs(table - 5000).max() < 6 * math.sqrt(5000)


def test_samples_are_reproducible_and_differ():
    m = model()
    first, again, other = (m.sample(500, np.random.default_rng(s)) for s in (1, 1, 2))
    assert all((a == b).all() for a, b in zip(first.columns, again.columns, strict=True))
    assert any((a != b).any() for a, b in zip(first.columns, other.columns, strict=True))


def test_no_records():
    records = model().sample(0, np.random.default_rng(0))
    assert len(records) == 0 and records.column("e").dtype == np.uint16


def test_a_single_attribute():
    domain = Domain.of({"a": 3})
    m = MrfModel(junction_tree(domain, []), 10.0, {("a",): np.log([0.2, 0.3, 0.5])})
    np.testing.assert_allclose(m.marginal(("a",)), [2, 3, 5])
    assert np.bincount(m.sample(100, np.random.default_rng(0)).column("a")).tolist() == [20, 30, 50]


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(0, 1000))
def test_conditionals_are_exact(data, seed):
    m = model(seed)
    names = data.draw(st.lists(st.sampled_from("abcdf"), min_size=1, max_size=3, unique=True))
    given_codes = {name: data.draw(st.integers(0, m.domain.size(name) - 1)) for name in names}
    beliefs = m.given(given_codes)
    rest = data.draw(st.lists(st.sampled_from("abcdf"), min_size=1, max_size=3, unique=True).map(make_clique))
    both = make_clique([*rest, *names])
    table = m.marginal(both)
    for name, code in given_codes.items():
        keep = np.zeros(m.domain.size(name))
        keep[code] = 1
        table = table * keep.reshape([-1 if other == name else 1 for other in both])
    expected = table.sum(axis=tuple(i for i, name in enumerate(both) if name not in rest))
    np.testing.assert_allclose(beliefs.marginal(rest), m.total * expected / expected.sum(), rtol=1e-8, atol=1e-9)


def test_conditional_samples():
    m = model()
    records = m.sample(3000, np.random.default_rng(0), given={"a": 2, "c": [1, 3]})
    assert (records.column("a") == 2).all() and set(np.unique(records.column("c"))) == {1, 3}
    expected = m.given({"a": 2, "c": [1, 3]}).marginal(("b",)) * 3
    np.testing.assert_allclose(counts(records, ("b",)), expected, atol=5)
    with pytest.raises(ValueError, match="'a'"):
        m.sample(1, np.random.default_rng(0), given={"a": 4})
    with pytest.raises(ValueError, match="'zz'"):
        m.sample(1, np.random.default_rng(0), given={"zz": 0})
    impossible = model(zeros=(Marginal(("a",), np.array([True, False, False, False])),))
    with pytest.raises(ImpossibleEvidenceError):
        impossible.sample(1, np.random.default_rng(0), given={"a": 0})


def test_standard_errors():
    m = model()
    # Only (a, b), 12 cells of noise 2 each, tells of a: three cells a value.
    assert m.standard_error(("a",)) == pytest.approx(2 * math.sqrt(3))
    # b is told by two tables.
    assert m.standard_error(("b",)) == pytest.approx((1 / (4 * 4) + 1 / (4 * 5)) ** -0.5)
    assert m.standard_error(("a", "b")) == 2.0
    assert m.standard_error(("a", "c")) == math.inf


def test_the_model_file_round_trip():
    barred = (Marginal(("a", "b"), np.eye(4, 3, dtype=bool)),)
    m = model(zeros=barred)
    meta, arrays = m.to_arrays()
    again = MrfModel.from_arrays(m.domain, json.loads(json.dumps(meta)), arrays)
    assert again.tree.cliques == m.tree.cliques and again.precisions == m.precisions and math.isnan(again.loss)
    for c in [("a", "b"), ("a", "d"), ("e",), ("c", "d", "f")]:
        np.testing.assert_allclose(again.marginal(c), m.marginal(c))
    records, same = (x.sample(50, np.random.default_rng(4)) for x in (m, again))
    assert all((a == b).all() for a, b in zip(records.columns, same.columns, strict=True))


@pytest.mark.parametrize(
    "damage",
    [
        lambda meta, arrays: meta.pop("tree"),
        lambda meta, arrays: arrays.pop("potential-0"),
        lambda meta, arrays: arrays.update({"potential-0": np.zeros((2, 2))}),
        lambda meta, arrays: arrays.update({"potential-0": np.full((4, 3), np.nan)}),
        lambda meta, arrays: arrays.update({"potential-0": np.full((4, 3), np.inf)}),
        lambda meta, arrays: meta.update(total=-1.0),
        lambda meta, arrays: meta.update(tree=[["a", "nobody"]]),
        lambda meta, arrays: meta.update(tree=[["a"], ["b"]]),
    ],
)
def test_damaged_files_are_refused(damage):
    m = model()
    meta, arrays = m.to_arrays()
    damage(meta, arrays)
    with pytest.raises(ModelFileError):
        MrfModel.from_arrays(m.domain, meta, arrays)


def test_finished_records_agree_with_tables_outside_the_tree():
    """A chain a - b - c whose records must also have a pair (a, c) that the chain does not imply."""
    domain = Domain.of({"a": 3, "b": 2, "c": 3})
    rng = np.random.default_rng(0)
    joint = rng.dirichlet(np.ones(18)).reshape(3, 2, 3) * 6000
    ab, bc, ac = joint.sum(2), joint.sum(0), joint.sum(1)
    tables = [NoisyMarginal(("a", "b"), ab, 1.0), NoisyMarginal(("b", "c"), bc, 1.0)]
    plain = fit_mrf(domain, tables, total=6000.0, tolerance=1e-6)
    targets = tuple(Marginal(c, t) for c, t in zip([("a", "b"), ("b", "c"), ("a", "c")], [ab, bc, ac], strict=True))
    model = replace(plain, targets=targets)

    def away(records):
        return [np.abs(count_marginals(records, [m.clique])[0] - m.table).sum() / 6000 for m in targets]

    before, after = (
        away(plain.sample(6000, np.random.default_rng(1))),
        away(model.sample(6000, np.random.default_rng(1))),
    )
    assert before[2] > 0.1
    assert max(after) < 0.01
    np.testing.assert_allclose(model.marginal(("a", "c")), ac)

    meta, arrays = model.to_arrays()
    again = MrfModel.from_arrays(domain, meta, arrays)
    same = again.sample(500, np.random.default_rng(2)), model.sample(500, np.random.default_rng(2))
    assert all((one == other).all() for one, other in zip(same[0].columns, same[1].columns, strict=True))
    arrays["target-0"] = -arrays["target-0"]
    with pytest.raises(ModelFileError, match="out of range"):
        MrfModel.from_arrays(domain, meta, arrays)


def test_nothing_to_finish_leaves_records_alone():
    domain = Domain.of({"a": 2, "b": 2})
    records = Records.of(domain, [np.array([0, 1, 1], np.uint8), np.array([1, 0, 1], np.uint8)])
    assert adjust_records(records, [], np.random.default_rng(0)) is records
    assert adjust_records(records, [Marginal(("a",), np.array([1.0, 2.0]))], np.random.default_rng(0)) is records
