"""Loads on coordinators: their loop, their figures, and each of them once on a broker."""

import os
import socket
import struct
import threading

import pytest

from bench.coordinators import figures
from bench.coordinators.loads import LOADED_PARTITION, LOADS, OFFSETS_PARTITIONS, Order, groups_of
from bench.coordinators.loop import Loop
from bench.coordinators.storms import STORMS
from bench.coordinators.transactions import transactions
from bench.peers.tools import parse_timed
from bowstring.protocol.partitioning import coordinator_partition
from tests.support.addresses import own_address


@pytest.fixture
def echo():
    """A server that answers each frame with the same frame, cut into pieces."""
    with socket.create_server((own_address(), 0)) as server:

        def serve():
            connection, _ = server.accept()
            with connection:
                while data := connection.recv(7):
                    connection.sendall(data)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"{own_address()}:{server.getsockname()[1]}"
        thread.join()


def test_answers_in_order_however_they_are_cut(echo):
    answers = []
    with Loop(echo) as loop:
        wire = loop.connect()
        for number in range(20):
            data = bytes([number]) * (number * 3)
            wire.send(struct.pack(">i", len(data)) + data, lambda frame, _: answers.append(frame))
        loop.run(lambda: len(answers) == 20)
    assert answers == [bytes([number]) * (number * 3) for number in range(20)]


def test_timers_fire_in_their_order(echo):
    fired = []
    with Loop(echo) as loop:
        loop.connect()
        for when in (2.0, 1.0, 3.0):
            loop.at(when, lambda when=when: fired.append(when))
        loop.run(lambda: len(fired) == 3)
    assert fired == [1.0, 2.0, 3.0]


def test_a_load_that_does_not_end(echo):
    with Loop(echo) as loop, pytest.raises(TimeoutError):
        loop.connect()
        loop.run(lambda: False, 0.01)


def test_percentiles():
    seconds = [each / 1000 for each in range(1, 101)]
    assert figures.percentile_ms(seconds, 0.5) == pytest.approx(51)
    assert figures.percentile_ms([], 0.5) == 0
    assert figures.latencies_ms(seconds[::-1])["max_ms"] == pytest.approx(100)


def test_groups_of_one_coordinator():
    names = groups_of(LOADED_PARTITION, 3)
    assert len(set(names)) == 3
    assert {coordinator_partition(name, OFFSETS_PARTITIONS) for name in names} == {LOADED_PARTITION}


def test_the_line_of_the_java_tool():
    found = parse_timed(["noise", "count=20 seconds=0.500000 p50_us=10.5 p99_us=99.0"])
    assert found == {"count": 20, "seconds": 0.5, "p50_us": 10.5, "p99_us": 99.0}


NUMBERS = {
    "members": 6,
    "groups": 2,
    "interval_s": 0.1,
    "warm_seconds": 0.1,
    "seconds": 2.0,  # a busy machine answers nothing in a tenth of it
    "partitions": 4,
}


@pytest.mark.parametrize("load", ["classic-heartbeats", "consumer-heartbeats", "commits"])
def test_a_load_on_a_broker(served, load):
    served.create_topic("t", 4)
    order = Order(load, f"127.0.0.1:{served.broker.port}", os.getpid(), "t", NUMBERS)
    found = LOADS[load](order)
    assert found["p99_ms"] > 0


def test_transactions_on_a_broker(served):
    served.create_topic("t", 4)
    numbers = {"producers": 2, "partitions": 4, "warm_seconds": 0.1, "seconds": 2.0}
    order = Order("transactions", f"127.0.0.1:{served.broker.port}", os.getpid(), "t", numbers)
    assert transactions(order)["commits_per_second"] > 0


@pytest.mark.parametrize("storm", STORMS)
def test_a_storm_on_a_broker(served, storm):
    served.create_topic("t", 1)
    numbers = {"connections": 3, "topics": 5, "warm_seconds": 0.1, "seconds": 0.5}
    order = Order(storm, f"127.0.0.1:{served.broker.port}", os.getpid(), "t", numbers)
    assert STORMS[storm](order)["per_second"] > 0
