"""Search for cliques of high order that no smaller marginal shows, such as a label that is the parity of five columns.

Values are split into two or four groups, so that a value is one or two bits. Blocks of attributes are counted whole;
from the table of a block, the parity sums of all sets of its bits follow at once. The exponential mechanism selects the
sum that is farthest from the model, at a cost that hardly grows with the number of sets, and the selected sum is
released with noise. A clique whose sum is clearly off the model is measured in the next batch.

Privacy: groups come from released one-way marginals, expected sums from sampled records of the model, and blocks from
public sizes and the noisy number of rows; rows are used by `Curator.find_parity` only.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from weft.curator import Curator
from weft.marginals.counting import count_marginals
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Array
from weft.marginals.parities import ParityBlock, compute_parity_sums
from weft.marginals.records import Records

MAX_ORDER = 7
"""Maximum attributes of a set."""

MAX_CELLS = 1 << 21
"""Maximum cells of all blocks."""

MAX_WORK = 60_000_000
"""Maximum rows times blocks: some tenths of a second."""

MIN_RECORDS, MAX_RECORDS = 20_000, 1 << 17
"""Records of the model that sums are expected from: as many as the rows, within these limits."""

_BLOCK_BITS, _RANDOM_BITS = 18, 12
"""Maximum bits of a block, so that its table fits the cache; of a random block, so that there are many."""

_MIN_DEPARTURE = 0.1
"""Minimum difference from the model, as a share of the rows: smaller ones are left to the other candidates."""

_MARGIN = 1.5
"""Standard deviations by which a difference must exceed what the largest of all differences is by chance."""

Bits = frozenset[tuple[str, int]]
"""A set of bits: attributes with the number of a bit."""


@dataclass(frozen=True)
class ParitySearch:
    """Search for the sets of attributes whose parity sums differ most from a model's."""

    curator: Curator
    columns: Mapping[str, Array]
    """Estimated one-way marginals."""
    total: float
    order: int
    """Maximum attributes of a set."""
    max_cells: float
    """Maximum cells of a clique: those that noise allows."""
    rng: np.random.Generator

    def find(self, records: Records, share: float, draws: int) -> tuple[list[Clique], float]:
        """Return the cliques that the model of `records` misses, and the share spent.

        Each draw costs `share` and finds one clique at most; one that finds none is the last.
        """
        split = {name: split_values(table) for name, table in self.columns.items() if len(table) > 1}
        coded = self.curator.recode(split)
        binary = coded.domain.project(split)
        order = min(self.order, MAX_ORDER, len(binary))
        blocks, complete = plan_blocks(binary, self.total, order, self.rng)
        made = Records.of(binary, [codes[records.column(name)] for name, (codes, _) in split.items()])
        searched = list(self._list_candidates(made, blocks, order))
        scope = "all" if complete == order else f"all of up to {complete}" if complete > 2 else "some"
        question = f"parity sum farthest from the model, sets of 3 to {order} of {len(binary)} attributes, {scope}"
        chance = math.sqrt(self.total + self.total**2 / len(made))
        found: list[Clique] = []
        span: set[Bits] = {frozenset()}
        for draw in range(draws):
            ends = np.cumsum([len(block.sets) for block in searched])
            if not ends[-1]:
                return found, draw * share
            at, value, sigma = coded.find_parity(searched, question, share)
            block = searched[i := int(np.searchsorted(ends, at, side="right"))]
            at -= int(ends[i])  # from the end of the block
            clear = (math.sqrt(2 * math.log(ends[-1])) + _MARGIN) * math.hypot(chance, sigma)
            if abs(value - int(block.expected[at])) < max(clear, _MIN_DEPARTURE * self.total):
                return found, (draw + 1) * share
            bits = {bit for j, bit in enumerate(_list_bits(binary, block.clique)) if int(block.sets[at]) >> j & 1}
            found.append(make_clique(name for name, _ in bits))
            span |= {each ^ bits for each in span}
            searched = [_leave_out(each, _list_bits(binary, each.clique), span) for each in searched]
        return found, draws * share

    def _list_candidates(self, made: Records, blocks: Sequence[Clique], order: int) -> Iterator[ParityBlock]:
        """Yield the blocks with their sets of 3 to `order` attributes whose cliques are not too large."""
        known: dict[tuple[int, ...], Array] = {}
        for c, table in zip(blocks, count_marginals(made, blocks), strict=True):
            sizes = self.curator.domain.sizes(c)
            if sizes not in known:
                known[sizes] = _list_sets(table.shape, sizes, order, self.max_cells)
            expected = np.rint(compute_parity_sums(table)[known[sizes]] * (self.total / len(made)))
            yield ParityBlock(c, known[sizes], expected.astype(np.int64))


