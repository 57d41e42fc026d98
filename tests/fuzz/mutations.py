"""Model files with one thing changed, as accident or a forger might."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np

ODD: list[Any] = [
    *(
        None,
        True,
        False,
        -1,
        0,
        1,
        2,
        10**12,
        10**30,
        0.5,
        -0.5,
        1e-300,
        1e308,
        float("nan"),
        float("inf"),
        -float("inf"),
    ),
    *("", "x", "a\n---\nb", [], {}, [[]], [1, 2], {"a": 1}, [None], ["age"], ["sex", "age"], [["age", "age"]]),
]
"""Values that somebody might put in another's place."""

CELLS = (float("nan"), float("inf"), -float("inf"), -1.0, 1e308, -1e308, 1e-320, 0.0)


def mutation(members: dict[str, bytes], rng: np.random.Generator) -> dict[str, bytes | None]:
    """Return one member changed, or left out (None)."""
    names = sorted(set(members) - {"manifest.json"})
    arrays = [name for name in names if name.endswith(".npy")]
    if arrays and rng.random() < 0.4:
        name = arrays[rng.integers(len(arrays))]
        return {name: _npy(_changed(np.load(io.BytesIO(members[name])), rng))}
    name = [each for each in names if each not in arrays][rng.integers(4)]
    if rng.random() < 0.02:
        return {name: None}
    document = json.loads(members[name])
    _change(document, rng)
    return {name: json.dumps(document).encode()}


def _change(document: Any, rng: np.random.Generator) -> None:
    """Change one place of a document, deep places as likely as others."""
    places = list(_places(document))
    holder, key = places[rng.integers(len(places))]
    chance = rng.random()
    if chance < 0.15:
        del holder[key]
    elif chance < 0.3:
        other, at = places[rng.integers(len(places))]
        holder[key] = json.loads(json.dumps(other[at]))
    elif chance < 0.4 and isinstance(holder[key], int | float):
        holder[key] = holder[key] * 2 + 1
    elif chance < 0.5 and isinstance(holder[key], str):
        holder[key] = holder[key][: len(holder[key]) // 2] + "\u202e|`<b>" + holder[key][len(holder[key]) // 2 :]
    else:
        holder[key] = ODD[rng.integers(len(ODD))]


def _places(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in list(items):
        yield value, key
        yield from _places(each)


def _changed(array: Any, rng: np.random.Generator) -> Any:
    """Change an array: its type, its shape, or some of its cells."""
    match int(rng.integers(8)):
        case 0:
            return array.astype([np.int64, np.float32, np.uint8, np.bool_][rng.integers(4)])
        case 1:
            return array.ravel()[:-1]
        case 2:
            return array.reshape(1, *array.shape)
        case 3:
            return np.concatenate([array.ravel(), array.ravel()])
        case 4:
            return np.zeros_like(array)
        case 5:
            return array.ravel()[rng.permutation(array.size)].reshape(array.shape)
        case _:
            changed = array.copy()
            some = rng.integers(array.size, size=max(1, array.size // 3))
            with np.errstate(all="ignore"):
                changed.ravel()[some] = (
                    np.array(CELLS)[rng.integers(len(CELLS))].astype(array.dtype)
                    if array.dtype.kind == "f"
                    else changed.ravel()[some] + array.dtype.type(rng.integers(1, 100))
                )
            return changed


def _npy(array: Any) -> bytes:
    held = io.BytesIO()
    np.save(held, array)
    return held.getvalue()
