"""Holds the state of one shard and collects its effects for the shell."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from bowstring.engine.coordinators.effects import (
    AppendMarker,
    AppendRecords,
    Note,
    Record,
    Respond,
    TransactionalProducer,
)
from bowstring.engine.groups.classic.group import ClassicGroup
from bowstring.engine.groups.config import GroupConfig
from bowstring.engine.groups.effects import CancelTimer, Effect, ResolveRegexes, SetTimer, TimerKey
from bowstring.engine.groups.group import Group
from bowstring.engine.groups.modern.cluster import ClusterView, NoCluster
from bowstring.engine.groups.offsets.store import OffsetStore
from bowstring.protocol.errors import Error

# Kafka's coordinators wait as long before they retry what a timer does.
RETRY_MS: Final = 500


class KeptAlive(NamedTuple):
    """What becomes of a heartbeat that does nothing but restart a session.

    Attributes:
        response: The answer.
    """

    session_timeout_ms: int
    response: Any


class RequestContext(NamedTuple):
    """The client that sent a request, and the API version."""

    api_version: int
    client_id: str
    # as Java prints an address: "/127.0.0.1"
    client_host: str
    # whether the client may see a topic; None: all of them
    sees: Callable[[str], bool] | None = None


@dataclass(slots=True)
class PendingAppend:
    """Continuation of an append. `written(base_offset)` applies it to the state before any later request;
    `finished(error, now_ms)` runs when it is committed (NONE) or could not be written.
    """

    written: Callable[[int], None] | None
    finished: Callable[[Error, int], None] | None


@dataclass(slots=True)
class ShardState:
    """All state of one partition of ``__consumer_offsets``, and the effects not yet returned."""

    config: GroupConfig
    # returns the random part of a member id
    new_uuid: Callable[[], str]
    # topics and group configs
    cluster: ClusterView = field(default_factory=lambda: ClusterView(NoCluster()))
    groups: dict[str, Group] = field(default_factory=dict)
    offsets: OffsetStore = field(default_factory=OffsetStore)
    pending_appends: dict[int, PendingAppend] = field(default_factory=dict)
    last_append_id: int = 0
    outbox: list[Effect] = field(default_factory=list)
    # by group type, as Kafka counts them: assignments of classic groups, and epochs of others that heartbeats
    # or regular expressions raised
    rebalances: Counter[str] = field(default_factory=Counter)
    # for how long a session lasts without a heartbeat, by group and member; None: unknown
    session_left_ms: Callable[[str, str], int | None] = lambda group_id, member_id: None

    def classic(self, group_id: str) -> ClassicGroup | None:
        """Returns the group if it exists and is a classic one."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    # ---- effects

    def respond(self, token: object, body: Any) -> None:
        """Answers a request."""
        self.outbox.append(Respond(token, body))

    def append(
        self,
        records: list[Record],
        *,
        written: Callable[[int], None] | None = None,
        finished: Callable[[Error, int], None] | None = None,
        atomic: bool = True,
        producer: TransactionalProducer | None = None,
    ) -> None:
        """Requests a write of `records`; `PendingAppend` describes what follows."""
        self.last_append_id += 1
        self.pending_appends[self.last_append_id] = PendingAppend(written, finished)
        self.outbox.append(AppendRecords(self.last_append_id, records, atomic, producer))

    def append_marker(
        self,
        batch: bytes,
        version: int,
        *,
        written: Callable[[int], None],
        finished: Callable[[Error, int], None],
    ) -> None:
        """Requests a write of a control batch; `PendingAppend` describes what follows."""
        self.last_append_id += 1
        self.pending_appends[self.last_append_id] = PendingAppend(written, finished)
        self.outbox.append(AppendMarker(self.last_append_id, batch, version))

    def set_timer(self, key: TimerKey, delay_ms: int) -> None:
        """Starts or restarts a timer."""
        self.outbox.append(SetTimer(key, delay_ms))

    def retry_timer(self, key: TimerKey) -> None:
        """Lets a timer fire again soon because what it requested could not be written."""
        self.set_timer(key, RETRY_MS)

    def cancel_timer(self, key: TimerKey) -> None:
        """Stops a timer."""
        self.outbox.append(CancelTimer(key))

    def resolve_regexes(
        self, group_id: str, regexes: tuple[str, ...], sees: Callable[[str], bool] | None
    ) -> None:
        """Requests the topics of regular expressions, among those that `sees` is true of."""
        self.outbox.append(ResolveRegexes(group_id, regexes, sees))

    def note(self, text: str) -> None:
        """Adds a line to the broker's log."""
        self.outbox.append(Note(text))

    def take_effects(self) -> list[Effect]:
        """Returns the effects since the last call, in order."""
        effects, self.outbox = self.outbox, []
        return effects
