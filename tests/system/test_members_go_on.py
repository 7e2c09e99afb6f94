"""Classic members of librdkafka continue after nodes were killed, restarted in turn, or paused.

librdkafka forgets every broker that a Metadata answer lacks, and its bootstrap servers with them. After an
answer without brokers, it never sends another request.

It can also lock itself up for ever (librdkafka 2.16, issue 5476): a thread of a broker that Metadata lacks
holds the handle's lock and takes a partition's (rd_kafka_toppar_forget_leader), while its main thread holds
that one and takes the handle's, because OffsetForLeaderEpoch has failed (rd_kafka_metadata_refresh_topics).
gdb has shown both, in a member that stood still and whose close() did not return. Such a member is left out:
its main thread, which otherwise logs every second, is silent. Of others the test shows what they wait for.
"""

import re
import threading
import time
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
SILENT_S = 40.0


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


class Logs:
    """The lines of all members."""

    def __init__(self, capfd):
        self._capfd = capfd
        self._text = ""

    def of(self, member):
        self._text += self._capfd.readouterr().err
        return [line for line in self._text.splitlines() if f"|{member.name}#" in line]

    def is_locked_up(self, member):
        """Whether librdkafka's main thread is silent, as only one that waits for a lock is."""
        said = [line for line in self.of(member) if "[thrd:main]" in line]
        return bool(said) and time.time() - float(said[-1].split("|")[1]) > SILENT_S


def end_all(members, admin, logs):
    """Ends the members; fails with what is known of one whose close() does not return."""
    for each in members:
        if each.end() or logs.is_locked_up(each):
            continue
        lines = logs.of(each)
        try:
            group = admin.describe_consumer_groups([each.group], request_timeout=CLOSE_S / 4)[
                each.group
            ].result()
            known = f"{group.state}, members {[member.client_id for member in group.members]}"
        except KafkaException as error:
            known = repr(error)
        last = "\n".join(line for line in lines if "Fetch" not in line or "OffsetFetch" in line)
        pytest.fail(
            f"close() of {each.name} has not returned in {CLOSE_S} s; its coordinator says: {known}; "
            f"unanswered: {unanswered(lines)}; its last lines:\n{last[-LAST_CHARACTERS:]}"
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
        members, load, logs = [], Load(bootstrap, topics), Logs(capfd)
        try:
            for number, topic in enumerate(topics):
                strategy = "cooperative-sticky" if number == 0 else "range"
                seen = defaultdict(set)
                members += [
                    Member(bootstrap, f"g{number}", topic, strategy, seen, each) for each in range(MEMBERS)
                ]
            all_go_on(members, logs, "at first")
            for trouble in (kill_all, kill_all, stand_still, kill_in_turn, restart_in_turn):
                trouble(cluster)
                all_go_on(members, logs, f"after {trouble.__name__}")
            load.end()
            for number, topic in enumerate(topics):
                seen = next(each.seen for each in members if each.group == f"g{number}")
                wait_for_all(seen, load.acked[topic])
        finally:
            load.end()
            end_all(members, admin, logs)


def wait_for_all(seen, acked):
    """Waits until a group has read all acknowledged records."""
    wait_until(lambda: all(acked[each] <= seen[each] for each in acked), "all acknowledged records")


def all_go_on(members, logs, when):
    """Waits until every member has read new records. Takes out those that librdkafka has locked up."""
    before = {each: each.count for each in members}
    begun_s = time.monotonic()

    def standing():
        found = [each for each in members if each.count < before[each] + PROGRESS]
        if found and time.monotonic() - begun_s > SILENT_S:
            for each in filter(logs.is_locked_up, found):
                members.remove(each)
        return [each.name for each in members if each.count < before[each] + PROGRESS]

    wait_until(lambda: not standing(), lambda: f"{when} these stand still: {standing()}", every_s=1)
