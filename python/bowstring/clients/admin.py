"""Admin: topics, configs, groups, offsets and the cluster itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from bowstring.clients import forks, offset_queries
from bowstring.clients.admin_configs import AdminConfigs
from bowstring.clients.admin_groups import AdminGroups
from bowstring.clients.admin_results import ClusterDescription, LogDir, NewTopic, ReplicaSize
from bowstring.clients.client_configs import ADMIN
from bowstring.clients.cluster import Cluster, parse_bootstrap
from bowstring.clients.config_names import configurable
from bowstring.clients.connection import Api, Body
from bowstring.clients.errors import ClientError, ConfigError, ForkedError, broker_error
from bowstring.clients.network import NetworkClient
from bowstring.clients.records import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    Node,
    OffsetAndTimestamp,
    TopicInfo,
    TopicPartition,
)
from bowstring.engine.errors import Errors
from bowstring.engine.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from bowstring.engine.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from bowstring.engine.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from bowstring.engine.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from bowstring.engine.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from bowstring.engine.protocol.messages.describe_cluster import DescribeClusterRequest
from bowstring.engine.protocol.messages.describe_log_dirs import DescribeLogDirsRequest

# DeleteTopics names topics one struct each from this version on (KIP-516).
DELETE_STATES_VERSION = 6
# The broker's own time for an operation ends this much before ours, so that its answer arrives.
ANSWER_MARGIN_S = 1.0


class Admin(AdminConfigs, AdminGroups):
    """Looks at a cluster and changes it; any number of threads may share one.

    Args:
        bootstrap_servers: `host:port,host:port`, or a list of them; or a mapping with other clients' names.
        timeout_ms: how long each call waits for an answer.
        client_id: name that brokers log.

    Every method raises NoBrokerError when no broker can be reached in time, and a BrokerError (or the class
    of the error at hand, e.g. TopicExistsError) when one refuses.

    Example:
        >>> with Admin("localhost:9092") as admin:
        ...     topic_id = admin.create_topic("greetings", partitions=3)
        ...     print(sorted(admin.topics()))
        ['greetings']
    """

    @configurable(ADMIN)
    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] = "localhost:9092",
        *,
        timeout_ms: int = 30_000,
        client_id: str = "bowstring-admin",
    ):
        self._timeout_s = timeout_ms / 1000
        self._client = NetworkClient(client_id, request_timeout_ms=timeout_ms)
        self._cluster = Cluster(self._client, parse_bootstrap(bootstrap_servers), allow_auto_create=False)
        self._lock = threading.RLock()
        forks.watch(self)

    def after_fork(self, error: ForkedError) -> None:
        """In a forked child: the thread that held the lock may not be there."""
        self._lock = threading.RLock()

    def close(self) -> None:
        """Closes the connections."""
        with self._lock:
            self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------ topics

    def topics(self, *, internal: bool = False) -> dict[str, TopicInfo]:
        """Every topic by name; those of the cluster itself only with `internal`."""
        with self._lock:
            self._cluster.want_all = True
            self._cluster.refresh(self._timeout_s)
            return {n: info for n, info in self._cluster.topics.items() if internal or not info.internal}

    def list_topics(self) -> dict[str, TopicInfo]:
        """Every topic by name but those of the cluster itself: `topics` under its name in other clients."""
        return self.topics()

    def describe_topic(self, name: str) -> TopicInfo:
        """Partitions and leaders of one topic.

        Raises:
            UnknownTopicError: there is none of this name.
        """
        with self._lock:
            self._cluster.want(name)
            self._cluster.refresh(self._timeout_s)
            info = self._cluster.topics.get(name)
            if info is None:
                code = self._cluster.topic_errors.get(name, Errors.UNKNOWN_TOPIC_OR_PARTITION.code)
                self._cluster.wanted.discard(name)
                raise broker_error(code, f"topic {name!r}")
            return info

    def create_topics(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> dict[str, bytes]:
        """Creates topics; their ids by name.

        Raises:
            TopicExistsError, BrokerError: of the first that was refused; the others are created.
        """
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in topics],
            timeout_ms=self._broker_timeout_ms(),
            validate_only=validate_only,
        )
        response = self._controller_call(CreateTopicsRequest, request)
        for result in response.topics:
            if result.error_code:
                raise broker_error(result.error_code, f"creating topic {result.name!r}", result.error_message)
        return {result.name: result.topic_id for result in response.topics}

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
    ) -> bytes:
        """Creates one topic (-1: as many as the broker's default); its id. Raises as create_topics."""
        return self.create_topics([NewTopic(name, partitions, replication_factor, dict(configs or {}))])[name]

    def delete_topics(self, names: Iterable[str]) -> None:
        """Deletes topics and their records.

        Raises:
            UnknownTopicError, BrokerError: of the first that was refused; the others are deleted.
        """
        wanted = list(names)
        timeout_ms = self._broker_timeout_ms()

        def request(version: int) -> DeleteTopicsRequest:
            if version >= DELETE_STATES_VERSION:
                states = [DeleteTopicState(name=name) for name in wanted]
                return DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)
            return DeleteTopicsRequest(topic_names=wanted, timeout_ms=timeout_ms)

        response = self._controller_call(DeleteTopicsRequest, request)
        with self._lock:
            for name in wanted:
                self._cluster.forget(name)
        for result in response.responses:
            if result.error_code:
                raise broker_error(result.error_code, f"deleting topic {result.name!r}", result.error_message)

    def create_partitions(self, counts: Mapping[str, int], *, validate_only: bool = False) -> None:
        """Raises the number of partitions of topics to `counts`.

        Raises:
            BrokerError: of the first that was refused.
        """
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(name=name, count=count, assignments=None)
                for name, count in counts.items()
            ],
            timeout_ms=self._broker_timeout_ms(),
            validate_only=validate_only,
        )
        for result in self._controller_call(CreatePartitionsRequest, request).results:
            if result.error_code:
                raise broker_error(
                    result.error_code, f"adding partitions to {result.name!r}", result.error_message
                )

    # ------------------------------------------------------------ records and offsets

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """First record at or after each timestamp (ms, or a special one of `records`); None without any."""
        with self._lock:
            return offset_queries.list_offsets(self._cluster, timestamps, read_committed, self._timeout_s)

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """First offset of each partition."""
        return self._ends(partitions, EARLIEST_TIMESTAMP)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Offset behind the last record of each partition."""
        return self._ends(partitions, LATEST_TIMESTAMP)

    def _ends(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        found = self.list_offsets(dict.fromkeys(partitions, timestamp))
        return {partition: answer.offset for partition, answer in found.items() if answer is not None}

    def delete_records(self, before_offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Deletes records below the offsets (-1: all there are); the new first offsets (KIP-107).

        Raises:
            OffsetOutOfRangeError, BrokerError: of the first partition that was refused.
        """
        found: dict[TopicPartition, int] = {}
        for node, partitions in self._by_leader(before_offsets).items():
            topics: dict[str, list[DeleteRecordsPartition]] = {}
            for partition in partitions:
                part = DeleteRecordsPartition(
                    partition_index=partition.partition, offset=before_offsets[partition]
                )
                topics.setdefault(partition.topic, []).append(part)
            request = DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name=name, partitions=parts) for name, parts in topics.items()],
                timeout_ms=self._broker_timeout_ms(),
            )
            for topic in self._call(lambda node=node: node, DeleteRecordsRequest, request).topics:  # type: ignore[misc]
                for part in topic.partitions:
                    partition = TopicPartition(topic.name, part.partition_index)
                    if part.error_code:
                        raise broker_error(part.error_code, f"deleting records of {partition}")
                    found[partition] = part.low_watermark
        return found

    def _by_leader(self, partitions: Iterable[TopicPartition]) -> dict[Node, list[TopicPartition]]:
        found: dict[Node, list[TopicPartition]] = {}
        with self._lock:
            for partition in partitions:
                deadline = offset_queries.deadline_in(self._timeout_s)
                node = offset_queries.await_leader(self._cluster, partition, deadline)
                found.setdefault(node, []).append(partition)
        return found

    # ------------------------------------------------------------ the cluster

    def describe_cluster(self) -> ClusterDescription:
        """Brokers, controller and cluster id."""
        response = self._call(self._any_node, DescribeClusterRequest, DescribeClusterRequest())
        if response.error_code:
            raise broker_error(response.error_code, "describing the cluster", response.error_message)
        brokers = [Node(b.broker_id, b.host, b.port, b.rack) for b in response.brokers]
        return ClusterDescription(response.cluster_id, response.controller_id, sorted(brokers))

    def describe_log_dirs(self) -> dict[int, list[LogDir]]:
        """Directories of every broker by its id, with the sizes of the replicas in them."""
        found = {}
        for broker in self.describe_cluster().brokers:
            request = DescribeLogDirsRequest(topics=None)
            response = self._call(lambda node=broker: node, DescribeLogDirsRequest, request)  # type: ignore[misc]
            if response.error_code:
                raise broker_error(response.error_code, f"describing the log dirs of {broker}")
            found[broker.id] = [_log_dir(result) for result in response.results]
        return found

    def move_replicas(self, partitions: Iterable[TopicPartition], path: str, broker_id: int) -> None:
        """Moves replicas on a broker into another of its log directories, behind the answer (KIP-113).

        `describe_log_dirs` shows each as a replica with `is_future` until it is there.

        Raises:
            BrokerError: of the first that was refused; the others move.
        """
        topics: dict[str, list[int]] = {}
        for partition in partitions:
            topics.setdefault(partition.topic, []).append(partition.partition)
        wanted = [AlterReplicaLogDirTopic(name=name, partitions=found) for name, found in topics.items()]
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=wanted)])
        node = self._broker(str(broker_id))
        response = self._call(lambda: node, AlterReplicaLogDirsRequest, request)
        for topic in response.results:
            for result in topic.partitions:
                if result.error_code:
                    what = f"moving {topic.topic_name}-{result.partition_index} to {path}"
                    raise broker_error(result.error_code, what)

    # ------------------------------------------------------------ asking

    def _broker_timeout_ms(self) -> int:
        return int(max(self._timeout_s - ANSWER_MARGIN_S, self._timeout_s / 2) * 1000)

    def _any_node(self) -> Node:
        return self._cluster.any_node()

    def _broker(self, broker_id: str) -> Node:
        brokers = {str(broker.id): broker for broker in self.describe_cluster().brokers}
        if broker_id not in brokers:
            raise ConfigError(f"there is no broker {broker_id!r}; there are {', '.join(sorted(brokers))}")
        return brokers[broker_id]

    def _call(self, pick: Callable[[], Node | None], api: Api, body: Body) -> Any:
        with self._lock:
            return self._cluster.call(pick, api, body, self._timeout_s)

    def _controller_call(self, api: Api, body: Body) -> Any:
        """Asks any broker: it forwards to the controller where it is not the controller itself (KIP-590)."""
        return self._call(self._any_node, api, body)

    def _coordinator_call(self, group: str, api: Api, body: Body, check: Callable[[Any], None]) -> Any:
        """Asks the group's coordinator; again when `check` raises what is retriable, as after a move."""

        def attempt(left_s: float) -> Any:
            node = offset_queries.find_coordinator(self._cluster, group, left_s)
            response = self._client.wait(self._client.send(node, api, body, timeout_s=left_s))
            check(response)
            return response

        with self._lock:
            return offset_queries.retried(self._cluster, self._timeout_s, attempt)


def _creatable(topic: NewTopic) -> CreatableTopic:
    assignments = [
        CreatableReplicaAssignment(partition_index=partition, broker_ids=list(brokers))
        for partition, brokers in topic.assignments.items()
    ]
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if assignments else topic.partitions,
        replication_factor=-1 if assignments else topic.replication_factor,
        assignments=assignments,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


def _log_dir(result: Any) -> LogDir:
    if result.error_code:
        error: ClientError | None = broker_error(result.error_code, f"log directory {result.log_dir}")
    else:
        error = None
    replicas = {
        TopicPartition(topic.name, part.partition_index): ReplicaSize(
            part.partition_size, part.offset_lag, part.is_future_key
        )
        for topic in result.topics
        for part in topic.partitions
    }
    return LogDir(result.log_dir, result.total_bytes, result.usable_bytes, replicas, error)
