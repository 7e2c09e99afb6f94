"""Names what registries share: a cluster, a topic and a group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class StoreTarget(NamedTuple):
    """Registries with the same target share their schemas, and elect one leader.

    Attributes:
        bootstrap_servers: `host:port,host:port`.
        security: settings of TLS and SASL, as `security=` of clients; None for plain text.
        topic: keeps the schemas.
        group_id: elects the leader.
    """

    bootstrap_servers: str
    security: Mapping[str, Any] | None = None
    topic: str = "_schemas"
    group_id: str = "schema-registry"

    @property
    def transactional_id(self) -> str:
        """The id by which leaders fence their predecessors; they use no transactions."""
        return f"{self.group_id}-{self.topic}"

    def __repr__(self) -> str:
        # Without the settings of security, which have secrets.
        return f"StoreTarget({self.bootstrap_servers!r}, topic={self.topic!r}, group_id={self.group_id!r})"
