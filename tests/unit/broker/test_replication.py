"""The replicas of one broker: what it sends to the controller, and when it leads."""

import asyncio
from contextlib import contextmanager

import pytest

from bowstring.engine.broker.replication import Replication
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from bowstring.engine.network.broker_peers import BrokerPeers
from bowstring.protocol.messages import alter_partition as messages
from tests.support.coordinators import stand_in
from tests.support.served_plane import TOPIC, TOPIC_ID, Served
from tests.support.waiting import wait_until_async

KEY = (TOPIC_ID, 0)


def image_of(leader_epoch=5):
    image = ClusterImage()
    topic = TopicImage(TOPIC, TOPIC_ID)
    replicas = (1, 2, 3)
    topic.partitions.append(PartitionImage(replicas, replicas, 1, leader_epoch, 10, (b"d" * 16,) * 3))
    image.topics[TOPIC] = image.topics_by_id[TOPIC_ID] = topic
    for broker in replicas:
        image.brokers[broker] = BrokerImage(broker, 100 + broker, b"", (), None, False, ())
    return image


class Controller:
    """Answers requests in turn, as `answers` says: by a failure, or by agreeing."""

    def __init__(self, *failures):
        self.image = image_of()
        self.failures = list(failures)
        self.asked = []

    async def ask_leader(self, request):
        self.asked.append(request)
        if self.failures:
            raise self.failures.pop(0)
        topic = messages.AlterPartitionResponseTopicData(
            topic_id=TOPIC_ID,
            partitions=[
                messages.AlterPartitionResponsePartitionData(
                    partition_index=0, leader_id=1, leader_epoch=5, isr=[1], partition_epoch=11
                )
            ],
        )
        return messages.AlterPartitionResponse(topics=[topic])


@contextmanager
def replicating(directory, controller, **configs):
    served = Served(directory)
    try:
        logs = stand_in(get=lambda *key: served.logs.get(key), is_missing=lambda *key: False)
        settings = BrokerConfigs({"node.id": "1"} | configs)
        yield Replication(
            *(controller, settings, served.plane, logs),
            node_id=1,
            broker_epoch=lambda: 101,
            peers=BrokerPeers(controller, "PLAINTEXT"),
        )
    finally:
        served.close()


@pytest.mark.parametrize("failure", [ZeroDivisionError("on purpose"), OSError("no descriptor")])
def test_changes_of_in_sync_replicas_are_sent_again_after_a_failure_to_send(tmp_path, failure):
    """No event comes again for them."""

    async def scenario(replication, controller):
        await replication.apply(controller.image, [KEY], brokers_changed=True)
        replication.start()
        await wait_until_async(lambda: len(controller.asked) == 2)
        (partition,) = controller.asked[1].topics[0].partitions
        assert [each.broker_id for each in partition.new_isr_with_epochs] == [1]
        await replication.stop()

    controller = Controller(failure)
    with replicating(tmp_path, controller, **{"replica.lag.time.max.ms": "50"}) as replication:
        asyncio.run(scenario(replication, controller))


def test_a_broker_leads_once_the_data_plane_does(tmp_path):
    async def scenario(replication, controller):
        for _ in replication.manager.steps(controller.image, [KEY]):
            assert not replication.leads(*KEY)
        await replication.apply(controller.image, [])
        assert replication.leads(*KEY)
        await replication.stop()

    controller = Controller()
    with replicating(tmp_path, controller) as replication:
        asyncio.run(scenario(replication, controller))
