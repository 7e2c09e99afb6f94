"""The console's pages against a broker."""

import re

import pytest
from starlette.testclient import TestClient

import bowstring
from bowstring.console.app import create_app
from bowstring.console.options import ConsoleOptions
from tests.support.console_patience import be_patient


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Pages wait for the cluster, however busy this machine is."""
    be_patient(monkeypatch)


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
        ("/topics/pages", ["End offset", "in sync", "First offset"]),
        ("/topics/pages/configs?all=1", ["retention.ms", "default", "What it does"]),
        ("/brokers", ["metadata.version", "Log directories", "No reassignment is under way"]),
        ("/brokers/1?all=1", ["log.retention.hours", "default"]),
    ],
)
def test_pages_of_the_cluster(broker, admin, path, words):
    if "pages" not in admin.topics():
        admin.create_topic("pages")
    with console_of(broker.bootstrap_servers) as client:
        page = client.get(path)
        assert page.status_code == 200
        assert [word for word in words if word not in page.text] == []


def test_a_broker_that_does_not_exist(broker):
    with console_of(broker.bootstrap_servers) as client:
        assert client.get("/brokers/99").status_code == 404


def token_of(page):
    return re.search(r'name="csrf_token" value="(\w+)"', page.text)[1]


def confirmed(client, path, fields):
    """Sends a form, sees what it would do, confirms it; returns both pages."""
    token = token_of(client.get("/topics"))
    preview = client.post(path, data=fields | {"csrf_token": token})
    assert preview.status_code == 200, preview.text
    assert 'name="confirmed"' in preview.text
    return preview, client.post(path, data=fields | {"csrf_token": token, "confirmed": "1"})


def test_a_topic_is_created_changed_and_deleted(broker, admin):
    with console_of(broker.bootstrap_servers, write=True) as client:
        fields = {"name": "made", "partitions": "2", "configs": "retention.ms=60000\r\ncleanup.policy=delete"}
        preview, page = confirmed(client, "/topics-new", fields)
        assert "retention.ms is set to 60000." in preview.text
        assert page.status_code == 200
        assert "Partitions" in page.text
        assert len(admin.describe_topic("made").partitions) == 2
        assert admin.topic_configs(["made"], "retention.ms") == {"made": "60000"}

        confirmed(client, "/topics/made/change/partitions", {"partitions": "3"})
        assert len(admin.describe_topic("made").partitions) == 3

        page = confirmed(client, "/topics/made/change/config", {"config": "retention.ms", "value": "70000"})[
            1
        ]
        assert "70000" in page.text
        assert "set on the topic" in page.text
        confirmed(client, "/topics/made/change/config", {"config": "retention.ms", "reset": "1"})
        assert admin.topic_configs(["made"], "retention.ms") == {"made": "604800000"}

        with bowstring.Producer(broker.bootstrap_servers) as producer:
            for number in range(10):
                producer.send("made", b"%d" % number, partition=1)
        preview, _ = confirmed(client, "/topics/made/change/records", {"partition": "1", "offset": "4"})
        assert "made-1 loses its records below offset 4: 4 offsets." in preview.text
        assert admin.beginning_offsets([("made", 1)]) == {("made", 1): 4}

        confirmed(client, "/topics/made/change/delete", {})
        assert "made" not in admin.topics()


@pytest.mark.parametrize(
    ("path", "fields", "words"),
    [
        ("/topics-new", {"name": "no", "partitions": "0"}, "whole number of at least 1"),
        ("/topics-new", {"name": "no/name", "partitions": "1"}, "INVALID_TOPIC_EXCEPTION"),
        ("/topics-new", {"name": "no", "partitions": "1", "configs": "nonsense"}, "name=value"),
        ("/topics/refused/change/partitions", {"partitions": "1"}, "at least 2"),
        ("/topics/refused/change/config", {"config": "no.such", "value": "1"}, "no config"),
        ("/topics/refused/change/records", {"partition": "0", "offset": "5"}, "deletes nothing"),
        ("/topics/absent/change/delete", {}, "UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_wrong_forms_say_what_to_do(broker, admin, path, fields, words):
    if "refused" not in admin.topics():
        admin.create_topic("refused")
    with console_of(broker.bootstrap_servers, write=True) as client:
        page = client.post(path, data=fields | {"csrf_token": token_of(client.get("/topics"))})
        assert page.status_code in (400, 404)
        assert words in page.text


def test_nothing_changes_without_the_option(broker, admin):
    with console_of(broker.bootstrap_servers) as client:
        token = token_of(client.get("/topics"))
        page = client.post("/topics-new", data={"name": "sneaky", "partitions": "1", "csrf_token": token})
        assert page.status_code == 403
        assert "--write" in page.text
        assert "sneaky" not in admin.topics()


def test_nothing_changes_without_a_token(broker, admin):
    with console_of(broker.bootstrap_servers, write=True) as client:
        page = client.post("/topics-new", data={"name": "forged", "partitions": "1", "confirmed": "1"})
        assert page.status_code == 403
        assert "forged" not in admin.topics()
