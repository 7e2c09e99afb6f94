"""Defines a kernel: a Python function of one record, compiled into a native loop over a batch."""

from __future__ import annotations

import hashlib
import inspect
import types
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from bowstring.clients.errors import ClientError

if TYPE_CHECKING:
    import pyarrow

# Allowed parameter names of a kernel, and the column of each.
PARAMETERS = {
    "value": "value",
    "key": "key",
    "timestamp": "timestamp",
    "offset": "offset",
    "partition": "partition",
    "timestamp_type": "timestamp_type",
    "has_value": "value",
    "has_key": "key",
}
RESULTS: dict[str, str] = {
    "bool": "bool",
    "int": "int64",
    "float": "double",
    "bytes": "binary",
    "str": "string",
}


class KernelError(ClientError):
    """A kernel cannot be used because of its parameters, its result, or an error of Numba."""


class Kernel:
    """A function of one record that runs over whole batches without the interpreter.

    Python code can also call it directly, for example in a test.

    Args:
        function: its parameters are some of value and key (uint8 arrays, empty when null), timestamp (ms
            since the epoch), offset, partition, timestamp_type, has_value and has_key. Its return annotation
            is bool, int, float, or bytes or str for a slice of value or key.

    Raises:
        KernelError: a parameter or the annotation is none of these.
    """

    def __init__(self, function: Callable[..., Any]):
        self.function = function
        self.name: str = function.__name__
        self.parameters = tuple(inspect.signature(function).parameters)
        unknown = [name for name in self.parameters if name not in PARAMETERS]
        if unknown or not self.parameters:
            raise KernelError(
                f"kernel {self.name} has {'unknown parameter ' + unknown[0] if unknown else 'no parameter'}; "
                f"use some of {', '.join(PARAMETERS)}"
            )
        self.result = _result(function)
        self._loop: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Calls the plain function; key and value may be given as bytes."""
        return self.function(*arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return Kernel, (self.function,)

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(self.parameters)}) -> {self.result}>"

    @property
    def columns(self) -> set[str]:
        """Names of the columns that it reads."""
        return {PARAMETERS[name] for name in self.parameters}

    @cached_property
    def digest(self) -> str:
        """Hash of the kernel's code, the same in every process."""
        return _digest(self.function)

    def over(self, batch: pyarrow.RecordBatch) -> pyarrow.Array:
        """Returns its results for every record of a batch, as an array of `result`'s type.

        Args:
            batch: records, with the columns that the function takes.

        Raises:
            KernelError: it does not compile; the message has Numba's reason.
        """
        from bowstring.kernels.loops import run

        return run(self, batch)


def kernel(function: Callable[..., Any]) -> Kernel:
    """Turns a function into a kernel; see `Kernel`. Use as a decorator.

    Args:
        function: takes columns of a record by their names; its annotation says what it returns.

    Examples:
        >>> @kernel
        ... def long(value) -> bool:
        ...     return len(value) > 100
    """
    if not inspect.isfunction(function) and not isinstance(function, Kernel):
        kind = type(function).__name__
        raise KernelError(f"kernel() takes a function that is written with def, not a {kind}")
    return function if isinstance(function, Kernel) else Kernel(function)


def _result(function: Callable[..., Any]) -> str:
    annotation = inspect.signature(function).return_annotation
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    if annotation is inspect.Signature.empty or name not in RESULTS:
        raise KernelError(
            f"kernel {function.__name__} needs a return annotation: def {function.__name__}(…) -> "
            f"{', '.join(RESULTS)}"
        )
    return RESULTS[name]


def _digest(function: Callable[..., Any]) -> str:
    found = hashlib.sha256()
    _feed(found, function, set())
    return found.hexdigest()


def _feed(digest: Any, function: Any, seen: set[int]) -> None:
    """Adds the code of a function, of the functions that it calls, and its constants to a digest."""
    function = getattr(function, "function", None) or getattr(function, "py_func", function)
    if id(function) in seen:
        return
    seen.add(id(function))
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        plain = [each for each in code.co_consts if not isinstance(each, types.CodeType)]
        digest.update(repr((code.co_code, plain, code.co_names, code.co_varnames)).encode())
        codes += [each for each in code.co_consts if isinstance(each, types.CodeType)]
    named = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    cells = inspect.getclosurevars(function).nonlocals if function.__closure__ else {}
    for name, given in sorted({**named, **cells}.items()):
        if hasattr(given, "py_func") or isinstance(given, Kernel | types.FunctionType):
            _feed(digest, given, seen)
        else:
            digest.update(f"{name}={getattr(given, '__name__', given)!r}".encode())
