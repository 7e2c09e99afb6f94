"""The console's pages on Apache Kafka as on Bowstring."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from bench.console.pages import Console, running_console
from bench.console.views import views
from bowstring import Admin, Consumer, Producer
from tests.support.waiting import wait_until

TOPIC, GROUP, TRANSACTION = "console-orders", "console-billing", "console-payments"
PATHS = views(TOPIC, [GROUP], TRANSACTION)
RECORDS = 20
# What pages show of this cluster, beside names that their address has.
SHOWN = {
    "/topics": [TOPIC],
    f"/topics/{TOPIC}/messages": ["customer 3"],
    "/groups": [GROUP],
    f"/groups/one?name={GROUP}": [TOPIC, "Lag"],
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
            with running_console(where, "--write") as console:
                yield console


@pytest.mark.parametrize("path", PATHS)
def test_a_page(console: Console, path: str) -> None:
    def is_shown() -> bool:
        """A page may show a frame first."""
        answer = console.get(path)
        text = answer.body.decode()
        assert answer.status in (200, 303), text
        return all(words in text for words in SHOWN.get(path, ()))

    assert wait_until(is_shown)
