"""A disk that records every operation, and fails the chosen ones.

Under `watched`, the log's table of file operations and Python's own file functions go through the disk; the files
lie in a real directory, so that whoever works on them sees what a page cache would show.
"""

import ctypes
import errno
import os
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from tests.simulation.disk.mapped_file import MappedFile
from tests.simulation.disk.medium import (
    Event,
    Link,
    Medium,
    Note,
    Sync,
    SyncAll,
    SyncFailed,
    Truncate,
    Unlink,
    Write,
    inodes_of,
)
from tests.support import faults

# Operations that change the disk; the others only read.
CHANGES = ("open_new", "pwritev", "truncate", "reserve", "sync", "rename", "unlink", "mkdir", "rmdir")
READS = ("open", "pread", "stat", "stat_path")


@dataclass(frozen=True)
class Fault:
    """The wrong behaviour of an operation.

    Attributes:
        error: The errno of the failure; 0 for a fault that looks like success.
        part: It is done in part: a read or write of half the bytes. With `error`, half is written and then it fails.
        flip: One bit of the bytes read or written is wrong.
    """

    error: int = 0
    part: bool = False
    flip: bool = False

    def __str__(self) -> str:
        words = [errno.errorcode[self.error]] if self.error else []
        return " ".join(words + ["in part"] * self.part + ["a flipped bit"] * self.flip)


Plan = Callable[[int, str], Fault | None]
Watcher = Callable[[str, str], Fault | None]
BLOCK_BYTES = 4096
OFF = Fault(errno.EIO)
FULL = Fault(errno.ENOSPC)
ZEROS = bytes(64 << 10)


def tree_of(root: Path) -> dict[str, bytes | None]:
    """Returns path -> content, None for a directory, of everything below a directory."""
    found: dict[str, bytes | None] = {}
    unvisited = [(str(root), "")]
    while unvisited:
        directory, above = unvisited.pop()
        with os.scandir(directory) as entries:
            for entry in entries:
                name = above + entry.name
                if entry.is_dir():
                    found[name] = None
                    unvisited.append((entry.path, f"{name}/"))
                else:
                    with open(entry.path, "rb", buffering=0) as file:
                        found[name] = file.read()
    return dict(sorted(found.items()))


def put_tree(root: Path, files: dict[str, bytes | None]) -> None:
    """Writes such a tree to an existing, empty directory."""
    base = str(root)
    for path, content in sorted(files.items()):
        if content is None:
            os.mkdir(f"{base}/{path}")
            continue
        end = end_of_data(content)
        with open(f"{base}/{path}", "wb", buffering=0) as file:
            file.write(content[:end])
            if end < len(content):
                file.truncate(len(content))


def end_of_data(content: bytes) -> int:
    """Returns roughly where the zeros at the end of a file begin: a write-ahead log is mostly zeros."""
    end = len(content)
    while end >= len(ZEROS) and content.startswith(ZEROS, end - len(ZEROS)):
        end -= len(ZEROS)
    return end


def put_at(fd: int, data: bytes, position: int) -> None:
    """Writes without the simulated disk, by another descriptor, because one with O_DIRECT needs whole blocks."""
    with open(f"/proc/self/fd/{fd}", "r+b", buffering=0) as file:
        file.seek(position)
        file.write(data)


