"""Compiled kernels: numba compiles a function at its first call, and is not imported before.

Importing numba and loading its registries takes about as long as a small release, and many runs call no kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any


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
