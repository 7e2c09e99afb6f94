"""A log directory with a pool, and its image at any moment of a step."""

import random
import shutil
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bowstring._native.disk.directory_health import DirectoryHealth
from bowstring._native.disk.staged_tail import abandon_tails, write_rested
from bowstring._native.disk.tail_pool import TailMemory, restore
from bowstring._native.log.partition_log import PartitionLog
from bowstring.engine.storage.staged_tails import TAILS_FILE
from tests.simulation.disk.disk import put_tree, tree_of
from tests.simulation.disk.pool_images import Image, headers_of, placed, settle_staged
from tests.support import faults
from tests.support.log_batches import CONFIG

# Also the first batch is staged, and one after a pause of the machine.
NEVER_AT_REST_MS = 1 << 40
OPERATIONS = ("open", "pwritev", "truncate", "reserve", "sync", "rename", "unlink", "close")
WORD_BYTES = 8


class Home:
    """A process's log directory. After `kill` or `stop` another one begins with `start`.

    Attributes:
        restored: How many chunks the last start restored.
    """

    def __init__(self, root: Path, chance: random.Random, pool_bytes: int, from_bytes: int) -> None:
        self.root = root
        self.chance = chance
        self.pool_bytes, self.from_bytes = pool_bytes, from_bytes
        self.file = root / TAILS_FILE
        self.start()

    def start(self) -> None:
        """Restores the staged batches, and maps the pool."""
        self.restored = restore(self.file, self.root)
        self.pool = TailMemory(
            self.pool_bytes, self.file, from_bytes=self.from_bytes, rest_ms=NEVER_AT_REST_MS
        )
        self.health = DirectoryHealth(str(self.root))
        self.health.stage_tails(self.pool, None)

    def open(
        self, name: str, config: dict[str, int], *, clean: bool, recovery_point: int = 0, start: int = 0
    ) -> PartitionLog:
        """Opens or makes a log."""
        (self.root / name).mkdir(exist_ok=True)
        return PartitionLog(
            str(self.root / name),
            CONFIG | config,
            recovery_point=recovery_point,
            clean_shutdown=clean,
            log_start_offset=start,
            health=self.health,
        )

    def rest(self) -> None:
        """Writes out all tails, as when every partition is at rest."""
        assert write_rested(self.pool, 0) == (0, 0)

    def stop(self) -> None:
        """Ends cleanly; the logs are closed already."""
        self.pool.close()
        assert self.pool.taken_bytes == 0
        self.file.unlink()
        self.start()

    def kill(self) -> None:
        """The process dies and starts again."""
        abandon_tails(self.pool)
        self.start()

    def kill_back(self, image: Image) -> None:
        """The process had died when the directory was like this."""
        abandon_tails(self.pool)
        for path in self.root.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        put_tree(self.root, image)
        settle_staged(self.root, image, same_boot=True)
        self.start()

    # ------------------------------------------------------------ moments

    def image(self) -> Image:
        """What a start finds when the process dies now."""
        inodes = {
            path.stat().st_ino: str(path.relative_to(self.root))
            for path in self.root.rglob("*")
            if path.is_file()
        }
        return placed(tree_of(self.root), inodes)

    @contextmanager
    def image_at(self, number: int) -> Iterator[list[Image]]:
        """Adds to the list the image of the moment before operation or store `number` of the block, if it comes."""
        found: list[Image] = []
        passed = [0]

        def moment() -> bool:
            passed[0] += 1
            return passed[0] == number

        def operation(original: Callable) -> Callable:
            def call(*arguments):
                if moment():
                    found.append(self.image())
                return original(*arguments)

            return call

        def store(original: Callable) -> Callable:
            def call(*arguments):
                before = self.image() if moment() else None
                original(*arguments)
                if before is not None:
                    found.append(self._between(before, self.image()))

            return call

        with (
            faults.all_replaced(dict.fromkeys(OPERATIONS, operation)),
            faults.stores_replaced({"name": store, "publish": store}),
        ):
            yield found

    def _between(self, before: Image, after: Image) -> Image:
        """An image with any of the words that were stored in a header."""
        old, new = before[TAILS_FILE], after[TAILS_FILE]
        assert old and new
        if self.chance.random() < 0.3:
            return before
        mixed = bytearray(old)
        for header in headers_of(new):
            for at in range(header, header + 512, WORD_BYTES):
                if old[at : at + WORD_BYTES] != new[at : at + WORD_BYTES] and self.chance.random() < 0.5:
                    struct.pack_into(f"{WORD_BYTES}s", mixed, at, new[at : at + WORD_BYTES])
        return before | {TAILS_FILE: bytes(mixed)}
