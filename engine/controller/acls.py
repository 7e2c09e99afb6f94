"""Decides about changes of access control entries (KIP-801)."""

from collections.abc import Callable, Sequence
from ipaddress import ip_network
from typing import Final

from bowstring.engine.controller.decision import RECORDS_MAX, Decision, check_not_too_many
from bowstring.engine.metadata.acl_filters import (
    ANY,
    LITERAL,
    OPERATIONS,
    PERMISSIONS,
    PREFIXED,
    RESOURCE_TYPES,
    WILDCARD,
    AclFilter,
)
from bowstring.engine.metadata.acls_image import Acl, AclsImage, acl_record
from bowstring.engine.metadata.features import ADDRESS_BLOCKS_SINCE
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.records.cluster_metadata.security import RemoveAccessControlEntryRecord
from bowstring.protocol.schema import MetadataRecord
from bowstring.protocol.whole_numbers import whole_number

_CLUSTER: Final = 4
_CLUSTER_NAME: Final = "kafka-cluster"


def create_acls(
    acls: AclsImage,
    wanted: Sequence[Acl],
    *,
    metadata_version: int,
    new_uuid: Callable[[], bytes],
) -> Decision[list[KafkaError | None]]:
    """Adds rules, those that are valid and not there yet; the answer has the error of each.

    Raises:
        KafkaError: POLICY_VIOLATION: the request changes too much at once.
    """
    records: list[MetadataRecord] = []
    errors: list[KafkaError | None] = []
    new: set[Acl] = set()
    for acl in wanted:
        try:
            _check(acl, metadata_version)
        except KafkaError as error:
            errors.append(error)
            continue
        errors.append(None)
        if acl not in acls.existing and acl not in new:
            new.add(acl)
            records.append(acl_record(_unused(acls, new_uuid), acl))
    check_not_too_many(len(records))
    return Decision(records, errors)


def _unused(acls: AclsImage, new_uuid: Callable[[], bytes]) -> bytes:
    while (id := new_uuid()) in acls.entries:
        pass
    return id


def _check(acl: Acl, metadata_version: int) -> None:
    """Refuses a rule that Kafka refuses."""
    if acl.resource_type == _CLUSTER and acl.resource_name != _CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {_CLUSTER_NAME}")
    if not acl.resource_name:
        raise _invalid("Invalid empty resource name")
    if acl.resource_type not in RESOURCE_TYPES or acl.resource_type == ANY:
        raise _invalid(f"Invalid resourceType {_shown(acl.resource_type)}")
    if acl.pattern_type not in (LITERAL, PREFIXED):
        raise _invalid(f"Invalid patternType {_shown(acl.pattern_type)}")
    if acl.operation not in OPERATIONS or acl.operation == ANY:
        raise _invalid(f"Invalid operation {_shown(acl.operation)}")
    if acl.permission not in PERMISSIONS or acl.permission == ANY:
        raise _invalid(f"Invalid permissionType {_shown(acl.permission)}")
    if ":" not in acl.principal:
        raise _invalid(
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal "
            "type from the principal name)"
        )
    _check_host(acl.host, metadata_version)


def _check_host(host: str, metadata_version: int) -> None:
    if not host:
        raise _invalid("Host pattern cannot be null or empty")
    if host == WILDCARD or "/" not in host:
        return
    if metadata_version < ADDRESS_BLOCKS_SINCE:
        raise KafkaError(
            Errors.UNSUPPORTED_VERSION,
            "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher.",
        )
    address, _, bits = host.partition("/")
    try:
        if whole_number(bits) is None:
            raise ValueError(f"{bits!r} is not a number of bits")
        ip_network(f"{address}/{bits}", strict=False)
    except ValueError as error:
        raise _invalid(f"Invalid CIDR notation '{host}': {error}") from error


def _shown(number: int) -> str:
    return {ANY: "ANY", 2: "MATCH"}.get(number, "UNKNOWN")


def _invalid(detail: str) -> KafkaError:
    return KafkaError(Errors.INVALID_REQUEST, detail)


def delete_acls(acls: AclsImage, filters: Sequence[AclFilter]) -> Decision[list[KafkaError | list[Acl]]]:
    """Removes the rules that match; the answer has those of each filter, or its error.

    Raises:
        KafkaError: INVALID_REQUEST: the request removes too many at once.
    """
    removed: dict[bytes, None] = {}
    results: list[KafkaError | list[Acl]] = []
    for each in filters:
        if each.unknown is not None:
            results.append(_invalid(f"Unknown {each.unknown}."))
            continue
        found = [(id, acl) for id, acl in acls.entries.items() if each.matches(acl)]
        removed |= dict.fromkeys(id for id, _ in found)
        if len(removed) > RECORDS_MAX:
            raise _invalid(f"Cannot remove more than {RECORDS_MAX} acls in a single delete operation.")
        results.append([acl for _, acl in found])
    return Decision([RemoveAccessControlEntryRecord(id=id) for id in removed], results)
