"""Steps that only the papers take, written out as they are printed, beside the recipes with the same noise.

Other boxes stand beside the recipes' own tests: DenseMarg and combining (`test_privsyn`), the networks of PrivBayes and
PrivBayes(InDif), BSG's structure (`test_bsg_model`), PrivMRF (`test_privmrf`), consistency, Ripple, and GUM's update.
"""

import itertools
import math

import numpy as np
import pytest
from recipes import assert_trace, counts, pairs_of, random_rows, run
from weft_lab.queries.selection_queries import SelectionQueries

from weft.curator import Curator
from weft.engines import MemoryEngine
from weft.marginals.domain import Domain
from weft.marginals.marginal import Marginal, NoisyMarginal
from weft.marginals.pooling import common_total
from weft.marginals.records import Records
from weft.marginals.simplex import project_to_simplex
from weft.methods import make_method
from weft.methods.common.discretisation import measure_columns
from weft.models.mrf import fit_mrf
from weft.privacy import Adjacency, Budget, Ledger, Noise
from weft.privacy.mechanisms import Mechanisms


def paper(name, **options):
    return make_method(name, preset="paper", **options)


def skewed(seed, n=3000):
    """Columns with common values, rare ones, and some that nobody has."""
    rng = np.random.default_rng(seed)
    domain = Domain(("few", "many", "two"), (6, 40, 2))
    return Records.of(domain, [np.minimum(rng.geometric(0.5, n) - 1, size - 1) for size in domain.shape])


def literal_filter(table, theta):
    """Keep values of theta and more; the others are one value if their sum is such a count, and else none has a record.

    Return of each value its new one (None: it is gone).
    """
    kept = [v for v in range(len(table)) if table[v] >= theta]
    rest = [v for v in range(len(table)) if table[v] < theta]
    gone = sum(table[v] for v in rest) < theta
    return {**{v: i for i, v in enumerate(kept)}, **dict.fromkeys(rest, None if gone else len(kept))}


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_rare_values_are_filtered_and_combined_as_printed(seed, epsilon):
    """PrivSyn, section 5.3, and DPSyn, section 5.3, with its own threshold of 800 rows."""
    records = skewed(seed)
    for deviations, least in ((3.0, 0.0), (4.5, 800.0)):
        ledger = Ledger(Budget(epsilon=epsilon, delta=1e-6), "paper", Adjacency())
        curator = Curator(MemoryEngine(records), ledger, Mechanisms(Noise.seeded(seed)))
        columns = measure_columns(curator, 0.1, deviations, rare_rows=least, one_code=True)
        for held in curator.released:
            (name,), noisy = held.noisy.clique, held.noisy
            expected = literal_filter(noisy.table, max(deviations * noisy.sigma, least))
            if len(set(expected.values())) == 1:
                continue  # a column of nothing but rare values keeps them
            codes, empty = columns.maps[name].codes, name in columns.dropped
            last = columns.maps[name].size - 1
            assert {v: None if empty and c == last else c for v, c in enumerate(codes.tolist())} == expected
            (folded,) = [m for m in columns.tables if m.clique == (name,)]
            assert folded.table[-1] == 0 or not empty


@pytest.mark.parametrize("rare", [0, 1, 2])
def test_a_single_rare_value_has_no_record(rare):
    """PrivSyn, section 5.3: the sum of the rare values is below the threshold, so their count is 0."""
    counted = np.insert([1000, 900], rare, 5)
    records = Records.of(Domain(("a", "b"), (3, 2)), [np.repeat(np.arange(3), counted), np.arange(1905) % 2])
    made = run(paper("privsyn", gum={"iterations": 5}), records, epsilon=1.0)
    drawn = made.model.sample(1900, np.random.default_rng(0)).column("a")
    assert rare not in drawn and set(drawn) == {0, 1, 2} - {rare}
    usual = run(make_method("privsyn"), records, epsilon=1.0)
    assert usual.model.maps["a"].codes.tolist() == [0, 1, 2]  # by default, it keeps its code


