"""The search for cliques of high order: sums of parities, what is searched, what a draw costs and may reveal."""

import itertools

import numpy as np
import pytest
from recipes import Taped, run
from weft_lab.parities import LEARNED, accuracy, parity_table

import weft
from weft.curator import Curator
from weft.engines import MemoryEngine
from weft.marginals.domain import Domain
from weft.marginals.parities import ParityBlock, compute_parity_sums
from weft.marginals.records import Records
from weft.methods.weave.parity_search import MAX_CELLS, MAX_WORK, ParitySearch, plan_blocks, split_values
from weft.methods.weave.weave import Weave
from weft.privacy import Adjacency, Budget, Ledger
from weft.schema import Schema


def curator_of(records, release, relation="add-remove", epsilon=1.0, accounting="gaussian", weights=None, mass=None):
    delta = 0.0 if accounting == "pure" else 1e-5
    ledger = Ledger(Budget(epsilon=epsilon, delta=delta), accounting, Adjacency(relation))
    return Curator(MemoryEngine(records, weights=weights, mass=mass), ledger, release)


def test_sums_are_those_of_every_set_of_bits():
    rng = np.random.default_rng(0)
    table = rng.integers(0, 99, (2, 4, 2))
    cells = np.arange(16)
    slow = [int((table.ravel() * (-1) ** np.array([(c & s).bit_count() for c in cells.tolist()])).sum()) for s in cells]
    assert compute_parity_sums(table).tolist() == slow


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_no_neighbour_moves_a_score_or_the_sum_by_more_than_is_charged(relation):
    domain = Domain(("a", "b", "c"), (2, 4, 2))
    rows = list(itertools.product(range(2), range(4), range(2)))
    rng = np.random.default_rng(1)
    block = ParityBlock(("a", "b", "c"), np.arange(16), rng.integers(-9, 9, 16))

    def answers(table):
        tape = Taped(0, exact=True)
        curator = curator_of(Records.of(domain, np.array(table, int).reshape(-1, 3).T), tape, relation)
        curator.find_parity([block], "q", 0.1)
        return tape.tape

    base = [rows[i] for i in rng.integers(0, len(rows), 12)]
    most = [0, 0]
    before = answers(base)
    others = [[*base, row] for row in rows] if relation == "add-remove" else [[row, *base[1:]] for row in rows]
    for other in others:
        after = answers(other)
        assert [a.charge.sensitivity for a in after] == [a.charge.sensitivity for a in before]
        for i in range(2):  # scores of all sets; the sum of the selected one, here of any
            moved = np.abs(np.abs(after[0].exact[0]) - np.abs(before[0].exact[0])).max()
            most[i] = max(most[i], int(moved))
    assert max(most) <= before[0].charge.sensitivity == before[1].charge.sensitivity == (1, 2)[relation != "add-remove"]


def test_weighted_rows_have_the_sensitivity_of_their_mass():
    records = parity_table(2, 500, columns=3, others=0)
    weights = np.random.default_rng(0).integers(0, 5, 500)
    tape = Taped(0, exact=True)
    curator = curator_of(records, tape, weights=weights, mass=7)
    block = ParityBlock(tuple(sorted(records.domain)), np.arange(16), np.zeros(16, np.int64))
    curator.find_parity([block], "q", 0.1)
    assert [a.charge.sensitivity for a in tape.tape] == [7, 7]
    table = np.zeros((2,) * 4, np.int64)
    np.add.at(table, tuple(records.column(name) for name in block.clique), weights)
    assert tape.tape[0].exact[0].tolist() == np.abs(compute_parity_sums(table)).tolist()


@pytest.mark.parametrize("accounting", ["gaussian", "zcdp", "pure"])
def test_a_draw_costs_its_share_under_every_accounting(accounting):
    curator = curator_of(parity_table(2, 500), Taped(0, exact=True), accounting=accounting)
    block = ParityBlock(("x0", "x1", "y"), np.array([7]), np.zeros(1, np.int64))
    curator.find_parity([block], "q", 0.1)
    assert 1 - curator.left == pytest.approx(0.1, rel=1e-9)


def test_expected_sums_too_large_are_refused_before_a_charge():
    curator = curator_of(parity_table(2, 50), Taped(0, exact=True))
    with pytest.raises(ValueError, match="too large"):
        curator.find_parity([ParityBlock(("x0",), np.array([1]), np.array([1 << 62]))], "q", 0.1)
    assert curator.left == 1


@pytest.mark.parametrize(("columns", "codes"), [(5, 2), (16, 2), (9, 4), (24, 2), (14, 4), (30, 4), (60, 4), (200, 2)])
@pytest.mark.parametrize("rows", [2e3, 2e5])
def test_blocks_hold_every_set_up_to_the_stated_order(columns, codes, rows):
    domain = Domain(tuple(f"c{i:03}" for i in range(columns)), (codes,) * columns)
    blocks, complete = plan_blocks(domain, rows, min(7, columns), np.random.default_rng(0))
    assert sum(domain.cells(c) for c in blocks) <= MAX_CELLS
    assert len(blocks) * rows <= MAX_WORK or len(blocks) == 1
    rng = np.random.default_rng(1)
    held = [set(c) for c in blocks]
    for _ in range(30 if complete > 2 else 0):
        some = set(rng.choice(domain.names, complete, replace=False).tolist())
        assert any(some <= c for c in held)
    assert complete == min(7, columns) or columns > 16 or codes > 2 or complete == 7
    assert complete > 2 or columns >= 60 or rows > 1e5


