"""Rules of access control."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from msgspec import Struct

from bowstring.clients.admin.acls import AclBinding, AclBindingFilter
from bowstring.protocol.acls import AclOperation, AclPermissionType, AclResourceType, ResourcePatternType
from bowstring.rest.answer import JSON, Answer, Answering
from bowstring.rest.call import Call
from bowstring.rest.client_failure import bad_request
from bowstring.rest.operation import Operations
from bowstring.web.openapi import Parameter

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin

operations = Operations()

ACLS_MAX = 10_000
_PATH = "/v3/clusters/{cluster_id}/acls"
_KINDS: dict[str, type[IntEnum]] = {
    "resource_type": AclResourceType,
    "pattern_type": ResourcePatternType,
    "operation": AclOperation,
    "permission": AclPermissionType,
}
_TEXTS = ("resource_name", "principal", "host")


def _parameters(required: bool) -> tuple[Parameter, ...]:
    words = tuple(
        Parameter(
            name,
            f"Only rules with this {name}; in any case.",
            {"type": "string", "enum": [each.name for each in kind if each.name != "UNKNOWN"]},
            required,
        )
        for name, kind in _KINDS.items()
    )
    return words + tuple(Parameter(name, f"Only rules with this {name}.") for name in _TEXTS)


class CreateAclData(Struct):
    """A rule to create."""

    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


class CreateAclsData(Struct):
    """Rules to create."""

    data: list[CreateAclData]


@operations.add("GET", _PATH, "getKafkaAcls", "Lists rules.", answer="AclDataList", query=_parameters(False))
async def list_acls(call: Call) -> Answering:
    """Lists rules."""
    wanted, link = _filter(call, "ANY")

    def listed(admin: Admin) -> list[AclBinding]:
        return sorted(admin.describe_acls(wanted), key=_order)

    found = await call.admin(listed)
    return call.collection("KafkaAclList", link, found, lambda each: _acl(call, each))


@operations.add("POST", _PATH, "createKafkaAcls", "Creates a rule.", body="CreateAclRequestData", status=201)
async def create_acl(call: Call) -> Answering:
    """Creates a rule."""
    binding = _binding(await call.body(CreateAclData))
    await _create(call, [binding])
    return Answer(201, b"", (JSON, (b"location", _acl(call, binding)["metadata"]["self"].encode())))


@operations.add(
    "POST",
    f"{_PATH}:batch",
    "batchCreateKafkaAcls",
    "Creates rules.",
    body="CreateAclRequestDataList",
    status=201,
)
async def create_acls(call: Call) -> Answering:
    """Creates rules."""
    wanted = (await call.body(CreateAclsData)).data
    if len(wanted) > ACLS_MAX:
        raise bad_request(f"a request creates at most {ACLS_MAX} rules")
    await _create(call, [_binding(each) for each in wanted])
    return Answer(201, b"")


async def _create(call: Call, bindings: list[AclBinding]) -> None:
    def create(admin: Admin) -> None:
        admin.create_acls(bindings)

    await call.admin(create)


@operations.add(
    "DELETE",
    _PATH,
    "deleteKafkaAcls",
    "Deletes rules; answers with those that are gone.",
    answer="DeletedAcls",
    query=_parameters(True),
)
async def delete_acls(call: Call) -> Answering:
    """Deletes rules."""
    wanted, _ = _filter(call, "")

    def delete(admin: Admin) -> list[AclBinding]:
        return sorted(admin.delete_acls([wanted]), key=_order)

    return call.json({"data": [_acl(call, each) for each in await call.admin(delete)]})


def _order(each: AclBinding) -> tuple[Any, ...]:
    return (
        *(each.resource_type, each.name, each.resource_pattern_type, each.principal, each.host),
        *(each.operation, each.permission_type),
    )


def _filter(call: Call, otherwise: str) -> tuple[AclBindingFilter, str]:
    """Returns the filter of a query, and an address with it. `otherwise`: for words that are missing."""
    words = {}
    for name, kind in _KINDS.items():
        word = call.query.get(name, otherwise).upper()
        if word not in kind.__members__ or word == "UNKNOWN":
            known = ", ".join(each.name for each in kind if each.name != "UNKNOWN")
            raise bad_request(f"{name} cannot be {word or 'unspecified'} or UNKNOWN; it is one of {known}")
        words[name] = word
    texts = {name: call.query.get(name, "") for name in _TEXTS}
    chosen = AclBindingFilter(
        AclResourceType[words["resource_type"]],
        texts["resource_name"] or None,
        ResourcePatternType[words["pattern_type"]],
        texts["principal"] or None,
        texts["host"] or None,
        AclOperation[words["operation"]],
        AclPermissionType[words["permission"]],
    )
    return chosen, _address(call, words | texts)


def _binding(wanted: CreateAclData) -> AclBinding:
    members = {}
    for name, kind in _KINDS.items():
        word = getattr(wanted, name).upper()
        if word not in kind.__members__ or word in ("UNKNOWN", "ANY", "MATCH"):
            raise bad_request(f"{name} cannot be {word or 'empty'}")
        members[name] = kind[word]
    if not (wanted.resource_name and wanted.principal and wanted.host):
        raise bad_request("resource_name, principal and host must not be empty")
    return AclBinding(
        AclResourceType(members["resource_type"]),
        wanted.resource_name,
        ResourcePatternType(members["pattern_type"]),
        wanted.principal,
        wanted.host,
        AclOperation(members["operation"]),
        AclPermissionType(members["permission"]),
    )


def _address(call: Call, values: dict[str, str]) -> str:
    order = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission")
    query = urlencode([(name, values[name]) for name in order])
    return f"{call.links.to(call.path['cluster_id'], 'acls')}?{query}"


def _acl(call: Call, each: AclBinding) -> dict[str, Any]:
    values = {
        "resource_type": each.resource_type.name,
        "resource_name": each.name,
        "pattern_type": each.resource_pattern_type.name,
        "principal": each.principal,
        "host": each.host,
        "operation": each.operation.name,
        "permission": each.permission_type.name,
    }
    return {
        "kind": "KafkaAcl",
        "metadata": {"self": _address(call, values)},
        "cluster_id": call.path["cluster_id"],
        **values,
    }
