"""Reads the broker configs that the transaction coordinator uses."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """Values of Kafka's broker configs of the same names."""

    transaction_max_timeout_ms: int = 900_000
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    transactional_id_expiration_ms: int = 604_800_000
    add_partitions_to_txn_retry_backoff_ms: int = 20
    add_partitions_to_txn_retry_backoff_max_ms: int = 100
    transaction_state_log_load_buffer_size: int = 5_242_880

    @classmethod
    def read(cls, value: Callable[[str], Any]) -> "TransactionConfig":
        """Reads each setting with `value`, which returns a config by its Kafka name."""
        return cls(**{field.name: int(value(field.name.replace("_", "."))) for field in fields(cls)})
