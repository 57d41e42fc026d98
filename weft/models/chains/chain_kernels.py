"""Gibbs kernels that resample records one attribute, or one cluster of attributes, at a time.

Each takes a block of records (rows of `records`, int32) and a seed and draws from its own splitmix64 stream, so the
result depends on the seed of the block only, not on threads or their order.

The logits of a conditional distribution are a sum of rows. Every table of potentials has one copy for each of its
attributes, with that attribute last, so that rows are contiguous; they are summed in SIMD lanes. See `chain_layout`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from weft.kernels import draw_uniform, kernel

LANES = 8  # number of values in a SIMD group

_GROUP = ir.VectorType(ir.FloatType(), LANES)

IMPOSSIBLE = np.float32(-1e30)  # logit of impossible values and of padding; finite, so that sums are well defined

_MIN_LOG_RATIO = np.float32(-80.0)  # log-ratio to the most likely value below which a value has probability 0

_PER_LOG = np.float32(1.4426950408889634)
# Polynomial for 2^f, f from -1 to 0, with relative error 2e-7: interpolated at Chebyshev nodes.
_TWO = tuple(np.float32(c) for c in (0.99999994, 0.69314313, 0.24017896, 0.05529812, 0.00920918, 0.00094688))


@intrinsic  # type: ignore[untyped-decorator]
def add_rows(typing_context: Any, into: Any, rows: Any, at: Any, count: Any, lane: Any) -> Any:  # noqa: ARG001
    """Store in into[lane : lane + LANES] the sum, in these lanes, of the rows at at[0], ..., at[count - 1]."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, source, places = (_get_data_pointer(context, builder, signature, arguments, k) for k in range(3))
        number, first = arguments[3], arguments[4]
        group, whole = _GROUP, ir.IntType(64)

        def add(total: Any, place: Any) -> None:
            offset = builder.add(builder.load(builder.gep(places, [place])), first)
            row = builder.load(_get_lanes(builder, source, offset), align=4)
            builder.store(builder.fadd(builder.load(total), row), total)

        # Two accumulators, so that an addition need not wait for the previous one.
        even, odd = cgutils.alloca_once(builder, group), cgutils.alloca_once(builder, group)
        builder.store(_fill_lanes(0.0), even)
        builder.store(_fill_lanes(0.0), odd)
        with cgutils.for_range(builder, builder.lshr(number, whole(1)), intp=whole) as loop:
            place = builder.shl(loop.index, whole(1))
            add(even, place)
            add(odd, builder.add(place, whole(1)))
        with builder.if_then(builder.trunc(number, ir.IntType(1))):
            add(even, builder.sub(number, whole(1)))
        total = builder.fadd(builder.load(even), builder.load(odd))
        builder.store(total, _get_lanes(builder, target, first), align=4)
        return context.get_dummy_value()

    numbers = types.float32[::1]
    return types.void(numbers, numbers, types.int64[::1], types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def _largest(typing_context: Any, logits: Any, lane: Any) -> Any:  # noqa: ARG001
    """Return the largest of logits[lane : lane + LANES]."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        group = builder.load(
            _get_lanes(builder, _get_data_pointer(context, builder, signature, arguments), arguments[1]), align=4
        )
        return _reduce_lanes(builder, "fmax", [group])

    return types.float32(types.float32[::1], types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def _chances(typing_context: Any, logits: Any, lane: Any, top: Any) -> Any:  # noqa: ARG001
    """Replace logits[lane : lane + LANES] by e^(logit - top) and return their sum; 0 below `_MIN_LOG_RATIO`."""
    # e^x = 2^(i + f): 2^f by a polynomial, 2^i by setting the exponent bits.

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _get_lanes(builder, _get_data_pointer(context, builder, signature, arguments), arguments[1])
        x = builder.fsub(builder.load(pointer, align=4), _broadcast_number(builder, arguments[2]), ("nsz",))
        some = builder.fcmp_ordered(">", x, _fill_lanes(_MIN_LOG_RATIO))
        power = builder.fmul(builder.select(some, x, _fill_lanes(_MIN_LOG_RATIO)), _fill_lanes(_PER_LOG))
        whole = builder.fptosi(power, ir.VectorType(ir.IntType(32), LANES))
        part = builder.fsub(power, builder.sitofp(whole, _GROUP))
        found = _fill_lanes(_TWO[-1])
        for c in _TWO[-2::-1]:
            found = builder.fadd(builder.fmul(found, part, ("contract",)), _fill_lanes(c), ("contract",))
        bits = [ir.Constant(ir.IntType(32), value) for value in (127, 23)]
        exponent = builder.add(whole, ir.Constant(whole.type, [bits[0]] * LANES))
        scale = builder.bitcast(builder.shl(exponent, ir.Constant(whole.type, [bits[1]] * LANES)), _GROUP)
        chance = builder.select(some, builder.fmul(found, scale), _fill_lanes(0.0))
        builder.store(chance, pointer, align=4)
        return _reduce_lanes(builder, "fadd", [ir.Constant(ir.FloatType(), 0.0), chance])

    return types.float32(types.float32[::1], types.int64, types.float32), generate


def _get_data_pointer(context: Any, builder: Any, signature: Any, arguments: Any, number: int = 0) -> Any:
    return context.make_array(signature.args[number])(context, builder, arguments[number]).data


def _get_lanes(builder: Any, pointer: Any, lane: Any) -> Any:
    return builder.bitcast(builder.gep(pointer, [lane]), _GROUP.as_pointer())


def _fill_lanes(value: Any) -> Any:
    return ir.Constant(_GROUP, [float(value)] * LANES)


def _broadcast_number(builder: Any, number: Any) -> Any:
    first = builder.insert_element(ir.Constant(_GROUP, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


def _reduce_lanes(builder: Any, operation: str, arguments: list[Any]) -> Any:
    kind = ir.FunctionType(ir.FloatType(), [argument.type for argument in arguments])
    name = f"llvm.vector.reduce.{operation}.v{LANES}f32"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments, fastmath=("fast",))


@kernel(inline="always")
def weigh(logits: Any, sums: Any, width: Any) -> Any:
    """Convert logits to weights relative to the maximum, with `sums` per group; return the total (0: impossible)."""
    top = _largest(logits, 0)
    for lane in range(LANES, width, LANES):
        top = max(top, _largest(logits, lane))
    total = np.float32(0)
    if top > np.float32(0.1) * IMPOSSIBLE:
        for group in range(width // LANES):
            sums[group] = _chances(logits, group * LANES, top)
            total += sums[group]
    return total


@kernel(inline="always")
def pick(chances: Any, sums: Any, width: Any, u: Any) -> Any:
    """Return the value at which the cumulative weight exceeds u."""
    g, last = 0, width // LANES - 1
    acc = sums[0]
    while acc <= u and g < last:
        g += 1
        acc += sums[g]
    acc -= sums[g]
    v, end = g * LANES, g * LANES + LANES - 1
    acc += chances[v]
    while acc <= u and v < end:
        v += 1
        acc += chances[v]
    while chances[v] == 0 and v > 0:  # rounding must not select an impossible value
        v -= 1
    return v


_OFFERS = 256  # number of proposals evaluated together, table by table, so that each table stays in the cache

_FAST = {"reassoc", "nsz", "contract", "nnan"}


@kernel(cache=True, nogil=True, inline="always")
def find_rows(at, record, first, pairs, last, row_start, other, step, more_start, more, more_step):  # type: ignore[no-untyped-def]
    """Store in `at` the row positions of entries `first` to `last` (exclusive); from `pairs` they depend on `more`."""
    for e in range(first, last):
        at[e - first] = row_start[e] + record[other[e]] * step[e]
    for e in range(pairs, last):
        for q in range(more_start[e], more_start[e + 1]):
            at[e - first] += record[more[q]] * more_step[q]


@kernel(cache=True, nogil=True, fastmath=_FAST)
def sweep_gibbs(  # type: ignore[no-untyped-def]
    records, free, widths, entry_start, pairs_end, row_start, other, step, more_start, more, more_step, rows, seed
):
    """Resample every free attribute of every record once, given the others (arguments: `TableLayout.sweep`)."""
    state = np.empty(1, np.uint64)
    state[0] = seed
    w = np.empty(widths.max(), np.float32)
    sums = np.empty(widths.max() // LANES, np.float32)
    at = np.empty(max(entry_start[-1], 1), np.int64)
    for j in range(widths.size):  # one attribute of all records at a time: its tables stay in the cache
        first, last = entry_start[j], entry_start[j + 1]
        if not free[j] or first == last:
            continue
        width = widths[j]
        for i in range(records.shape[0]):
            find_rows(at, records[i], first, pairs_end[j], last, row_start, other, step, more_start, more, more_step)
            for lane in range(0, width, LANES):
                add_rows(w, rows, at, last - first, lane)
            total = weigh(w, sums, width)
            if total > 0:  # else every value is impossible given the others: the record is kept
                records[i, j] = pick(w, sums, width, np.float32(draw_uniform(state)) * total)


@kernel(cache=True, nogil=True, fastmath=_FAST)
def sweep_herding(  # type: ignore[no-untyped-def]
    records, widths, entry_start, pairs_end, row_start, other, step, more_start, more, more_step, rows, cells, gap,
    feedback, seed,
):  # fmt: skip
    """Run a Gibbs sweep with negative feedback on `gap`, the excess of records over the target in every measured cell.

    `gap` is updated as records change and is subtracted, times the `feedback` of its entry, from the logits, so that
    records match the measured tables far more closely than independent draws. While an attribute is resampled, its rows
    include the feedback; `cells` maps each position of the rows to its cell of `gap`.
    """
    state = np.empty(1, np.uint64)
    state[0] = seed
    most = 0
    for j in range(widths.size):
        most = max(
            most,
            _find_entry_end(entry_start[j + 1], row_start, rows) - _find_entry_end(entry_start[j], row_start, rows),
        )
    w = np.empty(widths.max(), np.float32)
    sums = np.empty(widths.max() // LANES, np.float32)
    near = np.empty(most, np.float32)
    at = np.empty(max(entry_start[-1], 1), np.int64)
    for j in range(widths.size):
        first, last = entry_start[j], entry_start[j + 1]
        if first == last:
            continue
        width, start = widths[j], row_start[first]
        own, own_cells = (
            rows[start : _find_entry_end(last, row_start, rows)],
            cells[start : _find_entry_end(last, row_start, rows)],
        )
        apart = np.float32(0)
        for e in range(first, last):
            apart += feedback[e]
            for p in range(row_start[e] - start, _find_entry_end(e + 1, row_start, rows) - start):
                near[p] = own[p] - feedback[e] * gap[own_cells[p]]
        for i in range(records.shape[0]):
            old = records[i, j]
            find_rows(at, records[i], first, pairs_end[j], last, row_start, other, step, more_start, more, more_step)
            for e in range(last - first):
                at[e] -= start
            for lane in range(0, width, LANES):
                add_rows(w, near, at, last - first, lane)
            w[old] += apart  # a record does not count in its own cells while it is resampled
            total = weigh(w, sums, width)
            if total == 0:
                continue
            new = pick(w, sums, width, np.float32(draw_uniform(state)) * total)
            if new != old:
                records[i, j] = new
                for e in range(last - first):
                    near[at[e] + old] += feedback[first + e]
                    near[at[e] + new] -= feedback[first + e]
        for e in range(first, last):
            for p in range(row_start[e] - start, _find_entry_end(e + 1, row_start, rows) - start):
                if own[p] > IMPOSSIBLE:
                    gap[own_cells[p]] = (own[p] - near[p]) / feedback[e]


@kernel(cache=True, nogil=True, inline="always")
def _find_entry_end(entry, row_start, rows):  # type: ignore[no-untyped-def]
    """Return the start of an entry's rows, or the end of all rows past the last entry."""
    return row_start[entry] if entry < row_start.size else rows.size


@kernel(cache=True, nogil=True)
def draw_from_forest(records, order, parent, sizes, start, cumulative, seed):  # type: ignore[no-untyped-def]
    """Sample every record from a forest: attributes in `order`, each given its parent (see `Forest`)."""
    state = np.empty(1, np.uint64)
    state[0] = seed
    for i in range(records.shape[0]):
        for j in order:
            at = start[j]
            if parent[j] >= 0:
                at += records[i, parent[j]] * sizes[j]
            records[i, j] = _search(cumulative, at, sizes[j], draw_uniform(state))


@kernel(cache=True, nogil=True, inline="always")
def _search(cumulative, at, k, u):  # type: ignore[no-untyped-def]
    low, high = 0, k - 1
    while low < high:
        middle = (low + high) >> 1
        if cumulative[at + middle] > u:
            high = middle
        else:
            low = middle + 1
    return low


@kernel(cache=True, nogil=True)
def redraw_cluster(  # type: ignore[no-untyped-def]
    records, order, parent, sizes, start, cumulative, log_given, cliques, one, one_step, two, two_step, more_start,
    more, more_step, cell_start, potentials, seed,
):  # fmt: skip
    """Resample one cluster (attributes `order`) of every record from the forest by Metropolis-Hastings.

    Nearly identical attributes cannot change one at a time; here they change together. The proposal follows the forest
    and is accepted with the Metropolis-Hastings ratio of model and forest, so the model remains the stationary
    distribution. `cliques` are the tables that intersect the cluster. Returns the number of changed records.
    """
    state = np.empty(1, np.uint64)
    state[0] = seed
    new = np.empty((_OFFERS, records.shape[1]), records.dtype)
    ratio = np.empty(_OFFERS)
    asked = np.empty(_OFFERS, np.int64)
    moved = 0
    for low in range(0, records.shape[0], _OFFERS):
        count = 0
        for i in range(low, min(low + _OFFERS, records.shape[0])):
            old, offer = records[i], new[count]
            offer[:] = old
            weight, other = 0.0, False
            for j in order:
                at_new = start[j]
                at_old = start[j]
                if parent[j] >= 0:
                    at_new += offer[parent[j]] * sizes[j]
                    at_old += old[parent[j]] * sizes[j]
                offer[j] = _search(cumulative, at_new, sizes[j], draw_uniform(state))
                weight += log_given[at_old + old[j]] - log_given[at_new + offer[j]]
                other |= offer[j] != old[j]
            if other:  # else the proposal equals the record
                asked[count], ratio[count] = i, weight
                count += 1
        for c in cliques:
            a, b, a_step, b_step, cell = one[c], two[c], one_step[c], two_step[c], cell_start[c]
            first, last = more_start[c], more_start[c + 1]
            for k in range(count):
                i = asked[k]
                here = cell + records[i, a] * a_step + records[i, b] * b_step
                there = cell + new[k, a] * a_step + new[k, b] * b_step
                for q in range(first, last):
                    here += records[i, more[q]] * more_step[q]
                    there += new[k, more[q]] * more_step[q]
                ratio[k] += potentials[there] - potentials[here]
        for k in range(count):
            if np.log(draw_uniform(state) + 1e-300) < ratio[k]:
                moved += 1
                records[asked[k]] = new[k]
    return moved
