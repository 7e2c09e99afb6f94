"""Keeps answers that follow from the image alone until the image changes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from bowstring.registry.registry_image import RegistryImage

COUNT_MAX = 10_000
BYTES_MAX = 32 << 20
ANSWER_BYTES_MAX = 256 << 10


class Answer(NamedTuple):
    """An answer, as the two messages of ASGI that carry it.

    Attributes:
        start: with status and headers.
        body: with the whole body.
        route: that made it.
    """

    start: dict[str, Any]
    body: dict[str, Any]
    route: str


def make_answer(
    status: int, kind: bytes, body: bytes, route: str, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> Answer:
    """Returns an answer.

    Args:
        status: of HTTP.
        kind: the media type of the body.
        body: the whole of it; ignored with status 204.
        route: the path with names, for the metrics.
        headers: further ones.
    """
    if status == 204:
        start = {"type": "http.response.start", "status": status, "headers": [*headers]}
        return Answer(start, {"type": "http.response.body", "body": b""}, route)
    sent = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *headers]
    return Answer(
        {"type": "http.response.start", "status": status, "headers": sent},
        {"type": "http.response.body", "body": body},
        route,
    )


class AnswerCache:
    """Answers by request. They are all dropped with the first record that the image takes after them."""

    def __init__(self) -> None:
        self._image: RegistryImage | None = None
        self._offset = -1
        self._answers: dict[Hashable, Answer] = {}
        self._size = 0

    def __len__(self) -> int:
        """Returns how many answers are kept."""
        return len(self._answers)

    def get(self, image: RegistryImage, key: Hashable) -> Answer | None:
        """Returns the answer to a request; None if there is none for this state of the image."""
        if image is not self._image or image.offset != self._offset:
            self.clear()
            self._image, self._offset = image, image.offset
            return None
        return self._answers.get(key)

    def put(self, image: RegistryImage, key: Hashable, answer: Answer, key_bytes: int) -> None:
        """Keeps an answer that was made of the image as it is now.

        Args:
            image: that made it.
            key: everything else that the answer depends on.
            answer: with status 200.
            key_bytes: size of the key.
        """
        size = len(answer.body["body"]) + key_bytes
        if size > ANSWER_BYTES_MAX:
            return
        if image is not self._image or image.offset != self._offset:
            self.clear()
            self._image, self._offset = image, image.offset
        if self._size + size > BYTES_MAX or len(self._answers) >= COUNT_MAX:
            self.clear()
        self._answers[key] = answer
        self._size += size

    def clear(self) -> None:
        """Drops all answers."""
        if self._answers:
            self._answers = {}
        self._size = 0
