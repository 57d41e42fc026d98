"""DualQuery: queries drawn where records are wrong, and the record that answers them best."""

import itertools
import math

import numpy as np
import pytest
from recipes import Taped, assert_trace, chained, counts, random_rows, run
from weft_lab.methods.dualquery import AtomsModel, DualQuery, best_record
from weft_lab.queries.selection_queries import SelectionQueries

from weft import Synthesizer
from weft.curator import Curator
from weft.engines import MemoryEngine
from weft.errors import MethodError
from weft.marginals.domain import Domain
from weft.marginals.marginal import Marginal
from weft.marginals.records import Records
from weft.models.conditional import ImpossibleEvidenceError
from weft.privacy import Adjacency, Budget, Ledger


@pytest.mark.parametrize(("accounting", "power"), [("zcdp", 2), ("pure", 1)])
def test_one_step_in_all_rounds_that_the_budget_pays_for(accounting, power):
    recipe = DualQuery(accounting=accounting, draws=20)
    made = run(recipe, chained(), delta=0.0 if accounting == "pure" else 1e-6)
    rounds = len(made.model.atoms)
    parts = [t**power for t in range(1, rounds)]
    assert_trace(made, [("total", 0.01), *(("choice", 0.99 * part / sum(parts)) for part in parts)])
    assert {entry.draws for entry in made.ledger.entries[1:]} == {20}
    # A score of a draw in round t + 1 is t times a count: scores and scales give the paper's step, the same each round.
    steps = [made.model.total * t / entry.scale for t, entry in enumerate(made.ledger.entries[1:], 1)]
    assert steps == pytest.approx([t * steps[0] for t in range(1, rounds)], rel=1e-6)
    step = steps[0] * made.ledger.entries[1].sensitivity
    more = math.fsum(t**power for t in range(1, rounds + 1)) / sum(parts)
    assert recipe.step <= step * 1.0001 and step < recipe.step * more ** (1 / power) * 1.0001


