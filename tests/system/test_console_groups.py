"""The console's pages of groups against a broker."""

import html
import re

import pytest
from starlette.testclient import TestClient

import bowstring
from bowstring.console.app import create_app
from bowstring.console.options import ConsoleOptions
from tests.support.console_patience import be_patient
from tests.support.waiting import HANG_S


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


def csrf_of(page):
    return re.search(r'name="csrf_token" value="([^"]+)"', page.text)[1]


def hidden(page, name):
    return html.unescape(re.search(rf'name="{name}" value="([^"]*)"', page.text)[1])


def test_offsets_are_reset_after_a_preview(admin, client, writer, topic):
    admin.alter_offsets("reset", {(topic, 0): 4, (topic, 1): 9})
    look = "/groups/one/reset?name=reset&way=shift&value=-5"
    page = client.get(look)
    assert "Store these" not in page.text and "read-only" in page.text
    page = writer.get(look)
    assert "Store these 2 offsets" in page.text
    assert admin.committed_offsets("reset")[topic, 0].offset == 4, "a preview changes nothing"
    form = {"name": "reset", "offsets": hidden(page, "offsets"), "csrf_token": csrf_of(page)}
    assert client.post("/groups/one/reset", data=form).status_code == 403
    assert writer.post("/groups/one/reset", data=form | {"csrf_token": "x"}).status_code == 403
    done = writer.post("/groups/one/reset", data=form, follow_redirects=False)
    assert (done.status_code, done.headers["location"]) == (303, "/groups/one?name=reset")
    assert [admin.committed_offsets("reset")[topic, number].offset for number in range(2)] == [0, 4]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("way=time&value=yesterday", "is not a time"),
        ("way=offset&value=x", "is not a whole number"),
        ("way=up", "is not a way to reset"),
        ("way=earliest&topic=no-such-topic", "no-such-topic"),
    ],
)
def test_resets_that_mean_nothing_say_why(client, query, text):
    page = client.get(f"/groups/one/reset?name=reset&{query}")
    assert page.status_code == 200 and text in html.unescape(page.text)


def test_groups_are_deleted_and_members_removed(broker, admin, writer, topic):
    name = "delete\x01 me"
    with bowstring.Consumer(
        broker.bootstrap_servers,
        group_id=name,
        client_id="leaver",
        group_protocol="classic",
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.subscribe([topic])
        consumer.poll(HANG_S)
        (member,) = admin.describe_group(name).members
        page = writer.get("/groups/one/delete", params={"name": name})
        form = {"name": hidden(page, "name"), "csrf_token": csrf_of(page)}
        refused = writer.post("/groups/one/delete", data=form)
        assert refused.status_code == 400 and "NON_EMPTY_GROUP" in refused.text
        removal = form | {"member": member.member_id}
        unknown = writer.post("/groups/one/remove", data=removal | {"member": "x"})
        assert unknown.status_code == 400 and "UNKNOWN_MEMBER_ID" in unknown.text
        writer.post("/groups/one/remove", data=removal)
        assert member.member_id not in {m.member_id for m in admin.describe_group(name).members}
    assert writer.post("/groups/one/delete", data=form, follow_redirects=False).status_code == 303
    assert name not in {each.group_id for each in admin.list_groups()}
