"""Renders the page of Kafka's APIs from `bowstring.protocol` (declarations) and `engine/api` (the table)."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from bowstring.engine.api.permissions import ANY_NAME, Denied, Permission, Requirement
from bowstring.engine.api.table import BY_BROKER, BY_CONTROLLER, NATIVE, TABLE
from bowstring.protocol.acls import AclResourceType
from bowstring.protocol.schema import LATEST
from bowstring.protocol.versions import API_VERSIONS, Api
from docs.generate.markdown import plain, table

HEAD = """\
# APIs

Every API of Kafka's protocol that is declared, and which of them are offered in ApiVersions responses. An API
that is not offered is declared for a later release, for tests, or for records that another broker wrote.

- **native**: reactor threads answer it in native code. **control**: the control thread answers it
  (`engine/api`). **forwarded**: brokers send it on to the active controller, which answers it.
  **controller**: only controllers offer it.
- *Flexible from* is the first version with compact fields and tags (KIP-482).
- Produce is listed from version 0 on, which librdkafka looks for; it is served from the version below on.
"""

PERMISSIONS = """\

## Permissions

What an authorizer checks for the APIs that are offered, as Kafka's does, and what happens to a client without
the permission. Without `authorizer.class.name` every client may do everything. *or*: one of the permissions
is enough. ApiVersions needs none. Forwarded requests are checked by the active controller.
"""


def render() -> str:
    """The page as Markdown."""
    apis = [API_VERSIONS[key] for key in sorted(API_VERSIONS)]
    columns = ("key", "API", "versions", "flexible from", "offered", "what it does")
    needed = ("API", "listener", "when", "permission", "without it")
    rows = [row for api in apis if api.key in TABLE for row in _permissions(api)]
    return "\n".join([HEAD, *table(columns, (_row(api) for api in apis)), PERMISSIONS, *table(needed, rows)])


def heading(api: Api) -> str:
    """The heading of an API's messages on the page of messages."""
    return f"{api.name} ({api.key})"


def versions(api: Api) -> str:
    """The versions that may be offered, as `0-13`; Kafka keeps the newest back as long as it is unstable."""
    text = f"{api.lowest}-{api.highest}"
    return f"{text} ({api.highest_declared} unstable)" if api.highest_declared > api.highest else text


def purpose(api: Api) -> str:
    """What the API is for: the docstring of the module that declares it."""
    return plain(sys.modules[api.request.__module__].__doc__ or "")


def _row(api: Api) -> tuple[str, ...]:
    flexible = str(api.flexible_from) if api.flexible_from < LATEST else "never"
    link = f"[{api.name}](messages.md#{api.name.lower()}-{api.key})"
    return str(api.key), link, versions(api), flexible, _offered(api.key), purpose(api)


def _offered(key: int) -> str:
    if key in BY_BROKER.offered:
        if TABLE[key].forwarded:
            return "forwarded"
        return "native" if TABLE[key].broker == NATIVE else "control"
    return "controller" if key in BY_CONTROLLER.offered else "no"


def _permissions(api: Api) -> Iterable[tuple[str, ...]]:
    row = TABLE[api.key]
    kinds = [("", row.needs)]
    if row.controller_needs is not None:
        kinds = [("broker", row.needs), ("controller", row.controller_needs)]
    for where, needs in kinds:
        for need in needs:
            permissions = " or ".join(_permission(each) for each in need.alternatives)
            yield api.name, where, need.when.value, permissions, _without(need)


def _permission(permission: Permission) -> str:
    text = f"{permission.operation.name} on {permission.resource.name}"
    if permission.resource is AclResourceType.CLUSTER:
        return text
    if ANY_NAME in permission.names:
        return f"{text}, any one"
    paths = [*permission.names, *(f"{path} (answer)" for path in permission.answer_names)]
    return f"{text}: {', '.join(paths)}"


def _without(need: Requirement) -> str:
    if need.denied is Denied.OMITTED:
        return str(need.denied.value)
    return f"{need.error.name}: {need.denied.value}"
