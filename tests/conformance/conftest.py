"""Fixtures of the conformance suite: one shared broker, one driver process per client, brokers to restart."""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.drivers import CLIENTS, Driver, Session
from tests.conformance.guard import settings_of
from tests.support.secured_nodes import key_files
from tests.support.target import BowstringBroker, Broker, KafkaBroker, target_class
from tests.support.wire import wait_for_leaders

_numbers = itertools.count(1)


@pytest.fixture(scope="package")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """host:port of the shared broker; no test stops it."""
    given = os.environ.get("BOWSTRING_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    broker = target_class()(tmp_path_factory.mktemp("broker"))
    broker.start()
    yield broker.bootstrap
    broker.stop()


@pytest.fixture(scope="package", params=[KafkaBroker, BowstringBroker])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of each kind in turn, for tests of our own clients on both; at SECURED with TLS and SASL."""
    quick = {f"group.{kind}.min.heartbeat.interval.ms": "100" for kind in ("consumer", "share")}
    share_state = {f"share.coordinator.state.topic.{name}": "1" for name in ("replication.factor", "min.isr")}
    folder = tmp_path_factory.mktemp("clients")
    settings = {
        "log.retention.ms": "-1",
        **quick,
        **share_state,
        **settings_of("SECURED"),
        **key_files(folder),
    }
    broker = request.param(folder, settings, listeners={"SECURED": "SASL_SSL"})
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(scope="package")
def where(both: Broker) -> str:
    """host:port of its listener in the clear."""
    return both.bootstrap


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    """A started broker that the test may stop, kill and restart."""
    broker = target_class()(tmp_path / "broker")
    broker.start()
    yield broker
    if broker.alive():
        broker.kill()


@pytest.fixture(scope="package")
def drivers() -> Iterator[Callable[[str], Driver]]:
    """Starts each client's driver once; a driver that died or hung is started again."""
    running: dict[str, Driver] = {}

    def get(name: str) -> Driver:
        if name not in running or not running[name].running():
            running[name] = Driver(CLIENTS[name])
        return running[name]

    yield get
    for driver in running.values():
        driver.close()


@pytest.fixture
def session(drivers: Callable[[str], Driver], bootstrap: str) -> Callable[[str], Session]:
    """session("java") talks to the shared broker with that client."""
    return lambda name: Session(drivers(name), bootstrap)


@pytest.fixture(params=list(CLIENTS))
def client(request: pytest.FixtureRequest, session: Callable[[str], Session]) -> Session:
    """Each client in turn, on the shared broker."""
    return session(request.param)


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses."""
    plain = "".join(each if each.isalnum() else "-" for each in request.node.name)[:60]
    return f"{plain}-{next(_numbers)}-{os.getpid()}"


@pytest.fixture
def make_topic(session: Callable[[str], Session], topic_name: str, bootstrap: str) -> Callable[..., str]:
    """make_topic(partitions, **configs) creates topics through confluent-kafka; dots in config names as underscores."""
    counter = itertools.count(1)

    def make(partitions: int = 1, **configs: str) -> str:
        name = f"{topic_name}-{next(counter)}"
        # Keep records with old timestamps, unless a test sets another value.
        configs = {"retention_ms": "-1", **configs}
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        session("confluent").call("create_topic", topic=name, partitions=partitions, configs=dotted)
        wait_for_leaders(bootstrap, name, partitions)
        return name

    return make
