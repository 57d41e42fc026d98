"""Chains against exact enumeration, kernels against plain twins, determinism, structural zeros, files."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import chi2

from weft.kernels import kernel
from weft.marginals.counting import count_marginals
from weft.marginals.domain import Domain
from weft.marginals.marginal import Marginal
from weft.models import model_class
from weft.models.chains.chain_fit import GibbsChains
from weft.models.chains.chain_kernels import (
    IMPOSSIBLE,
    LANES,
    add_rows,
    draw_from_forest,
    pick,
    sweep_gibbs,
    sweep_herding,
    weigh,
)
from weft.models.chains.chain_layout import TableLayout, Widened, find_spanning_forest, flatten_tables
from weft.models.chains.chain_model import (
    ANSWERS,
    FEEDBACK,
    HALF_FEEDBACK_NOISE,
    MIN_FEEDBACK,
    Chains,
    ChainsModel,
    strands_of,
)

DOMAIN = Domain(("a", "b", "c", "d"), (2, 3, 4, 2))
CLIQUES = (("a",), ("a", "b"), ("a", "c"), ("b", "c"), ("b", "c", "d"))
MASK = (1 << 64) - 1
DRAWN = 4


def exact(domain, cliques, potentials):
    """The whole joint table of a model, by enumeration."""
    joint = np.zeros(domain.shape)
    for clique, table in zip(cliques, potentials, strict=True):
        axes = [domain.index(name) for name in clique]
        order = np.argsort(axes)
        shape = [domain.shape[i] if i in axes else 1 for i in range(len(domain))]
        joint = joint + np.transpose(table, order).reshape(shape)
    joint = np.exp(joint)
    return joint / joint.sum()


def onto(joint, domain, clique):
    axes = tuple(i for i, name in enumerate(domain.names) if name not in clique)
    table = joint.sum(axis=axes)
    kept = [name for name in domain.names if name in clique]
    return np.transpose(table, [kept.index(name) for name in clique])


def random_model(seed=0, zeros=False, **settings):
    rng = np.random.default_rng(seed)
    potentials = [rng.normal(0, 1, DOMAIN.sizes(c)) for c in CLIQUES]
    if zeros:
        potentials[1][0, 2] = potentials[4][1, 1, 0] = potentials[4][0, 3, 1] = -np.inf
    joint = exact(DOMAIN, CLIQUES, potentials)
    targets = tuple(onto(joint, DOMAIN, c) for c in CLIQUES)
    return ChainsModel(DOMAIN, 1000.0, CLIQUES, tuple(potentials), targets, **settings), joint


def joint_counts(records):
    (table,) = count_marginals(records, [tuple(sorted(records.domain.names))])
    return table


class Twin:
    """The kernels' stream of uniforms, in plain Python."""

    def __init__(self, seed):
        self.state = int(seed)

    def __call__(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return ((z ^ (z >> 31)) >> 11) * 2.0**-53


def draw(weights, u):
    return int(min(np.searchsorted(np.cumsum(weights), u * np.sum(weights), side="right"), len(weights) - 1))


def logits(potentials, record, j):
    """Plain conditional logits of attribute j."""
    out = np.zeros(DOMAIN.shape[j])
    for clique, table in zip(CLIQUES, potentials, strict=True):
        members = [DOMAIN.index(name) for name in clique]
        if j in members:
            out += table[tuple(slice(None) if m == j else record[m] for m in members)]
    return out


@pytest.mark.parametrize("zeros", [False, True])
def test_samples_of_a_known_model_pass_a_goodness_of_fit_test(zeros):
    model, joint = random_model(3, zeros, herding=0, sweeps=25)
    n = 40_000
    seen = joint_counts(model.sample(n, np.random.default_rng(1)))
    expected = n * joint
    assert seen[joint == 0].sum() == 0
    big = expected > 5
    statistic = ((seen - expected)[big] ** 2 / expected[big]).sum()
    assert statistic < chi2.ppf(1 - 1e-4, big.sum() - 1)


def test_redraw_cluster_moves_keep_the_model_and_cross_between_copies():
    """Three near copies of a 6-valued column: single-attribute sweeps would stay where they started."""
    domain = Domain(("a", "b", "c"), (6, 6, 6))
    pairs = list(combinations(domain.names, 2))
    copy = np.where(np.eye(6, dtype=bool), 6.0, 0.0)
    tilt = np.linspace(0, 1.5, 6)
    cliques = (("a",), *pairs)
    potentials = [tilt, *[copy] * 3]
    joint = exact(domain, cliques, potentials)
    targets = [onto(joint, domain, c) for c in cliques]
    layout = TableLayout(domain, cliques)
    chains = Chains(layout, find_spanning_forest(domain, cliques, targets), flatten_tables(potentials), threads=1)
    assert len(chains.clusters[0][0]) == 3
    rows = np.zeros((20_000, 3), np.int32)  # all in one corner
    for seed in range(40):
        chains.sweep(rows, np.uint64(seed))
    now = np.bincount(rows[:, 0], minlength=6) / len(rows)
    assert np.abs(now - targets[0]).sum() / 2 < 0.02


def test_gibbs_kernel_and_its_plain_twin_move_records_alike():
    model, _ = random_model(5)
    layout = TableLayout(DOMAIN, CLIQUES)
    rng = np.random.default_rng(2)
    start = np.stack([rng.integers(0, k, 60) for k in DOMAIN.shape], 1).astype(np.int32)
    moved, plain = start.copy(), start.copy()
    rows = layout.rows(flatten_tables(model.potentials))
    sweep_gibbs(moved, np.ones(4, np.bool_), layout.widths, *layout.sweep, rows, np.uint64(77))
    twin = Twin(77)
    for j, record in product(range(4), plain):
        w = logits(model.potentials, record, j)
        record[j] = draw(np.exp(w - w.max()), twin())
    assert np.mean(moved != plain) < 0.01  # float32 against float64: a uniform on a boundary at most


def test_herding_kernel_and_its_plain_twin_move_records_alike():
    model, joint = random_model(5)
    layout = TableLayout(DOMAIN, CLIQUES)
    rng = np.random.default_rng(2)
    start = np.stack([rng.integers(0, k, 60) for k in DOMAIN.shape], 1).astype(np.int32)
    targets = [onto(joint, DOMAIN, c) * 60 for c in CLIQUES]
    members = [[DOMAIN.index(name) for name in c] for c in CLIQUES]

    def excess(rows):
        tables = [-t for t in targets]
        for table, m in zip(tables, members, strict=True):
            np.add.at(table, tuple(rows[:, m].T), 1)
        return tables

    moved, plain = start.copy(), start.copy()
    rows = layout.rows(flatten_tables(model.potentials))
    gap = np.append(flatten_tables(excess(start)), 0.0).astype(np.float32)
    strengths = np.linspace(0.05, 0.3, len(CLIQUES))  # each table has its own
    each = strengths[[c for _, c in layout.entries]].astype(np.float32)
    sweep_herding(moved, layout.widths, *layout.sweep, rows, layout.cells, gap, each, np.uint64(9))
    twin = Twin(9)
    for j, i in product(range(4), range(60)):
        rest = np.delete(plain, i, axis=0)
        tables = excess(rest)
        w = logits(model.potentials, plain[i], j)
        for table, m, strength in zip(tables, members, strengths, strict=True):
            if j in m:  # the record itself is out of its tables while it is redrawn
                w = w - strength * table[tuple(slice(None) if k == j else plain[i][k] for k in m)]
        plain[i, j] = draw(np.exp(w - w.max()), twin())
    assert np.mean(moved != plain) < 0.02
    assert gap[:-1] == pytest.approx(flatten_tables(excess(moved)), abs=1e-3) and gap[-1] == 0


@kernel()
def added(into, rows, at, count):
    for lane in range(0, into.size, LANES):
        add_rows(into, rows, at, count, lane)


@kernel()
def weighed(logits, sums):
    return weigh(logits, sums, logits.size)


@kernel()
def picked(chances, sums, u):
    return pick(chances, sums, chances.size, u)


@pytest.mark.parametrize("m", range(6))
@pytest.mark.parametrize("width", [LANES, 3 * LANES])
def test_rows_are_added_however_many_there_are(width, m):
    rng = np.random.default_rng(0)
    rows = rng.random(1000).astype(np.float32)
    at = rng.integers(0, 1000 - width, 6)
    into = np.full(width, 7.0, np.float32)
    added(into, rows, at, m)
    assert into == pytest.approx(sum((rows[a : a + width] for a in at[:m]), np.zeros(width)), rel=1e-5)


def test_chances_are_exponentials_and_what_cannot_be_has_none():
    logits = np.concatenate([np.linspace(-79, 4, 5 * LANES - 3), [IMPOSSIBLE, -90, 3 * IMPOSSIBLE]]).astype(np.float32)
    chances, sums = logits.copy(), np.empty(5, np.float32)
    total = weighed(chances, sums)
    assert chances[:-3] == pytest.approx(np.exp(logits[:-3].astype(float) - 4), rel=1e-5)
    assert (chances[-3:] == 0).all() and total == pytest.approx(chances.sum(), rel=1e-5)
    assert sums == pytest.approx(chances.reshape(5, LANES).sum(axis=1), rel=1e-5)
    assert weighed(np.full(LANES, 5 * IMPOSSIBLE, np.float32), sums) == 0


def test_values_are_picked_where_the_running_sum_passes_and_never_where_there_is_no_chance():
    rng = np.random.default_rng(1)
    chances = (rng.random(4 * LANES) * (rng.random(4 * LANES) < 0.5)).astype(np.float32)
    sums = chances.reshape(4, LANES).sum(axis=1)
    running = np.cumsum(chances, dtype=float)
    for u in rng.random(200) * running[-1]:
        assert picked(chances, sums, np.float32(u)) == np.searchsorted(running, u, side="right")
    assert chances[picked(chances, sums, np.float32(2 * running[-1]))] > 0


def test_tables_inside_others_are_added_to_them():
    model, joint = random_model(5)
    wide = Widened(TableLayout(DOMAIN, CLIQUES))
    assert set(wide.layout.cliques) == {("a", "b"), ("a", "c"), ("b", "c", "d")}
    tables = wide.layout.tables(wide.add_up(flatten_tables(model.potentials)))
    assert exact(DOMAIN, wide.layout.cliques, tables) == pytest.approx(joint)


def test_the_forest_is_drawn_exactly():
    model, joint = random_model(7)
    tree = find_spanning_forest(DOMAIN, CLIQUES, model.targets)
    rows = np.zeros((50_000, 4), np.int32)
    layout = TableLayout(DOMAIN, CLIQUES)
    draw_from_forest(rows, tree.order, tree.parent, layout.sizes, tree.start, tree.cumulative, np.uint64(1))
    assert len(tree.edges) == 3
    for edge in tree.edges:
        wanted = onto(joint, DOMAIN, edge)
        seen = np.zeros(wanted.shape)
        np.add.at(seen, tuple(rows[:, [DOMAIN.index(name) for name in edge]].T), 1 / len(rows))
        assert np.abs(seen - wanted).sum() / 2 < 0.012


def test_matching_recovers_a_known_model():
    _, joint = random_model(11)
    tables = [Marginal(c, onto(joint, DOMAIN, c) * 1000) for c in CLIQUES]
    chains = GibbsChains(DOMAIN, 20_000, np.random.default_rng(0))
    chains.set_targets(tables, [1.0] * len(tables))
    chains.match(60, 2.0)
    fitted = exact(DOMAIN, CLIQUES, chains.model().potentials)
    assert np.abs(fitted - joint).sum() / 2 < 0.02


def test_matching_does_not_diverge_on_crowded_strong_pairs():
    """Twelve binary columns driven by one hidden bit: every pair measured, two far modes."""
    rng = np.random.default_rng(0)
    names = tuple(f"c{i:02}" for i in range(12))
    domain = Domain(names, (2,) * 12)
    hidden = rng.random(20_000) < 0.3
    rows = np.stack([np.where(rng.random(20_000) < 0.1, ~hidden, hidden) for _ in names], 1)
    cliques = [(n,) for n in names] + list(combinations(names, 2))
    from weft.models.chains.chain_model import to_records

    tables = [Marginal(c, t) for c, t in zip(cliques, count_marginals(to_records(domain, rows), cliques), strict=True)]
    chains = GibbsChains(domain, 8_000, rng)
    chains.set_targets(tables, [5.0] * len(tables))
    distances = chains.match(40, 2.0)
    assert distances[-1] < 0.02
    chains.restart()
    for _ in range(10):
        chains.sweep()
    assert chains.distance() < 0.02  # chains that start anew end where the old ones are


def test_herding_brings_measured_tables_below_sampling_error():
    rng = np.random.default_rng(1)
    plain, joint = random_model(13, herding=0)
    herded, _ = random_model(13, herding=3)
    n = 3000

    def error(model):
        tables = count_marginals(model.sample(n, rng), CLIQUES)
        return np.mean([np.abs(t / n - onto(joint, DOMAIN, c)).sum() for t, c in zip(tables, CLIQUES, strict=True)])

    assert error(herded) < error(plain) / 2


def test_a_noisy_table_is_followed_less_than_a_sure_one():
    """Records come closer to a wrong target the less noise it is said to have; without noise they follow it."""
    plain, _ = random_model(13)
    wrong = tuple(np.full(t.shape, 1 / t.size) for t in plain.targets)  # every table even, which the potentials are not
    n = 3000

    def gap(noise):
        model = replace(plain, targets=wrong, noise=(noise,) * len(CLIQUES))
        tables = count_marginals(model.sample(n, np.random.default_rng(1)), CLIQUES)
        return np.mean([np.abs(t / n - aim).sum() for t, aim in zip(tables, wrong, strict=True)])

    sure, between, noisy = gap(0.0), gap(10 / n), gap(100 / n)
    assert 2 * sure < between < noisy


def test_feedback_is_halved_where_noise_is_as_large_as_it_may_be_for_sure():
    model, _ = random_model(0, noise=(0.0, *[HALF_FEEDBACK_NOISE / 1000] * (len(CLIQUES) - 1)))
    assert model.feedbacks(1000) == pytest.approx([FEEDBACK, *[FEEDBACK / 2] * (len(CLIQUES) - 1)])
    assert (model.feedbacks(10**7) >= MIN_FEEDBACK).all()


def test_the_same_seed_makes_the_same_records_on_any_number_of_threads():
    made = []
    for threads in (1, 3):
        model, _ = random_model(1)
        model._chains.threads = threads
        made.append(model.sample(40_000, np.random.default_rng(4)))
    assert all(np.array_equal(a, b) for a, b in zip(made[0].columns, made[1].columns, strict=True))


def test_blocks_that_continue_others_follow_the_same_law_and_repeat_few_records(monkeypatch):
    monkeypatch.setattr("weft.models.chains.chain_model.BLOCK", 4_000)
    model, joint = random_model(3, herding=0, sweeps=8)
    n = 64_000
    assert strands_of(n) == 4  # of four blocks each
    records = model.sample(n, np.random.default_rng(2))
    expected = n * joint
    assert np.abs(joint_counts(records) - expected).sum() / 2 < 0.01 * n
    rows = np.stack(records.columns, axis=1)
    chance = float((joint**2).sum())  # of two independent records being equal
    again = (rows[:4_000] == rows[4_000:8_000]).all(axis=1).mean()
    assert again < chance + 0.15


def test_strands_continue_evidence_and_herding(monkeypatch):
    monkeypatch.setattr("weft.models.chains.chain_model.BLOCK", 1_500)
    model, joint = random_model(13, herding=2)
    n = 12_001
    assert set(model.sample(n, np.random.default_rng(0), given={"c": 2}).column("c").tolist()) == {2}
    tables = count_marginals(model.sample(n, np.random.default_rng(0)), CLIQUES)
    plain = count_marginals(random_model(13, herding=0)[0].sample(n, np.random.default_rng(0)), CLIQUES)

    def error(found):
        return np.mean([np.abs(t / n - onto(joint, DOMAIN, c)).sum() for t, c in zip(found, CLIQUES, strict=True)])

    assert error(tables) < error(plain) / 2


@pytest.mark.parametrize(("noise", "least", "most"), [(0.0, 2.0, 99), (1.0, 0.8, 1.2)], ids=["trusted", "not trusted"])
def test_what_a_block_has_too_many_of_the_next_one_makes_up_for(noise, least, most, monkeypatch):
    """Twenty blocks of a strand, herded weakly: where tables are trusted, and only there, errors do not add up."""
    monkeypatch.setattr("weft.models.chains.chain_model.BLOCK", 500)
    monkeypatch.setattr("weft.models.chains.chain_model.strands_of", lambda n: 1)
    model, joint = random_model(13, herding=1, feedback=0.02, noise=(noise,) * len(CLIQUES))
    n, errors = 10_000, []
    plain = Chains.herd
    for carried in (True, False):
        if not carried:
            monkeypatch.setattr(Chains, "herd", lambda self, *args: plain(self, *args[:-1], np.zeros(1)))
        tables = count_marginals(model.sample(n, np.random.default_rng(0)), CLIQUES)
        gaps = [np.abs(t / n - onto(joint, DOMAIN, c)).sum() for t, c in zip(tables, CLIQUES, strict=True)]
        errors.append(np.mean(gaps))
    assert least * errors[0] < errors[1] < most * errors[0]


def test_given_values_are_held_and_the_others_follow_their_conditional_law():
    model, joint = random_model(17, sweeps=25)
    records = model.sample(30_000, np.random.default_rng(0), given={"c": 2})
    assert set(records.column("c").tolist()) == {2}
    wanted = onto(joint, DOMAIN, ("b", "c"))[:, 2]
    seen = np.bincount(records.column("b"), minlength=3) / 30_000
    assert np.abs(seen - wanted / wanted.sum()).sum() / 2 < 0.012


def test_marginals_are_within_their_sampling_error():
    model, joint = random_model(19, herding=0, sweeps=25)
    for columns in [("a",), ("d", "a"), ("a", "b", "d")]:
        clique = tuple(sorted(columns))
        wanted = onto(joint, DOMAIN, clique) * model.total
        p = wanted / model.total
        error = model.total * np.sqrt(np.maximum(p * (1 - p), 0.25 / ANSWERS) / ANSWERS)
        assert np.all(np.abs(model.marginal(columns) - wanted) < 5 * error)


def test_a_stored_model_samples_the_same():
    model, _ = random_model(23, zeros=True)
    meta, arrays = model.to_arrays()
    loaded = model_class("chains").from_arrays(DOMAIN, meta, arrays)
    a, b = (m.sample(500, np.random.default_rng(0)) for m in (model, loaded))
    assert all(np.array_equal(x, y) for x, y in zip(a.columns, b.columns, strict=True))


def test_no_records_and_one_record():
    model, _ = random_model(29)
    assert len(model.sample(0, np.random.default_rng(0))) == 0
    assert len(model.sample(1, np.random.default_rng(0))) == 1


def test_records_of_chains_are_nearer_to_their_model_where_more_are_drawn_than_kept():
    """The joint table of all four columns, which is not herded; one that is impossible stays so."""
    n, found = 3_000, {}
    for drawn in (1, DRAWN):
        model, joint = random_model(3, zeros=True, sweeps=12, drawn=drawn)
        made = [joint_counts(model.sample(n, np.random.default_rng(seed))) for seed in range(4)]
        assert all(table.sum() == n and not table[joint == 0].any() for table in made)
        found[drawn] = np.mean([np.abs(table / n - joint).sum() / 2 for table in made])
    assert found[DRAWN] < 0.8 * found[1]


def test_records_as_they_are_drawn_are_not_chosen():
    plain, _ = random_model(3, herding=0, drawn=1)
    asked, _ = random_model(3, herding=0, drawn=DRAWN)
    one, other = (model.sample(500, np.random.default_rng(0)) for model in (plain, asked))
    assert all((a == b).all() for a, b in zip(one.columns, other.columns, strict=True))
    held = random_model(3, drawn=DRAWN)[0].sample(500, np.random.default_rng(0), given={"a": 1})
    assert (held.column("a") == 1).all() and len(held) == 500


def test_a_part_of_a_large_table_is_not_chosen_either():
    """A table larger than memory is made part by part: no part may cost eight times as much as all of them together."""
    model, _ = random_model(3, drawn=DRAWN)
    large, plain = replace(model, total=1e6), replace(model, total=1e6, drawn=1)
    made = [np.stack(each.sample(500, np.random.default_rng(0)).columns) for each in (large, plain, model)]
    assert (made[0] == made[1]).all() and (made[0] != made[2]).any()


def test_a_file_keeps_how_many_are_drawn_and_older_ones_draw_one():
    model, _ = random_model(drawn=DRAWN)
    meta, arrays = model.to_arrays()
    assert ChainsModel.from_arrays(DOMAIN, meta, arrays).drawn == DRAWN
    assert ChainsModel.from_arrays(DOMAIN, {k: v for k, v in meta.items() if k != "drawn"}, arrays).drawn == 1
