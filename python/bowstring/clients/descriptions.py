"""Describes clients: what `repr` returns in consoles, notebooks and tracebacks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bowstring.clients.records import Node

_SHOWN_MAX = 3


def description(client: object, servers: Iterable[Node] | None, *, closed: bool, **facts: Any) -> str:
    """Returns one line in angle brackets, without a request.

    Args:
        client: the described client.
        servers: its bootstrap servers; None for a client whose constructor failed.
        closed: whether it is closed.
        facts: further facts; None and empty ones are left out.
    """
    words = [type(client).__name__]
    if servers:
        words[0] += f" of {_listed([f'{node.host}:{node.port}' for node in servers])}"
    words += [f"{name} {_text(value)}" for name, value in facts.items() if value not in (None, (), [])]
    if closed:
        words.append("closed")
    return f"<{', '.join(words)}>"


def _text(value: Any) -> str:
    return _listed(value) if isinstance(value, tuple | list) else str(value)


def _listed(values: Iterable[Any]) -> str:
    texts = [str(each) for each in values]
    more = f" and {len(texts) - _SHOWN_MAX} more" if len(texts) > _SHOWN_MAX else ""
    return ",".join(texts[:_SHOWN_MAX]) + more
