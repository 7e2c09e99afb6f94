"""The page of a share group: single records with their states and delivery counts."""

import html
import re

import pytest
from starlette.testclient import TestClient

import bowstring
from bowstring.console.app import create_app
from bowstring.console.options import ConsoleOptions
from tests.support.console_patience import be_patient
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Pages wait for the cluster, however busy this machine is."""
    be_patient(monkeypatch)


@pytest.fixture
def broker():
    with bowstring.Broker() as broker, bowstring.Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("orders")
        admin.alter_configs("group", "workers", set={"share.auto.offset.reset": "earliest"})
        with bowstring.Producer(broker.bootstrap_servers) as producer:
            for number in range(10):
                producer.send("orders", b"%d" % number).result()
        yield broker


def text_of(page):
    """Returns the words of a page, with one space between them."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page.text)).split())


def test_records_that_came_back_or_are_done_are_shown_with_their_deliveries(broker):
    servers = broker.bootstrap_servers
    with (
        bowstring.ShareConsumer(servers, group_id="workers", acknowledgement_mode="explicit") as consumer,
        TestClient(create_app(ConsoleOptions(servers)), base_url="http://localhost:8080") as client,
    ):
        consumer.subscribe(["orders"])
        seen = dict[int, int]()
        while len(seen) < 10 or seen[0] < 2 or seen[5] < 2:
            for record in consumer.poll(timeout=1):
                seen[record.offset] = record.delivery_count
                # 0 comes back each time, 5 once, 7 never.
                if record.offset == 7 or (record.offset == 5 and record.delivery_count == 2):
                    consumer.reject(record)
                elif record.offset in (0, 5):
                    consumer.release(record)
                else:
                    consumer.accept(record)
            consumer.commit_sync()

        def is_shown():
            found = text_of(client.get("/groups/one?name=workers"))
            return "orders 0 7 7 1 archived 1" in found and "orders 0 5 5 1 archived 2" in found

        wait_until(is_shown)
        found = text_of(client.get("/groups/one?name=workers"))
    assert f"orders 0 0 0 1 available again {seen[0]}" in found
    assert all(each in found for each in ("2 archived", "7 acknowledged", "1 available again", "in no API"))


def test_what_a_member_holds_has_no_state_yet(broker):
    servers = broker.bootstrap_servers
    with bowstring.ShareConsumer(servers, group_id="workers", acknowledgement_mode="explicit") as consumer:
        consumer.subscribe(["orders"])
        assert wait_until(lambda: consumer.poll(timeout=1))
        with TestClient(create_app(ConsoleOptions(servers)), base_url="http://localhost:8080") as client:
            wait_until(lambda: "no stored state of single" in client.get("/groups/one?name=workers").text)
