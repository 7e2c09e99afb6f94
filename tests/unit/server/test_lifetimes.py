"""What outlives what: topics recreated or deleted under waiting requests, planes dropped during work."""

import contextlib
import errno
import os
import socket
import struct
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from bowstring.protocol.messages import fetch as f
from bowstring.protocol.messages import produce as p
from tests.support import faults
from tests.support.fetch_sessions import at, open_session, step
from tests.support.plane_requests import batch, fetch, fetch_topic, produce, records_of
from tests.support.served_plane import TOPIC, TOPIC_ID, Served
from tests.support.waiting import FOR_EVER_MS, HANG_S, pause

UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, KAFKA_STORAGE_ERROR = 3, 100, 56


def recreate(served, name=TOPIC, partitions=2):
    """Deletes a topic and makes another of the same name."""
    served.plane.remove_topic(name)
    for index in range(partitions):
        path = served.directory / f"{name}-{index}"
        path.rename(served.directory / f"{path.name}.{uuid.uuid4().hex}-delete")
    served.add_topic(name, uuid.uuid4().bytes, partitions)


def test_a_session_by_name_reads_the_new_topic_from_its_batches(served, client):
    """Where the reader stopped in the old log says nothing about the new one."""
    version = 12
    client.call(produce(batch(b"old" * 50), 9), 9)
    session_id = open_session(client, version, partitions=[0]).session_id
    client.call(step(session_id, 1, version, [at(0, 1, version)]), version)
    recreate(served)
    for value in (b"n0", b"n1", b"n2" * 200, b"n3"):
        client.call(produce(batch(value), 9), 9)
    answer = client.call(step(session_id, 2, version), version)
    assert records_of(answer.responses[0].partitions[0].records) == [(1, b"n1"), (2, b"n2" * 200), (3, b"n3")]


def test_a_fetch_that_cannot_be_built_closes_its_connection_at_once(served, client):
    """Even if nothing else happens on that connection: it had been left hanging."""
    client.call(produce(batch(b"gone"), 9), 9)
    path = served.directory / f"{TOPIC}-0" / f"{0:020d}.log"
    os.truncate(path, path.stat().st_size - 1)
    client.send(fetch(17, max_wait_ms=300, min_bytes=1 << 20), 17)
    assert client.closed()


@pytest.mark.parametrize("reactors", [1, 2])
def test_deleting_a_topic_answers_a_fetch_that_has_some_bytes_but_not_enough(tmp_path, reactors):
    served = Served(tmp_path, reactors=reactors)
    try:
        waiting, writing = served.client(), served.client()
        waiting.send(fetch(17, max_wait_ms=FOR_EVER_MS, min_bytes=1 << 20), 17)
        served.await_waiting()
        writing.call(produce(batch(b"few"), 9), 9)
        served.plane.remove_topic(TOPIC)
        started = time.monotonic()
        assert waiting.receive(1, 17).responses[0].partitions[0].error_code == UNKNOWN_TOPIC_ID
        assert time.monotonic() - started < HANG_S
    finally:
        served.close()


def same_batch_twice(records) -> p.ProduceRequest:
    data = [p.PartitionProduceData(index=0, records=records) for _ in range(2)]
    topic = p.TopicProduceData(name=TOPIC, partition_data=data)
    return p.ProduceRequest(acks=1, timeout_ms=FOR_EVER_MS, topic_data=[topic])


def idempotent(value, sequence=0):
    from bowstring._native.record.encode import with_producer

    return with_producer(batch(value), 7, 0, sequence)


def test_a_duplicate_of_a_batch_that_could_not_be_written_is_refused_too(served, client):
    """Both come in one pass: the second is a duplicate of one that never reached the log."""
    with faults.failing("pwritev", errno.ENOSPC):
        answer = client.call(same_batch_twice(idempotent(b"lost")), 9)
    parts = answer.responses[0].partition_responses
    assert [part.error_code for part in parts] == [KAFKA_STORAGE_ERROR] * 2
    assert served.logs[TOPIC, 0].log_end_offset == 0


def test_a_duplicate_of_a_batch_that_was_written_is_acknowledged(served, client):
    parts = client.call(same_batch_twice(idempotent(b"kept")), 9).responses[0].partition_responses
    assert [(part.error_code, part.base_offset) for part in parts] == [(0, 0), (0, 0)]
    assert served.logs[TOPIC, 0].log_end_offset == 1


