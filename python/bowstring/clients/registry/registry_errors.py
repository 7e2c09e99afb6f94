"""Defines the errors of schema registries; each message says what to do."""

from __future__ import annotations

from bowstring.clients.errors import ClientError


class SchemaRegistryError(ClientError):
    """A schema registry does not answer, or refuses a request.

    Args:
        message: what is wrong, and what to do.

    Attributes:
        status: of HTTP; 0: it did not answer.
        code: of the registry, such as 40403; 0: none.
    """

    def __init__(self, message: str, status: int = 0, code: int = 0):
        super().__init__(message)
        self.status = status
        self.code = code


class SchemaNotFoundError(SchemaRegistryError):
    """The registry has no such schema, subject or version."""
