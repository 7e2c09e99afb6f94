"""Registries of one group under load while leaders, and brokers of their topic, are killed or frozen."""

import itertools
import json
import threading
from typing import Any

import pytest

from bowstring.clients.admin.admin import Admin
from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.records import TopicPartition
from bowstring.cluster.cluster import Cluster
from tests.support.registry_process import RegistryProcess
from tests.support.waiting import wait_until

URLS = [f"http://127.0.0.1:{port}" for port in (18081, 18082, 18083)]
WORKERS = 24
ACKED_BETWEEN = 150
TOPIC = "_schemas"
ANSWER_S = 15.0


@pytest.fixture(scope="module")
def cluster():
    config = {"group.min.session.timeout.ms": "1000", "transaction.state.log.num.partitions": "3"}
    with Cluster(3, config=config) as started:
        yield started


class Load:
    """Workers that register new schemas at any registry, and go on with each until it has an id.

    Attributes:
        acked: ids by subject and schema.
    """

    def __init__(self, bootstrap_servers: str):
        self.bootstrap_servers = bootstrap_servers
        self.acked: dict[tuple[str, str], int] = {}
        self.registries = {url: RegistryProcess(bootstrap_servers, url) for url in URLS}
        self._stopping = threading.Event()
        self._numbers = itertools.count()
        self._threads = [threading.Thread(target=self._work, args=(each,)) for each in range(WORKERS)]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for registry in self.registries.values():
            registry.stop()
        for thread in self._threads:
            thread.join()

    def _work(self, worker: int) -> None:
        while not self._stopping.is_set():
            number = next(self._numbers)
            subject, name = f"subject-{number % 7}", f"s{number}"
            fields = [{"name": name, "type": "int", "default": 0}]
            schema = json.dumps({"type": "record", "name": "r", "fields": fields})
            url = URLS[(worker + number) % len(URLS)]
            while not self._stopping.is_set():
                kind, answer = self.registries[url].register(subject, schema, ANSWER_S)
                if kind == "id":
                    self.acked[subject, name] = answer
                    break
                assert kind != "error" or answer in (50001, 50002), answer
                url = answer if kind == "elsewhere" and answer else URLS[(URLS.index(url) + 1) % len(URLS)]

    def leader(self) -> RegistryProcess:
        """The registry that leads, once one does."""
        return wait_until(lambda: next((each for each in self.registries.values() if each.leads), None))

    def goes_on(self) -> None:
        """Waits for more answers."""
        enough = len(self.acked) + ACKED_BETWEEN
        wait_until(lambda: len(self.acked) >= enough, lambda: f"{len(self.acked)} schemas, and no more")

    def restart(self, registry: RegistryProcess) -> None:
        self.registries[registry.url] = RegistryProcess(self.bootstrap_servers, registry.url)


def stored(bootstrap_servers: str) -> list[dict[str, Any]]:
    """The schemas of the topic, in order, as any reader finds them."""
    partition = TopicPartition(TOPIC, 0)
    found: list[dict[str, Any]] = []
    with Consumer(bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        while consumer.position(partition) < end:
            for record in consumer.poll(1.0):
                if record.value is not None and json.loads(record.key)["keytype"] == "SCHEMA":
                    found.append(json.loads(record.value))
    return found


def check(load: Load) -> None:
    schemas = stored(load.bootstrap_servers)
    names = {told["id"]: json.loads(told["schema"])["fields"][0]["name"] for told in schemas}
    assert len(names) == len(schemas), "an id, or a schema, is there twice"
    assert len(set(names.values())) == len(schemas), "a schema has two ids"
    assert sorted(names) == list(range(1, len(names) + 1)), "ids have gaps"
    lost = {key for key, id in load.acked.items() if names.get(id) != key[1]}
    assert not lost, f"acknowledged, and lost: {lost}"
    versions: dict[str, list[int]] = {}
    for told in schemas:
        versions.setdefault(told["subject"], []).append(told["version"])
    assert all(found == list(range(1, len(found) + 1)) for found in versions.values()), versions


def test_leaders_and_brokers_are_killed_under_load(cluster):
    with Load(cluster.bootstrap_servers) as load:
        load.goes_on()
        killed = load.leader()
        killed.kill()
        load.goes_on()
        load.restart(killed)
        with Admin(cluster.bootstrap_servers) as admin:
            broker = admin.describe_topic(TOPIC).partitions[0].leader
        cluster.kill(broker)
        load.goes_on()
        cluster.restart(broker)
        frozen = load.leader()
        frozen.freeze()
        wait_until(lambda: any(each.leads for each in load.registries.values() if each is not frozen))
        frozen.thaw()
        load.goes_on()
        wait_until(lambda: [each.leads for each in load.registries.values()].count(True) == 1)
    check(load)
