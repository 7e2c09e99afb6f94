"""Finds the end offsets of partitions, wherever their leaders are, for the lag of share groups (KIP-1226)."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from bowstring.engine.network.broker_peers import BrokerPeers
from bowstring.engine.network.connection import NoAnswerError, UnsupportedByPeerError
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from bowstring.engine.metadata.image import ImageSource

TopicPartition = tuple[str, int]

_PURPOSE: Final = "share-group-lag"
_VERSIONS: Final = (1, 11)
_LATEST: Final = -1
_CONSUMER: Final = -1
_TRIES: Final = 5
_PAUSE_S: Final = 0.1
_PASSING: Final = frozenset(
    {
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.LEADER_NOT_AVAILABLE,
        Errors.OFFSET_NOT_AVAILABLE,
        Errors.NETWORK_EXCEPTION,
        Errors.UNKNOWN_LEADER_EPOCH,
    }
)


class LatestOffsets:
    """Queries leaders for high watermarks. Used on the control loop only.

    Args:
        here: Returns the high watermark of a partition that this broker leads, or raises KafkaError.
        peers: The other brokers.
        timeout_s: How long an answer may take.
    """

    def __init__(
        self,
        metadata: "ImageSource",
        node_id: int,
        here: Callable[[str, int], int],
        peers: BrokerPeers,
        *,
        timeout_s: float,
    ) -> None:
        self._metadata = metadata
        self._node_id = node_id
        self._here = here
        self._peers = peers
        self._timeout_s = timeout_s

    async def find(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | Error]:
        """Returns the high watermark of each partition, or why it is unknown. Tries again while a leader is
        being elected.
        """
        found: dict[TopicPartition, int | Error] = {}
        left = list(partitions)
        for attempt in range(_TRIES):
            found.update(await self._try(left))
            left = [each for each in left if found[each] in _PASSING]
            if not left:
                break
            if attempt + 1 < _TRIES:
                await asyncio.sleep(_PAUSE_S)
        return found

    async def _try(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | Error]:
        found: dict[TopicPartition, int | Error] = {}
        elsewhere: dict[int, list[TopicPartition]] = defaultdict(list)
        for each in partitions:
            leader = self._leader(each)
            if leader is None:
                found[each] = Errors.UNKNOWN_TOPIC_OR_PARTITION
            elif leader == self._node_id:
                try:
                    found[each] = self._here(*each)
                except KafkaError as error:
                    found[each] = error.error
            else:
                elsewhere[leader].append(each)
        for answers in await asyncio.gather(*(self._ask(leader, led) for leader, led in elsewhere.items())):
            found.update(answers)
        return found

    def _leader(self, partition: TopicPartition) -> int | None:
        topic = self._metadata.image.topics.get(partition[0])
        if topic is None or not 0 <= partition[1] < len(topic.partitions):
            return None
        return topic.partitions[partition[1]].leader

    async def _ask(self, leader: int, partitions: list[TopicPartition]) -> dict[TopicPartition, int | Error]:
        found: dict[TopicPartition, int | Error] = dict.fromkeys(partitions, Errors.LEADER_NOT_AVAILABLE)
        if self._peers.address(leader) is None:
            return found
        by_topic: dict[str, list[int]] = defaultdict(list)
        for name, index in partitions:
            by_topic[name].append(index)
        request = ListOffsetsRequest(
            replica_id=_CONSUMER,
            topics=[
                ListOffsetsTopic(
                    name=name,
                    partitions=[
                        ListOffsetsPartition(partition_index=index, timestamp=_LATEST) for index in indexes
                    ],
                )
                for name, indexes in by_topic.items()
            ],
        )
        try:
            answer = await self._peers.exchange(
                *(_PURPOSE, leader, request, _VERSIONS),
                timeout_s=self._timeout_s,
                is_wanted=lambda: any(self._leader(each) == leader for each in partitions),
            )
        except (NoAnswerError, UnsupportedByPeerError):
            return dict.fromkeys(partitions, Errors.NETWORK_EXCEPTION)
        assert isinstance(answer, ListOffsetsResponse), answer
        for topic in answer.topics:
            for part in topic.partitions:
                found[topic.name, part.partition_index] = (
                    Errors.of(part.error_code) if part.error_code else part.offset
                )
        return found
