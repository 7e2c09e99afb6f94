"""The console's pages on Apache Kafka as on Bowstring."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench.console.pages import Console, running_console
from bench.console.views import views
from bowstring import Admin, Consumer, Producer, ShareConsumer
from tests.support.waiting import wait_until

SHARE_GROUP = "console-workers"
TOPIC, GROUP, TRANSACTION = "console-orders", "console-billing", "console-payments"
PATHS = views(TOPIC, [GROUP, SHARE_GROUP], TRANSACTION)
RECORDS = 20
# What pages show of this cluster, beside names that their address has.
SHOWN = {
    "/topics": [TOPIC],
    f"/topics/{TOPIC}/messages": ["customer 3"],
    "/groups": [GROUP],
    f"/groups/one?name={GROUP}": [TOPIC, "Lag"],
    f"/groups/one?name={SHARE_GROUP}": ["Batches of records", "archived", "available again"],
    "/transactions": [TRANSACTION],
}


@pytest.fixture(scope="module")
def console(where: str) -> Iterator[Console]:
    """A console of a broker with records, a group and a transaction."""
    with Admin(where) as admin:
        admin.create_topic(TOPIC, 1)
        wait_until(lambda: TOPIC in admin.topics())
    with Producer(where, transactional_id=TRANSACTION) as producer:
        producer.begin_transaction()
        for number in range(RECORDS):
            producer.send(TOPIC, json.dumps({"customer": f"customer {number}"}).encode(), key=b"%d" % number)
        producer.commit_transaction()
        with Consumer(where, group_id=GROUP, auto_offset_reset="earliest") as consumer:
            consumer.subscribe([TOPIC])
            wait_until(lambda: consumer.poll(timeout=1))
            consumer.commit()
            with _workers(where), running_console(where, "--write") as console:
                yield console


@contextmanager
def _workers(where: str) -> Iterator[None]:
    """A share group whose first record comes back each time, and whose second one is refused."""
    with Admin(where) as admin:
        admin.alter_configs("group", SHARE_GROUP, set={"share.auto.offset.reset": "earliest"})
    with ShareConsumer(where, group_id=SHARE_GROUP, acknowledgement_mode="explicit") as consumer:
        consumer.subscribe([TOPIC])
        found = wait_until(lambda: consumer.poll(timeout=1))
        consumer.release(found[0])
        consumer.reject(found[1])
        consumer.accept(found[2:])
        consumer.commit_sync()
        yield


@pytest.mark.parametrize("path", PATHS)
def test_a_page(console: Console, path: str) -> None:
    def is_shown() -> bool:
        """A page may show a frame first."""
        answer = console.get(path)
        text = answer.body.decode()
        assert answer.status in (200, 303), text
        return all(words in text for words in SHOWN.get(path, ()))

    assert wait_until(is_shown)
