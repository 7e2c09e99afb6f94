"""Classic members of librdkafka continue after nodes were killed, restarted in turn, or paused.

librdkafka forgets every broker that a Metadata answer lacks, and its bootstrap servers with them. After an
answer without brokers, it never sends another request.

The close() of one member has once not returned (cooperative-sticky, commit), and the cause is not known: the
test then shows what librdkafka waits for, which requests lack an answer, and what the coordinator has.
"""

import re
import threading
from collections import defaultdict

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

import bowstring
from tests.support.waiting import HANG_S, pause, wait_until

GROUPS, MEMBERS, PARTITIONS = 3, 3, 6
PACE_S = 0.02
PROGRESS = 20  # records
# Its own reconnect backoff: a member that has only starting nodes fails sooner.
SETTINGS = {
    "auto.offset.reset": "earliest",
    "heartbeat.interval.ms": 1000,
    # To stderr, which pytest keeps: of no use unless a member hangs.
    "log_level": 7,
    "debug": "cgrp,protocol",
}
LAST_CHARACTERS = 40_000
# Longer than any request of librdkafka may take (socket.timeout.ms), so that there is time to look.
CLOSE_S = 120.0


class Member:
    """A consumer in a thread of its own; `seen` has the offsets that its group has read, by partition."""

    def __init__(self, bootstrap, group, topic, strategy, seen, number):
        self.count = 0
        self.seen = seen
        self.group = group
        self.name = f"{group}-{number}"
        self._consumer = Consumer(
            SETTINGS
            | {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "partition.assignment.strategy": strategy,
                "client.id": self.name,
            }
        )
        self._consumer.subscribe([topic])
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)  # a close() may hang
        self._thread.start()

    def _read(self):
        while not self._ends.is_set():
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is None:
                self.seen[message.partition()].add(message.offset())
                self.count += 1
        self._consumer.close()

    def end(self):
        """Returns whether it closed."""
        self._ends.set()
        self._thread.join(CLOSE_S)
        return not self._thread.is_alive()


class Load:
    """Sends to all partitions of all topics; `acked` has the offsets by topic and partition."""

    def __init__(self, bootstrap, topics):
        self.acked = {topic: defaultdict(set) for topic in topics}
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _delivered(self, error, message):
        if error is None:
            self.acked[message.topic()][message.partition()].add(message.offset())

    def _send(self):
        while not self._ends.is_set():
            for topic in self.acked:
                for partition in range(PARTITIONS):
                    self._producer.produce(topic, b"v", partition=partition, on_delivery=self._delivered)
            self._producer.poll(PACE_S)
            self._ends.wait(PACE_S)
        assert self._producer.flush(HANG_S) == 0

    def end(self):
        self._ends.set()
        self._thread.join()


def unanswered(lines):
    """Returns the requests of one librdkafka client, from its lines, that may still have an answer."""
    waiting = {}
    for line in lines:
        thread = re.search(r"\[thrd:(.*?)\]: ", line)
        found = re.search(r"(Sent|Received) (\w+?)(?:Request|Response) .*CorrId (\d+)", line)
        if thread is not None and "|FAIL|" in line:  # its connection has ended
            waiting = {key: name for key, name in waiting.items() if key[0] != thread[1]}
        elif thread is not None and found is not None and found[1] == "Sent":
            waiting[thread[1], found[3]] = found[2]
        elif thread is not None and found is not None:
            waiting.pop((thread[1], found[3]), None)
    return waiting


def end_all(members, admin, capfd):
    """Ends the members; fails with what is known of one whose close() does not return."""
    for each in members:
        if each.end():
            continue
        lines = [line for line in capfd.readouterr().err.splitlines() if f"|{each.name}#" in line]
        try:
            group = admin.describe_consumer_groups([each.group], request_timeout=CLOSE_S / 4)[
                each.group
            ].result()
            known = f"{group.state}, members {[member.client_id for member in group.members]}"
        except KafkaException as error:
            known = repr(error)
        last = "\n".join(line for line in lines if "Fetch" not in line or "OffsetFetch" in line)[
            -LAST_CHARACTERS:
        ]
        pytest.fail(
            f"close() of {each.name} has not returned in {CLOSE_S} s; its coordinator says: {known}; "
            f"unanswered: {unanswered(lines)}; its last lines:\n{last}"
        )


def kill_all(cluster):
    cluster.kill()
    cluster.restart()


def kill_in_turn(cluster):
    for node in cluster.node_ids:
        cluster.kill(node)
        cluster.restart(node)


def restart_in_turn(cluster):
    for node in cluster.node_ids:
        cluster.restart(node)


def stand_still(cluster):
    """Pauses for longer than sessions: the controller fences all brokers when they continue."""
    cluster.pause()
    pause(3, "sessions of brokers end")
    cluster.resume()


@pytest.mark.parametrize("durability", ["commit", "os"])
def test_all_members_go_on(durability, capfd):
    topics = [f"t{number}" for number in range(GROUPS)]
    config = {"bowstring.durability": durability}
    with bowstring.Cluster(3, config=config, linked=False, start_timeout_s=HANG_S) as cluster:
        bootstrap = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for made in admin.create_topics([NewTopic(each, PARTITIONS, 3) for each in topics]).values():
            made.result()
        members, load = [], Load(bootstrap, topics)
        try:
            for number, topic in enumerate(topics):
                strategy = "cooperative-sticky" if number == 0 else "range"
                seen = defaultdict(set)
                members += [
                    Member(bootstrap, f"g{number}", topic, strategy, seen, each) for each in range(MEMBERS)
                ]
            all_go_on(members, "at first")
            for trouble in (kill_all, kill_all, stand_still, kill_in_turn, restart_in_turn):
                trouble(cluster)
                all_go_on(members, f"after {trouble.__name__}")
            load.end()
            for number, topic in enumerate(topics):
                wait_for_all(members[number * MEMBERS].seen, load.acked[topic])
        finally:
            load.end()
            end_all(members, admin, capfd)


def wait_for_all(seen, acked):
    """Waits until a group has read all acknowledged records."""
    wait_until(lambda: all(acked[each] <= seen[each] for each in acked), "all acknowledged records")


def all_go_on(members, when):
    """Waits until every member has read new records."""
    before = {each: each.count for each in members}

    def standing():
        return [each.name for each in members if each.count < before[each] + PROGRESS]

    wait_until(lambda: not standing(), lambda: f"{when} these stand still: {standing()}")
