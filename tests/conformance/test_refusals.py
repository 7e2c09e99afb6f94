"""Unsupported features are refused, and each client reports that at once (docs/guide/other-clients.md)."""

from collections.abc import Callable, Iterator

import pytest

from tests.conformance.drivers import DriverError, Session
from tests.support.target import BowstringBroker
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def bowstring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """host:port of a Bowstring broker without the new protocols, even if the suite runs against Kafka."""
    broker = BowstringBroker(tmp_path_factory.mktemp("refusals"))
    broker.settings["group.coordinator.rebalance.protocols"] = "classic"
    broker.start()
    yield broker.bootstrap
    broker.stop()


@pytest.fixture
def on_bowstring(drivers: Callable[..., object], bowstring: str) -> Callable[[str], Session]:
    """on_bowstring("java") on that broker, which has a topic `t`."""
    return lambda name: Session(drivers(name), bowstring)  # type: ignore[arg-type]


@pytest.fixture
def topic(on_bowstring: Callable[[str], Session], topic_name: str) -> str:
    on_bowstring("confluent").call("create_topic", topic=topic_name, partitions=1)
    return topic_name


def join(client: Session, topic: str) -> Callable[[], object]:
    """A member that uses the new protocol; the returned functions report its state."""
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
