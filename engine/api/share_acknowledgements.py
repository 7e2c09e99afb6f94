"""Acknowledges records for ShareFetch and ShareAcknowledge, and names the leader instead (KIP-932)."""

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bowstring._native.share.partition import check_acknowledgements
from bowstring.engine.share.sessions import SessionKey
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.features import SHARE_VERSION

if TYPE_CHECKING:
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.share.leader.share_partitions import SharePartitions

_MEMBER_ID_MAX: Final = 36
RENEW_VERSION: Final = 2
"""Since this version of ShareFetch and ShareAcknowledge locks can be renewed (KIP-1222)."""

PartitionKey = tuple[bytes, int]
"""Topic id and index."""


class Outcome(NamedTuple):
    """What became of a partition's acknowledgements."""

    error_code: int
    reason: str | None = None


_DONE: Final = Outcome(0)


def member_of(metadata: "Metadata", body: Any) -> SessionKey:
    """Returns the member that sent a request.

    Raises:
        KafkaError: UNSUPPORTED_VERSION if share groups are off; INVALID_REQUEST without a group or with a
            malformed member id.
    """
    if metadata.image.features.get(SHARE_VERSION, 0) < 1:
        raise KafkaError(Errors.UNSUPPORTED_VERSION)
    if body.group_id is None or not body.member_id or len(body.member_id) > _MEMBER_ID_MAX:
        raise KafkaError(Errors.INVALID_REQUEST)
    return SessionKey(body.group_id, body.member_id)


class Acknowledgements:
    """The acknowledgements of one request. They take effect in `begin`; `outcomes` waits until they are
    stored.
    """

    def __init__(
        self,
        metadata: "Metadata",
        share_partitions: "SharePartitions",
        time_slices: "TimeSlices",
        member: SessionKey,
        *,
        renews: bool,
        denies: Callable[[str], bool],
    ) -> None:
        """`denies`: Whether the member may not read a topic."""
        self._metadata = metadata
        self._share_partitions = share_partitions
        self._time_slices = time_slices
        self._member = member
        self._renews = renews
        self._denies = denies
        self._outcomes: dict[PartitionKey, Outcome] = {}
        self._empty: list[PartitionKey] = []
        self._stored: list[tuple[PartitionKey, asyncio.Future[Error]]] = []
        self._any = False

    async def begin(self, topics: Iterable[Any]) -> None:
        """Changes the in-flight windows and begins to store the changes.

        Args:
            topics: With `topic_id` and `partitions`, which have `partition_index` and
                `acknowledgement_batches`.
        """
        async for topic in self._time_slices.each(topics):
            async for partition in self._time_slices.each(topic.partitions):
                key = (topic.topic_id, partition.partition_index)
                outcome = self._acknowledge(key, partition.acknowledgement_batches)
                if outcome is not None:
                    self._note(key, outcome)

    def _note(self, key: PartitionKey, outcome: Outcome) -> None:
        """Notes an outcome. A partition that is named twice fails if one of them fails."""
        if not self._outcomes.get(key, _DONE).error_code:
            self._outcomes[key] = outcome

    def _acknowledge(self, key: PartitionKey, batches: Collection[Any]) -> Outcome | None:
        topic = self._metadata.image.topics_by_id.get(key[0])
        refused: Error | None = None
        if topic is None:
            refused = Errors.UNKNOWN_TOPIC_ID
        elif not check_acknowledgements(batches, renews=self._renews):
            refused = Errors.INVALID_REQUEST
        elif self._denies(topic.name):
            refused = Errors.TOPIC_AUTHORIZATION_FAILED
        elif not 0 <= key[1] < len(topic.partitions):
            refused = Errors.UNKNOWN_TOPIC_OR_PARTITION
        if refused is not None:
            return Outcome(refused.code)
        if not batches:
            self._empty.append(key)
            return None
        self._any = True
        found = self._share_partitions.find(self._member.group_id, *key)
        if found is None:
            error = Errors.UNKNOWN_TOPIC_OR_PARTITION
            return Outcome(error.code, error.message)
        code, reason, stored = found.acknowledge(self._share_partitions.member_number(self._member), batches)
        if stored is None:
            return Outcome(code, reason)
        self._stored.append((key, stored))
        return None

    async def outcomes(self) -> dict[PartitionKey, Outcome]:
        """Returns the outcome of each partition, once all changes are stored or refused."""
        for key, stored in self._stored:
            error = await stored
            self._note(key, Outcome(error.code, error.message if error is not Errors.NONE else None))
        if self._any:
            # As in Kafka: partitions without acknowledgements are named along with those that have some.
            for key in self._empty:
                self._note(key, _DONE)
        return self._outcomes


class Leaders:
    """Names the leaders of partitions that this broker does not lead.

    Args:
        leader: The type of `current_leader` in the answer.
        endpoint: The type of an element of `node_endpoints`.
    """

    def __init__(
        self, metadata: "Metadata", request: "Request", leader: type[Any], endpoint: type[Any]
    ) -> None:
        self._image = metadata.image
        self._listener = request.listener.name
        self._leader = leader
        self._endpoint = endpoint
        self._named: dict[int, Any] = {}

    def name(self, partition: Any, topic_id: bytes) -> None:
        """Fills in `current_leader` of a partition's answer whose error calls for it."""
        if partition.error_code not in (
            Errors.NOT_LEADER_OR_FOLLOWER.code,
            Errors.FENCED_LEADER_EPOCH.code,
        ):
            return
        topic = self._image.topics_by_id.get(topic_id)
        if topic is None or not 0 <= partition.partition_index < len(topic.partitions):
            return
        found = topic.partitions[partition.partition_index]
        partition.current_leader = self._leader(leader_id=found.leader, leader_epoch=found.leader_epoch)
        broker = self._image.brokers.get(found.leader)
        endpoint = broker.endpoint(self._listener) if broker is not None else None
        if broker is not None and endpoint is not None:
            self._named[found.leader] = self._endpoint(
                node_id=found.leader, host=endpoint.host, port=endpoint.port, rack=broker.rack
            )

    @property
    def endpoints(self) -> list[Any]:
        """Returns the addresses of the leaders that were named."""
        return list(self._named.values())
