"""Reads the settings of a streams group: its own within the broker's bounds, or the broker's."""

from functools import partial
from typing import NamedTuple

from bowstring.engine.groups.modern.settings import HIGHEST, LOWEST, setting
from bowstring.engine.groups.state import ShardState

STANDBY_REPLICAS = "num.standby.replicas"
RACK_AWARE_TAGS = "rack.aware.assignment.tags"


class StreamsSettings(NamedTuple):
    """Values of ``streams.*`` of the group, or of ``group.streams.*`` of the broker."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    initial_rebalance_delay_ms: int
    num_standby_replicas: int
    task_offset_interval_ms: int
    acceptable_recovery_lag: int
    rack_aware_tags: tuple[str, ...]

    @property
    def assignment_configs(self) -> dict[str, str]:
        """What the assignor depends on, as the log has it."""
        tags = {RACK_AWARE_TAGS: ",".join(self.rack_aware_tags)} if self.rack_aware_tags else {}
        return {STANDBY_REPLICAS: str(self.num_standby_replicas), **tags}


def settings(state: ShardState, group_id: str) -> StreamsSettings:
    """Returns the settings of a group."""
    value = partial(setting, state, group_id, "streams")
    return StreamsSettings(
        session_timeout_ms=value("session.timeout.ms"),
        heartbeat_interval_ms=value("heartbeat.interval.ms"),
        assignment_interval_ms=value("assignment.interval.ms"),
        initial_rebalance_delay_ms=value("initial.rebalance.delay.ms", bounds=()),
        num_standby_replicas=value(STANDBY_REPLICAS, bounds=(HIGHEST,)),
        task_offset_interval_ms=value("task.offset.interval.ms", bounds=(LOWEST,)),
        acceptable_recovery_lag=value("acceptable.recovery.lag", bounds=()),
        rack_aware_tags=_tags(state, group_id),
    )


def _tags(state: ShardState, group_id: str) -> tuple[str, ...]:
    own = state.cluster.group_configs(group_id).get(f"streams.{RACK_AWARE_TAGS}")
    if own is None:
        return state.config.group_streams_rack_aware_assignment_tags
    return tuple(key.strip() for key in own.split(",")) if own.strip() else ()
