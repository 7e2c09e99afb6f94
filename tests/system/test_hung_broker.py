"""What waits for a node that hangs goes on once the cluster has another one in its place."""

import threading

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import bowstring
from bowstring.clients.admin.admin import Admin
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.support.cluster_requests import asked
from tests.support.transactional_load import read_committed, transactional_producer
from tests.support.waiting import HANG_S, wait_until

FOR_EVER_MS = 86_400_000
TRANSACTION = 1
VALUES = (b"before", b"after")
# Nodes wait so long for answers, if nothing else ends the wait. A transaction is decided without the others.
CONFIG = {
    "bowstring.durability": "commit",
    "request.timeout.ms": FOR_EVER_MS,
    "controller.quorum.request.timeout.ms": FOR_EVER_MS,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "auto.leader.rebalance.enable": "false",
}


@pytest.fixture(name="cluster", scope="module")
def a_cluster():
    with bowstring.Cluster(3, config=CONFIG, linked=False, start_timeout_s=HANG_S) as made:
        yield made


def coordinator_of(cluster, transactional_id):
    request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[transactional_id])
    return wait_until(
        lambda: next(
            (each.node_id for each in asked(cluster, 1, request).coordinators if not each.error_code), None
        )
    )


def test_a_transaction_goes_on_when_a_leader_of_its_partitions_hangs(cluster):
    """Its marker goes to the next leader; the producer's next transaction waits for that."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    topic = NewTopic("t", 3, replica_assignment=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    admin.create_topics([topic])["t"].result()
    producer = transactional_producer(cluster.bootstrap_servers, "x")
    coordinator = coordinator_of(cluster, "x")
    victim = coordinator % 3 + 1
    others = [partition for partition in range(3) if partition + 1 != victim]
    producer.begin_transaction()
    for partition in range(3):
        producer.produce("t", VALUES[0], partition=partition)
    assert producer.flush(HANG_S) == 0
    cluster.pause(victim)
    try:
        producer.commit_transaction(HANG_S)
        producer.begin_transaction()
        for partition in others:
            producer.produce("t", VALUES[1], partition=partition)
        assert producer.flush(HANG_S) == 0
        producer.commit_transaction(HANG_S)
    finally:
        cluster.resume(victim)
    found = read_committed(cluster.bootstrap_servers, "t", 3, until=5)
    assert sorted(found) == sorted([VALUES[0]] * 3 + [VALUES[1]] * 2)


def test_a_topic_is_created_when_the_active_controller_hangs(cluster):
    with Admin(cluster.bootstrap_servers) as admin:
        active = wait_until(lambda: admin.describe_quorum().leader_id)
    others = [id for id in cluster.broker_ids if id != active]
    topic = CreatableTopic(
        name="u",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=others)],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=FOR_EVER_MS)
    answers = []
    cluster.pause(active)
    try:
        asking = threading.Thread(
            target=lambda: answers.append(asked(cluster, others[0], request)), daemon=True
        )
        asking.start()
        asking.join(HANG_S)
    finally:
        cluster.resume(active)
    assert [Errors.of(each.error_code) for answer in answers for each in answer.topics] == [Errors.NONE]