def test_a_batch_that_flush_messages_could_not_flush_is_not_acknowledged(tmp_path):
    served = Served(tmp_path)
    try:
        served.add_topic("synced", uuid.uuid4().bytes, 1, flush_messages=1)
        client = served.client()
        with faults.failing("sync", errno.EIO):
            answer = client.call(produce(batch(b"unsafe"), 9, topic="synced"), 9)
        assert answer.responses[0].partition_responses[0].error_code == KAFKA_STORAGE_ERROR
        assert served.logs["synced", 0].failed
    finally:
        served.close()


DROPPED = """
import sys, gc, time
from pathlib import Path
from tests.support.served_plane import Served
from tests.support.plane_requests import batch, fetch, produce
import uuid
for round in range(5):
    directory = Path(sys.argv[1]) / str(round)
    directory.mkdir()
    served = Served(directory, reactors=4)
    served.add_topic("replicated", uuid.uuid4().bytes, 1, {"replicated": True})
    served.add_topic("repacked", uuid.uuid4().bytes, 1, compression=1)
    clients = [served.client() for _ in range(8)]
    for client in clients:
        client.send(produce(batch(b"waits"), 9, topic="replicated", acks=-1, timeout_ms=60000), 9)
        client.send(produce(batch(b"slow"), 9, topic="repacked"), 9)
        client.send(fetch(11, topic="replicated", max_wait_ms=60000), 11)
    slow = []
    while len(slow) < 8:
        slow += served.plane.take_requests()
    served.plane.finish_batch(slow[0], slow[0].batch)
    served.plane.stop()
    served.plane.finish_batch(slow[1], None, 87)
    served.plane.reply(0, 0, b"too late")
    del served.plane
    gc.collect()
    for log in served.logs.values():
        log.close()
print("whole")
"""


