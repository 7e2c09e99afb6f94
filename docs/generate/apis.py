"""Renders the page of Kafka's APIs from the declarations in `engine/protocol` and `engine/api`."""

from __future__ import annotations

import sys

from bowstring.engine.api import ADVERTISED, HANDLERS
from bowstring.engine.protocol.schema import LATEST
from bowstring.engine.protocol.versions import API_VERSIONS, Api
from docs.generate.markdown import plain, table

HEAD = """\
# APIs

Every API of Kafka's protocol that is declared, and which of them the broker offers in its ApiVersions
response. An API that is not offered is declared for a later release, for tests, or for records that another
broker wrote.

- **native**: reactor threads answer it in native code. **control**: the control thread answers it
  (`engine/api`).
- *Flexible from* is the first version with compact fields and tags (KIP-482).
- Produce is listed from version 0 on, which librdkafka looks for; it is served from the version below on.
"""


def render() -> str:
    """The page as Markdown."""
    apis = [API_VERSIONS[key] for key in sorted(API_VERSIONS)]
    columns = ("key", "API", "versions", "flexible from", "offered", "what it does")
    return "\n".join([HEAD, *table(columns, (_row(api) for api in apis))])


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
    offered = ("control" if api.key in HANDLERS else "native") if api.key in ADVERTISED else "no"
    link = f"[{api.name}](messages.md#{api.name.lower()}-{api.key})"
    return str(api.key), link, versions(api), flexible, offered, purpose(api)
