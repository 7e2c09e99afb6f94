"""Encodes and decodes what registries say about themselves in their group: JSON, as Confluent's and
Karapace's."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple, Self

from bowstring.version import __version__

# The version of the JSON. Confluent's registries compare it when they look for themselves in an assignment.
VERSION = 1
_OWN_MARK = "bowstring_version"
_KARAPACE_MARK = "karapace_version"
_PORT_MAX = 65535
_HOST = re.compile(r"[^\s/?#@\\\x00-\x1f]{1,255}")
SCHEMES = ("http", "https")


class MemberIdentity(NamedTuple):
    """Where a registry serves, and whether it may lead.

    Attributes:
        scheme, host, port: its advertised URL.
        eligible: it may be elected.
        leader: it led when it joined; an election keeps it then.
        told: the JSON object as its member sent it, so that other registries recognize it.
    """

    scheme: str
    host: str
    port: int
    eligible: bool = True
    leader: bool = False
    told: dict[str, Any] | None = None

    @property
    def url(self) -> str:
        """`scheme://host:port`."""
        host = f"[{self.host}]" if ":" in self.host and not self.host.startswith("[") else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def is_bowstring(self) -> bool:
        """Whether the member fences earlier leaders, as this package's registries do."""
        return self.told is None or _OWN_MARK in self.told

    @property
    def is_karapace(self) -> bool:
        """Whether the member expects an identity in every assignment."""
        return self.told is not None and _KARAPACE_MARK in self.told

    def as_json(self) -> dict[str, Any]:
        """Returns the JSON object for other members."""
        if self.told is not None:
            return self.told
        return {
            "version": VERSION,
            "host": self.host,
            "port": self.port,
            "master_eligibility": self.eligible,
            "scheme": self.scheme,
            "leader": self.leader,
            _OWN_MARK: __version__,
        }

    def encode(self) -> bytes:
        """Returns the metadata for JoinGroup."""
        return json.dumps(self.as_json(), separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decodes a member's metadata.

        Raises:
            ValueError: the bytes are not the identity of a registry.
        """
        return cls.of(decoded_object(data))

    @classmethod
    def of(cls, told: Any) -> Self:
        """Reads an identity from its JSON object.

        Raises:
            ValueError: it is none.
        """
        if not isinstance(told, dict):
            raise ValueError("the identity of a registry must be a JSON object")
        host, port = told.get("host"), told.get("port")
        scheme = told.get("scheme") or "http"
        if not isinstance(host, str) or not _HOST.fullmatch(host) or scheme not in SCHEMES:
            raise ValueError("the identity of a registry needs a host, and the scheme http or https")
        if not isinstance(port, int) or isinstance(port, bool) or not 0 < port <= _PORT_MAX:
            raise ValueError(f"the identity of the registry at {host!r} has no port")
        eligible, leader = told.get("master_eligibility") is True, told.get("leader") is True
        return cls(scheme, host, port, eligible, leader, told)


def decoded_object(data: bytes) -> Any:
    """Decodes JSON.

    Raises:
        ValueError: the bytes are not JSON, or too deep.
    """
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
