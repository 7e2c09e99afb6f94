"""Defines the common part of a group's members: it finds the coordinator, and commits offsets."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bowstring.clients.errors import BrokerError, ClientError, CommitFailedError, broker_error
from bowstring.clients.group.offset_requests import commit_request, commit_results
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.connection import Pending
from bowstring.clients.net.coordinators import coordinator_request, found_coordinator
from bowstring.clients.net.metadata import ClusterMetadata
from bowstring.clients.net.purposes import Purpose
from bowstring.clients.records import Node, OffsetAndMetadata, TopicPartition
from bowstring.clients.troubles import GRACE_S
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest
from bowstring.protocol.messages.offset_commit import OffsetCommitRequest

RETRY_PAUSE_S = 0.1
IDLE_S = 3600.0

COORDINATOR_ERRORS = (
    Errors.NOT_COORDINATOR.code,
    Errors.COORDINATOR_NOT_AVAILABLE.code,
    Errors.COORDINATOR_LOAD_IN_PROGRESS.code,
)

# Called with None, or with the error of a commit (retriable when it may be sent again).
Done = Callable[[ClientError | None], None]


@dataclass(slots=True)
class GroupEvents:
    """Requests of the member to its consumer, always during `tick` or a poll.

    `revoke` takes partitions away (the consumer commits and calls its listener first), `assign` gives the
    complete new assignment, `lose` takes all partitions away without a chance to commit.
    """

    topics: Callable[[], tuple[str, ...]]
    owned: Callable[[], tuple[TopicPartition, ...]]
    revoke: Callable[[list[TopicPartition]], None]
    assign: Callable[[list[TopicPartition]], None]
    lose: Callable[[], None]


class CoordinatedMember(ABC):
    """One member of one group, driven by the consumer's thread through `tick`."""

    def __init__(
        self,
        client: NetworkClient,
        cluster: ClusterMetadata,
        group_id: str,
        group_instance_id: str | None = None,
    ):
        self._client = client
        self._cluster = cluster
        self._group_id = group_id
        self._group_instance_id = group_instance_id
        self._coordinator: Node | None = None
        self._pending: Pending | None = None
        self._retry_at = 0.0
        self.generation = -1
        self.member_id = ""
        self.error: ClientError | None = None

    @abstractmethod
    def tick(self, *, join: bool = True) -> float:
        """Takes the next step if one is due; returns seconds until the next check.

        With `join` false it only looks for the coordinator, which is enough to commit without being a member.
        """

    @abstractmethod
    def leave(self, *, for_good: bool = True) -> None:
        """Leaves the group; the member may join again unless it is `for_good`."""

    @abstractmethod
    def polled(self) -> None:
        """Notes that the consumer polls: it is alive."""

    # ------------------------------------------------------------ coordinator

    def _find(self) -> float | None:
        """Looks for the coordinator; returns seconds until the next check, None when it is known."""
        if self._pending is not None:
            return IDLE_S
        now = time.monotonic()
        if now < self._retry_at:
            return self._retry_at - now
        if self._coordinator is not None:
            return None
        self._find_coordinator()
        return IDLE_S

    def _pause(self) -> None:
        self._retry_at = time.monotonic() + RETRY_PAUSE_S

    def _note(self, error: ClientError) -> None:
        if error.retriable:  # other errors are raised
            self._client.troubles.note(f"group {self._group_id!r}", error, grace_s=GRACE_S)

    def _over(self) -> None:
        self._client.troubles.over(f"group {self._group_id!r}")

    def _done(self, pending: Pending) -> None:
        if self._pending is pending:
            self._pending = None

    def _find_coordinator(self) -> None:
        pending = self._client.send(
            self._cluster.any_node(),
            FindCoordinatorRequest,
            coordinator_request(self._group_id),
            callback=self._found_coordinator,
        )
        if not pending.done:
            self._pending = pending

    def _found_coordinator(self, pending: Pending) -> None:
        self._done(pending)
        if pending.error is not None:
            if not pending.error.retriable:
                self.error = pending.error
            self._pause()
            return
        try:
            coordinator = found_coordinator(pending.response, self._group_id)
        except BrokerError as error:
            if not error.retriable:
                self.error = error
            self._note(error)
            self._pause()
            return
        self._over()
        self._coordinator = coordinator

    @property
    def coordinator(self) -> Node | None:
        """The broker that coordinates the group, None while it is being looked up."""
        return self._coordinator

    def coordinator_lost(self, node: Node | None = None) -> None:
        """Handles an answer (of `node`, if given) that says that the coordinator is another broker."""
        if node is None or node == self._coordinator:
            self._coordinator = None
            self._pause()

    def begin_with(self, coordinator: Node | None) -> None:
        """Adopts the coordinator that another member of the same consumer has found."""
        self._coordinator = coordinator

    # ------------------------------------------------------------ committing

    def identity(self) -> tuple[str, int]:
        """Returns the member id and the newest generation, or epoch, from the coordinator."""
        return self.member_id, self.generation

    def reader(self) -> tuple[str, int] | None:
        """Returns the member id and epoch with which committed offsets are requested; None for neither."""
        return None

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], done: Done) -> None:
        """Sends a commit; `done` gets None, or the error (retriable when it may be sent again)."""
        if self._coordinator is None:
            done(broker_error(Errors.COORDINATOR_NOT_AVAILABLE.code, "committing offsets"))
            return
        refused = self._watch_commit(offsets, done)

        def answered(pending: Pending) -> None:
            if pending.error is not None:
                self.coordinator_lost(pending.node)
                done(pending.error)
                return
            codes = {p: code for p, code in commit_results(pending.response).items() if code}
            if not codes:
                done(None)
                return
            partition, code = next(iter(codes.items()))
            if code in COORDINATOR_ERRORS:
                self.coordinator_lost(pending.node)
            refused(partition, code)

        request = commit_request(
            self._group_id,
            offsets,
            generation=self.generation,
            member_id=self.member_id,
            group_instance_id=self._group_instance_id,
        )
        self._client.send(
            self._coordinator, OffsetCommitRequest, request, callback=answered, purpose=self._purpose()
        )

    def _purpose(self) -> Purpose | None:
        """Returns the connection for requests that must not wait for the group; None for the usual one."""
        return None

    def _watch_commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], done: Done
    ) -> Callable[[TopicPartition, int], None]:
        """Returns what handles the refusal (a partition and its error code) of a commit that is sent now."""

        def refused(partition: TopicPartition, code: int) -> None:
            done(self._commit_error(partition, code))

        return refused

    def _commit_error(self, partition: TopicPartition, code: int) -> ClientError:
        return broker_error(code, f"committing the offset of {partition} in group {self._group_id!r}")


def commit_failed(group_id: str, code: int) -> CommitFailedError:
    """Returns the error of a commit that came too late: the member has lost its partitions."""
    return CommitFailedError(
        code,
        f"offsets of group {group_id!r} were not committed",
        "the group rebalanced and may have given the partitions to another member; poll() more often, or "
        "raise max_poll_interval_ms",
    )
