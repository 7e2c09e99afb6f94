"""Keeps encoded answers that depend only on the image of the cluster and on what this broker coordinates:
clients of one kind send the same requests.
"""

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.requests.request import Received
    from bowstring.engine.storage.log_manager import LogManager

ANSWER_MAX_BYTES: Final = 256 << 10
"""Longer answers are not kept."""
_ALL_MAX_BYTES: Final = 4 << 20
# Of the objects that hold a request and its answer.
_ENTRY_BYTES: Final = 256
# Of the correlation id, with which every answer begins.
_ID_BYTES: Final = 4

Stamp = tuple[object, int, int, bool, int]
"""The image, the records it has, changes of what this broker coordinates; whether all its logs are online;
the version of the rules of access control.
"""

_Key = tuple[int, int, int, bytes, str]


class Coordinating(Protocol):
    """The coordinators of a broker."""

    @property
    def changes(self) -> int:
        """Goes up when the broker begins or ends to coordinate something."""


class Deciding(Protocol):
    """The access control of a broker."""

    @property
    def version(self) -> int:
        """Goes up before a decision may differ from an earlier one."""


def stamp(
    *, metadata: "Metadata", coordinators: Coordinating, logs: "LogManager", authorizer: Deciding
) -> Stamp:
    """Returns the state on which kept answers depend. Two states are equal only if answers are."""
    return (
        metadata.image,
        metadata.end_offset,
        coordinators.changes,
        logs.all_online,
        authorizer.version,
    )


class KeptAnswers:
    """Answers by API, version, listener and body of the request, and by what the sender may do, all of one
    stamp.
    """

    def __init__(self) -> None:
        self._stamp: Stamp | None = None
        self._answers: dict[_Key, bytes] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._answers)

    def find(self, message: "Received", now: Stamp, rights: str) -> bytes | None:
        """Returns the answer to a request that was kept when the stamp was the same.

        Args:
            rights: Equal only for senders that may do the same.
        """
        held = self._stamp
        if held is None or held[0] is not now[0] or held[1:] != now[1:]:
            return None
        found = self._answers.get(_key(message, message.body, rights))
        return (
            None if found is None else message.correlation_id.to_bytes(_ID_BYTES, "big", signed=True) + found
        )

    def keep(
        self, message: "Received", body: bytes, rights: str, answer: bytes, *, before: Stamp, now: Stamp
    ) -> None:
        """Keeps an answer, if it is not large and nothing has changed since the request was read.

        Args:
            rights: As for `find`.
            before: The stamp before the handler began.
        """
        if before[0] is not now[0] or before[1:] != now[1:] or len(answer) > ANSWER_MAX_BYTES:
            return
        held = self._stamp
        size_bytes = _ENTRY_BYTES + len(answer) + len(body) + len(rights)
        is_new = held is None or held[0] is not now[0] or held[1:] != now[1:]
        if is_new or self._bytes + size_bytes > _ALL_MAX_BYTES:
            self._answers.clear()
            self._bytes = 0
        self._stamp = now
        key = _key(message, body, rights)
        if key not in self._answers:
            self._bytes += size_bytes
            self._answers[key] = answer[_ID_BYTES:]


def _key(message: "Received", body: object, rights: str) -> _Key:
    assert isinstance(body, bytes), "only small requests are looked up"
    return message.api_key, message.api_version, message.listener, body, rights