def test_epsilons_add_up_to_the_theorem_of_the_paper():
    made = run(DualQuery(accounting="pure", draws=7), chained(), delta=0.0)
    rounds, entries = len(made.model.atoms), made.ledger.entries[1:]
    step = made.model.total / entries[0].scale  # of the first round with a question: 1 * step / n a count
    spent = math.fsum(entry.epsilon for entry in entries)
    assert spent == pytest.approx(step * rounds * (rounds - 1) * 7 / made.model.total, rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_scores_are_what_the_rows_have_more_than_the_records(seed):
    records = random_rows(seed)
    made = run(DualQuery(draws=15, max_records=6), records, seed=seed, epsilon=4.0)
    pairs = list(itertools.combinations(sorted(records.domain), 2))
    atoms, total = made.model.atoms, made.model.total
    for t, answer in enumerate(made.answers("choice"), 1):
        scores = []
        for c in pairs:
            so_far = counts(Records.of(records.domain, list(atoms[:t].T)), c)
            scores.append((t * counts(records, c) - np.rint(total * so_far)).ravel())
        literal = np.concatenate(scores)
        assert np.array_equal(answer.exact[0], np.concatenate([literal, -literal]))


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("rows", [1, 2])
def test_a_unit_moves_a_score_by_the_sensitivity_and_no_more(relation, rows):
    domain, seen = Domain(("a", "b"), (2, 3)), []

    class Peek:
        private = False

        def __call__(self, charge, exact):
            seen.append((charge.sensitivity, exact[0]))
            return [np.zeros(charge.draws, np.int64)]

    rng, most = np.random.default_rng(1), 0.0
    for _ in range(60):
        n = int(rng.integers(rows, 9))
        table = np.column_stack([rng.integers(0, size, n) for size in domain.shape])
        other = np.vstack([table, *([[rng.integers(0, size) for size in domain.shape]] * rows)])
        if relation == "replace-one":
            other = other[rows:]
        given = [Marginal(c, rng.uniform(0, 3, domain.sizes(c))) for c in [("a",), ("a", "b")]]
        for each in (table, other):
            ledger = Ledger(Budget(epsilon=1.0, delta=0), "pure", Adjacency(relation, rows_per_unit=rows))
            curator = Curator(MemoryEngine(Records.of(domain, each.T)), ledger, Peek())
            SelectionQueries.of(curator).draw_cells(given, 5, 3, 0.5)
            assert ledger.spent == pytest.approx(0.5)
        (sensitivity, one), (_, two) = seen[-2:]
        most = max(most, np.abs(one - two).max() / sensitivity)
    assert sensitivity == 5 * rows and most == 1.0


@pytest.mark.parametrize(("times", "draws"), [(0, 1), (1 << 20, 1), (1, 0)])
def test_draws_that_make_no_sense_are_refused_before_any_charge(times, draws):
    records = random_rows(0, 20)
    ledger = Ledger(Budget(epsilon=1.0, delta=0), "pure", Adjacency())
    curator = Curator(MemoryEngine(records), ledger, Taped(0, exact=False))
    with pytest.raises(ValueError, match="drawing cells"):
        SelectionQueries.of(curator).draw_cells(
            [Marginal(("v",), np.zeros(records.domain.size("v")))], times, draws, 0.5
        )
    assert not ledger.entries


@pytest.mark.parametrize("seed", range(5))
def test_the_search_finds_the_best_record_of_small_tables(seed):
    rng = np.random.default_rng(seed)
    domain = Domain(("b", "a", "c"), (3, 4, 2))
    weights = [Marginal(c, rng.integers(-9, 9, domain.sizes(c))) for c in [("a", "b"), ("a", "c"), ("a", "b", "c")]]

    def worth(record):
        at = dict(zip(domain, record, strict=True))
        return sum(int(m.table[tuple(at[name] for name in m.clique)]) for m in weights)

    found = best_record(domain, weights, 30, rng)
    assert worth(found) == max(map(worth, itertools.product(*map(range, domain.shape))))


def test_a_workload_that_is_too_large_is_cut_and_keeps_every_column():
    made = run(DualQuery(max_queries=9), chained(), epsilon=2.0)
    assert len(made.answers("choice")[0].exact[0]) <= 2 * (9 + 12)
    assert sorted(made.model.domain) == ["a", "b", "c", "d"] and made.model.marginal(["b"]).min() > 0


def test_accounting_without_a_price_for_choices_costs_nothing(table, schema, tmp_path):
    with pytest.raises(MethodError, match="cover the exponential mechanism"):
        Synthesizer(method="dualquery", accounting="gaussian", journal=tmp_path / "j").fit(table, schema)
    assert not (tmp_path / "j").exists()


# Records that stand for many.

ATOMS = AtomsModel(Domain(("b", "a"), (3, 2)), 90.0, np.array([[0, 0], [2, 1], [2, 1]]), keep=0.9)


def test_atoms_answer_as_they_are_drawn():
    drawn = ATOMS.sample(60_000, np.random.default_rng(0))
    exact = ATOMS.marginal(["b", "a"])
    assert exact.sum() == pytest.approx(90) and exact.shape == (2, 3)
    np.testing.assert_allclose(counts(drawn, ("a", "b")) / 60_000, exact / 90, atol=0.006)


def test_atoms_are_held_to_evidence_exactly():
    evidence = {"b": np.array([1.0, 1.0, 0.0]), "a": np.array([0.5, 1.0])}
    drawn = ATOMS.conditioned(evidence).sample(60_000, np.random.default_rng(0))
    wanted = ATOMS.marginal(["a", "b"]) * np.outer(evidence["a"], evidence["b"])
    np.testing.assert_allclose(counts(drawn, ("a", "b")) / 60_000, wanted / wanted.sum(), atol=0.008)
    whole = AtomsModel(ATOMS.domain, 9.0, ATOMS.atoms)
    with pytest.raises(ImpossibleEvidenceError):
        whole.conditioned({"b": np.array([0.0, 1.0, 0.0])})
