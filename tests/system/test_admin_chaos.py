"""Administrators and clients that misuse a cluster, in processes: it survives, and its nodes agree.

Each scenario is a test with a cluster of its own: the same topics created, deleted and grown at once; requests that
keep the controller busy. BOWSTRING_SOAK_SECONDS sets for how long each goes on (`make soak`), BOWSTRING_SEED other
choices.
"""

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import Any, Final

import pytest

import bowstring
from bowstring.clients.admin.admin import Admin
from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.metadata.store.reader import read_metadata
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from bowstring.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from bowstring.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from bowstring.protocol.messages.metadata import MetadataRequest
from bowstring.protocol.schema import Request
from tests.support.waiting import FOR_EVER_S, HANG_S, wait_until
from tests.support.wire_client import WireClient

SOAK_SECONDS: Final = float(os.environ.get("BOWSTRING_SOAK_SECONDS", "0"))
SEED: Final = int(os.environ.get("BOWSTRING_SEED", "1"))
BROKERS: Final = (1, 2, 3)
FENCED: Final = "sent no heartbeat for broker.session.timeout.ms"

pytestmark = pytest.mark.timeout(2 * SOAK_SECONDS + FOR_EVER_S)


# ---------------------------------------------------------------- clusters and clients


@contextmanager
def cluster_of_three(**configs: object) -> Iterator[bowstring.Cluster]:
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    with bowstring.Cluster(3, config=settings, linked=False, start_timeout_s=HANG_S) as made:
        yield made


def connected(cluster: bowstring.Cluster, broker_id: int, client_id: str = "chaos") -> WireClient:
    host, _, port = cluster.address(broker_id).rpartition(":")
    return WireClient(int(port), host, client_id)


class Threads:
    """Threads that run until `seconds` have passed. The first failure of one ends all."""

    def __init__(self, seconds: float) -> None:
        self.over = threading.Event()
        self.failures: list[BaseException] = []
        self._ends_s = time.monotonic() + seconds
        self._threads: list[threading.Thread] = []

    def start(self, step: Callable[[], None], close: Callable[[], None]) -> None:
        """Repeats a step in a thread of its own."""

        def go() -> None:
            try:
                while time.monotonic() < self._ends_s and not self.over.is_set():
                    step()
            except BaseException as error:
                self.failures.append(error)
                self.over.set()
            finally:
                close()

        self._threads.append(threading.Thread(target=go, daemon=True))
        self._threads[-1].start()

    def join(self) -> None:
        for each in self._threads:
            each.join(max(0.0, self._ends_s - time.monotonic()) + HANG_S)
        assert not self.failures, self.failures
        assert not any(each.is_alive() for each in self._threads), "a request has no answer"


# ---------------------------------------------------------------- what holds afterwards


def seen_by(cluster: bowstring.Cluster, broker_id: int) -> dict[str, Any]:
    """Topics as a broker shows them to clients."""
    client = connected(cluster, broker_id)
    try:
        answer = client.ask(MetadataRequest(topics=None))
    finally:
        client.close()
    return {
        topic.name: (
            topic.topic_id,
            sorted((each.partition_index, each.leader_id, each.leader_epoch) for each in topic.partitions),
        )
        for topic in answer.topics
    }


def check_agreement(cluster: bowstring.Cluster) -> None:
    """All nodes run and show clients the same, every request is answered, every topic is served."""
    assert tuple(cluster.running_ids) == BROKERS, [cluster.log_text(id)[-2000:] for id in BROKERS]

    def agree() -> bool:
        first, *others = (seen_by(cluster, id) for id in BROKERS)
        return all(each == first for each in others)

    wait_until(agree, lambda: [len(seen_by(cluster, id)) for id in BROKERS], every_s=1.0)
    name = f"after-{time.monotonic_ns()}"
    with Admin(cluster.bootstrap_servers, timeout_ms=int(HANG_S * 1000)) as admin:
        wait_until(lambda: len(admin.describe_cluster().brokers) == len(BROKERS))
        admin.create_topic(name, partitions=3)
        with bowstring.Producer(cluster.bootstrap_servers, acks="all") as producer:
            for partition in range(3):
                producer.send(name, b"x", partition=partition).result(HANG_S)
        admin.delete_topics([name])


def facts(image: ClusterImage) -> object:
    """What the last records of a cluster that stops do not change."""
    topics = {
        each.name: (each.id, [part.replicas for part in each.partitions]) for each in image.topics.values()
    }
    return topics, {resource: configs for resource, configs in image.configs.items() if configs}


def check_logs(cluster: bowstring.Cluster) -> None:
    """Every record in the metadata logs of the stopped nodes can be applied, and they say the same."""
    states = [read_metadata(cluster.log_dir(id) / "__cluster_metadata-0") for id in BROKERS]
    assert all(facts(state.image) == facts(states[0].image) for state in states)


def check_restart(cluster: bowstring.Cluster) -> None:
    cluster.stop(*BROKERS)
    check_logs(cluster)
    cluster.restart(*BROKERS)
    check_agreement(cluster)
    cluster.kill(*BROKERS)
    cluster.restart(*BROKERS)
    check_agreement(cluster)