def split_values(table: Array) -> tuple[Array, int]:
    """Return the group of each value, of 2 or 4 groups: each value alone if there are few, else quarters of the rows.

    >>> split_values(np.array([10, 10, 10, 10, 40]))[0].tolist()
    [0, 0, 1, 1, 3]
    >>> split_values(np.array([10, 10, 10, 10, 1e7, 0]))[0].tolist()
    [0, 0, 0, 0, 2, 3]
    """
    if len(table) <= 4:
        return np.arange(len(table)), 2 if len(table) == 2 else 4
    counts = np.maximum(table, 1e-9)
    middles = (np.cumsum(counts) - counts / 2) / counts.sum()  # that of an empty last value may be rounded to 1
    return np.minimum((middles * 4).astype(np.int64), 3), 4


def plan_blocks(domain: Domain, rows: float, order: int, rng: np.random.Generator) -> tuple[list[Clique], int]:
    """Return blocks of attributes, and the order up to which every set is inside one of them.

    One block holds all attributes if possible. Otherwise random groups of attributes are combined, as many in a block
    as leave few enough blocks and cells; if not even three are possible, some random blocks are returned.
    """
    width = {name: domain.size(name).bit_length() - 1 for name in domain}
    if sum(width.values()) <= _BLOCK_BITS:
        return [make_clique(domain)], order
    names = [domain.names[i] for i in rng.permutation(len(domain))]
    most = MAX_WORK / max(rows, 1)
    for complete in range(order, 2, -1):
        for bits in range(_BLOCK_BITS // complete, max(width.values()) - 1, -1):
            groups = _group(names, width, bits)
            if math.comb(len(groups), complete) <= min(most, MAX_CELLS >> complete * bits):
                return [make_clique(sum(chosen, ())) for chosen in combinations(groups, complete)], complete
    some = range(max(int(min(most, MAX_CELLS >> _RANDOM_BITS)), 1))
    return [make_clique(_group(rng.permutation(names).tolist(), width, _RANDOM_BITS)[0]) for _ in some], 2


def _group(names: Sequence[str], width: Mapping[str, int], bits: int) -> list[tuple[str, ...]]:
    """Return consecutive groups of at most `bits` bits."""
    groups: list[tuple[str, ...]] = [()]
    for name in names:
        if sum(width[other] for other in groups[-1]) + width[name] > bits:
            groups.append(())
        groups[-1] += (name,)
    return groups


def _list_sets(shape: Sequence[int], sizes: Sequence[int], order: int, max_cells: float) -> Array:
    """Return the sets of bits that involve 3 to `order` attributes with at most `max_cells` cells together."""
    sets = np.arange(math.prod(shape))
    involved = np.zeros(len(sets), np.int64)
    cells, step = np.ones(len(sets)), len(sets)
    for codes, size in zip(shape, sizes, strict=True):
        step //= codes
        inside = sets // step % codes > 0
        involved += inside
        cells *= np.where(inside, size, 1)
    return np.flatnonzero((involved >= 3) & (involved <= order) & (cells <= max_cells))


def _list_bits(domain: Domain, c: Clique) -> list[tuple[str, int]]:
    """Return the attribute and the number of each bit of a block's cells, the lowest first."""
    return [(name, bit) for name in reversed(c) for bit in range(domain.size(name).bit_length() - 1)]


def _leave_out(block: ParityBlock, bits: Sequence[tuple[str, int]], span: set[Bits]) -> ParityBlock:
    """Leave out the sets whose sums follow from the found ones: their symmetric differences."""
    at = {bit: 1 << i for i, bit in enumerate(bits)}
    kept = ~np.isin(block.sets, [sum(at[bit] for bit in each) for each in span if each <= at.keys()])
    return replace(block, sets=block.sets[kept], expected=block.expected[kept])
