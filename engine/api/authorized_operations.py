"""Computes bit fields of the operations that a client may do on a resource (KIP-430)."""

from typing import Final

from bowstring.engine.security.acl_types import AclOperation

NOT_ASKED: Final = -2147483648
"""Value of the field when the client did not request it."""


def _bits(operations: str) -> int:
    """Bit n is operation n of Kafka's ACLs; without an authorizer every operation is allowed."""
    return sum(1 << AclOperation[operation] for operation in operations.split())


TOPIC_OPERATIONS: Final = _bits("READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS")
CLUSTER_OPERATIONS: Final = _bits(
    "CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE"
)
GROUP_OPERATIONS: Final = _bits("READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS")
