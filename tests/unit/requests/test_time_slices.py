"""One request with very many elements keeps the control thread no longer at a time than others may wait."""

import gc
import threading
import time
from contextlib import contextmanager

import pytest

from bowstring._native.protocol.message_codec import decode_prefix
from bowstring.engine.api.table import BY_BROKER
from bowstring.protocol import API_VERSIONS, encode_request
from bowstring.protocol.headers import ResponseHeader, response_header_version
from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest
from bowstring.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bowstring.protocol.schema import ARRAY, BYTES, INT8, STRING, STRUCT, UUID, fields_of
from tests.support.embedded import loop_of
from tests.support.served_broker import Served
from tests.support.waiting import HANG_S, wait_until

COUNT = 20_000
FEW = 20
TOPIC = "here"
# Slices are of 5 ms, by the clock. This is the thread's own CPU time: work of more than 1.25 µs for each element that
# is done in one go is found. A slow machine, or one with a busy other half of the core, takes longer for the same
# work: there, the bound is this many times what it takes to make an object for each element.
AWAY_MAX_MS = 25
AWAY_OBJECTS = 3


def of(declared, version):
    return [each for each in fields_of(declared) if each.versions[0] <= version <= each.versions[1]]


def arrays_of(declared, version, path=()):
    """The paths of all arrays in a message."""
    for field in of(declared, version):
        if field.kind == ARRAY:
            yield (*path, field.name)
        if field.struct is not None and field.tag < 0:
            yield from arrays_of(field.struct, version, (*path, field.name))


def filled(declared, version, path, number, count):
    """An instance whose array at `path` has very many different elements, and others one."""
    values = {}
    for field in of(declared, version):
        inside = path[1:] if path and path[0] == field.name else None
        if field.kind == ARRAY:
            length = count if inside == () else 1 if inside else 0
            values[field.name] = [
                value(field, field.element, version, inside, i, count) for i in range(length)
            ]
        elif field.tag < 0 and not (field.kind == STRUCT and not inside):
            values[field.name] = value(field, field.kind, version, inside, number, count)
    return declared(**values)


def value(field, kind, version, inside, number, count):
    if kind == STRUCT:
        return filled(field.struct, version, inside, number, count)
    if kind == STRING:
        return TOPIC if number == 0 else f"t{number}"
    if kind == BYTES:
        return b""
    if kind == UUID:
        return bytes(16)
    if field.name in ("timestamp", "partition_index", "partition", "partition_indexes"):
        return number
    return field.default if field.kind != ARRAY else number % 128 if kind == INT8 else number


def cases():
    for key in BY_BROKER.handlers:
        api = API_VERSIONS[key]
        seen = set()
        for version in (api.highest, api.lowest):  # an array that both have, once
            for path in arrays_of(api.request, version):
                if path not in seen:
                    seen.add(path)
                    yield pytest.param(key, version, path, id=f"{api.name}-{version}-{'.'.join(path)}")


def objects_ms():
    """How much CPU a thread takes here to put an object for each element into a dict, in ms: the least of three."""
    taken_ns = []
    for _ in range(3):
        begun_ns = time.thread_time_ns()
        made = {
            f"t{i}": OffsetCommitRequestPartition(partition_index=i, committed_offset=0) for i in range(COUNT)
        }
        taken_ns.append(time.thread_time_ns() - begun_ns)
        assert len(made) == COUNT
    return min(taken_ns) / 1e6


class Beats:
    """Runs on the control thread whenever nothing else does."""

    def __init__(self, loop):
        self.loop, self.running, self.longest_ns, self.last_ns = loop, True, 0, None
        self.begun = threading.Event()

    def beat(self):
        now_ns = time.thread_time_ns()
        if self.last_ns is not None:
            self.longest_ns = max(self.longest_ns, now_ns - self.last_ns)
        self.last_ns = now_ns
        self.begun.set()
        if self.running:
            self.loop.call_soon(self.beat)


@contextmanager
def watched(served):
    gc.collect()
    gc.freeze()  # what the test itself holds does not make the collector slow
    beats = Beats(loop_of(served.broker))
    beats.loop.call_soon_threadsafe(beats.beat)
    assert beats.begun.wait(HANG_S)
    try:
        yield beats
    finally:
        beats.running = False
        gc.unfreeze()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    served = Served(tmp_path_factory.mktemp("turns"))
    served.create_topic(TOPIC)
    # With all of the coordinator's partitions, and the modules imported at first use.
    committed = OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                name=TOPIC, partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=0)]
            )
        ],
    )
    served.ask(FindCoordinatorRequest(key="g"), 3)
    wait_until(lambda: served.ask(committed, 9).topics[0].partitions[0].error_code == 0)
    yield served
    served.stop()


@pytest.mark.parametrize("key, version, path", list(cases()))
def test_the_control_thread_is_never_away_for_long(served, key, version, path):
    api = API_VERSIONS[key]
    few, many = (
        encode_request(filled(api.request, version, path, 0, count), version, correlation_id, "test")
        for correlation_id, count in ((1, FEW), (2, COUNT))
    )
    client = served.connect()
    client.send(few)  # the modules imported at first use are there
    client.receive()
    longest_ms, bound_ms = [], AWAY_MAX_MS
    # The least of eight at most. Work that is done in one go is in each of them. A full collection, or time that a
    # virtual machine's host takes away and that counts as the thread's, is not.
    while not longest_ms or (longest_ms[-1] >= bound_ms and len(longest_ms) < 8):
        with watched(served) as beats:
            client.send(many)
            answer = client.receive()
        header, at = decode_prefix(ResponseHeader, response_header_version(api, version), answer)
        assert header.correlation_id == 2
        decode_prefix(api.response, version, answer, at)
        longest_ms.append(beats.longest_ns / 1e6)
        if longest_ms[-1] >= bound_ms:
            bound_ms = max(AWAY_MAX_MS, AWAY_OBJECTS * objects_ms())
    assert min(longest_ms) < bound_ms, f"away for {longest_ms} ms, not less than {bound_ms:.1f}"
