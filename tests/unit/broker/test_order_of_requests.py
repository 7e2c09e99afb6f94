"""Requests that a client pipelines take effect in their order."""

import contextlib
import random

import pytest

from bowstring.engine.api.table import BY_BROKER
from bowstring.engine.broker.dispatcher import Dispatcher
from bowstring.protocol import API_VERSIONS, decode_response
from bowstring.protocol.messages import find_coordinator as fc
from bowstring.protocol.messages import offset_commit as oc
from bowstring.protocol.messages import offset_fetch as of
from tests.support.plane_client import PlaneClient
from tests.support.plane_requests import batch, fetch, produce
from tests.support.waiting import FOR_EVER_MS, pause, wait_until


def test_commits_take_effect_in_their_order(served):
    """A large one is worked on in slices; a small one behind it does not overtake it."""
    partitions = 1500
    served.create_topic("t", partitions)

    client = PlaneClient(served.broker.port)

    def commit(indexes, offset):
        parts = [
            oc.OffsetCommitRequestPartition(partition_index=i, committed_offset=offset, committed_metadata="")
            for i in indexes
        ]
        topic = oc.OffsetCommitRequestTopic(name="t", partitions=parts)
        return oc.OffsetCommitRequest(
            group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=[topic]
        )

    served.ask(fc.FindCoordinatorRequest(key="g", key_type=0), 2)
    last = partitions - 1
    for offset in range(1, 20, 2):
        client.send(commit(range(partitions), offset), 8)
        client.send(commit([last], offset + 1), 8)
        for _ in range(2):
            client.receive(oc.OffsetCommitRequest.api_key, 8)
        asked = of.OffsetFetchRequestTopic(name="t", partition_indexes=[last])
        answer = client.call(of.OffsetFetchRequest(group_id="g", topics=[asked]), 6)
        assert answer.topics[0].partitions[0].committed_offset == offset + 1
    client.close()


# ---------------------------------------------------------------- every API of the table


class Noted:
    """When the control thread took and answered each request, as (connection, slot, API key, "takes" or "answers")."""

    def __init__(self, monkeypatch):
        self.events = []
        takes, counts = Dispatcher._answer_kept, Dispatcher._count

        def note_take(dispatcher, message):
            self.events.append((message.connection_id, message.slot, message.api_key, "takes"))
            return takes(dispatcher, message)

        def note_answer(dispatcher, message, *, failed):
            self.events.append((message.connection_id, message.slot, message.api_key, "answers"))
            counts(dispatcher, message, failed=failed)

        monkeypatch.setattr(Dispatcher, "_answer_kept", note_take)
        monkeypatch.setattr(Dispatcher, "_count", note_answer)

    def taken(self):
        return {key for _, slot, key, what in self.events if what == "takes" and slot > 0}

    def check_turns(self):
        """Asserts that each connection had one request at a time, in the order of its slots."""
        under_way, last = {}, {}
        for connection, slot, key, what in self.events:
            if what == "takes":
                assert connection not in under_way and slot > last.get(connection, -1), (key, slot)
                under_way[connection] = last[connection] = slot
            else:
                assert under_way.pop(connection) == slot, (key, slot)


def request_of(key, topic_id):
    """A request of every API: Produce and Fetch with a record, others with their declared defaults."""
    if key == 0:
        return produce(batch(b"v"), API_VERSIONS[0].highest, topic="t", topic_id=topic_id, partition=1)
    if key == 1:
        return fetch(API_VERSIONS[1].highest, topic="t", topic_id=topic_id)
    return API_VERSIONS[key].request()


def answers(client, count):
    """The correlation ids of the answers until the broker closes the connection, at most `count`."""
    found = []
    with contextlib.suppress(ConnectionError):
        while len(found) < count:
            found.append(int.from_bytes(client.read_frame()[:4], "big"))
    return found


@pytest.fixture
def noted(served, monkeypatch):
    return Noted(monkeypatch)


def test_no_api_begins_behind_a_waiting_fetch(served, noted):
    topic_id = served.create_topic("t", 2)
    clients = {key: PlaneClient(served.broker.port) for key in BY_BROKER.offered}
    for key, client in clients.items():
        client.send(fetch(12, topic="t", max_wait_ms=FOR_EVER_MS), 12)
        client.send(request_of(key, topic_id), API_VERSIONS[key].highest)
    plane = served.engine.plane
    wait_until(lambda: plane.counters()["timers"] >= len(clients), "all fetches wait")
    pause(0.1, "nothing behind them may begin")
    assert not noted.taken()
    assert served.engine.logs.get("t", 1).log_end_offset == 0
    served.produce("t", batch(b"v"))
    for key, client in clients.items():
        frame = client.read_frame()
        assert decode_response(1, 12, frame)[1].responses[0].partitions[0].high_watermark == 1
        if key == 1:
            answer = decode_response(1, API_VERSIONS[1].highest, client.read_frame())[1]
            assert answer.responses[0].partitions[0].high_watermark == 1
        else:
            assert answers(client, 1) in ([2], [])
        client.close()
    assert noted.taken() == set(BY_BROKER.offered) - {0, 1}
    noted.check_turns()


@pytest.mark.parametrize("seed", range(3))
def test_every_pair_of_apis_takes_its_turns(served, noted, seed):
    """All APIs in random order on several connections at once, each beside every other at some time."""
    chance = random.Random(seed)
    topic_id = served.create_topic("t", 2)
    for _ in range(8):
        sent = []
        for _ in range(4):
            client = PlaneClient(served.broker.port)
            keys = chance.sample(BY_BROKER.offered, len(BY_BROKER.offered))
            for key in keys:
                if chance.randrange(4) == 0:
                    client.send(fetch(12, topic="t", offset=1 << 20, max_wait_ms=1), 12)
                client.send(request_of(key, topic_id), API_VERSIONS[key].highest)
            sent.append(client)
        for client in sent:
            found = answers(client, client.correlation_id)
            assert found == list(range(1, len(found) + 1))
            client.close()
    noted.check_turns()
    assert noted.taken() >= set(BY_BROKER.offered) - {0, 1}
