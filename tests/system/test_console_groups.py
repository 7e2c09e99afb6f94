"""The console's pages of groups against a broker."""

import pytest
from starlette.testclient import TestClient

import bowstring
from bowstring.console.app import create_app
from bowstring.console.options import ConsoleOptions
from tests.support.waiting import HANG_S


@pytest.fixture(scope="module")
def broker():
    with bowstring.Broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def admin(broker):
    with bowstring.Admin(broker.bootstrap_servers) as admin:
        yield admin


@pytest.fixture(scope="module")
def client(broker):
    with console_of(broker.bootstrap_servers) as client:
        yield client


@pytest.fixture(scope="module")
def writer(broker):
    with console_of(broker.bootstrap_servers, write=True) as client:
        yield client


def console_of(servers, **options):
    app = create_app(ConsoleOptions(bootstrap_servers=servers, **options))
    return TestClient(app, base_url="http://localhost:8080")


@pytest.fixture(scope="module")
def topic(broker, admin):
    """Two partitions with ten records each."""
    admin.create_topic("read", 2)
    with bowstring.Producer(broker.bootstrap_servers) as producer:
        for number in range(20):
            producer.send("read", b"x", partition=number % 2)
    return "read"


def test_groups_are_listed_filtered_and_described(broker, admin, client, topic):
    for number in range(3):
        admin.alter_offsets(f"list-{number}", {(topic, 0): number})
    with bowstring.Consumer(
        broker.bootstrap_servers, group_id="a/list <b>", client_id="reader", auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe([topic])
        consumer.poll(HANG_S)
        page = client.get("/groups?q=LIST")
        assert page.status_code == 200
        assert page.text.count("<tr id=") == 4
        assert "/groups/one?name=a%2Flist%20%3Cb%3E" in page.text and "<b>" not in page.text
        assert client.get("/groups?q=list&state=stable").text.count("<tr id=") == 1
        assert "No group matches" in client.get("/groups?q=list&type=share").text
        one = client.get("/groups/one?name=a%2Flist%20%3Cb%3E")
        assert one.status_code == 200
        assert "reader" in one.text and "127.0.0.1" in one.text and "/topics/read" in one.text
    assert client.get("/groups/one?name=list-0").text.count('<th scope="row"><a href="/topics/read">') == 2
    missing = client.get("/groups/one?name=nothing")
    assert missing.status_code == 400 and "does not exist" in missing.text
