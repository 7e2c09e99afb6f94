"""Keeps the sessions of brokers: the time of the last contact, and how far the broker's metadata is.

This is soft state, which is not in the log. A new controller treats all unfenced brokers as just in contact.
"""

from typing import Final

NO_OFFSET: Final = -1


class BrokerSession:
    """What heartbeats have reported about one broker.

    Attributes:
        fenced: As in its registration.
        metadata_offset: The last offset of the metadata log that the broker has applied.
        shutdown_offset: The log's end when the broker began its controlled shutdown; NO_OFFSET before.
    """

    __slots__ = ("fenced", "metadata_offset", "shutdown_offset")

    def __init__(self, *, fenced: bool) -> None:
        self.fenced = fenced
        self.metadata_offset = NO_OFFSET
        self.shutdown_offset = NO_OFFSET

    @property
    def is_shutting_down(self) -> bool:
        """Whether a controlled shutdown is under way."""
        return self.shutdown_offset >= 0


class Sessions:
    """The sessions of all registered brokers.

    Args:
        timeout_ms: broker.session.timeout.ms.
    """

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._brokers: dict[int, BrokerSession] = {}
        # By broker id and epoch, the one with the oldest contact first.
        self._heard_ms: dict[tuple[int, int], int] = {}

    def __getitem__(self, broker: int) -> BrokerSession:
        return self._brokers[broker]

    def register(self, broker: int, *, fenced: bool) -> None:
        """Notes the state of a broker's registration."""
        session = self._brokers.get(broker)
        if session is None:
            self._brokers[broker] = BrokerSession(fenced=fenced)
        else:
            self.touch(broker, fenced, session.metadata_offset)

    def remove(self, broker: int) -> None:
        """Forgets a broker."""
        self._brokers.pop(broker, None)

    def touch(self, broker: int, fenced: bool, metadata_offset: int) -> None:
        """Notes a heartbeat. A fenced broker is no longer in controlled shutdown: its next
        heartbeat lets it go at once.
        """
        session = self._brokers[broker]
        session.fenced, session.metadata_offset = fenced, metadata_offset
        if fenced:
            session.shutdown_offset = NO_OFFSET

    def begin_shutdown(self, broker: int, offset: int) -> None:
        """Notes the log's end when a controlled shutdown begins; later calls change nothing."""
        session = self._brokers.get(broker)
        if session is not None and not session.fenced and not session.is_shutting_down:
            session.shutdown_offset = offset

    def lowest_active_offset(self) -> int | None:
        """Returns the offset that all active brokers have reached; None without active brokers."""
        return min(
            (
                each.metadata_offset
                for each in self._brokers.values()
                if not each.fenced and not each.is_shutting_down
            ),
            default=None,
        )

    # ------------------------------------------------------------ time

    def heard(self, broker: int, epoch: int, now_ms: int) -> None:
        """Notes when a broker was in contact; an earlier time than the last one changes nothing."""
        before_ms = self._heard_ms.pop((broker, epoch), now_ms)
        self._heard_ms[broker, epoch] = max(before_ms, now_ms)

    def extend(self, by_ms: int) -> None:
        """Makes all sessions longer, after this node itself was stalled and received nothing."""
        self._heard_ms = {session: heard_ms + by_ms for session, heard_ms in self._heard_ms.items()}

    def end(self, broker: int, epoch: int) -> None:
        """Ends the session of a broker that may stop: its successor need not wait to register."""
        self._heard_ms.pop((broker, epoch), None)

    def is_valid(self, broker: int, epoch: int, now_ms: int) -> bool:
        """Returns whether a broker was in contact within the session timeout."""
        heard_ms = self._heard_ms.get((broker, epoch))
        return heard_ms is not None and now_ms <= heard_ms + self._timeout_ms

    def take_expired(self, now_ms: int) -> tuple[int, int] | None:
        """Removes a session that is over and returns its broker and epoch; None when there is none."""
        for session, heard_ms in self._heard_ms.items():
            if now_ms > heard_ms + self._timeout_ms:
                del self._heard_ms[session]
                return session
            break  # all others were in contact later
        return None
