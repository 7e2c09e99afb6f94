"""The console's pages against a broker."""

import pytest
from starlette.testclient import TestClient

import bowstring
from bowstring.console.app import create_app
from bowstring.console.options import ConsoleOptions


@pytest.fixture(scope="module")
def broker():
    with bowstring.Broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def admin(broker):
    with bowstring.Admin(broker.bootstrap_servers) as admin:
        yield admin


def console_of(servers, **options):
    app = create_app(ConsoleOptions(bootstrap_servers=servers, **options))
    return TestClient(app, base_url="http://localhost:8080")


def test_topics_are_listed_filtered_and_sorted(broker, admin):
    for name, partitions in (("listed-a", 3), ("listed-b", 5)):
        admin.create_topic(name, partitions=partitions)
    with console_of(broker.bootstrap_servers) as client:
        page = client.get("/topics?q=LISTED&sort=partitions&order=desc")
        assert page.status_code == 200
        assert page.text.index('href="/topics/listed-b"') < page.text.index('href="/topics/listed-a"')
        assert "7 d" in page.text
        assert "Create a topic" not in page.text, "the console is read-only"
        assert "No topic has" in client.get("/topics?q=<b>").text


def test_a_cluster_that_is_away_is_a_page():
    with console_of("127.0.0.1:1", timeout_s=0.2) as client:
        page = client.get("/topics")
        assert page.status_code == 502
        assert "127.0.0.1:1" in page.text
        assert "Try again" in page.text


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/", ["Under-replicated", "Balance of brokers", "Controllers and quorum", "Records a second"]),
        ("/brokers", ["metadata.version", "Log directories", "No reassignment is under way"]),
        ("/brokers/1?all=1", ["log.retention.hours", "default"]),
    ],
)
def test_pages_of_the_cluster(broker, path, words):
    with console_of(broker.bootstrap_servers) as client:
        page = client.get(path)
        assert page.status_code == 200
        assert [word for word in words if word not in page.text] == []


def test_a_broker_that_does_not_exist(broker):
    with console_of(broker.bootstrap_servers) as client:
        assert client.get("/brokers/99").status_code == 404
