"""Compiled loop of `weft.marginals.counting`; importing this module imports numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import carray, types, uint32, uint64
from numba.extending import intrinsic

from weft.kernels import kernel

_TILE = 1024
_LANES = 4
_LANE_CELLS = 2048


@intrinsic  # type: ignore[untyped-decorator]
def _cast_pointer(typing_context: Any, address: Any) -> tuple[Any, Callable[..., Any]]:  # noqa: ARG001
    """Convert the address of an array to a pointer that `carray` accepts."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.voidptr(types.uint64), generate


@kernel(inline="always")
def _append_digit(cell: Any, radix: Any, codes: Any) -> None:
    for i in range(codes.size):
        cell[i] = cell[i] * radix + uint32(codes[i])


@kernel(cache=True, nogil=True)
def tally_records(
    addresses: Any, widths: Any, sizes: Any, members: Any, starts: Any, offsets: Any, first: int, last: int,
    lo: int, hi: int, flat: Any,
) -> None:  # fmt: skip
    """Add records lo to hi (exclusive) to the tables of cliques first to last (exclusive).

    Attribute c has at least `hi` codes of `widths[c]` bytes at `addresses[c]`, each below `sizes[c]`. Clique q has
    the attributes `members[starts[q]:starts[q + 1]]` and the table `flat[offsets[q]:offsets[q + 1]]`.
    """
    cell = np.empty(_TILE, np.uint32)
    lanes = np.empty((_LANES, _LANE_CELLS), np.uint32)
    for q in range(first, last):
        table = flat[offsets[q] : offsets[q + 1]]
        if starts[q] == starts[q + 1]:
            table[0] += hi - lo
            continue
        # Consecutive records often fall in the same cell, and each increment then waits for the previous store.
        # Small tables are therefore counted in four lanes that take records in turn.
        laned = table.size <= _LANE_CELLS and hi - lo >= 2 * table.size
        if laned:
            lanes[:, : table.size] = 0
        for tile in range(lo, hi, _TILE):
            rows = min(_TILE, hi - tile)
            cells = cell[:rows]
            cells[:] = 0
            for member in range(starts[q], starts[q + 1]):
                column = members[member]
                radix = uint32(sizes[column])
                at = _cast_pointer(addresses[column] + uint64(tile) * uint64(widths[column]))
                if widths[column] == 1:
                    _append_digit(cells, radix, carray(at, rows, np.uint8))
                elif widths[column] == 2:
                    _append_digit(cells, radix, carray(at, rows, np.uint16))
                else:
                    _append_digit(cells, radix, carray(at, rows, np.uint32))
            if laned:
                for i in range(rows // _LANES):
                    for lane in range(_LANES):
                        lanes[lane, cells[_LANES * i + lane]] += uint32(1)
                for i in range(rows - rows % _LANES, rows):
                    lanes[0, cells[i]] += uint32(1)
            else:
                for i in range(rows):
                    table[cells[i]] += 1
        if laned:
            for lane in range(_LANES):
                for i in range(table.size):
                    table[i] += lanes[lane, i]


@kernel(cache=True, nogil=True)
def tally_weights(
    addresses: Any, widths: Any, sizes: Any, members: Any, starts: Any, offsets: Any, first: int, last: int,
    lo: int, hi: int, flat: Any, weights: Any,
) -> None:  # fmt: skip
    """Add the weights of records lo to hi (exclusive) to the tables; the other arguments as in `tally_records`."""
    cell = np.empty(_TILE, np.uint32)
    for q in range(first, last):
        table = flat[offsets[q] : offsets[q + 1]]
        for tile in range(lo, hi, _TILE):
            rows = min(_TILE, hi - tile)
            cells = cell[:rows]
            cells[:] = 0
            for member in range(starts[q], starts[q + 1]):
                column = members[member]
                radix = uint32(sizes[column])
                at = _cast_pointer(addresses[column] + uint64(tile) * uint64(widths[column]))
                if widths[column] == 1:
                    _append_digit(cells, radix, carray(at, rows, np.uint8))
                elif widths[column] == 2:
                    _append_digit(cells, radix, carray(at, rows, np.uint16))
                else:
                    _append_digit(cells, radix, carray(at, rows, np.uint32))
            for i in range(rows):
                table[cells[i]] += weights[tile + i]


SIGNATURE = types.void(types.uint64[::1], *[types.int64[::1]] * 5, *[types.int64] * 4, types.int64[::1])
