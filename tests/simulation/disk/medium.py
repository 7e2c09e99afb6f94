"""The content of a disk after power loss.

A trace of operations leads to a `Medium`: the durable content of every file and directory, and later changes.
An `Outcome` decides which of these changes had reached the medium when the power went; `image` builds the
files that a start would find.

The model is the strictest that POSIX allows. Written data is durable after a sync of the file, or at once if
written with O_DSYNC. Until then, each 4 KiB page may be as of any moment since the last sync, independently
of the other pages and of the file's size; if the size grew before the page was written, there are zeros or
garbage. The write that the crash interrupted may be there in any subset of its 512-byte sectors. A name is
durable after a sync of its directory, not of the file. Options weaken these rules: `journal` keeps names in
order, as journaled file systems do, and `sync_names` makes durable a synced file's name and all earlier names
(ext4).
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

PAGE_BYTES = 4096
SECTOR_BYTES = 512
GARBAGE = b"\xa5"


# ---------------------------------------------------------------- operations


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes put into a file; `durable` ones are on the medium when the call returns."""

    inode: int
    position: int
    data: bytes
    durable: bool = False


@dataclass(frozen=True, slots=True)
class Truncate:
    """A file's size set."""

    inode: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Sync:
    """A file or directory synced."""

    inode: int


@dataclass(frozen=True, slots=True)
class SyncFailed:
    """A sync that failed: the kernel forgets that the pages were dirty, so no later sync writes them."""

    inode: int


@dataclass(frozen=True, slots=True)
class SyncAll:
    """syncfs: everything."""


@dataclass(frozen=True, slots=True)
class Link:
    """A new name in a directory: of a file or directory made, or renamed. `old` is what it was renamed from."""

    directory: int
    name: str
    inode: int
    is_directory: bool = False
    old: tuple[int, str] | None = None


@dataclass(frozen=True, slots=True)
class Unlink:
    """A name taken away."""

    directory: int
    name: str


@dataclass(slots=True)
class Note:
    """Not an operation: a fact of the workload at this moment. `value` may be set later."""

    kind: str
    value: object = None


Event = Write | Truncate | Sync | SyncFailed | SyncAll | Link | Unlink | Note


# ---------------------------------------------------------------- outcomes


@dataclass(frozen=True)
class Outcome:
    """Decides which operations without a sync had reached the medium.

    Attributes:
        pages: "none", "all", "even", "odd", or "any" for each page as of any moment, by `seed`.
        sizes: The same for the sizes of files: "none", "all" or "any".
        names: "none", "all", "first" for those before any moment, in order, or "any": any of the new names, though
            what was renamed and taken away is so in order. (Segments are retired in order; a file system that
            is free to lose the middle one of three renames could keep old records and lose newer ones.)
        torn: Sectors of the write under way: "none", "first" (a prefix), "last" (a suffix) or "any".
        garbage: What a page holds that the size covers but that never came: garbage instead of zeros.
    """

    name: str
    pages: str = "all"
    sizes: str = "all"
    names: str = "all"
    torn: str = "none"
    garbage: bool = False
    seed: int = 0

    def chance(self, moment: int) -> random.Random:
        """Returns the choices of this outcome at one moment of the trace."""
        return random.Random(f"{self.name} {self.seed} {moment}")

    def page_cut(self, chance: random.Random, page: int, operations: int) -> int:
        """Returns how many of the file's operations the page contains."""
        if self.pages == "any":
            return chance.randint(0, operations)
        there = {"none": False, "all": True, "even": page % 2 == 0, "odd": page % 2 == 1}[self.pages]
        return operations if there else 0

    def size_cut(self, chance: random.Random, operations: int) -> int:
        """Returns how many of the file's operations its size reflects."""
        return chance.randint(0, operations) if self.sizes == "any" else operations * (self.sizes == "all")

    def names_kept(self, chance: random.Random, names: "list[Link | Unlink]") -> list[bool]:
        """Returns the operations on names that survive."""
        if self.names in ("any", "first"):
            cut = chance.randint(0, len(names))
        else:
            cut = len(names) if self.names == "all" else 0
        return [
            chance.random() < 0.5
            if self.names == "any" and isinstance(name, Link) and name.old is None
            else i < cut
            for i, name in enumerate(names)
        ]

    def sectors(self, chance: random.Random, write: Write) -> list[Write]:
        """Returns the surviving sectors of the write that the power loss interrupted."""
        end = write.position + len(write.data)
        first, last = write.position // SECTOR_BYTES, (end - 1) // SECTOR_BYTES
        cut = chance.randint(first, last)
        kept = []
        for sector in range(first, last + 1):
            there = {"none": False, "first": sector < cut, "last": sector >= cut}.get(self.torn)
            if there if there is not None else chance.random() < 0.5:
                start = max(write.position, sector * SECTOR_BYTES)
                stop = min(end, (sector + 1) * SECTOR_BYTES)
                data = write.data[start - write.position : stop - write.position]
                kept.append(Write(write.inode, start, data, True))
        return kept


