"""Refuses several replicas while the brokers of a cluster do not replicate partitions."""

from typing import Final

from bowstring.engine.errors import Errors, KafkaError

REPLICAS_MAX: Final = 1


def check_replicas_max(count: int) -> None:
    """Refuses replicas that brokers would not keep: acks=all would promise copies that are not there.

    Raises:
        KafkaError: INVALID_REPLICATION_FACTOR.
    """
    if count > REPLICAS_MAX:
        raise KafkaError(
            Errors.INVALID_REPLICATION_FACTOR,
            "Brokers of this cluster do not replicate partitions yet: the replication factor must be "
            f"{REPLICAS_MAX}, not {count}.",
        )
