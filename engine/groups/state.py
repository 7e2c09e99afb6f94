"""The state of one shard, and how its operations hand effects to the shell."""

from collections.abc import Callable
from dataclasses import dataclass, field

from bowstring.engine.errors import Error
from bowstring.engine.groups.classic_group import ClassicGroup
from bowstring.engine.groups.config import GroupConfig
from bowstring.engine.groups.effects import (
    AppendRecords,
    CancelTimer,
    Effect,
    Note,
    Record,
    Respond,
    SetTimer,
    TimerKey,
)
from bowstring.engine.groups.group import Group
from bowstring.engine.groups.kept_records import KeptRecords
from bowstring.engine.groups.offset_store import OffsetStore
from bowstring.engine.protocol.schema import Struct


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Who asks, and in which version of the API."""

    api_version: int
    client_id: str
    # as Java prints an address: "/127.0.0.1"
    client_host: str


@dataclass(slots=True)
class PendingAppend:
    """What follows an append. `written(base_offset)` applies it to the state, before any later request is
    looked at; `finished(error, now_ms)` runs when it is committed (NONE) or could not be written."""

    written: Callable[[int], None] | None
    finished: Callable[[Error, int], None] | None


@dataclass(slots=True)
class ShardState:
    """Everything one partition of ``__consumer_offsets`` says, and the effects not yet handed over."""

    config: GroupConfig
    # draws the random part of a member id
    new_uuid: Callable[[], str]
    groups: dict[str, Group] = field(default_factory=dict)
    offsets: OffsetStore = field(default_factory=OffsetStore)
    # of other group types
    kept: KeptRecords = field(default_factory=KeptRecords)
    pending_appends: dict[int, PendingAppend] = field(default_factory=dict)
    last_append_id: int = 0
    outbox: list[Effect] = field(default_factory=list)

    def classic(self, group_id: str) -> ClassicGroup | None:
        """The group, if it exists and is a classic one."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    # ---- effects

    def respond(self, token: object, body: Struct) -> None:
        """Answers a request."""
        self.outbox.append(Respond(token, body))

    def append(
        self,
        records: list[Record],
        *,
        written: Callable[[int], None] | None = None,
        finished: Callable[[Error, int], None] | None = None,
        atomic: bool = True,
    ) -> None:
        """Asks for `records` to be written; see `PendingAppend` for what follows."""
        self.last_append_id += 1
        self.pending_appends[self.last_append_id] = PendingAppend(written, finished)
        self.outbox.append(AppendRecords(self.last_append_id, self.kept.with_tombstones(records), atomic))

    def set_timer(self, key: TimerKey, delay_ms: int) -> None:
        """Starts or restarts a timer."""
        self.outbox.append(SetTimer(key, delay_ms))

    def cancel_timer(self, key: TimerKey) -> None:
        """Stops a timer."""
        self.outbox.append(CancelTimer(key))

    def note(self, text: str) -> None:
        """Logs a line."""
        self.outbox.append(Note(text))

    def take_effects(self) -> list[Effect]:
        """The effects since the last call, in order."""
        effects, self.outbox = self.outbox, []
        return effects
