"""Names what access control lists are made of, with Kafka's numbers (KIP-11, KIP-290)."""

from enum import IntEnum
from typing import Final


class AclOperation(IntEnum):
    """Operations of ACLs; the numbers are Kafka's."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """What ACLs protect; the numbers are Kafka's. There is one CLUSTER."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name of a rule's resource is read; the numbers are Kafka's."""

    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """What a rule does; the numbers are Kafka's."""

    DENY = 2
    ALLOW = 3


CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of connections that do not authenticate."""

OWN_NODE: Final = "Node:within"
"""The principal of requests of this process to its own controller, which may do everything. Compare it by
identity: no text from outside is this object.
"""
