"""MWEM: the marginal that is most wrong, measured, and approached by multiplicative weights."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from recipes import LINKS, assert_trace, chained, counts, random_rows, run
from weft_lab.methods.mwem import Mwem, averaged, expected, joined

from weft import Schema, Synthesizer
from weft.errors import MethodError
from weft.marginals.domain import Domain, StructuralZeros
from weft.marginals.marginal import Marginal


def test_a_tenth_for_columns_then_rounds_of_choice_and_measurement():
    made = run(Mwem(rounds=3), chained())
    assert_trace(made, [("marginals", 0.1), *[("choice", 0.15), ("marginals", 0.15)] * 3])


def test_as_published_only_the_rows_are_counted_first():
    paper = Mwem(accounting="pure", rare=0.0, share_columns=0.01, rounds=2)
    assert_trace(run(paper, chained()), [("total", 0.01), *[("choice", 0.2475), ("marginals", 0.2475)] * 2])


def test_the_links_of_a_chain_are_chosen():
    made = run(Mwem(), chained(), epsilon=8.0)
    assert set(made.measured[4:]) >= LINKS


def literal(domain, start, answers, total, passes):
    """Multiplicative weights over every combination of all columns, cell by cell: the algorithm box of the paper.

    `start` is the first distribution of each column; `answers` the (columns, noisy table) in the order they came.
    Returns the distribution after each round.
    """
    cells = list(itertools.product(*(range(size) for size in domain.shape)))
    weight = {cell: float(np.prod([start[i][code] for i, code in enumerate(cell)])) for cell in cells}
    seen, rounds = [], [dict(weight)]
    for answer in answers:
        seen.append(answer)
        for _ in range(passes or 1):
            for names, table in reversed(seen) if passes else [answer]:
                places = [domain.index(name) for name in names]
                now = dict.fromkeys(np.ndindex(table.shape), 0.0)
                for cell, share in weight.items():
                    now[tuple(cell[i] for i in places)] += share
                for cell in cells:
                    key = tuple(cell[i] for i in places)
                    wanted = min(max(table[key] / total, 0.0), 1.0)
                    weight[cell] *= np.exp((wanted - now[key]) / 2)
                whole = sum(weight.values())
                weight = {cell: share / whole for cell, share in weight.items()}
        rounds.append(dict(weight))
    return rounds


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("version", ["replayed", "averaged"])
def test_parts_are_the_whole_distribution_of_the_paper(version, seed):
    """Same answers, same distribution, though here it is kept in parts."""
    records = random_rows(seed)
    domain = records.domain
    passes = {"passes": 4} if version == "replayed" else {}
    recipe = Mwem(version=version, rare=0.0, accounting="pure", rounds=3, **passes)
    made = run(recipe, records, seed=seed)
    total = max(float(made.answers("total")[0].released[0]), 1.0)
    tables = [answer.released[0] for answer in made.answers("marginals")]
    start = [np.full(size, 1 / size) for size in domain.shape]
    rounds = literal(domain, start, list(zip(made.measured, tables, strict=True)), total, passes.get("passes", 0))
    shares = rounds[-1] if version == "replayed" else {c: np.mean([r[c] for r in rounds]) for c in rounds[0]}
    for names in [tuple(sorted(domain))] if version == "replayed" else made.model.tree.cliques:
        literally = np.zeros(domain.sizes(names))  # of an average, what is in one part: it is taken there
        for cell, share in shares.items():
            literally[tuple(cell[domain.index(name)] for name in names)] += share
        np.testing.assert_allclose(made.model.marginal(names) / total, literally, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_a_choice_is_scored_by_the_distance_of_whole_tables(seed):
    records = random_rows(seed)
    made = run(Mwem(rare=0.0, accounting="pure", rounds=1, max_cells=1 << 20), records, seed=seed)
    total = max(float(made.answers("total")[0].released[0]), 1.0)
    scores = made.answers("choice")[0].exact[0].tolist()
    names = list(records.domain)
    offered = [(name,) for name in names] + list(itertools.combinations(sorted(names), 2))
    flat = [np.rint(np.full(records.domain.sizes(c), total / records.domain.cells(c))) for c in offered]
    assert scores == [np.abs(counts(records, c) - f).sum() for c, f in zip(offered, flat, strict=True)]


def test_replaying_is_better_than_averaging():
    records = chained()

    def error(version):
        model = run(Mwem(version=version), records, epsilon=8.0).model
        return sum(np.abs(model.marginal(c) - counts(records, c)).sum() for c in LINKS)

    assert error("replayed") < error("averaged") / 2


def test_no_part_grows_past_its_limit():
    made = run(Mwem(max_cells=12, rounds=6), chained(), epsilon=8.0)
    assert max(made.model.inner.domain.cells(c) for c in made.model.inner.tree.cliques) <= 12


def test_the_average_of_rounds_is_that_of_the_last_parts():
    domain = Domain.of({"a": 2, "b": 2})
    apart = (Marginal(("a",), np.array([0.5, 0.5])), Marginal(("b",), np.array([0.25, 0.75])))
    together = (Marginal(("a", "b"), np.array([[0.5, 0.0], [0.0, 0.5]])),)
    (made,) = averaged([apart, together])
    np.testing.assert_allclose(made.table, [[0.3125, 0.1875], [0.0625, 0.4375]])
    np.testing.assert_allclose(expected(apart, ("a", "b")), joined(domain, apart, ("a", "b"))[0].table)


def test_what_rules_forbid_has_no_weight_once_columns_are_joined():
    known = StructuralZeros(("a", "b"), np.array([[False, True], [False, False]]))
    domain = Domain(("a", "b"), (2, 2), impossible=(known,))
    halves = np.array([0.5, 0.5])
    (made,) = joined(domain, (Marginal(("b",), halves), Marginal(("a",), halves)), ("a", "b"))
    np.testing.assert_allclose(made.table, [[1 / 3, 0], [1 / 3, 1 / 3]])


def test_a_column_that_does_not_fit_costs_nothing(table, schema, tmp_path):
    with pytest.raises(MethodError, match=r"column 'age' alone.*coarser bins.*raise max_cells"):
        Synthesizer(method="mwem", max_cells=8, journal=tmp_path / "j").fit(table, schema)
    with pytest.raises(MethodError, match="cover the exponential mechanism"):
        Synthesizer(method="mwem", accounting="gaussian", journal=tmp_path / "j").fit(table, schema)
    assert not (tmp_path / "j").exists()


def test_rows_of_many_columns_are_made_of_parts():
    rng = np.random.default_rng(0)
    columns = {f"c{i:02}": rng.integers(0, 4, 500) for i in range(24)}
    schema = Schema.from_domain(dict.fromkeys(columns, 4))
    made = Synthesizer(1.0, method="mwem", journal=None, passes=5).fit(pa.table(columns), schema)
    assert made.sample(30, seed=1).num_rows == 30
