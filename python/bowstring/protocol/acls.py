"""Names the numbers of ACLs in Kafka's protocol (KIP-11, KIP-290): operations, resources, patterns.

Rules that are stored have none of UNKNOWN, ANY and MATCH: those are for filters and answers.
"""

from enum import IntEnum
from typing import Final


class AclOperation(IntEnum):
    """What a rule allows or denies. ALL stands for every operation."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
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


class AclPermissionType(IntEnum):
    """Whether a rule allows or denies. One that denies wins."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class AclResourceType(IntEnum):
    """What a rule protects. The only resource of type CLUSTER is `kafka-cluster`."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class ResourcePatternType(IntEnum):
    """How the name of a rule's resource is read.

    LITERAL: the resource with this name, all of the type with `*`. PREFIXED: resources whose names begin so.
    For filters only: ANY ignores the type of pattern, MATCH finds every rule that applies to the name.
    """

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


CLUSTER_NAME: Final = "kafka-cluster"
WILDCARD: Final = "*"
