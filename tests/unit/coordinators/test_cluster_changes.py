"""What a broker has the controller create: internal topics, topics that clients request."""

import asyncio

import pytest

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.coordinators.cluster_changes import ClusterChanges
from bowstring.engine.metadata.image import ClusterImage
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from bowstring.protocol.records.cluster_metadata.nodes import RegisterBrokerRecord
from bowstring.protocol.records.cluster_metadata.topics import TopicRecord
from tests.support.waiting import HANG_S


class Cluster:
    """The quorum and the logs of a broker, as `ClusterChanges` uses them.

    Attributes:
        asked: Topics that the controller was to create.
        error: What it answers.
        carried_out: Set when this broker has opened what was created.
    """

    def __init__(self, brokers=1):
        self.image = ClusterImage()
        for id in range(1, brokers + 1):
            self.image.apply(RegisterBrokerRecord(broker_id=id, broker_epoch=id))
        self.is_leader = True
        self.asked, self.clients, self.error = [], [], Errors.NONE
        self.carried_out = asyncio.Event()

    async def ask_leader(self, body, timeout_ms=None, version=None, client=""):
        self.asked += body.topics
        self.clients.append(client)
        results = [CreatableTopicResult(name=each.name, error_code=self.error.code) for each in body.topics]
        return CreateTopicsResponse(topics=results)

    def of_topic(self, topic):
        return ["a log"] if self.carried_out.is_set() else []

    async def settled(self):
        await self.carried_out.wait()


def changes(cluster, *, is_own_cluster=True, **configs):
    given = {name.replace("_", "."): value for name, value in configs.items()}
    return ClusterChanges(
        cluster, cluster, BrokerConfigs(given), settled=cluster.settled, is_own_cluster=is_own_cluster
    )


def run(scenario):
    async def in_time():
        async with asyncio.timeout(HANG_S):
            await scenario()

    asyncio.run(in_time())


@pytest.mark.parametrize(
    ("is_own_cluster", "brokers", "replicas"),
    [(True, 1, 1), (True, 2, 3), (True, 3, 3), (False, 1, 3), (False, 3, 3)],
)
def test_internal_topics_have_one_replica_while_no_other_broker_is_meant_to_join(
    is_own_cluster, brokers, replicas
):
    async def scenario():
        cluster = Cluster(brokers)
        cluster.carried_out.set()
        made = changes(cluster, is_own_cluster=is_own_cluster)
        assert await made.create_internal_topic("__consumer_offsets", 50, 3, {"cleanup.policy": "compact"})
        (topic,) = cluster.asked
        assert (topic.name, topic.num_partitions, topic.replication_factor) == (
            "__consumer_offsets",
            50,
            replicas,
        )
        assert [(each.name, each.value) for each in topic.configs] == [("cleanup.policy", "compact")]
        assert cluster.clients == ["internal topics"]

    run(scenario)


def test_an_internal_topic_is_waited_for_until_it_is_open():
    async def scenario():
        cluster = Cluster()
        making = asyncio.ensure_future(changes(cluster).create_internal_topic("t", 1, 1, {}))
        for _ in range(20):
            await asyncio.sleep(0)
        assert cluster.asked and not making.done()
        cluster.carried_out.set()
        assert await making

    run(scenario)


@pytest.mark.parametrize("is_leader", [True, False])
def test_an_internal_topic_that_does_not_open_is_given_up(is_leader):
    async def scenario():
        cluster = Cluster()
        cluster.is_leader = is_leader
        with pytest.raises(KafkaError) as late:
            await changes(cluster, request_timeout_ms="30").create_internal_topic("t", 1, 1, {})
        assert late.value.error is Errors.REQUEST_TIMED_OUT

    run(scenario)


def test_topics_that_exist_are_not_created():
    async def scenario():
        cluster = Cluster()
        cluster.image.apply(TopicRecord(name="t", topic_id=b"t" * 16))
        made = changes(cluster)
        assert not await made.create_internal_topic("t", 1, 1, {})
        await made.create_missing_topic("t")
        assert await made.create_topics([]) == {}
        assert cluster.asked == []
        cluster.error = Errors.TOPIC_ALREADY_EXISTS  # another broker was faster
        cluster.carried_out.set()
        assert not await made.create_internal_topic("u", 1, 1, {})
        await made.create_missing_topic("v")

    run(scenario)


def test_a_missing_topic_has_the_brokers_defaults():
    async def scenario():
        cluster = Cluster()
        made = changes(cluster, num_partitions="7", default_replication_factor="2")
        await made.create_missing_topic("t")
        (topic,) = cluster.asked
        assert (topic.name, topic.num_partitions, topic.replication_factor) == ("t", 7, 2)
        cluster.error = Errors.INVALID_REPLICATION_FACTOR
        with pytest.raises(KafkaError) as refused:
            await made.create_missing_topic("u")
        assert refused.value.error is Errors.INVALID_REPLICATION_FACTOR

    run(scenario)


def test_only_what_the_own_controller_commits_is_waited_for():
    async def scenario():
        cluster = Cluster()
        waiting = asyncio.ensure_future(changes(cluster).carried_out())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not waiting.done()
        cluster.carried_out.set()
        await waiting
        cluster.carried_out.clear()
        await changes(cluster, request_timeout_ms="20").carried_out()  # not for ever
        cluster.is_leader = False
        await changes(cluster).carried_out()

    run(scenario)
