"""Transactions on three brokers, while their coordinators and leaders are killed."""

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import bowstring
from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest
from bowstring.protocol.messages.list_transactions import ListTransactionsRequest
from tests.support.cluster_requests import asked
from tests.support.transactional_load import Transfers, read_committed, transactional_producer
from tests.support.waiting import HANG_S, wait_until

TRANSACTION = 1


@pytest.fixture(scope="module", params=["os", "commit"])
def cluster(request):
    config = {"bowstring.durability": request.param}
    with bowstring.Cluster(3, config=config, start_timeout_s=HANG_S) as made:
        yield made


def create(cluster, name, partitions):
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for made in admin.create_topics([NewTopic(name, partitions, 3)]).values():
        made.result()


def coordinator_of(cluster, transactional_id):
    """Returns the id of the coordinator on which all running brokers agree."""
    request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[transactional_id])

    def agreed():
        found = {
            each.node_id
            for broker_id in cluster.running_ids
            for each in asked(cluster, broker_id, request).coordinators
        }
        (broker_id, *more) = found
        return broker_id if not more and broker_id in cluster.running_ids else None

    return wait_until(agreed)


def test_markers_go_to_all_leaders(cluster):
    create(cluster, "spread", 6)
    producer = transactional_producer(cluster.bootstrap_servers, "spread")
    for number in range(6):
        producer.begin_transaction()
        for partition in range(6):
            producer.produce("spread", b"%d" % number, partition=partition)
        producer.flush(HANG_S)
        if number % 2:
            producer.abort_transaction(HANG_S)
        else:
            producer.commit_transaction(HANG_S)
    values = read_committed(cluster.bootstrap_servers, "spread", 6, until=18)
    assert sorted(values) == sorted(b"%d" % number for number in (0, 2, 4) for _ in range(6))


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_the_coordinator_goes(cluster, how):
    """Transactions are complete, and continue with another coordinator, which ends decided ones."""
    topic = f"pairs-{how}"
    create(cluster, topic, 2)
    transfers = Transfers(cluster.bootstrap_servers, f"x-{how}", topic)
    for _ in range(2):
        before = transfers.count
        wait_until(lambda b=before: transfers.error or transfers.count > b + 3)
        gone = coordinator_of(cluster, f"x-{how}")
        getattr(cluster, how)(gone)
        before = transfers.count
        wait_until(lambda b=before: transfers.error or transfers.count > b + 3)
        cluster.restart(gone)
    transfers.stop()
    values = read_committed(cluster.bootstrap_servers, topic, 2, until=2 * len(transfers.committed))
    transfers.check(values)
    assert transfers.committed
    states = wait_until(
        lambda: [
            each.transaction_state
            for each in asked(
                cluster, coordinator_of(cluster, f"x-{how}"), ListTransactionsRequest()
            ).transaction_states
            if each.transactional_id == f"x-{how}"
        ]
    )
    assert states[0] in ("CompleteCommit", "CompleteAbort")


def test_offsets_move_with_their_group(cluster):
    create(cluster, "source", 1)
    create(cluster, "sink", 1)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "log_level": 0}
    )
    producer = transactional_producer(cluster.bootstrap_servers, "mover")
    place = TopicPartition("source", 0)
    for offset in (3, 8):
        producer.begin_transaction()
        producer.produce("sink", b"%d" % offset, partition=0)
        producer.send_offsets_to_transaction(
            [TopicPartition("source", 0, offset)], consumer.consumer_group_metadata(), HANG_S
        )
        producer.commit_transaction(HANG_S)
        wait_until(lambda o=offset: consumer.committed([place], timeout=HANG_S)[0].offset == o)
    consumer.close()
    assert read_committed(cluster.bootstrap_servers, "sink", 1, until=2) == [b"3", b"8"]
