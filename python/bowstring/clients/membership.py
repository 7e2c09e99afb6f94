"""A consumer's part in its group: subscription, positions from stored offsets, commits, rebalances."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping

from bowstring.clients.cluster import Cluster
from bowstring.clients.connection import Pending
from bowstring.clients.errors import (
    ClientError,
    ClientTimeoutError,
    CommitFailedError,
    ConfigError,
    NoBrokerError,
)
from bowstring.clients.fetcher import Fetcher
from bowstring.clients.group import GroupEvents, GroupMember
from bowstring.clients.heartbeat import GroupConfig, Heartbeat
from bowstring.clients.network import NetworkClient
from bowstring.clients.offset_queries import committed_offsets
from bowstring.clients.offsets import fetch_request, fetched_offsets
from bowstring.clients.ownership import OneThread
from bowstring.clients.positions import Positions
from bowstring.clients.records import OffsetAndMetadata, TopicPartition
from bowstring.engine.protocol.messages.offset_fetch import OffsetFetchRequest

Listener = Callable[[list[TopicPartition]], object]
# Called with what was to be committed, and None or why it was not.
OnCommit = Callable[[dict[TopicPartition, OffsetAndMetadata], ClientError | None], object]
Listeners = tuple[Listener | None, Listener | None, Listener | None]  # on assigned, on revoked, on lost

CLOSE_COMMIT_TIMEOUT_S = 5.0
RETRY_PAUSE_S = 0.05

_log = logging.getLogger("bowstring.consumer")


class Membership:
    """Belongs to one consumer, and is called by the thread that holds `owner`.

    Args:
        auto_commit_s: time between commits nobody asked for; None for none.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        owner: OneThread,
        config: GroupConfig,
        *,
        heartbeat: Heartbeat,
        auto_commit_s: float | None,
    ):
        self._client: NetworkClient = fetcher.client
        self._cluster: Cluster = fetcher.cluster
        self._positions: Positions = fetcher.positions
        self._fetcher = fetcher
        self._owner = owner
        self._group_id = config.group_id
        self._heartbeat = heartbeat
        events = GroupEvents(
            lambda: self.topics, lambda: tuple(self._positions), self._revoke, self._assign, self._lose
        )
        self._member = GroupMember(self._client, self._cluster, config, events, heartbeat)
        self._auto_commit_s = auto_commit_s
        self._commit_at = 0.0
        self._listeners: Listeners = (None, None, None)
        self._pattern: re.Pattern[str] | None = None
        self._loading: set[TopicPartition] = set()
        self._commit_error: ClientError | None = None
        self.topics: tuple[str, ...] = ()
        self.subscribed = False

    # ------------------------------------------------------------ subscription

    def subscribe(self, topics: Iterable[str], pattern: str | None, listeners: Listeners) -> None:
        """Reads these topics, or those whose whole name matches, from the next step on."""
        try:
            compiled = re.compile(pattern) if pattern is not None else None
        except re.error as error:
            raise ConfigError(f"the pattern {pattern!r} is no regular expression: {error}") from error
        if not self.subscribed:
            self._positions.replace([])
        self.subscribed = True
        self._listeners = listeners
        self._pattern = compiled
        self._cluster.want_all = pattern is not None
        if pattern is not None:
            self._cluster.invalidate()
        self.topics = tuple(sorted(set(topics)))
        for name in self.topics:
            self._cluster.want(name)

    def unsubscribe(self) -> None:
        """Commits and leaves the group; the consumer may subscribe again."""
        if self.subscribed:
            self._commit_before_revoke()
            self._member.leave(for_good=False)
        self.subscribed = False
        self.topics = ()
        self._pattern = None
        self._cluster.want_all = False
        self._positions.replace([])

    # ------------------------------------------------------------ the clockwork

    def step(self) -> float:
        """One turn; seconds until the next is due."""
        self._heartbeat.last_poll = time.monotonic()
        if self._pattern is not None:
            pattern = self._pattern
            self.topics = tuple(sorted(name for name in self._cluster.topics if pattern.fullmatch(name)))
        wait_s = self._member.tick(join=self.subscribed)
        self._load_positions()
        return min(wait_s, self._auto_commit())

    def take_error(self) -> ClientError | None:
        """What the consumer has to raise, once."""
        error = self._member.error or self._commit_error
        self._member.error = self._commit_error = None
        return error

    def _load_positions(self) -> None:
        """Asks where to begin in partitions that have no position yet."""
        unknown = [p for p in self._fetcher.without_position() if p not in self._loading]
        if not unknown or self._member.coordinator is None:
            return
        self._loading.update(unknown)
        self._client.send(
            self._member.coordinator,
            OffsetFetchRequest,
            fetch_request(self._group_id, unknown, require_stable=True),
            callback=lambda pending: self._loaded(pending, unknown),
        )

    def _loaded(self, pending: Pending, asked: list[TopicPartition]) -> None:
        self._loading.difference_update(asked)
        try:
            committed = fetched_offsets(self._group_id, pending.result())
        except ClientError as error:
            if error.retriable:
                self._member.coordinator_lost()
            else:
                self._fetcher.error = error
            return
        for partition in asked:
            state = self._positions.get(partition)
            if state is None or state.position is not None or state.reset_timestamp is not None:
                continue
            if partition in committed:
                state.seek(committed[partition].offset)
            else:
                self._fetcher.reset_by_policy(partition)

    # ------------------------------------------------------------ committing

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_s: float) -> None:
        """Stores offsets and waits for it.

        Raises:
            CommitFailedError: the group gave the partitions to another member meanwhile.
            NoBrokerError, ClientTimeoutError, BrokerError: not stored within `timeout_s`.
        """
        deadline = time.monotonic() + timeout_s
        error: ClientError | None = None
        while offsets:
            self._await_coordinator(deadline, timeout_s)
            outcome: list[ClientError | None] = []
            self._member.commit(offsets, outcome.append)
            while not outcome:
                if time.monotonic() >= deadline:
                    raise ClientTimeoutError(
                        f"offsets were not committed within {timeout_s:g} s: {error or 'no answer yet'}"
                    )
                self._client.poll(max(0.0, deadline - time.monotonic()))
            error = outcome[0]
            if error is None:
                return
            if not error.retriable or time.monotonic() >= deadline:
                raise error
            retry_at = min(deadline, time.monotonic() + RETRY_PAUSE_S)
            while (left := retry_at - time.monotonic()) > 0:
                self._client.poll(left)

    def _await_coordinator(self, deadline: float, timeout_s: float) -> None:
        while self._member.coordinator is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._cluster.unreachable(timeout_s)
            wait_s = min(self._member.tick(join=False), self._cluster.maintain())
            self._client.poll(min(wait_s, left))

    def commit_asynchronously(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], on_commit: OnCommit | None = None
    ) -> None:
        """Sends a commit; `on_commit` gets the outcome, or a later poll raises what will not get better."""
        if on_commit is None:
            self._member.commit(offsets, self._note_commit_error)
            return
        given, told = dict(offsets), on_commit

        def done(error: ClientError | None) -> None:
            with self._owner.lent():
                told(given, error)

        self._member.commit(offsets, done)

    def committed(
        self, partitions: list[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group has stored; partitions without an offset are left out."""
        return committed_offsets(self._cluster, self._group_id, partitions, timeout_s)

    def _note_commit_error(self, error: ClientError | None) -> None:
        if error is not None and error.retriable:
            _log.warning("an asynchronous commit was not stored: %s", error)
        elif error is not None:
            self._commit_error = error

    def _auto_commit(self) -> float:
        """Commits when it is time; seconds until it is."""
        if self._auto_commit_s is None or not len(self._positions):
            return 3600.0
        now = time.monotonic()
        if not self._commit_at:
            self._commit_at = now + self._auto_commit_s
        if now >= self._commit_at and self._member.coordinator is not None:
            self._commit_at = now + self._auto_commit_s
            offsets = self._positions.consumed()
            if offsets:
                self._member.commit(offsets, lambda _: None)  # the next one repeats what this one missed
        return max(0.0, self._commit_at - now)

    def _commit_before_revoke(self) -> None:
        offsets = self._positions.consumed()
        if self._auto_commit_s is None or not offsets or (self.subscribed and self._member.generation < 0):
            return
        try:
            self.commit(offsets, CLOSE_COMMIT_TIMEOUT_S)
        except (NoBrokerError, ClientTimeoutError, CommitFailedError) as error:
            # The partitions move all the same; their new owner reads on from the last commit.
            _log.warning("automatic commit: %s", error)
        except ClientError as error:
            self._note_commit_error(error)

    # ------------------------------------------------------------ the group's events

    def _revoke(self, partitions: list[TopicPartition]) -> None:
        self._commit_before_revoke()
        self._tell(self._listeners[1], partitions)
        gone = set(partitions)
        self._positions.replace([p for p in self._positions if p not in gone])

    def _assign(self, partitions: list[TopicPartition]) -> None:
        gained = [p for p in partitions if p not in self._positions]
        self._positions.replace(partitions)
        self._tell(self._listeners[0], gained)

    def _lose(self) -> None:
        lost = sorted(self._positions)
        self._positions.replace([])
        if lost:
            self._tell(self._listeners[2] or self._listeners[1], lost)

    def _tell(self, listener: Listener | None, partitions: list[TopicPartition]) -> None:
        if listener is not None:
            with self._owner.lent():
                listener(partitions)

    def close(self) -> None:
        """Commits if that is automatic, and leaves the group.

        Raises:
            ClientError: the last commit failed.
        """
        self._commit_before_revoke()
        if self.subscribed and len(self._positions):
            self._tell(self._listeners[1], list(self._positions))
        self._member.leave()
        error = self.take_error()
        if error is not None:
            raise error
