"""Types for what a request needs: an operation on a resource, as in Kafka's ACLs (KIP-11).

A row of the table of APIs (`table.py`) lists the requirements of its API. Those of whole requests are
checked before the handler (request_permissions.py), the others by it; the reference page shows all.
"""

from enum import Enum
from typing import Final, NamedTuple

from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Error, Errors

ANY_NAME: Final = "*"
"""In place of a path: one name of the type is enough, whichever it is."""

_ERRORS: Final = {
    AclResourceType.TOPIC: Errors.TOPIC_AUTHORIZATION_FAILED,
    AclResourceType.GROUP: Errors.GROUP_AUTHORIZATION_FAILED,
    AclResourceType.CLUSTER: Errors.CLUSTER_AUTHORIZATION_FAILED,
    AclResourceType.TRANSACTIONAL_ID: Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    AclResourceType.DELEGATION_TOKEN: Errors.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    AclResourceType.USER: Errors.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}


class Denied(Enum):
    """What happens without the permission.

    REQUEST: the whole request is refused with the error. ELEMENT: each element of the request gets the error
    that has such a name, or whose answer has it; the others are served. OMITTED: the element is left out of
    the answer, or not done; no error.
    """

    REQUEST = "for the whole request"
    ELEMENT = "for this element"
    OMITTED = "left out"


class When(Enum):
    """The requests, or their elements, that a requirement applies to."""

    ALWAYS = ""
    TRANSACTIONAL_BATCHES = "the batches are transactional"
    WITH_TRANSACTIONAL_ID = "with a transactional id"
    WITHOUT_TRANSACTIONAL_ID = "without a transactional id"
    TWO_PHASE_COMMIT = "two-phase commit is enabled"
    BY_CONSUMER = "from a consumer"
    BY_FOLLOWER = "from a follower"
    BY_CLIENT = "up to version 3"
    BY_BROKER = "from version 4 on"
    MISSING_TOPICS = "topics that do not exist are created"
    ASKS_FOR_ALL = "asks for all topics"
    ASKS_OPERATIONS = "asks for authorized operations"
    GROUP_KEYS = "of a group"
    TRANSACTION_KEYS = "of a transactional id"
    SHARE_KEYS = "of a share partition"
    TOPIC_CONFIGS = "of topics"
    GROUP_CONFIGS = "of groups"
    CLUSTER_CONFIGS = "of brokers, their loggers and client metrics"
    NODE_CONFIGS = "of brokers and client metrics"
    LOGGERS = "of loggers"


class Permission(NamedTuple):
    """The right to do an operation on a resource.

    Attributes:
        names: Paths to the resource's names in the request, such as ``topics.name``: the elements of lists
            count one by one, and ids of topics stand for their names. Empty for the cluster.
        answer_names: The same in the answer, for what only the answer names.
    """

    operation: AclOperation
    resource: AclResourceType
    names: tuple[str, ...] = ()
    answer_names: tuple[str, ...] = ()


class Requirement(NamedTuple):
    """What a request needs.

    Attributes:
        alternatives: One of them is enough. They are tried in order.
        error: The error that is answered, unless `denied` is OMITTED.
        by_handler: The handler checks it although it is for the whole request: as in Kafka, after other
            checks.
    """

    alternatives: tuple[Permission, ...]
    denied: Denied
    error: Error
    when: When
    by_handler: bool = False


def on_cluster(operation: AclOperation) -> Permission:
    """Returns the permission for the cluster."""
    return Permission(operation, AclResourceType.CLUSTER)


def on_topics(operation: AclOperation, *names: str, answer: tuple[str, ...] = ()) -> Permission:
    """Returns the permission for the topics at paths of the request, and of the answer."""
    return Permission(operation, AclResourceType.TOPIC, names, answer)


def on_groups(operation: AclOperation, *names: str, answer: tuple[str, ...] = ()) -> Permission:
    """Returns the permission for the groups at paths of the request, and of the answer."""
    return Permission(operation, AclResourceType.GROUP, names, answer)


def on_transactional_ids(operation: AclOperation, *names: str, answer: tuple[str, ...] = ()) -> Permission:
    """Returns the permission for the transactional ids at paths of the request, and of the answer."""
    return Permission(operation, AclResourceType.TRANSACTIONAL_ID, names, answer)


def on_delegation_tokens(operation: AclOperation, *answer: str) -> Permission:
    """Returns the permission for the delegation tokens at paths of the answer."""
    return Permission(operation, AclResourceType.DELEGATION_TOKEN, (), answer)


def on_users(operation: AclOperation, *names: str, answer: tuple[str, ...] = ()) -> Permission:
    """Returns the permission for the users at paths of the request, and of the answer."""
    return Permission(operation, AclResourceType.USER, names, answer)


def for_request(
    *alternatives: Permission, when: When = When.ALWAYS, error: Error | None = None, by_handler: bool = False
) -> Requirement:
    """Returns the requirement without which the whole request is refused."""
    return _requirement(alternatives, Denied.REQUEST, when, error)._replace(by_handler=by_handler)


def for_each(*alternatives: Permission, when: When = When.ALWAYS, error: Error | None = None) -> Requirement:
    """Returns the requirement for each element, without which the element is refused."""
    return _requirement(alternatives, Denied.ELEMENT, when, error)


def to_see(*alternatives: Permission, when: When = When.ALWAYS) -> Requirement:
    """Returns the requirement without which something is left out."""
    return _requirement(alternatives, Denied.OMITTED, when, None)


def _requirement(
    alternatives: tuple[Permission, ...], denied: Denied, when: When, error: Error | None
) -> Requirement:
    """The error is that of the last alternative's resource, as in Kafka, unless another one is given."""
    return Requirement(alternatives, denied, error or _ERRORS[alternatives[-1].resource], when)
