"""Linking of children to families: the kernels against plain numpy, rules of families, and what it gains."""

import itertools

import numpy as np
import pytest

from weft.models.family_linking import FamilyRoles, Linkage, LinkTable


def some_families(rng, families=40, attributes=3, size=4, ordered=False):
    sizes = rng.integers(0, size + 1, families)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    children = rng.integers(0, 3, (int(starts[-1]), attributes))
    return Linkage(
        children,
        rng.integers(0, 2, (families, 2)),
        starts,
        rng.choice([1.0, 0.5], families),
        [LinkTable(0, 0, np.ones((3, 3)) / 9), LinkTable(0, 2, np.ones((3, 3)) / 9, 0.5)],
        [LinkTable(1, 0, np.ones((2, 3)) / 6)],
        FamilyRoles.none(len(children)),
        rng.integers(0, 2, len(children)) if ordered else None,
    )


def count_plainly(linkage, members, table, link):
    """Return the weighted counts of one table by a loop over families."""
    found = np.zeros(table.target.shape)
    for f, (lo, hi) in enumerate(itertools.pairwise(linkage.starts.tolist())):
        rows, k = linkage.children[members[lo:hi]], hi - lo
        for a, b in itertools.product(range(k), repeat=2):
            if link and a == b:
                found[linkage.parents[f, table.other], rows[a, table.own]] += linkage.weights[f] / k
            elif not link and linkage.blocks is not None:
                found[rows[a, table.own], rows[b, table.other]] += (b == a + 1) * linkage.weights[f] / max(k - 1, 1)
            elif not link and a != b:
                found[rows[a, table.own], rows[b, table.other]] += linkage.weights[f] / (k * (k - 1))
    return found


def energy(linkage, members):
    """Return the sum of squared differences over all tables, each scaled to the families' total."""
    total = 0.0
    for tables, link in ((linkage.siblings, False), (linkage.links, True)):
        for table in tables:
            found = count_plainly(linkage, members, table, link)
            target = table.target * found.sum() / table.target.sum()
            total += table.precision * ((found - target) ** 2).sum()
    return total


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_residuals_match_plain_counts(seed, ordered):
    linkage = some_families(np.random.default_rng(seed), ordered=ordered)
    layout, members = linkage._layout(), np.arange(len(linkage.children))
    residual = linkage._residual(members, np.ones(len(linkage.starts) - 1, bool), layout)
    at = 0
    for tables, link in ((linkage.siblings, False), (linkage.links, True)):
        for table in tables:
            found = count_plainly(linkage, members, table, link)
            wanted = found - table.target * found.sum() / table.target.sum()
            assert np.allclose(residual[at : at + wanted.size], wanted.ravel())
            at += wanted.size


@pytest.mark.parametrize("ordered", [False, True])
def test_swaps_keep_children_and_residuals_exact(ordered):
    from weft.models.family_linking import swap_children

    linkage = some_families(np.random.default_rng(1), ordered=ordered)
    layout, members = linkage._layout(), np.arange(len(linkage.children))
    inside = np.ones(len(linkage.starts) - 1, bool)
    residual = linkage._residual(members, inside, layout)
    blocks = np.zeros(len(members), np.int64) if linkage.blocks is None else linkage.blocks
    places = np.argsort(blocks, kind="stable")
    begin, end = (np.searchsorted(blocks[places], blocks[places], side=side) for side in ("left", "right"))
    taken = swap_children(
        residual, linkage.children, linkage.parents, linkage.starts, linkage._family(), members, places, begin, end,
        linkage.weights, linkage.roles.bits, 0, 0, ordered, *layout, 3000, 2.0, 5,
    )  # fmt: skip
    assert taken > 0
    assert (blocks[members] == blocks).all()  # children stay in their block
    assert sorted(members.tolist()) == list(range(len(members)))
    assert np.allclose(residual, linkage._residual(members, inside, layout))  # thousands of updates and reverts
    assert energy(linkage, members) == pytest.approx(
        sum(p * (residual[at : at + t.target.size] ** 2).sum()
            for p, at, t in zip(layout[4], layout[3], [*linkage.siblings, *linkage.links], strict=True))
    )  # fmt: skip


def test_linking_finds_pairs_that_a_random_assignment_misses():
    rng = np.random.default_rng(0)
    families = 3000
    alike = np.repeat(rng.integers(0, 4, families), 2)
    starts = np.arange(0, 2 * families + 1, 2)
    target = np.diag(np.bincount(alike[::2], minlength=4)).astype(float)
    shuffled = rng.permutation(alike)[:, None]
    linkage = Linkage(
        shuffled, np.zeros((families, 1), np.int64), starts, np.ones(families), [LinkTable(0, 0, target)], [],
        FamilyRoles.none(len(shuffled)),
    )  # fmt: skip
    members = linkage.link(np.random.default_rng(1))
    made = shuffled[members, 0].reshape(-1, 2)
    assert (made[:, 0] == made[:, 1]).mean() > 0.97
    assert (shuffled.reshape(-1, 2)[:, 0] == shuffled.reshape(-1, 2)[:, 1]).mean() < 0.3
    again = linkage.link(np.random.default_rng(1))
    assert np.array_equal(members, again)  # a seed determines the result


def test_roles_of_families_are_kept():
    rng = np.random.default_rng(3)
    sizes = rng.integers(1, 5, 500)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    n, family = int(starts[-1]), np.repeat(np.arange(500), sizes)
    bits = np.zeros(n, np.int64)
    bits[starts[:-1]] = 1  # one head in each family
    seconds = starts[:-1][sizes > 1] + 1
    bits[rng.choice(seconds, 150, replace=False)] = 2  # at most one partner
    children = rng.integers(0, 5, (n, 2))
    linkage = Linkage(
        children, np.zeros((500, 1), np.int64), starts, np.ones(500),
        [LinkTable(0, 1, rng.random((5, 5)))], [], FamilyRoles(bits, exact=1, single=2),
    )  # fmt: skip
    made = bits[linkage.link(np.random.default_rng(4), 200_000)]
    assert (np.bincount(family, made == 1) == 1).all()
    assert (np.bincount(family, made == 2) <= 1).all()
    assert (made == 2).sum() == 150