def test_values_are_split_into_groups_of_equal_counts():
    codes, size = split_values(np.full(40, 5.0))
    assert size == 4 and np.bincount(codes).tolist() == [10] * 4
    assert [split_values(np.ones(k))[1] for k in (2, 3, 4)] == [2, 4, 4]
    assert split_values(np.zeros(9))[0].max() <= 3  # a column of noise only


def find(records, draws=3, order=7, max_cells=1e9, exact=True, epsilon=1.0, guess=None):
    """Search in rows, with a model of independent columns."""
    tape = Taped(0, exact)
    curator = curator_of(records, tape, epsilon=epsilon)
    rng = np.random.default_rng(5)
    columns = {name: np.bincount(records.column(name), minlength=records.domain.size(name)) for name in records.domain}
    model = Records(records.domain, tuple(rng.permutation(records.column(name)) for name in records.domain))
    search = ParitySearch(curator, columns, float(len(records)), order, max_cells, rng)
    return *search.find(model if guess is None else guess, 0.005, draws), curator


def test_sets_that_follow_from_found_ones_are_not_found_again():
    """Two labels: the sum over both parities together is as large as either."""
    first = parity_table(3, seed=1)
    second = (first.column("x3") + first.column("x4") + first.column("z0")) % 2
    domain = Domain((*first.domain.names, "w"), (2,) * 17)
    found, spent, curator = find(Records.of(domain, [*first.columns, second]), draws=4)
    assert set(found) == {("x0", "x1", "x2", "y"), ("w", "x3", "x4", "z0")}
    assert spent == pytest.approx(0.015) and 1 - curator.left == pytest.approx(spent)


def test_nothing_is_found_where_nothing_is_or_where_the_model_has_it():
    records = parity_table(3)
    assert find(parity_table(3, flips=0.5))[:2] == ([], 0.005)
    assert find(records, guess=parity_table(3, seed=2))[:2] == ([], 0.005)


def test_cliques_too_large_for_the_noise_are_not_searched():
    records = parity_table(5)
    assert find(records, max_cells=64)[0] == [("x0", "x1", "x2", "x3", "x4", "y")]
    assert find(records, max_cells=32)[0] == [] == find(records, order=5)[0]
    assert find(records, max_cells=4)[1] == 0  # no candidate: nothing is spent


def test_columns_of_more_values_are_found_in_groups():
    rng = np.random.default_rng(3)
    columns = [rng.integers(0, size, 30_000) for size in (3, 3, 3, 8, 2, 20)]
    columns[4] = (columns[0] == 0) ^ (columns[3] >= 4) ^ (columns[5] >= 10)
    records = Records.of(Domain(tuple("abcdef"), (3, 3, 3, 8, 2, 20)), columns)
    assert find(records, draws=1)[0] == [("a", "d", "e", "f")]


@pytest.mark.parametrize("m", [4, 5])
def test_weave_learns_a_parity_of_many_columns(m):
    made = run(Weave(), parity_table(m), epsilon=1.0, delta=1e-5, seed=m)
    assert any(set(c) == {*(f"x{i}" for i in range(m)), "y"} for c in made.measured)
    assert accuracy(made.model.sample(20_000, np.random.default_rng(0)), m) > 0.93
    assert sum(share for _, share in made.trace) == pytest.approx(1.0)


def test_a_streamed_table_has_the_same_answers(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    records = parity_table(4, 6000)
    table = pa.table({name: records.column(name) for name in records.domain})
    pq.write_table(table, tmp_path / "rows.parquet")
    schema = Schema.from_domain(dict.fromkeys(records.domain, 2))
    made = [
        weft.Synthesizer(4.0, method="weave", journal=None, seed=1, noise_seed=2, engine=engine)
        .fit(tmp_path / "rows.parquet", schema)
        .sample(500, seed=3)
        for engine in ("memory", "stream")
    ]
    assert made[0].equals(made[1])


@pytest.mark.slow
@pytest.mark.parametrize(("m", "epsilon"), [(2, 1.0), (3, 1.0), (4, 1.0), (5, 1.0), (6, 4.0)])
def test_parities_are_learned_in_nine_of_ten_runs(m, epsilon):
    runs = [run(Weave(), parity_table(m, seed=seed), epsilon, 1e-5, seed=seed) for seed in range(10)]
    accuracies = [accuracy(made.model.sample(20_000, np.random.default_rng(0)), m) for made in runs]
    assert sum(a > LEARNED for a in accuracies) >= 9, accuracies
