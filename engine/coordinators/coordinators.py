"""Lists the coordinators of a broker by their internal topics. Each begins when it is first needed."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bowstring.engine import background

if TYPE_CHECKING:
    from bowstring.engine.coordinators.runtime import CoordinatorRuntime


class Coordinators:
    """The coordinators of one broker. Iterating yields those that have begun.

    Args:
        makers: Creates the coordinator of an internal topic, by its name. A coordinator that uses others
            comes before them: `stop` keeps this order.
    """

    def __init__(self, makers: Mapping[str, "Callable[[], CoordinatorRuntime[Any]]"]) -> None:
        self._makers = makers
        self._begun: dict[str, CoordinatorRuntime[Any]] = {}

    @property
    def changes(self) -> int:
        """Goes up when this broker begins or ends to coordinate a partition."""
        return sum(each.changes for each in self._begun.values())

    @property
    def topics(self) -> tuple[str, ...]:
        """The internal topics."""
        return tuple(self._makers)

    def of(self, topic: str) -> Any:
        """Returns the coordinator of an internal topic, which begins now if it has not. Call on the control
        loop.
        """
        found = self._begun.get(topic)
        if found is None:
            found = self._begun[topic] = self._makers[topic]()
            found.start()
        return found

    def get(self, topic: str) -> Any:
        """Returns the coordinator of a topic; None if it has not begun, and for topics of clients."""
        return self._begun.get(topic)

    def __iter__(self) -> "Iterator[CoordinatorRuntime[Any]]":
        return iter([self._begun[topic] for topic in self._makers if topic in self._begun])

    def topic_deleted(self, topic: str, topic_id: bytes) -> None:
        """Deletes what coordinators hold of a deleted topic."""
        listeners = [each.topic_deleted for each in self]
        background.call_all(listeners, topic, topic_id, doing="a deleted topic")

    def high_watermark_advanced(self, topic: str, partition: int) -> None:
        """Passes on what `DataPlane.watch` has requested."""
        listeners = [each.high_watermark_advanced for each in self]
        background.call_all(listeners, topic, partition, doing="a high watermark that advanced")

    async def stop(self) -> None:
        """Stops those that have begun; requests that wait for them are refused."""
        for each in self:
            await each.stop()
