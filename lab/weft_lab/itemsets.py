"""Frequent item sets of made-up baskets: how many of the true ones are missed, and how far their counts are off."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from time import perf_counter

import numpy as np
import pyarrow as pa

from weft.progress import Listener, ignore_event, report_stage
from weft_lab.privbasis import find_itemsets, form_of
from weft_lab.sheet import Sheet

BASKETS, ITEMS, TOP, DELTA = 100_000, 1_000, 100, 1e-6
EPSILONS = (0.5, 1.0)
LARGEST = 6

Sets = dict[tuple[str, ...], int]


def market(baskets: int = BASKETS, items: int = ITEMS, planted: int = 12, seed: int = 0) -> pa.Table:
    """Make baskets: items by a Zipf law, and sets of three to five that are often bought together."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, items + 1) ** 1.05
    sizes = np.minimum(1 + rng.poisson(5, baskets), 18)
    drawn = rng.choice(items, int(sizes.sum()), p=weights / weights.sum())
    owner = np.repeat(np.arange(baskets), sizes)
    owners, held = [owner], [drawn]
    for _ in range(planted):
        members = rng.choice(np.arange(5, max(items // 4, 12)), rng.integers(3, 6), replace=False)
        with_it = np.flatnonzero(rng.random(baskets) < rng.uniform(0.015, 0.05))
        owners.append(np.repeat(with_it, len(members)))
        held.append(np.tile(members, len(with_it)))
    pairs = np.unique(np.concatenate(owners) * items + np.concatenate(held))
    names = pa.array([f"item {i:04}" for i in range(items)])
    ends = np.searchsorted(pairs // items, np.arange(baskets + 1))
    lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), names.take(pa.array(pairs % items)))
    return pa.table({"basket": lists})


def exact_top(table: pa.Table, top: int = TOP) -> Sets:
    """Return the truly most frequent sets, by growing frequent ones an item at a time."""
    lists = table.column("basket").combine_chunks()
    coded = lists.flatten().dictionary_encode()
    names = coded.dictionary.to_pylist()
    owner = np.repeat(np.arange(len(lists)), np.diff(lists.offsets.to_numpy()))
    item = coded.indices.to_numpy()
    where = {i: frozenset(owner[item == i].tolist()) for i in np.unique(item).tolist()}
    single: Counter[tuple[int, ...]] = Counter({(i,): len(held) for i, held in where.items()})
    least = single.most_common(top)[-1][1]
    found = {key: n for key, n in single.items() if n >= least}
    level: dict[tuple[int, ...], frozenset[int]] = {key: where[key[0]] for key in found}
    frequent = sorted(key[0] for key in found)
    for _ in range(LARGEST - 1):
        grown: dict[tuple[int, ...], frozenset[int]] = {}
        for key, held in level.items():
            for i in frequent:
                if i > key[-1]:
                    both = held & where[i]
                    if len(both) >= least:
                        grown[(*key, i)] = both
        found |= {key: len(held) for key, held in grown.items()}
        level = grown
        least = sorted(found.values(), reverse=True)[min(top, len(found)) - 1]
        level = {key: held for key, held in level.items() if len(held) >= least}
    best = sorted(found, key=lambda key: (-found[key], key))[:top]
    return {tuple(sorted(names[i] for i in key)): found[key] for key in best}


def itemsets(
    epsilons: Sequence[float] = EPSILONS, runs: int = 3, top: int = TOP, listener: Listener = ignore_event
) -> Iterator[Sheet]:
    """Compare found sets with the true ones, with a public list of items and with private discovery."""
    with report_stage(listener, "make baskets"):
        table = market()
        exact = exact_top(table, 2 * top)
    true = dict(itertools.islice(exact.items(), top))
    form = form_of(table)
    listed = [f"item {i:04}" for i in range(ITEMS)]
    rows = []
    for epsilon, (label, items) in itertools.product(epsilons, {"listed": listed, "found privately": None}.items()):
        missed, off, seconds = [], [], []
        for _ in range(runs):
            begin = perf_counter()
            found = find_itemsets(table, form, epsilon, DELTA, top=top, items=items)
            seconds.append(perf_counter() - begin)
            made = {tuple(sorted(one.items)): one.count for one in found}
            missed.append(sum(key not in made for key in true) / top)
            off.append(float(np.median([abs(made[key] - n) / n for key, n in exact.items() if key in made])))
        longer = sum(len(key) > 2 for key in true)
        cells = [f"{np.mean(each):.3f}" for each in (missed, off)]
        rows.append([f"epsilon {epsilon:g}, items {label}", *cells, f"{np.mean(seconds):.1f}"])
    notes = [
        f"{BASKETS:,} baskets, {ITEMS:,} items; {longer} of the true {top} sets have three items or more.",
        "False negatives: the share of the true sets that is not found. Error: the median of |count - true| / true.",
    ]
    yield Sheet(f"The {top} most frequent item sets", ["", "false negatives", "error", "seconds"], rows, notes)
