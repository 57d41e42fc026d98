"""Compiled kernels: numba compiles a function at its first call, and is not imported before.

Importing numba and loading its registries takes about as long as a small release, and many runs call no kernel.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np


class Kernel:
    """A function that numba compiles when it is first called, or when a kernel that calls it is compiled."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.py_func = function
        self._options = options

    def __call__(self, *args: Any) -> Any:
        """Call the compiled function."""
        return self.dispatcher(*args)

    @cached_property
    def dispatcher(self) -> Any:
        """The function as numba knows it; kernels that it calls are replaced by theirs, which numba can inline."""
        from numba import njit

        scope = self.py_func.__globals__
        for name in self.py_func.__code__.co_names:
            if isinstance(scope.get(name), Kernel):
                scope[name] = scope[name].dispatcher
        return njit(**self._options)(self.py_func)


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Kernel]:
    """Return a decorator that makes a function a kernel with these options of `numba.njit`."""
    return lambda function: Kernel(function, options)


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_UNIT = 2.0**-53


@kernel(cache=True, nogil=True, inline="always")
def draw_uniform(state):  # type: ignore[no-untyped-def]
    """Return the next number in [0, 1) of the splitmix64 stream whose state is state[0]."""
    state[0] += _GOLDEN
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * _MIX1
    z = (z ^ (z >> np.uint64(27))) * _MIX2
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * _UNIT
