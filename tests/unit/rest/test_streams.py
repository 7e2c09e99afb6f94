"""Streams of the REST proxy: back pressure, callers that leave, brokers that go."""

import asyncio
import json

import pytest

from bowstring.rest.app import RestApp
from bowstring.rest.options import RestOptions
from bowstring.rest.records import produce_stream, record_reading
from tests.support.waiting import wait_until_async

RECORD = b'{"value":{"type":"STRING","data":"%d"}}\n'


class Request:
    """One request, whose messages a test gives, and whose answer it takes when it likes."""

    def __init__(self, app, method, path, query=b""):
        self.app, self.method, self.path, self.query = app, method, path, query
        self.messages: asyncio.Queue = asyncio.Queue()
        self.taken = 0
        self.open = asyncio.Event()
        self.open.set()
        self.status, self.body = 0, b""

    async def receive(self):
        self.taken += 1
        return await self.messages.get()

    async def send(self, message):
        await self.open.wait()
        self.status = message.get("status", self.status)
        self.body += message.get("body", b"")

    def put(self, body, more=True):
        self.messages.put_nowait({"type": "http.request", "body": body, "more_body": more})

    def leave(self):
        self.messages.put_nowait({"type": "http.disconnect"})

    async def run(self):
        scope = {"type": "http", "method": self.method, "scheme": "http", "path": self.path, "headers": []}
        scope |= {"raw_path": self.path.encode(), "query_string": self.query, "client": ("127.0.0.1", 1)}
        await self.app(scope, self.receive, self.send)

    @property
    def answers(self):
        return [json.loads(line) for line in self.body.splitlines()]


def run(bootstrap, program, **options):
    """Runs `program(app, path of the cluster)` with an application."""

    async def main():
        app = RestApp(RestOptions(bootstrap, **options))
        listed = Request(app, "GET", "/v3/clusters")
        await listed.run()
        id = json.loads(listed.body)["data"][0]["cluster_id"]
        try:
            await program(app, f"/v3/clusters/{id}")
        finally:
            await app.callers.close()

    asyncio.run(main())


@pytest.mark.parametrize("slow", ["reader", "brokers"])
def test_the_proxy_stops_reading(bootstrap, new_topic, monkeypatch, slow):
    monkeypatch.setattr(produce_stream, "WAITING_MAX", 2000)
    topic = new_topic()

    async def program(app, cluster):
        request = Request(app, "POST", f"{cluster}/topics/{topic}/records")
        for begin in range(0, 20_000, 500):
            request.put(b"".join(RECORD % number for number in range(begin, begin + 500)))
        request.put(b"", more=False)
        if slow == "reader":
            request.open.clear()
        running = asyncio.ensure_future(request.run())
        if slow == "reader":
            await wait_until_async(lambda: request.taken > 3)
            before = -1
            while before != request.taken:  # until it no longer goes on
                before = request.taken
                for _ in range(200):
                    await asyncio.sleep(0)
            assert request.taken < 15
            request.open.set()
        await running
        assert [each["offset"] for each in request.answers] == list(range(20_000))

    # With little memory for records, brokers are slow for the producer.
    run(
        bootstrap,
        program,
        **({"buffer_memory": 200_000, "record_bytes_max": 50_000} if slow == "brokers" else {}),
    )


def test_callers_that_leave_free_their_streams(bootstrap, new_topic, monkeypatch):
    monkeypatch.setattr(record_reading, "POLL_S", 0.05)
    topic = new_topic()

    async def program(app, cluster):
        path = f"{cluster}/topics/{topic}/records"
        producing, tail = Request(app, "POST", path), Request(app, "GET", path, b"format=events")
        runs = [asyncio.ensure_future(each.run()) for each in (producing, tail)]
        producing.put(RECORD % 1 + b'{"value":')
        await wait_until_async(lambda: producing.body and tail.body)
        assert app.callers.streams == 2
        producing.leave()
        tail.leave()
        await asyncio.gather(*runs)
        assert app.callers.streams == 0
        assert len(producing.answers) == 1

    run(bootstrap, program)


def test_a_stream_too_many_sends_nothing(bootstrap, new_topic):
    topic = new_topic()

    async def program(app, cluster):
        requests = [Request(app, "POST", f"{cluster}/topics/{topic}/records") for _ in range(2)]
        running = []
        for each in requests:
            running.append(asyncio.ensure_future(each.run()))
            each.put(RECORD % 1)
            await wait_until_async(lambda each=each: each.status)
        assert [each.status for each in requests] == [200, 429]
        requests[0].put(RECORD % 2, more=False)
        await asyncio.gather(*running)
        assert [each["offset"] for each in requests[0].answers] == [0, 1]

    run(bootstrap, program, streams_max=1)


def test_a_stream_without_records_ends(bootstrap, new_topic):
    topic = new_topic()

    async def program(app, cluster):
        request = Request(app, "POST", f"{cluster}/topics/{topic}/records")
        request.put(RECORD % 1)
        await request.run()
        assert [each["error_code"] for each in request.answers] == [200, 408]

    run(bootstrap, program, idle_s=0.1)


def test_brokers_that_go_are_errors_of_records(serve):
    served = serve()
    served.create_topic("t")

    async def program(app, cluster):
        request = Request(app, "POST", f"{cluster}/topics/t/records")
        running = asyncio.ensure_future(request.run())
        request.put(RECORD % 1)
        await wait_until_async(lambda: request.answers)
        await asyncio.to_thread(served.stop)
        request.put(RECORD % 2, more=False)
        await running
        assert request.answers[0]["error_code"] == 200
        assert request.answers[1]["error_code"] in (50003, 50302)
        listing = Request(app, "GET", f"{cluster}/topics")
        await listing.run()
        assert listing.status in (500, 503) and listing.answers[0]["error_code"] in (50003, 50302)

    run(f"127.0.0.1:{served.broker.port}", program, timeout_s=0.5, delivery_s=1.0)
