"""A quorum of one process: appended records commit when the test calls `commit`."""

import asyncio
from collections.abc import Callable, Sequence

from bowstring.engine.metadata.image import ClusterImage
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.schema import MetadataRecord


class FakeQuorum:
    """Implements what `engine.controller.service.Quorum` requires.

    Attributes:
        commits_at_once: Whether appends commit in the next turn of the loop; otherwise `commit` does it.
        log: All appended records.
        batches: How many records each append had.
    """

    def __init__(self, node_id: int = 1) -> None:
        self.node_id = node_id
        self.image = ClusterImage()
        self.on_leader_change: list[Callable[[int, int], None]] = []
        self.leader_id = -1
        self.epoch = 0
        self.kraft_version = 0
        self.commits_at_once = True
        self.resigned = 0
        self.log: list[MetadataRecord] = []
        self.batches: list[int] = []
        self._waiting: list[tuple[int, asyncio.Future[int]]] = []
        self._committed = 0

    @property
    def is_leader(self) -> bool:
        """Whether this node leads."""
        return self.leader_id == self.node_id

    @property
    def next_offset(self) -> int:
        """Offset of the next record."""
        return len(self.log)

    def kraft_version_refusal(self, version: int) -> str | None:
        """Refuses downgrades only."""
        return "It cannot be lowered." if version < self.kraft_version else None

    def upgrade_kraft_version(self, version: int) -> "asyncio.Future[int]":
        """Commits it at once."""
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.kraft_version = version
        done.set_result(len(self.log))
        return done

    def append_all(self, batches: Sequence[Sequence[MetadataRecord]]) -> "asyncio.Future[int]":
        """Appends batches."""
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if not self.is_leader:
            done.set_exception(KafkaError(Errors.NOT_CONTROLLER))
            return done
        for records in batches:
            self.log += records
            self.batches.append(len(records))
        self._waiting.append((len(self.log), done))
        if self.commits_at_once:
            asyncio.get_running_loop().call_soon(self.commit)
        return done

    def commit(self) -> None:
        """Commits and applies all that was appended."""
        waiting, self._waiting = self._waiting, []
        for end, done in waiting:
            self.image.apply_all(self.log[self._committed : end])
            self._committed = end
            if not done.done():
                done.set_result(end)

    def resign(self) -> None:
        """Gives up the leadership."""
        self.resigned += 1
        self.lead(-1)

    def lead(self, leader_id: int = 1) -> None:
        """Makes a node the leader of the next epoch; uncommitted appends are lost."""
        self.epoch += 1
        was_leader, self.leader_id = self.is_leader, leader_id
        if was_leader:
            waiting, self._waiting = self._waiting, []
            for _, done in waiting:
                done.set_exception(KafkaError(Errors.NOT_CONTROLLER))
            del self.log[self._committed :]
        for listener in list(self.on_leader_change):
            listener(leader_id, self.epoch)
