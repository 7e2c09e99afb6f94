"""Starts both brokers once, empty, with the same settings."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.differential.compare import Pair
from tests.conformance.differential.settings import LISTENERS, SETTINGS
from tests.conformance.differential.talk import Talk
from tests.support.target import BowstringBroker, KafkaBroker

# Tests add rules about the cluster, after which it would be closed to those who have none.
EVERYONE_AND_THE_CLUSTER = {
    "resource_type": 4,
    "resource_name": "kafka-cluster",
    "resource_pattern_type": 3,
    "principal": "User:*",
    "host": "*",
    "operation": 2,
    "permission_type": 3,
}


def everything_ran(request: pytest.FixtureRequest, pair: Pair) -> bool:
    """Whether no conversation was left out or failed."""
    chosen = request.config.getoption("keyword") or any("::" in each for each in request.config.args)
    modules = {path.stem for path in Path(__file__).parent.glob("test_*.py")}
    return not chosen and not request.session.testsfailed and pair.modules == modules


@pytest.fixture(scope="package")
def pair(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Yields both brokers with a ready group coordinator; at the end checks that every deliberate difference occurred."""
    kafka = KafkaBroker(tmp_path_factory.mktemp("kafka"), SETTINGS, listeners=LISTENERS)
    bowstring = BowstringBroker(tmp_path_factory.mktemp("bowstring"), SETTINGS, listeners=LISTENERS)
    starting = threading.Thread(target=kafka.start)
    starting.start()
    bowstring.start()
    starting.join()
    try:
        for broker in (kafka, bowstring):
            talk = Talk(broker.host, broker.port, "warm-up", 0)
            talk.ask("CreateAcls", 3, creations=[EVERYONE_AND_THE_CLUSTER])
            talk.until(
                lambda answer: answer.error_code == 0,
                "InitProducerId",
                0,
                transactional_id=None,
                transaction_timeout_ms=1000,
            )
            talk.until(lambda answer: answer.error_code == 0, "FindCoordinator", 0, key="any")
            talk.until(lambda answer: answer.error_code == 69, "OffsetDelete", 0, group_id="any")
            talk.close()
        pair = Pair(kafka, bowstring)
        yield pair
        assert not (everything_ran(request, pair) and pair.stale()), (
            f"rows without a difference: {pair.stale()}"
        )
    finally:
        for broker in (kafka, bowstring):
            if broker.alive():
                broker.kill()