def test_no_record_has_a_value_that_was_filtered():
    """Not even where pairs were measured with it."""
    found = []
    for seed in range(6):
        made = run(paper("privsyn", gum={"iterations": 5}), skewed(seed), epsilon=0.3, seed=seed)
        tables = made.model.inner.tables
        gone = {t.clique[0] for t in tables if len(t.clique) == 1 and t.empty is not None and t.empty[-1]}
        for table, axis in ((t, t.clique.index(name)) for t in tables for name in gone & set(t.clique)):
            found.append(table.clique)
            assert np.moveaxis(table.table, axis, 0)[-1].sum() == 0
    assert any(len(c) > 1 for c in found)  # it is put to the test


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_mst_adds_one_edge_after_another(seed, exact):
    """McKenna et al., section 3: a third each for columns, edges and pairs; edges by the exponential mechanism."""
    records = random_rows(seed)
    domain, d = records.domain, len(records.domain)
    made = run(paper("mst", rare=0.0, passes=5), records, seed=seed, exact=exact)
    assert_trace(made, [("marginals", 1 / 3), *[("choice", 1 / 3 / (d - 1))] * (d - 1), ("marginals", 1 / 3)])
    ones = {
        name: NoisyMarginal((name,), table, made.sigmas[0])
        for name, table in zip(domain, made.tape[0].released, strict=True)
    }
    total = max(common_total(list(ones.values()))[0], 1.0)
    own = {name: project_to_simplex(noisy.table, total) for name, noisy in ones.items()}
    parts, edges = [{name} for name in domain], []
    for answer in made.answers("choice"):
        assert (answer.charge.sensitivity, answer.charge.epsilon) == (
            1.0,
            pytest.approx(math.sqrt(8 * made.ledger.capacity / 3 / (d - 1))),
        )
        offered = [pair for pair in pairs_of(domain) if not any(set(pair) <= part for part in parts)]
        scores = [np.abs(counts(records, (a, b)) - np.rint(np.outer(own[a], own[b]) / total)).sum() for a, b in offered]
        assert answer.exact[0].tolist() == scores
        edge = offered[int(answer.released[0])]
        assert not exact or scores[offered.index(edge)] == max(scores)
        joined = [part for part in parts if part & set(edge)]
        parts = [part for part in parts if part not in joined] + [set.union(*joined)]
        edges.append(edge)
    assert len(parts) == 1 and sorted(made.measured[d:]) == sorted(edges)
    assert made.sigmas[d:] == pytest.approx([made.sigmas[d]] * (d - 1))


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_aim_chooses_and_anneals_as_printed(seed, exact):
    """McKenna et al., algorithm 2: T = 16 d, sigma and epsilon of a round, its first choice, and what rounds cost."""
    records = random_rows(seed)
    domain, d = records.domain, len(records.domain)
    made = run(paper("aim", passes=30), records, seed=seed, exact=exact)
    rho, rounds = made.ledger.capacity, 16 * d
    sigma, epsilon = math.sqrt(rounds / (2 * 0.9 * rho)), math.sqrt(8 * 0.1 * rho / rounds)
    assert made.sigmas[:d] == pytest.approx([sigma] * d)
    ones = [NoisyMarginal((n,), t, sigma) for n, t in zip(domain, made.tape[0].released, strict=True)]
    alone = fit_mrf(domain, ones)
    choice, tables = made.answers("choice")[0], made.answers("marginals")[1]
    assert choice.charge.epsilon == pytest.approx(epsilon)
    assert tables.charge.scales == pytest.approx([sigma])
    workload = [c for k in (1, 2, 3) for c in itertools.combinations(sorted(domain), k)]
    assert choice.charge.sensitivity == 3
    quality = {
        c: len(c)
        * (
            int(np.abs(counts(records, c) - np.rint(alone.marginal(c))).sum())
            - round(math.sqrt(2 / math.pi) * sigma * domain.cells(c))
        )
        for c in workload
    }
    assert sorted(choice.exact[0].tolist()) == sorted(quality.values())
    assert quality[made.measured[d]] == choice.exact[0][int(choice.released[0])]
    assert not exact or quality[made.measured[d]] == max(quality.values())
    # A round costs 1 / T, or four times as much as the one before; what is less than two of them is one.
    costs = [share for _, share in made.trace[1:]]
    spent = [a + b for a, b in zip(costs[::2], costs[1::2], strict=True)]
    assert spent[0] == pytest.approx(1 / rounds) or len(spent) == 1
    for before, after in itertools.pairwise(spent[:-1]):
        assert after / before == pytest.approx(1) or after / before == pytest.approx(4)
    assert sum(share for _, share in made.trace) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_privbayes_cuts_each_table_and_scales_it_on_its_own(seed):
    """Zhang et al., section 3: d tables with Laplace noise of scale d / epsilon2, cut at zero and normalised."""
    records = random_rows(seed)
    d = len(records.domain)
    made = run(paper("privbayes"), records, delta=0.0, seed=seed)
    assert_trace(made, [("total", 0.01), *[("choice", 0.3 / (d - 1))] * (d - 1), ("marginals", 0.69)])
    (tables,) = made.answers("marginals")
    assert tables.charge.scales == pytest.approx([d / (0.69 * 2.0)] * d)
    assert len(made.measured) == d
    noisy = dict(zip(made.measured, tables.released, strict=True))
    for family in made.model.families:
        c = tuple(sorted((family.child, *family.parents)))
        cut = np.moveaxis(np.maximum(noisy[c], 0), c.index(family.child), -1).reshape(-1, family.table.shape[-1])
        for row, chances in zip(cut, family.table, strict=True):
            if row.sum() > 0:
                np.testing.assert_allclose(chances, row / row.sum())


