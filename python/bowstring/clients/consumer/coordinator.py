"""Connects a consumer to its group: subscription, positions from committed offsets, commits, rebalances."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping

from bowstring.clients.consumer.fetcher import Fetcher
from bowstring.clients.consumer.partition_state import Epochs, Positions
from bowstring.clients.errors import (
    BrokerUnreachableError,
    ClientError,
    ClientTimeoutError,
    CommitFailedError,
    ConfigError,
    ConnectionLostError,
    NoBrokerError,
)
from bowstring.clients.group.consumer_member import ConsumerGroupMember
from bowstring.clients.group.coordinated import CoordinatedMember, GroupEvents
from bowstring.clients.group.heartbeat import GroupConfig
from bowstring.clients.group.heartbeat_threads import HeartbeatThreads
from bowstring.clients.group.member import GroupMember
from bowstring.clients.group.offset_queries import committed_offsets
from bowstring.clients.group.offset_requests import fetch_request, fetched_offsets, is_about_member
from bowstring.clients.group.protocol_choice import UndecidedMember
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.connection import Pending
from bowstring.clients.net.metadata import ClusterMetadata
from bowstring.clients.records import GroupMetadata, OffsetAndMetadata, SubscriptionPattern, TopicPartition
from bowstring.clients.single_thread import SingleThread
from bowstring.clients.troubles import GRACE_S
from bowstring.protocol.messages.offset_fetch import OffsetFetchRequest

Listener = Callable[[list[TopicPartition]], object]
# Called with the offsets of a commit, and None or the error.
OnCommit = Callable[[dict[TopicPartition, OffsetAndMetadata], ClientError | None], object]
Listeners = tuple[Listener | None, Listener | None, Listener | None]  # on assigned, on revoked, on lost

CLOSE_COMMIT_TIMEOUT_S = 5.0
RETRY_PAUSE_S = 0.05
PATTERN_GRACE_S = 5.0

_log = logging.getLogger("bowstring.consumer")


class ConsumerCoordinator:
    """The membership of one consumer. Called by the thread that holds `owner`.

    Args:
        threads: what sends heartbeats.
        auto_commit_s: interval of automatic commits; None for none.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        owner: SingleThread,
        config: GroupConfig,
        *,
        threads: HeartbeatThreads,
        auto_commit_s: float | None,
    ):
        self._client: NetworkClient = fetcher.client
        self._cluster: ClusterMetadata = fetcher.cluster
        self._positions: Positions = fetcher.positions
        self._fetcher = fetcher
        self._owner = owner
        self._group_id = config.group_id
        self._stored = f"committed offsets of group {config.group_id!r}"
        self._commits = f"automatic commits of group {config.group_id!r}"
        self._config = config
        self._threads = threads
        self._events = GroupEvents(
            lambda: self.topics, lambda: tuple(self._positions), self._revoke, self._assign, self._lose
        )
        self._member = self._first_member()
        self._auto_commit_s = auto_commit_s
        self._commit_at = 0.0
        self._load_at = 0.0
        self._listeners: Listeners = (None, None, None)
        self.watchers: tuple[Listener, Listener] | None = None  # of partitions revoked, before all else; lost
        self._pattern: re.Pattern[str] | None = None
        self._regex: str | None = None
        self._commit_error: ClientError | None = None
        self.topics: tuple[str, ...] = ()
        self.subscribed = False

    # ------------------------------------------------------------ the protocol

    def _first_member(self) -> CoordinatedMember:
        if self._config.protocol == "auto":
            return UndecidedMember(self._client, self._cluster, self._group_id)
        return self._make_member(self._config.protocol)

    def _make_member(self, protocol: str) -> CoordinatedMember:
        if protocol == "classic":
            return GroupMember(self._client, self._cluster, self._config, self._events, self._threads.classic)
        return ConsumerGroupMember(
            self._client,
            self._cluster,
            self._threads.consumer,
            self._events,
            group_id=self._group_id,
            group_instance_id=self._config.group_instance_id,
            regex=lambda: self._regex,
        )

    def _choose_protocol(self) -> bool:
        """Replaces an undecided member, or one whose protocol turns out to be impossible; returns
        whether it did.
        """
        member = self._member
        chosen = member.chosen if isinstance(member, UndecidedMember) else None
        if isinstance(member, ConsumerGroupMember) and member.refused_protocol:
            if self._config.protocol != "auto" or self._regex is not None:
                return False  # the error is raised
            member.leave()
            chosen = "classic"
        if chosen == "classic" and self._regex is not None:
            chosen = "consumer"  # only that can do it; if the group refuses, its error is raised
        if chosen is None:
            return False
        _log.debug("group %r is joined by the %s protocol", self._group_id, chosen)
        self._member = self._make_member(chosen)
        self._member.begin_with(member.coordinator)
        return True

    # ------------------------------------------------------------ subscription

    def subscribe(
        self, topics: Iterable[str], pattern: str | SubscriptionPattern | None, listeners: Listeners
    ) -> None:
        """Subscribes to these topics, or to those whose whole name matches, from the next step on."""
        regex = pattern.pattern if isinstance(pattern, SubscriptionPattern) else None
        if regex is not None and isinstance(self._member, GroupMember):
            raise ConfigError(
                "brokers resolve a SubscriptionPattern only for group_protocol='consumer': set it, or give a "
                "plain string, which the client resolves"
            )
        try:
            compiled = re.compile(pattern) if isinstance(pattern, str) else None
        except re.error as error:
            raise ConfigError(f"the pattern {pattern!r} is not a regular expression: {error}") from error
        if not self.subscribed:
            self._positions.replace([])
        self.subscribed = True
        self._listeners = listeners
        self._pattern = compiled
        self._regex = regex
        self._cluster.want_all = compiled is not None
        if compiled is not None:
            self._cluster.invalidate()
        self.topics = tuple(sorted(set(topics)))
        for name in self.topics:
            self._cluster.want(name)

    def metadata(self) -> GroupMetadata:
        """Returns this member in its present generation."""
        member_id, generation = self._member.identity()
        return GroupMetadata(self._group_id, generation, member_id, self._config.group_instance_id)

    @property
    def group_id(self) -> str:
        """The group's id."""
        return self._group_id

    @property
    def commits_automatically(self) -> bool:
        """Whether offsets are committed without being requested."""
        return self._auto_commit_s is not None

    def unsubscribe(self) -> None:
        """Commits and leaves the group; the consumer may subscribe again."""
        if self.subscribed:
            self._commit_last(self._positions.consumed())
            self._member.leave(for_good=False)
        self.subscribed = False
        self.topics = ()
        self._pattern = None
        self._regex = None
        self._cluster.want_all = False
        self._positions.replace([])

    # ------------------------------------------------------------ the clockwork

    def step(self) -> float:
        """Runs one step; returns seconds until the next is due."""
        self._member.polled()
        if self._pattern is not None:
            pattern = self._pattern
            self.topics = tuple(sorted(name for name in self._cluster.topics if pattern.fullmatch(name)))
            self._note_pattern(pattern)
        if self._cluster.topic_errors:
            for name in self.topics:
                self._fetcher.refuse_topic(name)
        wait_s = self._member.tick(join=self.subscribed)
        if self._choose_protocol():
            wait_s = 0.0
        return min(wait_s, self._load_positions(), self._auto_commit())

    def _note_pattern(self, pattern: re.Pattern[str]) -> None:
        what = f"pattern {pattern.pattern!r}"
        if self.topics:
            self._client.troubles.over(what)
        elif self._cluster.version:
            error = ClientError(f"no topic matches the {what} of the subscription")
            self._client.troubles.note(what, error, grace_s=PATTERN_GRACE_S)

    def take_error(self) -> ClientError | None:
        """Returns, once, the error that the consumer must raise."""
        error = self._member.error or self._commit_error
        self._member.error = self._commit_error = None
        return error

    def _load_positions(self) -> float:
        """Requests the committed offsets of partitions without a position; returns seconds until the next
        check.
        """
        unknown = [p for p in self._fetcher.without_position() if not self._positions[p].asked]
        if not unknown or self._member.coordinator is None:
            return 3600.0
        left_s = self._load_at - time.monotonic()
        if left_s > 0:
            return left_s
        asked = self._positions.ask(unknown)
        reader = self._member.reader()
        self._client.send(
            self._member.coordinator,
            OffsetFetchRequest,
            fetch_request(self._group_id, unknown, require_stable=True, member=reader),
            callback=lambda pending: self._loaded(pending, asked, reader),
        )
        return 3600.0

    def _loaded(self, pending: Pending, asked: Epochs, reader: tuple[str, int] | None) -> None:
        still_asked = self._positions.answered(asked)
        try:
            committed = fetched_offsets(self._group_id, pending.result())
        except ClientError as error:
            if error.retriable:
                if pending.error is None:
                    self._client.troubles.note(self._stored, error, grace_s=GRACE_S)
                if not is_about_member(error):
                    self._member.coordinator_lost(pending.node)
                elif self._member.reader() == reader:  # a heartbeat will bring the change
                    self._load_at = time.monotonic() + RETRY_PAUSE_S
            elif still_asked:
                self._fetcher.error = error
            return
        self._client.troubles.over(self._stored)
        for partition, state in still_asked.items():
            if partition in committed:
                state.seek(committed[partition].offset)
            elif state.unless_committed is not None:
                state.seek(state.unless_committed)
            else:
                self._fetcher.reset_by_policy(partition)

    # ------------------------------------------------------------ committing

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_s: float) -> None:
        """Commits offsets and waits for the answer.

        Raises:
            CommitFailedError: the group has reassigned the partitions meanwhile.
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
            self._cluster.check()
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._cluster.unreachable(timeout_s)
            wait_s = min(self._member.tick(join=False), self._cluster.maintain())
            self._client.poll(min(wait_s, left))

    def commit_asynchronously(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], on_commit: OnCommit | None = None
    ) -> None:
        """Sends a commit. `on_commit` gets the outcome; without it, a later poll raises errors that retries
        cannot solve.
        """
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
        """Returns the group's committed offsets; partitions without one are left out."""
        return committed_offsets(self._cluster, self._group_id, partitions, timeout_s, self._member.reader)

    def _note_commit_error(self, error: ClientError | None) -> None:
        if error is not None and error.retriable:
            _log.warning("an asynchronous commit was not stored: %s", error)
        elif error is not None:
            self._commit_error = error

    def _auto_commit(self) -> float:
        """Commits when due; returns seconds until the next commit."""
        if self._auto_commit_s is None or not len(self._positions):
            return 3600.0
        now = time.monotonic()
        if not self._commit_at:
            self._commit_at = now + self._auto_commit_s
        if now >= self._commit_at and self._member.coordinator is not None:
            self._commit_at = now + self._auto_commit_s
            offsets = self._positions.finished()
            if offsets:
                self._member.commit(offsets, self._auto_committed)
        return max(0.0, self._commit_at - now)

    def _auto_committed(self, error: ClientError | None) -> None:
        """Handles the result of an automatic commit. The next one repeats it; lasting errors are logged."""
        if error is None:
            self._client.troubles.over(self._commits)
        elif not isinstance(error, CommitFailedError | BrokerUnreachableError | ConnectionLostError):
            self._client.troubles.note(self._commits, error, grace_s=GRACE_S)

    def _commit_last(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commits automatically before partitions are revoked."""
        if self._auto_commit_s is None or not offsets or (self.subscribed and self._member.generation < 0):
            return
        try:
            self.commit(offsets, CLOSE_COMMIT_TIMEOUT_S)
        except (NoBrokerError, ClientTimeoutError, CommitFailedError) as error:
            # The partitions move anyway; their new owner continues at the last commit.
            _log.warning(
                "the last automatic commit failed; the next owner reads some records again: %s", error
            )
        except ClientError as error:
            self._note_commit_error(error)

    # ------------------------------------------------------------ the group's events

    def _revoke(self, partitions: list[TopicPartition]) -> None:
        self._tell(self.watchers[0] if self.watchers else None, partitions)
        self._commit_last(self._positions.finished())
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
            self._tell(self.watchers[1] if self.watchers else None, lost)
            self._tell(self._listeners[2] or self._listeners[1], lost)

    def _tell(self, listener: Listener | None, partitions: list[TopicPartition]) -> None:
        if listener is not None:
            with self._owner.lent():
                listener(partitions)

    def close(self, *, autocommit: bool = True) -> None:
        """Commits if automatic commits are on, and leaves the group.

        Raises:
            ClientError: the last commit failed.
        """
        if autocommit:
            self._commit_last(self._positions.consumed())
        if self.subscribed and len(self._positions):
            self._tell(self._listeners[1], list(self._positions))
        self._member.leave()
        error = self.take_error()
        if error is not None:
            raise error
