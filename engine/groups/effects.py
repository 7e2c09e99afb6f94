"""Defines the effects that a shard of groups requests from its shell, beside those of all coordinators.

- `Respond`: send only after every record appended before it is below the high watermark.
- `SetTimer`: replaces a timer of the same key; when it fires, call `GroupShard.timer_fired`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from bowstring.engine.coordinators.effects import AppendMarker, AppendRecords, Note, Respond

# ("session", group id, member id), ("join", group id), ("sync", group id), and those of consumer.timers
TimerKey = tuple[str, ...]


@dataclass(slots=True)
class SetTimer:
    """Call back after `delay_ms` milliseconds on a steady clock."""

    key: TimerKey
    delay_ms: int


@dataclass(slots=True)
class CancelTimer:
    """Cancel the timer; an unknown timer is not an error."""

    key: TimerKey


@dataclass(slots=True)
class ResolveRegexes:
    """Look up the topics of a group's regular expressions, then call `GroupShard.regexes_resolved`.

    Attributes:
        sees: Whether the member for which they are looked up may see a topic; None: all of them.
    """

    group_id: str
    regexes: tuple[str, ...]
    sees: Callable[[str], bool] | None = None


@dataclass(slots=True)
class InitializeShareState:
    """Let share coordinators create the state of partitions, which begin where share.auto.offset.reset says;
    then call `GroupShard.share_state_initialized`.

    Attributes:
        partitions: Topic id and index of each.
        from_start: Those that begin at offset 0: the group has read their topics before they were there.
    """

    group_id: str
    state_epoch: int
    partitions: tuple[tuple[bytes, int], ...]
    from_start: frozenset[tuple[bytes, int]] = frozenset()


Effect = (
    AppendRecords
    | AppendMarker
    | Respond
    | SetTimer
    | CancelTimer
    | ResolveRegexes
    | InitializeShareState
    | Note
)
