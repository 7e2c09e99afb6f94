"""Makes file operations of logs fail: replaces entries of the table that all of them use (disk/file_ops.pxd).

The stores into the headers of staged tails' chunks (disk/tail_pool.pxd) are in such a table, too.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from types import ModuleType
from typing import TypeVar

file_ops = import_module("bowstring._native.disk.file_ops")  # by name: it has no stub, only a table in C
tail_pool = import_module("bowstring._native.disk.tail_pool")

_P, _I, _L = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64

T = TypeVar("T", bound=ctypes.Structure)


class IoVec(ctypes.Structure):
    """struct iovec."""

    _fields_ = [("base", _P), ("size", ctypes.c_size_t)]


class FileOps(ctypes.Structure):
    """struct FileOps, field by field."""

    _fields_ = [
        ("open", ctypes.CFUNCTYPE(_I, ctypes.c_char_p, _I)),
        ("close", ctypes.CFUNCTYPE(_I, _I)),
        ("pread", ctypes.CFUNCTYPE(_L, _I, _P, _L, _L)),
        ("pwritev", ctypes.CFUNCTYPE(_L, _I, ctypes.POINTER(IoVec), _I, _L)),
        ("truncate", ctypes.CFUNCTYPE(_I, _I, _L)),
        ("reserve", ctypes.CFUNCTYPE(_I, _I, _L, _L)),
        ("sync", ctypes.CFUNCTYPE(_I, _I)),
        ("stat", ctypes.CFUNCTYPE(_I, _I, _P, _P)),
        ("stat_path", ctypes.CFUNCTYPE(_I, ctypes.c_char_p, _P)),
        ("rename", ctypes.CFUNCTYPE(_I, ctypes.c_char_p, ctypes.c_char_p)),
        ("unlink", ctypes.CFUNCTYPE(_I, ctypes.c_char_p)),
        ("write_durable", ctypes.CFUNCTYPE(_L, _I, _P, _L, _L)),
        ("sync_file_system", ctypes.CFUNCTYPE(_I, ctypes.c_char_p)),
        ("advise", ctypes.CFUNCTYPE(_I, _I, _L, _L, _I)),
        ("write_back", ctypes.CFUNCTYPE(_I, _I, _L, _L)),
        ("cached", ctypes.CFUNCTYPE(_I, _I, _L, _L)),
        ("set_modified", ctypes.CFUNCTYPE(_I, _I, _L)),
        ("make_directory", ctypes.CFUNCTYPE(_I, ctypes.c_char_p)),
    ]


class ChunkOps(ctypes.Structure):
    """struct ChunkOps, field by field."""

    _fields_ = [
        ("name", ctypes.CFUNCTYPE(None, _P, _L, _L, _L, ctypes.c_char_p)),
        ("publish", ctypes.CFUNCTYPE(None, _P, _L)),
    ]


def _table(module: ModuleType, symbol: str, kind: type[T]) -> T:
    capsule = module.__pyx_capi__[symbol]
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = _P, [ctypes.py_object, ctypes.c_char_p]
    return kind.from_address(pointer(capsule, name(capsule)))


def table() -> FileOps:
    """Returns the table of file operations in use."""
    return _table(file_ops, "file_ops", FileOps)


@contextmanager
def _replaced(ops: ctypes.Structure, makers: dict[str, Callable]) -> Iterator[None]:
    old, callbacks = {}, []
    try:
        for operation, make in makers.items():
            kind = type(getattr(ops, operation))
            slot = _P.from_address(ctypes.addressof(ops) + getattr(type(ops), operation).offset)
            callback = kind(make(kind(slot.value)))
            callbacks.append(callback)  # ctypes frees callbacks without a reference
            old[operation] = slot, slot.value
            slot.value = ctypes.cast(callback, _P).value
        yield
    finally:
        for slot, value in old.values():
            slot.value = value


def all_replaced(makers: dict[str, Callable]) -> AbstractContextManager[None]:
    """Replaces each named operation by ``make(original)``, which returns a negated errno to fail."""
    return _replaced(table(), makers)


def stores_replaced(makers: dict[str, Callable]) -> AbstractContextManager[None]:
    """Replaces the stores into the headers of chunks, "name" and "publish", by ``make(original)``."""
    return _replaced(_table(tail_pool, "chunk_ops", ChunkOps), makers)


def replaced(operation: str, make: Callable):
    """Replaces one operation."""
    return all_replaced({operation: make})


def failing(operation: str, error: int, *, after: int = 0):
    """Makes the operation fail with `error` after its first `after` calls."""
    calls = iter(range(after))

    def make(original):
        return lambda *arguments: original(*arguments) if next(calls, None) is not None else -error

    return replaced(operation, make)
