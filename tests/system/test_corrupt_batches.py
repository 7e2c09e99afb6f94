"""A damaged file under a whole broker, read by librdkafka: intact batches arrive, damaged ones never do."""

import json
import logging
import time

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from bowstring import Broker
from bowstring.engine.broker.metrics import exposition, registry
from tests.support.cold_logs import flip, layout
from tests.support.embedded import engine_of
from tests.support.waiting import HANG_S

TOPIC = "letters"
CONFIG = {"log.segment.bytes": 1 << 20, "bowstring.scrub.bytes.per.second": 0}
RECORDS = 3000


def value(n: int) -> bytes:
    return b"%d" % n + b"." * 990


def write(broker: Broker) -> None:
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 1, "batch.size": 20_000, "acks": "all"}
    )
    for n in range(RECORDS):
        producer.produce(TOPIC, value(n), partition=0)
    assert producer.flush(HANG_S) == 0


def fetches(broker: Broker) -> int:
    """How many fetches the broker has answered."""
    return int(engine_of(broker).plane.counters()["fetch"]["requests"])


def read(broker: Broker, offset: int, end: int) -> tuple[dict[int, bytes], bool]:
    """Values from `offset` on until `end` or an error; and whether librdkafka met damage."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "readers",
            "enable.auto.commit": False,
            "check.crcs": False,
            "fetch.error.backoff.ms": 10,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, offset)])
    found: dict[int, bytes] = {}
    deadline = time.monotonic() + HANG_S
    damaged, asked_before = False, fetches(broker)
    while not damaged and max(found, default=-1) < end - 1 and time.monotonic() < deadline:
        # librdkafka repeats fetches of a damaged batch, and sends one after it has returned the records
        # before it: three fetches without a record since the last one mean that no more will come.
        asked = fetches(broker)
        message = consumer.poll(0.1)
        if message is None:
            damaged = asked >= asked_before + 3
        elif message.error() is None:
            found[message.offset()] = message.value()
            asked_before = fetches(broker)
        else:
            assert message.error().code() in (KafkaError.INVALID_MSG, KafkaError._BAD_MSG)
            damaged = True
    consumer.close()
    return found, damaged


def test_damage_is_kept_from_librdkafka(tmp_path, caplog):
    with Broker(data_dir=tmp_path, config=CONFIG) as broker:
        write(broker)
    batches = layout(tmp_path / f"{TOPIC}-0")
    which = next(i for i, each in enumerate(batches) if each[0] == batches[0][0] and each[3] > 100)
    path, position, size, first = batches[which]
    behind = batches[which + 1][3]
    flip(path, position + 700)
    with caplog.at_level(logging.INFO), Broker(data_dir=tmp_path, config=CONFIG) as broker:
        before, damaged = read(broker, 0, RECORDS)
        assert damaged
        assert before == {n: value(n) for n in range(first)}
        assert read(broker, behind, RECORDS) == ({n: value(n) for n in range(behind, RECORDS)}, False)
        exposed = exposition(registry(engine_of(broker)), "", "")[0].decode()
        assert "bowstring_corrupt_ranges 1.0" in exposed
    told = [json.dumps(record.__dict__, default=str) for record in caplog.records]
    (line,) = [each for each in told if "corrupt-batch" in each or "are not served" in each]
    assert f"{path.name}: {size} bytes at position {position}" in line