def test_a_plane_dropped_while_requests_wait(tmp_path):
    """Waiting acks, slow batches under way and replies that come too late: freed once, and never touched again."""
    ran = subprocess.run(
        [sys.executable, "-c", DROPPED, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "whole\n"), ran.stderr


PARKED = """
import gc, sys, time, uuid
from pathlib import Path
from tests.support.served_plane import Served
from tests.support.plane_requests import batch, produce
from tests.support.waiting import wait_until
for round in range(8):
    directory = Path(sys.argv[1]) / str(round)
    directory.mkdir()
    served = Served(directory, reactors=3, slow_max_bytes=100_000)
    served.add_topic("repacked", uuid.uuid4().bytes, 1, compression=1)
    clients = [served.client() for _ in range(12)]
    for client in clients:
        client.send(produce(batch(bytes(40_000)), 9, topic="repacked", acks=round % 3 - 1), 9)
    wait_until(lambda: served.plane.counters()["slow_batches"]["parked_connections"] >= 9)  # three have room
    slow = served.plane.take_requests() if round % 2 else []
    if round % 4 == 1:
        served.plane.finish_batch(slow[0], slow[0].batch)
    if round < 4:
        served.plane.stop()
    if round % 4 == 3:
        served.plane.finish_batch(slow[0], error=7)
    del served.plane
    if round % 2:
        del slow
    gc.collect()
    for log in served.logs.values():
        log.close()
print("whole")
"""


def test_a_plane_dropped_while_requests_wait_for_room(tmp_path):
    """Stopped or not, with batches on their way through the control thread and connections that are parked."""
    ran = subprocess.run(
        [sys.executable, "-c", PARKED, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "whole\n"), ran.stderr


NO_DESCRIPTORS = """
import os, resource
from bowstring._native.server.data_plane import DataPlane
resource.setrlimit(resource.RLIMIT_NOFILE, (9, 9))
try:
    DataPlane(apis={}, reactors=8)
except OSError as error:
    print("refused")
os.fstat(0)
"""


def test_a_plane_without_descriptors_closes_only_its_own():
    ran = subprocess.run(
        [sys.executable, "-c", NO_DESCRIPTORS], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=HANG_S, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout) == (0, "refused\n"), ran.stderr


def test_deleted_logs_give_their_files_back_though_a_session_still_names_them(tmp_path):
    """A consumer that died leaves its session behind: that must not keep the space of a deleted topic."""
    from tests.support.log_batches import open_files

    served = Served(tmp_path)
    try:
        client = served.client()
        client.call(produce(batch(b"a"), 9), 9)
        open_session(client, 12, partitions=[0])
        client.close()
        recreate_dir = tmp_path / f"{TOPIC}-0"
        assert open_files(recreate_dir) == 1
        served.plane.remove_topic(TOPIC)
        gone = tmp_path / f"{TOPIC}-0.{uuid.uuid4().hex}-delete"
        recreate_dir.rename(gone)
        log = served.logs.pop((TOPIC, 0))
        log.mark_deleted(gone)
        del log
        assert open_files(gone) == 0
    finally:
        served.close()


def test_timers_of_answered_fetches_do_not_pile_up(tmp_path):
    """Waits of 24 days that end at once: no memory of them may stay for 24 days."""
    served = Served(tmp_path)
    try:
        client, writer = served.client(), served.client()
        data = batch(b"v")
        for offset in range(2000):
            client.send(fetch(17, offset=offset, max_wait_ms=0x7FFFFFFF), 17)
            writer.call(produce(data, 9), 9)
            client.receive(1, 17)
        assert served.plane.counters()["timers"] < 500
    finally:
        served.close()


def test_an_answer_counts_as_activity(tmp_path):
    """connections.max.idle.ms begins when the reply is sent, not when its request came."""
    idle_s = 3.0
    served = Served(tmp_path, connections_max_idle_ms=int(idle_s * 1000))
    try:
        while True:
            client, active = served.client(), time.monotonic()
            try:
                client.call(fetch(17, max_wait_ms=int(idle_s * 900)), 17)
                active = time.monotonic()
                pause(
                    idle_s / 5, "idle since its request for longer than it may be, since its answer for less"
                )
                assert client.call(fetch(17), 17).error_code == 0
                break
            except ConnectionError:
                assert time.monotonic() - active > idle_s - 0.1, "closed too early"  # the machine has dozed
    finally:
        served.close()


def test_many_topics_in_one_fetch_do_not_hold_a_reactor_up(served, client):
    """Sixty thousand topics that do not exist: work that grows with their number, not with its square.

    CPU time of this process, which holds the client and the broker: other processes of the machine do not count.
    """
    topics = [
        f.FetchTopic(topic_id=uuid.uuid5(uuid.NAMESPACE_OID, str(n)).bytes,
                     partitions=[f.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)])
        for n in range(60_000)
    ]  # fmt: skip
    request = fetch(17, session_epoch=0)
    client.socket.settimeout(HANG_S)
    request.topics = topics[:10_000]
    started = time.process_time()
    client.call(request, 17)
    # Six times as many take six times as long, and under sanitizers anything; the square would be 36 times.
    limit_s = 3 + 15 * (time.process_time() - started)
    request.topics = topics
    started = time.process_time()
    answer = client.call(request, 17)
    assert time.process_time() - started < limit_s
    assert len(answer.responses) == 60_000
    more = step(answer.session_id, 1, topics=[fetch_topic(17, [f.FetchPartition(partition=n, fetch_offset=0)
                for n in range(60_000)], topic_id=TOPIC_ID)])  # fmt: skip
    started = time.process_time()
    client.call(more, 17)
    assert time.process_time() - started < limit_s


FLOOD = """
import resource, socket, sys, threading, time, uuid
from pathlib import Path
resource.setrlimit(resource.RLIMIT_NOFILE, (160, 160))
from tests.support.served_plane import Served
from tests.support.plane_requests import batch, fetch, produce
from tests.support.waiting import pause, wait_until
served = Served(Path(sys.argv[1]))
client = served.client()
assert client.call(fetch(17), 17).error_code == 0
def flood(n):
    held = []
    for _ in range(n):
        try:
            held.append(socket.create_connection(("127.0.0.1", served.port), timeout=60))
        except OSError:
            break
    return held
held = flood(200)  # both ends are in this process: descriptors end at its eighties
pause(0.3, "the broker accepts what it can")
for each in held[60:]:
    each.close()       # what remains of the descriptors is ours again, the broker's share is not
pause(0.3, "the broker sees them go")
parts = client.call(produce(batch(b"v"), 9), 9).responses[0].partition_responses
print("produced", parts[0].error_code, len(held) < 200)
busy = time.process_time()
pause(1, "nothing happens")
print("idle", time.process_time() - busy < 0.3)
for each in held:
    each.close()
def is_served():
    try:
        return served.client().call(fetch(17), 17).error_code == 0
    except OSError:
        return False
wait_until(is_served)
served.close()
"""


def test_a_flood_of_connections_takes_no_log_out_of_service(tmp_path):
    """An append that finds no descriptor for its file is an I/O error: connections leave some to the logs."""
    ran = subprocess.run(
        [sys.executable, "-c", FLOOD, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["produced 0 True", "idle True"], ran.stdout


EXHAUSTED = """
import os, resource, socket, sys, time
from pathlib import Path
from tests.support.served_plane import Served
from tests.support.plane_requests import fetch
from tests.support.waiting import pause, wait_until
served = Served(Path(sys.argv[1]))
client = served.client()
assert client.call(fetch(17), 17).error_code == 0
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
callers = [socket.socket() for _ in range(8)]
taken = []
def take_all():
    while True:
        try:
            taken.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            return
take_all()
for each in callers:
    each.setblocking(False)
    each.connect_ex(("127.0.0.1", served.port))
    for _ in range(50):
        take_all()     # whoever is quick takes the broker's spare descriptor, too
before = time.process_time()
pause(1, "nothing happens")
print("idle", time.process_time() - before < 0.3)
for fd in taken:
    os.close(fd)
def is_served():
    try:
        return served.client().call(fetch(17), 17).error_code == 0
    except OSError:
        return False
wait_until(is_served)
served.close()
print("served")
"""


def test_a_listener_without_descriptors_does_not_spin(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", EXHAUSTED, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["idle True", "served"], ran.stdout


def watched_sockets():
    """Descriptors that the epolls of this process watch."""
    watched = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}") == "anon_inode:[eventpoll]":
                lines = Path(f"/proc/self/fdinfo/{name}").read_text().splitlines()
                watched += [int(line.split()[1]) for line in lines if line.startswith("tfd:")]
    return sorted(watched)


def test_a_connection_ends_though_a_forked_process_has_its_socket(served, client):
    """As while another thread runs a command: epoll reported events of a connection that was freed."""
    client.call(produce(batch(b"v"), 9), 9)
    before = watched_sockets()
    late = served.client()
    late.call(produce(batch(b"v"), 9), 9)
    (added,) = set(watched_sockets()) - set(before)
    forked = os.dup(added)
    try:
        late.socket.shutdown(socket.SHUT_WR)
        assert late.closed()
        assert watched_sockets() == before
        client.call(produce(batch(b"v"), 9), 9)
    finally:
        os.close(forked)


def test_requests_nobody_answers_yet_are_not_heaped_up(served, client):
    """A client that sends on and on is read from again once the control thread has answered."""
    size = 2_000_000
    request = struct.pack(">ihhih", size, 3, 12, 1, -1)
    request += bytes(4 + size - len(request))
    client.socket.settimeout(0.5)
    sent = 0
    with pytest.raises(TimeoutError):
        while sent < 40:
            client.socket.sendall(request)
            sent += 1
    assert sent < 12  # what the sockets' own buffers hold, and a little
    client.socket.settimeout(HANG_S)
    for _ in range(sent - 1):
        taken = []
        while not taken:
            taken = served.plane.take_requests()
        for each in taken:
            served.plane.reply(each.connection_id, each.slot, b"done")
            assert client.read_frame() == b"done"


def test_acks_that_wait_while_the_high_watermark_moves(tmp_path):
    """It may be moved between a check of it and the wait for it."""
    served = Served(tmp_path, reactors=2)
    try:
        served.add_topic("copied", uuid.uuid4().bytes, 1, {"replicated": True})
        log, client, rounds = served.logs["copied", 0], served.client(), 1500
        data, started = batch(b"v"), time.monotonic()
        for end in range(1, rounds + 1):
            client.send(produce(data, 9, topic="copied", acks=-1, timeout_ms=FOR_EVER_MS), 9)
            while log.log_end_offset < end:
                pass
            log.advance_high_watermark(end)
            served.plane.notify("copied", 0)
            part = client.receive(0, 9).responses[0].partition_responses[0]
            assert (part.error_code, part.base_offset) == (0, end - 1)
        assert time.monotonic() - started < HANG_S  # one that was missed waits for its timeout
    finally:
        served.close()
