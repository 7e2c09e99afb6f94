"""Returns the settings of one group: its own config, or the broker's."""

from bowstring.engine.groups.state import ShardState


def session_timeout_ms(state: ShardState, group_id: str) -> int:
    """Returns after how long without a heartbeat a member is removed."""
    own = state.cluster.group_configs(group_id).get("share.session.timeout.ms")
    return state.config.group_share_session_timeout_ms if own is None else int(own)


def heartbeat_interval_ms(state: ShardState, group_id: str) -> int:
    """Returns how often a member is to send heartbeats."""
    own = state.cluster.group_configs(group_id).get("share.heartbeat.interval.ms")
    return state.config.group_share_heartbeat_interval_ms if own is None else int(own)


def assignment_interval_ms(state: ShardState, group_id: str) -> int:
    """Returns the shortest time between two target assignments."""
    own = state.cluster.group_configs(group_id).get("share.assignment.interval.ms")
    return state.config.group_share_assignment_interval_ms if own is None else int(own)
