"""Implements Admin's methods for the nodes of a cluster: brokers, replicas, leaders and the quorum."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from bowstring.clients.admin.calls import AdminCalls
from bowstring.clients.admin.results import BrokerDescription, QuorumDescription, QuorumReplica, Reassignment
from bowstring.clients.errors import ClientError, ConfigError, broker_error
from bowstring.clients.group import offset_queries
from bowstring.clients.group.offset_requests import ANY_REPLICA, list_offsets_request
from bowstring.clients.group.protocol import by_topic
from bowstring.clients.records import LATEST_TIMESTAMP, Node, TopicPartition
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.add_raft_voter import AddRaftVoterRequest
from bowstring.protocol.messages.add_raft_voter import Listener as VoterListener
from bowstring.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from bowstring.protocol.messages.describe_cluster import DescribeClusterRequest
from bowstring.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    ReplicaState,
)
from bowstring.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from bowstring.protocol.messages.list_offsets import ListOffsetsRequest
from bowstring.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from bowstring.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from bowstring.protocol.messages.unregister_broker import UnregisterBrokerRequest
from bowstring.protocol.messages.unregister_controller import UnregisterControllerRequest

if TYPE_CHECKING:
    from bowstring.clients.net.connection import Api, Body
    from bowstring.clients.net.metadata import ClusterMetadata

# DescribeCluster lists fenced brokers from this version on (KIP-1073).
FENCED_VERSION = 2
# Of ElectLeaders; version 0 has only preferred leaders.
ELECTIONS = {"preferred": 0, "unclean": 1}
METADATA_TOPIC = "__cluster_metadata"


class AdminCluster(AdminCalls):
    """Mixed into Admin."""

    if TYPE_CHECKING:
        _cluster: ClusterMetadata
        _lock: threading.RLock
        _timeout_s: float

        def _ask_any(self, api: Api, body: Body, timeout_s: float) -> Any: ...

    # ------------------------------------------------------------ brokers

    def describe_brokers(self) -> list[BrokerDescription]:
        """Returns all registered brokers by id, also fenced ones if the cluster lists them."""

        def request(version: int) -> DescribeClusterRequest:
            tells.append(version >= FENCED_VERSION)
            return DescribeClusterRequest(include_fenced_brokers=version >= FENCED_VERSION)

        tells: list[bool] = []
        response = self._call(self._any_node, DescribeClusterRequest, request)
        if response.error_code:
            raise broker_error(response.error_code, "describing the brokers", response.error_message)
        return sorted(
            BrokerDescription(each.broker_id, each.host, each.port, each.rack, each.is_fenced)
            if tells[-1]
            else BrokerDescription(each.broker_id, each.host, each.port, each.rack, None)
            for each in response.brokers
        )

    def unregister_broker(self, broker_id: int) -> None:
        """Removes a broker that has stopped for good from the cluster (KIP-631).

        A broker that still runs registers again.

        Args:
            broker_id: id of the broker.

        Raises:
            BrokerError: no such broker is registered.
        """
        response = self._to_controller(UnregisterBrokerRequest, UnregisterBrokerRequest(broker_id=broker_id))
        if response.error_code:
            context = f"unregistering broker {broker_id}"
            raise broker_error(response.error_code, context, response.error_message)

    def unregister_controller(self, controller_id: int) -> None:
        """Removes the registration of a controller that has stopped for good (KIP-1312).

        While it is registered, no feature can have a level that it does not support. A controller that still
        runs registers again when it next starts.

        Args:
            controller_id: node id of the controller.

        Raises:
            BrokerError: no such controller is registered, it is the active one, or metadata.version is
                below 33 (Kafka 4.4).
        """
        request = UnregisterControllerRequest(controller_id=controller_id)
        response = self._to_controller(UnregisterControllerRequest, request)
        if response.error_code:
            context = f"unregistering controller {controller_id}"
            raise broker_error(response.error_code, context, response.error_message)

    # ------------------------------------------------------------ replicas and leaders

    def alter_reassignments(self, replicas: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        """Starts or cancels reassignments of partitions (KIP-455). They continue after the answer.

        Args:
            replicas: the new brokers of each partition, the preferred leader first; None cancels the
                reassignment under way.

        Raises:
            BrokerError: the first refusal; the others are begun.
        """
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=self._broker_timeout_ms(),
            topics=[
                ReassignableTopic(
                    name=topic,
                    partitions=[
                        ReassignablePartition(partition_index=number, replicas=_listed(wanted))
                        for number in numbers
                        for wanted in (replicas[TopicPartition(topic, number)],)
                    ],
                )
                for topic, numbers in by_topic(replicas).items()
            ],
        )
        response = self._to_controller(AlterPartitionReassignmentsRequest, request)
        if response.error_code:
            raise broker_error(response.error_code, "reassigning partitions", response.error_message)
        for answered in response.responses:
            for part in answered.partitions:
                if part.error_code:
                    context = f"reassigning {TopicPartition(answered.name, part.partition_index)}"
                    raise broker_error(part.error_code, context, part.error_message)

    def list_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Returns the reassignments under way, by partition.

        Args:
            partitions: topics and partition numbers; None for all.
        """
        topics = None
        if partitions is not None:
            topics = [
                ListPartitionReassignmentsTopics(name=topic, partition_indexes=numbers)
                for topic, numbers in by_topic(partitions).items()
            ]
        request = ListPartitionReassignmentsRequest(timeout_ms=self._broker_timeout_ms(), topics=topics)
        response = self._to_controller(ListPartitionReassignmentsRequest, request)
        if response.error_code:
            raise broker_error(response.error_code, "listing reassignments", response.error_message)
        return {
            TopicPartition(topic.name, part.partition_index): Reassignment(
                tuple(part.replicas), tuple(part.adding_replicas), tuple(part.removing_replicas)
            )
            for topic in response.topics
            for part in topic.partitions
        }

    def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        election: Literal["preferred", "unclean"] = "preferred",
    ) -> dict[TopicPartition, ClientError | None]:
        """Elects leaders of partitions (KIP-460).

        Args:
            partitions: topics and partition numbers; None for all.
            election: "preferred" elects the first replica where it is in sync. "unclean" elects any live
                replica of partitions without a leader, and loses the records that it does not have.

        Returns:
            What happened to each partition: None after an election, else the error. With all partitions
            requested, those that need no election are left out.

        Raises:
            ConfigError: there is no such election.
            BrokerError: the whole request is refused.
        """
        if election not in ELECTIONS:
            raise ConfigError(f"election is one of {', '.join(ELECTIONS)}, not {election!r}")
        wanted = None
        if partitions is not None:
            wanted = [
                TopicPartitions(topic=topic, partitions=numbers)
                for topic, numbers in by_topic(partitions).items()
            ]
        kind, timeout_ms = ELECTIONS[election], self._broker_timeout_ms()

        def request(version: int) -> ElectLeadersRequest:
            if version == 0 and kind == ELECTIONS["preferred"]:
                return ElectLeadersRequest(topic_partitions=wanted, timeout_ms=timeout_ms)
            return ElectLeadersRequest(election_type=kind, topic_partitions=wanted, timeout_ms=timeout_ms)

        response = self._to_controller(ElectLeadersRequest, request)
        if response.error_code:
            raise broker_error(response.error_code, f"electing {election} leaders")
        return {
            partition: broker_error(part.error_code, f"electing a leader of {partition}", part.error_message)
            if part.error_code
            else None
            for topic in response.replica_election_results
            for part in topic.partition_result
            for partition in (TopicPartition(topic.topic, part.partition_id),)
        }

    def replica_ends(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, dict[int, int]]:
        """Returns the log end of each replica by partition and broker id, also of those that follow.

        Replicas on brokers that are fenced or do not answer are left out. Requests run in parallel,
        but a partition that is written to has another end a moment later.

        Args:
            partitions: topics and partition numbers; None for all.
        """
        with self._lock:
            self._cluster.want_all = True
            self._cluster.refresh(self._timeout_s)
            wanted = None if partitions is None else {TopicPartition(*each) for each in partitions}
            asked: dict[int, dict[TopicPartition, int]] = {}
            for name, topic in self._cluster.topics.items():
                for number, info in topic.partitions.items():
                    partition = TopicPartition(name, number)
                    if wanted is None or partition in wanted:
                        for id in set(info.replicas) & set(self._cluster.brokers):
                            asked.setdefault(id, {})[partition] = LATEST_TIMESTAMP
            return self._ends_at(asked)

    def _ends_at(
        self, asked: Mapping[int, dict[TopicPartition, int]]
    ) -> dict[TopicPartition, dict[int, int]]:
        client = self._cluster.client
        pending = {}
        for id, timestamps in asked.items():
            request = list_offsets_request(timestamps, False, ANY_REPLICA)
            node = self._cluster.brokers[id]
            pending[id] = client.send(node, ListOffsetsRequest, request, timeout_s=self._timeout_s)
        found: dict[TopicPartition, dict[int, int]] = {}
        for id, answer in pending.items():
            try:
                topics = client.wait(answer).topics
            except ClientError:
                continue  # the broker is down, which other calls report
            for topic in topics:
                for part in topic.partitions:
                    if not part.error_code:
                        partition = TopicPartition(topic.name, part.partition_index)
                        found.setdefault(partition, {})[id] = part.offset
        return found

    # ------------------------------------------------------------ the quorum

    def describe_quorum(self) -> QuorumDescription:
        """Returns the voters and observers of the metadata quorum and their progress (KIP-595, KIP-853)."""
        topic = DescribeQuorumRequestTopicData(
            topic_name=METADATA_TOPIC, partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
        )

        def check(response: Any) -> None:
            for each in (response, *(part for topic in response.topics for part in topic.partitions)):
                if each.error_code:
                    raise broker_error(each.error_code, "describing the quorum", each.error_message)

        request = DescribeQuorumRequest(topics=[topic])
        response = self._to_controller(DescribeQuorumRequest, request, check)
        (part,) = response.topics[0].partitions
        return QuorumDescription(
            part.leader_id,
            part.leader_epoch,
            part.high_watermark,
            sorted(map(_replica, part.current_voters)),
            sorted(map(_replica, part.observers)),
            {
                node.node_id: [(each.name, each.host, each.port) for each in node.listeners]
                for node in response.nodes
            },
        )

    def add_raft_voter(
        self, node_id: int, directory_id: bytes, listeners: Iterable[tuple[str, str, int]]
    ) -> None:
        """Adds a controller that follows the metadata log to the voters, and waits until that is committed
        (KIP-853).

        Args:
            node_id: id of the controller.
            directory_id: id of its metadata directory, from its meta.properties.
            listeners: name, host and port of each of its listeners of controllers.

        Raises:
            BrokerError: the leader refuses; the message says why.
        """
        request = AddRaftVoterRequest(
            cluster_id=self._known_cluster_id(),
            timeout_ms=self._broker_timeout_ms(),
            voter_id=node_id,
            voter_directory_id=directory_id,
            listeners=[VoterListener(name=name, host=host, port=port) for name, host, port in listeners],
        )
        response = self._to_controller(AddRaftVoterRequest, request)
        if response.error_code:
            context = f"adding controller {node_id} to the voters"
            raise broker_error(response.error_code, context, response.error_message)

    def remove_raft_voter(self, node_id: int, directory_id: bytes) -> None:
        """Removes a controller from the voters, and waits until that is committed (KIP-853).

        Args:
            node_id: id of the controller.
            directory_id: id of its metadata directory.

        Raises:
            BrokerError: the leader refuses; the message says why.
        """
        request = RemoveRaftVoterRequest(
            cluster_id=self._known_cluster_id(), voter_id=node_id, voter_directory_id=directory_id
        )
        response = self._to_controller(RemoveRaftVoterRequest, request)
        if response.error_code:
            context = f"removing controller {node_id} from the voters"
            raise broker_error(response.error_code, context, response.error_message)

    def _known_cluster_id(self) -> str:
        response = self._call(self._any_node, DescribeClusterRequest, DescribeClusterRequest())
        return str(response.cluster_id)

    # ------------------------------------------------------------ requests

    def _to_controller(
        self,
        api: Api,
        body: Body,
        check: Callable[[Any], None] = lambda _: None,
        *,
        pick: Callable[[], Node | None] | None = None,
    ) -> Any:
        """Sends to any broker, or the one that `pick` returns, which forwards to the controller (KIP-590).

        Again while no controller is active, or `check` raises a retriable error.
        """

        def attempt(left_s: float) -> Any:
            if pick is None or pick == self._any_node:
                response = self._ask_any(api, body, left_s)
            else:
                response = self._cluster.call(pick, api, body, left_s)
            if _without_controller(response):
                raise broker_error(Errors.NOT_CONTROLLER.code, "asking the controller")
            check(response)
            return response

        with self._lock:
            return offset_queries.retried(self._cluster, self._timeout_s, attempt)


def _without_controller(response: Any) -> bool:
    """Whether no controller was active, for the whole request or for each of its topics and resources."""
    if hasattr(response, "error_code"):
        return bool(response.error_code == Errors.NOT_CONTROLLER.code)
    names = ("topics", "responses", "results", "filter_results", "entries")
    parts = next(getattr(response, each) for each in names if hasattr(response, each))
    return bool(parts) and all(each.error_code == Errors.NOT_CONTROLLER.code for each in parts)


def _listed(brokers: Sequence[int] | None) -> list[int] | None:
    return None if brokers is None else list(brokers)


def _replica(state: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        state.replica_id,
        state.replica_directory_id,
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
    )
