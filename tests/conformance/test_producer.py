"""Our producer beside Java's, against Bowstring and against Apache Kafka: where records go, and that each is there once."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bowstring.clients.admin.admin import Admin
from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.producer.producer import Producer
from bowstring.clients.records import Record
from tests.conformance.drivers import CODECS, Session
from tests.support.target import Broker, KafkaBroker
from tests.support.waiting import HANG_S, pause, wait_until


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[KafkaBroker]:
    """Apache Kafka."""
    made = KafkaBroker(tmp_path / "kafka")
    made.start()
    yield made
    made.kill()


def everything(bootstrap: str, topic: str) -> list[Record]:
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions_for(topic))
        end = consumer.end_offsets(consumer.assignment())
        records: list[Record] = []
        while any(consumer.position(p) < end[p] for p in end):
            records += consumer.poll(timeout=HANG_S)
        return records


def test_keys_go_where_javas_producer_puts_them(
    session: Callable[[str], Session], make_topic: Callable[..., str], bootstrap: str
) -> None:
    topic = make_topic(7)
    keys = [bytes([i % 256]) * (i % 40) + b"%d" % (i * 7919) for i in range(400)] + [b""]
    by_java = session("java").produce(topic, [{"key": key, "value": b"java"} for key in keys])
    places = [told["partition"] for told in by_java]
    with Producer(bootstrap) as producer:
        ours = [producer.send(topic, b"send", key) for key in keys]
        producer.send_arrow(topic, pa.table({"key": keys, "value": [b"arrow"] * len(keys)})).result(HANG_S)
        assert [future.result(HANG_S).partition for future in ours] == places
    by_value: dict[bytes | None, dict[bytes | None, int]] = {}
    for record in everything(bootstrap, topic):
        by_value.setdefault(record.value, {})[record.key] = record.partition
    expected = dict(zip(keys, places, strict=True))
    assert by_value == {b"java": expected, b"send": expected, b"arrow": expected}


def test_killed_and_started_again_on_the_same_port(own_broker: Broker) -> None:
    """All acknowledged records are there, and none twice, although batches were sent again."""
    with Admin(own_broker.bootstrap, timeout_ms=int(HANG_S * 1000)) as admin:
        admin.create_topic("kept", 3)
        wait_until(lambda: "kept" in admin.topics())
    ended = threading.Event()
    futures = []
    with Producer(
        own_broker.bootstrap, linger_ms=1, batch_size=4000, retry_backoff_ms=20, request_timeout_ms=5000
    ) as producer:

        def work() -> None:
            number = 0
            while not ended.is_set():
                for _ in range(50):
                    futures.append(producer.send("kept", b"%d" % number, b"%d" % (number % 11)))
                    number += 1
                pause(0.005, "the pace of the load")

        def more_is_acknowledged() -> None:
            """Some hundreds of the records sent from now on, in the middle of more."""
            wanted = len(futures) + 300
            wait_until(lambda: len(futures) > wanted and futures[wanted].done())

        worker = threading.Thread(target=work)
        worker.start()
        for _ in range(2):
            more_is_acknowledged()
            own_broker.kill()
            pause(0.2, "the broker is away for a while")
            own_broker.start()
        more_is_acknowledged()
        ended.set()
        worker.join()
        producer.flush(HANG_S)
        assert [future.exception(0) for future in futures if future.exception(0) is not None] == []
    records = everything(own_broker.bootstrap, "kept")
    by_key: dict[bytes | None, list[int]] = {}
    for record in records:
        by_key.setdefault(record.key, []).append(int(record.value or b""))
    assert len(futures) > 500
    assert by_key == {b"%d" % key: list(range(key, len(futures), 11)) for key in range(11)}, (
        "in order, each once"
    )


def test_apache_kafka_takes_it_all(kafka: KafkaBroker) -> None:
    """Every codec and every acks, headers and nulls, from records and from tables."""
    rows = [(b"k%d" % (i % 5), b"value %d" % i * (i % 9)) for i in range(500)]
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    table = pa.table(
        {
            "key": [key for key, _ in rows],
            "value": [value for _, value in rows],
            "headers": pa.array([[("h", b"1"), ("n", None)]] * len(rows), kind),
        }
    )
    settings = [{"compression": codec} for codec in CODECS] + [{"acks": 1}, {"acks": 0}]
    for number, options in enumerate(settings):
        topic = f"taken-{number}"
        with Producer(kafka.bootstrap, batch_size=3000, **options) as producer:  # type: ignore[arg-type]
            producer.partitions_for(topic)
            for key, value in rows:
                producer.send(topic, value, key, headers=[("h", b"1"), ("n", None)])
            producer.send(topic, None, b"gone")
            producer.send_arrow(topic, table)
            producer.flush(HANG_S)
            assert producer.metrics()["record-error-total"] == 0

        def all_records(topic: str = topic) -> Any:  # acks=0: no answer shows when it is there
            found = everything(kafka.bootstrap, topic)
            return found if len(found) >= 1001 else None

        records = wait_until(all_records, every_s=0.1)
        assert [(r.key, r.value) for r in records] == [*rows, (b"gone", None), *rows]
        assert {r.headers for r in records if r.key != b"gone"} == {(("h", b"1"), ("n", None))}
