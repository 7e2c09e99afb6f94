"""Returns the settings of one share group: its own config, or the broker's."""

from bowstring.engine.groups.modern.settings import setting
from bowstring.engine.groups.state import ShardState

_KIND = "share"


def session_timeout_ms(state: ShardState, group_id: str) -> int:
    """Returns after how long without a heartbeat a member is removed."""
    return setting(state, group_id, _KIND, "session.timeout.ms")


def heartbeat_interval_ms(state: ShardState, group_id: str) -> int:
    """Returns how often a member is to send heartbeats."""
    return setting(state, group_id, _KIND, "heartbeat.interval.ms")


def assignment_interval_ms(state: ShardState, group_id: str) -> int:
    """Returns the shortest time between two target assignments."""
    return setting(state, group_id, _KIND, "assignment.interval.ms")