def check_nobody_was_fenced(cluster: bowstring.Cluster) -> None:
    said = [line for id in cluster.node_ids for line in cluster.log_text(id).splitlines() if FENCED in line]
    assert not said, said


# ---------------------------------------------------------------- the same topics at once


class Administrator:
    """Creates, deletes and grows topics of few names, through all brokers in turn."""

    def __init__(self, cluster: bowstring.Cluster, seed: int, names: list[str], most: int) -> None:
        self.chance = random.Random(seed)
        self.clients = [connected(cluster, id, f"admin-{seed % 4}") for id in BROKERS]
        self.names, self.most = names, most
        self.answers: Counter[str] = Counter()

    def close(self) -> None:
        for each in self.clients:
            each.close()

    def step(self) -> None:
        chosen = self.chance.sample(self.names, self.most)
        answer = self.chance.choice(self.clients).ask(self._request(chosen))
        results = next(
            found
            for name in ("topics", "responses", "results")
            if (found := getattr(answer, name, None)) is not None
        )
        assert len(results) == len(chosen)
        for each in results:
            assert each.error_code != Errors.UNKNOWN_SERVER_ERROR.code, each
            self.answers[Errors.of(each.error_code).name] += 1

    def _request(self, names: list[str]) -> Request:
        kind = self.chance.random()
        if kind < 0.45:
            partitions = self.chance.randrange(1, 4) if self.most == 1 else 1
            return CreateTopicsRequest(
                topics=[
                    CreatableTopic(name=name, num_partitions=partitions, replication_factor=-1)
                    for name in names
                ]
            )
        if kind < 0.85 or self.most > 1:
            return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names])
        return CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=self.chance.randrange(2, 6)) for name in names]
        )


def test_the_same_topics_created_deleted_and_grown_at_once():
    """Eight administrators change single topics, three change many at once, all of the same names."""
    seconds = SOAK_SECONDS or 12.0
    names, most = (1500, 900) if SOAK_SECONDS else (60, 30)
    configs = {"default_replication_factor": 3 if not SOAK_SECONDS else 1, "num_partitions": 1}
    with cluster_of_three(broker_session_timeout_ms=9000, **configs) as cluster:
        threads = Threads(seconds)
        many = [f"n{number}" for number in range(names)]
        administrators = [Administrator(cluster, SEED + number, many[:30], 1) for number in range(8)]
        administrators += [Administrator(cluster, SEED + 100 + number, many, most) for number in range(3)]
        for each in administrators:
            threads.start(each.step, each.close)
        threads.join()
        answers = sum((each.answers for each in administrators), Counter[str]())
        assert answers["NONE"] > 50, answers
        check_agreement(cluster)
        check_restart(cluster)


# ---------------------------------------------------------------- a busy controller

CONNECTIONS: Final = 60
PARTITIONS: Final = 9000
BETWEEN_MAX: Final = 6
"""How many requests of the client with many are answered, at most, while one of another client waits. That does not
depend on the machine; on one that does nothing else the other client waits for less than a second."""


def test_many_large_validations_fence_no_broker():
    """Heartbeats do not wait behind the requests of clients, and clients not behind one with many requests."""
    seconds = SOAK_SECONDS or 20.0
    # The default is 9 s, for which a busy machine may stand still; heartbeats wait behind nothing in the simulator too.
    session_ms = 9000 if SOAK_SECONDS else 30_000
    with cluster_of_three(broker_session_timeout_ms=session_ms, broker_heartbeat_interval_ms=2000) as cluster:
        with Admin(cluster.bootstrap_servers, timeout_ms=int(HANG_S * 1000)) as admin:
            leader = admin.describe_quorum().leader_id
        troubled = next(id for id in BROKERS if id != leader)
        large = CreateTopicsRequest(
            topics=[CreatableTopic(name="large", num_partitions=PARTITIONS, replication_factor=3)],
            validate_only=True,
        )
        threads, answered = Threads(seconds), Counter[int]()
        between: list[int] = []

        def flood(client: WireClient) -> None:
            (topic,) = client.ask(large).topics
            answered[topic.error_code] += 1

        def other(client: WireClient) -> None:
            before = answered.total()
            small = CreatableTopic(name="small", num_partitions=1, replication_factor=1)
            (topic,) = client.ask(CreateTopicsRequest(topics=[small], validate_only=True)).topics
            assert topic.error_code == 0, topic
            between.append(answered.total() - before)

        for _ in range(CONNECTIONS):
            client = connected(cluster, troubled, "flood")
            threads.start(partial(flood, client), client.close)
        client = connected(cluster, troubled, "other")
        threads.start(lambda: other(client), client.close)
        threads.join()
        assert set(answered) <= {0, Errors.REQUEST_TIMED_OUT.code} and answered[0] > 0, answered
        assert median(between) <= BETWEEN_MAX, sorted(between)
        check_nobody_was_fenced(cluster)
        check_agreement(cluster)
