"""Brokers and controllers of one cluster in this process: registration, topics, failures, all over sockets."""

import pytest

from bowstring._native.log.partition_log import LogError
from bowstring._native.record.encode import encode_batch
from bowstring.engine.controller.partition_index import NO_LEADER
from bowstring.engine.metadata.topic_changes import NewTopic
from bowstring.engine.network.peers import Peers
from bowstring.engine.requests.request import Request
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from bowstring.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from bowstring.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from bowstring.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from bowstring.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from bowstring.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from bowstring.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from bowstring.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from bowstring.protocol.messages.unregister_broker import UnregisterBrokerRequest
from bowstring.protocol.messages.unregister_controller import UnregisterControllerRequest
from bowstring.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from bowstring.protocol.records.cluster_metadata.nodes import RegisterControllerRecord
from tests.support.broker_cluster import BROKERS, run
from tests.support.first_levels import write_first_levels
from tests.support.waiting import wait_until_async


def leaders(cluster, topic):
    return [each.leader for each in cluster.image().topics[topic].partitions]


def test_topics_are_spread_over_brokers_that_serve_them(tmp_path):
    async def scenario(cluster):
        assert not any(broker.lifecycle.is_fenced for broker in cluster.brokers.values())
        assert await cluster.create("t", 2) is Errors.NONE
        assert await cluster.create("t", 2) is Errors.TOPIC_ALREADY_EXISTS
        assert await cluster.create("u", 2, 3) is Errors.INVALID_REPLICATION_FACTOR
        await wait_until_async(lambda: "t" in cluster.image().topics)
        assert set(leaders(cluster, "t")) == set(BROKERS)
        for index, leader in enumerate(leaders(cluster, "t")):
            await wait_until_async(lambda i=index, id=leader: cluster.brokers[id].logs.get("t", i))
        more = CreatePartitionsTopic(name="t", count=4, assignments=None)
        answer = await cluster.ask(CreatePartitionsRequest(topics=[more]))
        assert answer.results[0].error_code == 0
        await wait_until_async(lambda: len(leaders(cluster, "t")) == 4)
        answer = await cluster.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]))
        assert answer.responses[0].error_code == 0
        await wait_until_async(lambda: "t" not in cluster.image().topics)

    run(tmp_path, scenario)


def test_configs_features_and_elections(tmp_path):
    async def scenario(cluster):
        await cluster.create("t", 1, 2)
        config = AlterableConfig(name="retention.ms", config_operation=0, value="5")
        resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
        answer = await cluster.ask(IncrementalAlterConfigsRequest(resources=[resource]))
        assert answer.responses[0].error_code == 0
        await wait_until_async(lambda: cluster.image().topic_configs("t") == {"retention.ms": "5"})
        update = FeatureUpdateKey(feature="metadata.version", max_version_level=99)
        answer = await cluster.ask(UpdateFeaturesRequest(feature_updates=[update]))
        assert answer.error_code == Errors.INVALID_UPDATE_VERSION.code
        wanted = [TopicPartitions(topic="t", partitions=[0])]
        answer = await cluster.ask(ElectLeadersRequest(election_type=0, topic_partitions=wanted))
        result = answer.replica_election_results[0].partition_result[0]
        assert result.error_code == Errors.ELECTION_NOT_NEEDED.code
        answer = await cluster.ask(ListPartitionReassignmentsRequest(topics=None))
        assert (answer.error_code, list(answer.topics)) == (0, [])
        answer = await cluster.ask(UnregisterBrokerRequest(broker_id=99))
        assert answer.error_code == Errors.BROKER_ID_NOT_REGISTERED.code
        answer = await cluster.ask(UnregisterControllerRequest(controller_id=99))
        assert answer.error_code == Errors.CONTROLLER_ID_NOT_REGISTERED.code
        assert answer.error_message == "Controller ID 99 is not currently registered."

    run(tmp_path, scenario)


