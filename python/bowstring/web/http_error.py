"""An answer that is an error, in the form that Confluent's HTTP interfaces share."""

from __future__ import annotations

import json


class HttpError(Exception):
    """A request is refused.

    Args:
        status: of the answer.
        code: `error_code` of the body; the status where no finer one exists.
        message: says what is wrong and what to do. Has no secret.
        headers: further headers of the answer.
    """

    def __init__(
        self, status: int, code: int, message: str, headers: tuple[tuple[bytes, bytes], ...] = ()
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, headers

    def body(self) -> bytes:
        """Returns the body of the answer: a JSON object with `error_code` and `message`."""
        return error_body(self.code, self.message)


def error_body(code: int, message: str) -> bytes:
    """Returns a JSON object with `error_code` and `message`, in this order."""
    return json.dumps({"error_code": code, "message": message}, separators=(",", ":")).encode()
