"""Admin's calls about transactions, and the commands that use them."""

import confluent_kafka
import pytest
from confluent_kafka import KafkaException

import bowstring
from bowstring.clients.admin.admin import Admin
from bowstring.clients.errors import BrokerError
from bowstring.clients.records import TopicPartition
from tests.support.waiting import HANG_S

TIMEOUT_MS = int(HANG_S * 1000)
PLACE = TopicPartition("t", 0)


@pytest.fixture
def bootstrap():
    with bowstring.Broker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def admin(bootstrap):
    with Admin(bootstrap, timeout_ms=TIMEOUT_MS) as made:
        made.create_topic("t", partitions=1)
        yield made


@pytest.fixture
def producer(admin, bootstrap):
    """A producer with one record in an open transaction."""
    made = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": "x", "log_level": 0})
    made.init_transactions(HANG_S)
    made.begin_transaction()
    made.produce("t", b"v", partition=0)
    made.flush(HANG_S)
    return made


def test_lists_and_descriptions(admin, producer):
    (listed,) = admin.list_transactions()
    assert (listed.transactional_id, listed.state) == ("x", "Ongoing")
    assert admin.list_transactions(["Empty"]) == []
    assert admin.list_transactions(producer_ids=[listed.producer_id]) == [listed]
    described = admin.describe_transaction("x")
    assert described.partitions == [PLACE] and described.producer_id == listed.producer_id
    with pytest.raises(BrokerError, match="no such state: Odd"):
        admin.list_transactions(["Odd"])
    with pytest.raises(BrokerError):
        admin.describe_transaction("?")


def test_an_owned_transaction_does_not_hang(admin, producer):
    assert admin.find_hanging_transactions([PLACE], min_age_ms=-1000) == []


def test_an_open_transaction_is_aborted(admin, producer):
    (open_one,) = admin.describe_producers([PLACE])[PLACE]
    assert open_one.transaction_start_offset == 0
    admin.abort_transaction(open_one)
    (after,) = admin.describe_producers([PLACE])[PLACE]
    assert after.transaction_start_offset is None
    assert admin.find_hanging_transactions([PLACE], min_age_ms=-1000) == []


def test_commands(admin, producer, cli):
    listed = cli("transactions", "list", "--json").json
    assert [(each["transactional_id"], each["state"]) for each in listed] == [("x", "Ongoing")]
    assert "t-0" in cli("transactions", "describe", "x").out
    assert "no transaction hangs" in cli("transactions", "find-hanging", "--topic", "t").out
    aborted = cli("transactions", "abort", "--topic", "t", "--partition", "0", "--start-offset", "0")
    assert "aborted the transaction" in aborted.err
    (after,) = admin.describe_producers([PLACE])[PLACE]
    assert after.transaction_start_offset is None
    producer.abort_transaction(HANG_S)


def test_a_fenced_producer(admin, producer, bootstrap):
    other = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": "x", "log_level": 0}
    )
    other.init_transactions(HANG_S)
    with pytest.raises(KafkaException):
        producer.commit_transaction(HANG_S)
    assert admin.describe_transaction("x").state == "Empty"


def test_no_producer_has_had_a_transactional_id(admin):
    with pytest.raises(BrokerError, match="TRANSACTIONAL_ID_NOT_FOUND"):
        admin.describe_transaction("x")
