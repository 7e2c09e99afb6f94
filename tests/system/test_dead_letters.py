"""Dead-letter topics of share groups on three brokers, whose leaders are killed in the middle of it."""

import pytest

import bowstring
from tests.support.waiting import HANG_S, wait_until

ROUNDS = 2
SETTINGS = {
    "bowstring.durability": "commit",
    "errors.deadletterqueue.auto.create.topics.enable": "true",
    "num.partitions": "4",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "share.coordinator.state.topic.num.partitions": "3",
}
CONFIGS = {
    "share.auto.offset.reset": "earliest",
    "errors.deadletterqueue.topic.name": "dlq.jobs",
    "errors.deadletterqueue.copy.record.enable": "true",
}


@pytest.fixture(scope="module")
def cluster():
    with bowstring.Cluster(3, config=SETTINGS, start_timeout_s=HANG_S) as made:
        yield made


def reject(cluster, numbers):
    """Produces records and rejects each of them."""
    with bowstring.Producer(cluster.bootstrap_servers) as producer:
        for number in numbers:
            producer.send("source", b"%d" % number, partition=0)
    wanted = {b"%d" % number for number in numbers}
    sure, unsure = set(), set()
    with bowstring.ShareConsumer(
        cluster.bootstrap_servers, group_id="jobs", acknowledgement_mode="explicit"
    ) as member:
        member.subscribe("source")

        def done():
            records = member.poll(0.5)
            member.reject(records)
            failed = any(member.commit_sync().values())
            (unsure if failed else sure).update(each.value for each in records)
            # an unanswered copy may be stored nevertheless, and is not delivered again then
            return wanted <= sure or (wanted <= sure | unsure and lag(cluster) == 0)

        wait_until(done)


def lag(cluster):
    with bowstring.Admin(cluster.bootstrap_servers) as admin:
        return sum(each.lag for each in admin.describe_share_offsets("jobs").values())


def leader_of(cluster, topic):
    with bowstring.Admin(cluster.bootstrap_servers) as admin:
        return admin.describe_topic(topic).partitions[0].leader


def letters(cluster):
    """Returns the values of all letters, and the offsets of their records."""
    found = []
    with bowstring.Admin(cluster.bootstrap_servers) as admin:
        if "dlq.jobs" not in admin.list_topics():
            return set()
        ends = admin.end_offsets([("dlq.jobs", partition) for partition in range(4)])
    with bowstring.Consumer(cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(ends)

        def all_read():
            found.extend(consumer.poll(0.5))
            return all(consumer.position(each) >= end for each, end in ends.items())

        wait_until(all_read)
    return {(each.value, dict(each.headers)["__dlq.errors.offset"]) for each in found}


def test_every_rejected_record_has_a_letter(cluster):
    """The leader is killed as soon as it has answered: the next one makes its remaining copies."""
    with bowstring.Admin(cluster.bootstrap_servers) as admin:
        admin.create_topic("source", partitions=1, replication_factor=3)
        admin.alter_configs("group", "jobs", set=CONFIGS)
    for round in range(ROUNDS):
        reject(cluster, range(round * 20, round * 20 + 20))
        leader = leader_of(cluster, "source")
        cluster.kill(leader)
        wait_until(lambda gone=leader: leader_of(cluster, "source") not in (-1, gone))
        cluster.restart(leader)
    reject(cluster, [ROUNDS * 20])  # the last leader has a member again
    wanted = {(b"%d" % number, b"%d" % number) for number in range(ROUNDS * 20 + 1)}
    wait_until(lambda: letters(cluster) == wanted)
