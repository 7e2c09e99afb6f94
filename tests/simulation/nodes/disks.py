"""Disks that are full for a while or fail for good, each with one log directory of a node.

Native file operations fail in the table that all of them use (tests/support/faults.py); Python's fail in a
replacement of `os` in the engine's modules. The seed decides what is refused, and when the node notices.
"""

import ctypes
import errno
import os
import select
from types import SimpleNamespace

from tests.simulation.nodes.kernel import MS
from tests.support.faults import IoVec, all_replaced

AT_CWD = "/proc/self/fd"
SHORT_WRITES = 0.2
# For operations that create a name. A full file system may have room for one, in an existing block.
NAMES = 0.5
# The share of operations that fail while memory is short.
SCARCE = 0.6
FULL, PASSING = (errno.ENOSPC, errno.EDQUOT), (errno.ENOMEM, errno.EMFILE, errno.ENFILE)


class Disks:
    """The disks of all nodes.

    Attributes:
        is_on: Whether any of them ever fails in this run.
        full: By directory, the error of operations that need room.
        broken: Directories whose files can only be read, if they are open.
        without_segment: Directories whose write-ahead log gets no segment; other files still have room.
        scarce: Directories whose files now lack memory or descriptors.
        met: The lives of nodes that have met a disk error.
        starved: Those that lacked memory or descriptors.
    """

    def __init__(self, kernel, *, is_on):
        self.kernel = kernel
        self.is_on = is_on
        self.full: dict[str, int] = {}
        self.broken: set[str] = set()
        self.without_segment: set[str] = set()
        self.scarce: dict[str, int] = {}
        self.met: set[tuple[int, int]] = set()
        self.starved: set[tuple[int, int]] = set()
        self.nodes: dict[str, object] = {}
        self._random = kernel.random("disks")

    def add(self, node):
        """Adds the directories of a node."""
        self.nodes |= dict.fromkeys(node.disks, node)

    def has_met(self, node):
        """Whether a disk has failed in the current life of a node."""
        return (node.id, node.life) in self.met

    def may_end(self, node):
        """Whether the current life of a node has met an error that may fail a start or a stop."""
        return self.has_met(node) or (node.id, node.life) in self.starved

    def is_failing(self, node):
        """Whether a disk of a node is full or broken now."""
        return any(each in self.full or each in self.broken for each in node.disks)

    def repair(self, node):
        """Has a node's disks work again, with their contents."""
        for each in node.disks:
            self.full.pop(each, None)
            self.broken.discard(each)
            self.without_segment.discard(each)
            self.scarce.pop(each, None)

    # ---- refusals

    def error(self, path, *, grows=False, makes=False, opens=False):
        """Returns the error that an operation on a file gets; 0 for none.

        Args:
            grows: It needs room for bytes.
            makes: It makes a name.
            opens: It opens a file.
        """
        directory = self._directory(path)
        if directory in self.broken:
            return self._refuse(directory, path, errno.EIO)
        if directory in self.full and (grows or (makes and self._random.random() < NAMES)):
            return self._refuse(directory, path, self.full[directory])
        if (
            directory in self.scarce
            and not _is_of_node(path, grows)
            and (opens or grows or makes)
            and self._random.random() < SCARCE
        ):
            error = self.scarce[directory]
            if opens or error == errno.ENOMEM:
                return self._refuse(directory, path, error)
        return 0

    def _directory(self, path):
        for each in self.nodes:
            if path.startswith(each) and path[len(each) : len(each) + 1] in ("", "/"):
                return each
        return None

    def _refuse(self, directory, path, error):
        node = self.nodes[directory]
        (self.starved if error in PASSING else self.met).add((node.id, node.life))
        self.kernel.say(node.name, f"gets {errno.errorcode[error]} for {path[len(directory) :]}")
        node.after(self._random.uniform(0.05, 5.0) * MS, self.wake, node)
        return error

    @staticmethod
    def wake(node):
        """Has the control thread check for failures that native code signalled for a directory or a log."""
        if node.broker_is_open:
            fd = node.broker.directories.event_fd
            if fd >= 0 and _is_readable(fd):
                node.loop.readable(fd)

    # ---- native file operations

    def failing(self):
        """Replaces the table of native file operations while it is open."""
        checked = {
            "open": self._open,
            "pwritev": self._pwritev,
            "write_durable": self._of_file({"grows": True}),
            "reserve": self._of_file({"grows": True}),
            "truncate": self._of_file({}),
            "sync": self._of_file({}),
            "rename": self._of_path({}),
            "unlink": self._of_path({}),
            "make_directory": self._of_path({"makes": True}),
        }
        return all_replaced(checked)

    def _of_file(self, what):
        def make(original):
            def call(fd, *args):
                error = self.error(name_of(fd), **what) if self._any() else 0
                return -error if error else original(fd, *args)

            return call

        return make

    def _of_path(self, what):
        def make(original):
            def call(path, *args):
                error = self.error(os.fsdecode(path), **what) if self._any() else 0
                return -error if error else original(path, *args)

            return call

        return make

    def _any(self):
        return bool(self.full or self.broken or self.scarce)

    def _open(self, original):
        def call(path, flags):
            error = 0
            if self._any():
                name = os.fsdecode(path)
                makes = bool(flags & os.O_CREAT) and not os.path.exists(name)
                error = self.error(name, makes=makes, opens=True)
            return -error if error else original(path, flags)

        return call

    def _pwritev(self, original):
        def call(fd, parts, n, position):
            error = self.error(name_of(fd), grows=True) if self._any() else 0
            if error == 0:
                return original(fd, parts, n, position)
            if error in FULL and parts[0].size > 1 and self._random.random() < SHORT_WRITES:
                # The last block of the file takes some bytes.
                some = IoVec(parts[0].base, self._random.randrange(1, parts[0].size))
                return original(fd, ctypes.pointer(some), 1, position)
            return -error

        return call

    # ---- Python's operations

    def module(self):
        """Returns the replacement of the module `os` in the engine."""
        return SimpleNamespace(
            **vars(os)
            | {
                "open": self._checked_open,
                "write": self._checked(os.write, of=name_of, grows=True),
                "pwrite": self._checked_pwrite,
                "fsync": self._checked(os.fsync, of=name_of),
                "replace": self._checked(os.replace),
                "rename": self._checked(os.rename),
                "unlink": self._checked(os.unlink),
                "mkdir": self._checked(os.mkdir, makes=True),
            }
        )

    def check(self, path, **what):
        """Raises OSError if an operation is refused."""
        error = self.error(os.fsdecode(path), **what)
        if error:
            raise OSError(error, os.strerror(error), str(path))

    def _checked(self, call, of=os.fspath, **what):
        def checked(path, *args, **options):
            if self._any():
                self.check(of(path), **what)
            return call(path, *args, **options)

        return checked

    def _checked_open(self, path, flags, *args, **options):
        if self._any():
            makes = bool(flags & os.O_CREAT) and not os.path.exists(path)
            self.check(os.fspath(path), makes=makes, opens=True)
        return os.open(path, flags, *args, **options)

    def _checked_pwrite(self, fd, data, position):
        if self._any():
            self.check(name_of(fd), grows=position + len(data) > os.fstat(fd).st_size)
        return os.pwrite(fd, data, position)


def _is_of_node(path, grows):
    """Whether a node cannot continue without the file: the last of the room is reserved for it."""
    return "/__cluster_metadata-0" in path and (grows or not path.endswith(".log"))


def name_of(fd):
    """The path of an open file."""
    try:
        return os.readlink(f"{AT_CWD}/{fd}")
    except OSError:
        return ""


def _is_readable(fd):
    poll = select.poll()  # select() accepts none above 1023
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))