class Disk:
    """Everything that happens below one directory.

    Attributes:
        base: The initial content, durable.
        trace: The later operations that changed the disk, and notes, in order.
        calls: Number of operations, including reads; fault plans use it.
        plan: Called before each operation with its number and name; returns a fault, or None.
        watcher: Also called, with the operation's name and its path.
        capacity: Most bytes of files and reservations together; beyond it operations fail with ENOSPC.
        is_off: The power has failed: every operation fails with EIO, and is not recorded.
        under_way: The write that the power failure interrupted, if any.
        real_inodes: The file system's inodes of the files that were opened, and the simulated ones.

    Args:
        mapped: Files that the process maps, by their paths below `root`: what it stores there is in the trace,
            before the next operation, the stores between two steps of a staged tail in any order.
    """

    def __init__(self, root: Path, plan: Plan | None = None, *, mapped: Iterable[str] = ()) -> None:
        self.root = root
        self.base = tree_of(root)
        self.trace: list[Event] = []
        self.calls = 0
        self.plan: Plan = plan or (lambda number, operation: None)
        self.watcher: Watcher = lambda operation, path: None
        self.capacity: int | None = None
        self.is_off = False
        self.under_way: Write | None = None
        self.struck: list[tuple[int, str]] = []  # faults that were injected
        self._paths = inodes_of(self.base)  # live names: path -> inode
        self._path_of = {inode: path for path, inode in self._paths.items()}
        self._taken = {
            inode: len(self.base[path] or b"") for path, inode in self._paths.items()
        }  # bytes by inode
        self._files: dict[int, int] = {}  # descriptor -> inode
        self._synced_writes: set[int] = set()  # descriptors opened with O_DSYNC or O_SYNC
        self._next_inode = len(self._paths) + 1
        self._lock = threading.RLock()
        self._mapped = {path: MappedFile(root / path) for path in mapped}
        self._chance = random.Random(1)
        self.real_inodes = {(root / path).stat().st_ino: inode for path, inode in self._paths.items()}

    @property
    def mapped(self) -> tuple[str, ...]:
        """The paths of the files that the process maps."""
        return tuple(self._mapped)

    def note(self, kind: str, value: object = None) -> Note:
        """Adds a note between the operations."""
        self.look_at_mapped()
        made = Note(kind, value)
        self.trace.append(made)
        return made

    def medium(self, **options: bool) -> Medium:
        """The disk before the first operation of the trace."""
        return Medium(self.base, **options)

    def sync_all(self) -> None:
        """syncfs."""
        fault = self._begin("sync", "")
        if fault is not None and fault.error:
            raise OSError(fault.error, os.strerror(fault.error), str(self.root))
        self.trace.append(SyncAll())

    # ------------------------------------------------------------ bookkeeping

    def _begin(self, operation: str, path: str | None) -> Fault | None:
        with self._lock:
            if self.is_off:
                return OFF
            self.look_at_mapped()
            self.calls += 1
            fault = self.plan(self.calls, operation) or self.watcher(operation, path or "")
            if self.is_off:
                return OFF
            if fault is None and operation in ("open_new", "mkdir") and self.free_bytes() <= 0:
                fault = FULL
            if fault is not None:
                self.struck.append((self.calls, operation))
            return fault

    def look_at_mapped(self) -> None:
        """Adds the stores to mapped files since the last time."""
        for path, file in self._mapped.items():
            inode = self._paths.get(path)
            if self.is_off:
                return
            if inode is None:
                file.gone()
                continue
            resized, stores = file.look(inode)
            if resized is not None:
                self._taken[inode] = resized
                self.trace.append(Truncate(inode, resized))
            self._chance.shuffle(stores)
            self.trace += [Write(inode, position, data) for position, data in stores]

    def path_of(self, fd: int) -> str:
        """Returns the current path of a descriptor; an empty string for files outside the root."""
        return self._path_of.get(self._files.get(fd, -1), "")

    def power_off(self) -> None:
        """Makes every later operation fail without effect."""
        self.is_off = True

    # ------------------------------------------------------------ room

    def used_bytes(self) -> int:
        """Bytes of files and reservations."""
        return sum(self._taken.values())

    def free_bytes(self) -> int:
        """Bytes left of the capacity."""
        return (1 << 62) if self.capacity is None else self.capacity - self.used_bytes()

    def _fits(self, fd: int, position: int, n: int) -> int:
        """Returns how many of `n` bytes at `position` fit, in whole blocks, and reserves them."""
        inode = self._files.get(fd, -1)
        taken = self._taken.get(inode, 0)
        room = max(0, taken - position) + max(0, self.free_bytes())
        if room < n:
            n = max(0, room - (position + room) % BLOCK_BYTES)
        if n > 0:
            self._taken[inode] = max(taken, position + n)
        return n

    def _relative(self, path: str | bytes | os.PathLike) -> str | None:
        text = os.path.abspath(os.fsdecode(path))
        root = str(self.root)
        if text == root:
            return ""
        return text[len(root) + 1 :] if text.startswith(f"{root}/") else None

    def _place(self, path: str) -> tuple[int, str]:
        above, _, name = path.rpartition("/")
        return (self._paths[above] if above else Medium.ROOT), name

    def _opened(self, path: str, fd: int, flags: int) -> None:
        with self._lock:
            if path == "":
                self._files[fd] = Medium.ROOT
                return
            inode = self._paths.get(path)
            if inode is None:
                inode = self._made(path)
            elif flags & os.O_TRUNC:
                self._taken[inode] = 0
                self.trace.append(Truncate(inode, 0))
            self._files[fd] = inode
            self.real_inodes[os.fstat(fd).st_ino] = inode
            if flags & (os.O_DSYNC | os.O_SYNC):
                self._synced_writes.add(fd)

    def _made(self, path: str, *, is_directory: bool = False) -> int:
        inode, self._next_inode = self._next_inode, self._next_inode + 1
        self._paths[path] = inode
        self._path_of[inode] = path
        self._taken[inode] = 0
        self.trace.append(Link(*self._place(path), inode, is_directory))
        return inode

    def _closed(self, fd: int) -> None:
        with self._lock:
            self._files.pop(fd, None)
            self._synced_writes.discard(fd)

    def _wrote(self, fd: int, position: int, data: bytes, durable: bool = False) -> None:
        with self._lock:
            if fd in self._files and data:
                durable = durable or fd in self._synced_writes
                self.trace.append(Write(self._files[fd], position, data, durable))

    def _renamed(self, old: str | None, new: str | None) -> None:
        with self._lock:
            if old is None or new is None or old not in self._paths:
                return  # created without the simulated disk
            inode = self._paths[old]
            self.trace.append(Link(*self._place(new), inode, old=self._place(old)))
            moved = {p: i for p, i in self._paths.items() if p == old or p.startswith(f"{old}/")}
            self._taken.pop(self._paths.get(new, -1), None)
            for path in moved:
                del self._paths[path]
            self._paths.update({new + p[len(old) :]: i for p, i in moved.items()})
            self._path_of.update({i: new + p[len(old) :] for p, i in moved.items()})

    def _unlinked(self, path: str | None) -> None:
        with self._lock:
            if path is not None and path in self._paths:
                self.trace.append(Unlink(*self._place(path)))
                self._taken.pop(self._paths.pop(path), None)

    # ------------------------------------------------------------ replacements of the log's operations

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Routes operations through the disk until the end of the block."""
        makers = {
            name[len("_native_") :]: getattr(self, name) for name in dir(self) if name.startswith("_native_")
        }
        names = [
            "open",
            "write",
            "pwrite",
            "close",
            "fsync",
            "fdatasync",
            "ftruncate",
            "rename",
            "replace",
            "unlink",
            "mkdir",
            "rmdir",
        ]
        wrapped = {name: getattr(self, f"_python_{name}")(getattr(os, name)) for name in names}
        stores = {"name": self._looking, "publish": self._looking} if self._mapped else {}
        with faults.all_replaced(makers), faults.stores_replaced(stores), mock.patch.multiple(os, **wrapped):
            yield

    def _looking(self, original):
        def call(*arguments):
            with self._lock:
                self.look_at_mapped()
                original(*arguments)
                self.look_at_mapped()

        return call

    def _native_open(self, original):
        def call(path, flags):
            relative = self._relative(path)
            if relative is None:
                return original(path, flags)
            makes = flags & os.O_CREAT and relative not in self._paths
            fault = self._begin("open_new" if makes else "open", relative)
            if fault is not None and fault.error:
                return -fault.error
            fd = original(path, flags)
            if fd >= 0:
                self._opened(relative, fd, flags)
            return fd

        return call

    def _native_close(self, original):
        def call(fd):
            self._closed(fd)
            return original(fd)

        return call

    def _native_pread(self, original):
        def call(fd, data, size, position):
            fault = self._begin("pread", self.path_of(fd))
            if fault is not None and fault.error:
                return -fault.error
            if fault is not None and fault.part and size > 1:
                size //= 2
            n = original(fd, data, size, position)
            if fault is not None and fault.flip and n > 0:
                at = ctypes.c_uint8.from_address(data + n // 2)
                at.value ^= 0x10
            return n

        return call

    def _native_pwritev(self, original):
        def call(fd, parts, count, position):
            data = b"".join(
                ctypes.string_at(parts[i].base, parts[i].size) for i in range(count) if parts[i].size
            )
            return self._written(fd, data, position, lambda: original(fd, parts, count, position))

        return call

    def _native_write_durable(self, original):
        def call(fd, data, size, position):
            content = ctypes.string_at(data, size)
            return self._written(
                fd, content, position, lambda: original(fd, data, size, position), durable=True
            )

        return call

    def _written(
        self, fd: int, data: bytes, position: int, do: Callable[[], int], *, durable: bool = False
    ) -> int:
        was_off = self.is_off
        fault = self._begin("write_durable" if durable else "pwritev", self.path_of(fd))
        if self.is_off and not was_off and fd in self._files:
            self.under_way = Write(self._files[fd], position, data, durable)
        if fault is None:
            room = self._fits(fd, position, len(data))
            if room < len(data):
                return self._written_in_part(fd, data[:room], position)
            n = do()
            self._wrote(fd, position, data[: max(0, n)], durable)
            return n
        if fault.error and not fault.part:
            return -fault.error
        if fault.part:
            data = data[: max(1, len(data) // 2)]
        if fault.flip:
            middle = len(data) // 2
            data = data[:middle] + bytes([data[middle] ^ 0x10]) + data[middle + 1 :]
        put_at(fd, data, position)
        self._wrote(fd, position, data, durable and not fault.error)
        return -fault.error if fault.error else len(data)

    def _written_in_part(self, fd: int, data: bytes, position: int) -> int:
        """As much as there was room for."""
        if not data:
            return -errno.ENOSPC
        put_at(fd, data, position)
        self._wrote(fd, position, data)
        return len(data)

    def _native_truncate(self, original):
        def call(fd, size):
            fault = self._begin("truncate", self.path_of(fd))
            if fault is not None and fault.error:
                return -fault.error
            error = original(fd, size)
            if error == 0:
                self._taken[self._files[fd]] = size
                self.trace.append(Truncate(self._files[fd], size))
            return error

        return call

    def _native_reserve(self, original):
        def call(fd, position, size):
            fault = self._begin("reserve", self.path_of(fd))
            if fault is not None and fault.error:
                return -fault.error
            if self._fits(fd, position, size) < size:
                return -errno.ENOSPC
            return original(fd, position, size)

        return call

    def _native_sync(self, original):
        def call(fd):
            fault = self._begin("sync", self.path_of(fd))
            if self.is_off:
                return -errno.EIO
            if fault is not None and fault.error:
                self.trace.append(SyncFailed(self._files[fd]))
                return -fault.error
            self.trace.append(Sync(self._files[fd]))  # the simulation decides what is on the medium
            return 0

        return call

    def _native_sync_file_system(self, original):
        def call(path):
            fault = self._begin("sync", self._relative(path))
            if fault is not None and fault.error:
                return -fault.error
            self.trace.append(SyncAll())
            return 0

        return call

    def _native_stat(self, original):
        def call(fd, size, modified):
            fault = self._begin("stat", self.path_of(fd))
            return -fault.error if fault is not None and fault.error else original(fd, size, modified)

        return call

    def _native_stat_path(self, original):
        def call(path, size):
            fault = self._begin("stat_path", self._relative(path))
            return -fault.error if fault is not None and fault.error else original(path, size)

        return call

    def _native_make_directory(self, original):
        def call(path):
            relative = self._relative(path)
            if relative is None:
                return original(path)
            fault = self._begin("mkdir", relative)
            if fault is not None and fault.error:
                return -fault.error
            error = original(path)
            if error == 0:
                self._made(relative, is_directory=True)
            return error

        return call

    def _native_rename(self, original):
        def call(old, new):
            fault = self._begin("rename", self._relative(old))
            if fault is not None and fault.error:
                return -fault.error
            error = original(old, new)
            if error == 0:
                self._renamed(self._relative(old), self._relative(new))
            return error

        return call

    def _native_unlink(self, original):
        def call(path):
            fault = self._begin("unlink", self._relative(path))
            if fault is not None and fault.error:
                return -fault.error
            error = original(path)
            if error == 0:
                self._unlinked(self._relative(path))
            return error

        return call

    # ------------------------------------------------------------ replacements of Python's functions

    def _python(self, operation: str, path: "int | str | bytes | os.PathLike[Any]") -> Fault | None:
        where = self.path_of(path) if isinstance(path, int) else self._relative(path)
        fault = self._begin(operation, where)
        if fault is not None and fault.error and not (fault.part and operation == "pwritev"):
            # As the operating system's: calls with descriptors name no file.
            name = None if isinstance(path, int) else str(path)
            raise OSError(fault.error, os.strerror(fault.error), name)
        return fault

    def _python_open(self, original):
        def call(path, flags, mode=0o777, *, dir_fd=None):
            relative = None if dir_fd is not None or isinstance(path, int) else self._relative(path)
            if relative is None:
                return original(path, flags, mode, dir_fd=dir_fd)
            self._python("open_new" if flags & os.O_CREAT and relative not in self._paths else "open", path)
            fd = original(path, flags, mode)
            self._opened(relative, fd, flags)
            return fd

        return call

    def _python_write(self, original):
        def call(fd, data):
            if fd not in self._files:
                return original(fd, data)
            data = bytes(data)
            fault = self._python("pwritev", fd)
            if fault is not None and fault.part:
                data = data[: max(1, len(data) // 2)]
            position = os.lseek(fd, 0, os.SEEK_CUR)
            data = data[: self._fits(fd, position, len(data))]
            if not data:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path_of(fd))
            n = original(fd, data)
            self._wrote(fd, position, data[:n])
            if fault is not None and fault.error:
                raise OSError(fault.error, os.strerror(fault.error))
            return n

        return call

    def _python_pwrite(self, original):
        def call(fd, data, position):
            if fd not in self._files:
                return original(fd, data, position)
            write = Write(self._files[fd], position, bytes(data), fd in self._synced_writes)
            was_off = self.is_off
            try:
                fault = self._python("pwritev", fd)
            except OSError:
                if self.is_off and not was_off:
                    self.under_way = write
                raise
            room = self._fits(fd, position, len(write.data))
            if fault is not None and fault.part:
                room = min(room, max(1, len(write.data) // 2))
            if not room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path_of(fd))
            n = original(fd, write.data[:room], position)
            self._wrote(fd, position, write.data[:n])
            if fault is not None and fault.error:
                raise OSError(fault.error, os.strerror(fault.error))
            return n

        return call

    def _python_close(self, original):
        def call(fd):
            self._closed(fd)
            return original(fd)

        return call

    def _python_fsync(self, original):
        def call(fd):
            if fd not in self._files:
                return original(fd)
            try:
                self._python("sync", fd)
            except OSError:
                if not self.is_off:
                    self.trace.append(SyncFailed(self._files[fd]))
                raise
            self.trace.append(Sync(self._files[fd]))
            return None

        return call

    _python_fdatasync = _python_fsync

    def _python_ftruncate(self, original):
        def call(fd, size):
            if fd in self._files:
                self._python("truncate", fd)
                self._taken[self._files[fd]] = size
                self.trace.append(Truncate(self._files[fd], size))
            return original(fd, size)

        return call

    def _python_rename(self, original):
        def call(old, new, **directories):
            inside = self._relative(old), self._relative(new)
            if None in inside or any(v is not None for v in directories.values()):
                return original(old, new, **directories)
            self._python("rename", old)
            original(old, new)
            self._renamed(*inside)
            return None

        return call

    _python_replace = _python_rename

    def _taking(self, original, operation: str):
        def call(path, *, dir_fd=None):
            whole = path
            if dir_fd is not None:  # shutil.rmtree
                whole = f"{os.readlink(f'/proc/self/fd/{dir_fd}')}/{os.fsdecode(path)}"
            relative = self._relative(whole)
            if relative is None:
                return original(path, dir_fd=dir_fd)
            self._python(operation, whole)
            original(path, dir_fd=dir_fd)
            self._unlinked(relative)
            return None

        return call

    def _python_unlink(self, original):
        return self._taking(original, "unlink")

    def _python_rmdir(self, original):
        return self._taking(original, "rmdir")

    def _python_mkdir(self, original):
        def call(path, mode=0o777, *, dir_fd=None):
            relative = None if dir_fd is not None else self._relative(path)
            if relative is None:
                return original(path, mode, dir_fd=dir_fd)
            self._python("mkdir", path)
            original(path, mode)
            self._made(relative, is_directory=True)
            return None

        return call
