"""Implements Admin: topics, configs, groups, offsets and the cluster itself."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from bowstring.clients import forks
from bowstring.clients.admin.acls import AdminAcls
from bowstring.clients.admin.client_quotas import AdminClientQuotas
from bowstring.clients.admin.cluster import AdminCluster
from bowstring.clients.admin.configs import AdminConfigs
from bowstring.clients.admin.delegation_tokens import AdminDelegationTokens
from bowstring.clients.admin.features import AdminFeatures
from bowstring.clients.admin.group_lags import AdminGroupLags
from bowstring.clients.admin.groups import AdminGroups
from bowstring.clients.admin.many_groups import AdminManyGroups
from bowstring.clients.admin.results import (
    ClusterDescription,
    ConfigValue,
    LogDir,
    NewTopic,
    ReplicaSize,
    config_text,
)
from bowstring.clients.admin.scram_users import AdminScramUsers
from bowstring.clients.admin.transactions import AdminTransactions
from bowstring.clients.arguments import checked_methods
from bowstring.clients.config.aliases import AdminAliases
from bowstring.clients.config.client import ADMIN
from bowstring.clients.config.config_table import configurable
from bowstring.clients.config.security import client_security
from bowstring.clients.descriptions import description
from bowstring.clients.errors import ClientError, ConfigError, ForkedError, broker_error
from bowstring.clients.group import offset_queries
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.connection import Api, Body
from bowstring.clients.net.metadata import ClusterMetadata, parse_bootstrap
from bowstring.clients.records import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    Node,
    OffsetAndTimestamp,
    TopicInfo,
    TopicPartition,
)
from bowstring.clients.troubles import OnError, Troubles
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from bowstring.protocol.messages.api_versions import ApiVersionsRequest
from bowstring.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from bowstring.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from bowstring.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from bowstring.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from bowstring.protocol.messages.describe_acls import DescribeAclsRequest
from bowstring.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from bowstring.protocol.messages.describe_cluster import DescribeClusterRequest
from bowstring.protocol.messages.describe_configs import DescribeConfigsRequest
from bowstring.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from bowstring.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from bowstring.protocol.messages.describe_quorum import DescribeQuorumRequest
from bowstring.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from bowstring.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from bowstring.protocol.messages.metadata import MetadataRequest

_log = logging.getLogger("bowstring.admin")

# From this version on DeleteTopics has one struct for each topic (KIP-516).
DELETE_STATES_VERSION = 6
# The broker's timeout for an operation is this much shorter than ours, so that its answer arrives in time.
ANSWER_MARGIN_S = 1.0
# For this long, other brokers may lag behind changes made here; the pause between two checks.
LAG_S = 5.0
LAG_LOOK_S = 0.02
# Requests that change nothing.
QUESTIONS = {
    ApiVersionsRequest,
    DescribeAclsRequest,
    DescribeClientQuotasRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeDelegationTokenRequest,
    DescribeQuorumRequest,
    DescribeUserScramCredentialsRequest,
    ListPartitionReassignmentsRequest,
}


@checked_methods()
class Admin(
    AdminConfigs,
    AdminGroups,
    AdminGroupLags,
    AdminManyGroups,
    AdminCluster,
    AdminFeatures,
    AdminTransactions,
    AdminAcls,
    AdminScramUsers,
    AdminClientQuotas,
    AdminDelegationTokens,
):
    """Inspects and changes a cluster. Any number of threads may share one.

    Args:
        bootstrap_servers: `host:port,host:port`, or a list of them; or a mapping with other clients' names.
        timeout_ms: how long each call waits for an answer.
        client_id: name that brokers log.
        bootstrap_resolve_timeout_ms: how long the names of bootstrap_servers may stay unresolved from the
            first use on; then every call raises BootstrapResolutionError. 0 looks them up at once. None, the
            default, looks them up with every connection, for as long as each call may take (KIP-909).
        metadata_cluster_check_enable: brokers since Kafka 4.4 refuse a connection that was meant for another
            broker or cluster, and the client returns to the bootstrap servers (KIP-1242).
        security: settings of TLS and SASL by Kafka's, librdkafka's or kafka-python's names, such as
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256", …}; each may also be
            given as a keyword (security_protocol="SSL"). None: plain text.
        on_error: called during calls with each problem that the client logs and retries, such as a broker
            that is down. An exception that it raises is raised by the call.

    Every method raises NoBrokerError when no broker can be reached in time, and a BrokerError (or a subclass,
    such as TopicExistsError) when a broker refuses.

    Examples:
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
        bootstrap_resolve_timeout_ms: int | None = None,
        metadata_cluster_check_enable: bool = True,
        security: Mapping[str, Any] | None = None,
        on_error: OnError | None = None,
        **_aliases: Unpack[AdminAliases],
    ):
        self._timeout_s = timeout_ms / 1000
        self.troubles = Troubles(_log)
        self.listener = self.troubles.listen(on_error)
        self._client = NetworkClient(
            client_id,
            request_timeout_ms=timeout_ms,
            troubles=self.troubles,
            security=client_security(security),
        )
        self._cluster = ClusterMetadata(
            self._client,
            parse_bootstrap(bootstrap_servers),
            allow_auto_create=False,
            check_cluster=metadata_cluster_check_enable,
            resolve_timeout_ms=bootstrap_resolve_timeout_ms,
        )
        self._lock = threading.RLock()
        # Topics that were created (True) or deleted here, and until when other brokers may lag behind.
        self._changed: dict[str, tuple[bool, float]] = {}
        forks.watch(self)

    def after_fork(self, error: ForkedError) -> None:
        """Replaces the lock in a forked child: the thread that held it may not exist there.

        Args:
            error: why the client cannot be used in the child; unused here.
        """
        self._lock = threading.RLock()

    def close(self) -> None:
        """Closes the connections."""
        with self._lock:
            self._client.close()

    def __repr__(self) -> str:
        made = "_changed" in vars(self)
        servers = self._cluster.bootstrap if made else None
        return description(self, servers, closed=not made or self._client.is_closed)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------ topics

    def _note(self, changed: Mapping[str, bool]) -> None:
        now_s = time.monotonic()
        self._changed = {name: each for name, each in self._changed.items() if each[1] > now_s}
        self._changed |= {name: (exists, now_s + LAG_S) for name, exists in changed.items()}

    def _refresh(self, names: Sequence[str]) -> None:
        """Refreshes metadata until it has the topics created here, and not those deleted here: another
        broker may answer, and lag behind.
        """

        def lags(name: str) -> bool:
            exists, until_s = self._changed.get(name, (False, 0.0))
            return exists != (name in self._cluster.topics) and time.monotonic() < until_s

        self._cluster.refresh(self._timeout_s)
        while any(map(lags, names)):
            self._client.poll(LAG_LOOK_S)
            self._cluster.refresh(self._timeout_s)

    def topics(self, *, internal: bool = False) -> dict[str, TopicInfo]:
        """Returns every topic by name; internal topics only with `internal`.

        Args:
            internal: also returns internal topics, such as __consumer_offsets.
        """
        with self._lock:
            self._cluster.want_all = True
            try:
                self._refresh(list(self._changed))
            finally:
                self._cluster.want_all = False  # what other calls look up is small
            return {n: info for n, info in self._cluster.topics.items() if internal or not info.internal}

    def list_topics(self) -> dict[str, TopicInfo]:
        """Returns every topic by name except internal ones; other clients' name for `topics`."""
        return self.topics()

    def describe_topic(self, name: str) -> TopicInfo:
        """Returns partitions and leaders of one topic.

        Args:
            name: name of the topic.

        Raises:
            UnknownTopicError: the topic does not exist.
        """
        with self._lock:
            self._cluster.want(name)
            self._refresh([name])
            info = self._cluster.topics.get(name)
            if info is None:
                code = self._cluster.topic_errors.get(name, Errors.UNKNOWN_TOPIC_OR_PARTITION.code)
                self._cluster.forget(name)
                raise broker_error(code, f"topic {name!r}")
            return info

    def create_topics(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> dict[str, bytes]:
        """Creates topics; returns their ids by name.

        Args:
            topics: the topics, each with its partitions and configs.
            validate_only: checks the request, but creates nothing.

        Raises:
            TopicExistsError, BrokerError: the first refusal; the other topics are created.
        """
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in topics],
            timeout_ms=self._broker_timeout_ms(),
            validate_only=validate_only,
        )
        response = self._to_controller(CreateTopicsRequest, request)
        if not validate_only:
            self._note({each.name: True for each in response.topics if not each.error_code})
        for result in response.topics:
            if result.error_code:
                raise broker_error(result.error_code, f"creating topic {result.name!r}", result.error_message)
        return {result.name: result.topic_id for result in response.topics}

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, ConfigValue] | None = None,
    ) -> bytes:
        """Creates one topic (-1: the broker's default); returns its id. Raises like create_topics.

        Args:
            name: name of the topic.
            partitions: number of partitions.
            replication_factor: number of replicas of each partition.
            configs: topic configs by name; the others have the broker's defaults.
        """
        return self.create_topics([NewTopic(name, partitions, replication_factor, dict(configs or {}))])[name]

    def delete_topics(self, names: Iterable[str]) -> None:
        """Deletes topics and their records.

        Args:
            names: names of the topics.

        Raises:
            UnknownTopicError, BrokerError: the first refusal; the other topics are deleted.
        """
        wanted = list(names)
        timeout_ms = self._broker_timeout_ms()

        def request(version: int) -> DeleteTopicsRequest:
            if version >= DELETE_STATES_VERSION:
                states = [DeleteTopicState(name=name) for name in wanted]
                return DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)
            return DeleteTopicsRequest(topic_names=wanted, timeout_ms=timeout_ms)

        response = self._to_controller(DeleteTopicsRequest, request)
        with self._lock:
            for name in wanted:
                self._cluster.forget(name)
        self._note({each.name: False for each in response.responses if each.name and not each.error_code})
        for result in response.responses:
            if result.error_code:
                raise broker_error(result.error_code, f"deleting topic {result.name!r}", result.error_message)

    def create_partitions(self, counts: Mapping[str, int], *, validate_only: bool = False) -> None:
        """Raises the number of partitions of topics to `counts`.

        Args:
            counts: new number of partitions, by topic; it may not be lower than the present one.
            validate_only: checks the request, but changes nothing.

        Raises:
            BrokerError: the first refusal.
        """
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(name=name, count=count, assignments=None)
                for name, count in counts.items()
            ],
            timeout_ms=self._broker_timeout_ms(),
            validate_only=validate_only,
        )
        for result in self._to_controller(CreatePartitionsRequest, request).results:
            if result.error_code:
                raise broker_error(
                    result.error_code, f"adding partitions to {result.name!r}", result.error_message
                )

    # ------------------------------------------------------------ records and offsets

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Finds the first record at or after each timestamp (ms, or a special one of `records`); None without
        one.

        Args:
            timestamps: milliseconds since the epoch, or a special timestamp of `records`, by partition.
            read_committed: answers for readers with read_committed: the end is the last stable offset.
        """
        with self._lock:
            return offset_queries.list_offsets(self._cluster, timestamps, read_committed, self._timeout_s)

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the first offset of each partition.

        Args:
            partitions: topics and partition numbers.
        """
        return self._ends(partitions, EARLIEST_TIMESTAMP)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the offset after the last record of each partition.

        Args:
            partitions: topics and partition numbers.
        """
        return self._ends(partitions, LATEST_TIMESTAMP)

    def _ends(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        found = self.list_offsets(dict.fromkeys(partitions, timestamp))
        return {partition: answer.offset for partition, answer in found.items() if answer is not None}

    def delete_records(self, before_offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Deletes records below the offsets (-1: all records); returns the new first offsets (KIP-107).

        Args:
            before_offsets: first offset to keep, by partition; -1 deletes all records.

        Raises:
            OffsetOutOfRangeError, BrokerError: the error of the first partition that was refused.
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
        """Returns brokers, controller and cluster id."""
        response = self._call(self._any_node, DescribeClusterRequest, DescribeClusterRequest())
        if response.error_code:
            raise broker_error(response.error_code, "describing the cluster", response.error_message)
        brokers = [Node(b.broker_id, b.host, b.port, b.rack) for b in response.brokers]
        return ClusterDescription(response.cluster_id, response.controller_id, sorted(brokers))

    def describe_log_dirs(self) -> dict[int, list[LogDir]]:
        """Returns the directories of every broker by its id, with the sizes of the replicas in them."""
        return {node.id: self._log_dirs(node) for node in self.describe_cluster().brokers}

    def describe_log_dirs_of(
        self, broker_id: int, partitions: Iterable[TopicPartition] | None = None
    ) -> list[LogDir]:
        """Returns the directories of one broker, with the sizes of the replicas in them.

        Args:
            broker_id: id of the broker.
            partitions: whose replicas to describe; None for all.

        Raises:
            ConfigError: there is no such broker.
        """
        return self._log_dirs(self._broker(str(broker_id)), partitions)

    def _log_dirs(self, broker: Node, partitions: Iterable[TopicPartition] | None = None) -> list[LogDir]:
        topics = None
        if partitions is not None:
            numbers: dict[str, list[int]] = {}
            for topic, number in partitions:
                numbers.setdefault(topic, []).append(number)
            topics = [DescribableLogDirTopic(topic=name, partitions=each) for name, each in numbers.items()]
        request = DescribeLogDirsRequest(topics=topics)
        response = self._call(lambda: broker, DescribeLogDirsRequest, request)
        if response.error_code:
            raise broker_error(response.error_code, f"describing the log dirs of {broker}")
        return [_log_dir(result) for result in response.results]

    def move_replicas(self, partitions: Iterable[TopicPartition], path: str, broker_id: int) -> None:
        """Starts moves of replicas on a broker into another of its log directories (KIP-113).

        Moves continue after the answer. `describe_log_dirs` shows each as a replica with `is_future` until it
        ends.

        Args:
            partitions: topics and partition numbers.
            path: the log directory to move to, as it stands in the broker's log.dirs.
            broker_id: the broker that has the replicas.

        Raises:
            BrokerError: the first refusal; the others move.
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

    # ------------------------------------------------------------ requests

    def _broker_timeout_ms(self) -> int:
        return int(max(self._timeout_s - ANSWER_MARGIN_S, self._timeout_s / 2) * 1000)

    def _any_node(self) -> Node:
        return self._cluster.any_node()

    def _broker(self, broker_id: str) -> Node:
        brokers = {str(broker.id): broker for broker in self.describe_cluster().brokers}
        if broker_id not in brokers:
            raise ConfigError(
                f"there is no broker {broker_id!r}; existing brokers: {', '.join(sorted(brokers))}"
            )
        return brokers[broker_id]

    def _call(self, pick: Callable[[], Node | None], api: Api, body: Body) -> Any:
        with self._lock:
            if pick == self._any_node:
                return self._ask_any(api, body, self._timeout_s)
            return self._cluster.call(pick, api, body, self._timeout_s)

    def _ask_any(self, api: Api, body: Body, timeout_s: float) -> Any:
        """Sends a query to any broker that does not hang: if one is silent, to another one, too. A change
        must not be sent twice, so it goes to a broker that has just answered a query.
        """
        if api in QUESTIONS:
            return self._cluster.ask_any(api, body, timeout_s)[0]
        deadline = offset_queries.deadline_in(timeout_s)
        _, node = self._cluster.ask_any(MetadataRequest, MetadataRequest(topics=[]), timeout_s)
        left_s = max(0.001, deadline - time.monotonic())
        nodes = itertools.chain([node], iter(self._any_node, None))
        return self._cluster.call(lambda: next(nodes), api, body, left_s)

    def _coordinator_call(self, group: str, api: Api, body: Body, check: Callable[[Any], None]) -> Any:
        """Sends to the group's coordinator; retries when `check` raises a retriable error, such as after the
        coordinator moved.
        """

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
        configs=[
            CreatableTopicConfig(name=name, value=config_text(value)) for name, value in topic.configs.items()
        ],
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
