"""Reads the broker configs that the group coordinator uses."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Final

# Kafka's limit on how long the JoinGroup of a member without an id stays parked
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Values of Kafka's broker configs of the same names."""

    group_initial_rebalance_delay_ms: int = 3_000
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_minutes: int = 7 * 24 * 60
    offsets_retention_check_interval_ms: int = 600_000
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_max_size: int = 2**31 - 1
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_migration_policy: str = "bidirectional"
    group_share_session_timeout_ms: int = 45_000
    group_share_heartbeat_interval_ms: int = 5_000
    group_share_assignment_interval_ms: int = 1_000
    group_share_max_size: int = 200
    group_share_initialize_retry_interval_ms: int = 30_000
    group_streams_session_timeout_ms: int = 45_000
    group_streams_heartbeat_interval_ms: int = 5_000
    group_streams_assignment_interval_ms: int = 1_000
    group_streams_initial_rebalance_delay_ms: int = 3_000
    group_streams_num_standby_replicas: int = 0
    group_streams_max_size: int = 2**31 - 1
    group_streams_task_offset_interval_ms: int = 60_000
    group_streams_acceptable_recovery_lag: int = 10_000
    group_streams_rack_aware_assignment_tags: tuple[str, ...] = ()

    @classmethod
    def read(cls, value: Callable[[str], Any]) -> "GroupConfig":
        """Reads each setting with `value`, which returns a config by its Kafka name (``group.max.size``)."""
        return cls(
            **{
                field.name: _CONVERSIONS[field.type](value(field.name.replace("_", ".")))
                for field in fields(cls)
            }
        )

    @property
    def offsets_retention_ms(self) -> int:
        """Age at which the offsets of an unused group expire."""
        return self.offsets_retention_minutes * 60_000


_CONVERSIONS: Final[dict[Any, Callable[[Any], Any]]] = {
    int: int,
    str: str.lower,
    tuple[str, ...]: tuple,
}
