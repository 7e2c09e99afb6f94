"""Has the active controller create the topics that a broker needs."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.image import ImageSource
from bowstring.engine.metadata.topic_changes import NewTopic
from bowstring.protocol.errors import Errors, KafkaError

if TYPE_CHECKING:
    from bowstring.engine.storage.log_manager import LogManager
    from bowstring.protocol.messages.create_topics import CreatableTopic

_LOOK_S: Final = 0.01

Ask = Callable[[Any], Awaitable[Any]]
"""Sends a request to the active controller; returns the response's body."""


class Quorum(ImageSource, Protocol):
    """What a broker needs of its replica of the metadata quorum to have the cluster changed."""

    @property
    def is_leader(self) -> bool:
        """Whether this node is the active controller."""

    async def ask_leader(
        self, body: Any, timeout_ms: int | None = None, version: int | None = None, client: str = ""
    ) -> Any:
        """Sends a request to the active controller; returns the response's body.

        Raises:
            KafkaError: NOT_CONTROLLER: none is known in time, or it does not answer.
        """


class ClusterChanges:
    """What a broker has the active controller change without a client's request to do so.

    Args:
        settled: Waits until this broker has carried out what its image has.
        is_own_cluster: No other broker is meant to join: while none has, internal topics get one replica.
    """

    def __init__(
        self,
        quorum: Quorum,
        logs: "LogManager",
        configs: BrokerConfigs,
        *,
        settled: Callable[[], Awaitable[None]],
        is_own_cluster: bool,
    ) -> None:
        self._quorum = quorum
        self._logs = logs
        self._configs = configs
        self._settled = settled
        self._is_own_cluster = is_own_cluster

    async def carried_out(self) -> None:
        """Waits, for at most request.timeout.ms, until this broker has carried out what its own controller
        has committed. Returns at once when another node's controller is active.
        """
        if not self._quorum.is_leader:
            return
        try:
            async with asyncio.timeout(self._configs.value("request.timeout.ms") / 1000):
                await self._settled()
        except TimeoutError:
            pass  # it is committed, and carried out as soon as the disk allows

    async def create_missing_topic(self, name: str, ask: Ask | None = None) -> None:
        """Has the controller create a topic that a client requests, with this broker's default counts.

        Args:
            ask: Sends the request in the client's name; None: it is this broker's own.

        Raises:
            KafkaError: The controller has refused, or there is none.
        """
        if name not in self._quorum.image.topics:
            from bowstring.protocol.messages.create_topics import CreatableTopic

            value = self._configs.value
            counts = value("num.partitions"), value("default.replication.factor")
            await self._create(
                CreatableTopic(name=name, num_partitions=counts[0], replication_factor=counts[1]), ask=ask
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
        from bowstring.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig

        is_only_broker = self._is_own_cluster and len(self._quorum.image.brokers) <= 1
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1 if is_only_broker else replication_factor,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        is_new = await self._create(topic, "internal topics")  # does not wait behind those of clients
        await self._until_open(name)
        return is_new

    async def create_topics(
        self, topics: Sequence[NewTopic], ask: Ask | None = None
    ) -> dict[str, KafkaError]:
        """Has the controller create topics that a client does not create itself, unless they exist.

        Returns why topics could not be created, by name.

        Raises:
            KafkaError: The controller has refused all of them, or there is none.
        """
        from bowstring.protocol.messages.create_topics import (
            CreatableTopic,
            CreatableTopicConfig,
            CreateTopicsRequest,
        )

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
        answer: Any = await (ask or self._quorum.ask_leader)(CreateTopicsRequest(topics=wanted))
        return {
            result.name: KafkaError(Errors.of(result.error_code), result.error_message)
            for result in answer.topics
            if result.error_code and result.error_code != Errors.TOPIC_ALREADY_EXISTS.code
        }

    async def _create(self, topic: "CreatableTopic", client: str = "", *, ask: Ask | None = None) -> bool:
        from bowstring.protocol.messages.create_topics import CreateTopicsRequest

        request = CreateTopicsRequest(topics=[topic])
        answer: Any = await (ask(request) if ask else self._quorum.ask_leader(request, None, None, client))
        (result,) = answer.topics
        error = Errors.of(result.error_code)
        if error and error is not Errors.TOPIC_ALREADY_EXISTS:
            raise KafkaError(error, result.error_message)
        return not error

    async def _until_open(self, topic: str) -> None:
        """Waits until this broker has got the topic and opened its partitions."""
        await self.carried_out()
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._configs.value("request.timeout.ms") / 1000
        while not self._logs.of_topic(topic):
            if loop.time() >= deadline_s:
                raise KafkaError(Errors.REQUEST_TIMED_OUT, f"{topic} is not here yet")
            await asyncio.sleep(_LOOK_S)  # the log of the controller gets here soon
