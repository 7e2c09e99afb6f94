"""Implements Admin's methods for rules of access control (KIP-11, KIP-140, KIP-290)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from bowstring.clients.admin.calls import AdminCalls
from bowstring.clients.admin.members import member
from bowstring.clients.errors import BrokerError, ConfigError, broker_error
from bowstring.protocol.acls import (
    AclOperation,
    AclPermissionType,
    AclResourceType,
    ResourcePatternType,
)
from bowstring.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from bowstring.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from bowstring.protocol.messages.describe_acls import DescribeAclsRequest
from bowstring.protocol.messages.describe_cluster import DescribeClusterRequest

_NOT_REPORTED = -2147483648


def _is_stored(member: IntEnum) -> bool:
    return member.name not in ("UNKNOWN", "ANY", "MATCH")


def _is_filter(member: IntEnum) -> bool:
    return member.name != "UNKNOWN"


@dataclass(frozen=True, slots=True, order=True)
class AclBinding:
    """A rule: whether a principal may do an operation on resources.

    The order of arguments is that of confluent-kafka. Names of members stand for them: "topic", "read".

    Args:
        resource_type: what it protects.
        name: name of the resource, beginning of names with PREFIXED, or `*` for all of the type;
            `kafka-cluster` for the cluster.
        resource_pattern_type: LITERAL or PREFIXED.
        principal: such as `User:alice`; `User:*` is everyone.
        host: address that requests come from; `*` is any.
        operation: what it allows or denies.
        permission_type: ALLOW or DENY.

    Raises:
        ConfigError: a value is not among those of its type, or a text is empty.
    """

    resource_type: AclResourceType
    name: str
    resource_pattern_type: ResourcePatternType
    principal: str
    host: str
    operation: AclOperation
    permission_type: AclPermissionType

    def __post_init__(self) -> None:
        _convert(self, _is_stored)
        for field in ("name", "principal", "host"):
            if not getattr(self, field):
                raise ConfigError(f"{field} of an AclBinding may not be empty")


@dataclass(frozen=True, slots=True)
class AclBindingFilter:
    """Selects rules; what is left out is not looked at.

    Args:
        resource_type: of the rules, or ANY.
        name: name of the resource; None for any.
        resource_pattern_type: of the rules, ANY, or MATCH for all rules that apply to a resource of the name.
        principal: of the rules; None for any.
        host: of the rules; None for any.
        operation: of the rules, or ANY.
        permission_type: of the rules, or ANY.

    Raises:
        ConfigError: a value is not among those of its type.
    """

    resource_type: AclResourceType = AclResourceType.ANY
    name: str | None = None
    resource_pattern_type: ResourcePatternType = ResourcePatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission_type: AclPermissionType = AclPermissionType.ANY

    def __post_init__(self) -> None:
        _convert(self, _is_filter)


_KINDS: dict[str, type[IntEnum]] = {
    "resource_type": AclResourceType,
    "resource_pattern_type": ResourcePatternType,
    "operation": AclOperation,
    "permission_type": AclPermissionType,
}


def _convert(rule: AclBinding | AclBindingFilter, known: Callable[[IntEnum], bool]) -> None:
    for field, kind in _KINDS.items():
        object.__setattr__(rule, field, member(kind, getattr(rule, field), known))


class AdminAcls(AdminCalls):
    """Mixed into Admin."""

    def create_acls(self, acls: Iterable[AclBinding]) -> None:
        """Creates rules. Those that exist already stay.

        Args:
            acls: the rules.

        Raises:
            BrokerError: the first refusal; the others are created. SECURITY_DISABLED: the cluster has no
                authorizer.
        """
        wanted = list(acls)
        creations = [
            AclCreation(
                resource_type=int(each.resource_type),
                resource_name=each.name,
                resource_pattern_type=int(each.resource_pattern_type),
                principal=each.principal,
                host=each.host,
                operation=int(each.operation),
                permission_type=int(each.permission_type),
            )
            for each in wanted
        ]
        response = self._to_controller(CreateAclsRequest, CreateAclsRequest(creations=creations))
        for rule, result in zip(wanted, response.results, strict=True):
            if result.error_code:
                raise broker_error(
                    result.error_code, f"creating an ACL of {rule.principal}", result.error_message
                )

    def cluster_operations(self) -> frozenset[AclOperation]:
        """Returns what the user of this client may do on the cluster (KIP-430): everything where there is no
        access control, nothing if the cluster does not report it.
        """
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        response = self._call(self._any_node, DescribeClusterRequest, request)
        if response.error_code:
            raise broker_error(response.error_code, "describing the cluster", response.error_message)
        bits = response.cluster_authorized_operations
        if bits == _NOT_REPORTED:
            return frozenset()
        return frozenset(each for each in AclOperation if bits >> each & 1)

    def describe_acls(self, acl_filter: AclBindingFilter | None = None) -> list[AclBinding]:
        """Returns rules in order.

        Args:
            acl_filter: which; None for all.

        Raises:
            BrokerError: SECURITY_DISABLED: the cluster has no authorizer; CLUSTER_AUTHORIZATION_FAILED.
        """
        chosen = acl_filter or AclBindingFilter()
        request = DescribeAclsRequest(**_filter_fields(chosen))
        response = self._call(self._any_node, DescribeAclsRequest, request)
        if response.error_code:
            raise broker_error(response.error_code, "describing ACLs", response.error_message)
        return sorted(
            _binding(resource.resource_type, resource.resource_name, resource.pattern_type, each)
            for resource in response.resources
            for each in resource.acls
        )

    def delete_acls(self, acl_filters: Iterable[AclBindingFilter]) -> list[AclBinding]:
        """Deletes the rules that filters select; returns them.

        Args:
            acl_filters: which rules.

        Raises:
            BrokerError: the first refusal; what other filters select is deleted.
        """
        filters = [DeleteAclsFilter(**_filter_fields(each)) for each in acl_filters]
        response = self._to_controller(DeleteAclsRequest, DeleteAclsRequest(filters=filters))
        deleted: set[AclBinding] = set()
        refused: BrokerError | None = None
        for result in response.filter_results:
            for each in (result, *result.matching_acls):
                if each.error_code:
                    error = broker_error(each.error_code, "deleting ACLs", each.error_message)
                    refused = refused or error
            deleted |= {
                _binding(each.resource_type, each.resource_name, each.pattern_type, each)
                for each in result.matching_acls
                if not each.error_code
            }
        if refused is not None:
            raise refused
        return sorted(deleted)


def _filter_fields(chosen: AclBindingFilter) -> dict[str, Any]:
    """Returns a filter as fields of DescribeAclsRequest and DeleteAclsFilter."""
    return {
        "resource_type_filter": int(chosen.resource_type),
        "resource_name_filter": chosen.name,
        "pattern_type_filter": int(chosen.resource_pattern_type),
        "principal_filter": chosen.principal,
        "host_filter": chosen.host,
        "operation": int(chosen.operation),
        "permission_type": int(chosen.permission_type),
    }


def _binding(resource_type: int, name: str, pattern_type: int, rule: Any) -> AclBinding:
    return AclBinding(
        AclResourceType(resource_type),
        name,
        ResourcePatternType(pattern_type),
        rule.principal,
        rule.host,
        AclOperation(rule.operation),
        AclPermissionType(rule.permission_type),
    )
