"""Compiles small functions over a record with Numba and runs them inside the read, over whole batches.

    @bowstring.kernel
    def late(value) -> bool:
        return value[0] == 76  # L

    bowstring.read("flights", where=late, aggregate={"flights": "count"})

See docs/guide/fused-functions.md. Numba is loaded when the first kernel runs.

Imported by: spark, tables.
May import: clients, distribution.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bowstring.kernels.function import Kernel as Kernel
    from bowstring.kernels.function import KernelError as KernelError
    from bowstring.kernels.function import kernel as kernel
    from bowstring.kernels.fused import Fused as Fused
    from bowstring.kernels.text import find as find
    from bowstring.kernels.text import integer as integer

_MODULES = {
    "Fused": "fused",
    "Kernel": "function",
    "KernelError": "function",
    "find": "text",
    "integer": "text",
    "kernel": "function",
}
__all__ = ["Fused", "Kernel", "KernelError", "find", "integer", "kernel"]


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'bowstring.kernels' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"bowstring.kernels.{module}"), name)
