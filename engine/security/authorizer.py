"""Answers whether a principal may do an operation on a resource."""

from collections.abc import Iterable
from typing import Final, Protocol

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.security.acl_types import AclOperation, ResourceType
from bowstring.protocol.errors import Error, Errors, KafkaError

_ERRORS: Final = {
    ResourceType.TOPIC: Errors.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: Errors.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: Errors.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: Errors.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.USER: Errors.CLUSTER_AUTHORIZATION_FAILED,
}


def _bits(operations: str) -> int:
    return sum(1 << AclOperation[operation] for operation in operations.split())


_OPERATIONS: Final = {
    ResourceType.TOPIC: _bits("READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS"),
    ResourceType.GROUP: _bits("READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS"),
    ResourceType.CLUSTER: _bits(
        "CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE"
    ),
    ResourceType.TRANSACTIONAL_ID: _bits("WRITE DESCRIBE TWO_PHASE_COMMIT"),
    ResourceType.DELEGATION_TOKEN: _bits("DESCRIBE"),
    ResourceType.USER: _bits("CREATE_TOKENS DESCRIBE_TOKENS"),
}


class Sender(Protocol):
    """What the authorizer reads of a request.

    Attributes:
        principal: Who sent it, such as ``User:alice``.
        peer: The address that it came from, ``host:port``.
    """

    principal: str
    peer: str


class Authorizer:
    """The access control of a node. Without ``authorizer.class.name`` it allows everything.

    Attributes:
        is_on: Whether an authorizer is configured.
    """

    def __init__(self, configs: BrokerConfigs) -> None:
        self.is_on = False

    def allows(
        self,
        request: Sender,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        *,
        counts: bool = True,
    ) -> bool:
        """Returns whether the sender of a request may do an operation on a resource (`allows_some`: on any).

        Args:
            counts: Whether a denial is counted, logged and audited. False for a question whose denial refuses
                nothing, such as what may be seen in a list (Kafka's ``logIfDenied``).
        """
        return True

    def allowed(
        self, request: Sender, operation: AclOperation, resource_type: ResourceType, names: Iterable[str]
    ) -> set[str]:
        """Returns those of the names on which the sender may do an operation. Denials count."""
        if not self.is_on:
            return set(names)
        return {name for name in set(names) if self.allows(request, operation, resource_type, name)}

    def allows_some(self, request: Sender, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Returns whether the sender may do an operation on any resource of a type, whichever it is (Kafka's
        ``authorizeByResourceType``, KIP-679).
        """
        return True

    def operations(self, request: Sender, resource_type: ResourceType, name: str) -> int:
        """Returns the operations that the sender may do on a resource; bit n is operation n (KIP-430).
        Denials do not count.
        """
        possible = _OPERATIONS[resource_type]
        if not self.is_on:
            return possible
        return sum(
            1 << operation
            for operation in AclOperation
            if possible & 1 << operation
            and self.allows(request, operation, resource_type, name, counts=False)
        )

    def require(
        self,
        request: Sender,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        error: Error | None = None,
    ) -> None:
        """Checks a permission without which the whole request is refused.

        Args:
            error: In place of the error of the resource's type.

        Raises:
            KafkaError: The sender does not have the permission.
        """
        if self.is_on and not self.allows(request, operation, resource_type, name):
            raise KafkaError(error or _ERRORS[resource_type])
