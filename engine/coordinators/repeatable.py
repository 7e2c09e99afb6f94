"""Defines answers that reactors may repeat."""

from collections.abc import Callable
from typing import Any, NamedTuple

from bowstring.protocol.schema import Response


class Repeatable(NamedTuple):
    """An answer that the reactor may repeat when the same request comes again on its connection.

    Attributes:
        lease: Called with what ends that, once it has begun.
    """

    response: Response
    lease: Callable[[Any], None]