def test_controllers_register_so_that_features_can_rise(tmp_path):
    async def scenario(cluster):
        def registered():
            return {each.controller_id for each in cluster.image().kept.of(RegisterControllerRecord)}

        await wait_until_async(lambda: registered() == {1, 2, 3})
        update = FeatureUpdateKey(feature="eligible.leader.replicas.version", max_version_level=1)
        answer = await cluster.ask(UpdateFeaturesRequest(feature_updates=[update]))
        assert (answer.error_code, answer.error_message) == (0, None)
        await wait_until_async(
            lambda: cluster.image().resource_configs(4, "") == {"min.insync.replicas": "1"}
        )

    run(tmp_path, scenario)


def test_brokers_have_the_levels_that_kafka_4_4_wrote_on_controllers(tmp_path):
    """Its storage tool writes them into a snapshot that no other node fetches (KIP-1170)."""
    first = {"metadata.version": 30, "share.version": 1}
    for id in (1, 2, 3):
        write_first_levels(tmp_path / str(id), first, as_kafka_4_4=True)

    async def scenario(cluster):
        assert cluster.image().features == first
        assert (await cluster.controllers.leader()).quorum.image.features == first

    run(tmp_path, scenario)


def test_a_broker_creates_topics_that_clients_ask_for(tmp_path):
    async def scenario(cluster):
        await cluster.brokers[10].changes.create_missing_topic("t")
        await wait_until_async(lambda: "t" in cluster.image().topics)
        await cluster.brokers[11].changes.create_missing_topic("t")
        assert len(leaders(cluster, "t")) == 1
        with pytest.raises(KafkaError):
            await cluster.brokers[10].changes.create_missing_topic("..")

    run(tmp_path, scenario)


def test_a_broker_creates_internal_topics_of_streams_groups(tmp_path):
    async def scenario(cluster):
        await cluster.create("there", 1)
        wanted = [
            NewTopic("s", 2, -1, None, {"cleanup.policy": "compact"}),
            NewTopic("there", 1, -1),
            NewTopic("..", 1, -1),
            NewTopic("large", 1, 9),
        ]
        failed = await cluster.brokers[10].changes.create_topics(wanted)
        assert {name: error.error for name, error in failed.items()} == {
            "..": Errors.INVALID_TOPIC_EXCEPTION,
            "large": Errors.INVALID_REPLICATION_FACTOR,
        }
        await wait_until_async(lambda: "s" in cluster.image().topics)
        assert len(leaders(cluster, "s")) == 2
        assert cluster.image().topic_configs("s") == {"cleanup.policy": "compact"}
        assert await cluster.brokers[11].changes.create_topics(wanted[:2]) == {}

    run(tmp_path, scenario)


def test_log_levels_stay_at_the_broker_and_configs_of_others_are_refused(tmp_path):
    async def scenario(cluster):
        await cluster.create("t", 1)
        broker = cluster.brokers[10]
        level = AlterableConfig(name="bowstring", config_operation=0, value="INFO")
        unknown = AlterableConfig(name="gone", config_operation=0, value="INFO")
        config = AlterableConfig(name="retention.ms", config_operation=0, value="5")
        resources = [
            AlterConfigsResource(resource_type=8, resource_name="10", configs=[level]),
            AlterConfigsResource(resource_type=8, resource_name="10", configs=[unknown]),
            AlterConfigsResource(resource_type=2, resource_name="t", configs=[config]),
        ]
        of_others = [AlterConfigsResource(resource_type=kind, resource_name="11") for kind in (4, 8)]
        refused = [Errors.INVALID_REQUEST.code] * 2
        for sent, codes in (
            (resources, [0, Errors.INVALID_CONFIG.code, 0]),
            (resources[:1], [0]),
            (of_others, refused),
            ([*resources[2:], *of_others, *resources[:1]], [0, *refused, 0]),
        ):
            body = IncrementalAlterConfigsRequest(resources=sent)
            request = Request(api_key=44, version=1, body=body, listener=broker.advertised[0])
            answer = await broker.dispatcher.handler(44)(request)
            assert [each.error_code for each in answer.responses] == codes

    run(tmp_path, scenario)


