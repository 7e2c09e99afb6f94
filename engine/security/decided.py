"""Defines a decision of access control as it is reported."""

from typing import NamedTuple


class Decided(NamedTuple):
    """A decision, with Kafka's numbers.

    Attributes:
        host: The address that the request came from.
        api: Key of the request's API; -1: unknown.
    """

    principal: str
    host: str
    operation: int
    resource_type: int
    name: str
    allowed: bool
    api: int
