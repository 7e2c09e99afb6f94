"""The audit topic of a cluster: every node writes to it, through whichever broker leads."""

import json

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

import bowstring
from tests.support.access import STANDARD
from tests.support.waiting import HANG_S, wait_until

CONFIG = {
    "authorizer.class.name": STANDARD,
    "super.users": "User:ANONYMOUS",
    "broker.session.timeout.ms": 3000,
    "bowstring.audit.topic": "audit",
    "bowstring.audit.topic.partitions": 1,
    "bowstring.audit.topic.replication.factor": 2,
}
CONTROLLER = 101


class Audited:
    """What nodes have decided, as a consumer reads it."""

    def __init__(self, servers):
        self.admin = AdminClient({"bootstrap.servers": servers})
        self.consumer = Consumer({"bootstrap.servers": servers, "group.id": "none"})
        self.consumer.assign([TopicPartition("audit", 0, OFFSET_BEGINNING)])
        self.asked = set()

    def has(self, brokers, topic):
        """Has brokers and the controller decide about something; whether all have said so."""
        self.admin.create_topics([NewTopic(topic, 1, 1)])
        for id in brokers:
            (described,) = self.admin.describe_configs([ConfigResource("broker", str(id))]).values()
            described.add_done_callback(lambda _: None)
        for message in self.consumer.consume(1000, timeout=0.1):
            if message.error() is None:
                assert message.key() == b"User:ANONYMOUS"
                value = json.loads(message.value())
                if value["resource"] == topic or value["operation"] == "DescribeConfigs":
                    self.asked.add(value["node"])
        return {*brokers, CONTROLLER} <= self.asked


def test_brokers_and_controllers_write_to_it_also_after_a_leader_is_gone():
    with bowstring.Cluster(2, controllers=1, config=CONFIG, start_timeout_s=HANG_S) as cluster:
        audited = Audited(cluster.bootstrap_servers)
        wait_until(lambda: audited.has({1, 2}, "first"))
        leader = audited.admin.list_topics("audit").topics["audit"].partitions[0].leader
        cluster.kill(leader)
        audited.asked.clear()
        wait_until(lambda: audited.has({3 - leader}, "second"))
        assert not any("bug:" in cluster.log_text(id) for id in cluster.node_ids)
        audited.consumer.close()