def test_leaders_move_away_from_a_broker_that_stops(tmp_path):
    async def scenario(cluster):
        await cluster.create("t", 4, 2)
        await wait_until_async(lambda: "t" in cluster.image().topics)
        await cluster.brokers.pop(10).stop()
        await wait_until_async(lambda: leaders(cluster, "t") == [11] * 4)
        assert cluster.image().brokers[10].fenced
        await cluster.start_broker(10)
        assert not cluster.brokers[10].lifecycle.is_fenced

    run(tmp_path, scenario)


def test_a_broker_that_stopped_cleanly_stays_an_eligible_leader(tmp_path):
    async def scenario(cluster):
        await wait_until_async(lambda: len(list(cluster.image().kept.of(RegisterControllerRecord))) == 3)
        update = FeatureUpdateKey(feature="eligible.leader.replicas.version", max_version_level=1)
        answer = await cluster.ask(UpdateFeaturesRequest(feature_updates=[update]))
        assert answer.error_code == 0
        await cluster.create("t", 1, 2)
        await wait_until_async(lambda: "t" in cluster.image().topics)

        def partition():
            return cluster.image().topics["t"].partitions[0]

        await cluster.brokers.pop(10).stop()
        await wait_until_async(lambda: partition().eligible_leaders == (10,))
        await cluster.start_broker(10)
        assert (partition().in_sync, partition().eligible_leaders) == ((11,), (10,))

    run(tmp_path, scenario, min_insync_replicas="2")


def test_a_broker_that_is_silent_is_fenced(tmp_path):
    async def scenario(cluster):
        await cluster.create("t", 2, 1)
        await wait_until_async(lambda: "t" in cluster.image().topics)

        async def nobody(request, timeout_ms=None):
            raise KafkaError(Errors.NOT_CONTROLLER)

        silent = cluster.brokers[11]
        ask, silent.quorum.ask_leader = silent.quorum.ask_leader, nobody
        await wait_until_async(lambda: cluster.image().brokers[11].fenced)
        assert NO_LEADER in leaders(cluster, "t")
        silent.quorum.ask_leader = ask
        await wait_until_async(lambda: not cluster.image().brokers[11].fenced)
        assert NO_LEADER not in leaders(cluster, "t")

    run(tmp_path, scenario)


def test_controllers_that_are_not_active_say_so(tmp_path):
    async def scenario(cluster):
        active = (await cluster.controllers.leader()).node_id
        idle = next(id for id in cluster.controllers.nodes if id != active)
        peers = Peers("test")
        resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[])
        requests = {
            "topics": CreateTopicsRequest(topics=[CreatableTopic(name="t"), CreatableTopic(name="u")]),
            "responses": DeleteTopicsRequest(topics=[DeleteTopicState(name="t"), DeleteTopicState(name="u")]),
            "results": CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=4)] * 2),
        }
        configs = IncrementalAlterConfigsRequest(resources=[resource] * 2)
        connection = peers.at(idle, "127.0.0.1", cluster.controllers.ports[idle])
        try:
            for name, request in [*requests.items(), ("responses", configs)]:
                answer, _ = await connection.exchange(request, (1, 5) if name == "topics" else (0, 6), 20)
                assert [each.error_code for each in getattr(answer, name)] == [41, 41]
            answer, _ = await connection.exchange(UnregisterBrokerRequest(broker_id=1), (0, 0), 20)
            assert answer.error_code == Errors.NOT_CONTROLLER.code
        finally:
            peers.close()

    run(tmp_path, scenario)


def test_the_next_controller_goes_on(tmp_path):
    async def scenario(cluster):
        await cluster.create("t", 2)
        first = await cluster.controllers.leader()
        await cluster.controllers.stop(first.node_id)
        second = await cluster.controllers.leader()
        assert second is not first
        await wait_until_async(lambda: cluster.brokers[10].quorum.leader_id == second.node_id)
        assert await cluster.create("u", 2) is Errors.NONE
        await wait_until_async(lambda: {"t", "u"} <= set(second.quorum.image.topics))
        await wait_until_async(lambda: not any(each.lifecycle.is_fenced for each in cluster.brokers.values()))

    # The session timeout is long, so no broker is fenced while there is no controller.
    run(tmp_path, scenario, **{"broker.session.timeout.ms": "60000"})


