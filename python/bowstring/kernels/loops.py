"""Runs native loops over batches: each calls a kernel for every record, inlined, without the GIL.

The loops are in this file and take the kernel from their closure, so that Numba caches the machine code
beside this file. The key of that cache is the kernel's own digest, see `_compiled`.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bowstring.clients.errors import ConfigError
from bowstring.distribution import install_command
from bowstring.kernels.function import KernelError

try:
    import numba
    import numpy as np
except ModuleNotFoundError as error:
    raise ConfigError(
        f"kernels need {error.name}, which is not installed: {install_command('kernels')}"
    ) from error
import pyarrow as pa
import pyarrow.compute as pc
from numba.core.caching import FunctionCache
from numba.core.errors import NumbaError

if TYPE_CHECKING:
    from bowstring.kernels.function import Kernel

NUMBERS = {"bool": np.bool_, "int64": np.int64, "double": np.float64}
_loops: dict[str, Callable[..., Any]] = {}


class KernelCache(FunctionCache):
    """Numba's cache of one loop's machine code, keyed by kernel.

    Numba's own key is the pickled closure, in which helpers have random ids, so that it would never match
    again.
    """

    def __init__(self, loop: Callable[..., Any], kernel: str):
        super().__init__(loop)  # type: ignore[no-untyped-call]
        self._kernel = kernel

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return sig, codegen.magic_tuple(), self._kernel

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Loads cached code; returns none if it calls a function whose module is missing here."""
        try:
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except ModuleNotFoundError:
            return None


def _over_numbers(record: Any) -> Callable[..., Any]:
    def loop(columns: Any, out: Any) -> None:
        for i in range(len(out)):
            out[i] = record(columns, i)

    return loop


def _over_bytes(record: Any) -> Callable[..., Any]:
    def loop(columns: Any, offsets: Any, out: Any) -> Any:
        """Returns the bytes needed; more than `out` has when `out` is too small."""
        at = 0
        for i in range(len(offsets) - 1):
            found = record(columns, i)
            if at + len(found) <= len(out):
                for j in range(len(found)):
                    out[at + j] = found[j]
            at += len(found)
            offsets[i + 1] = at
        return at

    return loop


def run(kernel: Kernel, batch: pa.RecordBatch) -> pa.Array:
    """Returns the kernel's results for every record of a batch."""
    columns = tuple(array for name in kernel.parameters for array in _arrays(name, batch))
    loop = _compiled(kernel)
    try:
        if kernel.result in NUMBERS:
            out = np.empty(batch.num_rows, NUMBERS[kernel.result])
            loop(columns, out)
            return pa.array(out)
        return _bytes(kernel, loop, columns, batch.num_rows)
    except NumbaError as error:
        raise KernelError(_explain(kernel, error)) from error


def _bytes(kernel: Kernel, loop: Callable[..., Any], columns: Any, rows: int) -> pa.Array:
    offsets = np.zeros(rows + 1, np.int32)
    out = np.empty(16 * rows + 64, np.uint8)
    size = loop(columns, offsets, out)
    if size > len(out):
        out = np.empty(size, np.uint8)
        loop(columns, offsets, out)
    kind = pa.binary() if kernel.result == "binary" else pa.string()
    found = pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(offsets), pa.py_buffer(out[:size])])
    if kernel.result == "string":
        found.validate(full=True)
    return found


def _arrays(name: str, batch: pa.RecordBatch) -> list[Any]:
    """Returns the arrays of a parameter: data and offsets for value and key, one array for the others.

    All are read-only whatever their source is, because Numba would compile again for other types.
    """
    found = _views(name, batch)
    for array in found:
        array.flags.writeable = False
    return found


def _views(name: str, batch: pa.RecordBatch) -> list[Any]:
    if name in ("has_value", "has_key"):
        return [pc.is_valid(batch.column(name.removeprefix("has_"))).to_numpy(zero_copy_only=False)]
    column = batch.column(name)
    if name in ("value", "key"):
        if not pa.types.is_binary(column.type):
            column = column.cast(pa.binary())
        _, offsets, data = column.buffers()
        bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
        return [np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8), bounds]
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", tz=column.type.tz), safe=False).view(pa.int64())
    elif column.type != pa.int64():
        column = column.cast(pa.int64())
    return [column.to_numpy(zero_copy_only=False)]


def _compiled(kernel: Kernel) -> Callable[..., Any]:
    """Returns the loop for a kernel; compiles it on the first call, or loads it from the cache."""
    key = f"{kernel.digest}:{kernel.result}:{kernel.parameters}"
    loop = _loops.get(key)
    if loop is None:
        record = numba.njit(inline="always")(_record(kernel))
        make = _over_numbers if kernel.result in NUMBERS else _over_bytes
        loop = numba.njit(nogil=True)(_named(make(record), kernel))
        loop._cache = KernelCache(loop.py_func, key)  # type: ignore[attr-defined]
        _loops[key] = loop
    return loop


def _record(kernel: Kernel) -> Callable[..., Any]:
    """Returns the kernel as a function of (columns, i), with generated code to find each parameter."""
    arguments, at = [], 0
    for name in kernel.parameters:
        if name in ("value", "key"):
            arguments.append(f"columns[{at}][columns[{at + 1}][i]:columns[{at + 1}][i + 1]]")
            at += 2
        else:
            arguments.append(f"columns[{at}][i]")
            at += 1
    function = numba.njit(_named(_rehomed(kernel.function), kernel))
    scope: dict[str, Any] = {"__name__": __name__, "function": function}
    exec(f"def record(columns, i):\n    return function({', '.join(arguments)})", scope)
    return _named(scope["record"], kernel)


def _named(function: Callable[..., Any], kernel: Kernel) -> Callable[..., Any]:
    """Returns the function under a name that no other kernel has.

    Cached machine code is linked by names: the function's name and a number that starts again in every
    process. If two processes cached kernels of the same name, a third would run the first one for both.
    """
    function.__name__ = function.__qualname__ = f"{function.__name__}_{kernel.digest[:20]}"
    return function


def _rehomed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the same function as a member of this module.

    Cached machine code imports the modules that it was made of, and a user's module is not on every executor.
    """
    scope = function.__globals__ | {"__name__": __name__}
    code = function.__code__
    return types.FunctionType(code, scope, code.co_name, function.__defaults__, function.__closure__)


def _explain(kernel: Kernel, error: Exception) -> str:
    code = kernel.function.__code__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = next((line for line in lines if not line.startswith(("Failed in", "During:"))), "unknown")
    return (
        f"kernel {kernel.name} ({code.co_filename}:{code.co_firstlineno}) cannot be compiled: {reason}. It "
        "may use numbers, slices of value and key, loops and other kernels; the cause of this error has "
        "Numba's full message"
    )
