"""Queries the active controller where a broker of a cluster cannot decide itself."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from bowstring.engine.broker.directory_assignments import DirectoryAssignments
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.image import TopicImage
from bowstring.engine.metadata.store.cluster_changes import ClusterChanges
from bowstring.engine.metadata.store.producer_ids import ProducerIds
from bowstring.engine.metadata.topic_changes import NewTopic
from bowstring.engine.quorum.service import QuorumService
from bowstring.engine.storage.log_manager import LogManager
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from bowstring.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

_LOOK_S: Final = 0.01


class ForwardedChanges(ClusterChanges):
    """Changes of a cluster whose controller may be another node.

    Args:
        settled: Waits until this broker has carried out what its image has.
        is_own_cluster: No other broker is meant to join: internal topics get one replica.
    """

    def __init__(
        self,
        quorum: QuorumService,
        logs: LogManager,
        configs: BrokerConfigs,
        node_id: int,
        directories: DirectoryAssignments,
        *,
        settled: Callable[[], Awaitable[None]],
        is_own_cluster: bool,
    ) -> None:
        super().__init__(quorum, logs, configs, node_id)
        self._quorum = quorum
        self._directories = directories
        self._carried_out = settled
        self._is_own_cluster = is_own_cluster

    async def assign_directory(self, topic: TopicImage, index: int, directory_id: bytes) -> None:
        """Reports to the controller in which log directory this node's replica is (KIP-858).

        Raises:
            KafkaError: The controller has refused, or there is none.
        """
        await self._directories.assign(topic, index, directory_id)

    async def create_missing_topic(self, name: str) -> None:
        """Has the controller create a topic that a client requests, with this broker's default counts.

        Raises:
            KafkaError: The controller has refused, or there is none.
        """
        if name not in self._quorum.image.topics:
            value = self._configs.value
            counts = value("num.partitions"), value("default.replication.factor")
            await self._create(
                CreatableTopic(name=name, num_partitions=counts[0], replication_factor=counts[1])
            )

    async def create_internal_topic(
        self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> bool:
        """Has the controller create a coordinator's topic. As in Kafka, this fails while there are fewer
        brokers than replicas.

        Returns whether it was created by this call.

        Raises:
            KafkaError: NOT_CONTROLLER, REQUEST_TIMED_OUT, or what the controller says.
        """
        if name in self._quorum.image.topics:
            return False
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1 if self._is_own_cluster else replication_factor,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        is_new = await self._create(topic, "internal topics")  # does not wait behind those of clients
        await self._until_open(name)
        return is_new

    async def create_topics(self, topics: Sequence[NewTopic]) -> dict[str, KafkaError]:
        """Has the controller create topics that a client does not create itself, unless they exist.

        Returns why topics could not be created, by name.

        Raises:
            KafkaError: The controller has refused all of them, or there is none.
        """
        wanted = [
            CreatableTopic(
                name=topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                configs=[
                    CreatableTopicConfig(name=name, value=value)
                    for name, value in (topic.configs or {}).items()
                ],
            )
            for topic in topics
            if topic.name not in self._quorum.image.topics
        ]
        if not wanted:
            return {}
        answer: Any = await self._quorum.ask_leader(CreateTopicsRequest(topics=wanted))
        return {
            result.name: KafkaError(Errors.of(result.error_code), result.error_message)
            for result in answer.topics
            if result.error_code and result.error_code != Errors.TOPIC_ALREADY_EXISTS.code
        }

    async def _create(self, topic: CreatableTopic, client: str = "") -> bool:
        request = CreateTopicsRequest(topics=[topic])
        answer: Any = await self._quorum.ask_leader(request, None, None, client)
        (result,) = answer.topics
        error = Errors.of(result.error_code)
        if error and error is not Errors.TOPIC_ALREADY_EXISTS:
            raise KafkaError(error, result.error_message)
        return not error

    async def _until_open(self, topic: str) -> None:
        """Waits until this broker has got the topic and opened its partitions."""
        if self._quorum.is_leader:
            await self._carried_out()
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._configs.value("request.timeout.ms") / 1000
        while not self._logs.of_topic(topic):
            if loop.time() >= deadline_s:
                raise KafkaError(Errors.REQUEST_TIMED_OUT, f"{topic} is not here yet")
            await asyncio.sleep(_LOOK_S)  # the log of the controller gets here soon


class AllocatedProducerIds(ProducerIds):
    """Producer ids from blocks that the controller allocates (KIP-730)."""

    def __init__(self, quorum: QuorumService, node_id: int, broker_epoch: Callable[[], int]) -> None:
        super().__init__(quorum, node_id)
        self._quorum = quorum
        self._broker_epoch = broker_epoch

    async def next_block(self) -> tuple[int, int]:
        """Returns the first id of a new block, and the one after its last.

        Raises:
            KafkaError: The controller has refused, or there is none.
        """
        request = AllocateProducerIdsRequest(broker_id=self._node_id, broker_epoch=self._broker_epoch())
        answer: Any = await self._quorum.ask_leader(request)
        if answer.error_code == Errors.UNKNOWN_SERVER_ERROR.code:
            # An idempotent producer would act on that; this makes it retry, as in Kafka.
            raise KafkaError(Errors.COORDINATOR_LOAD_IN_PROGRESS)
        if answer.error_code:
            raise KafkaError(Errors.of(answer.error_code))
        return answer.producer_id_start, answer.producer_id_start + answer.producer_id_len
