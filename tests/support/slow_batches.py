"""Helpers for batches that wait for the control thread: count, take and finish them, and producers that send them."""

import threading
import uuid

from bowstring._native.record.decode import decode_batches
from tests.support.plane_requests import batch, produce
from tests.support.waiting import HANG_S, wait_until

GZIP = 1


def take(served, count):
    taken = []
    wait_until(lambda: taken.extend(served.plane.take_requests()) or len(taken) >= count, f"{count} batches")
    return taken


def counts(served):
    found = served.plane.counters()["slow_batches"]
    return found["waiting_bytes"], found["working_bytes"], found["parked_connections"]


def zipped(served, name="zipped", partitions=1, **config):
    served.add_topic(name, uuid.uuid4().bytes, partitions, compression=GZIP, **config)
    return name


def await_none_counted(served):
    """Waits until no batch waits and all counters are 0."""
    wait_until(lambda: counts(served) == (0, 0, 0), "counted bytes are all given back")


def values_in(served, name="zipped", partition=0):
    log, records = served.logs[name, partition], []
    while len(records) < log.log_end_offset:
        records += decode_batches(log.read(len(records), 1 << 30))
    return [record.value for record in records]


class Crowd:
    """Producers of one slow topic, each with requests in flight, and a control thread that finishes their batches."""

    def __init__(self, served, clients, requests, size, topic="zipped"):
        self.served, self.requests, self.topic = served, requests, topic
        self.size = size
        self.clients = [served.client() for _ in range(clients)]
        self.answers = [[] for _ in range(clients)]
        self.threads = [
            threading.Thread(target=run, args=(number,))
            for number in range(clients)
            for run in (self.send, self.receive)
        ]
        for thread in self.threads:
            thread.start()

    def value(self, number, each):
        return b"%d:%d:" % (number, each) + bytes(self.size)

    def send(self, number):
        for each in range(self.requests):
            data = batch(self.value(number, each))
            self.clients[number].send(produce(data, 9, topic=self.topic, timeout_ms=60_000), 9)

    def receive(self, number):
        self.clients[number].socket.settimeout(HANG_S)
        for _ in range(self.requests):
            part = self.clients[number].receive(0, 9).responses[0].partition_responses[0]
            self.answers[number].append((part.error_code, part.base_offset))

    def finish_all(self, most):
        """Finishes every batch; checks each time that the waiting bytes stay below `most`."""
        left = len(self.clients) * self.requests
        while left:
            for slow in self.served.plane.take_requests():
                assert counts(self.served)[0] <= most
                self.served.plane.finish_batch(slow, slow.batch)
                left -= 1
        for thread in self.threads:
            thread.join()

    def check(self):
        """Checks that all were answered, and that each producer's batches are in the log in the order it sent them."""
        found = {}
        for value in values_in(self.served, self.topic):
            number, each, _ = value.split(b":", 2)
            found.setdefault(int(number), []).append(int(each))
        assert found == {number: list(range(self.requests)) for number in range(len(self.clients))}
        for told in self.answers:
            assert [error for error, _ in told] == [0] * self.requests
            assert [offset for _, offset in told] == sorted(offset for _, offset in told)