KILLED = Outcome("the process is killed")
NOTHING = Outcome("nothing that was not synced", pages="none", sizes="none", names="none")
SYSTEMATIC = [
    KILLED,
    NOTHING,
    Outcome("names without data", pages="none", sizes="none"),
    Outcome("sizes without data", pages="none"),
    Outcome("sizes over garbage", pages="none", garbage=True),
    Outcome("data without names", names="none"),
    Outcome("even pages", pages="even"),
    Outcome("odd pages", pages="odd"),
    Outcome("torn at its end", torn="first"),
    Outcome("torn at its start", torn="last"),
    Outcome("torn anywhere", torn="any"),
]


def random_outcome(seed: int, *, journal: bool = False) -> Outcome:
    """Returns an outcome with any age of each page, any size, any sectors of the last write, and any names (or in order)."""
    return Outcome(
        "anything", pages="any", sizes="any", names="first" if journal else "any", torn="any", garbage=seed % 3 == 0, seed=seed
    )  # fmt: skip


# ---------------------------------------------------------------- state


@dataclass(slots=True)
class File:
    """A file's durable bytes, the operations since, and the content of the page cache if that differs."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[Write | Truncate] = field(default_factory=list)
    cache: bytearray | None = None  # set after a failed sync
    # The durable bytes as images have them: a file of some MiB is in many images before it changes.
    _image: bytes | None = None

    def do(self, operation: Write | Truncate) -> None:
        """Adds an operation."""
        if self.cache is not None:
            _apply(self.cache, operation)
        if isinstance(operation, Write) and operation.durable:
            self._to_medium(operation)  # these bytes, and the metadata that is needed to read them
            if not self.pending:
                return
        self.pending.append(operation)

    def forget(self) -> None:
        """Records a failed sync: unwritten data is never written, but readers still see it."""
        if self.cache is None:
            self.cache = bytearray(self.durable)
            for operation in self.pending:
                _apply(self.cache, operation)
        self.pending = []

    def settle(self) -> None:
        """Makes all operations so far durable."""
        for operation in self.pending:
            self._to_medium(operation)
        self.pending = []

    def _to_medium(self, operation: Write | Truncate) -> None:
        _apply(self.durable, operation)
        self._image = None

    def content(self, outcome: Outcome, chance: random.Random) -> bytes:
        """Returns the file's content under an outcome."""
        pending = self.pending
        if outcome == KILLED and self.cache is not None:
            return bytes(self.cache)
        if not pending or (outcome.pages == "none" and outcome.sizes == "none"):
            if self._image is None:
                self._image = bytes(self.durable)
            return self._image
        content = bytearray(self.durable)
        if outcome.pages == "all" and outcome.sizes == "all":
            for operation in pending:
                _apply(content, operation)
            return bytes(content)
        return self._mixed(outcome, chance, content)

    def _mixed(self, outcome: Outcome, chance: random.Random, content: bytearray) -> bytes:
        sizes = [len(content)]
        for operation in self.pending:
            sizes.append(_size_after(sizes[-1], operation))
        room = max(sizes)
        content.extend((GARBAGE if outcome.garbage else b"\0") * (room - len(content)))
        n = len(self.pending)
        cuts = [outcome.page_cut(chance, page, n) for page in range(-(-room // PAGE_BYTES))]
        for number, operation in enumerate(self.pending):
            if isinstance(operation, Truncate):
                _zero_pages(content, cuts, number, operation.size_bytes, room)
            else:
                _put_pages(content, cuts, number, operation)
        return bytes(content[: sizes[outcome.size_cut(chance, n)]])


def _size_after(size_bytes: int, operation: Write | Truncate) -> int:
    if isinstance(operation, Truncate):
        return operation.size_bytes
    return max(size_bytes, operation.position + len(operation.data))


def _apply(content: bytearray, operation: Write | Truncate) -> None:
    if isinstance(operation, Truncate):
        del content[operation.size_bytes :]
        content.extend(bytes(operation.size_bytes - len(content)))
    else:
        content.extend(bytes(max(0, operation.position - len(content))))
        content[operation.position : operation.position + len(operation.data)] = operation.data


def _zero_pages(content: bytearray, cuts: list[int], number: int, start: int, end: int) -> None:
    for page in range(start // PAGE_BYTES, len(cuts)):
        if number < cuts[page]:
            first, last = max(start, page * PAGE_BYTES), min(end, (page + 1) * PAGE_BYTES)
            content[first:last] = bytes(max(0, last - first))


def _put_pages(content: bytearray, cuts: list[int], number: int, write: Write) -> None:
    end = write.position + len(write.data)
    for page in range(write.position // PAGE_BYTES, -(-end // PAGE_BYTES)):
        if number < cuts[page]:
            first, last = max(write.position, page * PAGE_BYTES), min(end, (page + 1) * PAGE_BYTES)
            content[first:last] = write.data[first - write.position : last - write.position]


class Medium:
    """The state of the disk after a trace of operations.

    Args:
        files: The initial tree, durable: path -> bytes, or None for a directory.
        sync_names: Syncing a file makes its name durable, and every name before it (ext4).
    """

    ROOT = 0

    def __init__(self, files: dict[str, bytes | None], *, sync_names: bool = False) -> None:
        self.files: dict[int, File] = {}
        self.directories: dict[int, dict[str, int]] = {self.ROOT: {}}
        self.names: list[Link | Unlink] = []  # not durable yet, in order
        self.sync_names = sync_names
        inodes = inodes_of(files)
        for path, inode in inodes.items():
            content = files[path]
            above, _, name = path.rpartition("/")
            self.directories[inodes[above] if above else self.ROOT][name] = inode
            if content is None:
                self.directories[inode] = {}
            else:
                self.files[inode] = File(bytearray(content))

    def apply(self, event: Event) -> None:
        """Applies the next operation of the trace."""
        match event:
            case Write() | Truncate():
                self.files.setdefault(event.inode, File()).do(event)
            case Sync():
                self._sync(event.inode)
            case SyncFailed():
                if event.inode in self.files:
                    self.files[event.inode].forget()
            case SyncAll():
                for file in self.files.values():
                    file.settle()
                self._settle_names(self.names)
            case Link() | Unlink():
                self.names.append(event)
                if isinstance(event, Link) and event.old is None:
                    if event.is_directory:
                        self.directories.setdefault(event.inode, {})
                    else:
                        self.files.setdefault(event.inode, File())

    def _sync(self, inode: int) -> None:
        if inode in self.files:
            self.files[inode].settle()
            if self.sync_names:
                self._settle_names(self.names)
        else:
            self._settle_names([n for n in self.names if inode in _directories_of(n)])

    def _settle_names(self, names: list[Link | Unlink]) -> None:
        for name in names:
            _apply_name(self.directories, name)
        settled = set(map(id, names))
        self.names = [name for name in self.names if id(name) not in settled]

    def image(self, outcome: Outcome, moment: int, under_way: Event | None = None) -> dict[str, bytes | None]:
        """path -> content (None: a directory) of every file there is when the power goes at `moment`.

        Args:
            under_way: The operation that the crash interrupts; a write may be partly done.
        """
        chance = outcome.chance(moment)
        names = self._names(outcome, chance)
        pieces = (
            outcome.sectors(chance, under_way)
            if isinstance(under_way, Write) and outcome.torn != "none"
            else []
        )
        return {
            path: None if inode in self.directories else self._content(inode, outcome, chance, pieces)
            for path, inode in names.items()
        }

    def inodes(self, outcome: Outcome, moment: int) -> dict[int, str]:
        """inode -> path of the files in the image of that outcome."""
        return {inode: path for path, inode in self._names(outcome, outcome.chance(moment)).items()}

    def _names(self, outcome: Outcome, chance: random.Random) -> dict[str, int]:
        directories = {inode: dict(names) for inode, names in self.directories.items()}
        kept = outcome.names_kept(chance, self.names)
        for there, change in zip(kept, self.names, strict=True):
            if there:
                _apply_name(directories, change)
        found: dict[str, int] = {}
        unvisited = [("", self.ROOT)]
        while unvisited:
            above, directory = unvisited.pop()
            for name, inode in sorted(directories[directory].items()):
                found[f"{above}{name}"] = inode
                if inode in directories:
                    unvisited.append((f"{above}{name}/", inode))
        return found

    def _content(self, inode: int, outcome: Outcome, chance: random.Random, pieces: Iterable[Write]) -> bytes:
        content = self.files[inode].content(outcome, chance)
        its = [piece for piece in pieces if piece.inode == inode]
        if not its:
            return content
        longer = bytearray(content)
        for piece in its:
            _apply(longer, piece)
        return bytes(longer)


def inodes_of(files: dict[str, bytes | None]) -> dict[str, int]:
    """Returns the inodes of a disk's initial files, parents before their children."""
    return {path: number for number, path in enumerate(sorted(files), 1)}


def _directories_of(name: Link | Unlink) -> set[int]:
    return {name.directory} | ({name.old[0]} if isinstance(name, Link) and name.old else set())


def _apply_name(directories: dict[int, dict[str, int]], name: Link | Unlink) -> None:
    if isinstance(name, Unlink):
        directories[name.directory].pop(name.name, None)
        return
    if name.old is not None and directories[name.old[0]].get(name.old[1]) == name.inode:
        del directories[name.old[0]][name.old[1]]
    directories[name.directory][name.name] = name.inode
