"""Arithmetic in lanes: sums of many short rows, and the chances that they stand for.

A compiler makes little of loops over three to thirty values whose number it does not know. Rows are therefore
padded to whole groups of `LANES` values, and a group is summed over all rows in a register: one load and one
addition for each row, whatever the values are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 8
"""Values of a group."""

_GROUP = ir.VectorType(ir.FloatType(), LANES)

IMPOSSIBLE = np.float32(-1e30)
"""Logarithm of what cannot be, and of the padding: finite, so that sums of it are no accident of arithmetic."""

_LEAST = np.float32(-80.0)
"""Below this logarithm of its part of the likeliest value, a value has no chance."""

_PER_LOG = np.float32(1.4426950408889634)
# 2^f for f from -1 to 0, to two parts in ten million: interpolated at Chebyshev's points.
_TWO = tuple(np.float32(c) for c in (0.99999994, 0.69314313, 0.24017896, 0.05529812, 0.00920918, 0.00094688))


@intrinsic  # type: ignore[untyped-decorator]
def add_rows(typing_context: Any, into: Any, rows: Any, at: Any, count: Any, lane: Any) -> Any:  # noqa: ARG001
    """Put into[lane : lane + LANES] the sum of the rows that begin at at[0], ..., at[count - 1], in these lanes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, source, places = (_data(context, builder, signature, arguments, k) for k in range(3))
        number, first = arguments[3], arguments[4]
        group, whole = _GROUP, ir.IntType(64)

        def add(total: Any, place: Any) -> None:
            offset = builder.add(builder.load(builder.gep(places, [place])), first)
            row = builder.load(_lanes(builder, source, offset), align=4)
            builder.store(builder.fadd(builder.load(total), row), total)

        # Two sums, so that an addition need not wait for the last.
        even, odd = cgutils.alloca_once(builder, group), cgutils.alloca_once(builder, group)
        builder.store(_all(0.0), even)
        builder.store(_all(0.0), odd)
        with cgutils.for_range(builder, builder.lshr(number, whole(1)), intp=whole) as loop:
            place = builder.shl(loop.index, whole(1))
            add(even, place)
            add(odd, builder.add(place, whole(1)))
        with builder.if_then(builder.trunc(number, ir.IntType(1))):
            add(even, builder.sub(number, whole(1)))
        total = builder.fadd(builder.load(even), builder.load(odd))
        builder.store(total, _lanes(builder, target, first), align=4)
        return context.get_dummy_value()

    numbers = types.float32[::1]
    return types.void(numbers, numbers, types.int64[::1], types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def _largest(typing_context: Any, logits: Any, lane: Any) -> Any:  # noqa: ARG001
    """Return the largest of logits[lane : lane + LANES]."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        group = builder.load(_lanes(builder, _data(context, builder, signature, arguments), arguments[1]), align=4)
        return _reduced(builder, "fmax", [group])

    return types.float32(types.float32[::1], types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def _chances(typing_context: Any, logits: Any, lane: Any, top: Any) -> Any:  # noqa: ARG001
    """Turn logits[lane : lane + LANES] into e^(logit - top), which is at most one, and return their sum.

    e^x is 2^(i + f): 2^f by a polynomial, i put where a number has its exponent. Below `_LEAST` it is 0.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _lanes(builder, _data(context, builder, signature, arguments), arguments[1])
        x = builder.fsub(builder.load(pointer, align=4), _spread(builder, arguments[2]), ("nsz",))
        some = builder.fcmp_ordered(">", x, _all(_LEAST))
        power = builder.fmul(builder.select(some, x, _all(_LEAST)), _all(_PER_LOG))
        whole = builder.fptosi(power, ir.VectorType(ir.IntType(32), LANES))
        part = builder.fsub(power, builder.sitofp(whole, _GROUP))
        found = _all(_TWO[-1])
        for c in _TWO[-2::-1]:
            found = builder.fadd(builder.fmul(found, part, ("contract",)), _all(c), ("contract",))
        bits = [ir.Constant(ir.IntType(32), value) for value in (127, 23)]
        exponent = builder.add(whole, ir.Constant(whole.type, [bits[0]] * LANES))
        scale = builder.bitcast(builder.shl(exponent, ir.Constant(whole.type, [bits[1]] * LANES)), _GROUP)
        chance = builder.select(some, builder.fmul(found, scale), _all(0.0))
        builder.store(chance, pointer, align=4)
        return _reduced(builder, "fadd", [ir.Constant(ir.FloatType(), 0.0), chance])

    return types.float32(types.float32[::1], types.int64, types.float32), generate


def _data(context: Any, builder: Any, signature: Any, arguments: Any, number: int = 0) -> Any:
    """Return where the numbers of an argument lie."""
    return context.make_array(signature.args[number])(context, builder, arguments[number]).data


def _lanes(builder: Any, pointer: Any, lane: Any) -> Any:
    return builder.bitcast(builder.gep(pointer, [lane]), _GROUP.as_pointer())


def _all(value: Any) -> Any:
    return ir.Constant(_GROUP, [float(value)] * LANES)


def _spread(builder: Any, number: Any) -> Any:
    first = builder.insert_element(ir.Constant(_GROUP, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


def _reduced(builder: Any, operation: str, arguments: list[Any]) -> Any:
    kind = ir.FunctionType(ir.FloatType(), [argument.type for argument in arguments])
    name = f"llvm.vector.reduce.{operation}.v{LANES}f32"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments, fastmath=("fast",))


@njit(inline="always")  # type: ignore[untyped-decorator]
def weigh(logits: Any, sums: Any, width: Any) -> Any:
    """Turn `width` logits into chances beside the likeliest, whose own is one; return their sum, 0 if none can be.

    `sums` gets the sum of each group of lanes, so that a draw can pass over groups.
    """
    top = _largest(logits, 0)
    for lane in range(LANES, width, LANES):
        top = max(top, _largest(logits, lane))
    total = np.float32(0)
    if top > np.float32(0.1) * IMPOSSIBLE:
        for group in range(width // LANES):
            sums[group] = _chances(logits, group * LANES, top)
            total += sums[group]
    return total


@njit(inline="always")  # type: ignore[untyped-decorator]
def pick(chances: Any, sums: Any, width: Any, u: Any) -> Any:
    """Return the value at which the running sum of the chances passes u."""
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
    while chances[v] == 0 and v > 0:  # rounding must not lead to an impossible value
        v -= 1
    return v
