"""Renders the page of the protocol's errors from the table in `python/bowstring/protocol/errors.py`."""

from __future__ import annotations

from bowstring.protocol.errors import Errors
from docs.generate.markdown import code, plain, table

HEAD = """\
# Errors

The errors of Kafka's protocol, as requests are answered with them and as `bowstring.BrokerError` carries
them. A *retriable* error goes away by itself: the clients send the request again.
"""


def render() -> str:
    """The page as Markdown."""
    rows = (
        (str(error.code), code(error.name), "yes" if error.retriable else "", plain(error.message))
        for error in sorted(Errors.BY_CODE.values(), key=lambda error: error.code)
    )
    return "\n".join([HEAD, *table(("code", "name", "retriable", "meaning"), rows)])
