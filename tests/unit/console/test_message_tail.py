"""The live tail: true rates, samples, filters, and that it ends with the browser."""

import http.client
import json
import socket
import threading

import pytest
import uvicorn

from bowstring.clients.errors import ClosedError, ConfigError, UnknownTopicError
from bowstring.clients.producer.producer import Producer
from bowstring.console import message_tail
from bowstring.console.app import create_app
from bowstring.console.message_tail import SAMPLED_OFFSETS, SHOWN_MAX, MessageTail
from bowstring.console.options import ConsoleOptions
from bowstring.console.pages.message_tails import TAILS_MAX
from bowstring.search.expression import Expression
from bowstring.search.record_filter import RecordFilter
from bowstring.search.value_decoder import ValueDecoder
from tests.support.addresses import own_address
from tests.support.waiting import HANG_S, wait_until


@pytest.fixture
def tail_of(bootstrap, monkeypatch):
    monkeypatch.setattr(message_tail, "SAMPLE_S", HANG_S)
    made = []

    def make(topic, partitions=(), **wanted):
        settings = {"bootstrap_servers": bootstrap}
        made.append(MessageTail(settings, topic, partitions, RecordFilter(**wanted), ValueDecoder()))
        return made[-1]

    yield make
    for tail in made:
        tail.close()


def send(bootstrap, topic, values, partitions=3):
    with Producer(bootstrap, acks="all") as producer:
        for number, value in enumerate(values):
            producer.send(topic, value, partition=number % partitions)


def test_samples_and_rate(bootstrap, new_topic, tail_of):
    topic = new_topic(partitions=3)
    send(bootstrap, topic, [b"before"] * 10)
    tail = tail_of(topic)
    first = tail.look()
    assert (first.found, first.rate, first.new) == ([], None, 0), "only what comes from now on"
    send(bootstrap, topic, [b'{"id": %d}' % number for number in range(12)])
    second = tail.look()
    assert sorted(each.record.value for each in second.found) == sorted(b'{"id": %d}' % n for n in range(12))
    assert second.new == second.sampled == 12 and second.rate > 0
    assert tail.look().found == []


def test_fast_topics_are_sampled(bootstrap, new_topic, tail_of):
    topic = new_topic(partitions=3)
    tail = tail_of(topic)
    tail.look()
    with Producer(bootstrap, acks="all") as producer:
        for partition in range(3):
            producer.send_columns(topic, partition, [b"%d" % number for number in range(5_000)])
    look = tail.look()
    assert look.new == 15_000 and look.sampled <= SAMPLED_OFFSETS and len(look.found) == SHOWN_MAX
    assert b"4999" in [each.record.value for each in look.found]


def test_filters(bootstrap, new_topic, tail_of):
    topic = new_topic(partitions=3)
    tail, one = tail_of(topic, expression=Expression("value.id >= 3")), tail_of(topic, (2,))
    tail.look(), one.look()
    send(bootstrap, topic, [b'{"id": %d}' % number for number in range(6)])
    assert sorted(each.record.value for each in tail.look().found) == [b'{"id": %d}' % n for n in (3, 4, 5)]
    assert sorted(each.record.value for each in one.look().found) == [b'{"id": 2}', b'{"id": 5}']


def test_refusals(new_topic, tail_of):
    with pytest.raises(ConfigError, match="partitions 0 to 0, not 4"):
        tail_of(new_topic(), (4,)).look()
    with pytest.raises(UnknownTopicError):
        tail_of("no-such-topic").look()
    closed = tail_of(new_topic())
    closed.close()
    with pytest.raises(ClosedError):
        closed.look()


@pytest.fixture
def console(bootstrap):
    """A console in a thread: events do not end, so that they need real connections."""
    app = create_app(ConsoleOptions(bootstrap_servers=bootstrap))
    with socket.create_server((own_address(), 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        wait_until(lambda: server.started)
        yield app, listening.getsockname()[1]
        server.should_exit = True
        thread.join()


def follow(port, topic, query=""):
    connection = http.client.HTTPConnection(own_address(), port, timeout=HANG_S)
    connection.request("GET", f"/topics/{topic}/messages/tail/live{query}")
    return connection, connection.getresponse()


def events(answer):
    while True:
        line = answer.readline()
        if line.startswith(b"data: "):
            yield json.loads(line[6:])


def test_the_page_follows_until_the_browser_leaves(bootstrap, console, new_topic):
    app, port = console
    topic = new_topic()
    connection, answer = follow(port, topic)
    parts = events(answer)
    assert "No messages since" in next(parts)["tail-rows"]
    send(bootstrap, topic, [b"<script>x</script>\x1b[2J"], partitions=1)
    rows = next(found for found in (part.get("tail-rows") for part in parts) if found)
    assert "&lt;script&gt;" in rows and "<script" not in rows and "\x1b" not in rows
    tails = app.state.sessions.access("").shared("tails", set)
    others = [follow(port, topic) for _ in range(TAILS_MAX)]
    assert [other[1].status for other in others] == [200] * (TAILS_MAX - 1) + [503]
    assert len(tails) == TAILS_MAX
    followed = [*tails]
    for opened, response in [(connection, answer), *others]:
        response.close()
        opened.close()
    wait_until(lambda: not tails)
    wait_until(lambda: all(is_closed(tail) for tail in followed))


def is_closed(tail):
    try:
        tail.look()
    except ClosedError:
        return True
    return False


def test_the_page(console, new_topic):
    _, port = console
    topic = new_topic()
    for query, status in (("?q=a&expr=value.a%3D%3D1", 200), ("?expr=value.", 400)):
        connection = http.client.HTTPConnection(own_address(), port, timeout=HANG_S)
        connection.request("GET", f"/topics/{topic}/messages/tail{query}")
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.status == status
        assert (f'data-live="/topics/{topic}/messages/tail/live?q=a&amp;expr=' in text) is (status == 200)
        connection.close()
    assert follow(port, topic, "?expr=value.")[1].status == 400
