"""An answer that refuses a request, with the codes of Confluent's REST API."""

from __future__ import annotations


class RegistryError(Exception):
    """A request that the registry refuses.

    Attributes:
        status: HTTP status.
        code: `error_code` of the body; its first three digits are the status, or it is the status.
        message: `message` of the body: one or more sentences on one line.
    """

    def __init__(self, status: int, code: int, message: str):
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
