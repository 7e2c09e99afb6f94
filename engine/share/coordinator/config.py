"""Reads the broker configs that the share coordinator uses."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class ShareCoordinatorConfig:
    """Values of Kafka's broker configs of the same names."""

    share_coordinator_snapshot_update_records_per_snapshot: int = 500
    share_coordinator_cold_partition_snapshot_interval_ms: int = 300_000
    share_coordinator_state_topic_prune_interval_ms: int = 300_000
    share_coordinator_load_buffer_size: int = 5_242_880
    share_coordinator_write_timeout_ms: int = 5_000

    @classmethod
    def read(cls, value: Callable[[str], Any]) -> "ShareCoordinatorConfig":
        """Reads each setting with `value`, which returns a config by its Kafka name."""
        return cls(**{field.name: int(value(field.name.replace("_", "."))) for field in fields(cls)})
