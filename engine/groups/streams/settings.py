"""Reads what a streams group is configured to: its own configs, or else the broker's."""

from collections.abc import Mapping
from typing import NamedTuple

from bowstring.engine.groups.config import GroupConfig

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


def settings(config: GroupConfig, overrides: Mapping[str, str]) -> StreamsSettings:
    """Returns the settings of a group.

    Args:
        overrides: The configs set on the group itself.
    """

    def value(name: str) -> int:
        own = overrides.get("streams." + name.replace("_", "."))
        return int(getattr(config, "group_streams_" + name) if own is None else own)

    return StreamsSettings(*map(value, StreamsSettings._fields))
