"""Names what each page of the console is asked for: parameters and queries of its routes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from bench.console.pages import paths

CONNECTOR = "lines"
"""What a cluster of Kafka Connect has, if the console is started with one."""


def views(
    topic: str, groups: Sequence[str], transaction: str | None = None, connector: str = CONNECTOR
) -> list[str]:
    """Returns the addresses of all pages, also of those of one topic, group, transaction or connector."""
    names = {
        "name": topic,
        "id": "1",
        "partition": "0",
        "offset": "0",
        "form": "json",
        "part": "value",
        "what": "configs",
    }
    of_groups = [urlencode({"name": group}) for group in groups]
    rule = {"principal": "User:alice", "operation": "read", "kind": "topic", "resource": topic}
    kinds = {"pattern": "literal", "permission": "allow", "host": "*"}
    quota = {"whose": "user", "name": "alice", "quota": "producer_byte_rate", "value": "1048576"}
    queries: Mapping[str, Sequence[str]] = {
        "/groups/one": of_groups,
        "/acls/change": [urlencode({"change": "add", **rule, **kinds})],
        "/quotas/change": [urlencode({"change": "set", **quota})],
        "/users/delete": [urlencode({"name": "alice"})],
        "/connectors/act": [urlencode({"name": connector, "action": "restart-failed"})],
        **{f"/connectors/{part}": [urlencode({"name": connector})] for part in ("one", "one/live", "config")},
        **{f"/groups/one/{part}": of_groups[:1] for part in ("live", "reset", "delete", "remove")},
        **{f"/transactions/{part}": [urlencode({"id": transaction or ""})] for part in ("one", "abort")},
    }
    return paths(names, queries)