@pytest.mark.parametrize(("replicas", "moved_to", "is_taken"), [(2, [10], True), (1, [10, 11], False)])
def test_acks_all_needs_as_many_replicas_as_a_reassignment_leaves(tmp_path, replicas, moved_to, is_taken):
    """min.insync.replicas is 2, with as many replicas; one of two is not enough."""

    async def scenario(cluster):
        await cluster.create("t", 1, replicas)
        await wait_until_async(lambda: "t" in cluster.image().topics)
        moved = ReassignablePartition(partition_index=0, replicas=moved_to)
        await cluster.ask(
            AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=[moved])])
        )

        def settled():
            partition = cluster.image().topics["t"].partitions[0]
            return (
                sorted(partition.in_sync) == moved_to == sorted(partition.replicas)
                and partition.leader in moved_to
            )

        await wait_until_async(settled)
        if not is_taken:
            await cluster.brokers.pop(other_than(cluster, "t")).stop()
            await wait_until_async(lambda: len(cluster.image().topics["t"].partitions[0].in_sync) == 1)

        def leaders_of_planes():
            return [each for each in cluster.brokers.values() if each.plane.led_epoch("t", 0) >= 0]

        def is_refused():
            (leader,) = leaders_of_planes()
            epoch = leader.plane.led_epoch("t", 0)
            try:
                leader.plane.append("t", 0, encode_batch([(b"k", b"v", 1, ())]), leader_epoch=epoch, now_ms=1)
            except LogError as error:
                return error.code == Errors.NOT_ENOUGH_REPLICAS.code
            return False

        await wait_until_async(lambda: len(leaders_of_planes()) == 1)  # the image is ahead of the planes
        await wait_until_async(lambda: is_refused() is not is_taken)

    run(tmp_path, scenario, min_insync_replicas="2")


def test_producers_of_a_partition_are_told_by_any_replica(tmp_path):
    """As in Kafka: `kafka-transactions find-hanging` sends DescribeProducers to the broker it is given."""

    async def scenario(cluster):
        assert await cluster.create("t", 1, 2) is Errors.NONE
        batch = encode_batch([(b"k", b"v", 1, ())], producer_id=7, producer_epoch=0, base_sequence=0)
        led = []

        def leads():
            led[:] = [each for each in cluster.brokers.values() if each.plane.led_epoch("t", 0) >= 0]
            return led

        await wait_until_async(leads)
        (leader,) = led
        leader.plane.append("t", 0, batch, leader_epoch=leader.plane.led_epoch("t", 0), now_ms=1)
        wanted = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0, 1])])
        for broker in cluster.brokers.values():
            await wait_until_async(
                lambda broker=broker: (log := broker.logs.get("t", 0)) and log.log_end_offset == 1
            )
            request = Request(api_key=61, version=0, body=wanted, listener=broker.advertised[0])
            (topic,) = (await broker.dispatcher.handler(61)(request)).topics
            found, missing = topic.partitions
            assert [each.producer_id for each in found.active_producers] == [7]
            assert missing.error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION.code

    run(tmp_path, scenario)


def test_a_cut_is_logged_only_when_something_was_cut(tmp_path, caplog):
    async def scenario(cluster):
        replication = next(iter(cluster.brokers.values())).replication
        for nothing, logged in ((1, 0), (0, 1)):
            replication._events = [("truncated", "t", 0, 1, nothing, 3)]
            replication.manager.on_events = lambda some, nothing=nothing: [("truncated", "t", 0, nothing, 3)]
            replication._act()
            assert caplog.text.count("a follower cut its log") == logged

    caplog.set_level("INFO", logger="bowstring")
    run(tmp_path, scenario)


def other_than(cluster, topic):
    """The broker that does not lead the topic's only partition."""
    leader = cluster.image().topics[topic].partitions[0].leader
    return next(id for id in cluster.brokers if id != leader)
