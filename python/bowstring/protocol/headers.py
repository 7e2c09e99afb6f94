"""Declares the headers of requests and responses, and says which version of a header applies."""

from __future__ import annotations

from bowstring.protocol.messages import ApiKeys
from bowstring.protocol.schema import Message, int16, int32, string
from bowstring.protocol.versions import Api


class RequestHeader(Message, versions="1-2", flexible="2+"):
    request_api_key: int = int16("0+")
    request_api_version: int = int16("0+")
    correlation_id: int = int32("0+")
    client_id: str | None = string("1+", nullable="1+", flexible=False)


class ResponseHeader(Message, versions="0-1", flexible="1+"):
    correlation_id: int = int32("0+")


def request_header_version(api: Api, version: int) -> int:
    """Returns the version of the request header before `version`, also for unknown versions."""
    return 2 if version >= api.flexible_from else 1


def response_header_version(api: Api, version: int) -> int:
    """Returns the version of the response header. ApiVersions stays at 0, so that any client can read it
    (KIP-511).
    """
    return 1 if version >= api.flexible_from and api.key != ApiKeys.API_VERSIONS else 0
