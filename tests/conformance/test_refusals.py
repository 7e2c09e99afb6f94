"""What is not there yet is refused so that each client says so at once (docs/guide/other-clients.md), and none waits."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.drivers import CLIENTS, DriverError, Session
from tests.support.target import BowstringBroker, KafkaBroker
from tests.support.waiting import wait_until

# Far above what any of them needs. Those that wait for it end with another error than these.
TIMEOUT_MS = 60_000
NO_TRANSACTIONS = "This broker does not support transactions yet"
UNSUPPORTED_VERSION, TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 35, 53
REFUSALS = {
    "confluent": (TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NO_TRANSACTIONS),
    "kafka-python": (None, "UnsupportedVersionError"),
    "aiokafka": (UNSUPPORTED_VERSION, "UnsupportedVersionError"),
    "franz-go": (UNSUPPORTED_VERSION, "UNSUPPORTED_VERSION"),
    "sarama": (UNSUPPORTED_VERSION, "version of API is not supported"),
    "kafkajs": (None, "Failed to find group coordinator"),
    "java": (None, NO_TRANSACTIONS),
}


@pytest.fixture(scope="module")
def bowstring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """host:port of a Bowstring broker, also where the suite runs against Kafka."""
    broker = BowstringBroker(tmp_path_factory.mktemp("refusals"))
    broker.start()
    yield broker.bootstrap
    broker.stop()


@pytest.fixture
def on_bowstring(drivers: Callable[..., object], bowstring: str) -> Callable[[str], Session]:
    """on_bowstring("java") talks to that broker, which has a topic `t`."""
    return lambda name: Session(drivers(name), bowstring)  # type: ignore[arg-type]


@pytest.fixture
def topic(on_bowstring: Callable[[str], Session], topic_name: str) -> str:
    on_bowstring("confluent").call("create_topic", topic=topic_name, partitions=1)
    return topic_name


@pytest.mark.parametrize("name", list(CLIENTS))
def test_transactional_ids(name: str, on_bowstring: Callable[[str], Session], topic: str) -> None:
    client = on_bowstring(name)
    with pytest.raises(DriverError) as refused:
        client.call("transact", topic=topic, id=f"of-{name}", timeout_ms=TIMEOUT_MS)
    code, words = REFUSALS[name]
    assert refused.value.code == code and words in str(refused.value), str(refused.value)
    records = [{"partition": 0, "key": b"k", "value": b"without transactions"}]
    assert client.produce(topic, records)[0]["offset"] == 0


def test_transactions_where_there_are_some(drivers: Callable[..., object], tmp_path: Path) -> None:
    """The drivers do what they say: on Apache Kafka every client's transaction is committed."""
    kafka = KafkaBroker(tmp_path / "kafka")
    kafka.start()
    try:
        for name in CLIENTS:
            client = Session(drivers(name), kafka.bootstrap)  # type: ignore[arg-type]
            client.call("create_topic", topic=f"of-{name}", partitions=1)
            client.call("transact", topic=f"of-{name}", id=f"of-{name}", timeout_ms=TIMEOUT_MS)
            assert client.consume(f"of-{name}", 1)[0]["value"] == b"in a transaction"
    finally:
        kafka.kill()


def join(client: Session, topic: str) -> Callable[[], object]:
    """A member that asks for the new protocol; calls of what is returned give its state."""
    handle = client.driver.handle()
    options = {"assignor": "range", "session_timeout_ms": 10_000, "protocol": "consumer"}
    client.call("join", handle=handle, group=topic, topics=[topic], **options)
    return lambda: client.call("member", handle=handle)


@pytest.mark.parametrize(
    ("name", "words"),
    [("confluent", "ConsumerGroupHeartbeat fatal error"), ("java", "group.protocol=classic")],
)
def test_the_new_group_protocol(
    name: str, words: str, on_bowstring: Callable[[str], Session], topic: str
) -> None:
    state = join(on_bowstring(name), topic)
    refusals: list[str] = []

    def refused() -> bool:
        try:
            state()
        except DriverError as error:
            refusals.append(str(error))
        return bool(refusals)

    wait_until(refused, f"{name} says that there is no such protocol")
    assert words in refusals[0]


def test_franz_go_takes_the_classic_protocol_instead(
    on_bowstring: Callable[[str], Session], topic: str
) -> None:
    state = join(on_bowstring("franz-go"), topic)
    wait_until(lambda: state()["assignment"] == [[topic, 0]], "the partition is assigned")  # type: ignore[index]
