"""Reads the settings of a streams group: its own within the broker's bounds, or the broker's."""

from functools import partial
from typing import NamedTuple

from bowstring.engine.groups.modern.settings import HIGHEST, setting
from bowstring.engine.groups.state import ShardState

STANDBY_REPLICAS = "num.standby.replicas"


class StreamsSettings(NamedTuple):
    """Values of ``streams.*`` of the group, or of ``group.streams.*`` of the broker."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    initial_rebalance_delay_ms: int
    num_standby_replicas: int

    @property
    def assignment_configs(self) -> dict[str, str]:
        """What the assignor depends on, as the log has it."""
        return {STANDBY_REPLICAS: str(self.num_standby_replicas)}


def settings(state: ShardState, group_id: str) -> StreamsSettings:
    """Returns the settings of a group."""
    value = partial(setting, state, group_id, "streams")
    return StreamsSettings(
        session_timeout_ms=value("session.timeout.ms"),
        heartbeat_interval_ms=value("heartbeat.interval.ms"),
        assignment_interval_ms=value("assignment.interval.ms"),
        initial_rebalance_delay_ms=value("initial.rebalance.delay.ms", bounds=()),
        num_standby_replicas=value(STANDBY_REPLICAS, bounds=(HIGHEST,)),
    )
