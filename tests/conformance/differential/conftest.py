"""Both brokers, started once from nothing with the same settings."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.differential.compare import Pair
from tests.conformance.differential.talk import Talk
from tests.conformance.target import BowstringBroker, KafkaBroker

SHORTEST_SESSION_MS = 600
LARGEST_GROUP = 4
SETTINGS = {
    "node.id": "1",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "group.min.session.timeout.ms": str(SHORTEST_SESSION_MS),
    "group.max.size": str(LARGEST_GROUP),
    # Answers must not depend on how far a rebalance timer or a retention pass has come.
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.check.interval.ms": "3600000",
    "log.initial.task.delay.ms": "3600000",
}


def everything_ran(request: pytest.FixtureRequest, pair: Pair) -> bool:
    """Whether no conversation was left out or failed."""
    chosen = request.config.getoption("keyword") or any("::" in each for each in request.config.args)
    modules = {path.stem for path in Path(__file__).parent.glob("test_*.py")}
    return not chosen and not request.session.testsfailed and pair.modules == modules


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Both brokers with a group coordinator that is ready; in the end, whether each deliberate difference is one."""
    kafka = KafkaBroker(tmp_path_factory.mktemp("kafka"), SETTINGS)
    bowstring = BowstringBroker(tmp_path_factory.mktemp("bowstring"), SETTINGS)
    starting = threading.Thread(target=kafka.start)
    starting.start()
    bowstring.start()
    starting.join()
    try:
        for broker in (kafka, bowstring):
            talk = Talk(broker.host, broker.port, "warm-up", 0)
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
