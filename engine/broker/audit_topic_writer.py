"""Writes the audit topic: here where this broker leads a partition, else through the broker that does."""

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from bowstring._native.record.encode import BatchBuilder
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.coordinators.committed_appends import CommittedAppends
from bowstring.engine.network.broker_addresses import inter_broker_listener, inter_broker_security
from bowstring.engine.network.broker_peers import BrokerPeers
from bowstring.engine.network.connection import NoAnswerError, UnsupportedByPeerError
from bowstring.engine.security.audit_topic import AuditRecord, AuditWriteError
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from bowstring.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from bowstring.protocol.partitioning import coordinator_partition

if TYPE_CHECKING:
    from bowstring._native.server.data_plane import DataPlane
    from bowstring.engine.quorum.service import QuorumService
    from bowstring.engine.storage.log_manager import LogManager

_PURPOSE: Final = "audit"
_VERSIONS: Final = (3, 12)  # those with the topic's name
_ALL_REPLICAS: Final = -1
_LATE_S: Final = 5.0
_CONFIGS: Final = {"cleanup.policy": "delete", "retention.ms": str(30 * 86_400_000)}


class AuditTopicWriter:
    """Writes one topic. Used on the control loop.

    Args:
        name: The topic.
        plane: This node's data plane of a broker; None with `logs`: it is only a controller.
        is_own_cluster: No other broker is meant to join: while none has, the topic gets one replica.

    Raises:
        ConfigError: A setting with which no broker could be reached.
    """

    def __init__(
        self,
        name: str,
        quorum: "QuorumService",
        configs: BrokerConfigs,
        *,
        plane: "DataPlane | None" = None,
        logs: "LogManager | None" = None,
        is_own_cluster: bool = False,
    ) -> None:
        self._name = name
        self._quorum = quorum
        self._configs = configs
        self._plane = plane
        self._is_own_cluster = is_own_cluster
        self._appends = CommittedAppends(logs, plane) if logs is not None and plane is not None else None
        self._listener = inter_broker_listener(configs)
        self._security = inter_broker_security(configs)
        if self._security is not None and not is_own_cluster:
            self._security.check()
        self._peers = BrokerPeers(quorum, self._listener, self._security)
        quorum.on_applied.append(self._look)
        quorum.on_snapshot.append(self._look)

    def close(self) -> None:
        """Closes the connections."""
        self._peers.close()
        if self._appends is not None:
            self._appends.stop()

    def _look(self, *_: object) -> None:
        self._peers.look()
        if self._appends is not None and self._name not in self._quorum.image.topics:
            self._appends.topic_deleted(self._name)

    def advanced(self, topic: str, partition: int) -> None:
        """Passes on what `DataPlane.watch` has requested."""
        if self._appends is not None:
            self._appends.advanced(topic, partition)

    def _timeout_s(self) -> float:
        return float(self._configs.value("request.timeout.ms")) / 1000

    # ------------------------------------------------------------ the topic

    def partition_of(self, key: str, partitions: int) -> int:
        """Returns the partition of a key."""
        return coordinator_partition(key, partitions)

    async def partitions(self) -> int:
        """Returns how many partitions the topic has; has it created when it is missing.

        Raises:
            AuditWriteError: It cannot be created, or is not here yet.
        """
        topic = self._quorum.image.topics.get(self._name)
        if topic is None:
            try:
                await self._create()
            except KafkaError as error:
                raise AuditWriteError(
                    f"it cannot be created: {error.detail or error.error.message}"
                ) from error
            topic = self._quorum.image.topics.get(self._name)
            if topic is None:
                raise AuditWriteError("it was created, and is not here yet")
        return len(topic.partitions)

    async def _create(self) -> None:
        value = self._configs.value
        is_only_broker = self._is_own_cluster and len(self._quorum.image.brokers) <= 1
        topic = CreatableTopic(
            name=self._name,
            num_partitions=value("bowstring.audit.topic.partitions"),
            replication_factor=1 if is_only_broker else value("bowstring.audit.topic.replication.factor"),
            configs=[CreatableTopicConfig(name=key, value=setting) for key, setting in _CONFIGS.items()],
        )
        request = CreateTopicsRequest(topics=[topic])
        answer: Any = await self._quorum.ask_leader(request, None, None, "internal topics")
        (result,) = answer.topics
        error = Errors.of(result.error_code)
        if error and error is not Errors.TOPIC_ALREADY_EXISTS:
            raise KafkaError(error, result.error_message)

    def _max_bytes(self) -> int:
        own = self._quorum.image.topic_configs(self._name).get("max.message.bytes")
        return int(self._configs.value("message.max.bytes") if own is None else own)

    # ------------------------------------------------------------ writing

    async def write(self, partition: int, records: Sequence[AuditRecord]) -> int:
        """Writes records to a partition; returns how many of the first ones are committed. 0: the topic does
        not accept one as large as the first one.

        Raises:
            AuditWriteError: Perhaps none is written.
        """
        if not records:
            return 0
        builder = BatchBuilder(self._max_bytes())
        for record in records:
            if not builder.append(record.key, record.value, record.time_ms):
                break
        if not builder.count:
            return 0
        error, why = await self._append(partition, builder.build())
        if error is Errors.MESSAGE_TOO_LARGE:  # the leader has another message.max.bytes
            return await self.write(partition, records[: builder.count // 2])
        if error:
            detail = f"{why}; {_ADVICE[error]}" if error in _ADVICE else why
            raise AuditWriteError(f"{self._name}-{partition}: {error.name}, {detail}")
        return builder.count

    async def _append(self, partition: int, batch: bytes) -> tuple[Error, str]:
        """Returns how writing a batch ended, and a text for people."""
        here = self._appends
        if here is not None and self._plane is not None and self._plane.led_epoch(self._name, partition) >= 0:
            error = await self._append_here(here, partition, batch)
            return error, error.message
        return await self._produce(partition, batch)

    async def _append_here(self, appends: CommittedAppends, partition: int, batch: bytes) -> Error:
        now_ms = time.time_ns() // 1_000_000
        outcome = appends.append((self._name, partition), batch, now_ms)
        if isinstance(outcome, Error):
            return outcome
        try:
            async with asyncio.timeout(self._timeout_s()):
                return await outcome
        except TimeoutError:
            return Errors.REQUEST_TIMED_OUT

    def _leader(self, partition: int) -> int:
        topic = self._quorum.image.topics.get(self._name)
        return topic.partitions[partition].leader if topic and partition < len(topic.partitions) else -1

    async def _produce(self, partition: int, batch: bytes) -> tuple[Error, str]:
        leader = self._leader(partition)
        if self._peers.address(leader) is None:
            if leader in self._quorum.image.brokers:
                return Errors.LEADER_NOT_AVAILABLE, (
                    f"broker {leader} has no listener {self._listener}; set inter.broker.listener.name as "
                    "on the brokers"
                )
            return Errors.LEADER_NOT_AVAILABLE, "it has no leader"
        data = PartitionProduceData(index=partition, records=batch)
        request = ProduceRequest(
            acks=_ALL_REPLICAS,
            timeout_ms=int(self._timeout_s() * 1000),
            topic_data=[TopicProduceData(name=self._name, partition_data=[data])],
        )
        try:
            answer: Any = await self._peers.exchange(
                *(_PURPOSE, leader, request, _VERSIONS),
                timeout_s=self._timeout_s() + _LATE_S,  # the broker answers first when its time is over
                is_wanted=lambda: self._leader(partition) == leader,
            )
        except (NoAnswerError, UnsupportedByPeerError, OSError) as failure:
            return Errors.NETWORK_EXCEPTION, f"broker {leader}: {failure}"
        result = answer.responses[0].partition_responses[0]
        error = Errors.of(result.error_code)
        return error, result.error_message or error.message


_ADVICE: Final = {
    Errors.TOPIC_AUTHORIZATION_FAILED: "brokers and controllers need WRITE on it: name their principals in "
    "super.users, or add a rule",
}
