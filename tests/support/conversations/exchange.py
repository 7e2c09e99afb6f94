"""One request of a conversation, and the facts of its answer that two programs share if they agree."""

import http.client
import json
from typing import Any, NamedTuple


class Exchange(NamedTuple):
    """One request.

    Attributes:
        name: unique in its conversation.
        target: path and query.
        body: bytes as they are, None for none, everything else as JSON.
        kind: media type of the body.
        accept: media type of the answer.
    """

    name: str
    method: str
    target: str
    body: Any = None
    kind: str = ""
    accept: str = ""

    def headers(self, kind: str) -> dict[str, str]:
        """Returns headers of the request; `kind` is the type of bodies that name none."""
        found = {"accept": self.accept} if self.accept else {}
        if self.kind or self.body is not None:
            found["content-type"] = self.kind or kind
        return found

    @property
    def sent(self) -> bytes | None:
        """The body as it is sent."""
        if self.body is None or isinstance(self.body, bytes):
            return self.body
        return json.dumps(self.body).encode()


def facts(status: int, body: bytes) -> list[Any]:
    """Returns the status, and a code or a value: sentences are each program's own.

    Texts of schemas that are JSON are values, too: programs may write them in another order.
    """
    try:
        value = json.loads(body)
    except ValueError:
        return [status, "text" if body else "nothing"]
    if status >= http.client.BAD_REQUEST:
        return [status, value.get("error_code") if isinstance(value, dict) else "no code"]
    return [status, _without_sentences(value)]


def agree(theirs: Any, ours: Any) -> bool:
    """Whether everything in one program's facts is in the other's, which may have more members; lists may be in
    another order.
    """
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return all(name in ours and agree(each, ours[name]) for name, each in theirs.items())
    if isinstance(theirs, list) and isinstance(ours, list):
        if all(isinstance(each, str) for each in theirs + ours):
            return sorted(theirs) == sorted(ours)
        return len(theirs) == len(ours) and all(map(agree, theirs, ours))
    return theirs == ours


def _without_sentences(value: Any, name: str = "") -> Any:
    if name in ("message", "messages", "error", "base_uri", "metadata"):
        return type(value).__name__
    if isinstance(value, dict):
        return {key: _without_sentences(each, key) for key, each in value.items()}
    if name == "schema" and isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return [_without_sentences(each) for each in value] if isinstance(value, list) else value