@pytest.mark.parametrize("seed", range(4))
def test_bsg_draws_from_the_posterior_of_cut_counts(seed):
    """Eq. 6, 11 and 13: n = max(0, n + noise), Dirichlet(alpha + n) for a configuration; parents within maxcost."""
    records = random_rows(seed, 2000)
    made = run(paper("bsg", split=None, max_cost=6), records, epsilon=4.0, seed=seed)
    noisy = dict(zip(made.measured, made.answers("marginals")[0].released, strict=True))
    rng = np.random.default_rng(seed)
    for family in made.model.families:
        assert math.prod(records.domain.sizes(family.parents)) <= 6
        c = tuple(sorted((family.child, *family.parents)))
        table = np.transpose(noisy[c], [c.index(name) for name in (*family.parents, family.child)])
        table = table.reshape(-1, records.domain.size(family.child))
        drawn = rng.standard_gamma(np.maximum(table, 0.0) + 1 / table.shape[1])
        np.testing.assert_allclose(family.table, drawn / drawn.sum(axis=1, keepdims=True))
    assert made.sigmas == pytest.approx([made.sigmas[0]] * len(made.sigmas))
    assert any(family.parents for family in made.model.families)


@pytest.mark.parametrize("seed", range(3))
def test_priview_covers_all_pairs_with_laplace_noise_of_the_number_of_views(seed):
    """Qardaji et al.: w views, noise of scale w / epsilon; every pair covered; they agree, with no cell below 0."""
    rng = np.random.default_rng(seed)
    domain = Domain(tuple(f"b{i:02}" for i in range(12)), (2,) * 12)
    records = Records.of(domain, rng.integers(0, 2, (12, 4000)))
    made = run(paper("priview"), records, epsilon=1.0, delta=0.0, seed=seed)
    (views,) = made.answers("marginals")
    w = len(made.measured)
    assert views.charge.scales == pytest.approx([w / 0.99] * w)
    assert all(len(view) <= 8 for view in made.measured)
    assert all(any(set(pair) <= set(view) for view in made.measured) for pair in pairs_of(domain))
    for a, b in itertools.combinations(made.model.views, 2):
        assert a.table.min() >= 0
        shared = set(a.clique) & set(b.clique)
        np.testing.assert_allclose(
            a.project(shared).table, b.project(shared).table, atol=0.02 * 4000 / 2 ** len(shared)
        )


def test_dpsyn_measures_what_is_planned_with_one_noise():
    records = random_rows(2, 3000)
    plan = [["v", "w"], ["w", "x", "y"], ["v", "y"]]
    made = run(paper("dpsyn", marginals=plan, rare_rows=0.0), records)
    assert made.measured[len(records.domain) :] == [tuple(names) for names in plan]
    assert len({round(sigma, 9) for sigma in made.sigmas[len(records.domain) :]}) == 1


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_the_score_of_a_choice_keeps_to_its_sensitivity(relation):
    """Over random small tables: weight * (distance - penalty) moves by at most the largest weight times a row."""
    domain, seen = Domain(("a", "b"), (3, 4)), []

    class Peek:
        private = False

        def __call__(self, charge, exact):
            seen.append((charge.sensitivity, exact[0]))
            return [np.array(0)]

    rng, most = np.random.default_rng(1), 0.0
    for _ in range(100):
        n = int(rng.integers(1, 12))
        table = np.column_stack([rng.integers(0, size, n) for size in domain.shape])
        other = np.vstack([table, [rng.integers(0, size) for size in domain.shape]])
        if relation == "replace-one":
            other = other[1:]
        guesses = [Marginal(c, rng.uniform(0, 3, domain.sizes(c))) for c in [("a",), ("a", "b"), ("b",)]]
        for each in (table, other):
            ledger = Ledger(Budget(epsilon=1.0, delta=0), "pure", Adjacency(relation))
            curator = Curator(MemoryEngine(Records.of(domain, each.T)), ledger, Peek())
            SelectionQueries.of(curator).choose_gap(guesses, 0.5, weights=[1, 3, 2], penalties=[0.4, 7.0, -2.0])
        (sensitivity, one), (_, two) = seen[-2:]
        most = max(most, np.abs(one - two).max() / sensitivity)
    assert sensitivity == 3 * (1 if relation == "add-remove" else 2)
    assert most == 1.0


@pytest.mark.parametrize(
    ("weights", "penalties"), [([0], [0.0]), ([1 << 20], [0.0]), ([1], [math.nan]), ([1, 1], [0.0]), ([1], [1e20])]
)
def test_weights_and_penalties_that_make_no_sense_are_refused_before_any_charge(weights, penalties):
    records = random_rows(0, 20)
    ledger = Ledger(Budget(epsilon=1.0, delta=0), "pure", Adjacency())
    curator = Curator(MemoryEngine(records), ledger, Mechanisms(Noise.seeded(0)))
    guess = [Marginal(("v",), np.zeros(records.domain.size("v")))]
    with pytest.raises(ValueError, match="weight"):
        SelectionQueries.of(curator).choose_gap(guess, 0.5, weights=weights, penalties=penalties)
    assert not ledger.entries
